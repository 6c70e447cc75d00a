"""Room of accounting: what is claimed of a release is no less than what it costs."""

import math
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import dp_accounting as dp
import jax
import numpy as np
import pytest
from builders import taken_in, worst_pattern
from events import ADD, REPLACE, Gaussian, Times, bit, sgd
from museum.exhibits import exhibit
from scipy import optimize, stats
from scipy.signal import fftconvolve

import privopt
from privopt.accounting import ZCDPOdometer, advanced_epsilon, optimal_epsilon
from privopt.audit import least_epsilon
from privopt.factorisations import SeriesFactorisation, TreeFactorisation
from privopt.mechanisms import AllRecords, ClippedGradient, PoissonBatches, PrivateGradient
from privopt.privacy import (
    Guarantee,
    calibrate,
    epsilon,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_noise_multiplier,
    pure_event,
    renyi_divergence,
)
from privopt.privacy.renyi import renyi_epsilon, zcdp_delta
from privopt.spec import Budget

ORDERS = np.array([1.5, 2.0, 3.0, 5.0, 8.0, 16.0, 32.0, 64.0])


def converted(orders, divergences, delta):
    """The usual conversion of divergences, without a floor."""
    found = divergences + np.log1p(-1.0 / orders) - np.log(delta * orders) / (orders - 1.0)
    return float(np.min(found))


def by_renyi(noise, relation):
    return epsilon(Gaussian(noise), 1e-5, relation=relation, accountant="renyi").upper


@exhibit(by_renyi, lambda noise, relation: by_renyi(noise, ADD))
def test_a_replaced_record_moves_a_sum_twice(claimed):
    """Divergences of noise that forget that a record goes *and* comes: the exact curve, doubled."""
    for noise in (0.5, 1.0, 4.0):
        for relation in (ADD, REPLACE):
            exact = gaussian_epsilon(1e-5, mu=relation.multiple / noise)
            assert claimed(noise, relation) >= exact.lower
        assert claimed(2.0 * noise, REPLACE) == pytest.approx(claimed(noise, ADD), rel=1e-9)


RATE, STEPS = 0.01, 20


def of_a_full_batch(budget):
    """Noise for all records, scaled to the share that a record has in a batch."""
    return RATE * gaussian_noise_multiplier(budget, STEPS)


@exhibit(
    lambda budget: calibrate(lambda noise: sgd(noise, RATE, STEPS), budget),
    lambda budget: 4.0 * RATE * math.sqrt(STEPS * -math.log(budget.delta)) / budget.epsilon,
    of_a_full_batch,
)
def test_noise_of_a_closed_form_is_asked_of_an_accountant(noise_for):
    """A formula outside its regime, or for full batches: the event, priced over a grid."""
    for target in (0.1, 1.0, 8.0):
        event = sgd(noise_for(Budget(epsilon=target, delta=1e-8, relation=ADD)), RATE, STEPS)
        assert Guarantee(event, ADD).epsilon(1e-8).lower <= target


def naive_divergence(event, relation, orders):
    """Log of a moment in float64: at an order next to one the moment rounds to one."""
    x, width = np.linspace(-60.0, 60.0, 24_001, retstep=True)
    q, z = event.sampling_probability, event.event.noise_multiplier
    ratio = 1.0 - q + q * np.exp((x - 0.5) / z**2)
    moments = [np.sum(stats.norm.pdf(x / z) / z * ratio**a) * width for a in orders]
    return np.maximum(0.0, np.log(np.round(moments, 15))) / (np.asarray(orders) - 1.0)


@exhibit(renyi_divergence, naive_divergence)
def test_an_order_next_to_one_proves_nothing_new(divergences):
    """An order whose moment rounds to one makes all private: the answer beside the exact one."""
    event, orders = sgd(4.0, 0.1).event, np.append(1.0 + 1e-13, ORDERS)
    found = renyi_epsilon(orders, divergences(event, ADD, orders), 1e-5)
    assert found >= Guarantee(event, ADD).epsilon(1e-5).lower > 0.0


@exhibit(
    lambda event, delta: epsilon(event, delta, relation=ADD, accountant="renyi").upper,
    lambda event, delta: converted(ORDERS, renyi_divergence(event, ADD, ORDERS), delta),
)
def test_epsilon_is_never_negative(claimed):
    """A conversion that falls below zero at large delta: the range over a grid up to one."""
    for delta in (1e-9, 0.01, 0.9, 1.0 - 1e-12):
        for event in (sgd(10.0, 0.01), Gaussian(1.0)):
            assert 0.0 <= claimed(event, delta) < math.inf


def accumulating(batch_size):
    """Eight parts of ten records make a step; the event is that of batches of this size."""
    budget = Budget(epsilon=1.0, delta=1e-5, relation=ADD)
    batches = partial(PoissonBatches.of, n=100, budget=budget, steps=20)
    return batches(80), batches(batch_size).composed(1.0, 20, ADD)


@exhibit(accumulating(80), accumulating(10))
def test_the_rate_is_that_of_what_a_step_adds_up(run):
    """Accumulated parts accounted as one: the rate claimed against records counted in the draws.

    False alarm below 1e-6.
    """
    batches, event = run
    taken = taken_in(batches, 20, 100, jax.random.split(jax.random.key(0), 20)).mean()
    assert event.event.sampling_probability >= taken - 5.0 / math.sqrt(20 * 20 * 100)


@exhibit(
    lambda right, guesses: least_epsilon(guesses, guesses, right, 0.0, 1e-4),
    lambda right, guesses: math.log((right + 1) / (guesses - right + 1)),
)
def test_an_audit_of_nothing_finds_nothing(found):
    """A lower bound without its confidence: coins guessed at random. False alarm at most 6e-3."""
    rng = np.random.default_rng(0)
    for guesses in (50, 500, 5000):
        for right in rng.binomial(guesses, 0.5, size=20):
            assert found(right, guesses) <= 0.0


BAND = np.array([1.0, 0.6, 0.3])


@exhibit(
    lambda steps, times, gap: SeriesFactorisation("band", steps, BAND).sensitivity(times, gap),
    lambda steps, times, gap: SeriesFactorisation("band", len(BAND), BAND).sensitivity(times, gap),
)
def test_coefficients_are_padded_to_the_horizon(sensitivity):
    """A sensitivity over as many steps as there are coefficients: all patterns, one by one."""
    for steps, times, gap in ((3, 3, 1), (9, 3, 1), (10, 2, 2)):
        encoder = SeriesFactorisation("band", steps, BAND).encoder()
        assert sensitivity(steps, times, gap) >= worst_pattern(encoder, times, gap) - 1e-12


def greedy(steps, times, gap):
    """Participations fill a block of a tree only as often as whole gaps fit into it."""
    square = 0
    for height in range(steps.bit_length()):
        within = min(times, max(1, 2**height // gap))
        full, rest = divmod(min(times, (steps >> height) * within), within)
        square += full * within**2 + rest**2
    return math.sqrt(square)


@exhibit(lambda steps, times, gap: TreeFactorisation(steps).sensitivity(times, gap), greedy)
def test_a_tree_counts_every_participation(sensitivity):
    """Participations in a block counted too small: all patterns of small trees, one by one."""
    for steps, times, gap in ((7, 3, 2), (12, 3, 3), (15, 4, 3), (16, 2, 5)):
        encoder = TreeFactorisation(steps).encoder()
        assert sensitivity(steps, times, gap) >= worst_pattern(encoder, times, gap) - 1e-12


def classic(noise, delta):
    return math.sqrt(2.0 * math.log(1.25 / delta)) / noise if noise else 0.0


@exhibit(lambda noise, delta: Guarantee(Gaussian(noise), ADD).epsilon(delta).upper, classic)
def test_no_noise_is_no_privacy(claimed):
    """A quotient by no noise that is guarded by a zero: the edge itself, and its neighbourhood."""
    assert claimed(0.0, 1e-5) == math.inf
    assert claimed(1e-3, 1e-5) > claimed(1.0, 1e-5)


def analytic(budget):
    return gaussian_noise_multiplier(budget)


@exhibit(
    analytic,
    lambda budget: 1.0 / (2.0 * budget.epsilon * analytic(budget)),  # the other root
    lambda budget: analytic(budget) ** 2,
)
def test_gaussian_noise_solves_its_equation(noise_for):
    """The wrong sign of a root, or a variance for a deviation: the closed form on both sides."""
    for target, delta in ((0.1, 1e-6), (1.0, 1e-5), (6.0, 1e-3)):
        noise = noise_for(Budget(epsilon=target, delta=delta, relation=ADD))

        def spent(z, target=target):
            upper = stats.norm.cdf(0.5 / z - target * z)
            return upper - math.exp(target) * stats.norm.cdf(-0.5 / z - target * z)

        assert spent(noise * (1.0 + 1e-6)) <= delta <= spent(noise * 0.999)


@exhibit(
    lambda each, k, slack: advanced_epsilon([(each, k)], slack),
    lambda each, k, slack: each * math.sqrt(2.0 * k) + k * each * math.expm1(each),
)
def test_composition_is_no_better_than_the_optimum(composed):
    """A logarithm missing from advanced composition: the optimum that some releases attain."""
    for each, k in ((0.01, 1000), (0.1, 30), (1.0, 5)):
        assert composed(each, k, 1e-6) >= optimal_epsilon(each, 0.0, k, 1e-6).lower


@exhibit(zcdp_delta, lambda rho, target: math.exp(-(target**2) / (4.0 * rho)))
def test_a_delta_of_concentrated_privacy_is_an_upper_bound(delta_of):
    """A tail about 0 of a loss whose mean is not: Gaussian noise, of that privacy, exactly."""
    for rho, target in ((0.005, 0.3), (0.5, 3.0), (50.0, 60.0)):
        assert delta_of(rho, target) >= gaussian_delta(target, mu=math.sqrt(2.0 * rho)).lower


class Unscaled:
    """Gaussian curves by the difference of two tails, each rounded, the second overflowing."""

    def __init__(self, noise):
        self.mu = 1.0 / noise

    def delta(self, at):
        with np.errstate(over="ignore", invalid="ignore"):
            tails = stats.norm.cdf(np.array([0.5, -0.5]) * self.mu - at / self.mu)
            found = float(np.nan_to_num(tails[0] - np.exp(at) * tails[1]))
        return privopt.Interval(max(found, 0.0), max(found, 0.0))

    def epsilon(self, delta):
        if self.delta(0.0).upper <= delta:
            return privopt.Interval(0.0, 0.0)
        found = optimize.brentq(lambda at: self.delta(at).upper - delta, 0.0, 1e3)
        return privopt.Interval(found, found)


@exhibit(lambda noise: Guarantee(Gaussian(noise), ADD), Unscaled)
def test_epsilon_and_delta_are_inverse_to_each_other(curve_of):
    """A curve that cancels or overflows far out: there and back, over decades of both."""
    for noise, target in ((1e5, 1e-4), (1.0, 3.0), (0.2, 40.0), (0.025, 800.0)):
        curve = curve_of(noise)
        back = curve.epsilon(curve.delta(target).upper * (1.0 + 1e-9)).upper
        assert back == pytest.approx(target, rel=1e-6)


def by_convolution(delta):
    """Of sixteen Gaussian losses: the tails of their sum, by a transform in float64."""
    x, width = np.linspace(-4.0, 4.0, 2**11, endpoint=False, retstep=True)
    whole = np.diff(stats.norm.cdf(np.append(x, 4.0), 1.0 / 32.0, 0.25))
    for _ in range(4):
        whole = fftconvolve(whole, whole)
    losses = 16.0 * x[0] + width * np.arange(whole.size)
    whole, losses = whole[losses > 0.0], losses[losses > 0.0]
    p, q = (np.cumsum(part[::-1])[::-1] for part in (whole, whole * np.exp(-losses)))
    return float(losses[np.argmax(p - np.exp(losses) * q <= delta)])


@exhibit(
    lambda delta: Guarantee(Times(Gaussian(4.0), 16), ADD).epsilon(delta).upper,
    by_convolution,
)
def test_a_tiny_delta_is_not_rounded_away(claimed):
    """A delta below the round-off of a transform, where epsilon jumps: the exact curve."""
    for delta in (1e-6, 1e-10, 1e-14, 1e-18, 1e-22):
        assert claimed(delta) == pytest.approx(gaussian_epsilon(delta, mu=1.0).upper, rel=0.02)


def halved(make_event, budget):
    """Halves an interval until it is short in *noise*, and returns its lower end."""
    low, high = 0.0, 4096.0
    while high - low > 0.1:
        middle = 0.5 * (low + high)
        met = Guarantee(make_event(middle), ADD).epsilon(budget.delta).upper <= budget.epsilon
        low, high = (low, middle) if met else (middle, high)
    return low


def bracketed(make_event, budget):
    """A root within a bracket that was fixed beforehand."""

    def excess(noise):
        return Guarantee(make_event(noise), ADD).epsilon(budget.delta).upper - budget.epsilon

    ends = 0.5, 50.0
    if excess(ends[0]) * excess(ends[1]) > 0.0:
        return min(ends, key=lambda noise: abs(excess(noise)))
    return optimize.brentq(excess, *ends)


@exhibit(calibrate, halved, bracketed)
def test_calibrated_noise_lands_on_the_safe_side(calibrated):
    """Calibration that stops outside, or in a fixed bracket: what is spent, over four decades."""
    for target in (0.01, 0.5, 10.0, 100.0):
        budget = Budget(epsilon=target, delta=1e-6, relation=ADD)
        spent = Guarantee(Gaussian(calibrated(Gaussian, budget)), ADD).epsilon(1e-6).upper
        assert 0.99 * target <= spent <= target


def doubling(make_event, budget):
    """Until it is enough."""
    noise = 1.0
    while Guarantee(make_event(noise), ADD).epsilon(budget.delta).upper > budget.epsilon:
        noise *= 2.0
    return noise


@exhibit(calibrate, doubling)
def test_calibration_ends_where_nothing_is_enough(calibrated):
    """A search without an end: what no noise makes private is refused, within a thousand tries."""
    tries = iter(range(1000))

    def hopeless(noise):
        assert next(tries, None) is not None
        return pure_event(2.0 + 1.0 / (1.0 + noise))

    with pytest.raises(ValueError, match="cannot be met"):
        calibrated(hopeless, Budget(epsilon=1.0, delta=1e-6, relation=ADD))


class Ledger:
    """Enters the step in hand whenever it is read."""

    def __init__(self):
        self.entries = []

    def after(self, event):
        self.entries.append(event)
        return self

    @property
    def epsilon(self):
        self.entries.append(self.entries[-1])
        return Guarantee(dp.ComposedDpEvent(self.entries), ADD).epsilon(1e-5).upper


@exhibit(lambda: ZCDPOdometer(1e-5, ADD, planned=1.0), Ledger)
def test_reading_does_not_write(begun):
    """A ledger that grows when it is read: two readings are equal."""
    ledger = begun().after(Gaussian(4.0))
    assert 0.0 < ledger.epsilon == ledger.epsilon


@exhibit(
    lambda noise, k: Guarantee(Gaussian(noise), ADD).times(k).then(Guarantee(Gaussian(noise), ADD)),
    lambda noise, k: SimpleNamespace(event=dp.ComposedDpEvent([Gaussian(noise)] * 2)),
)
def test_steps_are_counted_and_not_their_entries(ledger):
    """A counter of entries where equal steps share one: noise over the root of the count."""
    spent = Guarantee(ledger(4.0, 15).event, ADD).epsilon(1e-5)
    assert spent.upper >= gaussian_epsilon(1e-5, mu=math.sqrt(16.0) / 4.0).lower


@exhibit(
    lambda orders: renyi_divergence(pure_event(0.5), ADD, orders),
    lambda orders: renyi_divergence(pure_event(0.5), ADD, orders - 1.0 + 1e-9),
)
def test_a_moment_belongs_to_its_order(divergences):
    """Moments whose index is off by one: coins of known bias, summed by hand."""
    (p, _), (q, _) = bit(0.5)
    for order in (2.0, 3.0, 5.0):
        moment = p**order * q ** (1.0 - order) + q**order * p ** (1.0 - order)
        exact = math.log(moment) / (order - 1.0)
        assert divergences(np.array([order]))[0] >= exact * (1.0 - 1e-12)


def planned():
    facts = privopt.ProblemClass(n=1000, dim=2, lipschitz=1.0, radius=1.0)
    budget = Budget(epsilon=1.0, delta=1e-5, relation=REPLACE)
    return PrivateGradient.calibrated(ClippedGradient.of(facts), budget, 10, AllRecords())


TYPED = Guarantee(planned().event(REPLACE), REPLACE)


@exhibit(
    lambda mechanism: Guarantee(mechanism.event(REPLACE), REPLACE),
    lambda mechanism: TYPED,
)
def test_a_guarantee_follows_from_the_numbers_of_the_run(guarantee_of):
    """Numbers changed by hand under an old guarantee: each is moved, and the claim must move."""
    mechanism = planned()
    for changes in ({"steps": 40}, {"scale": 0.5 * mechanism.scale}):
        changed = guarantee_of(replace(mechanism, **changes))
        assert changed.epsilon(1e-5).upper > 1.5 * TYPED.epsilon(1e-5).upper

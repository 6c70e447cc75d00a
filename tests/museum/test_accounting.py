"""Defects of accounting: a claim below the privacy loss of the release."""

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
    """Return the usual conversion of divergences, without a lower limit of 0."""
    found = divergences + np.log1p(-1.0 / orders) - np.log(delta * orders) / (orders - 1.0)
    return float(np.min(found))


def by_renyi(noise, relation):
    return epsilon(Gaussian(noise), 1e-5, relation=relation, accountant="renyi").upper


@exhibit(by_renyi, lambda noise, relation: by_renyi(noise, ADD))
def test_a_replaced_record_moves_a_sum_twice(claimed):
    """Sensitivity without the factor 2 of replace-one; checked by the exact curve."""
    for noise in (0.5, 1.0, 4.0):
        for relation in (ADD, REPLACE):
            exact = gaussian_epsilon(1e-5, mu=relation.multiple / noise)
            assert claimed(noise, relation) >= exact.lower
        assert claimed(2.0 * noise, REPLACE) == pytest.approx(claimed(noise, ADD), rel=1e-9)


RATE, STEPS = 0.01, 20


def of_a_full_batch(budget):
    """Return noise calibrated for all records and scaled by the sampling rate."""
    return RATE * gaussian_noise_multiplier(budget, STEPS)


@exhibit(
    lambda budget: calibrate(lambda noise: sgd(noise, RATE, STEPS), budget),
    lambda budget: 4.0 * RATE * math.sqrt(STEPS * -math.log(budget.delta)) / budget.epsilon,
    of_a_full_batch,
)
def test_noise_of_a_closed_form_is_asked_of_an_accountant(noise_for):
    """Formula outside its range, or for full batches; checked by an accountant over a grid."""
    for target in (0.1, 1.0, 8.0):
        event = sgd(noise_for(Budget(epsilon=target, delta=1e-8, relation=ADD)), RATE, STEPS)
        assert Guarantee(event, ADD).epsilon(1e-8).lower <= target


def naive_divergence(event, relation, orders):
    """Return the logarithm of a moment in float64; near order 1 the moment is rounded to 1."""
    x, width = np.linspace(-60.0, 60.0, 24_001, retstep=True)
    q, z = event.sampling_probability, event.event.noise_multiplier
    ratio = 1.0 - q + q * np.exp((x - 0.5) / z**2)
    moments = [np.sum(stats.norm.pdf(x / z) / z * ratio**a) * width for a in orders]
    return np.maximum(0.0, np.log(np.round(moments, 15))) / (np.asarray(orders) - 1.0)


@exhibit(renyi_divergence, naive_divergence)
def test_an_order_next_to_one_proves_nothing_new(divergences):
    """Moment that is rounded to 1, so that everything is private; checked by the exact answer."""
    event, orders = sgd(4.0, 0.1).event, np.append(1.0 + 1e-13, ORDERS)
    found = renyi_epsilon(orders, divergences(event, ADD, orders), 1e-5)
    assert found >= Guarantee(event, ADD).epsilon(1e-5).lower > 0.0


@exhibit(
    lambda event, delta: epsilon(event, delta, relation=ADD, accountant="renyi").upper,
    lambda event, delta: converted(ORDERS, renyi_divergence(event, ADD, ORDERS), delta),
)
def test_epsilon_is_never_negative(claimed):
    """Conversion with a negative epsilon at large delta; checked over a grid up to 1."""
    for delta in (1e-9, 0.01, 0.9, 1.0 - 1e-12):
        for event in (sgd(10.0, 0.01), Gaussian(1.0)):
            assert 0.0 <= claimed(event, delta) < math.inf


def accumulating(batch_size):
    """Return a run with eight parts of ten records per step, and the event of this batch size."""
    budget = Budget(epsilon=1.0, delta=1e-5, relation=ADD)
    batches = partial(PoissonBatches.of, n=100, budget=budget, steps=20)
    return batches(80), batches(batch_size).composed(1.0, 20, ADD)


@exhibit(accumulating(80), accumulating(10))
def test_the_rate_is_that_of_what_a_step_adds_up(run):
    """Accumulated parts with the sampling rate of one part; checked by counting sampled records.

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
    """Lower bound without a confidence level; checked by random guesses, false alarm below 6e-3."""
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
    """Sensitivity over as many steps as coefficients; checked over all participation patterns."""
    for steps, times, gap in ((3, 3, 1), (9, 3, 1), (10, 2, 2)):
        encoder = SeriesFactorisation("band", steps, BAND).encoder()
        assert sensitivity(steps, times, gap) >= worst_pattern(encoder, times, gap) - 1e-12


def greedy(steps, times, gap):
    """Count participations in a block of a tree by complete gaps only."""
    square = 0
    for height in range(steps.bit_length()):
        within = min(times, max(1, 2**height // gap))
        full, rest = divmod(min(times, (steps >> height) * within), within)
        square += full * within**2 + rest**2
    return math.sqrt(square)


@exhibit(lambda steps, times, gap: TreeFactorisation(steps).sensitivity(times, gap), greedy)
def test_a_tree_counts_every_participation(sensitivity):
    """Too few participations in a block; checked over all patterns of small trees."""
    for steps, times, gap in ((7, 3, 2), (12, 3, 3), (15, 4, 3), (16, 2, 5)):
        encoder = TreeFactorisation(steps).encoder()
        assert sensitivity(steps, times, gap) >= worst_pattern(encoder, times, gap) - 1e-12


def classic(noise, delta):
    return math.sqrt(2.0 * math.log(1.25 / delta)) / noise if noise else 0.0


@exhibit(lambda noise, delta: Guarantee(Gaussian(noise), ADD).epsilon(delta).upper, classic)
def test_no_noise_is_no_privacy(claimed):
    """Division by zero noise that returns zero; checked at zero and near it."""
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
    """Wrong sign of a root, or variance instead of deviation; checked by the closed form."""
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
    """Missing logarithm in advanced composition; checked by the optimal composition."""
    for each, k in ((0.01, 1000), (0.1, 30), (1.0, 5)):
        assert composed(each, k, 1e-6) >= optimal_epsilon(each, 0.0, k, 1e-6).lower


@exhibit(zcdp_delta, lambda rho, target: math.exp(-(target**2) / (4.0 * rho)))
def test_a_delta_of_concentrated_privacy_is_an_upper_bound(delta_of):
    """Tail bound around 0 instead of the mean loss; checked for Gaussian noise."""
    for rho, target in ((0.005, 0.3), (0.5, 3.0), (50.0, 60.0)):
        assert delta_of(rho, target) >= gaussian_delta(target, mu=math.sqrt(2.0 * rho)).lower


class Unscaled:
    """Gaussian curves by the difference of two tails with rounding and overflow."""

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
    """Cancellation or overflow of a curve; checked by inversion over decades of both."""
    for noise, target in ((1e5, 1e-4), (1.0, 3.0), (0.2, 40.0), (0.025, 800.0)):
        curve = curve_of(noise)
        back = curve.epsilon(curve.delta(target).upper * (1.0 + 1e-9)).upper
        assert back == pytest.approx(target, rel=1e-6)


def by_convolution(delta):
    """Return tails of the sum of sixteen Gaussian losses by a Fourier transform in float64."""
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
    """Delta below the rounding error of a transform; checked by the exact curve."""
    for delta in (1e-6, 1e-10, 1e-14, 1e-18, 1e-22):
        assert claimed(delta) == pytest.approx(gaussian_epsilon(delta, mu=1.0).upper, rel=0.02)


def halved(make_event, budget):
    """Bisect until the interval of *noise* is short, and return its lower end."""
    low, high = 0.0, 4096.0
    while high - low > 0.1:
        middle = 0.5 * (low + high)
        met = Guarantee(make_event(middle), ADD).epsilon(budget.delta).upper <= budget.epsilon
        low, high = (low, middle) if met else (middle, high)
    return low


def bracketed(make_event, budget):
    """Return a root in a fixed interval."""

    def excess(noise):
        return Guarantee(make_event(noise), ADD).epsilon(budget.delta).upper - budget.epsilon

    ends = 0.5, 50.0
    if excess(ends[0]) * excess(ends[1]) > 0.0:
        return min(ends, key=lambda noise: abs(excess(noise)))
    return optimize.brentq(excess, *ends)


@exhibit(calibrate, halved, bracketed)
def test_calibrated_noise_lands_on_the_safe_side(calibrated):
    """Calibration above the budget, or in a fixed interval; checked over four decades."""
    for target in (0.01, 0.5, 10.0, 100.0):
        budget = Budget(epsilon=target, delta=1e-6, relation=ADD)
        spent = Guarantee(Gaussian(calibrated(Gaussian, budget)), ADD).epsilon(1e-6).upper
        assert 0.99 * target <= spent <= target


def doubling(make_event, budget):
    """Double the noise until it is sufficient."""
    noise = 1.0
    while Guarantee(make_event(noise), ADD).epsilon(budget.delta).upper > budget.epsilon:
        noise *= 2.0
    return noise


@exhibit(calibrate, doubling)
def test_calibration_ends_where_nothing_is_enough(calibrated):
    """Infinite search; checked by a mechanism that is never private, within 1,000 evaluations."""
    tries = iter(range(1000))

    def hopeless(noise):
        assert next(tries, None) is not None
        return pure_event(2.0 + 1.0 / (1.0 + noise))

    with pytest.raises(ValueError, match="cannot be met"):
        calibrated(hopeless, Budget(epsilon=1.0, delta=1e-6, relation=ADD))


class Ledger:
    """Ledger that adds the current step at every read."""

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
    """Ledger that changes when it is read; checked by two reads."""
    ledger = begun().after(Gaussian(4.0))
    assert 0.0 < ledger.epsilon == ledger.epsilon


@exhibit(
    lambda noise, k: Guarantee(Gaussian(noise), ADD).times(k).then(Guarantee(Gaussian(noise), ADD)),
    lambda noise, k: SimpleNamespace(event=dp.ComposedDpEvent([Gaussian(noise)] * 2)),
)
def test_steps_are_counted_and_not_their_entries(ledger):
    """Number of entries instead of steps; checked by the composition of equal steps."""
    spent = Guarantee(ledger(4.0, 15).event, ADD).epsilon(1e-5)
    assert spent.upper >= gaussian_epsilon(1e-5, mu=math.sqrt(16.0) / 4.0).lower


@exhibit(
    lambda orders: renyi_divergence(pure_event(0.5), ADD, orders),
    lambda orders: renyi_divergence(pure_event(0.5), ADD, orders - 1.0 + 1e-9),
)
def test_a_moment_belongs_to_its_order(divergences):
    """Moments with an index that is off by one; checked by sums for randomised response."""
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
    """Changed parameters with the old guarantee; checked by changing each parameter."""
    mechanism = planned()
    for changes in ({"steps": 40}, {"scale": 0.5 * mechanism.scale}):
        changed = guarantee_of(replace(mechanism, **changes))
        assert changed.epsilon(1e-5).upper > 1.5 * TYPED.epsilon(1e-5).upper

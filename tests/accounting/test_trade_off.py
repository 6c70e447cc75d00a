"""Trade-off functions: duality, brute force on finite pairs, closed forms, and never from above."""

import itertools
import math
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from events import Gaussian, Laplace, Poisson, Times
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused
from scipy.stats import laplace as laplace_noise

from privopt.accounting.trade_off import (
    TradeOff,
    from_profile,
    sample,
    subsample,
    symmetric,
    symmetrise,
    tensor,
)
from privopt.privacy import Guarantee, gaussian_delta, gaussian_trade_off, pure_event

ALPHAS = np.concatenate([np.linspace(0.0, 1.0, 201), np.geomspace(1e-12, 1e-3, 20)])
LOSSES = [-3.0, -1.0, -0.1, 0.0, 0.1, 0.5, 1.0, 3.0]


def gaussian(mu):
    return symmetric(partial(gaussian_trade_off, mu=mu))


def laplace(mu):
    return symmetric(Guarantee(Laplace(1.0 / mu), "zero_out").trade_off)


def power(f, times, **size):
    """``times`` factors, by squaring."""
    half = power(f, times // 2, **size) if times > 1 else None
    twice = f if half is None else tensor(half, half, **size)
    return tensor(twice, f, **size) if times % 2 and times > 1 else twice


CURVES = {
    "gaussian": gaussian(0.8),
    "strong gaussian": gaussian(6.0),
    "laplace": laplace(1.2),
    "epsilon-delta": from_profile([0.7], [0.05]),
    "several": from_profile([0.0, 0.5, 2.0], [0.5, 0.2, 0.01]),
    "nothing told": TradeOff([1.0], [1.0]),
    "everything told": TradeOff([1.0, 0.0], [0.0, 1.0]),
    "told to nobody": symmetric(lambda alphas: 1.0 - alphas),
    "told to all": symmetric(np.zeros_like),
    "sampled": sample(gaussian(1.5), 0.1),
    "both orders": subsample(gaussian(1.5), 0.1),
    "composed": tensor(gaussian(0.5), laplace(0.5), size=200),
}
EVERY_CURVE = pytest.mark.parametrize("f", CURVES.values(), ids=CURVES)

WEIGHTS = st.lists(st.integers(0, 20), min_size=5, max_size=5).filter(any)
LAWS = st.tuples(WEIGHTS, WEIGHTS).map(lambda both: tuple(np.array(w) / sum(w) for w in both))


def hockey_stick(p, q, loss):
    return np.maximum(q - math.exp(loss) * p, 0.0).sum()


def smallest_error(p, q, alphas):
    """The lower convex envelope of the errors of all deterministic tests."""
    rejected = np.array(list(itertools.product([0.0, 1.0], repeat=len(p))))
    x, y = rejected @ p, (1.0 - rejected) @ q
    with np.errstate(divide="ignore", invalid="ignore"):
        share = (alphas[:, None, None] - x[:, None]) / (x - x[:, None])
        chords = y[:, None] + share * (y - y[:, None])
    chords[~((share >= 0.0) & (share <= 1.0))] = math.inf
    below = np.where(x <= alphas[:, None], y, math.inf).min(axis=1)
    return np.minimum(chords.min(axis=(1, 2)), below)


@EVERY_CURVE
def test_every_curve_is_a_trade_off_function(f):
    alphas = np.linspace(0.0, 1.0, 501)
    curve = f(alphas)
    assert np.all((curve >= 0.0) & (curve <= 1.0 - alphas + 1e-15))
    assert np.all(np.diff(curve) <= 1e-12)
    assert np.all(np.diff(curve, 2) >= -1e-11)
    assert curve[-1] == 0.0
    assert f(0.5).shape == ()
    assert f(np.full((2, 3), 0.5)).shape == (2, 3)
    assert f.inverse().inverse()(alphas) == pytest.approx(curve, abs=1e-12)


@EVERY_CURVE
def test_the_profile_is_the_conjugate_of_the_curve_and_of_its_inverse(f):
    alphas = np.concatenate([np.linspace(0.0, 1.0, 20001), np.geomspace(1e-9, 1e-3, 2000)])
    curve = f(alphas)
    for loss in LOSSES:
        gamma = math.exp(loss)
        conjugate = np.max(1.0 - gamma * alphas - curve)
        assert conjugate - 1e-11 <= f.delta(loss) <= conjugate + 1e-4
        other = 1.0 - gamma + gamma * f.inverse().delta(-loss)
        assert f.delta(loss) == pytest.approx(other, abs=1e-10 * (1.0 + gamma))


@given(LAWS)
def test_a_finite_pair_has_the_errors_and_profiles_of_its_masses(pq):
    f = TradeOff(*pq)
    assert f(ALPHAS) == pytest.approx(smallest_error(*pq, ALPHAS), abs=1e-12)
    assert np.all(f(ALPHAS) <= smallest_error(*pq, ALPHAS) + 1e-15)
    for loss in LOSSES:
        exact = hockey_stick(*pq, loss)
        assert exact - 1e-15 <= f.delta(loss) <= exact + 1e-12
    both = symmetrise(f)
    for loss in (0.0, 0.1, 0.5, 1.0, 3.0):
        worse = max(hockey_stick(*pq, loss), hockey_stick(*pq[::-1], loss))
        assert both.delta(loss) >= worse - 1e-15
    assert np.all(both(ALPHAS) <= np.minimum(f(ALPHAS), f.inverse()(ALPHAS)) + 1e-13)
    ratios = [q / p for p, q in zip(*pq, strict=True) if p and q]
    for gamma in ratios:  # where it is exact
        loss = abs(math.log(gamma))
        worse = max(hockey_stick(*pq, loss), hockey_stick(*pq[::-1], loss))
        assert both.delta(loss) == pytest.approx(worse, abs=1e-11)


@given(LAWS, LAWS, st.floats(0.0, 1.0))
def test_products_and_mixtures_of_laws(pq, other, rate):
    exact = TradeOff(*(np.outer(a, b).ravel() for a, b in zip(pq, other, strict=True)))
    both = tensor(TradeOff(*pq), TradeOff(*other))
    assert both(ALPHAS) == pytest.approx(exact(ALPHAS), abs=1e-12)
    mixed = TradeOff(pq[0], (1.0 - rate) * pq[0] + rate * pq[1])
    assert sample(TradeOff(*pq), rate)(ALPHAS) == pytest.approx(mixed(ALPHAS), abs=1e-12)


@given(LAWS, st.integers(2, 6))
@settings(max_examples=50)
def test_coarse_products_are_lower_in_both_orders(pq, size):
    exact = tensor(TradeOff(*pq), TradeOff(*pq))
    coarse = tensor(TradeOff(*pq), TradeOff(*pq), size=size)
    assert coarse.p.size <= 2 * size + 3
    for f, g in ((exact, coarse), (exact.inverse(), coarse.inverse())):
        assert np.all(g(ALPHAS) <= f(ALPHAS) + 1e-13)
        for loss in LOSSES:
            assert g.delta(loss) >= f.delta(loss) - 1e-13


def fractions(f):
    """The laws of a curve as fractions, which its own slack covers."""
    return [tuple(map(Fraction, masses)) for masses in zip(f.p.tolist(), f.q.tolist(), strict=True)]


@pytest.mark.parametrize("seed", range(10))
def test_no_rounding_error_ever_helps(seed):
    """Against rational arithmetic, with masses over twenty orders of magnitude."""
    rng = np.random.default_rng(seed)

    def law():
        weights = 10.0 ** rng.uniform(-20, 0, 5)
        return weights / weights.sum()

    f, g = TradeOff(law(), law()), TradeOff(law(), law())
    rate = Fraction(float(rng.random() ** 8))
    mixed = [(p, (1 - rate) * p + rate * q) for p, q in fractions(f)]
    product = [(p * r, q * s) for p, q in fractions(f) for r, s in fractions(g)]
    sampled = sample(f, float(rate))
    for curve, exact in ((f, fractions(f)), (sampled, mixed), (tensor(f, g), product)):
        below(curve, exact)
        below(tensor(f, g, size=3), product)
        below(curve.inverse(), [(q, p) for p, q in exact])
        below(symmetrise(curve), exact)


def below(f, exact):
    """Errors not above, divergences not below those of a finite pair of fractions."""
    for loss in (-30.0, -0.1, 0.0, 0.01, 1.0, 5.0, 20.0, 40.0):
        gamma = Fraction(math.exp(loss)) * (1 + Fraction(2) ** -51)  # not below e^loss
        exactly = sum(max(q - gamma * p, 0) for p, q in exact)
        assert Fraction(f.delta(loss)) >= min(1, exactly)  # masses add up to one but for rounding
    for alpha in (0.0, 1e-20, 1e-10, 1e-4, 0.1, 0.5, 0.9, 1.0 - 1e-10, 1.0):
        left, power = Fraction(alpha), Fraction(0)
        for p, q in sorted(exact, key=lambda mass: -mass[1] / mass[0]):
            share = min(Fraction(1), left / p)
            left, power = left - share * p, power + share * q
        assert Fraction(float(f(alpha))) <= max(0, 1 - power)


@pytest.mark.cases(2)
@pytest.mark.parametrize("mu", [0.01, 0.5, 2.0, 6.0])
def test_the_polygon_of_a_curve_is_below_and_close(mu):
    for f, exact in (
        (gaussian(mu), gaussian_trade_off(ALPHAS, mu)),
        (laplace(mu), laplace_noise.cdf(laplace_noise.ppf(1.0 - ALPHAS) - mu)),
    ):
        gap = exact - f(ALPHAS)
        assert np.min(gap) > -1e-12
        assert np.max(gap) < 5e-4
    for loss in (0.0, 0.1, 1.0, 3.0):
        assert gaussian_delta(loss, mu=mu).lower <= gaussian(mu).delta(loss)
        assert gaussian(mu).delta(loss) == pytest.approx(
            gaussian_delta(loss, mu=mu).upper, abs=2e-4
        )


def test_epsilon_delta_by_its_definition():
    for loss, delta in ((0.0, 0.0), (0.7, 0.0), (2.0, 1e-3), (0.0, 0.4), (5.0, 1.0)):
        lines = (1 - delta - math.exp(loss) * ALPHAS, math.exp(-loss) * (1 - delta - ALPHAS))
        f = from_profile([loss], [delta])
        assert f(ALPHAS) == pytest.approx(np.maximum(0.0, np.maximum(*lines)), abs=1e-13)
        assert f.delta(loss) == pytest.approx(delta, rel=1e-9, abs=1e-13)


@given(st.dictionaries(st.floats(0.0, 8.0), st.floats(0.0, 1.0), min_size=1, max_size=6))
def test_from_profile_is_the_largest_of_the_single_statements(statements):
    losses = sorted(statements)
    deltas = [statements[loss] for loss in losses]
    singles = [from_profile([loss], [delta])(ALPHAS) for loss, delta in statements.items()]
    found = from_profile(losses, deltas)(ALPHAS)
    assert found == pytest.approx(np.max(singles, axis=0), abs=1e-10)


def test_compositions_of_gaussian_pure_and_laplace_releases():
    both = tensor(gaussian(0.6), gaussian(0.8))
    gap = gaussian_trade_off(ALPHAS, 1.0) - both(ALPHAS)
    assert np.min(gap) > -1e-12
    assert np.max(gap) < 1e-4
    pure = power(from_profile([0.1], [0.0]), 100)  # Kairouz, Oh and Viswanath
    assert 0.125688390241 <= pure.delta(1.0) < 0.1260
    assert 4.77456758811 <= pure.epsilon(1e-6) < 4.78
    approximate = power(from_profile([0.2], [1e-8]), 30)
    assert 5.08024678906 <= approximate.epsilon(1e-6) < 5.0803
    assert 4.692667 - 2e-5 < power(laplace(0.1), 100).epsilon(1e-6) < 4.70
    assert not tensor(CURVES["everything told"], laplace(1.0))(ALPHAS).any()


def test_symmetrising_last_is_tighter_and_agrees_with_the_guarantee():
    """1000 Poisson steps at rate 0.01 and unit noise: certified epsilon 1.828231 at 1e-5."""
    step = sample(gaussian(1.0), 0.01)
    last = symmetrise(power(step, 1000))
    first = power(symmetrise(step), 1000)
    assert 1.828231 < last.epsilon(1e-5) < 1.84
    assert first.epsilon(1e-5) > 1.2 * last.epsilon(1e-5)
    assert np.all(first(ALPHAS) <= last(ALPHAS) + 1e-3)
    steps = Poisson(0.01, Gaussian(1.0))
    proved = Guarantee(Times(steps, 1000), "add_or_remove_one").trade_off(ALPHAS)
    assert np.max(np.abs(proved - last(ALPHAS))) < 1e-3


def test_one_sampled_step_and_the_amplification_of_one_statement():
    """``(epsilon, delta)`` becomes ``(ln(1 + q(e^epsilon - 1)), q delta)``."""
    step = sample(gaussian(1.0), 0.01)
    assert step.delta(0.5) == pytest.approx(2.214519013153e-7, rel=1e-3)
    assert step.inverse().delta(0.5) < 1e-12
    f = subsample(from_profile([1.0], [1e-3]), 0.2)
    amplified = math.log1p(0.2 * math.expm1(1.0))
    assert f.delta(amplified) == pytest.approx(2e-4, rel=1e-6)
    assert f.delta(0.9 * amplified) > 3e-3
    assert sample(step, 0.0)(0.3) == pytest.approx(0.7)
    assert sample(step, 1.0)(ALPHAS) == pytest.approx(step(ALPHAS), abs=1e-12)


def test_epsilon_of_a_curve():
    assert TradeOff([0.75, 0.25], [0.25, 0.75]).epsilon(0.0) == pytest.approx(math.log(3.0))
    assert gaussian(0.5).epsilon(1e-5) == pytest.approx(1.993091404415, rel=1e-4)
    assert CURVES["nothing told"].epsilon(0.1) == 0.0
    assert from_profile([0.0], [0.2]).epsilon(0.1) == math.inf
    half = symmetric(Guarantee(pure_event(0.5), "zero_out").trade_off)
    assert half.epsilon(1e-9) == pytest.approx(0.5, rel=1e-3)


test_bad_arguments_are_named = refused(
    (lambda: TradeOff([1.0], [0.5, 0.5]), "p and q must be laws on one finite set"),
    (lambda: TradeOff([1.5, -0.5], [0.5, 0.5]), "p and q must be laws on one finite set"),
    (lambda: TradeOff([0.5], [0.5]), "p and q must each add up to 1, got 0.5 and 0.5"),
    (lambda: gaussian(1.0)(1.5), r"alpha must lie in \[0, 1\]"),
    (lambda: from_profile([], []), "must be of equal positive length"),
    (lambda: from_profile([-1.0], [0.1]), r"epsilons must increase within \[0, 700\]"),
    (lambda: from_profile([1.0], [1.1]), r"deltas must lie in \[0, 1\]"),
    (lambda: sample(gaussian(1.0), 1.5), r"rate must lie in \[0, 1\], got 1.5"),
    (lambda: gaussian(1.0).epsilon(1.0), r"delta must lie in \[0, 1\), got 1.0"),
)

"""Trade-off functions: closed forms, duality, brute force on finite pairs, and never from above."""

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import laplace as laplace_noise
from scipy.stats import norm

from privopt.accounting.trade_offs import (
    compose,
    composition,
    epsilon,
    epsilon_delta,
    from_profile,
    gaussian,
    group,
    identity,
    inverse,
    laplace,
    minimum_total_error,
    piecewise,
    polygon,
    profile,
    repeat,
    sample,
    subsample,
    symmetrise,
    total_variation,
)
from privopt.privacy import gaussian_delta, gaussian_epsilon

ALPHAS = np.concatenate([np.linspace(0.0, 1.0, 201), np.geomspace(1e-12, 1e-3, 20)])
LOSSES = [-3.0, -1.0, -0.1, 0.0, 0.1, 0.5, 1.0, 3.0]
CURVES = {
    "gaussian": gaussian(0.8),
    "strong gaussian": gaussian(6.0),
    "laplace": laplace(1.2),
    "epsilon-delta": epsilon_delta(0.7, 0.05),
    "identity": identity(),
    "points": piecewise([0.0, 0.1, 0.4], [0.9, 0.5, 0.2]),
    "sampled gaussian": sample(gaussian(1.5), 0.1),
    "its inverse": inverse(sample(gaussian(1.5), 0.1)),
    "sampled laplace": sample(laplace(2.0), 0.3),
    "both orders": subsample(gaussian(1.5), 0.1),
    "composed": compose(gaussian(0.5), laplace(0.5), size=200),
    "group": group(epsilon_delta(0.5, 0.01), 3),
    "nothing hidden": gaussian(math.inf),
    "nothing hidden but rarely": sample(laplace(math.inf), 0.25),
}
EVERY_CURVE = pytest.mark.parametrize("f", CURVES.values(), ids=CURVES)


def masses(min_size=1, max_size=5):
    """Two distributions on the same few points, zeros included."""
    weights = st.lists(st.integers(0, 20), min_size=min_size, max_size=max_size)
    both = st.tuples(weights, weights).filter(lambda w: sum(w[0]) and sum(w[1]))
    return both.map(lambda w: _distributions(*w))


def _distributions(p, q):
    size = max(len(p), len(q))
    p, q = (np.array(w + [0] * (size - len(w)), dtype=float) for w in (p, q))
    return p / p.sum(), q / q.sum()


def corners_by_brute_force(p, q):
    """Errors of all deterministic tests that there are: every subset of outcomes is rejected."""
    rejected = np.array(list(itertools.product([0.0, 1.0], repeat=len(p))))
    return rejected @ p, (1.0 - rejected) @ q


def pair(p, q):
    """The trade-off function of a finite pair, by no other way than its errors."""
    return piecewise(*(np.clip(errors, 0.0, 1.0) for errors in corners_by_brute_force(p, q)))


def hockey_stick(p, q, loss):
    return np.maximum(q - math.exp(loss) * p, 0.0).sum()


# --- shape ---------------------------------------------------------------------------------------


@EVERY_CURVE
def test_every_curve_is_a_trade_off_function(f):
    alphas = np.linspace(0.0, 1.0, 501)
    curve = f(alphas)
    assert np.all((curve >= 0.0) & (curve <= 1.0 - alphas + 1e-15))
    assert np.all(np.diff(curve) <= 1e-14)
    assert np.all(np.diff(curve, 2) >= -1e-12)
    assert curve[-1] == 0.0
    assert f(0.5).shape == ()
    assert f(np.full((2, 3), 0.5)).shape == (2, 3)


@EVERY_CURVE
def test_every_profile_is_convex_and_falls(f):
    gammas = np.linspace(0.0, 8.0, 200)
    for g in (f, inverse(f)):
        with np.errstate(divide="ignore"):
            deltas = profile(g, np.log(gammas))
        assert deltas[0] == pytest.approx(1.0)
        assert np.all(np.diff(deltas) <= 1e-13)
        assert np.all(np.diff(deltas, 2) >= -1e-12)
        assert np.all(deltas >= 1.0 - gammas - 1e-15)


@EVERY_CURVE
def test_the_inverse_reflects_at_the_diagonal(f):
    g = inverse(f)
    alphas = np.linspace(0.01, 0.99, 99)
    there = g(alphas)
    inner = (there > 1e-6) & (there < 1.0)
    # f(g(alpha)) = alpha wherever f is strictly decreasing
    assert f(there)[inner] == pytest.approx(alphas[inner], abs=1e-9)
    assert inverse(g)(alphas) == pytest.approx(f(alphas), abs=1e-12)


@EVERY_CURVE
def test_the_two_profiles_belong_together(f):
    """``H_gamma(Q, P) = 1 - gamma + gamma H_{1/gamma}(P, Q)``."""
    for loss in LOSSES:
        gamma = math.exp(loss)
        expected = 1.0 - gamma + gamma * f.delta_reversed(-loss)
        assert f.delta(loss) == pytest.approx(expected, abs=1e-11 * (1.0 + gamma))
        assert inverse(f).delta(loss) == pytest.approx(f.delta_reversed(loss), rel=1e-13)


# --- duality -------------------------------------------------------------------------------------


@EVERY_CURVE
def test_the_profile_is_the_conjugate_of_the_curve(f):
    alphas = np.concatenate([np.linspace(0.0, 1.0, 20001), np.geomspace(1e-9, 1e-3, 2000)])
    curve = f(alphas)
    for loss in LOSSES:
        conjugate = np.max(1.0 - math.exp(loss) * alphas - curve)
        assert f.delta(loss) == pytest.approx(conjugate, abs=2e-5)
        assert f.delta(loss) >= conjugate - 1e-12


@EVERY_CURVE
def test_a_polygon_of_tangents_lies_below_and_close(f):
    below = polygon(f)
    gap = f(ALPHAS) - below(ALPHAS)
    assert np.max(gap) < 2e-4
    assert np.min(gap) > -1e-13
    for loss in LOSSES:
        assert below.delta(loss) >= f.delta(loss) * (1.0 - 1e-12)
        assert below.delta(loss) == pytest.approx(f.delta(loss), abs=1e-4)


@pytest.mark.parametrize("mu", [0.01, 0.5, 2.0])
def test_from_profile_is_below_the_curve_and_exact_at_its_points(mu):
    losses = np.linspace(0.0, 6.0 * mu, 61)
    f = gaussian(mu)
    deltas = profile(f, losses)
    below = from_profile(losses, deltas)
    assert profile(below, losses) == pytest.approx(deltas, rel=1e-9, abs=1e-300)
    assert np.all(profile(below, losses) >= deltas)
    gap = f(ALPHAS) - below(ALPHAS)
    assert np.min(gap) > -1e-14
    assert np.max(gap[ALPHAS > 0.0]) < 3e-3
    assert below(ALPHAS) == pytest.approx(inverse(below)(ALPHAS), abs=1e-12)


@given(st.lists(st.tuples(st.floats(0.0, 8.0), st.floats(0.0, 1.0)), min_size=1, max_size=6))
def test_from_profile_is_the_largest_of_the_single_statements(statements):
    losses, deltas = np.array(statements).T
    alphas = np.linspace(0.0, 1.0, 101)
    singles = [epsilon_delta(*statement)(alphas) for statement in statements]
    # the largest of convex functions is convex: nothing is lost by the polygon
    assert from_profile(losses, deltas)(alphas) == pytest.approx(np.max(singles, axis=0), abs=1e-12)


def test_tiny_deltas_survive_the_dual_way():
    f = from_profile([0.0, 1.0, 20.0], [0.3, 1e-30, 1e-200])
    assert f.delta(1.0) == pytest.approx(1e-30, rel=1e-12)
    assert f.delta(20.0) == pytest.approx(1e-200, rel=1e-12)
    assert f.delta(700.0) == pytest.approx(1e-200, rel=1e-12)


# --- closed forms --------------------------------------------------------------------------------


def test_gaussian():
    for mu in (0.1, 1.0, 4.0):
        f = gaussian(mu)
        assert f(ALPHAS) == pytest.approx(norm.sf(norm.ppf(ALPHAS) + mu), rel=1e-9, abs=1e-15)
        assert f.delta(1.0) == gaussian_delta(1.0, mu).upper
        assert inverse(f) is f
        assert symmetrise(f) is f


def test_laplace_is_noise_and_noise_shifted():
    for mu in (0.01, 1.0, 5.0, 50.0):
        f = laplace(mu)
        exact = laplace_noise.cdf(laplace_noise.ppf(1.0 - ALPHAS) - mu)
        assert f(ALPHAS) == pytest.approx(exact, rel=1e-4, abs=1e-15)  # SciPy at alpha = 1e-12
        assert np.all(f(ALPHAS) <= exact * (1 + 1e-4))
        assert f.delta(mu) == 0.0
        assert f.delta(0.0) == pytest.approx(1.0 - math.exp(-mu / 2), rel=1e-14)
    assert tuple(laplace(800.0)([0.0, 0.5, 1.0])) == (1.0, 0.0, 0.0)


@given(st.floats(0.01, 30.0), st.floats(0.0, 1.0))
def test_laplace_is_never_above_its_exact_value(mu, alpha):
    with mpmath.workdps(40):
        few, a = mpmath.exp(-mpmath.mpf(mu)), mpmath.mpf(alpha)
        pieces = [1 - a / few, few * (1 - a)]
        exact = few / (4 * a) if few / 2 <= a <= 0.5 else max(pieces)
        computed = float(laplace(mu)(alpha))
        assert computed <= exact
        assert computed >= exact * (1 - mpmath.mpf("1e-12")) - mpmath.mpf("1e-14")


def test_epsilon_delta_by_its_definition():
    for loss, delta in ((0.0, 0.0), (0.7, 0.0), (2.0, 1e-3), (0.0, 0.4), (5.0, 1.0)):
        lines = (1 - delta - math.exp(loss) * ALPHAS, math.exp(-loss) * (1 - delta - ALPHAS))
        f = epsilon_delta(loss, delta)
        assert f(ALPHAS) == pytest.approx(np.maximum(0.0, np.maximum(*lines)), abs=1e-14)
        assert f.delta(loss) == pytest.approx(delta, rel=1e-12, abs=1e-14)
    assert not epsilon_delta(math.inf, 0.0)(ALPHAS).any()
    assert identity()(ALPHAS) == pytest.approx(1.0 - ALPHAS, abs=1e-14)


def test_piecewise_is_the_convex_envelope():
    f = piecewise([0.1, 0.3, 0.2, 0.2], [0.6, 0.2, 0.9, 0.5])
    assert f([0.0, 0.05, 0.1, 0.2, 0.3, 0.65, 1.0]) == pytest.approx(
        [1.0, 0.8, 0.6, 0.4, 0.2, 0.1, 0.0], abs=1e-14
    )
    assert piecewise([], [])(ALPHAS) == pytest.approx(1.0 - ALPHAS, abs=1e-14)
    cut = piecewise([0.0, 0.5], [0.8, 0.0])
    assert cut([0.0, 0.25, 0.5, 0.75]) == pytest.approx([0.8, 0.4, 0.0, 0.0], abs=1e-14)
    assert (cut.p_only, cut.q_only) == pytest.approx((0.5, 0.2))


def test_minimum_total_error_and_total_variation():
    assert minimum_total_error(gaussian(0.6)) == pytest.approx(2 * norm.cdf(-0.3), rel=1e-13)
    for f in CURVES.values():
        alphas = np.linspace(0.0, 1.0, 20001)
        assert minimum_total_error(f) == pytest.approx(np.min(alphas + f(alphas)), abs=1e-4)
        assert minimum_total_error(f) <= np.min(alphas + f(alphas)) + 1e-15
        assert total_variation(f) == pytest.approx(1.0 - minimum_total_error(f), abs=1e-15)


def test_epsilon_of_a_curve():
    assert epsilon(gaussian(0.5), 1e-5) == pytest.approx(1.993091404415, rel=1e-12)
    assert epsilon(laplace(2.0), 0.0) == 2.0
    assert epsilon(identity(), 0.1) == 0.0
    assert epsilon(gaussian(1.0), 0.0) == epsilon(epsilon_delta(0.0, 0.2), 0.1) == math.inf


# --- finite pairs by brute force -----------------------------------------------------------------


@given(masses())
def test_a_finite_pair_has_the_profiles_of_its_masses(pq):
    p, q = pq
    f = pair(p, q)
    for loss in LOSSES:
        assert f.delta(loss) == pytest.approx(hockey_stick(p, q, loss), abs=1e-12)
        assert f.delta_reversed(loss) == pytest.approx(hockey_stick(q, p, loss), abs=1e-12)
        assert f.delta(loss) >= hockey_stick(p, q, loss) * (1.0 - 1e-12) - 1e-15


@given(masses(max_size=4), masses(max_size=3))
@settings(max_examples=50)
def test_composition_is_the_product_pair(pq, other):
    both = compose(pair(*pq), pair(*other))
    exact = pair(*(np.outer(a, b).ravel() for a, b in zip(pq, other, strict=True)))
    assert both(ALPHAS) == pytest.approx(exact(ALPHAS), abs=1e-12)
    for loss in LOSSES:
        assert both.delta(loss) == pytest.approx(exact.delta(loss), abs=1e-12)


@given(masses(max_size=5), st.floats(0.0, 1.0))
def test_sampling_mixes_the_pair(pq, rate):
    p, q = pq
    f, exact = sample(pair(p, q), rate), pair(p, (1.0 - rate) * p + rate * q)
    assert f(ALPHAS) == pytest.approx(exact(ALPHAS), abs=1e-12)
    assert f.delta(0.3) == pytest.approx(exact.delta(0.3), abs=1e-12)


@given(masses(max_size=5))
def test_symmetrisation_is_the_envelope_of_both_orders(pq):
    p, q = pq
    alpha, beta = (np.clip(errors, 0.0, 1.0) for errors in corners_by_brute_force(p, q))
    exact = piecewise(np.append(alpha, beta), np.append(beta, alpha))
    both = symmetrise(pair(p, q))
    assert both(ALPHAS) == pytest.approx(exact(ALPHAS), abs=1e-9)
    for loss in LOSSES:
        worse = max(hockey_stick(p, q, loss), hockey_stick(q, p, loss))
        assert both.delta(loss) == pytest.approx(worse, abs=1e-9)
        assert both.delta(loss) >= worse - 1e-13


@given(masses(min_size=2, max_size=4), st.integers(2, 5))
@settings(max_examples=50)
def test_groups_iterate_the_power(pq, k):
    f = pair(*pq)
    power = ALPHAS
    for _ in range(k):
        power = np.minimum(1.0 - f(power), 1.0)
    together = group(f, k)(ALPHAS)
    assert together == pytest.approx(1.0 - power, abs=1e-9)


@given(masses(min_size=3, max_size=5), st.integers(2, 6))
@settings(max_examples=50)
def test_coarse_polygons_are_lower(pq, size):
    """A handful of segments for a product of many: both curves give way to the safe side."""
    exact = compose(pair(*pq), pair(*pq))
    coarse = compose(pair(*pq), pair(*pq), size=size)
    assert coarse.p.size <= size
    assert np.all(coarse(ALPHAS) <= exact(ALPHAS) + 1e-12)
    for loss in LOSSES:
        assert coarse.delta(loss) >= exact.delta(loss) - 1e-12


@given(masses(min_size=3, max_size=5), st.integers(3, 6))
@settings(max_examples=50)
def test_cut_tails_are_given_up_to_the_safe_side(pq, size):
    """The tails that a mesh leaves out, here a tenth of all probability and not 1e-18."""
    exact = compose(pair(*pq), pair(*pq))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(composition, "_TAIL", 0.1)
        coarse = compose(pair(*pq), pair(*pq), size=size)
    assert np.all(coarse(ALPHAS) <= exact(ALPHAS) + 1e-12)
    for loss in LOSSES:
        assert coarse.delta(loss) >= exact.delta(loss) - 1e-12
        assert coarse.delta_reversed(loss) >= exact.delta_reversed(loss) - 1e-12
    for f in (exact, coarse):
        assert f.p.sum() + f.p_only == pytest.approx(1.0, abs=1e-12)
        assert f.q.sum() + f.q_only == pytest.approx(1.0, abs=1e-12)


# --- never from above, in rational arithmetic ----------------------------------------------------


def rational_pair(rng):
    """A polygon with corners over twenty orders of magnitude, and its masses as fractions."""

    def errors():
        small = rng.random(4) < 0.5
        return np.sort(np.where(small, 10.0 ** rng.uniform(-18, 0, 4), rng.random(4)))

    alphas, betas = errors(), errors()[::-1]
    points = [(Fraction(0), Fraction(1)), (Fraction(1), Fraction(0))]
    points += [(Fraction(a), Fraction(b)) for a, b in zip(alphas, betas, strict=True)]
    hull = []
    for point in sorted(points):
        while len(hull) > 1 and _turns_down(*hull[-2:], point):
            hull.pop()
        hull.append(point)
    exact = [(x1 - x0, y0 - y1) for (x0, y0), (x1, y1) in itertools.pairwise(hull)]
    return piecewise(alphas, betas), exact


def _turns_down(a, b, c):
    return (b[1] - a[1]) * (c[0] - a[0]) >= (c[1] - a[1]) * (b[0] - a[0])


def rational_product(*factors):
    return [
        tuple(math.prod(masses) for masses in zip(*choice, strict=True))
        for choice in itertools.product(*factors)
    ]


def assert_not_above(f, exact, inverted=False):
    """``f`` against a finite pair of fractions: errors not above, divergences not below."""
    if inverted:
        exact = [(q, p) for p, q in exact]
    with mpmath.workdps(60):
        for loss in (-30.0, -0.1, 0.0, 0.01, 1.0, 5.0, 20.0, 40.0):
            gamma = mpmath.exp(mpmath.mpf(loss))
            gains = (mpmath.mpf(q.numerator) / q.denominator - gamma * p for p, q in _digits(exact))
            delta = mpmath.fsum(max(gain, 0) for gain in gains)
            assert f.delta(loss) >= delta * (1 - mpmath.mpf("1e-40"))
            assert f.delta(loss) <= delta * (1 + mpmath.mpf("1e-8")) + mpmath.mpf("1e-12")
    steep_first = sorted(exact, key=lambda mass: -mass[1] / mass[0])
    for alpha in (0.0, 1e-20, 1e-10, 1e-4, 0.1, 0.5, 0.9, 1.0 - 1e-10, 1.0):
        left, beta = Fraction(alpha), Fraction(1)
        for p, q in steep_first:
            share = min(Fraction(1), left / p)
            left, beta = left - share * p, beta - share * q
        assert Fraction(float(f(alpha))) <= beta
        assert float(f(alpha)) == pytest.approx(float(beta), rel=1e-9, abs=1e-12)


def _digits(exact):
    return [(mpmath.mpf(p.numerator) / p.denominator, q) for p, q in exact]


@pytest.mark.parametrize("seed", range(25))
def test_no_rounding_error_ever_helps(seed):
    rng = np.random.default_rng(seed)
    (f, p_q), (g, r_s) = rational_pair(rng), rational_pair(rng)
    assert_not_above(f, p_q)
    assert_not_above(inverse(f), p_q, inverted=True)
    assert_not_above(compose(f, g), rational_product(p_q, r_s))
    assert_not_above(repeat(f, 3), rational_product(p_q, p_q, p_q))
    rate = Fraction(float(rng.random() ** 8))
    mixed = [(p, (1 - rate) * p + rate * q) for p, q in p_q]
    assert_not_above(sample(f, float(rate)), mixed)
    assert_not_above(inverse(sample(f, float(rate))), mixed, inverted=True)


# --- composition ---------------------------------------------------------------------------------


@given(st.floats(0.0, 5.0), st.floats(0.0, 5.0))
def test_gaussians_compose_by_pythagoras(mu, nu):
    both = compose(gaussian(mu), gaussian(nu))
    assert both.mu == pytest.approx(math.hypot(mu, nu), rel=1e-14)
    assert both.mu >= math.hypot(mu, nu)


def test_polygons_compose_close_to_pythagoras():
    both = compose(polygon(gaussian(0.6)), polygon(gaussian(0.8)))
    exact = gaussian(1.0)
    gap = exact(ALPHAS) - both(ALPHAS)
    assert np.min(gap) > -1e-12
    assert np.max(gap) < 1e-4
    assert exact.delta(1.0) <= both.delta(1.0) <= exact.delta(1.0) * 1.001


def test_pure_releases_compose_optimally():
    """Kairouz, Oh and Viswanath: 100 times epsilon = 0.1, and 30 times (0.2, 1e-8)."""
    f = repeat(epsilon_delta(0.1, 0.0), 100)
    assert f.delta(1.0) == pytest.approx(0.125688390241, rel=1e-8)
    assert epsilon(f, 1e-6) == pytest.approx(4.77456758811, rel=1e-8)
    f = repeat(epsilon_delta(0.2, 1e-8), 30)
    assert epsilon(f, 1e-6) == pytest.approx(5.08024678906, rel=1e-8)


def test_laplace_and_mixed_compositions():
    assert 4.692667 - 2e-5 < epsilon(repeat(laplace(0.1), 100, size=400), 1e-6) < 4.71
    mixed = compose(repeat(gaussian(0.2), 10), laplace(0.5))
    assert 3.335160 - 2e-5 < epsilon(mixed, 1e-6) < 3.337


def test_symmetrising_last_is_tighter():
    """1000 Poisson steps at rate 0.01 and unit noise: certified epsilon 1.828231 at 1e-5."""
    step = sample(gaussian(1.0), 0.01)
    last = symmetrise(repeat(step, 1000, size=500))
    first = repeat(symmetrise(step), 1000, size=500)
    assert 1.828231 < epsilon(last, 1e-5) < 1.85
    assert 3.290438 < epsilon(last, 1e-10) < 3.33
    assert epsilon(first, 1e-5) > 1.2 * epsilon(last, 1e-5)
    assert np.all(first(ALPHAS) <= last(ALPHAS) + 1e-3)


def test_repetition_counts():
    f = epsilon_delta(0.3, 0.01)
    assert repeat(f, 0)(0.3) == pytest.approx(0.7)
    assert repeat(f, 1) is f
    assert repeat(gaussian(0.5), 16).mu == pytest.approx(2.0, rel=1e-14)
    three = compose(compose(f, f), f)
    assert repeat(f, 3)(ALPHAS) == pytest.approx(three(ALPHAS), abs=1e-12)
    assert compose(f, identity())(ALPHAS) == pytest.approx(f(ALPHAS), abs=1e-12)


def test_hopeless_releases_stay_hopeless():
    assert not compose(gaussian(math.inf), laplace(1.0))(ALPHAS).any()
    assert compose(epsilon_delta(math.inf, 0.0), gaussian(1.0)).delta(9.0) == 1.0
    assert repeat(epsilon_delta(1.0, 0.5), 64).delta(3.0) == pytest.approx(1.0)


# --- subsampling ---------------------------------------------------------------------------------


def test_one_poisson_step_at_the_golden_point():
    f = sample(gaussian(1.0), 0.01)
    assert f.delta(0.5) == pytest.approx(2.214519013153e-7, rel=1e-11)
    assert f.delta_reversed(0.5) == 0.0
    assert subsample(gaussian(1.0), 0.01, [0.5]).delta(0.5) == pytest.approx(
        2.214519013153e-7, rel=1e-11
    )
    assert subsample(gaussian(1.0), 0.01).delta(0.5) == pytest.approx(2.2145e-7, rel=1e-3)


@given(st.floats(-6.0, -1e-9), st.floats(-2.0, 1.0), st.floats(-3.0, 3.0))
def test_one_poisson_step_against_quadrature_free_digits(log_rate, log_mu, loss):
    """Remove and add, straight from the tail probabilities where the likelihood ratio crosses."""
    rate, mu = 10.0**log_rate, 10.0**log_mu
    f = sample(gaussian(mu), rate)
    with mpmath.workdps(60):
        q, m, gamma = mpmath.mpf(rate), mpmath.mpf(mu), mpmath.exp(mpmath.mpf(loss))

        def above(order):
            """P and mixture masses of x > c, where mixture / P = order."""
            if order <= 1 - q:
                return mpmath.mpf(1), mpmath.mpf(1)
            c = mpmath.log((order - 1 + q) / q) / m + m / 2
            p = mpmath.ncdf(-c)
            return p, (1 - q) * p + q * mpmath.ncdf(m - c)

        p, mixed = above(gamma)
        remove = mixed - gamma * p
        p, mixed = above(1 / gamma)
        add = (1 - p) - gamma * (1 - mixed)
        for bound, exact in ((f.delta(loss), remove), (f.delta_reversed(loss), add)):
            assert bound >= exact - mpmath.mpf("1e-45")
            assert bound <= exact * (1 + mpmath.mpf("1e-8")) + mpmath.mpf("1e-13")


def test_amplification_of_a_single_statement():
    """``(epsilon, delta)`` becomes ``(ln(1 + q(e^epsilon - 1)), q delta)``."""
    f = subsample(epsilon_delta(1.0, 1e-3), 0.2)
    amplified = math.log1p(0.2 * math.expm1(1.0))
    assert f.delta(amplified) == pytest.approx(2e-4, rel=1e-9)
    assert f.delta(0.9 * amplified) > 3e-3


def test_rates_at_the_ends():
    f = gaussian(1.0)
    assert sample(f, 1.0) is f
    assert sample(f, 0.0)(0.3) == pytest.approx(0.7)
    almost = sample(f, 1.0 - 2.0**-53)
    assert almost.delta(1.0) == pytest.approx(f.delta(1.0), rel=1e-10)
    assert almost.delta_reversed(1.0) == pytest.approx(f.delta(1.0), rel=1e-10)
    rare = sample(f, 1e-300)
    assert rare.delta(1.0) <= 1e-300
    assert rare.delta(0.0) == pytest.approx(1e-300 * f.delta(0.0), rel=1e-6)
    for loss in (-800.0, -math.inf):
        assert almost.delta(loss) == rare.delta(loss) == rare.delta_reversed(loss) == 1.0
    for loss in (800.0, math.inf):
        assert sample(f, 0.5).delta(loss) <= 5e-324
        assert sample(f, 0.5).delta_reversed(loss) == 0.0


# --- groups --------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [gaussian, laplace])
def test_groups_multiply_the_shift(make):
    assert group(make(0.3), 4).mu == pytest.approx(1.2, rel=1e-15)
    assert group(make(0.3), 4).mu >= 1.2
    numerically = group(polygon(make(0.3)), 4)
    gap = make(1.2)(ALPHAS) - numerically(ALPHAS)
    assert np.min(gap) > -1e-12
    assert np.max(gap) < 1e-4


def test_groups_of_a_single_statement():
    """``(k epsilon, delta (e^(k epsilon) - 1) / (e^epsilon - 1))``, attained."""
    f = group(epsilon_delta(0.5, 1e-6), 3)
    assert f.delta(1.5) == pytest.approx(5.367003099e-6, rel=1e-7)
    assert f.delta(1.5) >= 1e-6 * math.expm1(1.5) / math.expm1(0.5)


# --- against what accountants say ----------------------------------------------------------------


def test_epsilon_agrees_with_the_gaussian_curve():
    f = polygon(gaussian(0.7))
    for delta in (1e-2, 1e-6, 1e-10):
        exact = gaussian_epsilon(delta, 0.7).upper
        assert exact <= epsilon(f, delta) <= exact * 1.001


# --- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gaussian(-1.0), "mu must be non-negative, got -1.0"),
        (lambda: laplace(math.nan), "mu must be a real number, got nan"),
        (lambda: gaussian(1.0)(1.5), r"alpha must lie in \[0, 1\]"),
        (lambda: identity()([-0.1]), r"alpha must lie in \[0, 1\]"),
        (lambda: epsilon_delta(-1.0, 0.0), "epsilon must be non-negative, got -1.0"),
        (lambda: epsilon_delta(1.0, 1.1), r"delta must lie in \[0, 1\], got 1.1"),
        (lambda: piecewise([0.1, 2.0], [0.1, 0.1]), r"alphas must be a list of numbers in \[0, 1"),
        (lambda: piecewise([0.1], [math.nan]), r"betas must be a list of numbers in \[0, 1\]"),
        (lambda: piecewise([0.1], [0.1, 0.2]), "alphas and betas must be of equal length, got 1"),
        (lambda: from_profile([], []), "must be of equal positive length, got 0 and 0"),
        (lambda: from_profile([1.0], [0.1, 0.2]), "of equal positive length, got 1 and 2"),
        (lambda: from_profile([-1.0], [0.1]), r"epsilons must be a list of numbers in \[0, 700\]"),
        (lambda: from_profile([1.0], [1.1]), r"deltas must be a list of numbers in \[0, 1\]"),
        (lambda: polygon(gaussian(1.0), [701.0]), r"losses must be a list of numbers in \[0, 700"),
        (lambda: symmetrise(sample(gaussian(1.0), 0.1), [-1.0]), "losses must be a list"),
        (lambda: profile(gaussian(1.0), [math.nan]), "epsilon must be a real number, got nan"),
        (lambda: identity().delta(math.nan), "epsilon must be a real number, got nan"),
        (lambda: sample(gaussian(1.0), math.nan), "rate must be a real number, got nan"),
        (lambda: sample(gaussian(1.0), 1.5), r"rate must lie in \[0, 1\], got 1.5"),
        (lambda: epsilon(gaussian(1.0), 1.0), r"delta must lie in \[0, 1\), got 1.0"),
        (lambda: compose(identity(), identity(), size=1), "size must be an integer of at least 2"),
        (lambda: repeat(identity(), -1), "times must be an integer of at least 0, got -1"),
        (lambda: repeat(identity(), 2.5), "times must be an integer of at least 0, got 2.5"),
        (lambda: group(identity(), 0), "k must be an integer of at least 1, got 0"),
        (lambda: group(identity(), True), "k must be an integer of at least 1, got True"),
    ],
)
def test_bad_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()

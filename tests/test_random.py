"""Random draws: exact laws to float precision, limits of the tails, and cost of the tails.

Extreme words are passed to the transforms directly, because they have tiny probabilities.
Statistical tests use fixed keys; their level is the probability of a false alarm.
"""

from __future__ import annotations

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from builders import ks_p_value
from mpmath import mp
from scipy import special, stats
from selection import few

import privopt
from privopt import random
from privopt.mechanisms import GaussianMechanism
from privopt.mechanisms.calibration import drawable
from privopt.privacy import gaussian_delta
from privopt.spec import Budget, ProblemClass, Relation

LEVEL = 1e-6
SIZE = 200_001
ALL = 2**32 - 1
LAWS = {
    "normal": stats.norm,
    "exponential": stats.expon,
    "laplace": stats.laplace,
    "gumbel": stats.gumbel_r,
    "cauchy": stats.cauchy,
}
laws = pytest.mark.parametrize("name", LAWS)
dtypes = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def fed(monkeypatch, name, rows, dtype):
    """Return the compiled transform of given words, because compilers may cancel operations."""
    words = [np.array(column, np.uint32) for column in zip(*rows, strict=True)]
    monkeypatch.setattr(random, "_words", lambda key, blocks, size: words[: 2 * blocks])
    size = 2 * len(rows) if name == "normal" else len(rows)
    draw = getattr(random, name).__wrapped__  # not what was compiled with other words
    drawn = jax.jit(lambda key: draw(key, (size,), dtype))(jax.random.key(0))
    assert drawn.dtype == dtype
    return np.asarray(drawn)


def uniform(row):
    """Return the exact number that a row of words represents."""
    bits = (row[0] % 2**31) * 2**64 + row[1] * 2**32 + row[2]
    part = (mp.mpf(bits) + mp.mpf(1) / 2) / mp.mpf(2) ** 96
    return 1 - part if row[0] >> 31 else part


def extremes():
    """Return words near every power of two at both ends, and in the middle of the range."""
    rows = []
    for place, half in itertools.product(range(93), (0, 2**95)):
        number = half + (1 << place) + (0b1011 << place >> 3)
        rows.append((number >> 64, number >> 32 & ALL, number & ALL))
    rows += [(top, low, low) for top in (0, 2**31 - 1, 2**31, ALL) for low in (0, ALL)]
    return [(*row, sign, ALL, ALL) for row in rows for sign in (0, ALL)]


@pytest.mark.optimised
@dtypes
@pytest.mark.parametrize("name", ["exponential", "laplace", "gumbel", "cauchy"])
def test_transforms_are_exact_to_some_units_in_the_last_place_up_to_both_ends(
    monkeypatch, name, dtype
):
    """Compare with 60 digits, from 2^-97 to 1 - 2^-97, half of the numbers negative."""
    rows = extremes()
    drawn = fed(monkeypatch, name, rows, dtype)
    with mp.workdps(60):
        for row, found in zip(rows, drawn, strict=True):
            u = uniform(row)
            sign = -1 if row[3] & 1 else 1
            exact = {
                "exponential": lambda u, sign: -mp.log(u),
                "laplace": lambda u, sign: -sign * mp.log(u),
                "gumbel": lambda u, sign: -mp.log(-mp.log(u)),
                "cauchy": lambda u, sign: sign * mp.cot(mp.pi * u / 2),
            }[name](u, sign)
            # The tail's probability at what was found is off by the same relative amount.
            scale = max(1, abs(exact)) if name == "gumbel" else abs(exact)
            assert abs(mp.mpf(float(found)) - exact) <= 6 * np.finfo(dtype).eps * scale


@pytest.mark.optimised
@dtypes
def test_normals_are_exact_to_some_units_in_the_last_place_up_to_both_ends(monkeypatch, dtype):
    """Compare both normals of a pair with 60 digits, in all eight octants of the circle."""
    part = 2**29 // 3
    rows = [
        (*row[:3], part * 8 + octant, 2**31, 0) for row in extremes()[::2] for octant in range(8)
    ]
    first, second = fed(monkeypatch, "normal", rows, dtype).reshape(2, -1)
    with mp.workdps(60):
        angle = (part + mp.mpf(1) / 2 + mp.mpf(2) ** -33 * (dtype is np.float64)) * mp.pi / 2**31
        for row, x, y in zip(rows, first, second, strict=True):
            radius = mp.sqrt(-2 * mp.log(uniform(row)))
            pair = [radius * mp.cos(angle), radius * mp.sin(angle)]
            pair = pair[::-1] if row[3] & 1 else pair
            signs = (-1 if row[3] & 2 else 1, -1 if row[3] & 4 else 1)
            for found, exact, sign in zip((x, y), pair, signs, strict=True):
                error = abs(mp.mpf(float(found)) - sign * exact)
                assert error <= 6 * np.finfo(dtype).eps * radius * mp.sin(angle)


@pytest.mark.optimised
def test_polynomials_are_cosine_and_sine_to_a_unit_in_the_last_place():
    angles = np.linspace(1e-9, math.pi / 4.0, 100_001).astype(np.float32)
    for found, exact in zip(jax.jit(random._circle)(angles), (np.cos, np.sin), strict=True):
        assert found.dtype == np.float32
        np.testing.assert_allclose(
            np.asarray(found, np.float64),
            exact(angles.astype(np.float64)),
            rtol=np.finfo(np.float32).eps,
        )


@pytest.mark.optimised
@dtypes
def test_support_ends_where_the_constants_say(monkeypatch, dtype):
    ends = [(0, 0, 0, sign, 0, 0) for sign in range(8)]
    for name in ("exponential", "laplace"):
        drawn = np.abs(fed(monkeypatch, name, ends, dtype))
        np.testing.assert_allclose(drawn, random.EXPONENTIAL_REACH, rtol=1e-6)
    drawn = fed(monkeypatch, "normal", ends, dtype)
    np.testing.assert_allclose(np.abs(drawn).max(), random.NORMAL_REACH, rtol=1e-6)
    assert np.abs(drawn).min() > 0.0
    assert pytest.approx(11.597, abs=1e-3) == random.NORMAL_REACH
    nothing = fed(monkeypatch, "exponential", [(ALL, ALL, ALL, 0)], dtype)
    assert nothing[0] >= 2.0**-97  # no draw is nothing at all


@pytest.mark.parametrize(
    ("dtype", "name"),
    few(
        itertools.product([np.float32, np.float64], LAWS),
        [*((np.float32, name) for name in LAWS), (np.float64, "normal")],
    ),
)
def test_law_is_the_stated_one_and_no_other(name, dtype):
    """Test by Kolmogorov-Smirnov; a scale that is wrong by 3 % is rejected."""
    shape = (3, SIZE // 3)
    drawn = jax.jit(lambda key: getattr(random, name)(key, shape, dtype))(jax.random.key(5))
    assert drawn.shape == shape
    assert drawn.dtype == dtype
    sample = np.asarray(drawn, np.float64).ravel()
    assert np.unique(np.asarray(drawn)).size > 0.98 * sample.size
    p_value = {
        ratio: ks_p_value(sample, LAWS[name](scale=ratio).cdf) for ratio in (0.97, 1.0, 1.03)
    }
    assert p_value[1.0] > LEVEL
    assert max(p_value[0.97], p_value[1.03]) < LEVEL


def test_normals_of_a_pair_are_independent():
    """Test products, and products of squares, at level 1e-6 each."""
    first, second = np.asarray(random.normal(jax.random.key(6), (2, SIZE), np.float64))
    for x, y in ((first, second), (first**2, second**2), (np.abs(first), second)):
        correlation = np.corrcoef(x, y)[0, 1]
        assert 2.0 * stats.norm.sf(abs(correlation) * math.sqrt(SIZE)) > LEVEL


@pytest.mark.cases(2)
@pytest.mark.parametrize("dim", [1, 2, 9])
def test_norm_laplace_has_a_gamma_radius_and_a_uniform_direction(dim):
    keys = jax.random.split(jax.random.key(dim), 20_000)
    draw = jax.jit(jax.vmap(lambda key: random.norm_laplace(key, dim, np.float32)))
    drawn = np.asarray(draw(keys))
    radius = np.linalg.norm(drawn.astype(float), axis=1)
    assert ks_p_value(radius, stats.gamma(dim).cdf) > LEVEL
    assert ks_p_value(radius, stats.gamma(dim, scale=1.1).cdf) < LEVEL
    assert stats.binomtest(int(np.sum(drawn[:, -1] > 0.0)), len(drawn)).pvalue > LEVEL


@pytest.mark.cases(2)
@pytest.mark.parametrize("name", ["normal", "laplace", "cauchy"])
def test_same_key_same_bits_however_it_is_run(name):
    """Compare compiled, mapped and reshaped draws; another key gives other bits."""
    draw = getattr(random, name)
    keys = jax.random.split(jax.random.key(1), 3)
    one_by_one = np.stack([draw(key, (2, 5), np.float32) for key in keys])
    together = jax.jit(jax.vmap(lambda key: draw(key, (10,), np.float32)))(keys)
    np.testing.assert_allclose(np.asarray(together).reshape(3, 2, 5), one_by_one, rtol=1e-6)
    assert np.unique(one_by_one).size == one_by_one.size
    assert draw(keys[0], (), np.float32).shape == ()


@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.bool_, np.float16, jnp.bfloat16])
@pytest.mark.parametrize("name", ["normal", "exponential", "laplace", "gumbel", "cauchy"])
def test_types_in_which_noise_would_be_rounded_to_zero_are_refused(name, dtype):
    """Test integers: a Laplace variable of scale 1 is rounded to 0 with probability .63."""
    with pytest.raises(ValueError, match="dtype of noise must be float32 or float64, got "):
        getattr(random, name)(jax.random.key(0), (3,), dtype)


@pytest.mark.optimised
def test_draws_need_no_wide_integers():
    with jax.enable_x64(False):
        narrow = random.normal(jax.random.key(2), (7,), jnp.float32)
    np.testing.assert_array_equal(narrow, random.normal(jax.random.key(2), (7,), jnp.float32))


def test_words_of_children_are_those_of_a_split():
    """Compare with ``jax.random.split`` bit by bit, alone and for several keys at once."""
    keys = jax.random.split(jax.random.key(11), 3)
    for count in (1, 7, 1248):
        expected = [
            np.asarray(jax.random.key_data(jax.random.split(key, count))).ravel()[:count]
            for key in keys
        ]
        found = jax.vmap(lambda key, count=count: random.child_words(key, count))(keys)
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(random.child_words(keys[1], count), expected[1])


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_words_are_those_of_the_generator_of_jax(size):
    """Compare with the keys of a split of the key of the stream, bit by bit."""
    key = jax.random.key(4)
    keys = jax.random.split(jax.random.fold_in(key, random._STREAM), 3 * size)
    expected = np.asarray(jax.random.key_data(keys)).reshape(3, size, 2)
    found = np.asarray(random._words(key, 3, size)).reshape(3, 2, size)
    np.testing.assert_array_equal(found, np.moveaxis(expected, 2, 1))


def test_keys_of_rbg_draw_the_same_law():
    keys = jax.random.split(jax.random.key(7, impl="rbg"), 2)
    drawn = [np.asarray(random.normal(key, (20_000,), np.float32), np.float64) for key in keys]
    for sample in drawn:
        assert ks_p_value(sample, stats.norm.cdf) > LEVEL
    assert np.mean(np.isin(*drawn)) < 1e-2


@pytest.mark.parametrize("n", [1, 2, 7, 1000])
def test_an_order_is_a_permutation_with_or_without_float64(n):
    key = jax.random.key(5)
    with jax.enable_x64(True):
        wide = np.asarray(random.order(key, n))
    with jax.enable_x64(False):
        narrow = np.asarray(random.order(key, n))
    np.testing.assert_array_equal(wide, narrow)
    np.testing.assert_array_equal(np.sort(wide), np.arange(n))


def test_all_orders_are_equally_likely():
    keys = jax.random.split(jax.random.key(6), 24_000)
    orders = np.asarray(jax.vmap(lambda key: random.order(key, 4))(keys))
    _, counts = np.unique(orders @ [64, 16, 4, 1], return_counts=True)
    assert counts.size == 24
    assert stats.chisquare(counts).pvalue > LEVEL


def test_no_draw_is_so_large_that_words_would_repeat():
    with pytest.raises(ValueError, match=r"shape must need at most 2\^32 pairs of words, got "):
        random.exponential(jax.random.key(0), (2**16, 2**15 + 1), np.float32)


def test_words_are_no_keys_that_a_loop_would_fold_in():
    """Check that noise does not reveal the noise of other steps."""
    key = jax.random.key(3)
    words = np.stack(random._words(key, 1, 64), axis=-1)
    steps = jax.vmap(jax.random.fold_in, (None, 0))(key, jnp.arange(64))
    assert not np.any(np.all(words == np.asarray(jax.random.key_data(steps)), axis=-1))
    assert len(np.unique(words)) == words.size


# --- what the ends cost ---------------------------------------------------------------------------


def old_reach(dtype):
    """Return the largest normal of one word in the transform of JAX."""
    last = np.nextafter(dtype(1.0), dtype(0.0))
    return float(np.sqrt(dtype(2.0)) * jax.lax.erf_inv(jnp.asarray(last, dtype)))


def finite_delta(reach, shift, epsilon):
    """Return ``delta`` of normals bounded by ``reach`` at a distance ``shift``.

    It is ``int max(p - e^eps q, 0)``. Within a shift of its bound only ``p`` is positive; beyond,
    ``p > e^eps q`` up to a point.
    """
    ndtr = special.ndtr
    alone = ndtr(-reach + shift) - ndtr(-reach)
    point = min(reach, 0.5 * shift - epsilon / shift)
    if point <= -reach + shift:
        return alone
    first = ndtr(point) - ndtr(-reach + shift)
    return alone + first - math.exp(epsilon) * (ndtr(point - shift) - ndtr(-reach))


def planned(epsilon, delta, steps):
    facts = ProblemClass(n=1000, dim=10, lipschitz=1.0, radius=1.0)
    budget = Budget(epsilon=epsilon, delta=delta, relation=Relation.REPLACE_ONE)
    return privopt.dp_gd(facts, budget, steps=steps)


@pytest.mark.parametrize(("epsilon", "delta"), [(8.0, 1e-6), (1.0, 1e-12), (15.0, 1e-6)])
@pytest.mark.parametrize("steps", [1, 1000])
def test_the_end_of_the_tails_leaves_the_claim_of_dp_gd_true(epsilon, delta, steps):
    """Test a record that changes one coordinate; draws that end at 5.42 fail every time."""
    plan = planned(epsilon, delta, steps)
    mechanism = plan.params.mechanism
    shift = mechanism.query.sensitivity(Relation.REPLACE_ONE) / mechanism.scale
    ideal = gaussian_delta(epsilon, mu=shift * math.sqrt(steps)).upper

    def least(reach):
        """Return the probability of outcomes that are impossible for a neighbour."""
        alone = special.ndtr(-reach + shift) - special.ndtr(-reach)
        return -math.expm1(steps * math.log1p(-alone))

    assert least(old_reach(np.float32)) > delta
    assert least(random.NORMAL_REACH) <= ideal + random.end_cost(epsilon, 20.0 * steps) <= delta
    if steps == 1:
        assert finite_delta(old_reach(np.float32), shift, epsilon) > 10.0 * delta
        assert finite_delta(random.NORMAL_REACH, shift, epsilon) <= delta


def test_the_ends_are_paid_from_delta_or_the_budget_is_refused():
    for epsilon in (0.1, 1.0, 8.0, 20.0):
        budget = Budget(epsilon=epsilon, delta=1e-6, relation="zero_out")
        cost = (1.0 + math.exp(epsilon)) * 2.0**-56
        assert random.end_cost(epsilon) == pytest.approx(cost, rel=1e-14)
        assert drawable(budget).delta + cost <= 1e-6
        assert drawable(budget, 2).delta > 1e-6 * (1.0 - 1e-12)
        assert drawable(budget).delta >= 1e-6 - cost * (1.0 + 1e-9) - 1e-21
    pure = Budget(epsilon=1.0, delta=0.0, relation="zero_out")
    assert drawable(pure) == pure
    query = planned(1.0, 1e-6, 1).params.mechanism.query
    budget = Budget(epsilon=1.0, delta=1e-18, relation="replace_one")
    with pytest.raises(ValueError, match=r"delta must exceed 1\.11e-16, .* 1\.1e\+12 numbers"):
        GaussianMechanism.calibrated(query, budget)


def test_noise_never_rises_with_epsilon_and_none_is_refused():
    """Test large epsilons; earlier noise increased above 24 and was refused above 32."""
    query = planned(1.0, 1e-6, 1).params.mechanism.query
    grid = (1.0, 8.0, 16.0, 20.0, 22.0, 23.0, 24.0, 25.0, 26.0, 28.0, 31.0, 33.0, 50.0, 1e4)
    for delta in (1e-3, 1e-6, 1e-12):
        budgets = [Budget(epsilon=epsilon, delta=delta, relation="replace_one") for epsilon in grid]
        lefts = [drawable(budget) for budget in budgets]
        for budget, left in zip(budgets, lefts, strict=True):
            assert left.epsilon <= budget.epsilon
            assert left.delta + random.end_cost(left.epsilon) <= delta
        scales = [GaussianMechanism.calibrated(query, budget).scale for budget in budgets]
        assert scales == sorted(scales, reverse=True)


def test_a_run_is_charged_for_what_it_draws():
    """Check that a run of known size is not charged for 2^40 numbers."""
    mechanism = planned(30.0, 1e-6, 1).params.mechanism
    budget = Budget(epsilon=30.0, delta=1e-6, relation="replace_one")
    alone = GaussianMechanism.calibrated(mechanism.query, budget)
    assert mechanism.scale < 0.9 * alone.scale

"""Selection: the exact law over every neighbouring table, frequencies, invariances, utility.

The law is computed apart from the code, as a softmax.
"""

from __future__ import annotations

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from builders import LEVEL, one_scale_passes
from dp_accounting import NonPrivateDpEvent, NoOpDpEvent
from scipy import stats

from privopt.privacy import ZCDP, Guarantee
from privopt.spec import Budget, Relation
from privopt.statistics import BoundedScores, ExponentialMechanism, pure_release
from privopt.statistics.selection import resolvable

DRAWS = 100_000
relations = pytest.mark.parametrize("relation", list(Relation))
dtypes = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def exact(scores, scale):
    weight = np.exp((scores - scores.max(axis=1, keepdims=True)) / scale)
    return weight / weight.sum(axis=1, keepdims=True)


@jax.jit
def selected(mechanism, keys, scores):
    return jax.vmap(mechanism.select, (0, None))(keys, scores)


def draw(mechanism, scores, draws=DRAWS, seed=0):
    keys = jax.random.split(jax.random.key(seed), draws)
    return np.bincount(np.asarray(selected(mechanism, keys, scores)), minlength=scores.size)


@pytest.mark.parametrize("monotone", [False, True])
@relations
def test_no_neighbouring_table_is_told_apart_by_more_than_epsilon(monotone, relation):
    """Enumerate tables of three scores on a half-integer grid, with all changes by one record."""
    epsilon = 1.0
    query = BoundedScores.of(1.0, monotone=monotone, replacement=1.0)
    budget = Budget(epsilon=epsilon, delta=0.0, relation=relation)
    mechanism = ExponentialMechanism.calibrated(query, budget)
    step = 0.5
    one_sided = monotone and relation is not Relation.REPLACE_ONE
    changes = np.arange(0.0 if one_sided else -1.0, 1.01, step)
    side = np.arange(0.0, 3.01, step)
    tables = np.array([(0.0, *rest) for rest in itertools.product(side, repeat=2)])

    def law(scores):
        return np.log(exact(scores, mechanism.scale))

    worst = 0.0
    for change in itertools.product(changes, repeat=3):
        ratio = law(tables) - law(tables + np.array(change))
        worst = max(worst, np.abs(ratio).max())
    assert 0.6 * epsilon < worst <= epsilon + 1e-6
    assert mechanism.scale == pytest.approx((1.0 if one_sided else 2.0) / epsilon, rel=1e-6)


@dtypes
def test_frequencies_are_the_law_and_no_other(dtype):
    """Chi-square of 10^5 draws for scores 5, 3, 3, 0; a third more or less noise is rejected."""
    scores = jnp.asarray([5.0, 3.0, 3.0, 0.0], dtype)
    budget = Budget(epsilon=1.0, delta=0.0, relation=Relation.ZERO_OUT)
    mechanism = ExponentialMechanism.calibrated(BoundedScores.of(1.0), budget)
    law = exact(np.asarray(scores, np.float64)[None], 2.0)[0]
    np.testing.assert_allclose(law, (0.55010, 0.20237, 0.20237, 0.04516), atol=6e-6)
    found = draw(mechanism, scores)

    def p_value(ratio):
        other = exact(np.asarray(scores, np.float64)[None], 2.0 * ratio)[0]
        return stats.chisquare(found, DRAWS * other / other.sum()).pvalue

    one_scale_passes(p_value, 0.77, 1.3)


@pytest.mark.optimised
def test_scores_count_up_to_a_constant_and_large_ones_do_not_overflow():
    mechanism = ExponentialMechanism(BoundedScores.of(1.0), 2.0)
    scores = jnp.asarray([5.0, 3.0, 3.0, 0.0], jnp.float32)
    plain = draw(mechanism, scores, 1000)
    for shift in (-(2.0**13), 2.0**13):
        np.testing.assert_array_equal(draw(mechanism, scores + shift, 1000), plain)
    huge = jnp.asarray([1e4, -1e4, 3e38, 1e38], jnp.float32)
    assert draw(mechanism, huge, 1000)[2] == 1000


def test_an_excluded_candidate_is_never_taken_and_equal_ones_equally_often():
    scores = jnp.asarray([1.0, -jnp.inf, 1.0])
    found = draw(ExponentialMechanism(BoundedScores.of(1.0), 0.5), scores, 20_000)
    assert found[1] == 0
    assert stats.binomtest(int(found[0]), 20_000).pvalue > LEVEL


@pytest.mark.parametrize("optimal", [1, 2])
def test_the_gap_to_the_best_obeys_its_bound(optimal):
    """Check failure e^-t for t = 1, 2, 3 with five candidates. The others are at the worst gap."""
    mechanism = ExponentialMechanism(BoundedScores.of(1.0), 2.0)
    for t in (1.0, 2.0, 3.0):
        failure = math.exp(-t)
        gap = mechanism.gap_bound(5, failure, optimal=optimal)
        scores = jnp.where(jnp.arange(5) < optimal, 0.0, -gap * (1.0 + 1e-9))
        failed = DRAWS - draw(mechanism, scores, seed=int(t))[:optimal].sum()
        most = failure + 5.0 * math.sqrt(failure / DRAWS)
        assert failed / DRAWS <= most
        assert failed / DRAWS >= 0.3 * failure
    if optimal == 1:
        assert mechanism.gap_bound(5, math.exp(-3.0)) == pytest.approx(9.22, abs=0.005)


@relations
@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1.0, 30.0])
def test_calibrated_noise_meets_the_budget_and_two_percent_less_does_not(
    relation, monotone, epsilon
):
    budget = Budget(epsilon=epsilon, delta=0.0, relation=relation)
    found = ExponentialMechanism.calibrated(BoundedScores.of(0.3, monotone=monotone), budget)
    assert float(np.float32(found.scale)) == found.scale
    assert Guarantee(found.event(relation), relation).epsilon(0.0).upper <= epsilon
    less = found._replace(scale=0.98 * found.scale)
    assert type(less) is ExponentialMechanism
    assert Guarantee(less.event(relation), relation).epsilon(0.0).lower > epsilon


def test_degenerate_scores_and_bad_input():
    relation = Relation.REPLACE_ONE
    budget = Budget(epsilon=1.0, delta=0.0, relation=relation)
    still = ExponentialMechanism.calibrated(BoundedScores.of(0.0), budget)
    assert still.scale == 0.0
    assert still.event(relation) == NoOpDpEvent()
    assert ExponentialMechanism(BoundedScores.of(1.0), 0.0).event(relation) == NonPrivateDpEvent()
    key, mechanism = jax.random.key(0), ExponentialMechanism(BoundedScores.of(1.0), 1.0)
    for bad, got in (
        (jnp.arange(3), "an array of floats with 1 axes, got int"),
        (jnp.zeros((2, 2)), r"an array of floats with 1 axes, got .* of shape \(2, 2\)"),
        ([1.0, 2.0], "an array of floats with 1 axes, got an object of type list"),
        (jnp.zeros(3, jnp.bfloat16), "float32 or float64, got bfloat16"),
        (jnp.zeros(0), "hold at least one, got none"),
    ):
        with pytest.raises(ValueError, match=f"scores must (be )?{got}"):
            mechanism.select(key, bad)
    for failure, optimal in ((0.0, 1), (1.0, 1), (0.1, 0), (0.1, 6)):
        with pytest.raises(ValueError, match=r"(failure|optimal) must lie in"):
            mechanism.gap_bound(5, failure, optimal=optimal)
    with pytest.raises(ValueError, match=r"finite score range under replace_one, got inf"):
        ExponentialMechanism.calibrated(BoundedScores(math.inf, math.inf, False), budget)


def brute_range(changes, relation, limit):
    """Largest ``max - min`` of the change of three scores, one record's contributions on a grid."""
    one = list(itertools.product(changes, repeat=3))
    if relation is not Relation.REPLACE_ONE:
        return max(max(c) - min(c) for c in one)
    moved = [
        tuple(b - a for a, b in zip(left, right, strict=True)) for left in one for right in one
    ]
    allowed = [c for c in moved if max(map(abs, c)) <= limit]
    return max(max(c) - min(c) for c in allowed)


@relations
@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize("replacement", [None, 0.5])
def test_the_range_is_attained_and_never_exceeded(relation, monotone, replacement):
    scores = BoundedScores.of(1.0, monotone=monotone, replacement=replacement)
    changes = (0.0, 0.5, 1.0) if monotone else (-1.0, -0.5, 0.0, 0.5, 1.0)
    limit = 2.0 if replacement is None else replacement
    assert scores.score_range(relation) == brute_range(changes, relation, limit)


@pytest.mark.parametrize(("change", "replacement"), [(-1.0, None), (float("nan"), None), (1, -0.1)])
def test_bad_bounds_fail_with_their_name(change, replacement):
    with pytest.raises(ValueError, match=r"must be non-negative and finite, got"):
        BoundedScores.of(change, replacement=replacement)


def test_the_bounded_range_view_is_a_quarter_of_pure_concentration():
    """``D_alpha <= alpha epsilon^2/8``. The law of the difference is tested with its event."""
    budget = Budget(epsilon=1.5, delta=0.0, relation=Relation.ZERO_OUT)
    found = ExponentialMechanism.calibrated(BoundedScores.of(1.0), budget)
    event = found.bounded_range_event(Relation.ZERO_OUT)
    rho, xi = ZCDP().concentration(event, Relation.ZERO_OUT)
    assert xi == 0.0
    assert rho == pytest.approx(1.5**2 / 8.0, rel=1e-6)


@relations
@pytest.mark.parametrize("epsilon", [1e-20, 1e-3, 1.0, 30.0, 6e5])
def test_a_pure_release_costs_epsilon_and_a_resolvable_one_no_more(relation, epsilon):
    spent = Guarantee(pure_release(epsilon), relation).epsilon(0.0)
    assert spent.upper >= epsilon
    assert spent.lower == pytest.approx(epsilon, rel=1e-11)
    within = Guarantee(pure_release(resolvable(epsilon)), relation).epsilon(0.0)
    assert within.upper <= epsilon
    assert pure_release(0.0) == NoOpDpEvent()
    assert pure_release(math.inf) == NonPrivateDpEvent()


def test_vector_by_the_exponential_mechanism_has_twice_the_noise_of_laplace():
    """Score ``-|y - f|_1`` on a grid: the law is Laplace noise with ``b = 2 Delta/epsilon``.

    The normalising constant does not depend on ``f``, so the noise ``Delta/epsilon`` of the Laplace
    mechanism is private too; the mechanism cannot use this. False alarm 1e-6.
    """
    budget = Budget(epsilon=1.0, delta=0.0, relation=Relation.ZERO_OUT)
    mechanism = ExponentialMechanism.calibrated(BoundedScores.of(1.0), budget)
    assert mechanism.scale == pytest.approx(2.0, rel=1e-6)
    axis = np.arange(-10.0, 11.0)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    draws = 40_000
    keys = jax.random.split(jax.random.key(5), (40, draws // 40))
    scores = jnp.asarray(-np.abs(grid).sum(axis=1))
    select = jax.jit(lambda k: jax.lax.map(lambda each: selected(mechanism, each, scores), k))
    chosen = grid[np.asarray(select(keys)).ravel()]

    def p_value(ratio):
        weight = np.exp(-np.abs(axis) / (2.0 * ratio))
        expected = draws * weight / weight.sum()
        p_values = [
            stats.chisquare(np.bincount((x + 10).astype(int), minlength=21), expected).pvalue
            for x in chosen.T
        ]
        return min(1.0, 2.0 * min(p_values))

    one_scale_passes(p_value, 0.5, 0.95, 1.05)
    assert abs(np.corrcoef(chosen.T)[0, 1]) < 5.0 / math.sqrt(draws)

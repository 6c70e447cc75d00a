"""Variance with a public, and mean with a private, number of records."""

from __future__ import annotations

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from builders import ks_p_value, one_scale_passes
from scipy import stats

from privopt.mechanisms import GaussianMechanism, LaplaceMechanism
from privopt.privacy import Guarantee
from privopt.spec import Budget, Relation
from privopt.statistics import BoundedMean, BoundedVariance, CountedMean

REPLACE = Relation.REPLACE_ONE
relations = pytest.mark.parametrize("relation", list(Relation))
dtypes = pytest.mark.parametrize("dtype", [np.float32, np.float64])
SIZE, LOWER, UPPER = 5, -1.0, 3.0
QUERIES = {
    "variance": BoundedVariance.of(LOWER, UPPER, SIZE),
    "counted": CountedMean.of(LOWER, UPPER),
}
queries = pytest.mark.parametrize("name", QUERIES)
HOSTILE = (math.nan, math.inf, -math.inf, 1e38, -1e38, 1e-45, -0.0, 0.0)
# The second is half a half-width below the centre, which attains 9/(4n) against the upper bound.
RECORDS = (*HOSTILE, 0.0, LOWER, UPPER, 1.0, 0.7)


def twin(name, records, present):
    """Return the answer in NumPy, from the definition."""
    centre, half = 0.5 * (LOWER + UPPER), 0.5 * (UPPER - LOWER)
    known = np.where(np.isnan(records), centre, records)
    y = (np.clip(known, LOWER, UPPER) - centre) / half
    y = y[present]
    if name == "counted":
        return np.array([y.sum(), len(y)])
    return np.array([y.sum(), (y**2 - 0.5).sum()]) / SIZE


def answers(name, dtype, pair):
    answer = jax.jit(type(QUERIES[name]).answer)
    for record, present in pair:
        records = jnp.asarray([record, 0.4, 2.2, -0.9, 1.0], dtype)
        mask = jnp.asarray([present, *[True] * 4])
        yield np.asarray(answer(QUERIES[name], records, mask), np.float64)


@queries
@dtypes
def test_answers_are_those_of_numpy(name, dtype):
    rng, answer = np.random.default_rng(0), jax.jit(QUERIES[name].answer)
    for _ in range(20):
        records = np.concatenate([rng.normal(1.0, 2.0, 4), rng.choice(HOSTILE, 1)]).astype(dtype)
        present = rng.random(5) < 0.8
        found = answer(records, present)
        assert found.dtype == dtype
        tolerance = 1e-12 if dtype is np.float64 else 1e-6
        expected = twin(name, records.astype(float), present)
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.optimised
@queries
@dtypes
@relations
def test_answers_change_by_their_sensitivity_and_no_more(name, dtype, relation):
    pairs = (
        ((one, True), (two, True) if relation is REPLACE else (one, False))
        for one, two in itertools.product(RECORDS, repeat=2)
    )
    changes = [np.subtract(*answers(name, dtype, pair)) for pair in pairs]
    query = QUERIES[name]
    unit = SIZE if name == "variance" else 1
    replaced = relation is REPLACE
    exact = {
        "variance": (2.25, 2.0) if replaced else (1.5, math.sqrt(1.25)),
        "counted": (2.0, 2.0) if replaced else (2.0, math.sqrt(2.0)),
    }[name]
    for power, value in zip((1, 2), exact, strict=True):
        worst = max(np.linalg.norm(change, power) for change in changes)
        claimed = (query.l1_sensitivity if power == 1 else query.sensitivity)(relation)
        assert worst == pytest.approx(value / unit, rel=1e-6)
        assert worst <= claimed <= 1.001 * value / unit + (name == "counted") / 60.0


def test_moments_together_cost_less_than_apart():
    """Two means have the l1 sensitivities 2/n and 1/n, in half-widths."""
    apart = BoundedMean.of(-1.0, 1.0, 1000).l1_sensitivity(REPLACE)
    together = BoundedVariance.of(-1.0, 1.0, 1000).l1_sensitivity(REPLACE)
    assert together == pytest.approx(0.75 * 1.5 * apart, rel=1e-3)


def test_variance_and_means_are_right_and_in_their_ranges():
    rng = np.random.default_rng(1)
    records = rng.uniform(LOWER, UPPER, 1000)
    query = BoundedVariance.of(LOWER, UPPER, 1000)
    moments = query.answer(jnp.asarray(records))
    assert float(query.variance(moments)) == pytest.approx(records.var(), rel=1e-10)
    assert float(query.mean(moments)) == pytest.approx(records.mean(), rel=1e-10)
    counted = QUERIES["counted"]
    assert float(counted.mean(counted.answer(jnp.asarray(records)))) == pytest.approx(
        records.mean(), rel=1e-10
    )
    for noisy in ((9.0, 9.0), (-9.0, -9.0), (0.0, 1e30), (0.0, -1e30)):
        assert 0.0 <= float(query.variance(jnp.asarray(noisy))) <= 4.0
        assert LOWER <= float(query.mean(jnp.asarray(noisy))) <= UPPER
        assert LOWER <= float(counted.mean(jnp.asarray(noisy))) <= UPPER
    empty = counted.answer(jnp.zeros(0))
    assert empty.tolist() == [0.0, 0.0]
    assert float(counted.mean(empty)) == 1.0
    point = BoundedVariance.of(2.0, 2.0, 3)
    assert float(point.variance(point.answer(jnp.asarray([1.0, 2.0, 9.0])))) == 0.0


@pytest.mark.parametrize("kind", [LaplaceMechanism, GaussianMechanism])
@queries
@relations
def test_releases_meet_the_budget(kind, name, relation):
    delta = 1e-6 if kind is GaussianMechanism else 0.0
    budget = Budget(epsilon=0.7, delta=delta, relation=relation)
    mechanism = kind.calibrated(QUERIES[name], budget)
    assert 0.69 < Guarantee(mechanism.event(relation), relation).epsilon(delta).upper <= 0.7
    less = mechanism._replace(scale=0.99 * mechanism.scale)
    assert Guarantee(less.event(relation), relation).epsilon(delta).lower > 0.7


@queries
def test_noise_has_the_stated_scale_and_no_other(name):
    """100,000 releases of both numbers; false alarm 1e-6."""
    query = QUERIES[name]
    budget = Budget(epsilon=1.0, delta=0.0, relation=REPLACE)
    mechanism = LaplaceMechanism.calibrated(query, budget)
    answer = query.answer(jnp.asarray([0.1, 0.4, 2.2, -0.9, 1.0]))
    keys = jax.random.split(jax.random.key(0), 100_000)
    noisy = np.asarray(jax.jit(jax.vmap(mechanism.add_noise, (0, None)))(keys, answer))
    noise = np.ravel(noisy - np.asarray(answer))
    one_scale_passes(
        lambda r: ks_p_value(noise, stats.laplace(scale=r * mechanism.scale).cdf),
        0.95,
        1.05,
    )


@pytest.mark.thorough  # sensitivities and noise are tested
@queries
def test_worst_records_are_no_easier_to_distinguish_than_claimed(name, epsilon_lower_bound):
    """The likelihood ratio finds 0.85 of epsilon, and more with half of the noise.

    False alarm 1e-4 each. The pair of the variance is one bound against half a half-width on the
    other side of the centre.
    """
    query = QUERIES[name]
    budget = Budget(epsilon=1.0, delta=0.0, relation=REPLACE)
    mechanism = LaplaceMechanism.calibrated(query, budget)
    changed = (UPPER, 0.0) if name == "variance" else (UPPER, LOWER)
    pair = [np.asarray(query.answer(jnp.asarray([x, 0.4, 2.2, -0.9, 1.0]))) for x in changed]
    keys = jax.random.split(jax.random.key(1), (2, 200_000))

    def lower_bound(factor):
        weaker = mechanism._replace(scale=factor * mechanism.scale)
        release = jax.jit(jax.vmap(weaker.add_noise, (0, None)))
        noisy = [np.asarray(release(k, jnp.asarray(x))) for k, x in zip(keys, pair, strict=True)]
        ratio = [abs(x - pair[1]).sum(axis=1) - abs(x - pair[0]).sum(axis=1) for x in noisy]
        return epsilon_lower_bound(*ratio)

    assert 0.85 <= lower_bound(1.0) <= 1.0
    assert lower_bound(0.5) > 1.0

"""Means of a public number of records."""

from __future__ import annotations

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from privopt.mechanisms import GaussianMechanism, LaplaceMechanism
from privopt.privacy import Guarantee
from privopt.spec import Budget, Relation
from privopt.statistics import BoundedMean

pytestmark = pytest.mark.optimised

RECORDS = (math.nan, math.inf, -math.inf, -1e30, 1e30, 0.0, -1.0, 0.3, 2.0, 1e-40)
relations = pytest.mark.parametrize("relation", list(Relation))
dtypes = pytest.mark.parametrize("dtype", [np.float32, np.float64])
intervals = pytest.mark.parametrize(
    ("lower", "upper"), [(-1.0, 1.0), (0.0, 5.0), (2.0, 3.0), (-0.3, 0.1), (-4.0, -1.0)]
)


def worst_move(query, relation, dtype):
    answer = jax.jit(type(query).answer)

    def at(record, present):
        records = jnp.asarray([0.4, record, -0.2], dtype)
        return np.asarray(answer(query, records, jnp.asarray([True, present, True])), np.float64)

    worst = 0.0
    for first, second in itertools.product(RECORDS, repeat=2):
        replaced = relation is Relation.REPLACE_ONE
        moved = at(first, True) - (at(second, True) if replaced else at(first, False))
        worst = max(worst, float(np.abs(moved).sum()))
    return worst


@relations
@dtypes
@intervals
def test_the_mean_of_a_public_number_moves_by_its_sensitivity(relation, lower, upper, dtype):
    """``(u - l)/n`` for replacement, whichever bound is the larger: never twice, never half."""
    query = BoundedMean.of(lower, upper, 3)
    worst = worst_move(query, relation, dtype)
    assert worst <= query.sensitivity(relation)
    assert worst == pytest.approx(query.sensitivity(relation), rel=2e-6)
    share = 1.0 if relation is Relation.REPLACE_ONE else 0.5
    assert query.sensitivity(relation) == pytest.approx(share * (upper - lower) / 3, rel=1e-6)
    assert query.l1_sensitivity(relation) == query.sensitivity(relation)


def test_the_divisor_is_public():
    """One record more changes the mean by its share alone."""
    query = BoundedMean.of(0.0, 1.0, 10)
    one, two = (float(query.answer(jnp.full(n, 1.0))) for n in (9, 10))
    assert two - one == pytest.approx(0.05)


@relations
def test_both_laplace_and_gaussian_noise_go_with_a_public_number(relation):
    query = BoundedMean.of(-0.3, 0.1, 17)
    budget = Budget(epsilon=1.0, delta=1e-6, relation=relation)
    for kind in (LaplaceMechanism, GaussianMechanism):
        found = kind.calibrated(query, budget)
        assert Guarantee(found.event(relation), relation).epsilon(1e-6).upper <= 1.0


def test_bad_input_fails_with_its_name():
    for size in (0, -1, 2.0, True):
        with pytest.raises(ValueError, match=f"size must be a positive integer, got {size}"):
            BoundedMean.of(0.0, 1.0, size)
    with pytest.raises(ValueError, match="lower must not exceed upper"):
        BoundedMean.of(1.0, 0.0, 4)

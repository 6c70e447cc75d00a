"""The Laplace mechanism: calibrated in the l1 norm, with noise of that scale and no other.

Statistical tests use fixed keys; their level is the probability that an unlucky key would have
raised a false alarm.
"""

from __future__ import annotations

import math
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dp_accounting import LaplaceDpEvent, NoOpDpEvent
from dp_accounting.pld import privacy_loss_distribution
from scipy import stats

from privopt.mechanisms import ClippedGradient, LaplaceMechanism, RegularisedMinimiser
from privopt.privacy import Guarantee
from privopt.spec import Budget, ProblemClass, Relation
from privopt.statistics import BoundedMean, BoundedSum, Count, Histogram

LEVEL = 1e-6
DRAWS = 200_000
CLASS = ProblemClass(n=1000, dim=7, lipschitz=0.3, radius=1.0, smoothness=1.0)
QUERIES = {
    "gradient": ClippedGradient.of(CLASS),
    "sum": BoundedSum.of(-0.1, 0.3),
    "mean": BoundedMean.of(-0.1, 0.3, 37),
    "histogram": Histogram.logarithmic(0.1, 2.0, 5, mirrored=True),
}
relations = pytest.mark.parametrize("relation", list(Relation))
queries = pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
dtypes = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def pure(epsilon, relation):
    return Budget(epsilon=epsilon, delta=0.0, relation=relation)


@lru_cache
def noise(dtype):
    keys = jax.random.split(jax.random.key(0), DRAWS // 4)
    add_noise = jax.jit(jax.vmap(LaplaceMechanism(None, 0.7).add_noise, (0, None)))
    return np.asarray(add_noise(keys, jnp.zeros(4, dtype)))


@relations
@queries
@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1.0, 30.0])
def test_calibrated_noise_meets_the_budget_and_two_percent_less_does_not(relation, query, epsilon):
    found = LaplaceMechanism.calibrated(query, pure(epsilon, relation))
    assert float(np.float32(found.scale)) == found.scale
    assert found.scale == pytest.approx(query.l1_sensitivity(relation) / epsilon, rel=2e-7)
    assert Guarantee(found.event(relation), relation).epsilon(0.0).upper <= epsilon
    less = found._replace(scale=0.98 * found.scale)
    assert Guarantee(less.event(relation), relation).epsilon(0.0).lower > epsilon


@relations
@queries
def test_the_ledger_adds_up_to_the_claim(relation, query):
    """Four releases at a quarter each cost one."""
    quarter = LaplaceMechanism.calibrated(query, pure(0.25, relation))
    spent = Guarantee(quarter.event(relation), relation).times(4).epsilon(0.0)
    assert spent.upper == pytest.approx(1.0, rel=2e-7)
    assert spent.upper <= 1.0 + 1e-12


def test_gradient_noise_is_that_of_the_l1_norm_not_of_the_euclidean():
    query = QUERIES["gradient"]
    for relation in Relation:
        assert query.l1_sensitivity(relation) == pytest.approx(
            math.sqrt(7) * query.sensitivity(relation), rel=1e-14
        )
        assert query.l1_sensitivity(relation) >= math.sqrt(7) * query.sensitivity(relation)
        minimiser = RegularisedMinimiser.of(CLASS, relation, regularisation=0.1)
        assert minimiser.l1_sensitivity(relation) >= math.sqrt(7) * minimiser.sensitivity(relation)
    diagonal = np.ones(7) * 0.3 / math.sqrt(7)
    assert np.abs(diagonal).sum() / 1000 == pytest.approx(
        query.l1_sensitivity(Relation.ZERO_OUT), rel=1e-5
    )


@relations
def test_the_profile_is_the_closed_form_and_dp_accounting_agrees(relation):
    """``delta(x) = 1 - exp((x - epsilon) / 2)``, of a scalar at its worst."""
    found = LaplaceMechanism.calibrated(QUERIES["sum"], pure(1.0, relation))
    moved = QUERIES["sum"].l1_sensitivity(relation)
    outside = privacy_loss_distribution.from_laplace_mechanism(
        found.scale, sensitivity=moved, value_discretization_interval=1e-4
    )
    for x in (0.0, 0.2, 0.5, 0.9, 1.5):
        exact = max(0.0, -math.expm1(0.5 * (x - moved / found.scale)))
        proved = Guarantee(found.event(relation), relation).delta(x)
        assert proved.lower - 1e-9 <= exact <= proved.upper
        assert proved.upper == pytest.approx(exact, rel=2e-3, abs=1e-12)
        assert outside.get_delta_for_epsilon(x) == pytest.approx(exact, abs=1e-4)


@pytest.mark.parametrize("split", [(0.5, 0.5), (0.1, 0.9), (0.3, 0.3, 0.4)])
def test_a_vector_shows_no_more_than_a_scalar_that_moves_as_far(split):
    """Hockey sticks of the product, by brute force over a grid of losses, at every order."""

    def losses(moved):
        """Loss and probability of one coordinate, finely binned; atoms at both ends."""
        x = np.linspace(-moved, moved, 401)
        middle = 0.5 * (x[1:] + x[:-1])
        mass = 0.5 * np.diff(np.exp(0.5 * (x - moved)))
        return (
            np.r_[-moved, middle, moved],
            np.r_[0.5 * math.exp(-moved), mass, 0.5],
        )

    total, mass = np.zeros(1), np.ones(1)
    for moved in split:
        loss, p = losses(2.0 * moved)
        total = np.add.outer(total, loss).ravel()
        mass = np.multiply.outer(mass, p).ravel()
        if mass.size > 500_000:  # the loss rounded up shows more
            grid = np.linspace(-4.0, 4.0, 2001)
            place = np.searchsorted(grid, total - 1e-12)
            mass = np.bincount(place, mass, grid.size)
            total = grid
    for order in (-1.5, -0.5, 0.0, 0.3, 1.0, 1.7):
        vector = mass @ np.maximum(0.0, -np.expm1(order - total))
        scalar = -math.expm1(0.5 * (order - 2.0))
        assert vector <= scalar + 1e-3


@dtypes
def test_noise_is_laplace_of_the_stated_scale_and_of_no_other(dtype):
    drawn = noise(dtype)
    assert drawn.dtype == dtype
    p_value = {
        ratio: stats.kstest(drawn.ravel(), stats.laplace(scale=0.7 * ratio).cdf).pvalue
        for ratio in (0.96, 1.0, 1.04)
    }
    assert p_value[1.0] > LEVEL
    assert max(p_value[0.96], p_value[1.04]) < LEVEL


def test_moments_tails_and_independence_of_coordinates():
    """Five standard errors: level 6e-7 each."""
    drawn = noise(np.float64)
    size = np.abs(drawn)
    assert size.mean() == pytest.approx(0.7, abs=5 * 0.7 / math.sqrt(DRAWS))
    assert drawn.var() == pytest.approx(2 * 0.7**2, rel=5 * math.sqrt(5.0 / DRAWS))
    for t in (1.0, 3.0):
        p_value = stats.binomtest(int((size > t * 0.7).sum()), DRAWS, math.exp(-t)).pvalue
        assert p_value > LEVEL
    across = np.corrcoef(drawn.T)[np.triu_indices(4, 1)]
    assert np.abs(across).max() < 5.0 / math.sqrt(len(drawn))
    mechanism = LaplaceMechanism(None, 0.7)
    assert np.linalg.norm(drawn, axis=1).mean() <= mechanism.noise_norm(4)


def test_no_noise_is_no_privacy_and_no_sensitivity_needs_no_noise():
    for relation in Relation:
        without = LaplaceMechanism(QUERIES["sum"], 0.0)
        assert without.event(relation) == LaplaceDpEvent(0.0)
        assert Guarantee(without.event(relation), relation).epsilon(0.0).upper == math.inf
    still = LaplaceMechanism.calibrated(Count(), pure(1.0, Relation.REPLACE_ONE))
    assert still.scale == 0.0
    assert still.event(Relation.REPLACE_ONE) == NoOpDpEvent()
    assert still.event(Relation.ZERO_OUT) == LaplaceDpEvent(0.0)


def test_bad_input_fails_with_its_name():
    relation = Relation.ADD_OR_REMOVE_ONE
    curved = ProblemClass(
        n=10, dim=2, lipschitz=1.0, radius=1.0, smoothness=1.0, strong_convexity=1.0
    )
    unbounded = RegularisedMinimiser.of(curved, Relation.REPLACE_ONE, regularisation=0.1)
    with pytest.raises(ValueError, match=r"finite l1 sensitivity under add_or_remove_one, got inf"):
        LaplaceMechanism.calibrated(unbounded, pure(1.0, relation))

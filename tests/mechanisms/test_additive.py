"""Additive noise: calibrated to the budget and no further, with noise of that scale alone."""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from builders import ks_p_value, one_scale_passes
from dp_accounting import LaplaceDpEvent, NoOpDpEvent
from scipy import stats
from selection import choose

from privopt.mechanisms import (
    ClippedGradient,
    GaussianMechanism,
    LaplaceMechanism,
    NormLaplaceMechanism,
    RegularisedMinimiser,
)
from privopt.mechanisms.additive import classic_gaussian_scale
from privopt.privacy import Guarantee
from privopt.spec import Budget, ProblemClass, Relation
from privopt.statistics import BoundedMean, BoundedSum, Count, Histogram

CLASS = ProblemClass(n=1000, dim=7, lipschitz=0.3, radius=1.0, smoothness=1.0)
QUERY = ClippedGradient.of(CLASS)
QUERIES = {
    "gradient": QUERY,
    "sum": BoundedSum.of(-0.1, 0.3),
    "mean": BoundedMean.of(-0.1, 0.3, 37),
    "histogram": Histogram.logarithmic(0.1, 2.0, 5, mirrored=True),
}
PURE = {"laplace": LaplaceMechanism, "norm_laplace": NormLaplaceMechanism}
relations = pytest.mark.parametrize("relation", list(Relation))
dtypes = pytest.mark.parametrize("dtype", [np.float32, np.float64])


class Unit(NamedTuple):
    """A query that moves by one under every relation."""

    def sensitivity(self, relation):
        return 1.0


def pure(epsilon, relation):
    return Budget(epsilon=epsilon, delta=0.0, relation=relation)


def spent(mechanism, relation, delta=0.0, compositions=1):
    event = mechanism.event(relation)
    return Guarantee(event, relation).times(compositions).epsilon(delta)


def meets_and_no_more(mechanism, budget, compositions=1):
    """The budget is kept, by a scale that float32 holds, and two per cent less breaks it."""
    asked = budget.relation, budget.delta, compositions
    assert float(np.float32(mechanism.scale)) == mechanism.scale
    assert spent(mechanism, *asked).upper <= budget.epsilon
    less = mechanism._replace(scale=0.98 * mechanism.scale)
    assert spent(less, *asked).lower > budget.epsilon


# --- calibration ----------------------------------------------------------------------------------


@relations
@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-8), (1.0, 1e-6), (8.0, 1e-3)])
@pytest.mark.parametrize("compositions", [1, 100])
def test_gaussian_noise_meets_the_budget_and_two_percent_less_does_not(
    relation, epsilon, delta, compositions
):
    budget = Budget(epsilon=epsilon, delta=delta, relation=relation)
    for query in (QUERY, RegularisedMinimiser.of(CLASS, relation, regularisation=0.1)):
        mechanism = GaussianMechanism.calibrated(query, budget, compositions=compositions)
        meets_and_no_more(mechanism, budget, compositions)
        multiplier = mechanism.event(relation).noise_multiplier
        expected = mechanism.scale * relation.multiple / query.sensitivity(relation)
        assert multiplier == pytest.approx(expected, rel=1e-14)
        assert multiplier * query.sensitivity(relation) <= mechanism.scale * relation.multiple


@relations
@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1.0, 30.0])
def test_laplace_noise_meets_the_budget_and_two_percent_less_does_not(relation, query, epsilon):
    found = LaplaceMechanism.calibrated(query, pure(epsilon, relation))
    meets_and_no_more(found, pure(epsilon, relation))
    assert found.scale == pytest.approx(query.l1_sensitivity(relation) / epsilon, rel=2e-7)


@relations
@pytest.mark.parametrize("epsilon", [1e-9, 0.1, 1.0, 8.0])
def test_norm_laplace_noise_meets_the_budget_and_two_percent_less_does_not(relation, epsilon):
    """The event is a float64 next to one half: a relative error of 1e-7 at epsilon 1e-9."""
    for n in (1, 1000, 1024):
        problem_class = ProblemClass(n=n, dim=3, lipschitz=1.0, radius=1.0, smoothness=1.0)
        for query in (
            ClippedGradient.of(problem_class),
            RegularisedMinimiser.of(problem_class, relation, regularisation=0.5),
        ):
            found = NormLaplaceMechanism.calibrated(query, pure(epsilon, relation))
            meets_and_no_more(found, pure(epsilon, relation))


def test_no_noise_is_no_privacy_and_no_sensitivity_needs_no_noise():
    replace = Relation.REPLACE_ONE
    for relation in Relation:
        assert spent(LaplaceMechanism(QUERIES["sum"], 0.0), relation).upper == math.inf
    still = LaplaceMechanism.calibrated(Count(), pure(1.0, replace))
    assert (still.scale, still.event(replace)) == (0.0, NoOpDpEvent())
    assert still.event(Relation.ZERO_OUT) == LaplaceDpEvent(0.0)
    budget = Budget(epsilon=1.0, delta=1e-5, relation=replace)
    still = GaussianMechanism.calibrated(Count(), budget)
    assert (still.scale, still.event(replace)) == (0.0, NoOpDpEvent())
    still = NormLaplaceMechanism.calibrated(BoundedMean.of(0.1, 0.1, 5), pure(1.0, replace))
    assert (still.scale, spent(still, replace).upper) == (0.0, 0.0)


def test_what_no_noise_meets_is_refused():
    with pytest.raises(ValueError, match=r"delta must be positive .* got 0\.0"):
        GaussianMechanism.calibrated(QUERY, pure(1.0, "zero_out"))
    curved = ProblemClass(
        n=10, dim=2, lipschitz=1.0, radius=1.0, smoothness=1.0, strong_convexity=1.0
    )
    unbounded = RegularisedMinimiser.of(curved, Relation.REPLACE_ONE, regularisation=0.1)
    with pytest.raises(ValueError, match=r"finite l1 sensitivity under add_or_remove_one, got inf"):
        LaplaceMechanism.calibrated(unbounded, pure(1.0, "add_or_remove_one"))


# --- what one release shows -----------------------------------------------------------------------


@relations
@pytest.mark.parametrize("dim", [1, 2])
@pytest.mark.parametrize("epsilon", [0.2, 3.0])
def test_the_privacy_loss_of_norm_laplace_noise_attains_epsilon(relation, dim, epsilon):
    """Use the law tested below, a Gamma radius over a uniform direction, on a grid of outputs."""
    query = ClippedGradient.of(ProblemClass(n=10, dim=dim, lipschitz=0.5, radius=1.0))
    scale = NormLaplaceMechanism.calibrated(query, pure(epsilon, relation)).scale
    distance = relation.multiple * 0.5 / 10

    axis = np.linspace(-3.0, 3.0, 501) * max(distance, scale) + 1e-7
    outputs = np.stack(np.meshgrid(*[axis] * dim), axis=-1).reshape(-1, dim)

    def log_density(points):
        radius = np.linalg.norm(points, axis=1)
        sphere = {1: 2.0, 2: 2.0 * math.pi}[dim] * radius ** (dim - 1)
        return stats.gamma.logpdf(radius, dim, scale=scale) - np.log(sphere)

    loss = log_density(outputs) - log_density(outputs - np.eye(dim)[0] * distance)
    assert np.abs(loss).max() <= epsilon
    assert loss.max() >= 0.999 * epsilon
    assert loss.min() <= -0.999 * epsilon


# --- the noise itself -----------------------------------------------------------------------------


def noise(kind, dim, runs, dtype):
    """``kind(QUERY, 0.7)`` on answers of zero, shape ``(runs, dim)``."""
    keys = jax.random.split(jax.random.key(dim), runs)
    add_noise = jax.jit(jax.vmap(kind(QUERY, 0.7).add_noise, (0, None)))
    drawn = np.asarray(add_noise(keys, jnp.zeros(dim, dtype)))
    assert drawn.dtype == dtype
    return drawn.astype(np.float64)


LAWS = {  # a number of each draw, its law, and what wrong scales are told apart
    GaussianMechanism: (np.ravel, lambda dim: stats.norm, 0.975, 1.025),
    LaplaceMechanism: (np.ravel, lambda dim: stats.laplace, 0.96, 1.04),
    NormLaplaceMechanism: (
        partial(np.linalg.norm, axis=1),
        lambda dim: partial(stats.gamma, dim),
        0.8,
        1.25,
    ),
}


@pytest.mark.cases(3)  # each kind, and both types
@dtypes
@pytest.mark.parametrize(
    ("kind", "dim", "runs"),
    [(GaussianMechanism, 400_000, 1), (LaplaceMechanism, 4, 50_000)]
    + [(NormLaplaceMechanism, dim, 10_000) for dim in choose((1, 2, 10), (10,))],
)
def test_noise_has_its_law_at_the_stated_scale_and_at_no_other(kind, dim, runs, dtype):
    number, law, *wrong = LAWS[kind]
    drawn = number(noise(kind, dim, runs, dtype))
    one_scale_passes(lambda r: ks_p_value(drawn, law(dim)(scale=0.7 * r).cdf), *wrong)


@pytest.mark.parametrize("kind", [GaussianMechanism, *PURE.values()])
def test_noise_is_added_to_the_answer(kind):
    key, answer = jax.random.key(9), jnp.asarray([1.0, -2.0, 3.0])
    add_noise = jax.jit(kind(QUERY, 0.7).add_noise)
    first, second = (add_noise(key, a) for a in (answer, 0.0 * answer))
    np.testing.assert_allclose(first - answer, second, rtol=1e-14)
    assert not np.any(add_noise(jax.random.key(10), answer) == first)


def test_noise_norm_bounds_the_mean_norm_closely():
    for dim in (1, 7, 100):
        mean = 0.5 * math.sqrt(2.0) * math.exp(math.lgamma((dim + 1) / 2) - math.lgamma(dim / 2))
        assert mean <= GaussianMechanism(QUERY, 0.5).noise_norm(dim) <= mean * (1.0 + 0.26 / dim)


# --- Gaussian scales, exact and classic -----------------------------------------------------------


GOLDEN = {  # epsilon, delta -> sigma at sensitivity 1, to 50 digits: exact, classic
    (1.0, 1e-5): (3.730631634816, 4.844805262605),
    (10.0, 1e-5): (0.499888619709, 0.484480526261),
}


@relations
def test_golden_scales_of_the_exact_and_of_the_classic_formula(relation):
    for (epsilon, delta), (exact, classic) in GOLDEN.items():
        budget = Budget(epsilon=epsilon, delta=delta, relation=relation)
        assert GaussianMechanism.calibrated(Unit(), budget).scale == pytest.approx(exact, rel=2e-7)
        if epsilon <= 1.0:
            assert classic_gaussian_scale(Unit(), budget) == pytest.approx(classic, rel=2e-7)


@relations
def test_the_classic_formula_holds_up_to_one_and_refuses_beyond(relation):
    for epsilon in (0.01, 0.3, 1.0):
        for delta in (1e-9, 1e-3, 0.3, 0.9):
            budget = Budget(epsilon=epsilon, delta=delta, relation=relation)
            scale = classic_gaussian_scale(Unit(), budget)
            event = GaussianMechanism(Unit(), scale).event(relation)
            assert Guarantee(event, relation).delta(epsilon).upper <= delta
    too_much = Budget(epsilon=1.001, delta=1e-5, relation=relation)
    with pytest.raises(ValueError, match=r"epsilon must not exceed 1 .* got 1\.001"):
        classic_gaussian_scale(Unit(), too_much)
    with pytest.raises(ValueError, match=r"delta must be positive .* got 0\.0"):
        classic_gaussian_scale(Unit(), pure(1.0, relation))

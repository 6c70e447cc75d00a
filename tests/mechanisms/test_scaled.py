"""Noise times a factor: the mechanism of that scale, its event, and none at zero."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from privopt import problems
from privopt.core.parameters import scaled
from privopt.mechanisms import (
    AllRecords,
    ClippedGradient,
    ClippedRisk,
    GaussianMechanism,
    GibbsMechanism,
    LaplaceMechanism,
    NormLaplaceMechanism,
    PoissonBatches,
    PrivateGradient,
    VarianceReducedGradient,
)
from privopt.mechanisms.objective_perturbation import (
    GaussianObjectivePerturbation,
    NormLaplaceObjectivePerturbation,
    PerturbedMinimiser,
)
from privopt.privacy import Guarantee
from privopt.spec import Budget, ProblemClass, Relation

FACTS = ProblemClass(n=1000, dim=2, lipschitz=1.0, radius=1.0, smoothness=0.25)
BUDGET = Budget(epsilon=1.0, delta=1e-5, relation="zero_out")
PURE = Budget(epsilon=1.0, delta=0.0, relation="zero_out")
QUERY = ClippedGradient.of(FACTS)
MINIMISER = PerturbedMinimiser.of(FACTS, regularisation=0.1)
RISK = ClippedRisk.of(FACTS)
BATCHES = PoissonBatches.of(50.0, 1000, budget=BUDGET, steps=9)
DIFFERENCES = VarianceReducedGradient(QUERY, 0.5, QUERY, 0.25, BATCHES, period=3, steps=9)
ADDITIVE = {
    "gaussian": GaussianMechanism(QUERY, 0.5),
    "laplace": LaplaceMechanism(QUERY, 0.5),
    "norm_laplace": NormLaplaceMechanism(QUERY, 0.5),
    "gaussian_tilt": GaussianObjectivePerturbation(MINIMISER, 0.5),
    "norm_laplace_tilt": NormLaplaceObjectivePerturbation(MINIMISER, 0.5),
    "all_records": PrivateGradient(query=QUERY, batches=AllRecords(), scale=0.5, steps=9),
    "poisson": PrivateGradient(query=QUERY, batches=BATCHES, scale=0.5, steps=9),
    "differences": DIFFERENCES,
}
GIBBS = {
    "pure": GibbsMechanism.pure(RISK, PURE),
    "regularised": GibbsMechanism.regularised(RISK, BUDGET, 0.5),
}
additive = pytest.mark.parametrize("name", ADDITIVE)


def epsilon(mechanism, delta=1e-5):
    return Guarantee(mechanism.event(Relation.ZERO_OUT), "zero_out").epsilon(delta)


@additive
def test_the_scale_follows(name):
    mechanism = ADDITIVE[name]
    assert scaled(mechanism, 1.0) == mechanism
    assert scaled(mechanism, 3.0).scale == 1.5
    assert scaled(mechanism, 0.1).scale >= 0.05 == pytest.approx(scaled(mechanism, 0.1).scale)
    assert scaled(mechanism, 1e-60).scale > 0.0


def test_both_scales_of_differences_follow():
    twice = scaled(DIFFERENCES, 2.0)
    assert (twice.scale, twice.difference_scale) == (1.0, 0.5)


@pytest.mark.parametrize("name", GIBBS)
def test_the_temperature_follows(name):
    """Twice the temperature is half the potential, up to the rounding of each loss."""
    mechanism = GIBBS[name]
    twice = scaled(mechanism, 2.0)
    assert twice.temperature == 2.0 * mechanism.temperature
    assert scaled(mechanism, 1.0) == mechanism
    delta = PURE.delta if name == "pure" else BUDGET.delta
    assert epsilon(twice, delta).upper < epsilon(mechanism, delta).upper
    objective = problems.linear(np.tile([0.6, 0.8], (1000, 1)), problem_class=FACTS).objective
    point, centre = jnp.array([0.3, -0.2]), jnp.zeros(2)
    value, gradient = mechanism.potential(objective, centre)(point)
    half, half_gradient = twice.potential(objective, centre)(point)
    np.testing.assert_allclose(half, 0.5 * value, atol=2.0**-18)
    np.testing.assert_allclose(half_gradient, 0.5 * gradient, rtol=1e-12)

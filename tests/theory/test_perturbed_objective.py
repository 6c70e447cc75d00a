"""The bound of tilted minimisers: its tuning, its scales, and that it is true."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privopt.spec import ProblemClass
from privopt.theory import objective_perturbation_rate, perturbed_objective_regularisation

positive = st.floats(1e-3, 1e3)


def cls(lipschitz=1.0, radius=1.0):
    return ProblemClass(n=10, dim=4, lipschitz=lipschitz, radius=radius)


def perturbed_objective_minimiser(problem_class, *, distance=0.0, **numbers):
    """The bound, whatever the set allows."""
    rate = objective_perturbation_rate(
        problem_class, distance=distance, gaussian=True, tuned=True, **numbers
    )
    return rate.combine(*(term.value for term in rate.terms))


@given(positive, positive)
def test_constant_noise_is_balanced(radius, moment):
    c = cls(radius=radius)
    best = perturbed_objective_regularisation(c, lambda _: moment)
    assert best == pytest.approx(math.sqrt(moment) / radius, rel=1e-9)
    value = perturbed_objective_minimiser(c, regularisation=best, noise_second_moment=moment)
    assert value == pytest.approx(0.5 * radius * math.sqrt(moment), rel=1e-9)


@pytest.mark.parametrize("least", [0.0, 0.3, 5.0])
@pytest.mark.parametrize("weight", [0.01, 1.0, 30.0])
def test_noise_that_pays_for_curvature_asks_for_more_regularisation(weight, least):
    c = cls()

    def moment(regularisation):
        return (1.0 + weight / regularisation) ** 2 if regularisation > least else math.inf

    def bound(regularisation):
        return perturbed_objective_minimiser(
            c, regularisation=regularisation, noise_second_moment=moment(regularisation)
        )

    best = perturbed_objective_regularisation(c, moment, least=least)
    grid = np.geomspace(max(1e-3, least * 1.0011), 1e4, 20_000)
    assert best > least
    assert bound(best) <= 1.001 * min(map(bound, grid.tolist()))


@given(positive, positive)
def test_units(loss_unit, length_unit):
    """Losses times ``a``, lengths times ``b``: lambda times a/b^2, tilts times a/b."""
    there = dataclasses.replace(cls(), lipschitz=loss_unit / length_unit, radius=length_unit)
    one = perturbed_objective_minimiser(
        cls(), regularisation=0.3, noise_second_moment=0.2, distance=0.1
    )
    scaled = perturbed_objective_minimiser(
        there,
        regularisation=0.3 * loss_unit / length_unit**2,
        noise_second_moment=0.2 * (loss_unit / length_unit) ** 2,
        distance=0.1 * length_unit,
    )
    assert scaled == pytest.approx(loss_unit * one, rel=1e-12)
    assert perturbed_objective_minimiser(
        cls(radius=math.inf), regularisation=1.0, noise_second_moment=0
    ) == (math.inf)


@pytest.mark.parametrize("regularisation", [0.05, 0.5, 5.0])
def test_bound_holds_and_is_within_a_half_for_medians_on_an_interval(regularisation):
    """Fine grid; the mean over a symmetric pair of tilts is an expectation already."""
    grid, worst = np.linspace(-1.0, 1.0, 4001), 0.0
    rng = np.random.default_rng(1)
    for tilt in (0.02, 0.1, 0.5, 2.0):
        for _ in range(60):
            weights = rng.dirichlet(np.ones(3))
            risk = np.abs(grid[:, None] - rng.choice([-1.0, 0.2, 1.0], 3)) @ weights
            excess = np.mean(
                [
                    risk[np.argmin(risk + 0.5 * regularisation * grid**2 + t * grid)]
                    for t in (tilt, -tilt)
                ]
            )
            bound = perturbed_objective_minimiser(
                cls(), regularisation=regularisation, noise_second_moment=tilt**2, distance=5e-4
            )
            assert excess - risk.min() <= bound
            worst = max(worst, (excess - risk.min()) / bound)
    assert worst > 0.05

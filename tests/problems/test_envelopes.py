"""Distances with curvature and two kinks: envelopes by brute force, constants, minimisers."""

from __future__ import annotations

import math

import jax
import numpy as np
import pytest
from scipy import optimize

from privopt import problems
from privopt.algorithms import ALGORITHMS
from privopt.core import run
from privopt.problems import FAMILIES, RegularisedDistance, TwoKinks
from privopt.spec import Budget, ProblemClass


def regularised(modulus):
    def loss(v, x):
        return np.linalg.norm(v - x) + 0.5 * modulus * v @ v

    return RegularisedDistance(modulus), loss, 1e-8


def two_kinks(slope):
    def loss(v, x):
        across = math.sqrt(1.0 - slope**2) * np.linalg.norm(v[1:] - x[1:])
        return slope * abs(v[0] - x[0]) + across

    return TwoKinks(slope), loss, 1e-7


@pytest.mark.cases(3)
@pytest.mark.parametrize("case", [*map(regularised, (0.1, 1.0, 7.0)), two_kinks(0.3)])
@pytest.mark.parametrize("width", [0.05, 3.0])
def test_the_envelope_is_the_least_of_loss_and_square(case, width):
    """``min_v loss(v) + |v - w|^2/(2h)``, minimised numerically from three starts."""
    (loss, naive, accuracy), rng = case, np.random.default_rng(0)
    envelope = jax.jit(loss.smoothed(width))
    tight = {"xatol": 1e-10, "fatol": 1e-14, "maxiter": 5000, "maxfev": 5000}
    for _ in range(10):
        point, example = rng.normal(size=(2, 3)) * rng.choice([0.1, 1.0, 3.0])

        def moved(v, point=point, example=example):
            return naive(v, example) + np.sum((v - point) ** 2) / (2.0 * width)

        starts = (point, 0.5 * (point + example), np.append(point[:1], example[1:]))
        found = (optimize.minimize(moved, s, method="Nelder-Mead", options=tight) for s in starts)
        best = min(moved(example), *(each.fun for each in found))
        value = float(envelope(point, example))
        assert value == pytest.approx(best, rel=accuracy, abs=1e-9)


@pytest.mark.parametrize("case", [regularised(0.7), two_kinks(0.7)])
def test_widths_add_and_width_zero_is_the_loss(case):
    loss, naive, _ = case
    widths = loss.smoothed(0.2).smoothed(0.3), loss.smoothed(0.5), loss
    values = jax.jit(lambda point, example: [each(point, example) for each in widths])
    for point, example in np.random.default_rng(0).normal(size=(5, 2, 3)):
        twice, once, whole = map(float, values(point, example))
        assert twice == pytest.approx(once, rel=1e-14)
        assert whole == pytest.approx(naive(point, example), rel=1e-14)


def test_the_slope_of_two_kinks_is_one_whatever_the_mixture():
    points = np.random.default_rng(0).normal(size=(50, 3))
    slopes = jax.jit(jax.vmap(jax.grad(TwoKinks(0.7)), (0, None)))(points, np.eye(3)[0])
    np.testing.assert_allclose(np.linalg.norm(slopes, axis=1), 1.0, rtol=1e-12)


@pytest.mark.parametrize("width", [0.1, 1.0])
def test_the_envelope_has_the_declared_curvatures(width):
    """Eigenvalues of the Hessian between ``m/(1 + m h)`` and ``1/h``, each attained."""
    modulus = 0.5
    loss = RegularisedDistance(modulus).smoothed(width)
    points = np.random.default_rng(1).normal(size=(200, 3)) * 2.0
    points = np.vstack([points, np.full(3, 1e-3)])
    hessians = jax.jit(jax.vmap(jax.hessian(loss), (0, None)))(points, np.zeros(3))
    *eigenvalues, near = np.linalg.eigvalsh(np.asarray(hessians))
    least = modulus / (1.0 + modulus * width)
    assert least - 1e-9 <= np.min(eigenvalues) <= least + 1e-9
    assert np.max(eigenvalues) <= 1.0 / width + 1e-9
    np.testing.assert_allclose(near, 1.0 / width, rtol=1e-9)


@pytest.mark.parametrize("kind", ["regularised", "squared"])
def test_declared_constants_are_true_and_smaller_ones_are_refused(kind):
    """``check`` finds a slope above a Lipschitz constant half as large."""
    points = np.asarray([[1.0, 0.0], [0.0, 1.0], [-0.6, 0.8]])

    def built(share):
        facts = {"n": 3, "dim": 2, "radius": 1.0, "strong_convexity": 0.5}
        if kind == "regularised":
            facts = ProblemClass(**facts, lipschitz=share * 1.5)
            return problems.regularised_distance(points, modulus=0.5, problem_class=facts)
        facts = ProblemClass(**facts, lipschitz=share * 1.0, smoothness=0.5)
        return problems.squared_distance(points, modulus=0.5, problem_class=facts)

    built(1.0).check()
    with pytest.raises(ValueError, match="lipschitz"):
        built(0.5).check()
    assert built(1.0).reference.gap <= 1.5e-6


@pytest.mark.parametrize("modulus", [0.0, -1.0, float("nan"), float("inf")])
def test_a_modulus_that_is_none_is_refused_by_name(modulus):
    facts = ProblemClass(n=1, dim=2, lipschitz=1.0, radius=1.0)
    for build in (problems.regularised_distance, problems.squared_distance):
        with pytest.raises(ValueError, match=f"modulus must be positive and finite, got {modulus}"):
            build(np.zeros((1, 2)), modulus=modulus, problem_class=facts)


@pytest.mark.parametrize("strength", FAMILIES["two_kinks"].strengths)
def test_the_family_has_its_minimiser_on_the_sphere_and_keeps_its_class(strength):
    problem = FAMILIES["two_kinks"].build(n=1000, dim=4, noise_ratio=0.01, strength=strength)
    problem.check()
    assert problem.reference.value == pytest.approx(0.0, abs=problem.reference.gap + 1e-15)
    slope = min(1.0, 0.1 * strength)
    for point in (np.zeros(4), np.array([0.2, 0.0, 0.3, 0.4])):
        across = math.sqrt(1.0 - slope**2) * np.linalg.norm(point[1:])
        wanted = slope * (1.0 - point[0]) + across
        assert problem.excess_risk(point) == pytest.approx(wanted, abs=2e-6)


def test_a_regulariser_costs_a_quarter_of_itself_at_the_worst_slope():
    """Output perturbation's minimiser before noise: ``lambda/4`` at ``s = lambda/2``."""
    regularisation = 0.2
    problem = FAMILIES["two_kinks"].build(
        n=10**6, dim=3, noise_ratio=regularisation**2 / 4.0, strength=1.0
    )
    budget = Budget(epsilon=4.0, delta=1e-6, relation="replace_one")
    plan = ALGORITHMS["output_perturbation"].plan(
        problem.problem_class, budget, regularisation=regularisation
    )
    minimiser = run(plan, problem, jax.random.key(0)).secret.minimiser
    np.testing.assert_allclose(minimiser, [0.5, 0.0, 0.0], atol=1e-3)
    assert problem.excess_risk(minimiser) == pytest.approx(regularisation / 4.0, rel=2e-3)

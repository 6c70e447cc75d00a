"""Two kinks: Moreau envelopes by brute force, declared constants, and the regularised minimiser."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize

from privopt.algorithms import ALGORITHMS
from privopt.core import run
from privopt.problems import FAMILIES, TwoKinks
from privopt.spec import Budget


@pytest.mark.parametrize("width", [0.05, 0.5, 3.0])
def test_the_envelope_is_the_least_of_loss_and_square(width):
    """``min_v loss(v) + |v - w|^2/(2h)``, minimised numerically from three starts."""
    slope, rng = 0.3, np.random.default_rng(0)
    loss = TwoKinks(slope)
    for _ in range(5):
        point, example = rng.normal(size=(2, 3)) * rng.choice([0.1, 1.0, 3.0])

        def moved(v, point=point, example=example):
            along, across = abs(v[0] - example[0]), np.linalg.norm(v[1:] - example[1:])
            moreau = np.sum((v - point) ** 2) / (2.0 * width)
            return slope * along + math.sqrt(1.0 - slope**2) * across + moreau

        tight = {"xatol": 1e-10, "fatol": 1e-14, "maxiter": 5000, "maxfev": 5000}
        starts = (point, example, np.append(point[:1], example[1:]))
        found = (optimize.minimize(moved, s, method="Nelder-Mead", options=tight) for s in starts)
        best = min(moved(example), *(each.fun for each in found))
        value = float(loss.smoothed(width)(jnp.asarray(point), jnp.asarray(example)))
        assert value == pytest.approx(best, rel=1e-7, abs=1e-9)


def test_widths_add_and_the_slope_is_one_whatever_the_mixture():
    loss, record = TwoKinks(0.7), jnp.asarray([1.0, 0.0, 0.0])
    twice, once = loss.smoothed(0.2).smoothed(0.3), loss.smoothed(0.5)
    points = jnp.asarray(np.random.default_rng(0).normal(size=(50, 3)))
    for point in points[:5]:
        assert float(twice(point, record)) == pytest.approx(float(once(point, record)), rel=1e-14)
    slopes = np.linalg.norm(jax.vmap(jax.grad(loss), (0, None))(points, record), axis=1)
    np.testing.assert_allclose(slopes, 1.0, rtol=1e-12)


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

"""Distances with curvature: Moreau envelopes by brute force, and declared constants."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize

from privopt import problems
from privopt.problems import RegularisedDistance, SquaredDistance
from privopt.spec import ProblemClass


@pytest.mark.parametrize("modulus", [0.1, 1.0, 7.0])
@pytest.mark.parametrize("width", [0.05, 0.5, 3.0])
def test_the_envelope_is_the_least_of_loss_and_square(modulus, width):
    """``min_v loss(v) + |v - w|^2/(2h)``, minimised numerically from two starts."""
    loss, rng = RegularisedDistance(modulus), np.random.default_rng(0)
    for _ in range(10):
        point, example = rng.normal(size=(2, 3)) * rng.choice([0.1, 1.0, 3.0])

        def moved(v, point=point, example=example):
            pull = np.linalg.norm(v - example) + 0.5 * modulus * v @ v
            return pull + np.sum((v - point) ** 2) / (2.0 * width)

        tight = {"xatol": 1e-9, "fatol": 1e-13, "maxiter": 5000, "maxfev": 5000}
        best = min(
            moved(example),
            *(
                optimize.minimize(moved, start, method="Nelder-Mead", options=tight).fun
                for start in (point, 0.5 * (point + example))
            ),
        )
        value = float(loss.smoothed(width)(jnp.asarray(point), jnp.asarray(example)))
        assert value == pytest.approx(best, rel=1e-8, abs=1e-9)


def test_widths_add_and_width_zero_is_the_loss():
    loss = RegularisedDistance(0.7)
    point, example = jnp.asarray([0.3, -1.2]), jnp.asarray([0.1, 0.4])
    twice, once = loss.smoothed(0.2).smoothed(0.3), loss.smoothed(0.5)
    assert float(twice(point, example)) == pytest.approx(float(once(point, example)), rel=1e-14)
    plain = float(jnp.linalg.norm(point - example) + 0.35 * point @ point)
    assert float(loss(point, example)) == pytest.approx(plain, rel=1e-14)


@pytest.mark.parametrize("width", [0.1, 1.0])
def test_the_envelope_has_the_declared_curvatures(width):
    """Eigenvalues of the Hessian between ``m/(1 + m h)`` and ``1/h``, each attained."""
    modulus = 0.5
    loss = RegularisedDistance(modulus).smoothed(width)
    points = np.random.default_rng(1).normal(size=(200, 3)) * 2.0
    hessians = jax.vmap(jax.hessian(loss), (0, None))(jnp.asarray(points), jnp.zeros(3))
    eigenvalues = np.linalg.eigvalsh(np.asarray(hessians))
    least = modulus / (1.0 + modulus * width)
    assert least - 1e-9 <= eigenvalues.min() <= least + 1e-9
    near = np.asarray(jax.hessian(loss)(jnp.full(3, 1e-3), jnp.zeros(3)))
    assert eigenvalues.max() <= 1.0 / width + 1e-9
    np.testing.assert_allclose(np.linalg.eigvalsh(near), 1.0 / width, rtol=1e-9)


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


def test_the_squared_distance_is_half_the_modulus_times_the_square():
    point, example = jnp.asarray([1.0, 2.0]), jnp.asarray([0.0, 4.0])
    assert float(SquaredDistance(3.0)(point, example)) == pytest.approx(7.5)


@pytest.mark.parametrize("modulus", [0.0, -1.0, float("nan"), float("inf")])
def test_a_modulus_that_is_none_is_refused_by_name(modulus):
    facts = ProblemClass(n=1, dim=2, lipschitz=1.0, radius=1.0)
    for build in (problems.regularised_distance, problems.squared_distance):
        with pytest.raises(ValueError, match=f"modulus must be positive and finite, got {modulus}"):
            build(np.zeros((1, 2)), modulus=modulus, problem_class=facts)


def test_points_of_another_dimension_are_refused():
    facts = ProblemClass(n=1, dim=2, lipschitz=1.0, radius=1.0)
    with pytest.raises(ValueError, match=r"points must have shape \(records, dim = 2\), got"):
        problems.squared_distance(np.zeros((1, 3)), problem_class=facts)

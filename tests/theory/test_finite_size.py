"""Tests of laws at finite size against direct NumPy simulations of the averaged quantities.

A simulated mean is within five standard errors of its law, but for a chance of 6e-7; a law that is
wrong by two per cent is not.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special

from privopt.theory.finite_size import (
    RadialLoss,
    gaussian_perturbation,
    gibbs_draw,
    noisy_descent_on_squares,
    norm_laplace_perturbation,
)

DISTANCE, SQUARES = RadialLoss(1.0, 0.0), RadialLoss(0.0, 1.0)
LOSSES = [DISTANCE, RadialLoss(1.0, 0.5), RadialLoss(0.0, 3.0, radius=2.0)]


def agrees(law, sample):
    return abs(sample.mean() - law) <= 5.0 * sample.std(ddof=1) / math.sqrt(sample.size)


def tells(law, sample):
    """The law, and neither of two neighbours."""
    return [agrees(factor * law, sample) for factor in (1.0, 0.98, 1.02)] == [True, False, False]


def risks(loss, norms):
    norms = np.minimum(norms, loss.radius)
    return loss.slope * norms + 0.5 * loss.curvature * norms**2


@pytest.mark.cases(5)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(("dim", "scale"), [(1, 0.3), (1, 2.0), (5, 0.1), (5, 0.5), (40, 0.15)])
def test_gaussian_noise_after_a_minimiser(loss, dim, scale):
    """Far inside the ball, and cut by it more often than not."""
    noise = np.random.default_rng(dim).normal(size=(200_000, dim))
    law = gaussian_perturbation(loss, dim=dim, scale=scale)
    assert tells(law, risks(loss, scale * np.linalg.norm(noise, axis=1)))


@pytest.mark.cases(5)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(("dim", "scale"), [(1, 0.1), (1, 3.0), (5, 0.02), (5, 0.3)])
def test_norm_laplace_noise_after_a_minimiser(loss, dim, scale):
    """A norm of law Gamma(d) is a sum of ``d`` exponential ones."""
    norms = scale * np.random.default_rng(dim).exponential(size=(4_000_000 // dim, dim)).sum(axis=1)
    law = norm_laplace_perturbation(loss, dim=dim, scale=scale)
    assert tells(law, risks(loss, norms))


@pytest.mark.parametrize("law", [gaussian_perturbation, norm_laplace_perturbation])
def test_no_noise_costs_nothing_and_a_lot_of_it_the_whole_ball(law):
    loss = RadialLoss(1.0, 0.5)
    assert law(loss, dim=3, scale=0.0) == 0.0
    assert law(loss, dim=3, scale=1e6) == pytest.approx(1.25, rel=1e-6)


@pytest.mark.parametrize("dim", [1, 2, 3, 40])
@pytest.mark.parametrize("temperature", [1e-4, 1e-2, 0.3, 100.0])
def test_a_pure_draw_has_a_gamma_law_that_is_cut(dim, temperature):
    end = 1.0 / temperature
    share = special.gammainc(dim + 1.0, end) / special.gammainc(dim, end)
    law = gibbs_draw(DISTANCE, dim=dim, temperature=temperature)
    assert law == pytest.approx(dim * temperature * share, rel=1e-9)


@pytest.mark.parametrize(
    ("dim", "temperature", "m"), [(1, 0.2, 3.0), (3, 0.1, 5.0), (20, 0.02, 1.0)]
)
def test_a_regularised_draw(dim, temperature, m):
    """Norms of law Gamma(d) kept with the chance that the regulariser leaves them."""
    rng = np.random.default_rng(dim)
    norms = temperature * rng.gamma(dim, size=2_000_000)
    kept = norms[rng.random(norms.size) < np.exp(-0.5 * m * norms**2 / temperature)]
    kept = kept[kept <= 1.0]
    assert kept.size > 20_000
    assert tells(gibbs_draw(DISTANCE, dim=dim, temperature=temperature, regularisation=m), kept)


def descended(*, dim, noise_std, step_sizes, weights, paths, seed=0):
    """Risks of projected paths on ``|w|^2/2``, and how many steps were projected on average."""
    rng = np.random.default_rng(seed)
    point, mean, projected = np.zeros((paths, dim)), 0.0, 0
    for size, weight in zip(step_sizes, weights, strict=False):
        mean = mean + weight * point
        point = (1.0 - size) * point - size * noise_std * rng.normal(size=point.shape)
        norm = np.linalg.norm(point, axis=1, keepdims=True)
        projected += (norm > 1.0).sum() / paths
        point = point / np.maximum(1.0, norm)
    mean = mean + weights[-1] * point
    return 0.5 * np.sum(mean**2, axis=1), projected


def strongly_convex(steps):
    """``2/(t + 1)``, and weights in proportion to ``t``."""
    times = np.arange(1.0, steps + 2.0)
    return 2.0 / (times[:-1] + 1.0), times / times.sum()


@pytest.mark.parametrize(("noise_std", "least"), [(0.02, 0.0), (0.2, 1.0)])
def test_descent_on_squares(noise_std, least):
    """Run without a projection, and with a projection of the first steps.

    The effect of the latter fades.
    """
    sizes, weights = strongly_convex(200)
    numbers = {"dim": 40, "noise_std": noise_std, "step_sizes": sizes, "weights": weights}
    sample, projected = descended(**numbers, paths=6000)
    assert least <= projected < 10.0
    law = noisy_descent_on_squares(SQUARES, **numbers)
    assert law is not None
    assert tells(law, sample)


@pytest.mark.parametrize("last", [True, False])
def test_descent_of_constant_steps(last):
    steps = 40
    weights = np.append(np.zeros(steps), 1.0) if last else np.append(np.ones(steps), 0.0) / steps
    numbers = {"dim": 30, "noise_std": 0.1, "step_sizes": np.full(steps, 0.2), "weights": weights}
    sample, _ = descended(**numbers, paths=20_000)
    assert tells(noisy_descent_on_squares(SQUARES, **numbers), sample)


def test_descent_whose_projections_matter_has_no_law():
    sizes, weights = strongly_convex(300)
    numbers = {"dim": 30, "noise_std": 3.0, "step_sizes": sizes, "weights": weights}
    _, projected = descended(**numbers, paths=200)
    assert projected > 100.0
    assert noisy_descent_on_squares(SQUARES, **numbers) is None
    with pytest.raises(ValueError, match="slope must be 0 for a linear recursion, got 1"):
        noisy_descent_on_squares(DISTANCE, **numbers)

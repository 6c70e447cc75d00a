"""The bound of output perturbation where the risk is flat: true, attained, and where it fails."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privopt.spec import ProblemClass
from privopt.theory import output_perturbation_rate

positive = st.floats(1e-3, 1e3)
BALL = ProblemClass(n=10, dim=3, lipschitz=2.0, radius=1.0, smoothness=1.0, strong_convexity=1.0)


def bound(problem_class=BALL, *, regularisation=0.0, noise_square, solver_error=0.0):
    """Without the other bound, that of the norm, and whatever the set allows."""
    rate = output_perturbation_rate(
        problem_class, regularisation=regularisation, noise_norm=1e300, noise_square=noise_square,
        solver_error=solver_error, gaussian=True, balanced=False, stationary=True,
    )  # fmt: skip
    return rate.combine(*(term.value for term in rate.terms))


def projected(points):
    return points / np.maximum(1.0, np.linalg.norm(points, axis=-1, keepdims=True))


def test_it_is_an_equality_for_a_square_that_no_projection_touches():
    """``(1/2) E|z|^2`` for every law of the noise, here four vectors of sizes below 1."""
    noise = 0.9 * projected(np.random.default_rng(0).normal(size=(4, 3)))
    excess = 0.5 * np.mean(np.sum(noise**2, axis=1))
    assert bound(noise_square=np.mean(np.sum(noise**2, axis=1))) == pytest.approx(excess)


@pytest.mark.parametrize("regularisation", [0.0, 0.3, 2.0])
def test_it_holds_for_regularised_quadratics_however_the_noise_lies(regularisation):
    """Random curvatures up to ``H``, minimisers inside; the solver errs by ``tau`` at its worst."""
    rng = np.random.default_rng(1)
    tightest = 0.0
    for _ in range(200):
        curvatures = rng.uniform(0.0, 1.0, size=3)
        curvatures[0] = 1.0
        target = 0.9 * projected(rng.normal(size=3)) * rng.random()
        minimiser = curvatures * target / (curvatures + regularisation)
        noise = rng.normal(size=(50, 3)) * rng.choice([0.01, 0.1, 1.0])
        error, tau = projected(rng.normal(size=3)), rng.choice([0.0, 0.05])
        error *= tau / np.linalg.norm(error)
        released = projected(minimiser + error + noise)
        excess = 0.5 * np.mean((released - target) ** 2 @ curvatures)
        noise_square = np.mean(np.sum(noise**2, axis=1))
        limit = bound(regularisation=regularisation, noise_square=noise_square, solver_error=tau)
        assert excess <= limit * (1.0 + 1e-12)
        tightest = max(tightest, excess / limit)
    assert tightest > (0.5 if regularisation == 0.0 else 0.01)


@pytest.mark.parametrize("noise", [0.001, 0.02])
def test_the_regulariser_and_the_noise_together_are_attained(noise):
    """``-s w_1``, ``s = lambda R/2``: half-way, and by the noise, always one way, further back."""
    c, regularisation = dataclasses.replace(BALL, smoothness=0.0, strong_convexity=0.0), 0.4
    slope = 0.5 * regularisation
    excess = slope * (1.0 - (0.5 - noise))
    limit = bound(c, regularisation=regularisation, noise_square=noise**2)
    assert 0.999 * limit < excess <= limit


def test_no_smooth_risk_on_the_line_exceeds_it():
    """A search over slopes that rise in up to five pieces, at all sizes of noise and ``lambda``."""
    rng, worst = np.random.default_rng(5), 0.0
    grid = np.linspace(-1.0, 1.0, 2001)
    for _ in range(2000):
        rises = rng.uniform(0.0, 1.0, size=5) * rng.choice([0.0, 1.0], size=5)
        pieces = rises[np.searchsorted(np.sort(rng.uniform(-1.0, 1.0, size=4)), grid)]
        slopes = np.cumsum(pieces) * (grid[1] - grid[0])
        regularisation = math.exp(rng.uniform(-4.0, 1.0))
        # Stationary: the slope is chosen so that the objective's vanishes at a point inside.
        at = rng.integers(1, 2000)
        slopes -= slopes[at] + regularisation * grid[at]
        risk = np.cumsum(slopes) * (grid[1] - grid[0])
        noise = rng.choice([0.003, 0.03, 0.3, 1.0]) * rng.choice([-1.0, 1.0])
        released = np.clip(grid[at] + noise, -1.0, 1.0)
        excess = np.interp(released, grid, risk) - risk.min()
        limit = bound(regularisation=regularisation, noise_square=noise**2)
        assert excess <= limit * 1.01 + 2e-3 * regularisation  # the grid's error
        worst = max(worst, excess / limit)
    assert worst > 0.75


def test_without_stationarity_it_is_false():
    """A square whose centre lies outside: the slope at the boundary costs the norm of the noise."""
    noise = 0.01
    centre, minimiser = np.asarray([1.8, 0.0, 0.0]), np.asarray([1.0, 0.0, 0.0])
    released = minimiser - np.asarray([noise, 0.0, 0.0])
    excess = 0.5 * (np.sum((released - centre) ** 2) - np.sum((minimiser - centre) ** 2))
    assert excess > 100 * bound(noise_square=noise**2)


def test_public_numbers_alone_make_minimisers_stationary_up_to_twice_m_r():
    """Squares with centres up to ``L/m - R`` from 0: inside the ball exactly if ``L <= 2 m R``."""
    rng = np.random.default_rng(2)
    for lipschitz, stationary in ((1.5, True), (2.0, True), (2.2, False)):
        centres = projected(rng.normal(size=(500, 7, 3)) * 10.0) * (lipschitz - 1.0)
        steepest = np.linalg.norm(centres, axis=-1) + 1.0
        assert steepest.max() <= lipschitz + 1e-12
        same = np.repeat(centres[:, :1], 7, axis=1)  # a data set of coinciding records
        for means in (centres.mean(axis=1), same.mean(axis=1)):
            slopes = np.linalg.norm(projected(means) - means, axis=1)
            if stationary:
                assert slopes.max() <= 1e-12
        assert (slopes.max() > 0.1) is not stationary


@given(positive, positive)
def test_units(loss_unit, length_unit):
    """Losses times ``a``, lengths times ``b``."""
    there = dataclasses.replace(
        BALL,
        lipschitz=2.0 * loss_unit / length_unit,
        radius=length_unit,
        smoothness=loss_unit / length_unit**2,
        strong_convexity=loss_unit / length_unit**2,
    )
    one = bound(regularisation=0.3, noise_square=0.04, solver_error=0.1)
    scaled = bound(
        there,
        regularisation=0.3 * loss_unit / length_unit**2,
        noise_square=0.04 * length_unit**2,
        solver_error=0.1 * length_unit,
    )
    assert one == pytest.approx(0.075 * 1.6 + 0.65 * 0.09)
    assert scaled == pytest.approx(loss_unit * one, rel=1e-12)


def test_smoothness_missing_and_radius_infinite():
    kinked = dataclasses.replace(BALL, smoothness=None)
    with pytest.raises(ValueError, match="smoothness must be declared for this bound, got None"):
        bound(kinked, noise_square=1.0)
    whole = dataclasses.replace(BALL, radius=math.inf, strong_convexity=0.0)
    assert bound(whole, noise_square=0.5) == pytest.approx(0.25)
    assert bound(whole, regularisation=0.1, noise_square=0.5) == math.inf

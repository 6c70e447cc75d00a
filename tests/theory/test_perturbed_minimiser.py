"""The bound of output perturbation: its tuning, its scales, its terms, and that it is true."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privopt.spec import ProblemClass
from privopt.theory import output_perturbation_rate, perturbed_minimiser_regularisation

positive = st.floats(1e-3, 1e3)


def cls(lipschitz=1.0, radius=1.0):
    return ProblemClass(n=10, dim=4, lipschitz=lipschitz, radius=radius)


def perturbed_minimiser(problem_class, **numbers):
    """The bound, whatever the set allows."""
    rate = output_perturbation_rate(
        problem_class, noise_square=0.0, gaussian=True, balanced=False, **numbers
    )
    return rate.combine(*(term.value for term in rate.terms))


@given(positive, positive, positive)
def test_tuning_balances_and_minimises(lipschitz, radius, unit):
    c = cls(lipschitz, radius)

    def bound(regularisation):
        return perturbed_minimiser(
            c, regularisation=regularisation, noise_norm=unit / regularisation
        )

    best = perturbed_minimiser_regularisation(c, unit_noise_norm=unit)
    least = radius * math.sqrt(lipschitz * unit)
    assert bound(best) == pytest.approx(least, rel=1e-12)
    assert best * radius**2 == pytest.approx(lipschitz * unit / best * 4.0, rel=1e-12)
    for factor in (0.5, 0.9, 1.1, 2.0):
        assert bound(factor * best) == pytest.approx(least * (factor + 1 / factor) / 2, rel=1e-12)


def test_gaussian_noise_gives_the_stated_rate():
    """``u = 2 L sqrt(d)/(n mu)`` makes ``sqrt(2) L R (sqrt(d)/(n mu))^{1/2}``."""
    c, n, d, mu = cls(lipschitz=3.0, radius=0.4), 500, 9, 0.3
    unit = 2.0 * 3.0 * math.sqrt(d) / (n * mu)
    best = perturbed_minimiser_regularisation(c, unit_noise_norm=unit)
    value = perturbed_minimiser(c, regularisation=best, noise_norm=unit / best)
    stated = math.sqrt(2.0) * 3.0 * 0.4 * (math.sqrt(d) / (n * mu)) ** 0.5
    assert value == pytest.approx(stated, rel=1e-12)


@given(positive, positive)
def test_units(loss_unit, length_unit):
    """Losses times ``a``, lengths times ``b``: lambda times a/b^2, smoothing times b^2/a."""
    there = dataclasses.replace(cls(), lipschitz=loss_unit / length_unit, radius=length_unit)
    one = perturbed_minimiser(
        cls(), regularisation=0.3, noise_norm=0.2, solver_error=0.1, smoothing=0.05
    )
    scaled = perturbed_minimiser(
        there,
        regularisation=0.3 * loss_unit / length_unit**2,
        noise_norm=0.2 * length_unit,
        solver_error=0.1 * length_unit,
        smoothing=0.05 * length_unit**2 / loss_unit,
    )
    assert scaled == pytest.approx(loss_unit * one, rel=1e-12)


def test_infinite_radius():
    whole = cls(radius=math.inf)
    assert perturbed_minimiser(whole, regularisation=0.1, noise_norm=0.2) == math.inf
    assert perturbed_minimiser(whole, regularisation=0.0, noise_norm=0.2) == pytest.approx(0.2)


@pytest.mark.parametrize("regularisation", [0.01, 0.3, 1.9])
def test_bias_of_the_regulariser_is_attained(regularisation):
    """``s |w - R|`` on the line, ``s = lambda R/2``: the minimiser comes half-way."""
    c = cls(lipschitz=0.5 * regularisation * 3.0, radius=3.0)
    bias = c.lipschitz * (3.0 - c.lipschitz / regularisation)
    assert bias == pytest.approx(
        perturbed_minimiser(c, regularisation=regularisation, noise_norm=0.0), rel=1e-12
    )


@pytest.mark.parametrize("regularisation", [0.1, 0.5, 2.0])
def test_no_piecewise_linear_risk_has_a_larger_bias(regularisation):
    """A search over risks on the line with up to three kinks, minimised on a fine grid."""
    rng, worst = np.random.default_rng(4), 0.0
    grid = np.linspace(-1.0, 1.0, 8001)
    bound = perturbed_minimiser(cls(), regularisation=regularisation, noise_norm=0.0)
    for _ in range(400):
        slopes = np.sort(rng.uniform(-1.0, 1.0, size=4)) * rng.choice([0.1, 0.5, 1.0])
        pieces = slopes[np.searchsorted(np.sort(rng.uniform(-1.0, 1.0, size=3)), grid)]
        risk = np.cumsum(pieces) * (grid[1] - grid[0])
        minimiser = np.argmin(risk + 0.5 * regularisation * grid**2)
        worst = max(worst, (risk[minimiser] - risk.min()) / bound)
    assert 0.85 < worst < 1.01  # the grid's error


@pytest.mark.parametrize(("ratio", "attained"), [(0.01, 0.94), (1e-4, 0.99)])
def test_the_bound_is_attained_by_a_cone_with_a_slope(ratio, attained):
    """``sqrt(L^2 - s^2) |w'| + s (R - w_1)``, ``s = lambda R/2``, and noise in 400 coordinates.

    Its regularised minimiser is ``(R/2, 0, .., 0)``. Exact up to projections, which the sizes of
    the noise rule out: the mean norm of the noise in all coordinates but one.
    """
    c, dim = cls(), 400
    best = perturbed_minimiser_regularisation(c, unit_noise_norm=ratio)
    slope, norm = 0.5 * best, ratio / best
    cone = math.sqrt(1.0 - slope**2) * norm * math.sqrt((dim - 1) / dim)
    bound = perturbed_minimiser(c, regularisation=best, noise_norm=norm)
    assert attained * bound < cone + 0.5 * slope <= bound


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("regularisation", [0.05, 0.5, 5.0])
def test_bound_holds_for_medians_on_the_line(smoothing, regularisation):
    """Regularised (rounded) medians by a fine grid, plus the worst shift of given size."""
    rng = np.random.default_rng(1)
    grid = np.linspace(-1.0, 1.0, 4001)
    c = ProblemClass(n=9, dim=1, lipschitz=1.0, radius=1.0)
    for _ in range(40):
        points = rng.choice([-1.0, -0.3, 0.6, 1.0], size=9)
        distance = np.abs(grid[:, None] - points)
        risk = distance.mean(axis=1)
        rounded = distance
        if smoothing > 0.0:
            rounded = np.where(
                distance <= smoothing, distance**2 / (2 * smoothing), distance - smoothing / 2
            )
        objective = rounded.mean(axis=1) + 0.5 * regularisation * grid**2
        minimiser = grid[np.argmin(objective)]
        for shift in (0.0, 0.1, -0.1):
            released = np.clip(minimiser + shift, -1.0, 1.0)
            excess = np.abs(released - points).mean() - risk.min()
            bound = perturbed_minimiser(
                c,
                regularisation=regularisation,
                noise_norm=abs(shift),
                smoothing=smoothing,
                solver_error=5e-4,
            )
            assert excess <= bound

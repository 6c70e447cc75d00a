"""The exponential mechanism in theory: its bounds, and its privacy, by quadrature."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import integrate, special

from privopt.privacy import gaussian_delta
from privopt.spec import ProblemClass
from privopt.theory import exponential_mechanism_rate, exponential_mechanism_regularisation

LINE = np.linspace(-1.0, 1.0, 20_001)
RISKS = {
    "flat": 0.0 * LINE,
    "distance": np.abs(LINE - 0.3),
    "hinge": np.maximum(0.0, 1.0 - 2.0 * LINE),
}


def facts(dim=1, radius=1.0, lipschitz=1.0, n=100):
    return ProblemClass(n=n, dim=dim, lipschitz=lipschitz, radius=radius)


def exponential_mechanism(problem_class, **numbers):
    """Return the bound without the cap of the set."""
    rate = exponential_mechanism_rate(problem_class, pure=False, **numbers)
    return rate.uncapped


def density(energy):
    weights = np.exp(-(energy - energy.min()))
    return weights / integrate.trapezoid(weights, LINE)


def hockey_stick(p, q, epsilon):
    return integrate.trapezoid(np.maximum(p - math.exp(epsilon) * q, 0.0), LINE)


@pytest.mark.parametrize("dim", [1, 2, 3, 20])
def test_the_distance_attains_it(dim):
    """Radius ~ Gamma(d, 1/k) cut at 1: mean d/k times a ratio of incomplete gammas."""
    k = 40.0 * dim
    mean = dim / k * special.gammainc(dim + 1, k) / special.gammainc(dim, k)
    bound = exponential_mechanism(facts(dim), temperature=1.0 / k)
    assert 0.9999 * bound < mean <= bound * (1.0 + 1e-12)


@pytest.mark.parametrize(("dim", "n", "mu"), [(5, 400, 1.0), (80, 6400, 1.0), (3, 1600, 0.5)])
def test_half_of_the_regularised_bound_is_attained(dim, n, mu):
    """The ratio .500 of the distance losses, by the radial law; the bound in closed form."""
    c, sensitivity = facts(dim, n=n), 2.0 / n
    m = exponential_mechanism_regularisation(c, sensitivity=sensitivity, mu=mu)
    k = m * (mu / sensitivity) ** 2
    bound = exponential_mechanism(c, temperature=1.0 / k, regularisation=m)
    assert bound == pytest.approx(2.0 * math.sqrt(dim) / (n * mu), rel=1e-12)
    for factor in (0.7, 1.4):
        assert bound < exponential_mechanism(
            c, temperature=1.0 / (factor * k), regularisation=factor * m
        )
    grid = np.linspace(1e-9, 1.0, 200_001)
    log_density = (dim - 1) * np.log(grid) - k * grid - 0.5 * k * m * grid**2
    weights = np.exp(log_density - log_density.max())
    mean = (weights * grid).sum() / weights.sum()
    assert 0.42 <= mean / bound <= 0.501


@pytest.mark.parametrize("m", [0.05, 0.5, 5.0])
def test_no_piecewise_linear_risk_exceeds_the_regularised_bound(m):
    """A search over risks on the line with up to three kinks, by quadrature."""
    rng, worst = np.random.default_rng(6), 0.0
    grid = LINE[::10]
    for _ in range(400):
        slopes = np.sort(rng.uniform(-1.0, 1.0, size=4)) * rng.choice([0.03, 0.3, 1.0])
        pieces = slopes[np.searchsorted(np.sort(rng.uniform(-1.0, 1.0, size=3)), grid)]
        risk = np.cumsum(pieces) * (grid[1] - grid[0])
        k = math.exp(rng.uniform(0.0, 7.0))
        energy = k * (risk + 0.5 * m * grid**2)
        weights = np.exp(energy.min() - energy)
        mean = (weights * (risk - risk.min())).sum() / weights.sum()
        bound = exponential_mechanism(facts(), temperature=1.0 / k, regularisation=m)
        assert mean <= bound * 1.01
        worst = max(worst, mean / bound)
    assert worst > 0.5


@pytest.mark.parametrize("name", RISKS)
@pytest.mark.parametrize(("k", "m"), [*itertools.product((5.0, 60.0), (0.3, 3.0))])
def test_regularised_privacy_by_quadrature(name, k, m):
    """``H(P, Q) <= delta_G(epsilon; G sqrt(k/m))`` for three perturbations, in both orders."""
    shift = 0.05
    mu = shift * math.sqrt(k / m)
    energy = k * (RISKS[name] + 0.5 * m * LINE**2)
    p = density(energy)
    for other in (LINE, -LINE, np.abs(LINE)):
        q = density(energy + k * shift * other)
        for epsilon in (0.0, 0.1, 0.5, 1.0):
            bound = gaussian_delta(epsilon, mu=mu).upper + 1e-7  # the grid's error
            assert max(hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon)) <= bound


def test_unconstrained_linear_shift_is_attained_and_double_k_is_not_private():
    """A Gaussian of variance ``1/(k m)`` well inside, moved by ``G/m``: mu exactly."""
    k, m, shift = 2000.0, 0.5, 0.02
    mu = shift * math.sqrt(k / m)
    quadratic = 0.5 * m * LINE**2
    p, q = density(k * quadratic), density(k * (quadratic + shift * LINE))
    for epsilon in (0.0, 0.5, 1.0, 3.0):
        exact = gaussian_delta(epsilon, mu=mu).upper
        assert hockey_stick(p, q, epsilon) == pytest.approx(exact, rel=1e-4)
    p, q = density(2 * k * quadratic), density(2 * k * (quadratic + shift * LINE))
    assert hockey_stick(p, q, 1.0) > 1.2 * gaussian_delta(1.0, mu=mu).upper

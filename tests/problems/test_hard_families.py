"""Hard families: what they claim of strength, minimiser and hardness."""

from __future__ import annotations

import math

import numpy as np
import pytest

from privopt.problems import FAMILIES, family

SIZES = {"n": 100, "noise_ratio": 0.05, "strength": 1.0}


def built(name, **changes):
    return family(name).build(**{"dim": 5, **SIZES, **changes})


@pytest.mark.parametrize("strength", FAMILIES["linear"].strengths)
@pytest.mark.parametrize(("n", "noise_ratio"), [(10, 0.3), (1000, 0.01), (999, 0.07), (10**6, 2.0)])
def test_linear_family_pulls_by_the_stated_strength(strength, n, noise_ratio):
    """The optimum is minus the mean of the data, reached at ``e_1``."""
    problem = built("linear", n=n, noise_ratio=noise_ratio, strength=strength)
    wanted = min(1.0, strength * noise_ratio)
    assert -problem.reference.value == pytest.approx(wanted, abs=1.0 / n + 1e-9)
    assert problem.excess_risk(np.zeros(5)) == pytest.approx(wanted, abs=1.0 / n + 1e-9)
    np.testing.assert_allclose(problem.reference.minimiser, np.eye(5)[0], atol=1e-6)
    assert np.sum(problem.counts) == n
    assert problem.problem_class.n == n
    problem.check()


def test_distance_family_keeps_its_minimiser_at_the_kink():
    problem = built("distance", n=1000, dim=7)
    assert np.sum(problem.counts) == problem.problem_class.n == 1000
    assert problem.reference.value == pytest.approx(0.0, abs=problem.reference.gap + 1e-15)
    assert problem.excess_risk(np.full(7, 0.1)) == pytest.approx(0.1 * math.sqrt(7), abs=2e-6)
    problem.check()


@pytest.mark.parametrize("strength", FAMILIES["huber"].strengths)
@pytest.mark.parametrize(
    ("n", "dim", "noise_ratio"), [(1000, 5, 0.01), (640, 64, 0.3), (997, 3, 0.02)]
)
def test_huber_family_pulls_every_coordinate_alike(n, dim, noise_ratio, strength):
    """A naive twin: record ``i`` in coordinate ``i mod d``; the minimiser touches the ball."""
    problem = built("huber", n=n, dim=dim, noise_ratio=noise_ratio, strength=strength)
    problem.check()
    counts = np.asarray(problem.counts)
    assert counts.sum() == n
    sizes = np.bincount(np.arange(n) % dim, minlength=dim)
    np.testing.assert_array_equal(counts[:dim] + counts[dim:], sizes)
    wanted = min(1.0, strength * noise_ratio * math.sqrt(dim))
    assert np.all(np.abs((counts[:dim] - counts[dim:]) / sizes - wanted) <= 1.0 / sizes)
    h, point = 1.0 / math.sqrt(dim), np.linspace(-2.0, 2.5, dim) / math.sqrt(dim)
    total = 0.0
    for i in range(n):
        j = i % dim
        positive = i // dim < counts[j]
        residual = abs(point[j] - (2 * h if positive else -2 * h))
        total += residual**2 / (2 * h) if residual <= h else residual - h / 2
    assert problem.risk(point) == pytest.approx(total / n, rel=1e-12)
    assert problem.reference.gap <= 1e-9
    if n % dim == 0:
        np.testing.assert_allclose(problem.reference.minimiser, np.full(dim, h), atol=1e-6)


@pytest.mark.parametrize("strength", FAMILIES["medians"].strengths)
@pytest.mark.parametrize(
    ("n", "dim", "noise_ratio"), [(1000, 5, 0.01), (640, 64, 0.3), (997, 3, 0.02)]
)
def test_medians_pull_every_coordinate_alike(n, dim, noise_ratio, strength):
    """A naive twin, record by record; the minimiser is a unit away from the start."""
    problem = built("medians", n=n, dim=dim, noise_ratio=noise_ratio, strength=strength)
    problem.check()
    counts, height = np.asarray(problem.counts), 1.0 / math.sqrt(dim)
    assert counts.sum() == n
    sizes = np.bincount(np.arange(n) % dim, minlength=dim)
    wanted = min(1.0, strength * noise_ratio * math.sqrt(dim))
    assert np.all(np.abs((counts[:dim] - counts[dim:]) / sizes - wanted) <= 1.0 / sizes)
    point = np.linspace(-2.0, 2.5, dim) / math.sqrt(dim)
    total = 0.0
    for i in range(n):
        j = i % dim
        total += abs(point[j] - (height if i // dim < counts[j] else -height))
    assert problem.risk(point) == pytest.approx(total / n, rel=1e-12)
    assert problem.reference.gap <= 2e-6
    best = np.full(dim, height)
    assert problem.excess_risk(best) == pytest.approx(0.0, abs=2e-6)
    assert np.linalg.norm(best) == pytest.approx(1.0)


def test_medians_push_back_harder_than_they_pull():
    """What makes them harder than linear losses: overshooting costs 1/m times what it gains."""
    problem = built("medians", n=40_000, dim=4, noise_ratio=0.01, strength=5.0)
    below, at, beyond = (problem.risk(np.full(4, 0.5) * size) for size in (0.9, 1.0, 1.1))
    assert (beyond - at) / (below - at) == pytest.approx(1.0 / 0.1, rel=1e-9)


@pytest.mark.parametrize("steps", [16, 100, 400])
def test_descent_to_a_far_distance_attains_half_of_its_bound(steps):
    """A step of R/sqrt(T) takes sqrt(T) steps to get there: the average pays (1 + 1/sqrt(T))/2."""
    problem = built("far_distance", n=10, dim=3)
    problem.check()
    point = np.zeros(3)
    risks = []
    for _ in range(steps):
        risks.append(problem.excess_risk(point))
        gap = np.eye(3)[0] - point
        point = point + gap * min(1.0, 1.0 / math.sqrt(steps) / max(np.linalg.norm(gap), 1e-300))
    wanted = (1.0 + 1.0 / math.sqrt(steps)) / (2.0 * math.sqrt(steps))
    assert np.mean(risks) == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize(
    "name", ["linear", "distance", "two_kinks", "huber", "medians", "far_distance"]
)
def test_hard_families_are_free_in_size(name):
    found = family(name)
    assert found.hard
    assert found.dim is found.max_n is None
    for n, dim in ((1, 1), (10**6, 200)):
        problem = built(name, n=n, dim=dim)
        assert (problem.problem_class.n, problem.problem_class.dim) == (n, dim)

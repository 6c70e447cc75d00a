"""Tests of the declared strength, minimiser and hardness of hard families."""

from __future__ import annotations

import math

import numpy as np
import pytest

from privopt.problems import FAMILIES, family

SIZES = {"n": 100, "noise_ratio": 0.05, "strength": 1.0}


def built(name, **changes):
    return family(name).build(**{"dim": 5, **SIZES, **changes})


@pytest.mark.parametrize("strength", FAMILIES["linear"].strengths[::2])
@pytest.mark.parametrize(("n", "noise_ratio"), [(10, 0.3), (999, 0.07), (10**6, 2.0)])
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


@pytest.mark.cases(4)
@pytest.mark.parametrize(
    ("name", "strength"),
    [
        (name, strength)
        for name in ("huber", "medians")
        for strength in FAMILIES[name].strengths[::2]
    ],
)
@pytest.mark.parametrize(
    ("n", "dim", "noise_ratio"), [(1000, 5, 0.01), (640, 64, 0.3), (997, 3, 0.02)]
)
def test_medians_pull_every_coordinate_alike(name, strength, n, dim, noise_ratio):
    """A naive twin: record ``i`` in coordinate ``i mod d``; the minimiser touches the ball."""
    problem = built(name, n=n, dim=dim, noise_ratio=noise_ratio, strength=strength)
    problem.check()
    counts = np.asarray(problem.counts)
    assert counts.sum() == n
    sizes = np.bincount(np.arange(n) % dim, minlength=dim)
    np.testing.assert_array_equal(counts[:dim] + counts[dim:], sizes)
    wanted = min(1.0, strength * noise_ratio * math.sqrt(dim))
    assert np.all(np.abs((counts[:dim] - counts[dim:]) / sizes - wanted) <= 1.0 / sizes)
    h, point = 1.0 / math.sqrt(dim), np.linspace(-2.0, 2.5, dim) / math.sqrt(dim)
    height, width = (2.0 * h, h) if name == "huber" else (h, 0.0)
    total = 0.0
    for i in range(n):
        j = i % dim
        residual = abs(point[j] - (height if i // dim < counts[j] else -height))
        total += residual - 0.5 * width if residual > width else residual**2 / (2.0 * h)
    assert problem.risk(point) == pytest.approx(total / n, rel=1e-12)
    assert problem.reference.gap <= (1e-9 if name == "huber" else 2e-6)
    if name == "medians":
        assert problem.excess_risk(np.full(dim, h)) == pytest.approx(0.0, abs=2e-6)
    elif n % dim == 0:
        np.testing.assert_allclose(problem.reference.minimiser, np.full(dim, h), atol=1e-6)


def test_medians_push_back_harder_than_they_pull():
    """Overshooting costs 1/m times its gain, so medians are harder than linear losses."""
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


# Streams of linear losses: information of their order about the next record.
def records(name, n, dim=4):
    problem = built(name, n=n, dim=dim)
    return problem, np.asarray(problem.data[0], np.float64)


@pytest.mark.parametrize("n", [1, 2, 1000])
def test_the_next_record_is_orthogonal_to_the_sum_of_all_before(n):
    problem, rows = records("orthogonal_linear", n)
    sums = np.cumsum(rows, axis=0)
    np.testing.assert_allclose(np.linalg.norm(sums, axis=1), np.sqrt(np.arange(1, n + 1)))
    np.testing.assert_allclose((sums[:-1] * rows[1:]).sum(axis=1), 0.0, atol=1e-12 * n)
    assert n * problem.reference.value == pytest.approx(-math.sqrt(n))
    problem.check()


def test_no_order_is_worse():
    """A leader of ``Lambda = sqrt(n)`` regrets ``sqrt(n)``, and as much while sums stay short."""
    n = 400
    _, rows = records("orthogonal_linear", n)

    def regret(order):
        before = np.concatenate([np.zeros((1, 4)), np.cumsum(rows[order], axis=0)[:-1]])
        points = before / math.sqrt(n)
        points /= np.maximum(1.0, np.linalg.norm(points, axis=1, keepdims=True))
        return math.sqrt(n) - (points * rows[order]).sum()

    assert regret(np.arange(n)) == pytest.approx(math.sqrt(n), rel=1e-12)
    rng = np.random.default_rng(0)
    others = np.array([regret(rng.permutation(n)) for _ in range(200)])
    assert others.max() <= math.sqrt(n) * (1 + 1e-12)
    assert others.min() < 0.99 * math.sqrt(n)


def test_random_signs_are_long_and_balanced():
    """Five standard errors: ``E |S|^2 = n``, and ``|S|^2`` varies by ``2 n^2/d``."""
    n, dim = 4096, 50
    problem, rows = records("random_linear", n, dim)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0, rtol=1e-12)
    square = np.sum(rows.sum(axis=0) ** 2)
    assert abs(square / n - 1.0) < 5 * math.sqrt(2 / dim)
    assert n * problem.reference.value == pytest.approx(-math.sqrt(square))
    fewer, first = records("random_linear", 100, dim)
    np.testing.assert_array_equal(first, rows[:100])
    fewer.check()


def test_streams_are_hard_families():
    assert family("orthogonal_linear").hard
    assert family("random_linear").hard
    with pytest.raises(ValueError, match="dim must be at least 2 for orthogonal_linear, got 1"):
        records("orthogonal_linear", 10, dim=1)

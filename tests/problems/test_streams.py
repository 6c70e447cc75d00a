"""Streams of linear losses: what the stored order tells of the next record, and the best point."""

import math

import numpy as np
import pytest

from privopt.problems import family

SIZES = {"noise_ratio": 0.1, "strength": 1.0}


def records(name, n, dim=4):
    problem = family(name).build(n=n, dim=dim, **SIZES)
    return problem, np.asarray(problem.data[0], np.float64)


@pytest.mark.parametrize("n", [1, 2, 100, 1000])
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

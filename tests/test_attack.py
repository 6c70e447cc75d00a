"""Power and level of the attack that other tests use."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

RUNS = 100_000


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_it_nearly_attains_the_epsilon_of_laplace_noise(epsilon_lower_bound, epsilon, sign):
    """Test both orders of the neighbours; false alarm 1e-4."""
    rng = np.random.default_rng(0)
    one, two = rng.laplace(scale=1.0 / epsilon, size=(2, RUNS)) + np.array([[0.0], [sign]])
    assert 0.85 * epsilon < epsilon_lower_bound(one, two) <= epsilon


def test_it_finds_nothing_where_there_is_nothing(epsilon_lower_bound):
    one, two = np.random.default_rng(1).normal(size=(2, RUNS))
    assert epsilon_lower_bound(one, two) == 0.0
    assert epsilon_lower_bound(np.zeros(RUNS), np.zeros(RUNS)) == 0.0


def test_it_reads_atoms_and_a_delta(epsilon_lower_bound):
    """Test an outcome of one side only: 50,000 runs prove at most ln(50,000 / 9.9)."""
    certain = epsilon_lower_bound(np.ones(RUNS), np.zeros(RUNS))
    assert certain == pytest.approx(math.log(RUNS / 2 / -math.log(5e-5)), abs=1e-3)
    rare = np.random.default_rng(2).random(RUNS) < 0.01
    assert epsilon_lower_bound(rare, np.zeros(RUNS)) > 3.0
    assert epsilon_lower_bound(rare, np.zeros(RUNS), delta=0.011) == 0.0


def test_it_respects_the_delta_of_gaussian_noise(epsilon_lower_bound):
    """Compare with ``delta(epsilon) = Phi(1/2 - epsilon) - e^epsilon Phi(-1/2 - epsilon)``."""
    one, two = np.random.default_rng(3).normal(size=(2, RUNS)) + np.array([[0.0], [1.0]])
    epsilon = 1.0
    delta = stats.norm.cdf(0.5 - epsilon) - math.exp(epsilon) * stats.norm.cdf(-0.5 - epsilon)
    assert 0.8 * epsilon < epsilon_lower_bound(one, two, delta) <= epsilon

"""Tests of generalisation bounds. The Gaussian mean attains their leading term."""

import math

import numpy as np
import pytest
from scipy import stats

from privopt.theory import expected_generalisation, information_generalisation


@pytest.mark.parametrize("n", [1, 5, 200])
@pytest.mark.parametrize("noise", [0.05, 0.5, 3.0])
def test_both_bound_the_gap_of_a_noisy_sign_of_a_mean(n, noise):
    """Records are fair signs, ``w`` the sign of their noisy mean, the loss ``[w x < 0]``: exact."""
    counts = np.arange(n + 1)
    chance, mean = stats.binom.pmf(counts, n, 0.5), 2.0 * counts / n - 1.0
    up = stats.norm.cdf(mean / noise)
    own = float(chance @ (up * (1.0 - counts / n) + (1.0 - up) * counts / n))
    gap, mu = 0.5 - own, 2.0 / (n * noise)
    variation = 2.0 * stats.norm.cdf(mu / 2.0) - 1.0
    told = expected_generalisation(0.0, variation, spread=1.0)
    heard = information_generalisation(n * mu**2 / 2.0, n=n, spread=1.0)
    assert 0.0 < gap <= min(told, heard)
    assert gap > 0.1 * min(told, 1.0)
    for epsilon in (0.1, 1.0):
        delta = stats.norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * stats.norm.cdf(
            -mu / 2 - epsilon / mu
        )
        assert told <= expected_generalisation(epsilon, delta, spread=1.0) * (1.0 + 1e-12)
    assert expected_generalisation(800.0, 0.0, spread=2.0) == 2.0

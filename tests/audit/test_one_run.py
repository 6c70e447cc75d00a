"""One run: the bound against the published loop, coins of known privacy, complete algorithms."""

import jax
import numpy as np
import pytest
from scipy.stats import binom

import privopt
from privopt.audit import least_epsilon, least_mu, one_run

BUDGET = privopt.Budget(epsilon=4.0, delta=1e-5, relation="zero_out")


def p_value(m, r, v, eps, delta):
    """The paper's loop."""
    q = 1 / (1 + np.exp(-eps))
    beta, alpha, total = binom.sf(v - 1, r, q), 0.0, 0.0
    for i in range(1, v + 1):
        total += binom.pmf(v - i, r, q)
        alpha = max(alpha, total / i)
    return beta + alpha * delta * 2 * m


@pytest.mark.parametrize("delta", [0.0, 1e-6, 1e-4])
@pytest.mark.parametrize(("m", "r", "v"), [(50, 50, 45), (1000, 100, 98), (1000, 100, 100)])
def test_the_bound_is_where_the_chance_is_the_failure(m, r, v, delta):
    found = least_epsilon(m, r, v, delta, 0.05)
    assert found > 0.5
    np.testing.assert_allclose(p_value(m, r, v, found, delta), 0.05, rtol=1e-6)


@pytest.mark.parametrize("right", [0, 40, 55])
def test_luck_is_no_finding(right):
    assert least_epsilon(1000, 100, right, 1e-5, 0.05) == 0.0
    assert least_mu(1000, 100, right, 0.05) == 0.0


@pytest.mark.parametrize(
    ("m", "r", "v", "mu"),
    [
        (1000, 100, 95, 0.78681181),
        (1000, 100, 80, 0.36432559),
        (3200, 320, 270, 0.51304266),
        (50, 50, 45, 0.7751014),
    ],
)
def test_the_bound_of_a_whole_curve_is_that_of_jax_privacy(m, r, v, mu):
    """2.0.0, whose answer is the epsilon at 1e-5 of that mu."""
    assert least_mu(m, r, v, 0.05) == pytest.approx(mu, abs=1e-7)


@pytest.mark.parametrize("mu", [0.3, 1.0])
def test_normals_are_found_no_further_apart_than_they_are(mu):
    """False alarm 1e-6 for 2,000 tries. A third is found; above mu at a quarter of the noise."""
    rng, m, r = np.random.default_rng(0), 1000, 200

    def right(apart):
        coins = rng.random((2000, m)) < 0.5
        order = np.argsort(rng.normal(size=coins.shape) + apart * coins, axis=1)
        sorted_coins = np.take_along_axis(coins, order, axis=1)
        return (~sorted_coins[:, : r // 2]).sum(axis=1) + sorted_coins[:, -r // 2 :].sum(axis=1)

    counts, times = np.unique(right(mu), return_counts=True)
    found = np.array([least_mu(m, r, each, 0.05) for each in counts])
    assert times[found > mu].sum() <= binom.isf(1e-6, 2000, 0.05)
    assert np.average(found, weights=times) > 0.3 * mu
    assert least_mu(m, r, int(right(4.0 * mu).mean()), 0.05) > mu


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_answers_by_coins_are_found_as_private_as_they_are(epsilon):
    """Randomised response, for which the bound is tight: false alarm 1e-6 for 2,000 tries, and on
    average no further below than a test by normals.
    """
    rng, m, q = np.random.default_rng(0), 4000, 1 / (1 + np.exp(-epsilon))
    counts, times = np.unique(rng.binomial(m, q, size=2000), return_counts=True)
    found = np.array([least_epsilon(m, m, each, 0.0, 0.05) for each in counts])
    assert times[found > epsilon].sum() <= binom.isf(1e-6, 2000, 0.05)
    assert np.average(found, weights=times) > epsilon - 2.0 / np.sqrt(m * q * (1 - q))
    assert least_epsilon(m, m, round(m / (1 + np.exp(-1.3 * epsilon))), 0.0, 0.05) > epsilon


@pytest.mark.parametrize("name", ["dp_gd", "dp_sgd", "output_perturbation"])
def test_something_is_found_and_no_claim_is_refuted(name):
    """False alarm .01 an algorithm."""
    found = one_run(name, BUDGET, key=jax.random.key(1), guesses=100, failure=0.01)
    assert 0.0 < found.epsilon <= found.claimed
    assert found.mu > 0.0


def test_what_is_no_one_run_audit_is_refused():
    key = jax.random.key(0)
    with pytest.raises(ValueError, match="relation must be zero_out, got replace_one"):
        one_run("dp_gd", privopt.Budget(epsilon=1.0, delta=1e-5, relation="replace_one"), key=key)
    with pytest.raises(ValueError, match="guesses must be at most canaries = 10, got 11"):
        one_run("dp_gd", BUDGET, key=key, canaries=10, guesses=11)
    with pytest.raises(ValueError, match="algorithm must take linear losses, got projection"):
        one_run("projection_mechanism", BUDGET, key=key, canaries=20)
    with pytest.raises(ValueError, match="failure must be above 0 and below 1, got 0"):
        one_run("dp_gd", BUDGET, key=key, canaries=20, failure=0)

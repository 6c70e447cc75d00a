"""One-run audits: published loops, answers of known privacy, and complete algorithms."""

import time

import jax
import numpy as np
import pytest
from refusals import refused
from scipy.special import ndtr, ndtri
from scipy.stats import beta, binom
from selection import choose, few

import privopt
from privopt.audit import least_epsilon, least_mu, one_run

BUDGET = privopt.Budget(epsilon=4.0, delta=1e-5, relation="zero_out")


def p_value(m, r, v, eps, delta):
    """Return the p-value by the published loop."""
    q = 1 / (1 + np.exp(-eps))
    beta, alpha, total = binom.sf(v - 1, r, q), 0.0, 0.0
    for i in range(1, v + 1):
        total += binom.pmf(v - i, r, q)
        alpha = max(alpha, total / i)
    return beta + alpha * delta * 2 * m


def mu_is_refuted(mu, m, r, v, failure):
    """Return True if the published loop for a trade-off curve refutes ``mu``."""
    correct, wrong = failure * v / m, failure * (r - v) / m
    for i in range(v - 1, -1, -1):
        forced = max(0.0, float(ndtr(ndtri(correct) - mu)) - wrong)
        correct, wrong = correct + forced * i / (r - i), wrong + forced
    return correct + wrong > r / m


def bisected(refuted):
    """Return the largest refuted number up to 100, by 60 halvings, or 0 if none is refuted."""
    low, high = 0.0, 100.0
    if not refuted(low):
        return 0.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low


def counts(rng, largest):
    """Draw records, guesses, correct guesses and a failure probability."""
    r = int(rng.integers(1, largest))
    v = int(rng.integers(r // 3, r + 1))
    return r * int(rng.choice([1, 2, 10])), r, v, float(rng.choice([0.001, 0.05, 0.3, 0.9]))


def test_bounds_are_those_of_the_loops_to_twelve_digits():
    """Compare audits of up to 120 guesses with the published loops, by bisection."""
    rng = np.random.default_rng(0)
    for _ in range(choose(300, 100)):
        m, r, v, failure = counts(rng, 120)
        delta = float(rng.choice([0.0, 1e-8, 1e-5, 1e-3]))
        mu = bisected(lambda x, a=(m, r, v, failure): mu_is_refuted(x, *a))
        assert abs(least_mu(m, r, v, failure) - mu) <= 1e-12
        i = np.arange(1, v + 1)

        def refuted(epsilon, m=m, r=r, v=v, failure=failure, delta=delta, i=i):
            q = 1.0 / (1.0 + np.exp(-epsilon))
            at_least = binom.sf(v - 1, r, q)
            means = (binom.sf(v - i - 1, r, q) - at_least) / i
            return at_least + 2.0 * m * delta * np.max(means, initial=0.0) <= failure

        assert abs(least_epsilon(m, r, v, delta, failure) - bisected(refuted)) <= 1e-12


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    "right",
    few([500_900, 501_000, 600_000, 990_000, 999_999, 1_000_000], [500_900, 600_000, 1_000_000]),
)
def test_a_million_guesses_take_less_than_a_few_seconds(right):
    """Compare epsilon at delta 0 with its closed form, the logit of the Clopper-Pearson bound.

    Rounding of the tail, 1e-13, changes a small epsilon by 5e-12. Rounding of the probability of a
    correct guess, 1e-16, changes a large one by 1e-16/(1 - probability). The published loop refutes
    mu slightly below the bound and not slightly above it.
    """
    n, failure = 10**6, 0.05
    start = time.process_time()
    mu, epsilon = least_mu(n, n, right, failure), least_epsilon(n, n, right, 0.0, failure)
    with_delta = least_epsilon(n, n, right, 1e-9, failure)
    assert time.process_time() - start < 5.0
    share = beta.ppf(failure, right, n - right + 1)
    atol = 5e-12 + 3e-16 / (1.0 - share)
    np.testing.assert_allclose(epsilon, np.log(share / (1.0 - share)), rtol=1e-12, atol=atol)
    assert 0.0 < with_delta < epsilon
    assert mu_is_refuted(mu * (1.0 - 1e-9), n, n, right, failure)
    assert not mu_is_refuted(mu * (1.0 + 1e-9), n, n, right, failure)


@pytest.mark.parametrize("delta", [0.0, 1e-6, 1e-4])
@pytest.mark.parametrize(("m", "r", "v"), [(50, 50, 45), (1000, 100, 98), (1000, 100, 100)])
def test_the_bound_is_where_the_chance_is_the_failure(m, r, v, delta):
    bounds = least_epsilon(m, r, v, delta, 0.05)
    assert bounds > 0.5
    np.testing.assert_allclose(p_value(m, r, v, bounds, delta), 0.05, rtol=1e-6)


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
    """Compare with jax-privacy 2.0.0, which returns the epsilon at 1e-5 of the same mu."""
    assert least_mu(m, r, v, 0.05) == pytest.approx(mu, abs=1e-7)


@pytest.mark.parametrize("mu", [0.3, 1.0])
def test_normals_are_found_no_further_apart_than_they_are(mu):
    """Test 2,000 audits with false alarm 1e-6. The mean bound is at least 0.3 mu.

    With a quarter of the noise the bound is above mu.
    """
    rng, m, r = np.random.default_rng(0), 1000, 200

    def right(shift):
        included = rng.random((2000, m)) < 0.5
        order = np.argsort(rng.normal(size=included.shape) + shift * included, axis=1)
        in_order = np.take_along_axis(included, order, axis=1)
        return (~in_order[:, : r // 2]).sum(axis=1) + in_order[:, -r // 2 :].sum(axis=1)

    counts, times = np.unique(right(mu), return_counts=True)
    bounds = np.array([least_mu(m, r, each, 0.05) for each in counts])
    assert times[bounds > mu].sum() <= binom.isf(1e-6, 2000, 0.05)
    assert np.average(bounds, weights=times) > 0.3 * mu
    assert least_mu(m, r, int(right(4.0 * mu).mean()), 0.05) > mu


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_answers_by_coins_are_found_as_private_as_they_are(epsilon):
    """Test randomised response, for which the bound is tight: false alarm 1e-6 for 2,000 audits.

    The mean is at least that of a normal test.
    """
    rng, m, q = np.random.default_rng(0), 4000, 1 / (1 + np.exp(-epsilon))
    counts, times = np.unique(rng.binomial(m, q, size=2000), return_counts=True)
    bounds = np.array([least_epsilon(m, m, each, 0.0, 0.05) for each in counts])
    assert times[bounds > epsilon].sum() <= binom.isf(1e-6, 2000, 0.05)
    assert np.average(bounds, weights=times) > epsilon - 2.0 / np.sqrt(m * q * (1 - q))
    assert least_epsilon(m, m, round(m / (1 + np.exp(-1.3 * epsilon))), 0.0, 0.05) > epsilon


@pytest.mark.cases(2)
@pytest.mark.parametrize("name", ["dp_gd", "dp_sgd", "output_perturbation"])
def test_something_is_found_and_no_claim_is_refuted(name):
    """False alarm .01 an algorithm."""
    bounds = one_run(name, BUDGET, key=jax.random.key(1), guesses=100, failure=0.01)
    assert 0.0 < bounds.epsilon <= bounds.claimed
    assert bounds.mu > 0.0


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
    with pytest.raises(ValueError, match="key must be a single typed key"):
        one_run("dp_gd", BUDGET, key=31337, canaries=20)


GOOD = {"canaries": 1000, "guesses": 100, "right": 80, "delta": 1e-5, "failure": 0.05}
SHARED = [
    ({"canaries": 0}, "canaries must be a positive integer, got 0"),
    ({"canaries": 1e3}, "canaries must be a positive integer, got 1000.0"),
    ({"canaries": True}, "canaries must be a positive integer"),
    ({"canaries": np.array([31337])}, "canaries must be a positive integer, got an object of type"),
    ({"guesses": 0}, "guesses must be a positive integer, got 0"),
    ({"guesses": 1001}, "guesses must be at most canaries = 1000, got 1001"),
    ({"guesses": "100"}, "guesses must be a positive integer"),
    ({"right": 101}, "right must be at most guesses = 100, got 101"),
    ({"right": -1}, "right must be a non-negative integer, got -1"),
    ({"right": 80.0}, "right must be a non-negative integer, got 80.0"),
    ({"right": False}, "right must be a non-negative integer"),
    ({"failure": 0.0}, "failure must be above 0 and below 1, got 0.0"),
    ({"failure": 1.0}, "failure must be above 0 and below 1, got 1.0"),
    ({"failure": float("nan")}, "failure must be above 0 and below 1, got nan"),
    ({"failure": [0.05]}, "failure must be a real number, got an object of type list"),
]
DELTAS = [
    ({"delta": -1e-9}, r"delta must lie in \[0, 1\), got -1e-09"),
    ({"delta": 1.0}, r"delta must lie in \[0, 1\), got 1.0"),
    ({"delta": float("nan")}, "delta must be a real number, got nan"),
    ({"delta": "0"}, "delta must be a real number"),
]
test_no_epsilon_follows_from_impossible_counts = refused(
    *SHARED, *DELTAS, of=lambda **arguments: least_epsilon(**GOOD | arguments)
)
test_no_mu_follows_from_impossible_counts = refused(
    *SHARED,
    of=lambda **arguments: least_mu(
        **{k: v for k, v in (GOOD | arguments).items() if k != "delta"}
    ),
)


def test_counts_may_be_of_numpy():
    arguments = {name: np.array(value)[()] for name, value in GOOD.items()}
    assert least_epsilon(**arguments) == least_epsilon(**GOOD)

"""Tests of votes on noisy inputs and certificates: twins, closed forms, attack on coverage."""

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import binomtest, norm

from privopt import Budget, random
from privopt.privacy import gaussian_delta
from privopt.statistics import Certificate, Votes, clopper_pearson, noisy_votes

KEY = jax.random.key(0)
PLANE = jnp.array([3.0, -4.0, 0.0])  # of length 5


def sides(x):
    """Two classes, one a side of a plane."""
    return (x @ PLANE) * jnp.array([1.0, -1.0])


def certificate(*counts, chosen=0, spoiled=0, sigma=1.0, failure=1e-3):
    return Certificate.of(Votes(chosen, np.array(counts), spoiled, sigma), failure=failure)


# Votes


def test_votes_are_those_of_a_loop_over_copies_whatever_the_chunk():
    weights = jnp.asarray(np.random.default_rng(0).normal(size=(3, 4)))
    x, sigma, called = np.array([0.3, -0.2, 0.1]), 0.7, []
    for number in range(60):
        noise = np.asarray(random.normal(jax.random.fold_in(KEY, number), (3,), np.float64))
        found = (x + sigma * noise) @ np.asarray(weights)
        called.append(4 if found[0] > 1.0 else int(np.argmax(found)))
    choosing, fresh = (np.bincount(part, minlength=5) for part in (called[:10], called[10:]))

    def scores(x):
        found = x @ weights
        return jnp.where(found[0] > 1.0, jnp.nan, found)

    for chunk in (7, 128):
        options = {"samples": 50, "choosing": 10, "chunk": chunk}
        votes = jax.jit(partial(noisy_votes, scores, **options))(x, sigma, KEY)
        assert int(votes.chosen) == choosing[:4].argmax()
        assert 0 < int(votes.spoiled) == fresh[4]
        np.testing.assert_array_equal(votes.counts, fresh[:4])


def test_vmap_is_the_loop_and_a_new_sigma_is_no_new_trace():
    traces, inputs, keys = [], jnp.eye(3), jax.random.split(KEY, 3)

    @jax.jit
    def voted(x, sigma, key):
        traces.append(x)
        return noisy_votes(sides, x, sigma, key, samples=40)

    loop = [
        voted(x, sigma, key) for sigma in (0.5, 5.0) for x, key in zip(inputs, keys, strict=True)
    ]
    assert len(traces) == 1
    many = jax.vmap(voted, (0, None, 0))(inputs, 5.0, keys)
    np.testing.assert_array_equal(many.counts, [votes.counts for votes in loop[3:]])


def test_noise_has_the_right_scale_and_a_wrong_one_is_seen():
    """A copy is on the side of the input with probability ``Phi(margin/sigma)``; at 1e-6."""
    x, sigma = np.array([3.0, 1.0, 7.0]), 1.25  # 1 from the plane
    voted = jax.jit(partial(noisy_votes, sides, samples=20_000))

    def accepted(sigma):
        votes = voted(x, sigma, KEY)
        expected = norm.cdf(1.0 / 1.25)
        return binomtest(int(votes.counts[0]), 20_000, expected).pvalue > 1e-6

    assert accepted(sigma)
    assert not accepted(1.1 * sigma)
    assert not accepted(0.9 * sigma)


# Bounds and radii


def test_bounds_of_a_probability_are_those_of_scipy():
    hits = np.array([0, 1, 37, 99, 100])
    lower, upper = clopper_pearson(hits, 100, 0.01)
    known = [binomtest(int(k), 100).proportion_ci(0.98, method="exact") for k in hits]
    np.testing.assert_allclose(lower, [each.low for each in known], rtol=1e-9)
    np.testing.assert_allclose(upper, [each.high for each in known], rtol=1e-9)


def test_two_classes_have_the_radius_of_one_bound_and_more_share_the_failure():
    won = certificate(1000, 0, sigma=0.5)
    assert won.lower == pytest.approx(0.001 ** (1 / 1000), rel=1e-12)
    assert won.radius == pytest.approx(0.5 * norm.ppf(0.001 ** (1 / 1000)), rel=1e-9)
    found = certificate(100, 700, 150, chosen=1, sigma=2.0, spoiled=50)
    lower = binomtest(700, 1000, alternative="greater").proportion_ci(1.0 - 0.001 / 3).low
    upper = binomtest(150, 1000, alternative="less").proportion_ci(1.0 - 0.001 / 3).high
    assert (found.predicted, found.lower) == (1, pytest.approx(lower))
    assert found.upper == pytest.approx(upper)
    assert found.radius == pytest.approx(norm.ppf(lower) - norm.ppf(upper))
    # Spoiled copies are votes against: for all that is known, they are another's.
    assert certificate(1000, 0, spoiled=500).radius < certificate(1000, 500).radius + 1e-12


@pytest.mark.parametrize(
    ("lower", "upper"),
    [(0.5001, 0.4999), (0.5 + 1e-6, 0.5 - 1e-6), (0.6, 0.1), (0.999, 0.001), (0.2, 0.1)],
)
def test_the_radius_by_epsilon_is_the_last_of_its_condition_and_below_that_by_f_dp(lower, upper):
    found = Certificate(3, lower, upper, 0.25)
    epsilons = np.linspace(0.0, 0.5 * math.log(lower / upper), 400)

    def holds(radius):
        return any(
            lower
            > math.exp(2.0 * e) * upper
            + (1.0 + math.exp(e)) * gaussian_delta(e, mu=radius / 0.25).upper
            for e in epsilons
        )

    assert 0.0 < found.radius_by_epsilon <= found.radius
    assert holds(0.999 * found.radius_by_epsilon)
    assert not holds(1.001 * found.radius_by_epsilon)


def test_a_margin_is_never_exceeded_and_reached_with_many_votes():
    """Two classes are separated by a plane. Votes are as expected, or as low as 1 time in 1,000."""
    for margin in (0.3, 1.0, 2.5):
        share, ratios = norm.cdf(margin), []
        for samples in (10**3, 10**5, 10**7, 10**9):
            votes = round(share * samples)
            found = certificate(votes, samples - votes)
            assert found.radius_by_epsilon <= found.radius < margin
            ratios.append(found.radius / margin)
        assert ratios == sorted(ratios)
        assert ratios[-1] > 0.999


def test_an_adversary_beyond_the_margin_turns_the_vote_and_within_the_radius_does_not():
    x, sigma = jnp.array([3.0, 1.0, 7.0]), 0.5
    votes = noisy_votes(sides, x, sigma, KEY, samples=20_000)
    found = Certificate.of(votes)
    assert found.predicted == 0
    assert 0.9 < found.radius < 1.0
    for step, expected in ((0.8 * found.radius, 0), (1.1, 1)):
        moved = noisy_votes(sides, x - step * PLANE / 5.0, sigma, KEY, samples=20_000)
        assert Certificate.of(moved).predicted == expected


# Coverage: 100,000 certificates for two equally likely classes. Each one that does not abstain is
# wrong.


def lies(failure=0.01, fresh=True):
    """Return the number of wrong certificates out of 100,000, each claimed at failure 0.01."""
    rng = np.random.default_rng(1)
    counts, first = (rng.binomial(n, 0.5, size=100_000) for n in (500, 101))
    chosen = 1 - np.where(fresh, first > 50, counts > 250)
    cases, times = np.unique(np.stack([counts, chosen]), axis=1, return_counts=True)
    wrong = [
        certificate(count, 500 - count, chosen=which, failure=failure).predicted is not None
        for count, which in cases.T
    ]
    return int(times @ wrong)


def test_one_certificate_in_a_hundred_lies_and_broken_ones_more_often():
    """The false alarm is 1e-6. Selecting and bounding on one sample doubles the failure rate."""

    def refuted(wrong):
        return float(clopper_pearson(wrong, 100_000, 1e-6)[0]) > 0.01

    assert not refuted(lies())
    assert lies() > 700  # and no more careful than needed: 0.0087 by enumeration
    assert refuted(lies(failure=0.02))
    assert refuted(lies(fresh=False))


# Abstaining, and bad input


def test_no_certificate_is_an_abstention_and_no_error():
    tie = certificate(500, 500)
    assert (tie.predicted, tie.radius, tie.radius_by_epsilon, tie.at(0.0)) == (None, 0.0, 0.0, None)
    sure = certificate(10_000, 0)
    assert sure.at(0.0) == sure.at(0.99 * sure.radius) == 0
    assert sure.at(sure.radius) is sure.at(math.inf) is None
    votes = jax.jit(partial(noisy_votes, lambda x: jnp.full(3, jnp.nan), samples=20))
    nothing = votes(PLANE, 1.0, KEY)
    assert Certificate.of(nothing).predicted is None


def test_the_relation_is_of_inputs_and_no_budget_takes_it():
    assert Certificate.relation == "inputs_at_l2_distance"
    with pytest.raises(ValueError, match="relation must be one of"):
        Budget(epsilon=1.0, delta=0.1, relation=Certificate.relation)


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (lambda: certificate(90, 10, sigma=0.0), "sigma must be positive and finite, got 0.0"),
        (lambda: certificate(90, 10, failure=1.0), "failure must be above 0 and below 1, got 1.0"),
        (lambda: certificate(90, 10, failure=math.nan), "failure must be above 0 and below 1"),
        (lambda: certificate(9, 0), "samples must be at least 10 for any .* 0.001, got 9"),
        (lambda: certificate(11, 0, 0), "samples must be at least 12 for any .* 0.001, got 11"),
        (lambda: certificate(90), "votes must be on one input and at least two classes"),
        (lambda: certificate([90, 10], [3, 97]), "one input .* got shape \\(2, 2\\)"),
        (lambda: certificate(90, 10).at(-0.1), "radius must be non-negative, got -0.1"),
        (lambda: certificate(90, 10).at(math.nan), "radius must be non-negative, got nan"),
        (lambda: noisy_votes(sides, PLANE, 1.0, KEY, samples=0), "samples must be an integer"),
        (
            lambda: noisy_votes(sides, jnp.arange(3), 1.0, KEY, samples=9),
            "x must be float32 or float64, got int",
        ),
        (
            lambda: noisy_votes(sides, PLANE, 1.0, KEY, samples=9, choosing=0.5),
            "choosing must be an integer",
        ),
    ],
)
def test_bad_input_is_refused_by_name(bad, said):
    with pytest.raises(ValueError, match=said):
        bad()


def test_as_many_votes_as_are_asked_for_can_certify():
    assert certificate(10, 0).predicted == certificate(12, 0, 0).predicted == 0

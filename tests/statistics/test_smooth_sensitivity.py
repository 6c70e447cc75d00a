"""Noise scaled to smooth sensitivity: exact density ratios, budgets, the laws of the noise."""

from __future__ import annotations

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from builders import ks_p_value, one_scale_passes
from dp_accounting import NonPrivateDpEvent
from scipy import integrate, stats
from selection import choose

from privopt.privacy import Guarantee
from privopt.release import Tape
from privopt.spec import Budget, Relation
from privopt.statistics import Median, SmoothCauchyMechanism, SmoothLaplaceMechanism

REPLACE = Relation.REPLACE_ONE
QUERY = Median.of(0.0, 1.0)
DATA = (0.1, 0.2, 0.35, 0.4, 0.42, 0.43, 0.5, 0.6, 0.8)
RUNS = choose(100_000, 20_000)  # bounds are exact for any number
others = pytest.mark.parametrize("relation", [Relation.ADD_OR_REMOVE_ONE, Relation.ZERO_OUT])


def budget(epsilon, delta=0.0, relation=REPLACE):
    return Budget(epsilon=epsilon, delta=delta, relation=relation)


def laplace_hockey_stick(epsilon, shift, spread, other):
    """``int (p - e^epsilon q)_+`` of ``Lap(0, spread)`` and ``Lap(shift, other)``."""
    tails = [spread * 10.0**e for e in (-1, 0, 1, 2, 3)]
    ends = sorted({0.0, shift, *(k + s * t for k in (0.0, shift) for s in (-1, 1) for t in tails)})

    def positive(z):
        p = -abs(z) / spread - math.log(2.0 * spread)
        q = -abs(z - shift) / other - math.log(2.0 * other) + epsilon
        return math.exp(p) * -math.expm1(min(q - p, 0.0))

    return sum(integrate.quad(positive, a, b, limit=200)[0] for a, b in itertools.pairwise(ends))


def worst_delta(found, epsilon):
    beta, scale = found.smoothness, found.scale
    return max(
        laplace_hockey_stick(epsilon, min(1.0, math.exp(log_ratio)), scale, scale * other)
        for log_ratio in (-beta, 0.0, beta)
        for other in (math.exp(log_ratio),)
    )


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("delta", [1e-3, 0.1, 0.5])
def test_the_worst_laplace_pair_stays_within_epsilon_and_delta(epsilon, delta):
    found = SmoothLaplaceMechanism.calibrated(QUERY, budget(epsilon, delta))
    assert worst_delta(found, epsilon) <= delta
    careless = found._replace(smoothness=20.0 * found.smoothness * math.log(2.0 / delta))
    assert worst_delta(careless, epsilon) > 0.1 * delta


def test_the_laplace_constants_fail_where_they_are_refused():
    """The noise of the formula is too small at epsilon 15, delta 1/2, by the same integral."""
    careless = SmoothLaplaceMechanism(QUERY, 15.0 / (2.0 * math.log(4.0)), 2.0 / 15.0)
    assert worst_delta(careless, 15.0) > 0.55
    assert careless.event(REPLACE) == NonPrivateDpEvent()
    with pytest.raises(ValueError, match=r"epsilon must not exceed 1 .* got 1\.01"):
        SmoothLaplaceMechanism.calibrated(QUERY, budget(1.01, 1e-6))


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-5, 0.5])
def test_laplace_noise_meets_the_budget_and_two_percent_less_does_not(epsilon, delta):
    found = SmoothLaplaceMechanism.calibrated(QUERY, budget(epsilon, delta))
    assert all(float(np.float32(x)) == x for x in found[1:])
    assert found.scale == pytest.approx(2.0 / epsilon, rel=1e-6)
    smoothness = found.smoothness + 2.0**-18  # for round-off
    assert smoothness == pytest.approx(epsilon / (2.0 * math.log(2.0 / delta)), rel=1e-6)
    guarantee = Guarantee(found.event(REPLACE), REPLACE)
    assert guarantee.epsilon(delta).upper <= epsilon
    assert guarantee.delta(epsilon).upper <= delta
    smoother = found._replace(smoothness=found.smoothness + 0.02 * smoothness)
    assert Guarantee(smoother.event(REPLACE), REPLACE).epsilon(delta).upper == math.inf
    less = found._replace(scale=0.98 * found.scale)
    event = less.event(REPLACE)  # a delta of 1/2 leaves room for more
    undisclosed = event if event == NonPrivateDpEvent() else event.events[1]
    assert Guarantee(undisclosed, REPLACE).epsilon(0.0).lower > epsilon


def test_noise_has_the_stated_law_and_scale_and_no_other():
    found = SmoothLaplaceMechanism.calibrated(QUERY, budget(1.0, 1e-4))
    keys = jax.random.split(jax.random.key(0), 200_000)
    records = jnp.asarray(DATA)
    noisy = jax.jit(jax.vmap(found.release, (0, None)))(keys, records)
    sensitivity = jax.jit(QUERY.smooth_sensitivity)(records, found.smoothness)
    spread = found.scale * float(sensitivity)
    one_scale_passes(
        lambda r: ks_p_value(np.asarray(noisy), stats.laplace(0.42, spread * r).cdf),
        0.95,
        1.05,
    )


@pytest.mark.parametrize(("dtype", "n"), [(np.float32, 1061), (np.float64, 8501)])
def test_data_far_from_moving_are_no_easier_told_apart_than_claimed(dtype, n, epsilon_lower_bound):
    """Every record is at a bound, or all but one: ``e^(-beta k)`` is 0 only in the first case.

    False alarm 1e-4. Without a floor the first data set would be released without noise.
    """
    found = SmoothLaplaceMechanism.calibrated(QUERY, budget(1.0, 0.1))

    @jax.jit
    def releases(key, records):
        return jax.vmap(found.release, (0, None))(jax.random.split(key, RUNS), records)

    one = np.zeros(n, dtype)
    one[0] = 1.0
    released = map(releases, jax.random.split(jax.random.key(1)), (np.zeros(n, dtype), one))
    sizes = [np.abs(np.asarray(x)) for x in released]
    assert epsilon_lower_bound(*sizes, delta=0.1) <= 1.0
    assert all((size > 0.0).mean() > 0.999 for size in sizes)


@others
def test_other_relations_and_bad_budgets_fail_with_their_name(relation):
    found = SmoothLaplaceMechanism.calibrated(QUERY, budget(1.0, 1e-6))
    with pytest.raises(ValueError, match=f"must be replace_one .* got {relation}"):
        found.event(relation)
    with pytest.raises(ValueError, match=f"must be replace_one .* got {relation}"):
        found.calibrated(QUERY, budget(0.5, 1e-6, relation))
    with pytest.raises(ValueError, match=r"delta must be positive .* got 0\.0"):
        SmoothLaplaceMechanism.calibrated(QUERY, budget(1.0))
    with pytest.raises(ValueError, match=r"above 2\^-17 ln\(2/delta\) .* got 0\.0001"):
        SmoothLaplaceMechanism.calibrated(QUERY, budget(1e-4, 1e-12))
    assert found._replace(scale=0.0).event(REPLACE) == NonPrivateDpEvent()


# --- Cauchy noise ---------------------------------------------------------------------------------


def largest_log_ratio(scale, log_ratio):
    """Return the supremum of ``|ln p/q|`` of Cauchy laws a unit apart, on a fine grid."""
    steps = np.geomspace(1e-6, 1e9, 20_001)
    x = np.concatenate([-steps[::-1], [0.0], steps])
    places = np.concatenate([x, x + 1.0])
    one = stats.cauchy(0.0, scale).logpdf(places)
    two = stats.cauchy(1.0, scale * math.exp(log_ratio)).logpdf(places)
    return np.abs(one - two).max()


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 4.0])
@pytest.mark.parametrize("share", [1 / 6, 1 / 2, 0.9])
def test_cauchy_loss_is_the_largest_ratio_of_densities(epsilon, share):
    """Check every change of the scale between neighbours; the theorem needs only its two ends."""
    mechanism = SmoothCauchyMechanism(QUERY, share * epsilon, 1.2 / epsilon)
    ratios = np.linspace(0.0, mechanism.smoothness, 9)
    losses = [largest_log_ratio(mechanism.scale, b) for b in ratios]
    assert max(losses) == pytest.approx(max(losses[0], losses[-1]))
    assert mechanism.loss(REPLACE) == pytest.approx(max(losses), rel=2e-4)
    assert mechanism.loss(REPLACE) > max(losses)
    assert mechanism.loss(REPLACE) < mechanism.smoothness + 2.0 * math.asinh(0.5 / mechanism.scale)


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 10.0])
def test_cauchy_noise_meets_the_budget_and_one_percent_less_does_not(epsilon):
    found = SmoothCauchyMechanism.calibrated(QUERY, budget(epsilon))
    assert all(float(np.float32(x)) == x for x in found[1:])
    spent = Guarantee(found.event(REPLACE), REPLACE).epsilon(0.0)
    assert 0.999 * epsilon < spent.lower
    assert spent.upper <= epsilon
    assert found._replace(scale=0.99 * found.scale).loss(REPLACE) > epsilon
    published = SmoothCauchyMechanism(QUERY, epsilon / 6.0, 6.0 / epsilon)
    assert published.loss(REPLACE) < 0.3 * epsilon


def test_cauchy_release_is_that_of_numpy_and_has_the_stated_scale_and_no_other():
    """Check 200,000 releases, false alarm 1e-6, and one with its noise read from a tape."""
    found = SmoothCauchyMechanism.calibrated(QUERY, budget(1.0))
    records = np.asarray(DATA)
    padded = np.concatenate([np.zeros(9), np.sort(records), np.ones(9)])
    local = [max(padded[13 + t] - padded[13 + t - k - 1] for t in range(k + 2)) for k in range(9)]
    spread = found.scale * max(np.exp(-found.smoothness * np.arange(9)) * local)

    @jax.jit
    def taped(key):
        with Tape(traced=True) as tape:
            return found.release(key, jnp.asarray(records)), tape["noise"][0]

    released, noise = map(float, taped(jax.random.key(0)))
    assert released == pytest.approx(0.42 + spread * noise, rel=1e-12)
    keys = jax.random.split(jax.random.key(1), 200_000)
    noisy = np.asarray(jax.jit(jax.vmap(found.release, (0, None)))(keys, jnp.asarray(records)))
    one_scale_passes(lambda r: ks_p_value(noisy, stats.cauchy(0.42, spread * r).cdf), 0.95, 1.05)


def test_cauchy_noise_is_no_easier_to_distinguish_than_claimed(epsilon_lower_bound):
    """Records at both bounds attain the claim: the likelihood ratio finds 0.85 of it.

    Half of the noise exceeds it. False alarm 1e-4 each.
    """
    found = SmoothCauchyMechanism.calibrated(QUERY, budget(1.0))
    pair = np.array([0.0, 0.0, 1.0]), np.array([0.0, 1.0, 1.0])
    keys = jax.random.split(jax.random.key(2), (2, 400_000))

    release = jax.jit(jax.vmap(SmoothCauchyMechanism.release, (None, 0, None)))

    def lower_bound(factor):
        mechanism = found._replace(scale=factor * found.scale)
        noisy = [np.asarray(release(mechanism, k, x)) for k, x in zip(keys, pair, strict=True)]
        laws = [stats.cauchy(place, mechanism.scale) for place in (0.0, 1.0)]
        return epsilon_lower_bound(*(laws[1].logpdf(x) - laws[0].logpdf(x) for x in noisy))

    assert 0.85 <= lower_bound(1.0) <= 1.0
    assert lower_bound(0.5) > 1.0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_cauchy_release_of_hostile_records_is_finite_and_varies(dtype):
    found = SmoothCauchyMechanism.calibrated(QUERY, budget(1.0))
    keys = jax.random.split(jax.random.key(3), 1000)
    release = jax.jit(jax.vmap(found.release, (0, None)))
    for records in ([np.nan] * 3, [1e38, -1e38, np.inf], [1e-45, 5e-39, 0.0], [0.0] * 1001):
        noisy = np.asarray(release(keys, jnp.asarray(records, dtype)))
        assert noisy.dtype == dtype
        assert np.isfinite(noisy).all()
        assert np.unique(noisy).size > 900


@others
def test_cauchy_refuses_other_relations_and_tiny_budgets(relation):
    found = SmoothCauchyMechanism.calibrated(QUERY, budget(1.0))
    with pytest.raises(ValueError, match=f"must be replace_one .* got {relation}"):
        found.event(relation)
    with pytest.raises(ValueError, match=f"must be replace_one .* got {relation}"):
        found.calibrated(QUERY, budget(0.5, 0.0, relation))
    with pytest.raises(ValueError, match=r"above 2\^-17 for smooth Cauchy noise, got 1e-06"):
        found.calibrated(QUERY, budget(1e-6))
    assert found._replace(scale=0.0).event(REPLACE) == NonPrivateDpEvent()

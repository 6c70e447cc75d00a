"""Tests of noisy means: noise scale, laws of the released values, and exact attacks."""

from __future__ import annotations

import math
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from builders import ks_p_value, one_scale_passes
from scipy import stats

from privopt.core.parameters import scaled
from privopt.mechanisms import ClippedMean, CompressedMean, ProjectedMean
from privopt.mechanisms.additive import classic_gaussian_scale
from privopt.mechanisms.means import largest_gain
from privopt.privacy import Guarantee, gaussian_mu
from privopt.spec import Budget, ProblemClass, Relation

RUNS = 100_000
N, S = 10, 2
CLASS = ProblemClass(n=N, dim=6, lipschitz=1.0, radius=1.0, sparsity=S)
QUERY = ClippedMean.of(CLASS)
BUDGET = Budget(epsilon=2.0, delta=0.1, relation="replace_one")
PURE = Budget(epsilon=1.0, delta=0.0, relation="replace_one")
FLAT = np.array([1.0, -1.0, 0.0, 0.0, 0.0, 0.0]) / math.sqrt(S) / N  # of one record, in the mean


@cache
def keys(seed):
    return jax.random.split(jax.random.key(seed), RUNS)


def raw(noise, budget, **options):
    return ProjectedMean.calibrated(QUERY, budget, noise=noise, body="none", **options)


@jax.jit
@partial(jax.vmap, in_axes=(None, 0, None))
def _released(mechanism, key, mean):
    return mechanism.release(key, mean)


def released(mechanism, mean, seed):
    return np.asarray(_released(mechanism, keys(seed), jnp.array(mean)))


def gaussian_ratio(outcomes, shift, scale):
    """``ln p(y; shift)/p(y; -shift)`` of independent normals."""
    return 2.0 * outcomes @ shift / scale**2


def laplace_ratio(outcomes, shift, scale):
    return (np.abs(outcomes + shift) - np.abs(outcomes - shift)).sum(axis=-1) / scale


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_the_best_attack_stays_below_the_claim_and_comes_close(noise, epsilon_lower_bound):
    """On flat opposites, by likelihood ratios; with a third of the noise it is above the claim."""
    gaussian = noise == "gaussian"
    budget, ratio = (BUDGET, gaussian_ratio) if gaussian else (PURE, laplace_ratio)
    mechanism = raw(noise, budget)
    scores = [
        ratio(released(mechanism, sign * FLAT, seed), FLAT, mechanism.scale)
        for seed, sign in enumerate((1.0, -1.0))
    ]
    found = epsilon_lower_bound(*scores, budget.delta)
    assert 0.8 * budget.epsilon <= found <= budget.epsilon
    weak = scaled(mechanism, 1.0 / 3.0)
    scores = [ratio(released(weak, sign * FLAT, 2), FLAT, weak.scale) for sign in (1.0, -1.0)]
    assert epsilon_lower_bound(*scores, budget.delta) > budget.epsilon


@pytest.mark.thorough  # the gain of a matrix and the noise are tested below
@pytest.mark.parametrize("given", [False, True])
def test_the_best_attack_on_measurements(given, epsilon_lower_bound):
    """The matrix is released: given it, measurements are normals that move by ``A v``."""
    matrix = np.random.default_rng(0).normal(size=(4, 6)) if given else None
    if given:  # the worst pair is along the largest gain, which a longest column attains
        matrix = matrix / np.linalg.norm(matrix, axis=0) * np.array([1.0, 0.5, 0.5, 0.4, 0.3, 0.2])
        query = ClippedMean.of(ProblemClass(n=N, dim=6, lipschitz=1.0, radius=1.0, sparsity=1))
        shift = np.array([1.0, 0, 0, 0, 0, 0]) / N
    else:
        query, shift = QUERY, FLAT
    mechanism = CompressedMean.calibrated(query, BUDGET, measurements=4, matrix=matrix)

    @jax.jit
    @jax.vmap
    def ratio(key, sign):
        coins, noise = jax.random.split(key)
        drawn = mechanism.draw(coins, 6)
        heard = mechanism.measure(noise, drawn, sign * jnp.array(shift))
        return 2.0 * heard @ (drawn @ jnp.array(shift)) / mechanism.scale**2

    scores = [ratio(keys(seed), sign * jnp.ones(RUNS)) for seed, sign in ((3, 1.0), (4, -1.0))]
    found = epsilon_lower_bound(*scores, BUDGET.delta)
    assert 0.8 * BUDGET.epsilon <= found <= BUDGET.epsilon


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_noise_has_the_stated_scale_and_no_other(noise):
    mechanism = raw(noise, BUDGET)
    drawn = np.sort((released(mechanism, FLAT, 6) - FLAT).ravel())
    law = stats.norm if noise == "gaussian" else stats.laplace
    one_scale_passes(lambda r: ks_p_value(drawn, law(scale=r * mechanism.scale).cdf), 0.98, 1.02)


@pytest.mark.parametrize("relation", list(Relation))
def test_scales_are_the_textbooks(relation):
    """``2L/(n mu)``, ``2 L sqrt(s)/(n epsilon)``; half of both where a record is not replaced."""
    half = relation.multiple / 2
    budget = Budget(epsilon=0.7, delta=1e-6, relation=relation)
    exact = 2.0 / N * half / gaussian_mu(0.7, 1e-6)
    assert raw("gaussian", budget).scale == pytest.approx(exact, rel=2e-7)
    classic = math.sqrt(8.0 * math.log(1.25 / 1e-6)) / (N * 0.7) * half
    assert raw("gaussian", budget, classic=True).scale == pytest.approx(classic, rel=2e-7)
    assert classic_gaussian_scale(QUERY, budget) == raw("gaussian", budget, classic=True).scale
    laplace = 2.0 * math.sqrt(S) / (N * 0.7) * half
    assert raw("laplace", budget).scale == pytest.approx(laplace, rel=2e-7)
    published = CompressedMean.calibrated(QUERY, budget, measurements=60, calibration="published")
    exact = math.sqrt(18.0 * math.log(2.5 / 1e-6)) / (N * 0.7) * half
    assert published.scale == pytest.approx(exact, rel=2e-7)


def test_splitting_delta_costs_more_and_is_within_the_budget():
    budget = Budget(epsilon=1.0, delta=1e-6, relation="replace_one")
    least, split = (
        CompressedMean.calibrated(QUERY, budget, measurements=20, calibration=calibration)
        for calibration in ("mixture", "split")
    )
    assert split.scale / raw("gaussian", budget).scale == pytest.approx(1.888, abs=0.01)
    for mechanism in (least, split):
        assert Guarantee(mechanism.event(budget.relation), budget.relation).meets(budget)
    for epsilon in np.linspace(0.3, 3.0, 10).tolist():  # a scale rounded to nearest breaks half
        budget = Budget(epsilon=epsilon, delta=1e-6, relation="replace_one")
        given = CompressedMean.calibrated(QUERY, budget, measurements=6, matrix=np.eye(6))
        assert Guarantee(given.event(budget.relation), budget.relation).meets(budget)


def test_the_gain_of_a_matrix_is_never_exceeded():
    rng = np.random.default_rng(8)
    for _ in range(20):
        matrix = rng.normal(size=(5, 9)) * rng.uniform(0.1, 2.0, size=9)
        for sparsity in (1, 2, 4):
            vectors = rng.normal(size=(200, 9)) * (rng.random((200, 9)) < 0.5)
            vectors[:100] = np.sign(vectors[:100])  # flat
            l2, l1 = np.linalg.norm(vectors, axis=1), np.abs(vectors).sum(axis=1)
            longest = np.maximum(np.maximum(l2, l1 / math.sqrt(sparsity)), 1e-300)
            gains = np.linalg.norm(vectors @ matrix.T, axis=1) / longest
            assert gains.max() <= largest_gain(matrix, sparsity)
    wide = 0.1 * rng.normal(size=(40, 1100)) / math.sqrt(40.0)
    wide[:, -2:] = np.eye(40)[:, :1]  # equal columns beyond the first block of them
    assert math.sqrt(2.0) <= largest_gain(wide, 2.0) <= 1.5
    columns = np.linalg.norm(matrix, axis=0).max()
    assert largest_gain(matrix, 1.0) == pytest.approx(columns, rel=1e-12)
    same = np.ones((1, 3))
    assert largest_gain(same, 2.0) == pytest.approx(math.sqrt(2.0), rel=1e-12)
    assert largest_gain(same, 9.0) == pytest.approx(math.sqrt(3.0), rel=1e-12)


def test_a_query_that_is_no_mean_is_refused():
    with pytest.raises(ValueError, match="query must be a ClippedMean"):
        ProjectedMean.calibrated(None, BUDGET)

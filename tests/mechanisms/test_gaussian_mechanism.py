"""The Gaussian mechanism: calibrated to the budget and no further, with noise of that scale.

Statistical tests use fixed keys; their level is the probability that an unlucky key would have
raised a false alarm.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, NoOpDpEvent
from dp_accounting.pld import privacy_loss_distribution
from mpmath import mp
from scipy import stats

from privopt import draws
from privopt.mechanisms import ClippedGradient, GaussianMechanism, RegularisedMinimiser
from privopt.mechanisms.additive import classic_gaussian_scale
from privopt.privacy import Guarantee
from privopt.spec import Budget, ProblemClass, Relation
from privopt.statistics import Count

LEVEL = 1e-6
CLASS = ProblemClass(n=1000, dim=7, lipschitz=0.3, radius=1.0, smoothness=1.0)
relations = pytest.mark.parametrize("relation", list(Relation))
budgets = pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-8), (1.0, 1e-6), (8.0, 1e-3)])


def queries(relation):
    return (
        ClippedGradient.of(CLASS),
        RegularisedMinimiser.of(CLASS, relation, regularisation=0.1),
    )


def spent(mechanism, budget, compositions):
    event = mechanism.event(budget.relation)
    return Guarantee(event, budget.relation).times(compositions).epsilon(budget.delta)


@relations
@budgets
@pytest.mark.parametrize("compositions", [1, 100])
def test_calibrated_noise_meets_the_budget_and_two_percent_less_does_not(
    relation, epsilon, delta, compositions
):
    budget = Budget(epsilon=epsilon, delta=delta, relation=relation)
    for query in queries(relation):
        mechanism = GaussianMechanism.calibrated(query, budget, compositions=compositions)
        assert spent(mechanism, budget, compositions).upper <= epsilon
        less = mechanism._replace(scale=0.98 * mechanism.scale)
        assert spent(less, budget, compositions).lower > epsilon


@relations
def test_scale_is_a_float32_number_and_the_event_speaks_of_that_number(relation):
    budget = Budget(epsilon=1.0, delta=1e-6, relation=relation)
    for query in queries(relation):
        mechanism = GaussianMechanism.calibrated(query, budget)
        assert float(np.float32(mechanism.scale)) == mechanism.scale
        multiplier = mechanism.event(relation).noise_multiplier
        expected = mechanism.scale * relation.multiple / query.sensitivity(relation)
        assert multiplier == pytest.approx(expected, rel=1e-14)
        assert multiplier * query.sensitivity(relation) <= mechanism.scale * relation.multiple


def test_replacing_costs_what_the_textbook_says_it_costs():
    """An independent accountant on the textbook mechanism: noise ``sigma``, distance ``2C/n``."""
    relation = Relation.REPLACE_ONE
    budget = Budget(epsilon=1.0, delta=1e-6, relation=relation)
    mechanism = GaussianMechanism.calibrated(ClippedGradient.of(CLASS), budget)
    textbook = privacy_loss_distribution.from_gaussian_mechanism(
        mechanism.scale, sensitivity=2.0 * 0.3 / 1000, value_discretization_interval=1e-4
    )
    assert textbook.get_epsilon_for_delta(1e-6) == pytest.approx(1.0, rel=1e-3)


def test_no_gaussian_noise_meets_delta_zero():
    budget = Budget(epsilon=1.0, delta=0.0, relation=Relation.ZERO_OUT)
    with pytest.raises(ValueError, match=r"delta must be positive .* got 0\.0"):
        GaussianMechanism.calibrated(ClippedGradient.of(CLASS), budget)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_noise_is_normal_of_the_stated_scale_and_of_no_other(dtype):
    mechanism = GaussianMechanism(ClippedGradient.of(CLASS), 2.5)
    answer = jnp.linspace(-3.0, 3.0, 20_000, dtype=dtype)
    noisy = jax.jit(mechanism.add_noise)(jax.random.key(0), answer)
    assert noisy.dtype == dtype
    noise = np.asarray(noisy, np.float64) - np.asarray(answer, np.float64)
    p_value = {
        ratio: stats.kstest(noise, stats.norm(scale=2.5 * ratio).cdf).pvalue
        for ratio in (0.8, 1.0, 1.25)
    }
    assert p_value[1.0] > LEVEL
    assert max(p_value[0.8], p_value[1.25]) < LEVEL


@pytest.mark.optimised
def test_noise_is_independent_over_keys_and_coordinates_and_repeats_with_its_key():
    mechanism = GaussianMechanism(ClippedGradient.of(CLASS), 0.5)
    keys = jax.random.split(jax.random.key(1), 2_000)
    noise = np.asarray(jax.vmap(mechanism.add_noise, (0, None))(keys, jnp.zeros(7)))
    again = mechanism.add_noise(keys[5], jnp.zeros(7))
    np.testing.assert_array_equal(noise[5], again)

    def tail(correlation, samples):
        return stats.norm.sf(abs(correlation) * math.sqrt(samples)) * 2.0

    neighbours = np.corrcoef(noise[:-1].ravel(), noise[1:].ravel())[0, 1]
    assert tail(neighbours, noise[1:].size) > LEVEL
    across = np.corrcoef(noise.T)[np.triu_indices(7, 1)]
    assert tail(np.abs(across).max(), len(noise)) > LEVEL / across.size
    assert stats.kstest(noise.ravel(), stats.norm(scale=0.5).cdf).pvalue > LEVEL


def test_noise_norm_bounds_the_mean_norm_closely():
    mechanism = GaussianMechanism(ClippedGradient.of(CLASS), 0.5)
    for dim in (1, 7, 100):
        mean = 0.5 * math.sqrt(2.0) * math.exp(math.lgamma((dim + 1) / 2) - math.lgamma(dim / 2))
        assert mean <= mechanism.noise_norm(dim) <= mean * (1.0 + 0.26 / dim)


def test_numbers_are_leaves_that_enter_by_argument():
    budget = Budget(epsilon=1.0, delta=1e-6, relation=Relation.ZERO_OUT)
    traces = []

    @jax.jit
    def release(mechanism, key):
        traces.append(None)
        return mechanism.add_noise(key, jnp.zeros(3))

    key = jax.random.key(0)
    scales = []
    for compositions in (1, 4):
        mechanism = GaussianMechanism.calibrated(
            ClippedGradient.of(CLASS), budget, compositions=compositions
        )
        scales.append(mechanism.scale)
        np.testing.assert_allclose(
            release(mechanism, key) / mechanism.scale, draws.normal(key, (3,), float), 1e-14
        )
    assert len(traces) == 1
    assert scales[1] == pytest.approx(2.0 * scales[0], rel=1e-6)


GOLDEN = {  # epsilon, delta -> sigma at sensitivity 1, to 50 digits: exact, classic
    (1.0, 1e-5): (3.730631634816, 4.844805262605),
    (10.0, 1e-5): (0.499888619709, 0.484480526261),
}


class Unit(NamedTuple):
    """A query that moves by one under every relation."""

    def sensitivity(self, relation):
        return 1.0


@relations
def test_golden_scales_of_the_exact_and_of_the_classic_formula(relation):
    for (epsilon, delta), (exact, classic) in GOLDEN.items():
        budget = Budget(epsilon=epsilon, delta=delta, relation=relation)
        assert GaussianMechanism.calibrated(Unit(), budget).scale == pytest.approx(exact, rel=2e-7)
        if epsilon <= 1.0:
            assert classic_gaussian_scale(Unit(), budget) == pytest.approx(classic, rel=2e-7)


def test_exact_noise_is_right_in_both_directions():
    """A smaller scale fails and a larger one wastes, against 30 digits; no square is taken."""
    budget = Budget(epsilon=0.5, delta=1e-4, relation=Relation.ZERO_OUT)
    scale = GaussianMechanism.calibrated(Unit(), budget).scale

    def delta(sigma):
        with mp.workdps(30):
            mu, epsilon = 1 / mp.mpf(sigma), mp.mpf(0.5)
            tail = mp.ncdf(-epsilon / mu - mu / 2)
            return mp.ncdf(mu / 2 - epsilon / mu) - mp.exp(epsilon) * tail

    assert delta(scale) <= 1e-4 < delta(scale * (1 - 1e-6))
    assert delta(scale**2) < 1e-5


@relations
def test_the_classic_formula_holds_up_to_one_and_refuses_beyond(relation):
    for epsilon in (0.01, 0.3, 1.0):
        for delta in (1e-9, 1e-3, 0.3, 0.9):
            budget = Budget(epsilon=epsilon, delta=delta, relation=relation)
            scale = classic_gaussian_scale(Unit(), budget)
            event = GaussianMechanism(Unit(), scale).event(relation)
            assert Guarantee(event, relation).delta(epsilon).upper <= delta
    too_much = Budget(epsilon=1.001, delta=1e-5, relation=relation)
    with pytest.raises(ValueError, match=r"epsilon must not exceed 1 .* got 1\.001"):
        classic_gaussian_scale(Unit(), too_much)
    pure = Budget(epsilon=1.0, delta=0.0, relation=relation)
    with pytest.raises(ValueError, match=r"delta must be positive .* got 0\.0"):
        classic_gaussian_scale(Unit(), pure)


def test_the_classic_formula_at_ten_adds_too_little():
    """Why it refuses: its noise of 0.48448 gives 2.27e-5 where 1e-5 was claimed."""
    event = GaussianDpEvent(GOLDEN[10.0, 1e-5][1])
    delta = Guarantee(event, Relation.ZERO_OUT).delta(10.0)
    assert delta.upper == pytest.approx(2.265374e-5, rel=1e-6)


def test_a_query_that_nothing_moves_needs_no_noise():
    budget = Budget(epsilon=1.0, delta=1e-5, relation=Relation.REPLACE_ONE)
    mechanism = GaussianMechanism.calibrated(Count(), budget)
    assert mechanism.scale == 0.0
    assert mechanism.event(Relation.REPLACE_ONE) == NoOpDpEvent()

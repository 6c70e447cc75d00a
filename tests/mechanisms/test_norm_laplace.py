"""The norm-Laplace mechanism: its noise has the density that makes it exactly epsilon-DP.

Statistical tests use fixed keys; their level is the probability that an unlucky key would have
raised a false alarm.
"""

from __future__ import annotations

import math
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from privopt.mechanisms import ClippedGradient, NormLaplaceMechanism, RegularisedMinimiser
from privopt.privacy import Guarantee
from privopt.spec import Budget, ProblemClass, Relation
from privopt.statistics import BoundedMean

LEVEL = 1e-6
DRAWS = 10_000
CLASS = ProblemClass(n=1000, dim=7, lipschitz=0.3, radius=1.0, smoothness=1.0)
relations = pytest.mark.parametrize("relation", list(Relation))
dims = pytest.mark.parametrize("dim", [1, 2, 10])


def mechanism(scale):
    return NormLaplaceMechanism(ClippedGradient.of(CLASS), scale)


@lru_cache
def noise(dim, dtype):
    keys = jax.random.split(jax.random.key(dim), DRAWS)
    add_noise = jax.jit(jax.vmap(mechanism(0.7).add_noise, (0, None)))
    return np.asarray(add_noise(keys, jnp.zeros(dim, dtype)))


@pytest.mark.parametrize(
    ("dim", "dtype"), [(1, np.float64), (2, np.float64), (10, np.float64), (10, np.float32)]
)
def test_radius_is_gamma_of_the_stated_scale_and_of_no_other(dim, dtype):
    drawn = noise(dim, dtype)
    assert drawn.dtype == dtype
    assert np.all(np.isfinite(drawn))
    radius = np.linalg.norm(drawn.astype(np.float64), axis=1)
    p_value = {
        ratio: stats.kstest(radius, stats.gamma(dim, scale=0.7 * ratio).cdf).pvalue
        for ratio in (0.8, 1.0, 1.25)
    }
    assert p_value[1.0] > LEVEL
    assert max(p_value[0.8], p_value[1.25]) < LEVEL


@dims
def test_radius_has_mean_d_beta_and_deviation_sqrt_d_beta(dim):
    """Five standard errors: level 6e-7 for the mean."""
    radius = np.linalg.norm(noise(dim, np.float64), axis=1)
    error = 0.7 * math.sqrt(dim / DRAWS)
    assert radius.mean() == pytest.approx(dim * 0.7, abs=5.0 * error)
    kurtosis = 3.0 + 6.0 / dim
    assert radius.var() == pytest.approx(
        dim * 0.7**2, rel=5.0 * math.sqrt((kurtosis - 1.0) / DRAWS)
    )
    assert mechanism(0.7).noise_norm(dim) == pytest.approx(dim * 0.7)


@dims
def test_direction_is_uniform_and_independent_of_the_radius(dim):
    drawn = noise(dim, np.float64)
    radius = np.linalg.norm(drawn, axis=1)
    direction = drawn / radius[:, None]
    if dim == 1:
        assert stats.binomtest(int(np.sum(direction > 0.0)), DRAWS).pvalue > LEVEL
    elif dim == 2:
        angle = np.arctan2(direction[:, 1], direction[:, 0])
        assert stats.kstest(angle, stats.uniform(-math.pi, 2.0 * math.pi).cdf).pvalue > LEVEL
    else:  # a coordinate t of a uniform direction has (1 + t)/2 ~ Beta((d-1)/2, (d-1)/2)
        beta = stats.beta((dim - 1) / 2, (dim - 1) / 2)
        for axis in range(dim):
            p_value = stats.kstest((1.0 + direction[:, axis]) / 2.0, beta.cdf).pvalue
            assert p_value > LEVEL / dim
    correlation = stats.spearmanr(radius, direction[:, 0]).statistic
    assert 2.0 * stats.norm.sf(abs(correlation) * math.sqrt(DRAWS)) > LEVEL


@relations
@pytest.mark.parametrize("dim", [1, 2])
@pytest.mark.parametrize("epsilon", [0.2, 3.0])
def test_privacy_loss_is_at_most_epsilon_and_attains_it(relation, dim, epsilon):
    """From the law just tested: a Gamma radius over a uniform direction, on a grid of outputs."""
    problem_class = ProblemClass(n=10, dim=dim, lipschitz=0.5, radius=1.0)
    query = ClippedGradient.of(problem_class)
    budget = Budget(epsilon=epsilon, delta=0.0, relation=relation)
    scale = NormLaplaceMechanism.calibrated(query, budget).scale
    distance = relation.multiple * 0.5 / 10

    axis = np.linspace(-3.0, 3.0, 501) * max(distance, scale) + 1e-7
    outputs = np.stack(np.meshgrid(*[axis] * dim), axis=-1).reshape(-1, dim)

    def log_density(points):
        radius = np.linalg.norm(points, axis=1)
        sphere = {1: 2.0, 2: 2.0 * math.pi}[dim] * radius ** (dim - 1)
        return stats.gamma.logpdf(radius, dim, scale=scale) - np.log(sphere)

    shift = np.eye(dim)[0] * distance
    loss = log_density(outputs) - log_density(outputs - shift)
    assert np.abs(loss).max() <= epsilon
    assert loss.max() >= 0.999 * epsilon
    assert loss.min() <= -0.999 * epsilon


@relations
@pytest.mark.parametrize("epsilon", [1e-9, 0.1, 1.0, 8.0])
def test_calibrated_noise_meets_the_budget_and_two_percent_less_does_not(relation, epsilon):
    """At 1e-9 the event itself, a float64 next to one half, costs a relative 1e-7."""
    budget = Budget(epsilon=epsilon, delta=0.0, relation=relation)
    for n in (1, 1000, 1024):
        problem_class = ProblemClass(n=n, dim=3, lipschitz=1.0, radius=1.0, smoothness=1.0)
        for query in (
            ClippedGradient.of(problem_class),
            RegularisedMinimiser.of(problem_class, relation, regularisation=0.5),
        ):
            found = NormLaplaceMechanism.calibrated(query, budget)
            assert float(np.float32(found.scale)) == found.scale
            spent = Guarantee(found.event(relation), relation).epsilon(0.0)
            assert spent.upper <= epsilon
            less = found._replace(scale=0.98 * found.scale)
            assert Guarantee(less.event(relation), relation).epsilon(0.0).lower > epsilon


def test_the_event_composes_like_any_pure_mechanism():
    relation = Relation.REPLACE_ONE
    budget = Budget(epsilon=0.25, delta=0.0, relation=relation)
    found = NormLaplaceMechanism.calibrated(ClippedGradient.of(CLASS), budget)
    assert Guarantee(found.event(relation), relation).times(4).epsilon(0.0).upper == pytest.approx(
        1.0, rel=1e-6
    )


def test_noise_repeats_with_its_key_and_shifts_with_the_answer():
    key, answer = jax.random.key(9), jnp.asarray([1.0, -2.0, 3.0])
    add_noise = jax.jit(mechanism(0.7).add_noise)
    first, second = (add_noise(key, a) for a in (answer, 0.0 * answer))
    np.testing.assert_allclose(first - answer, second, rtol=1e-14)
    other = add_noise(jax.random.key(10), answer)
    assert not np.any(other == first)


def test_a_query_that_nothing_moves_needs_no_noise():
    budget = Budget(epsilon=1.0, delta=0.0, relation=Relation.REPLACE_ONE)
    still = NormLaplaceMechanism.calibrated(BoundedMean.of(0.1, 0.1, 5), budget)
    assert still.scale == 0.0
    spent = Guarantee(still.event(Relation.REPLACE_ONE), Relation.REPLACE_ONE).epsilon(0.0)
    assert spent.upper == 0.0

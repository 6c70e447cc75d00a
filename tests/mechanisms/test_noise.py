"""Correlated noise and projections in the private gradient; unsupported pairs are rejected."""

import dataclasses
import math
from dataclasses import dataclass

import dp_accounting as dp
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import privopt
from privopt import problems
from privopt.convex import L2Ball, pytree_dataclass
from privopt.factorisations import SeriesFactorisation
from privopt.mechanisms import AllRecords, ClippedGradient, PrivateGradient
from privopt.release import Tape
from privopt.spec import Relation

N, DIM, STEPS = 12, 3, 6
FACTS = privopt.ProblemClass(n=N, dim=DIM, lipschitz=1.0, radius=5.0)
BUDGET = privopt.Budget(epsilon=1.0, delta=1e-5, relation="zero_out")
QUERY = ClippedGradient.of(FACTS)
LAG = 0.75


@pytree_dataclass
@dataclass(frozen=True)
class LaggedNoise:
    """``z_t = xi_t - a xi_{t-1}``: ``C^{-1} = I - a S``, ``C = sum_k a^k S^k``, ``S`` the shift.

    The whole of a noise with memory: this is all that a new one has to bring.
    """

    lag: float

    def init(self, point):
        return jax.tree.map(jnp.zeros_like, point)

    def update(self, state, t, key, like):
        fresh = jax.random.normal(jax.random.fold_in(key, t), like.shape, like.dtype)
        return fresh - self.lag * state, fresh

    def event(self, batches, noise_multiplier, steps, relation):
        sensitivity = self.factorisation(steps).sensitivity(*batches.participation(steps, relation))
        return dp.GaussianDpEvent(noise_multiplier / sensitivity)

    def factorisation(self, steps):
        return SeriesFactorisation("lagged", steps, np.ones(1), np.array([1.0, -self.lag]))


def problem(seed=0):
    rng = np.random.default_rng(seed)
    features, labels = rng.normal(size=(N, DIM)), np.where(rng.random(N) < 0.5, -1.0, 1.0)
    features /= 1.01 * np.linalg.norm(features, axis=1, keepdims=True)
    return problems.logistic(features, labels, problem_class=FACTS)


def made(batches, noise=None, post=None, steps=STEPS):
    return PrivateGradient.calibrated(QUERY, BUDGET, steps, batches, noise, post)


def test_the_loop_carries_the_state_of_the_noise():
    """A run of DP-GD with lagged noise, and of DP-SGD: by one argument. The twin is spelled out."""
    planned = privopt.dp_gd(FACTS, BUDGET, steps=STEPS, step_size=0.5, noise=LaggedNoise(LAG))
    assert planned.rate.upper == math.inf
    with Tape() as tape:
        found = privopt.run(planned, problem(), jax.random.key(1))
    noise_key = privopt.random.stream(jax.random.key(1), "noise")
    fresh = np.array(
        [jax.random.normal(jax.random.fold_in(noise_key, t), (DIM,)) for t in range(STEPS)]
    )
    lagged = fresh - LAG * np.vstack([np.zeros(DIM), fresh[:-1]])
    scale = planned.params.mechanism.scale
    np.testing.assert_allclose(tape["noise"], scale * lagged, rtol=1e-12)
    point = np.zeros(DIM)
    for answer in tape["answer"]:
        point = point - 0.5 * answer
        point *= min(1.0, 5.0 / np.linalg.norm(point))
    np.testing.assert_allclose(found.secret.last, point, rtol=1e-12)
    with pytest.raises(ValueError, match=r"no theorem covers this, got .* PoissonB"):
        privopt.dp_sgd(FACTS, BUDGET, steps=STEPS, batch_size=4, noise=LaggedNoise(LAG))


@pytest.mark.thorough  # the projected answers are in algorithms/test_bodies.py
def test_a_projection_of_the_answer_costs_no_privacy():
    """Onto a ball that holds every mean of clipped gradients: closer to it, for the same event."""
    given, post = made(AllRecords(), steps=100), L2Ball(1.0)
    projected = dataclasses.replace(given, post=post)
    assert projected.event(Relation.ZERO_OUT) == given.event(Relation.ZERO_OUT)
    objective, point = problem().objective, jnp.ones(DIM)

    def answers(mechanism):
        def ask(key):
            return mechanism.oracle(objective, key).update((), 0, point)[0]

        return np.asarray(jax.vmap(ask)(jax.random.split(jax.random.key(0), 200)))

    plain, onto = answers(given), answers(projected)
    size = np.linalg.norm(plain, axis=1, keepdims=True)
    np.testing.assert_allclose(onto, plain * np.minimum(1.0, 1.0 / size), rtol=1e-12)
    exact = np.asarray(QUERY.gradient_of(objective)(point))
    farther = np.linalg.norm(plain - exact, axis=1) - np.linalg.norm(onto - exact, axis=1)
    assert np.all(farther >= -1e-12)
    assert farther.max() > 0.1


class LargestBatch:
    """The most records that a batch held, and the largest clipped mean."""

    def init(self, point, secret):
        return jnp.zeros(2)

    def update(self, state, t, point, secret):
        size = secret.batch[1].sum().astype(state.dtype)
        return jnp.maximum(state, jnp.stack([size, jnp.linalg.norm(secret.gradient)]))


@pytest.mark.thorough  # observers measure in lab/test_regret.py
def test_an_observer_sees_batches_and_clipped_means():
    planned = privopt.dp_sgd(FACTS, BUDGET, steps=40, batch_size=6, step_size=0.5, capacity=N)
    watching = privopt.Execution(observer=LargestBatch())
    found = privopt.run(planned, problem(), jax.random.key(0), execution=watching)
    size, norm = found.secret.observed
    assert 6 < size <= N
    assert 0.0 < norm <= size / 6.0
    alone = privopt.run(planned, problem(), jax.random.key(0))
    np.testing.assert_array_equal(found.released, alone.released)
    assert alone.secret.observed is None

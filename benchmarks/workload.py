"""Workload of the benchmarks: DP-GD on logistic loss, n = 10,000, d = 100, 200 steps, (1, 1e-6)."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import jax
import jax.numpy as jnp

from privopt import Budget, Plan, ProblemClass, dp_gd
from privopt.convex import Average
from privopt.problems import Problem, logistic

SIZE, DIM, STEPS, SEEDS = 10_000, 100, 200, 100
EPSILON, DELTA = 1.0, 1e-6
FRESH_SEEDS = itertools.count()


def problem(seed: int = 0, n: int = SIZE, dim: int = DIM) -> Problem:
    """Return logistic regression on the unit sphere with a planted direction, over a ball.

    Features are uniform on the sphere, ``P(y = 1 | x) = sigmoid(5 sqrt(dim) <x, u>)``, the radius
    is 10 and the dtype float32.
    """

    def sphere(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
        normal = jax.random.normal(key, shape)
        return normal / jnp.linalg.norm(normal, axis=-1, keepdims=True)

    norm = 1.0 + dim * 2.0**-23  # bounds the norm of a unit vector in float32
    feature_key, direction_key, label_key = jax.random.split(jax.random.key(seed), 3)
    features = sphere(feature_key, (n, dim))
    scores = 5.0 * dim**0.5 * (features @ sphere(direction_key, (dim,)))
    labels = jnp.where(jax.random.uniform(label_key, (n,)) < jax.nn.sigmoid(scores), 1.0, -1.0)
    facts = ProblemClass(n=n, dim=dim, lipschitz=norm, radius=10.0, smoothness=0.25 * norm**2)
    return logistic(features, labels.astype(features.dtype), problem_class=facts)


def plan(problem: Problem, epsilon: float = EPSILON) -> Plan:
    budget = Budget(epsilon=epsilon, delta=DELTA, relation="replace_one")
    return dp_gd(problem.problem_class, budget, steps=STEPS, output=Average())


def fresh_keys(count: int = SEEDS) -> jax.Array:
    """Return keys that no other call returns."""
    return jax.random.split(jax.random.key(next(FRESH_SEEDS)), count)


def fresh_points(count: int = SEEDS) -> jax.Array:
    """Return normal points that no other call returns."""
    return jax.random.normal(jax.random.key(next(FRESH_SEEDS)), (count, DIM))


def products(problem: Problem, steps: int = STEPS) -> Callable[[jax.Array], jax.Array]:
    """Return a program of the two matrix products of each step of DP-GD, in full precision."""
    features = jnp.asarray(problem.data[0])

    @jax.jit
    def descent(points: jax.Array) -> jax.Array:
        def step(_: jax.Array, points: jax.Array) -> jax.Array:
            scores = jnp.matmul(points, features.T, precision="highest")
            change = jnp.matmul(jnp.tanh(scores), features, precision="highest")
            return points - change / (1e3 * features.shape[0])

        return jax.lax.fori_loop(0, steps, step, points)

    return descent

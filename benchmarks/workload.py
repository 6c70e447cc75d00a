"""What is timed: DP-GD on logistic regression, n = 10,000, d = 100, 200 steps, (1, 1e-6)."""

from __future__ import annotations

import jax

from privopt import Budget, Plan, dp_gd
from privopt.convex import Average
from privopt.problems import Problem, sphere_classification

SIZE, DIM, STEPS, SEEDS = 10_000, 100, 200, 100
EPSILON, DELTA = 1.0, 1e-6


def problem(seed: int = 0) -> Problem:
    """Features uniform on the unit sphere, float32, over the ball of radius 10."""
    return sphere_classification(jax.random.key(seed), n=SIZE, dim=DIM)


def plan(problem: Problem, epsilon: float = EPSILON) -> Plan:
    budget = Budget(epsilon=epsilon, delta=DELTA, relation="replace_one")
    return dp_gd(problem.problem_class, budget, steps=STEPS, output=Average())


def keys(count: int = SEEDS) -> jax.Array:
    return jax.random.split(jax.random.key(1), count)

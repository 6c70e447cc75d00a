"""Private gradient descent with steps of constant length, and the checks of its contract."""

from collections import namedtuple

import jax
import jax.numpy as jnp

import privopt
from privopt.mechanisms import AllRecords, ClippedGradient, PrivateGradient
from privopt.testing import check_algorithm

Params = namedtuple("Params", "mechanism")


def plan(facts, budget, *, steps=20):
    query = ClippedGradient.of(facts)  # owns its sensitivity
    mechanism = PrivateGradient.calibrated(query, budget, steps, AllRecords())
    return privopt.Plan(UNIT_DESCENT, facts, budget, Params(mechanism), static=facts.dim)


def run(dim, params, objective, key, execution):
    oracle = params.mechanism.oracle(objective, key, execution.microbatch)

    def step(t, state):
        gradient, noise = oracle.update(state[1], t, state[0])
        point = state[0] - 0.1 * gradient / jnp.linalg.norm(gradient)
        return objective.constraint.project(point), noise

    start = objective.start(dim)
    released = jax.lax.fori_loop(0, oracle.steps, step, (start, oracle.init(start)))[0]
    return privopt.Run(released, secret=None)


UNIT_DESCENT = privopt.Algorithm("unit_descent", "steps of constant length", plan, run)
privopt.algorithms.register(UNIT_DESCENT)
budget = privopt.Budget(epsilon=4.0, delta=1e-5, relation="replace_one")
print(check_algorithm("unit_descent", budget, key=jax.random.key(0), steps=5))

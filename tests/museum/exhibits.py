"""Decorator for a check, a correct implementation and broken ones."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import pytest

import privopt
from privopt.audit import replay, worst_pair
from privopt.core import Run
from privopt.release import release

CAUGHT = (AssertionError, pytest.fail.Exception)
BUDGET = privopt.Budget(epsilon=4.0, delta=1e-5, relation="replace_one")


def exhibit(sound, *broken):
    """Return a test: the check passes for ``sound`` and fails for every broken implementation."""
    assert broken

    def hung(check):
        assert check.__doc__

        def test():
            check(sound)
            for each in broken:
                with pytest.raises(CAUGHT):
                    check(each)

        test.__doc__ = check.__doc__
        test.__module__ = check.__module__
        return test

    return hung


def replayed(run):
    """Return the faults that record and replay report for a run on a pair with linear losses."""
    pair = worst_pair("dp_gd", BUDGET)
    algorithm = replace(pair.plan.algorithm, run=run, public_randomness=None, steps=None)
    planted = pair._replace(plan=replace(pair.plan, algorithm=algorithm))
    return replay(planted, key=jax.random.key(0))


def descent(step, steps=lambda data: 3, output=lambda data, point: point):
    """Return a run of ``point -> step(data, point, drawn)`` with a new normal vector ``drawn``."""

    def run(static, params, objective, key, execution):
        data = objective.data[0]
        point = jnp.zeros(data.shape[1])
        for t in range(steps(data)):
            point = step(data, point, jax.random.normal(jax.random.fold_in(key, t), point.shape))
        return Run(output(data, point), ())

    return run


def noisy_step(data, point, drawn):
    """Return the next point, by the noisy mean of linear losses."""
    return point + 0.1 * release("answer", data.mean(axis=0) + release("noise", drawn))

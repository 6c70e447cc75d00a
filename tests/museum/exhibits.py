"""How an exhibit hangs: a check beside what passes it and what it must catch."""

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
    """Make a check of one thing a test: it holds of ``sound``, and fails on all that is broken."""
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
    """What record and replay find in a run of one's own on the worst pair of linear losses."""
    pair = worst_pair("dp_gd", BUDGET)
    algorithm = replace(pair.plan.algorithm, run=run, public_randomness=None, steps=None)
    planted = pair._replace(plan=replace(pair.plan, algorithm=algorithm))
    return replay(planted, key=jax.random.key(0))


def descent(step, steps=lambda data: 3, output=lambda data, point: point):
    """A run of ``point -> step(data, point, drawn)``, ``drawn`` a normal vector of its own."""

    def run(static, params, objective, key, execution):
        data = objective.data[0]
        point = jnp.zeros(data.shape[1])
        for t in range(steps(data)):
            point = step(data, point, jax.random.normal(jax.random.fold_in(key, t), point.shape))
        return Run(output(data, point), ())

    return run


def noisy_step(data, point, drawn):
    """By the noisy mean of linear losses."""
    return point + 0.1 * release("answer", data.mean(axis=0) + release("noise", drawn))

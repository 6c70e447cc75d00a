"""Record and replay: no fault in any worst pair, and detection of all planted leaks."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from selection import few

import privopt
from privopt.audit import Pair, attackable, worst_pair
from privopt.audit import replay as replayed
from privopt.core import Run
from privopt.release import release

KEY = jax.random.key(0)
BUDGET = privopt.Budget(epsilon=4.0, delta=1e-5, relation="replace_one")
CLEAN = set(attackable())  # before any is registered by a test


# Algorithms that differ in kind, as in the contract. Runs that are not compiled take seconds.
KINDS = ("dp_sgd", "dp_ftrl", "objective_perturbation", "projection_mechanism")


@pytest.mark.cases(2)  # the contract replays sampled steps and a solver
@pytest.mark.parametrize("name", few(sorted(privopt.algorithms.BUILT_IN & CLEAN), KINDS))
def test_a_run_sees_the_data_through_its_answers_alone(name):
    assert replayed(worst_pair(name, BUDGET), key=KEY) == ()


def descent(
    step_size=lambda data: 0.1,
    stop=lambda data, point: False,
    scale=lambda data: 1.0,
    kept=lambda data, point: point,
    first=lambda data: 0,
    noisy=True,
    released=True,
):
    """Return three steps on linear losses; each of the functions may depend on the data."""

    def run(static, params, objective, key, execution):
        data = objective.data[0]
        point = jnp.zeros(data.shape[1])
        for t in range(first(data), 3):
            if stop(data, point):
                break
            sample = scale(data) * jax.random.normal(jax.random.fold_in(key, t), point.shape)
            gradient = -data.mean(axis=0)
            if noisy:
                gradient = gradient + (release("noise", sample) if released else sample)
            gradient = release("answer", gradient) if released else gradient
            point = point - step_size(data) * gradient
        return Run(kept(data, point), ())

    return run


LEAKS = {
    "step size": ({"step_size": lambda d: 0.1 / (2.0 + d.sum())}, "released point differs"),
    "tuning": ({"step_size": lambda d: 0.1 if d[0, 0] > 0 else 0.2}, "released point differs"),
    "early stop": (
        {"stop": lambda d, w: float((d @ w).mean()) > 0.0},
        "answer must be replayed to its end",
    ),
    "late start": ({"first": lambda d: int(d[0, 0] > 0)}, "must have a value for every release"),
    "no noise": ({"noisy": False}, "without noise answer 0 does not change"),
    "scale": ({"scale": lambda d: 1.0 + jnp.abs(d[0, 0] - 1.0)}, "the noise differs"),
    "output": ({"kept": lambda d, w: jnp.clip(w, d.min(), d.max())}, "released point differs"),
    "unreleased": ({"released": False}, "released point differs"),
}


def planted(algorithm_run):
    pair = worst_pair("dp_gd", BUDGET)
    algorithm = replace(pair.plan.algorithm, run=algorithm_run, public_randomness=None, steps=None)
    return Pair(replace(pair.plan, algorithm=algorithm), pair.one, pair.two)


def test_the_honest_twin_of_the_leaks_has_none():
    assert replayed(planted(descent()), key=KEY) == ()


@pytest.mark.parametrize("leak", LEAKS)
def test_a_leak_is_found(leak):
    changed, message = LEAKS[leak]
    faults = replayed(planted(descent(**changed)), key=KEY)
    assert any(message in each for each in faults), faults


def test_a_batch_and_a_refusal_that_look_at_the_data_are_found():
    honest = descent()

    def batched(static, params, objective, key, execution):
        release("batch", jnp.argmax(objective.data[0][:, 0]))
        return honest(static, params, objective, key, execution)

    def refusing(static, params, objective, key, execution):
        if np.asarray(objective.data[0]).min() < 0.0:
            raise ValueError("records must be positive")
        return honest(static, params, objective, key, execution)

    assert replayed(planted(batched), key=KEY) == ("on the other data set a batch differs",)
    assert replayed(planted(refusing), key=KEY) == (
        "on the other data set it fails: records must be positive",
    )

"""Updates see noisy gradients alone: replayed offline, of one ledger, numbers by argument."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from builders import Answers, descend

import privopt
from privopt.convex import (
    FirstOrder,
    L2Ball,
    Last,
    StepSizes,
    Update,
    WholeSpace,
    corrected_adam,
)

STEPS = 9
UPDATES = {
    "descent": Update.of(optax.sgd),
    "momentum": Update.of(optax.sgd, momentum=0.9, nesterov=True),
    "adam": Update.of(optax.adam, b1=0.8),
    "adamw": Update.of(optax.adamw, weight_decay=0.1),
    "adagrad": Update.of(optax.adagrad),
    "lion": Update.of(optax.lion),
    "corrected adam": Update.of(corrected_adam, noise_variance=0.2),
    "made": Update.of(optax.trace(0.9)),
}
every = pytest.mark.parametrize("name", UPDATES)
START = {"a": jnp.array([1.0, -2.0, 0.5]), "b": jnp.array(3.0)}


def noisy(t, point):
    """A gradient with noise that the step alone decides."""
    key = jax.random.fold_in(jax.random.key(0), t)
    return jax.tree.map(lambda w: w + jax.random.normal(key, w.shape), point)


def minimise(update, ask, step_sizes=None, constraint=None, start=START):
    method = FirstOrder(step_sizes or StepSizes.inverse_root(0.3), update, Last())
    oracle = Answers(STEPS, lambda memory, t, point: (ask(t, point), memory))
    return descend(method, oracle, constraint or WholeSpace(), start, jax.random.key(1)).output


def assert_close(found, expected, **tolerance):
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, **tolerance)


@every
def test_replayed_offline_on_stored_gradients_it_is_the_same_run(name):
    """Whatever it does depends on the released gradients and on nothing else."""
    update, stored = UPDATES[name], {}

    def ask(t, point):
        gradient = noisy(t, point)
        jax.debug.callback(lambda t, g: stored.update({int(t): g}), t, gradient)
        return gradient

    found = minimise(update, ask)
    jax.effects_barrier()
    assert sorted(stored) == list(range(STEPS))
    schedule = StepSizes.inverse_root(0.3)
    with jax.numpy_dtype_promotion("standard"):
        factory = update.factory
        offline = factory(
            learning_rate=lambda count: schedule.at(count + 1, jnp.asarray(STEPS)),
            **update.numbers,
            **dict(update.options),
        )
        point, state = START, offline.init(START)
        for t in range(STEPS):
            gradient = jax.tree.map(jnp.asarray, stored[t])
            moved, state = offline.update(gradient, state, point)
            point = optax.apply_updates(point, moved)
    assert_close(found, point, rtol=1e-12)


def test_adam_with_frozen_moments_is_descent():
    """``b1 = 0`` and gradients of constant size ``c``: steps are ``eta g/(c + eps)``."""
    signs = jax.random.rademacher(jax.random.key(2), (STEPS, 4), float)

    def ask(t, point):
        return {"a": 0.7 * signs[t][:3], "b": 0.7 * signs[t][3]}

    frozen = minimise(Update.of(optax.adam, b1=0.0, b2=0.9), ask, StepSizes.constant(0.1))
    plain = minimise(UPDATES["descent"], ask, StepSizes.constant(0.1 / (0.7 + 1e-8)))
    assert_close(frozen, plain, rtol=1e-12)
    moving = minimise(Update.of(optax.adam, b1=0.5, b2=0.9), ask, StepSizes.constant(0.1))
    assert not np.allclose(moving["a"], plain["a"], rtol=1e-3)


def test_adam_with_a_floor_above_all_is_descent():
    """Where noise is said to be all there is, the denominator is the floor for ever."""
    frozen = minimise(
        Update.of(corrected_adam, noise_variance=1e6, b1=0.0, floor=0.25),
        noisy,
        StepSizes.constant(500.0 * 0.1),
    )
    assert_close(frozen, minimise(UPDATES["descent"], noisy, StepSizes.constant(0.1)), rtol=1e-9)


def test_descent_with_a_constraint_is_the_textbook_loop():
    point, ball = np.array([1.0, -2.0, 0.5]), L2Ball(0.9)
    start = jnp.asarray(point)
    for t in range(STEPS):
        key = jax.random.fold_in(jax.random.key(0), t)
        gradient = point + np.asarray(jax.random.normal(key, (3,), np.float64))
        point = point - 0.3 / math.sqrt(t + 1) * gradient
        point *= min(1.0, 0.9 / np.linalg.norm(point))
    found = minimise(UPDATES["descent"], noisy, constraint=ball, start=start)
    np.testing.assert_allclose(found, point, rtol=1e-12)


def test_a_new_hyperparameter_is_no_new_program():
    traces = []

    @jax.jit
    def run(update):
        traces.append(1)
        return minimise(update, noisy)

    low, high = (run(Update.of(optax.adam, b1=b1, b2=0.99)) for b1 in (0.5, 0.9))
    assert len(traces) == 1
    assert not np.allclose(low["a"], high["a"])


# --- one ledger -----------------------------------------------------------------------------------

FACTS = privopt.ProblemClass(n=60, dim=3, lipschitz=1.0, radius=2.0)
BUDGET = privopt.Budget(epsilon=1.0, delta=1e-5, relation="replace_one")


@every
def test_every_update_has_the_ledger_and_the_noise_of_descent(name):
    make = privopt.ALGORITHMS["dp_sgd"].plan
    choices = {"steps": 20, "batch_size": 12, "step_size": 0.1}
    plain = make(FACTS, BUDGET, **choices)
    other = make(FACTS, BUDGET, **choices, update=UPDATES[name])
    assert other.guarantee == plain.guarantee
    assert other.params.mechanism == plain.params.mechanism
    assert (other.rate.upper == plain.rate.upper) is (name == "descent")


@pytest.mark.parametrize("choices", [{}, {"weight_decay": 0.1}, {"noise_correction": True}])
def test_adam_has_the_ledger_of_descent(choices):
    common = {"steps": 20, "batch_size": 12, "step_size": 0.1}
    plain = privopt.ALGORITHMS["dp_sgd"].plan(FACTS, BUDGET, **common)
    adam = privopt.ALGORITHMS["noisy_adam"].plan(FACTS, BUDGET, **common, **choices)
    assert adam.guarantee == plain.guarantee
    assert adam.params.mechanism == plain.params.mechanism
    assert adam.rate.upper == math.inf
    assert adam.rate.theorem == "none: the update is not plain descent"


def test_the_variance_taken_out_is_that_of_the_noise():
    planned = privopt.ALGORITHMS["noisy_adam"].plan(
        FACTS, BUDGET, steps=20, batch_size=12, noise_correction=True
    )
    variance = planned.params.descent.update.numbers["noise_variance"]
    assert variance == planned.params.mechanism.scale**2


# --- refusals -------------------------------------------------------------------------------------


def test_updates_are_records():
    assert dataclasses.replace(UPDATES["adam"], numbers={"b1": 0.8}) == UPDATES["adam"]
    assert hash(jax.tree.structure(UPDATES["adam"])) != hash(jax.tree.structure(UPDATES["lion"]))

"""A toy: private Newton steps, whose mechanism answers two things at once. Nothing else knows.

One answer is the mean gradient with Gaussian noise, the other the mean Hessian with symmetric
Gaussian noise; ``w_{t+1} = w_t - (H + r I)^{-1} g``. Records are ``(x, y)`` with ``|x| <= 1`` and a
logistic loss: gradients are within 1, Hessians ``s(1 - s) x x^T`` within 1/4 in the Frobenius norm.
Source: Avella-Medina, Bradshaw and Loh 2023, "Differentially private inference via noisy
optimization".
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import dp_accounting as dp
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax import Array

import privopt
from privopt import draws, problems
from privopt.algorithms.first_order import Static, steps_of
from privopt.convex import FirstOrder, Last, Oracle, StepSizes, Update, pytree_dataclass
from privopt.core import Algorithm, Plan, planner, whole
from privopt.privacy import gaussian_noise_multiplier
from privopt.release import release
from privopt.streams import stream

LARGEST = 1.0, 0.25  # of a record's gradient, and of its Hessian


@pytree_dataclass
@dataclass(frozen=True)
class GradientAndHessian:
    size: float
    gradient_scale: float
    hessian_scale: float
    steps: int

    def event(self, relation):
        scales = self.gradient_scale, self.hessian_scale
        both = [
            dp.GaussianDpEvent(float(scale) * self.size / largest)
            for scale, largest in zip(scales, LARGEST, strict=True)
        ]
        return dp.SelfComposedDpEvent(dp.ComposedDpEvent(both), self.steps)

    def oracle(self, losses, key):
        return Answers(self, losses, stream(key, "noise"), self.steps)


@dataclass(frozen=True)
class Answers(Oracle):
    mechanism: GradientAndHessian
    losses: Any
    key: Array
    steps: Any

    def ask(self, memory, t, point, batch=None):
        asked, (features, labels) = self.mechanism, self.losses.data
        keep = jnp.minimum(1.0, 1.0 / jnp.linalg.norm(features, axis=1))
        features = features * keep[:, None]
        margins = labels * (features @ point)
        slopes, curvatures = -labels * jax.nn.sigmoid(-margins), jax.nn.sigmoid(margins)
        curvatures = curvatures * (1.0 - curvatures)
        gradient = features.T @ slopes / asked.size
        hessian = features.T @ (curvatures[:, None] * features) / asked.size
        key = jax.random.fold_in(self.key, t)
        z = draws.normal(jax.random.fold_in(key, 0), gradient.shape, point.dtype)
        e = draws.normal(jax.random.fold_in(key, 1), hessian.shape, point.dtype)
        symmetric = jnp.triu(e) + jnp.triu(e, 1).T  # its upper half is released, the rest follows
        answer = gradient + asked.gradient_scale * z, hessian + asked.hessian_scale * symmetric
        return release("answer", answer), memory


def newton(learning_rate, ridge):
    """``-eta_t (H + r I)^{-1} g``, as an optax transformation of the two answers."""

    def update(answer, count, point):
        gradient, hessian = answer
        values, vectors = jnp.linalg.eigh(hessian)
        steep = jnp.maximum(values, ridge)
        return -learning_rate(count) * (vectors @ ((gradient @ vectors) / steep)), count + 1

    return optax.GradientTransformation(lambda point: jnp.zeros([], int), update)


class Params(NamedTuple):
    mechanism: GradientAndHessian
    descent: FirstOrder


@planner
def plan(problem_class, budget, *, steps=5):
    noise = gaussian_noise_multiplier(budget, compositions=2 * steps)
    scales = (noise * largest / problem_class.n for largest in LARGEST)
    method = FirstOrder(StepSizes(1.0), Update({"ridge": 0.02}, newton, ()), Last())
    return Plan(
        algorithm=NEWTON,
        problem_class=problem_class,
        budget=budget,
        params=Params(GradientAndHessian(float(problem_class.n), *scales, steps), method),
        static=Static(problem_class.dim),
    )


def steps(static, params, losses, key, execution):
    oracle = params.mechanism.oracle(losses, key)
    return steps_of(params.descent, oracle, static, losses, key, execution)


NEWTON = Algorithm(
    name="private_newton",
    summary="steps by a noisy gradient and a noisy Hessian",
    plan=plan,
    run=whole(steps),
    steps=steps,
    step_count=lambda static, params: params.mechanism.steps,
)
N, DIM = 20_000, 4
FACTS = privopt.ProblemClass(n=N, dim=DIM, lipschitz=1.0, radius=20.0, smoothness=0.25)
BUDGET = privopt.Budget(epsilon=2.0, delta=1e-6, relation="add_or_remove_one")


@pytest.fixture(scope="module")
def where():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(N, DIM))
    features /= 1.001 * np.linalg.norm(features, axis=1, keepdims=True)
    chance = 1.0 / (1.0 + np.exp(-features @ np.array([2.0, -1.0, 0.5, 0.0])))
    return problems.logistic(
        features, np.where(rng.random(N) < chance, 1.0, -1.0), problem_class=FACTS
    )


def test_five_steps_end_near_the_minimiser(where):
    """Without noise at it, to six digits; with noise within what the noise explains."""
    planned = plan(FACTS, BUDGET)
    best = where.reference.minimiser
    exact = privopt.run(planned.with_noise(0.0), where, jax.random.key(0)).released
    np.testing.assert_allclose(exact, best, atol=1e-6)
    keys = jax.random.split(jax.random.key(1), 16)
    found = privopt.run_many([planned], where, keys).released[0]
    excess = [float(where.risk(each) - where.reference.value) for each in found]
    start = float(where.risk(np.zeros(DIM)) - where.reference.value)
    assert np.mean(excess) < 0.02 * start


def test_single_steps_are_those_of_a_run(where):
    planned, key = plan(FACTS, BUDGET), jax.random.key(2)
    s = privopt.stepper(planned, where)
    state = s.init(key)
    for _ in range(s.steps):
        state = s.step(state)
    np.testing.assert_allclose(
        s.released(state), privopt.run(planned, where, key).released, rtol=1e-9
    )


def test_half_the_noise_is_outside_the_budget():
    planned = plan(FACTS, BUDGET)
    assert planned.guarantee.epsilon(1e-6).upper <= 2.0
    mechanism = planned.params.mechanism
    for name in ("gradient_scale", "hessian_scale"):
        quieter = replace(mechanism, **{name: 0.5 * getattr(mechanism, name)})
        with pytest.raises(ValueError, match="guarantee must lie within the budget"):
            replace(planned, params=planned.params._replace(mechanism=quieter))

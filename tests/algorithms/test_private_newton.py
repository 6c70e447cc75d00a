"""Tests of a toy algorithm: private Newton steps with a mechanism of two answers per step.

The algorithm is defined in this file only. The first answer is the mean gradient with Gaussian
noise, the second the mean Hessian with symmetric Gaussian noise;
``w_{t+1} = w_t - (H + r I)^{-1} g``. Records are ``(x, y)`` with ``|x| <= 1`` and a logistic loss:
gradients are within 1, Hessians ``s(1 - s) x x^T`` within 1/4 in the Frobenius norm.
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
from privopt import problems
from privopt.algorithms.descent import steps_of
from privopt.algorithms.shared import Static
from privopt.convex import FirstOrder, Oracle, StepSizes, Update, last_iterate
from privopt.core import Algorithm, Plan, planner, whole
from privopt.mechanisms import ClippedGradient, GaussianMechanism
from privopt.random import stream


class ClippedHessian(NamedTuple):
    """Upper half of ``(1/n) sum_i s_i (1 - s_i) x_i x_i^T``, with ``x_i`` clipped to norm 1."""

    size: float
    dim: int

    def sensitivity(self, relation):
        """Two Hessians ``c x x^T``, ``c <= 1/4``, are within 1/4 of 0; the rest is round-off."""
        return relation.multiple * 0.25 / self.size * (1.0 + 2.0**-40 * (self.dim + 8))

    def hessian_of(self, losses):
        features, _ = losses.data
        features = features / jnp.maximum(1.0, jnp.linalg.norm(features, axis=1))[:, None]

        def hessian(point):
            chance = jax.nn.sigmoid(features @ point)
            curvatures = chance * (1.0 - chance)
            return jnp.triu(features.T @ (curvatures[:, None] * features) / self.size)

        return hessian


class TwoAnswers(NamedTuple):
    """Mechanism with ``steps`` noisy gradients and noisy Hessians."""

    gradient: GaussianMechanism[ClippedGradient]
    hessian: GaussianMechanism[ClippedHessian]
    steps: int

    def event(self, relation):
        both = [self.gradient.event(relation), self.hessian.event(relation)]
        return dp.SelfComposedDpEvent(dp.ComposedDpEvent(both), self.steps)

    def oracle(self, losses, key):
        return Answers(
            self,
            self.gradient.query.gradient_of(losses),
            self.hessian.query.hessian_of(losses),
            stream(key, "noise"),
            self.steps,
        )


@dataclass(frozen=True)
class Answers(Oracle):
    mechanism: TwoAnswers
    gradient: Any
    hessian: Any
    key: Array
    steps: Any

    def update(self, state, t, point, batch=None):
        one, other = jax.random.split(jax.random.fold_in(self.key, t))
        gradient = self.mechanism.gradient.add_noise(one, self.gradient(point))
        half = jnp.triu(self.mechanism.hessian.add_noise(other, self.hessian(point)))
        return (gradient, half + jnp.triu(half, 1).T), state


def newton(learning_rate, ridge):
    """Return ``-eta_t (H + r I)^{-1} g`` as an Optax transformation of the two answers."""

    def update(answer, count, point):
        gradient, hessian = answer
        values, vectors = jnp.linalg.eigh(hessian)
        steep = jnp.maximum(values, ridge)
        return -learning_rate(count) * (vectors @ ((gradient @ vectors) / steep)), count + 1

    return optax.GradientTransformation(lambda point: jnp.zeros([], int), update)


class Params(NamedTuple):
    mechanism: TwoAnswers
    descent: FirstOrder


@planner
def plan(problem_class, budget, *, steps=5):
    queries = (
        ClippedGradient.of(problem_class),
        ClippedHessian(float(problem_class.n), problem_class.dim),
    )
    answers = (
        GaussianMechanism.calibrated(query, budget, compositions=2 * steps) for query in queries
    )
    method = FirstOrder(StepSizes(1.0), Update({"ridge": 0.02}, newton, ()), last_iterate())
    return Plan(
        algorithm=NEWTON,
        problem_class=problem_class,
        budget=budget,
        params=Params(TwoAnswers(*answers, steps), method),
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
    """Five steps reach the minimiser to six digits without noise.

    With noise, the mean excess risk is below 0.02 of that of the start.
    """
    planned = plan(FACTS, BUDGET)
    best = where.reference.minimiser
    exact = privopt.run(planned.with_noise(0.0), where, jax.random.key(0)).released
    np.testing.assert_allclose(exact, best, atol=1e-6)
    keys = jax.random.split(jax.random.key(1), 16)
    found = privopt.run_many([planned], where, keys).released[0]
    *excess, start = where.excess_risk(np.vstack([found, np.zeros(DIM)]))
    assert np.mean(excess) < 0.02 * start


@pytest.mark.parametrize("answer", ["gradient", "hessian"])
def test_half_the_noise_is_outside_the_budget(answer):
    planned = plan(FACTS, BUDGET)
    assert 1.99 < planned.guarantee.epsilon(1e-6).upper <= 2.0
    mechanism = planned.params.mechanism
    loud = getattr(mechanism, answer)
    quiet = mechanism._replace(**{answer: loud._replace(scale=0.5 * loud.scale)})
    with pytest.raises(ValueError, match="guarantee must lie within the budget"):
        replace(planned, params=planned.params._replace(mechanism=quiet))

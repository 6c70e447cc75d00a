"""Tests of a toy algorithm: private Frank-Wolfe with a mechanism that returns a vertex.

The algorithm is defined in this file only. The vertex ``v_t`` is one of the vertices ``+-R e_j`` of
the l1 ball, drawn by the exponential mechanism with scores ``-<v, g_t>``, and
``w_{t+1} = w_t + gamma_t (v_t - w_t)``. Gradients are bounded and clipped in the l_inf norm. In any
dimension, the sensitivity of a score is ``R`` times that of the gradient.
Source: Talwar, Thakurta and Zhang 2015, "Nearly optimal private LASSO".
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
from privopt.convex import FirstOrder, L1Ball, Oracle, StepSizes, Update, last_iterate
from privopt.core import Algorithm, Plan, planner, whole
from privopt.mechanisms import ClippedGradient
from privopt.privacy import calibrate, round_up
from privopt.random import stream
from privopt.statistics import BoundedScores, ExponentialMechanism


class PrivateVertex(NamedTuple):
    """Mechanism with ``steps`` private vertices of a ball of the given radius."""

    query: ClippedGradient
    radius: float
    selection: ExponentialMechanism
    steps: int

    def event(self, relation):
        return dp.SelfComposedDpEvent(self.selection.bounded_range_event(relation), self.steps)

    def oracle(self, losses, key):
        return Vertices(self, self.query.gradient_of(losses), stream(key, "noise"), self.steps)


@dataclass(frozen=True)
class Vertices(Oracle):
    mechanism: PrivateVertex
    gradient: Any
    key: Array
    steps: Any

    def update(self, state, t, point, batch=None):
        radius, slopes = self.mechanism.radius, self.gradient(point)
        scores = radius * jnp.concatenate([-slopes, slopes])  # of +R e_j, then of -R e_j
        best = self.mechanism.selection.select(jax.random.fold_in(self.key, t), scores)
        vertex = radius * jax.nn.one_hot(best, scores.size, dtype=scores.dtype)
        return vertex[: point.size] - vertex[point.size :], state


def towards(learning_rate):
    """Return ``gamma_t (v_t - w_t)`` as an Optax transformation."""

    def update(vertex, count, point):
        return learning_rate(count) * (vertex - point), count + 1

    return optax.GradientTransformation(lambda point: jnp.zeros([], int), update)


class Params(NamedTuple):
    mechanism: PrivateVertex
    descent: FirstOrder


@planner
def plan(problem_class, budget, *, steps=40):
    query, radius = ClippedGradient.of(problem_class, norm="linf"), problem_class.radius
    scores = BoundedScores.of(
        radius * query.linf_sensitivity(privopt.Relation.ZERO_OUT),
        replacement=radius * query.linf_sensitivity(privopt.Relation.REPLACE_ONE),
    )

    def vertices(scale):
        return PrivateVertex(query, radius, ExponentialMechanism(scores, scale), steps)

    scale = calibrate(
        lambda scale: vertices(scale).event(budget.relation), budget, accountant="renyi"
    )
    method = FirstOrder(StepSizes(2.0, 1.0, 1.0), Update.of(towards), last_iterate())
    return Plan(
        algorithm=FRANK_WOLFE,
        problem_class=problem_class,
        budget=budget,
        params=Params(vertices(round_up(scale)), method),
        static=Static(problem_class.dim),
    )


def steps(static, params, losses, key, execution):
    oracle = params.mechanism.oracle(losses, key)
    return steps_of(params.descent, oracle, static, losses, key, execution)


FRANK_WOLFE = Algorithm(
    name="frank_wolfe",
    summary="steps towards vertices of the l1 ball, drawn by the exponential mechanism",
    plan=plan,
    run=whole(steps),
    steps=steps,
    step_count=lambda static, params: params.mechanism.steps,
)
N, DIM, RADIUS = 4000, 30, 2.0
FACTS = privopt.ProblemClass(
    n=N, dim=DIM, lipschitz=np.inf, lipschitz_linf=1.0, radius=RADIUS, smoothness=1.0
)
BUDGET = privopt.Budget(epsilon=1.0, delta=1e-6, relation="replace_one")


@pytest.fixture(scope="module")
def where():
    rng = np.random.default_rng(0)
    features = rng.choice([-1.0, 1.0], size=(N, DIM)) * 0.5
    labels = features[:, :3].sum(axis=1) + 0.1 * rng.normal(size=N)

    def loss(w, record):
        x, y = record
        return 0.5 * (x @ w - y) ** 2

    return problems.Problem(
        loss=loss, data=(features, labels), problem_class=FACTS, constraint=L1Ball(RADIUS)
    )


def textbook(where, steps):
    features, labels = map(np.asarray, where.objective.data)
    point = np.zeros(DIM)
    for t in range(1, steps + 1):
        each = features * (features @ point - labels)[:, None]
        sizes = np.abs(each).max(axis=1, keepdims=True)
        gradient = (each * np.minimum(1.0, 1.0 / sizes)).mean(axis=0)
        vertex = np.zeros(DIM)
        j = np.argmax(np.abs(gradient))
        vertex[j] = -RADIUS * np.sign(gradient[j])
        point = point + 2.0 / (t + 1.0) * (vertex - point)
    return point


def test_without_noise_it_is_the_textbook_loop(where):
    planned = plan(FACTS, BUDGET)
    still = planned.with_noise(1e-9)
    found = privopt.run(still, where, jax.random.key(0)).released
    np.testing.assert_allclose(found, textbook(where, 40), rtol=1e-9, atol=1e-12)


def test_the_guarantee_is_of_the_noise(where):
    planned = plan(FACTS, BUDGET)
    assert 0.99 < planned.guarantee.epsilon(1e-6).upper <= 1.0
    mechanism = planned.params.mechanism
    quieter = mechanism.selection._replace(scale=0.9 * mechanism.selection.scale)
    with pytest.raises(ValueError, match="guarantee must lie within the budget"):
        replace(
            planned, params=planned.params._replace(mechanism=mechanism._replace(selection=quieter))
        )


@pytest.mark.thorough  # its steps are tested above
def test_many_runs_and_single_steps_are_those_of_a_run(where):
    """Many runs and single steps equal one run. The risk is less than half of that of the start."""
    planned, keys = plan(FACTS, BUDGET), jax.random.split(jax.random.key(1), 8)
    many = privopt.run_many([planned], where, keys).released[0]
    s = privopt.stepper(planned, where)
    state = s.init(keys[0])
    for _ in range(s.steps):
        state = s.step(state)
    np.testing.assert_allclose(s.released(state), many[0], rtol=1e-9)
    risks = [float(where.risk(each)) for each in many]
    assert max(risks) < 0.5 * float(where.risk(np.zeros(DIM)))
    assert np.abs(np.asarray(many)).sum(axis=1).max() <= RADIUS * (1.0 + 1e-9)

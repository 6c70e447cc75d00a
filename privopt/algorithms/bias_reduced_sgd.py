"""Bias-reduced SGD: small batches most of the time, and the bias of nearly all records."""

from __future__ import annotations

import math
from typing import NamedTuple

import optax
from jax import Array

from privopt.algorithms.choices import Clipping, require_delta
from privopt.algorithms.first_order import (
    Secret,
    Static,
    chosen_output,
    output_rule,
    recorded,
    step_rule,
)
from privopt.algorithms.lower_bound import event_lower_bound
from privopt.arguments import count, member, positive_number
from privopt.convex import (
    Average,
    ConstraintSet,
    EmpiricalRisk,
    FirstOrder,
    L1Ball,
    L1L2Ball,
    L2Ball,
    Output,
    RandomIterate,
    StepSizes,
    Update,
)
from privopt.core import Algorithm, Execution, Plan, Run, planner
from privopt.mechanisms import BiasReducedGradient, ClippedGradient
from privopt.spec import Budget, ProblemClass, Relation
from privopt.theory import (
    BODIES,
    GIVEN_STEPS,
    GradientMoments,
    Powers,
    bias_reduced_moments,
    bias_reduced_rate,
    bias_reduced_step_size,
    bias_reduced_steps,
)

__all__ = ["BIAS_REDUCED_SGD"]


class Params(NamedTuple):
    """A gradient of reduced bias, and the method that asks it."""

    mechanism: BiasReducedGradient
    descent: FirstOrder


@planner
def plan(
    problem_class: ProblemClass,
    budget: Budget,
    *,
    steps: int | None = None,
    base: int = 1,
    step_size: float | StepSizes | None = None,
    body: str = "l1_l2",
    clip: float | None = None,
    output: Output | str | None = None,
    first_gap: float | None = None,
    record: int | str = 0,
) -> Plan:
    """Plan bias-reduced SGD: ``w <- Proj(w - eta G)``."""
    require_delta("bias_reduced_sgd", budget)
    clipping = Clipping(clip)
    query = clipping.query(problem_class)
    post = _body(body, problem_class, query)
    powers = GIVEN_STEPS if steps is not None else Powers(n=1.0)
    if steps is None:
        steps = bias_reduced_steps(problem_class, delta=budget.delta, base=count("base", base))
    mechanism = BiasReducedGradient.calibrated(query, budget, steps, problem_class.n, base, post)
    moments = bias_reduced_moments(
        problem_class, noise=mechanism.scale, base=base, body=body, clip=query.clip,
        probabilities=mechanism.law.probabilities, steps_powers=powers,
    )  # fmt: skip
    gap = None if first_gap is None else positive_number("first_gap", first_gap)
    method = _method(problem_class, mechanism, moments, step_size, output, gap, record)
    rule = step_rule(method.step_sizes)
    lower = 0.0
    if problem_class.sparsity is None:
        lower = event_lower_bound(problem_class, budget, mechanism.event(budget.relation))
    return Plan(
        algorithm=BIAS_REDUCED_SGD,
        problem_class=problem_class,
        budget=budget,
        params=Params(mechanism, method),
        static=Static(problem_class.dim),
        rate=bias_reduced_rate(
            problem_class, steps=steps, moments=moments, first_gap=gap,
            step_size=rule.scale if rule.constant else None,
            output=output_rule(method.output), clip=query.clip, steps_powers=powers, lower=lower,
        ),
    )  # fmt: skip


def run(
    static: Static,
    params: Params,
    objective: EmpiricalRisk,
    key: Array,
    execution: Execution,
    coins: Array,
) -> Run:
    """The method on the device, from the problem's start."""
    oracle = params.mechanism.bind(objective, key, coins, execution.microbatch)
    start, observer = objective.start(static.dim), execution.observer
    found = params.descent.minimise(
        oracle, objective.constraint, start, key, observer, objective, execution.unroll
    )
    return Run(found.output, Secret(found.last, found.observed), found.path)


def coins(static: Static, params: Params, key: Array) -> Array:
    """The key of the levels, which are public: a key, so that ``T`` is a number and no shape."""
    del static, params
    return key


def _body(name: str, problem_class: ProblemClass, query: ClippedGradient) -> ConstraintSet | None:
    """Where means of clipped gradients lie."""
    member("body", name, BODIES)
    if name == "none":
        return None
    if math.isinf(query.clip):
        raise ValueError(f"clip must be finite for body {name}, got inf")
    if name == "l2":
        return L2Ball(query.clip)
    if problem_class.sparsity is None:
        raise ValueError(
            f"sparsity must be declared for body {name}, got None: body l2 and none need none"
        )
    if name == "l1":
        return L1Ball(query.clip * math.sqrt(problem_class.sparsity))
    return L1L2Ball.of(query.clip, problem_class.sparsity)


def _method(
    problem_class: ProblemClass,
    mechanism: BiasReducedGradient,
    moments: GradientMoments,
    step_size: float | StepSizes | None,
    output: Output | str | None,
    first_gap: float | None,
    record: int | str,
) -> FirstOrder:
    """Descent at theory's step size, unless one is given."""
    steps = int(mechanism.steps)
    if step_size is None:
        step_size = bias_reduced_step_size(
            problem_class, steps=steps, moments=moments, first_gap=first_gap
        )
    if not isinstance(step_size, StepSizes):
        step_size = StepSizes.constant(positive_number("step_size", step_size))
    rule = chosen_output(output) or (Average() if problem_class.convex else RandomIterate())
    return FirstOrder(step_size, Update.of(optax.sgd), rule, *recorded(record, steps))


BIAS_REDUCED_SGD = Algorithm(
    name="bias_reduced_sgd",
    summary="small batches at random levels, combined to the bias of nearly all records",
    plan=plan,
    run=run,
    coins=coins,
    gathers=True,
    relations=frozenset({Relation.REPLACE_ONE}),
)

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
from privopt.arguments import count, positive_number
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
    GIVEN_STEPS,
    BiasedMoments,
    Body,
    OutputRule,
    Powers,
    Quantity,
    Rate,
    bias_reduced_moments,
    bias_reduced_steps,
    biased_descent_rate,
    biased_descent_step_size,
    no_rate,
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
    gap: float | None = None,
    record: int | str = 0,
) -> Plan:
    """Plan bias-reduced SGD: ``w <- Proj(w - eta G)``."""
    require_delta("bias_reduced_sgd", budget)
    clipping = Clipping(clip)
    query = clipping.query(problem_class)
    body = Body.named("body", body)
    post = _set_of(body, problem_class, query)
    gap = None if gap is None else positive_number("gap", gap)
    powers = GIVEN_STEPS if steps is not None else Powers(n=1.0)
    if steps is None:
        steps = bias_reduced_steps(problem_class, delta=budget.delta, base=count("base", base))
    mechanism = BiasReducedGradient.calibrated(query, budget, steps, problem_class.n, base, post)
    moments = bias_reduced_moments(
        problem_class, noise=mechanism.scale, base=base, body=body, clip=query.clip,
        probabilities=mechanism.law.probabilities, steps_powers=powers,
    )  # fmt: skip
    method = _method(problem_class, steps, moments, step_size, output, gap, record)
    rate = _rate(problem_class, budget, mechanism, method, moments, gap, powers)
    if clipping.changes(problem_class):
        rate = no_rate("gradients are clipped below L", quantity=rate.quantity, lower=rate.lower)
    return Plan(
        algorithm=BIAS_REDUCED_SGD,
        problem_class=problem_class,
        budget=budget,
        params=Params(mechanism, method),
        static=Static(problem_class.dim),
        rate=rate,
    )


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


def _set_of(
    body: Body, problem_class: ProblemClass, query: ClippedGradient
) -> ConstraintSet | None:
    """Where means of clipped gradients lie."""
    if body is Body.NONE:
        return None
    if math.isinf(query.clip):
        raise ValueError(f"clip must be finite for body {body}, got inf")
    if body is Body.L2:
        return L2Ball(query.clip)
    sparsity = problem_class.sparsity
    if sparsity is None:
        raise ValueError(
            f"sparsity must be declared for body {body}, got None: bodies l2 and none need none"
        )
    if body is Body.L1:
        return L1Ball(query.clip * math.sqrt(sparsity))
    return L1L2Ball.of(query.clip, sparsity)


def _method(
    problem_class: ProblemClass,
    steps: int,
    moments: BiasedMoments,
    step_size: float | StepSizes | None,
    output: Output | str | None,
    gap: float | None,
    record: int | str,
) -> FirstOrder:
    """Descent at theory's step size, unless one is given."""
    stationary = gap is not None or not problem_class.convex
    rule = chosen_output(output) or (RandomIterate() if stationary else Average())
    if step_size is None:
        if gap is None and (math.isinf(problem_class.radius) or not problem_class.convex):
            raise ValueError(
                "step_size must be given, or gap, where radius is infinite or losses are not "
                "convex, got None"
            )
        step_size = biased_descent_step_size(
            problem_class, steps=_points(steps, gap), second_moment=moments.second.value, gap=gap
        )
    if not isinstance(step_size, StepSizes):
        step_size = StepSizes.constant(positive_number("step_size", step_size))
    return FirstOrder(step_size, Update.of(optax.sgd), rule, *recorded(record, steps))


def _points(steps: int, gap: float | None) -> int:
    """The ``T`` of a theorem: of ``T + 1`` iterates the last may take a step that nobody sees."""
    return steps if gap is None else steps + 1


def _rate(
    problem_class: ProblemClass,
    budget: Budget,
    mechanism: BiasReducedGradient,
    method: FirstOrder,
    moments: BiasedMoments,
    gap: float | None,
    powers: Powers,
) -> Rate:
    """What theory says of a constant step size and of the output that it speaks of."""
    lower = 0.0
    quantity = Quantity.EMPIRICAL_RISK if gap is None else Quantity.GRADIENT_NORM
    if problem_class.sparsity is None and gap is None:
        lower = event_lower_bound(problem_class, budget, mechanism.event(budget.relation))
    rule, told = step_rule(method.step_sizes), output_rule(method.output)
    random = told is OutputRule.RANDOM_ITERATE
    if not rule.constant or not (random or (gap is None and told is OutputRule.AVERAGE)):
        reason = "no theorem for these step sizes with this output"
        return no_rate(reason, quantity=quantity, lower=lower)
    return biased_descent_rate(
        problem_class, steps=_points(int(mechanism.steps), gap), bias=moments.bias,
        second_moment=moments.second, step_size=rule.scale, gap=gap, steps_powers=powers,
        lower=lower,
    )  # fmt: skip


BIAS_REDUCED_SGD = Algorithm(
    name="bias_reduced_sgd",
    summary="small batches at random levels, combined to the bias of nearly all records",
    plan=plan,
    run=run,
    coins=coins,
    gathers=True,
    relations=frozenset({Relation.REPLACE_ONE}),
)

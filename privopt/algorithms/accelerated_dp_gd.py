"""Accelerated DP-GD: noisy full-batch gradients, accelerated (AC-SA) on Moreau envelopes."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array
from jaxtyping import Key

from privopt.algorithms.descent import IN_STEPS, clipped_gradient, recorded, steps_of
from privopt.algorithms.descent_rates import (
    PLAIN,
    one_step_noise,
    step_rule,
    steps_exponents,
    unmet_noise_assumption,
)
from privopt.algorithms.shared import Static, require_delta
from privopt.arguments import count, positive_number
from privopt.convex import Average, EmpiricalRisk, FirstOrder, StepSizes
from privopt.core import Algorithm, Execution, Plan, Steps, planner, whole
from privopt.mechanisms import AllRecords, PrivateGradient
from privopt.spec import Budget, ProblemClass
from privopt.theory import (
    GIVEN_STEPS,
    DefaultSteps,
    Rate,
    StepRule,
    accelerated_numbers,
    accelerated_rate,
    accelerated_steps,
    no_rate,
)

_OUTPUT = Average(growth=0.5, skip=1)  # weights 2/(t + 1), t = 1..T


class AcceleratedParams(NamedTuple):
    """A private gradient, the method that uses it, and the width ``h`` of the envelopes."""

    mechanism: PrivateGradient
    descent: FirstOrder
    smoothing: float | None


@planner
def accelerated_dp_gd(
    problem_class: ProblemClass,
    budget: Budget,
    *,
    steps: int | None = None,
    step_size: float | None = None,
    smoothing: float | None = None,
    clip_norm: float | None = None,
    record: int | str = 0,
) -> Plan:
    """Return a plan for accelerated DP-GD.

    With ``v_1 = w_1``, ``a_t = 2/(t + 1)`` and ``z_t ~ N(0, sigma^2 I)``, for ``t = 1..T``::

        u_t     = v_t + a_t (w_t - v_t)
        w_{t+1} = Proj(w_t - eta (t + 1) (grad F_h(u_t) + z_t))
        v_{t+1} = v_t + a_t (w_{t+1} - v_t)

    The release is ``v_{T+1}``. ``F_h`` is the mean of the Moreau envelopes of width ``h`` of the
    losses, or ``F`` itself for declared ``smoothness``. A problem without declared smoothness must
    have a loss with an envelope.

    For losses with kinks this needs ``T`` of order ``n mu/sqrt(d)``, where ``dp_gd`` needs its
    square. The bound is smaller than that of ``dp_gd``, which takes at most ten thousand steps, if
    ``n mu/sqrt(d)`` is above about 280. ``dp_gd`` applies to every loss, so it does not change
    to this method by default: plans are made before the loss is known.

    Parameters
    ----------
    problem_class : ProblemClass
        Convex, ``L``-Lipschitz losses; finite ``radius``.
    budget : Budget
        Privacy budget with ``delta > 0``.
    steps : int, optional
        Number of steps ``T``. Default: :func:`privopt.theory.accelerated_steps`, about
        ``1.7 n mu/sqrt(d)`` (replace-one), or ``1.3 sqrt(H R n mu/(L sqrt(d)))`` for smooth losses,
        at most ten thousand.
    step_size : float, optional
        Step size ``eta``. Default: the minimiser of the bound, ``1/(2 H + sqrt(d S) sigma/R)``
        with ``S = 2^2 + .. + (T + 1)^2`` and ``H = 1/h``, or the declared ``H``.
    smoothing : float, optional
        Width ``h`` of the Moreau envelopes. Default: the minimiser of the bound,
        ``2 R/(L (T + 1))``, at most ``4/L^2``. Not for declared ``smoothness``.
    clip_norm : float, optional
        Per-example clipping norm ``C``. Default: ``L``, so no gradient is clipped: envelopes have
        the slope bound of their losses.
    record : int or "all"
        Number of recorded points of the path, on a logarithmic scale of steps, or every step.

    Formal guarantee
    ----------------
    ``T`` adaptive releases of the clipped mean gradient, of sensitivity ``s = 2C/n``
    (``replace_one``) or ``C/n`` (``zero_out``, ``add_or_remove_one``), are
    ``s sqrt(T) / sigma``-Gaussian DP. ``sigma`` is calibrated to ``budget``. The guarantee covers
    all iterates, for every data set and loss, because clipping enforces the sensitivity.

    Rate
    ----
    With the default step size and width, under replace-one::

        not smooth         E F(v) - F* <= 2 L R/(T + 1) + q L R sqrt(d)/(n mu)
        smooth             E F(v) - F* <= 2 H R^2/(T + 1)^2 + q L R sqrt(d)/(n mu)

    ``q = 4 sqrt(T S)/(T + 1)^2`` is at most 2.36 and tends to 2.31. At the default ``T`` both
    bounds are about ``3.5 L R sqrt(d)/(n mu)``. There is no rate for ``clip_norm < L`` or
    ``eta >= 1/(2 H)``.

    Source: :func:`privopt.theory.accelerated_rate`; Lan 2012, "An optimal method for stochastic
    composite optimization" (AC-SA).

    Examples
    --------
    >>> facts = ProblemClass(n=16_000, dim=16, lipschitz=1.0, radius=1.0)
    >>> budget = Budget(epsilon=1.0, delta=1e-6, relation="replace_one")
    >>> plan = accelerated_dp_gd(facts, budget)
    >>> plan.params.mechanism.steps, round(plan.rate.upper, 5)
    (1639, 0.00366)
    """
    require_delta("accelerated_dp_gd", budget)
    query = clipped_gradient(problem_class, clip_norm)
    if steps is not None:
        default = DefaultSteps(count("steps", steps), GIVEN_STEPS)
    else:
        noise = one_step_noise(query, budget)
        default = accelerated_steps(problem_class, one_step_noise=noise, clip_norm=query.clip_norm)
    mechanism = PrivateGradient.calibrated(query, budget, default.steps, AllRecords())
    numbers = accelerated_numbers(
        problem_class,
        steps=default.steps,
        noise_std=mechanism.scale,
        clip_norm=query.clip_norm,
        smoothing=smoothing,
    )
    if step_size is None:
        step_size = numbers.step_size
    method = FirstOrder(
        StepSizes(positive_number("step_size", step_size), power=-1.0, offset=1.0),
        PLAIN,
        _OUTPUT,
        *recorded(record, default.steps),
        accelerated=True,
    )
    params = AcceleratedParams(mechanism, method, numbers.smoothing)
    static = Static(problem_class.dim)
    return Plan(ACCELERATED_DP_GD, problem_class, budget, params, static, default)


def rate(plan: Plan) -> Rate:
    """Return the bound of accelerated descent, or none if the parameters are not its own."""
    params: Any = plan.params
    mechanism, method, smoothing = params
    rule, noise = step_rule(method.step_sizes), mechanism.noise
    reasons = {
        "no step is taken": mechanism.steps < 1,
        "gradients are not those of all records": type(mechanism.batches) is not AllRecords,
        "gradients are projected": mechanism.post is not None,
        "the method is not accelerated descent": not method.accelerated
        or method.update != PLAIN
        or method.output != _OUTPUT
        or rule != StepRule(rule.scale, power=-1.0, offset=1.0),
    }
    reason = next((reason for reason, holds in reasons.items() if holds), "")
    reason = reason or unmet_noise_assumption(noise, mechanism.steps)
    if reason:
        result = no_rate(reason)
    else:
        result = accelerated_rate(
            plan.problem_class,
            steps=mechanism.steps,
            step_size=rule.scale,
            smoothing=smoothing,
            noise_std=0.0 if noise is None else mechanism.scale * math.sqrt(noise.variance),
            steps_powers=steps_exponents(plan),
            clipped=mechanism.query.changes(plan.problem_class),
        )
    # Without an envelope there is no run, with or without a bound.
    return result if smoothing is None else replace(result, requires=frozenset({"smoothing"}))


def steps(
    static: Static,
    params: AcceleratedParams,
    objective: EmpiricalRisk,
    key: Key[Array, ""],
    execution: Execution,
) -> Steps:
    """Return the steps on the envelopes; observers see the losses themselves."""
    losses = objective
    if params.smoothing is not None:
        losses = objective.smoothed(jnp.asarray(params.smoothing))
    oracle = params.mechanism.oracle(losses, key, execution.microbatch)
    return steps_of(params.descent, oracle, static, objective, key, execution)


ACCELERATED_DP_GD = Algorithm(
    name="accelerated_dp_gd",
    summary="accelerated full-batch descent on Moreau envelopes with Gaussian noise",
    plan=accelerated_dp_gd,
    **IN_STEPS | {"run": whole(steps), "steps": steps, "rate": rate, "public_terms": False},
    cites=("lan2012",),
)

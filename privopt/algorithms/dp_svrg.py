"""DP-SVRG: noisy full gradients at anchors, and noisy batches of gradient differences."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Key

from privopt.algorithms.descent import (
    Batching,
    Descent,
    DescentParams,
    clipped_gradient,
    run_of,
    step_count,
)
from privopt.algorithms.descent_rates import (
    chosen_output,
    default_steps,
    is_plain,
    moments_of,
    no_step,
    output_rule,
    step_rule,
    steps_exponents,
)
from privopt.algorithms.shared import Static, require_delta
from privopt.arguments import count, positive_number
from privopt.convex import Average, EmpiricalRisk, Output, State, StepSizes, last_iterate
from privopt.core import Algorithm, Execution, Plan, Steps, planner, whole
from privopt.mechanisms import ClippedGradient, PoissonBatches, VarianceReducedGradient
from privopt.spec import Budget, ProblemClass
from privopt.theory import (
    DefaultSteps,
    Rate,
    gradient_difference,
    no_rate,
    variance_reduced_period,
    variance_reduced_rate,
    variance_reduced_step_size,
)

# Clip norm relative to C for linear losses, whose gradients do not differ.
_MIN_CLIP_SHARE = 1e-6


@planner
def dp_svrg(
    problem_class: ProblemClass,
    budget: Budget,
    *,
    steps: int | None = None,
    anchor_every: int | None = None,
    batch_size: float | None = None,
    clip_norm: float | None = None,
    difference_clip: float | None = None,
    step_size: float | StepSizes | None = None,
    output: Output | str | None = None,
    capacity: int | None = None,
    record: int | str = 0,
) -> Plan:
    """Return a plan for DP-SVRG.

    ``w <- Proj(w - eta (G + (1/b) sum_batch clip_{C'}(g_i(w) - g_i(a)) + z))``, where ``G`` is the
    noisy gradient at the anchor ``a``. Both are renewed every ``p`` steps. The step at an anchor is
    along ``G``.

    Parameters
    ----------
    problem_class : ProblemClass
        The guarantee holds for any loss, because gradients are clipped. The rate needs convex,
        ``L``-Lipschitz losses.
    budget : Budget
        Privacy budget with ``delta > 0``.
    steps : int, optional
        Number of steps ``T``, including those at anchors. Default: as for ``dp_gd`` and losses that
        are not smooth, rounded up to whole periods if ``p`` is also a default.
    anchor_every : int, optional
        Period ``p``. Default: :func:`privopt.theory.variance_reduced_period`, which depends only on
        ``2 H R/L``: 1 from 0.7 on, for which DP-SVRG is DP-GD, and at most 12.
    batch_size : float, optional
        Expected size ``b`` of a Poisson batch. Default: as for ``dp_sgd``.
    clip_norm : float, optional
        Clipping norm ``C`` of gradients at anchors. Default: ``L``, so no gradient is clipped.
    difference_clip : float, optional
        Clipping norm ``C'`` of differences. Default: ``min(2 L, 2 H R)``, so no difference is
        clipped. A smaller value is better if iterates stay closer to their anchors than a diameter;
        it has no rate.
    step_size : float or StepSizes, optional
        Step size ``eta``. Default: ``R/sqrt(A (T + 1))``, see
        :func:`privopt.theory.variance_reduced_rate`, in linear decay if the last iterate is
        returned.
    output : Output, optional
        Default: the last iterate, or the average for a given step size.
    capacity, record
        See ``dp_sgd``.

    Formal guarantee
    ----------------
    Gaussian releases at anchors and on Poisson samples between anchors, both charged, for every
    data set and loss, covering all iterates (:class:`privopt.mechanisms.VarianceReducedGradient`).
    Under ``add_or_remove_one`` the data set has at most ``n`` records.

    Rate
    ----
    ``E F(w) - F* <= R sqrt(A/(T + 1))``, ``A <= G^2 + (p - 1) G sqrt(d) sigma``. If the noise
    ``sigma`` of anchors dominates, it is of order ``L R sqrt(d)/(n mu)``. The known rate for
    strongly convex losses has no constants and is not used.

    Source: Wang, Ye and Xu 2017, "Differentially private empirical risk minimization revisited:
    faster and more general", Algorithm 1 (batches of one, and a moments bound); Johnson and Zhang
    2013 without privacy. Accounting and rate are derived here.

    Examples
    --------
    >>> facts = ProblemClass(n=1000, dim=5, lipschitz=1.0, radius=1.0, smoothness=0.25)
    >>> budget = Budget(epsilon=1.0, delta=1e-6, relation="add_or_remove_one")
    >>> mechanism = dp_svrg(facts, budget, steps=100, batch_size=50).params.mechanism
    >>> mechanism.period, mechanism.anchors.steps
    (2, 50)
    """
    require_delta("dp_svrg", budget)
    query = clipped_gradient(problem_class, clip_norm)
    change = _difference_query(problem_class, query, difference_clip)
    batching = Batching(batch_size, capacity=capacity).sized(problem_class)
    kinked = replace(problem_class, smoothness=None)  # no theorem for smooth losses applies
    whole_periods = steps is None and anchor_every is None
    default = default_steps(kinked, budget, query, steps)
    if anchor_every is None:
        anchor_every = variance_reduced_period(problem_class)
    period = count("anchor_every", anchor_every)
    if whole_periods:  # a shortened period wastes an anchor
        default = default._replace(steps=-(-default.steps // period) * period)
    steps = default.steps
    batches = batching.batches(problem_class.n, budget, max(1, steps + -steps // period))
    assert isinstance(batches, PoissonBatches)
    mechanism = VarianceReducedGradient.calibrated(
        query, change, budget, steps, period=period, batches=batches
    )
    if output is None:
        output = last_iterate() if step_size is None else Average()
    if step_size is None and math.isfinite(problem_class.radius):
        last = chosen_output(output) == last_iterate()
        size = variance_reduced_step_size(problem_class, **_noise(mechanism), last=last)
        step_size = StepSizes.linear_decay(size * steps / (steps + 1.0)) if last else size
    method = Descent(step_size=step_size, output=output, record=record)
    return method.plan(DP_SVRG, problem_class, budget, mechanism, default)


def rate(plan: Plan) -> Rate:
    """Return the rate of descent with anchors and batches of gradient differences."""
    params: Any = plan.params
    (mechanism, method), facts = params, plan.problem_class
    if reason := no_step(params):
        return no_rate(reason)
    queries = mechanism.query, mechanism.difference_query  # the theorem covers clipping
    own = any(each._replace(clip_norm=math.inf).changes(facts) for each in queries)
    if own or moments_of(mechanism.batches, facts.n) is None:
        return no_rate("batches or divisors are not those of the problem class")
    return variance_reduced_rate(
        facts,
        step_rule=step_rule(method.step_sizes),
        output=output_rule(method.output) if is_plain(method.update) else None,
        clip_norm=mechanism.query.clip_norm,
        difference_clip=mechanism.difference_query.clip_norm,
        steps_powers=steps_exponents(plan),
        **_noise(mechanism),
    )


def _noise(mechanism: VarianceReducedGradient) -> dict[str, Any]:
    batches = mechanism.batches
    return {
        "steps": mechanism.steps,
        "period": mechanism.period,
        "anchor_noise": mechanism.scale,
        "difference_noise": mechanism.difference_scale,
        "sampling": (1.0 - batches.rate) / batches.batch_size,
    }


def _difference_query(
    problem_class: ProblemClass, query: ClippedGradient, clip_norm: float | None
) -> ClippedGradient:
    """Return the query for gradient differences; by default no difference is clipped."""
    if clip_norm is None:
        change = gradient_difference(problem_class)
        if math.isinf(change):
            raise ValueError(
                "difference_clip must be given where neither lipschitz nor smoothness and radius "
                "are declared, got None"
            )
        clip_norm = max(change, _MIN_CLIP_SHARE * query.clip_norm)
    return ClippedGradient.of(problem_class, positive_number("difference_clip", clip_norm))


def steps(
    static: Static,
    params: DescentParams,
    objective: EmpiricalRisk,
    key: Key[Array, ""],
    execution: Execution,
) -> Steps:
    """Return steps as periods: a step at a new anchor, and a loop over batches of differences.

    There are two loops, because a branch in one loop would compute the gradient of an anchor in
    every step of a vectorised run.
    """
    mechanism: Any = params.mechanism
    start = objective.start(static.dim)
    arguments = objective.constraint, start, key, execution.observer, objective
    anchor, changes = (
        params.descent.of(oracle, *arguments)
        for oracle in mechanism.oracles(objective, key, execution.microbatch)
    )
    period = jnp.asarray(mechanism.period)

    def until(state: State, last: Array, in_blocks: bool = True) -> State:
        def rest(state: State) -> State:  # the rest of a period
            end = jnp.minimum(last, -(-state.t // period) * period)
            return changes.until(state, end, in_blocks)

        def one_period(state: State) -> State:
            return rest(anchor.step(state))

        return jax.lax.while_loop(lambda state: state.t < last, one_period, rest(state))

    return Steps(anchor.steps, anchor.init, until, lambda state: run_of(anchor.ends(state)))


DP_SVRG = Algorithm(
    name="dp_svrg",
    summary="noisy full gradients at anchors, noisy batches of gradient differences in between",
    plan=dp_svrg,
    mechanism=VarianceReducedGradient,
    run=whole(steps),
    steps=steps,
    step_count=step_count,
    rate=rate,
    declares=DefaultSteps,
    gathers=True,
    cites=("wang2017", "johnson2013"),
)

"""DP-SVRG: noisy full gradients now and then, noisy batches of their changes in between."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from privopt.algorithms.batches import default_batch_size
from privopt.algorithms.first_order import Params, Static, descent, run
from privopt.arguments import count, positive_number
from privopt.convex import Average, FirstOrder, Output, StepSizes
from privopt.core import Algorithm, Plan, planner
from privopt.mechanisms import MICROBATCH, ClippedGradient, VarianceReducedGradient
from privopt.privacy import gaussian_mu
from privopt.spec import Budget, ProblemClass, Relation
from privopt.theory import (
    Rate,
    approximate_dp_advantage,
    erm_lower_bound,
    gradient_difference,
    noise_limited_steps,
    variance_reduced_descent,
    variance_reduced_step_size,
)

__all__ = ["DP_SVRG"]

_LEAST = 1e-6  # of the clip: what linear losses, whose gradients never differ, are clipped to


@planner
def plan(
    problem_class: ProblemClass,
    budget: Budget,
    *,
    steps: int | None = None,
    anchor_every: int | None = None,
    batch_size: float | None = None,
    clip: float | None = None,
    difference_clip: float | None = None,
    step_size: float | StepSizes | None = None,
    output: Output | None = None,
    capacity: int | None = None,
    record: int = 0,
    microbatch: int = MICROBATCH,
) -> Plan:
    """Plan DP-SVRG: ``w <- Proj(w - eta (G + (1/b) sum_batch clip_{C'}(g_i(w) - g_i(a)) + z))``.

    ``G`` is the noisy gradient at the anchor ``a``, both taken anew every ``p`` steps. At an
    anchor the step is along ``G`` itself.

    Parameters
    ----------
    problem_class : ProblemClass
        Clipping makes the guarantee hold for any loss; the rate needs convex, ``L``-Lipschitz ones.
    budget : Budget
        ``delta > 0``.
    steps : int, optional
        ``T``, those at anchors included; default as many as ``dp_gd``.
    anchor_every : int, optional
        ``p``; default ``ceil(n/b)``, at which batches read as many records as anchors, twice each.
    batch_size : float, optional
        ``b``, the *expected* size of a Poisson batch; default as in ``dp_sgd``.
    clip : float, optional
        ``C``, of gradients at anchors; default ``L``, at which nothing is clipped.
    difference_clip : float, optional
        ``C'``; default ``min(2 L, 2 H R)``, at which nothing is clipped. A smaller one costs the
        rate, and pays where iterates stay closer to their anchors than a diameter.
    step_size : float or StepSizes, optional
        ``eta``; default ``R/sqrt(A T)``, see :func:`privopt.theory.variance_reduced_descent`.
    output : Output, optional
        Default the average.
    capacity, record, microbatch
        As in ``dp_sgd``.

    Formal guarantee
    ----------------
    That of :class:`privopt.mechanisms.VarianceReducedGradient`: Gaussian releases at anchors and
    on Poisson samples in between, both charged, both under the relation of ``budget``, for every
    data set and loss, covering all iterates. Under ``add_or_remove_one`` there are at most ``n``
    records.

    Rate
    ----
    ``E F(w) - F* <= R sqrt(A/T)``, ``A = G^2 + (p - 1) G sqrt(d) sigma``: of order ``L R sqrt(d)/(n
    mu)`` where the noise ``sigma`` of anchors leads. The rate known for strongly convex losses has
    no constants, and none is claimed.

    Source: Wang, Ye and Xu 2017, "Differentially private empirical risk minimization revisited:
    faster and more general", Algorithm 1 (batches of one, and a moments bound); Johnson and Zhang
    2013 without privacy. Accounting and rate are ours.
    """
    n = problem_class.n
    if budget.delta == 0.0:
        raise ValueError("delta must be positive for the Gaussian noise of dp_svrg, got 0.0")
    query, difference_query = _queries(problem_class, clip, difference_clip)
    if batch_size is None:
        batch_size = default_batch_size(problem_class)
    batch_size = positive_number("batch_size", batch_size)
    if steps is None:
        one_step_noise = query.sensitivity(budget.relation)
        one_step_noise /= gaussian_mu(budget.epsilon, budget.delta)
        steps = noise_limited_steps(math.sqrt(problem_class.dim) * one_step_noise / query.clip)
    steps = count("steps", steps)
    if anchor_every is None:
        anchor_every = max(1, math.ceil(n / batch_size))
    mechanism = VarianceReducedGradient.calibrated(
        query,
        difference_query,
        budget,
        steps,
        period=count("anchor_every", anchor_every),
        batch_size=batch_size,
        n=n,
        capacity=None if capacity is None else count("capacity", capacity),
        microbatch=count("microbatch", microbatch),
    )
    if step_size is None and math.isfinite(problem_class.radius):
        step_size = variance_reduced_step_size(problem_class, **_noise(mechanism, steps))
    method = descent(
        problem_class,
        steps=steps,
        noise_scale=mechanism.scale,
        step_size=step_size,
        output=Average() if output is None else output,
        record=record,
    )
    return Plan(
        algorithm=DP_SVRG,
        problem_class=problem_class,
        budget=budget,
        params=Params(replace(mechanism, steps=steps), method),
        static=Static(problem_class.dim),
        assumptions=(f"at most {n} records",)
        if budget.relation is Relation.ADD_OR_REMOVE_ONE
        else (),
        rate=_rate(problem_class, budget, mechanism, method),
        most_records=n,
    )


def _queries(
    problem_class: ProblemClass, clip: float | None, difference_clip: float | None
) -> tuple[ClippedGradient, ClippedGradient]:
    """Of the gradients at anchors, and of differences; by default nothing is clipped."""
    query = ClippedGradient.of(
        problem_class, None if clip is None else positive_number("clip", clip)
    )
    if difference_clip is None:
        change = gradient_difference(problem_class)
        if math.isinf(change):
            raise ValueError(
                "difference_clip must be given where neither lipschitz nor smoothness and radius "
                "are declared, got None"
            )
        difference_clip = max(change, _LEAST * query.clip)
    return query, ClippedGradient.of(
        problem_class, positive_number("difference_clip", difference_clip)
    )


def _noise(mechanism: VarianceReducedGradient, steps: int) -> dict[str, Any]:
    """What the theorem asks of the oracle."""
    batches = mechanism.differences
    return {
        "steps": steps,
        "period": mechanism.period,
        "anchor_noise": mechanism.scale,
        "difference_noise": batches.scale,
        "sampling": (1.0 - batches.rate) / batches.batch_size,
    }


def _rate(
    problem_class: ProblemClass,
    budget: Budget,
    mechanism: VarianceReducedGradient,
    method: FirstOrder,
) -> Rate:
    reason = _uncovered(problem_class, mechanism, method)
    upper = math.inf
    if reason is None:
        upper = variance_reduced_descent(
            problem_class,
            step_size=float(method.step_sizes.scale),
            **_noise(mechanism, int(method.steps)),
        )
    advantage, delta = approximate_dp_advantage(budget)
    lower = erm_lower_bound(problem_class, advantage=advantage, delta=delta)
    covered = "E F(w) - F* <= R sqrt(A/T), A = G^2 + (p - 1) G sqrt(d) sigma"
    return Rate(
        theorem=covered if reason is None else f"none: {reason}",
        source="derived here, from the regret of projected descent (Zinkevich 2003)"
        if reason is None
        else "no theorem covers it",
        upper=upper,
        lower=min(upper, lower),
        exponents={"n": -1.0, "dim": 0.5, "epsilon": -1.0},
        regime="noise leading, sqrt(d) sigma >= L, at fixed rate, steps and period",
        tight_on="linear",
    )


def _uncovered(
    problem_class: ProblemClass, mechanism: VarianceReducedGradient, method: FirstOrder
) -> str | None:
    """Why the theorem does not cover this plan, if it does not."""
    sizes, nearly = method.step_sizes, 1.0 - 1e-6
    short = mechanism.query.clip < problem_class.lipschitz * nearly
    differences = mechanism.differences.query.clip
    if not problem_class.convex:
        return "the losses are not convex"
    if short or math.isinf(problem_class.lipschitz):
        return "gradients are clipped below the Lipschitz constant"
    if differences < gradient_difference(problem_class) * nearly:
        return "differences of gradients are clipped"
    if math.isinf(problem_class.radius):
        return "the set is not bounded"
    if sizes.power != 0.0 or sizes.decay != 0.0 or not isinstance(method.output, Average):
        return "no theorem for these step sizes with this output"
    return None


DP_SVRG = Algorithm(
    name="dp_svrg",
    summary="noisy full gradients now and then, noisy batches of their changes in between",
    plan=plan,
    run=run,
    gathers=True,
)

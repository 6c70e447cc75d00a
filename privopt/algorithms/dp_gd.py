"""DP-GD: full-batch gradient descent with Gaussian noise, averaged."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from privopt.algorithms.first_order import (
    Params,
    Static,
    descent,
    is_plain,
    output_rule,
    run,
    step_rule,
)
from privopt.arguments import count, positive_number
from privopt.convex import Output, StepSizes
from privopt.core import Algorithm, Plan, planner
from privopt.mechanisms import MICROBATCH, ClippedGradient, FullBatchGradient
from privopt.privacy import Guarantee, gaussian_mu
from privopt.spec import Budget, ProblemClass
from privopt.theory import DefaultSteps, budget_lower_bound, descent_rate, descent_steps

__all__ = ["DP_GD"]


@planner
def plan(
    problem_class: ProblemClass,
    budget: Budget,
    *,
    steps: int | None = None,
    step_size: float | StepSizes | None = None,
    clip: float | None = None,
    update: Any = None,
    output: Output | None = None,
    record: int = 0,
    microbatch: int = MICROBATCH,
) -> Plan:
    """Plan DP-GD: ``w_{t+1} = Proj(w_t - eta_t (grad F(w_t) + z_t))``, ``z_t ~ N(0, sigma^2 I)``.

    Parameters
    ----------
    problem_class : ProblemClass
        Convex, ``L``-Lipschitz; finite ``radius`` unless ``step_size`` is given.
    budget : Budget
        ``delta > 0``.
    steps : int, optional
        ``T``; default ``ceil(n^2 mu^2 / (4 d))`` (replace-one), after which noise, not
        optimisation, is the larger error, and at most a million. Fewer steps cost accuracy, never
        privacy.
    step_size : float or StepSizes, optional
        ``eta_t``; default ``R / (G sqrt T)``, ``G^2 = L^2 + d sigma^2``, and ``2/(m (t + 1))`` for
        strongly convex losses.
    clip : float, optional
        ``C``, per-example clip norm; default ``L``, at which nothing is clipped.
    update : optax optimiser or Update, optional
        Default plain descent. Any other is post-processing: same guarantee, no rate.
    output : Output, optional
        Default the average; in proportion to ``t`` for strongly convex losses.
    record : int
        How many points of the path to record, on a logarithmic scale of steps.
    microbatch : int
        So many gradients of a general loss are in memory at once.

    Formal guarantee
    ----------------
    ``sigma`` is set so that ``T`` adaptive releases of the clipped mean gradient, of sensitivity
    ``s = 2C/n`` (``replace_one``) or ``C/n`` (``zero_out``, ``add_or_remove_one``), are
    ``s sqrt(T) / sigma``-Gaussian DP within ``budget``. It covers all iterates, and holds for
    every data set and loss: clipping enforces the sensitivity.

    Rate
    ----
    ``E F(w) - F* <= R G / sqrt T = L R sqrt(1/T + 4 d / (n mu)^2)`` (replace-one), at most
    ``2 sqrt 2  L R sqrt(d) / (n mu)`` at the default ``T``; strongly convex ``2 G^2/(m (T + 1))``,
    of order ``L^2 d/(m n^2 mu^2)``. Valid at ``clip >= L``; for smaller ``clip`` no rate is
    claimed, nor for other updates and outputs than a theorem names.

    Source: Bassily, Smith and Thakurta 2014, Theorem 2.4, with exact Gaussian accounting
    (Dong, Roth and Su 2022, arXiv Theorem 2.7 and Corollary 3.3) in place of their composition.
    """
    query = ClippedGradient.of(
        problem_class, None if clip is None else positive_number("clip", clip)
    )
    if budget.delta == 0.0:
        raise ValueError("delta must be positive for the Gaussian noise of dp_gd, got 0.0")
    mu = gaussian_mu(budget.epsilon, budget.delta)
    default = DefaultSteps(1)
    if steps is None:
        default = descent_steps(
            problem_class,
            one_step_noise=query.sensitivity(budget.relation) / mu,
            clip=query.clip,
            plain=update is None,
        )
        steps = default.steps
    steps = count("steps", steps)
    mechanism = FullBatchGradient.calibrated(query, budget, steps)
    method = descent(
        problem_class, steps=steps, noise_std=mechanism.scale, step_size=step_size,
        update=update, output=output, record=record,
    )  # fmt: skip
    return Plan(
        algorithm=DP_GD,
        problem_class=problem_class,
        budget=budget,
        params=Params(replace(mechanism, microbatch=count("microbatch", microbatch)), method),
        static=Static(problem_class.dim),
        guarantee=Guarantee(mechanism.event(budget.relation, steps), budget.relation),
        rate=descent_rate(
            problem_class,
            steps=steps,
            steps_powers=default.powers,
            step_rule=step_rule(method.step_sizes),
            output=output_rule(method.output),
            noise_std=mechanism.scale,
            clipped=query.clip < problem_class.lipschitz * (1.0 - 1e-6),
            plain=is_plain(method.update),
            lower=budget_lower_bound(problem_class, budget, mu=mu),
        ),
    )


DP_GD = Algorithm(
    name="dp_gd",
    summary="full-batch gradient descent with Gaussian noise, averaged",
    plan=plan,
    run=run,
)

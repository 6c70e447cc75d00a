"""The projection mechanism: a noisy mean of sparse vectors, projected onto a set of means."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

from jax import Array
from jaxtyping import Float, Key

from privopt.algorithms.shared import MODES, OneShotParams, Static, check_gaussian, planned
from privopt.arguments import member, shown
from privopt.convex import EmpiricalRisk, WholeSpace
from privopt.core import Algorithm, Execution, Plan, Run, planner
from privopt.mechanisms import ClippedMean, GaussianMechanism, ProjectedMean
from privopt.mechanisms.means import body_of
from privopt.random import stream
from privopt.spec import Budget, ProblemClass
from privopt.theory import Body, Rate, no_rate, projection_mechanism_rate


class MeanSecret(NamedTuple):
    """The mean of the clipped records, and the number of changed records.

    The rate requires that no record is changed.
    """

    mean: Float[Array, " d"]
    clipped: Float[Array, ""]


@planner
def projection_mechanism(
    problem_class: ProblemClass,
    budget: Budget,
    *,
    mode: str = "tight",
    noise: str | None = None,
    body: str | None = None,
    clip_norm: float | None = None,
) -> Plan:
    """Return a plan for the projection mechanism.

    ``argmin_{v in B} |v - (zbar + xi)|_2``, for squared distances; the minimiser is the mean
    ``zbar`` of the records. With ``body="none"`` the result is the noisy mean, which is unbiased
    and may be outside of the problem's set. ``"l2"`` is the dense method. The other two are for
    sparse records.

    Parameters
    ----------
    problem_class : ProblemClass
        With ``sparsity``, the ``s`` of every record, for bodies and noise that depend on it.
    budget : Budget
        Privacy budget. ``delta = 0`` is pure differential privacy.
    mode : {"tight", "paper"}
        Exact calibration of Gaussian noise, or the classical ``sigma = s sqrt(2 ln(1.25/delta)) /
        epsilon`` for ``epsilon <= 1``. Laplace noise is the same in both.
    noise : {"gaussian", "laplace"}, optional
        Default: the noise with the smaller certified bound; ``"laplace"`` if ``delta = 0``;
        ``"gaussian"`` in mode ``"paper"``.
    body : {"l1_l2", "l1", "l2", "none"}, optional
        Convex set ``B``: ``K' = {|v|_1 <= L sqrt(s), |v|_2 <= L}``, one of its two parts, or the
        whole space. Default: ``K'``; in mode ``"paper"`` the published ``"l1"``.
    clip_norm : float, optional
        Clipping norm ``L`` in the Euclidean norm; ``L sqrt(s)`` in the l1 norm. Default: the
        largest norm that the declared facts permit for a record of a squared distance,
        ``lipschitz/strong_convexity - radius``; ``lipschitz`` if that is not positive.

    Formal guarantee
    ----------------
    Every record is clipped in both norms. The mean therefore has sensitivity ``2L/n`` for Gaussian
    noise, and ``2 L sqrt(s)/n`` in the l1 norm for Laplace noise (``replace_one``), and half of it
    under ``zero_out`` and ``add_or_remove_one``, for all data, sparse or not. Records denser than
    declared may be clipped, which affects the rate but not privacy.

    Rate
    ----
    ``H/2`` times ``E |zhat - zbar|^2 <= min(E h_B(xi), E |xi|^2)``, or the bound for the body alone
    if less. ``H`` is the declared smoothness, which bounds the modulus of the distances, or 1. A
    sharper bound applies if the two are close (:mod:`privopt.theory.sparse_means`). With
    ``kappa = n sigma/(2L)``::

        Gaussian   sparse  2 sqrt(2) L^2 kappa sqrt(s ln 2d)/n    dense  4 d L^2 kappa^2/n^2
        Laplace    sparse  2 L^2 s H_d/(n epsilon)                dense  8 s d L^2/(n epsilon)^2

    Source: Ghazi, Guzman, Kamath, Kumar and Manurangsi 2024 (arXiv:2404.10881), section 3, after
    Nikolov, Talwar and Zhang 2013. Constants and ``K'`` are derived in
    :class:`privopt.mechanisms.ProjectedMean`.

    Examples
    --------
    >>> facts = ProblemClass(n=1000, dim=50, lipschitz=2.0, radius=1.0, smoothness=1.0,
    ...                      strong_convexity=1.0, sparsity=4)
    >>> budget = Budget(epsilon=1.0, delta=1e-6, relation="replace_one")
    >>> plan = projection_mechanism(facts, budget, noise="gaussian")
    >>> round(plan.params.mechanism.scale * 1000 / 2, 3)
    4.225
    """
    member("mode", mode, MODES)
    if body is None:
        body = "l1" if mode == "paper" else "l1_l2"
    if body in ("l1", "l1_l2") and problem_class.sparsity is None:
        raise ValueError(f"sparsity must be declared for body={shown(body)}, got None")
    check_gaussian(noise, budget)
    names = ["gaussian", "laplace"] if noise is None else [noise]
    if noise is None and (budget.delta == 0.0 or mode == "paper"):
        names = ["laplace" if budget.delta == 0.0 else "gaussian"]
    if mode == "paper" and names == ["gaussian"]:
        check_paper(budget)
    query = ClippedMean.of(problem_class, clip_norm)
    mechanisms = [
        ProjectedMean.calibrated(query, budget, noise=name, body=body, classic=mode == "paper")
        for name in names
    ]
    mechanism = min(mechanisms, key=lambda each: rate_of(problem_class, each).upper)
    return planned(PROJECTION_MECHANISM, problem_class, budget, mechanism)


def check_paper(budget: Budget) -> None:
    """Check that the classical Gaussian noise is proved private for this epsilon."""
    if budget.epsilon > 1.0:
        raise ValueError(
            "epsilon must not exceed 1 for mode='paper': its Gaussian noise is proved private for "
            f"epsilon <= 1, got {shown(budget.epsilon)}"
        )


def rate(plan: Plan) -> Rate:
    """Return the rate for squared distances, by noise and body."""
    params: Any = plan.params
    return rate_of(plan.problem_class, params.mechanism)


def rate_of(problem_class: ProblemClass, mechanism: ProjectedMean) -> Rate:
    """Return the rate of this mechanism for the problem class."""
    query, gaussian = mechanism.query, isinstance(mechanism.noisy, GaussianMechanism)
    clips = query.l1_clip, query.l2_clip
    bodies = (name for name in Body if body_of(name, *clips) == mechanism.body)
    body = next(bodies, None) if math.isfinite(max(clips)) else None
    if body is None or not mechanism.scale > 0.0:
        return rate_with(problem_class, query, no_rate("the theorem is for noise and a body"))
    bound = projection_mechanism_rate(
        problem_class,
        noise="gaussian" if gaussian else "laplace",
        scale=mechanism.scale,
        body=body,
        clip_norm=query.l2_clip,
    )
    return rate_with(problem_class, query, bound)


def rate_with(problem_class: ProblemClass, query: ClippedMean, rate: Rate) -> Rate:
    """Return ``rate`` with its requirements, or no rate if records may be clipped.

    The modulus is the declared smoothness, or at most 1.
    """
    if query.changes(problem_class):
        rate = no_rate("records are clipped below the norm that the class permits")
    requires = {"unit_modulus"} if problem_class.smoothness is None else ()
    whole = problem_class.strong_convexity > 0.0  # else the hard losses of the class are linear
    return replace(rate, whole_class=whole, requires=frozenset(requires))


def run(
    static: Static,
    params: OneShotParams,
    objective: EmpiricalRisk,
    key: Key[Array, ""],
    execution: Execution,
) -> Run:
    """Clip, sum, add noise, project onto the body and onto the problem's set."""
    del static, execution
    mechanism = params.mechanism
    mean = mechanism.query.mean_of(objective)
    point = mechanism.release(stream(key, "noise"), mean)
    if not isinstance(mechanism.body, WholeSpace):
        point = objective.constraint.project(point)
    return Run(point, MeanSecret(mean, mechanism.query.clipped(objective)))


PROJECTION_MECHANISM = Algorithm(
    name="projection_mechanism",
    summary="noisy mean of sparse vectors, projected onto a set of means",
    plan=projection_mechanism,
    mechanism=ProjectedMean,
    run=run,
    rate=rate,
    float64=True,
    cites=("nikolov2013", "ghazi2024"),
)

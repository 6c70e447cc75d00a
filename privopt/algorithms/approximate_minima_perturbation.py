"""Approximate minima perturbation: objective perturbation with an approximate minimiser."""

from __future__ import annotations

from dataclasses import replace

from privopt.algorithms.objective_perturbation import (
    ObjectivePerturbationRelease,
    least_noise,
    rate_by,
    regularised,
    run,
)
from privopt.algorithms.shared import planned, require_convex_lipschitz
from privopt.arguments import member, positive_number
from privopt.core import Algorithm, Plan, planner
from privopt.mechanisms import GaussianMechanism
from privopt.mechanisms.calibration import drawable
from privopt.mechanisms.objective_perturbation import (
    OBJECTIVE_PERTURBATION_ANALYSES,
    GaussianObjectivePerturbation,
)
from privopt.privacy import round_up
from privopt.spec import Budget, ProblemClass
from privopt.theory import Rate

_FINISH_SHARE = 0.01  # of epsilon and of delta, for the second noise


@planner
def approximate_minima_perturbation(
    problem_class: ProblemClass,
    budget: Budget,
    *,
    regularisation: float | None = None,
    relative_error: float | None = None,
    analysis: str = "tight",
) -> Plan:
    """Return a plan for approximate minima perturbation.

    The published parameters are ``epsilon = e1 + e2``, ``delta = d1 + d2`` and ``e1 = e3 + e4``,
    with ``e2 = epsilon/100``, ``d2 = delta/100`` and ``e4 = min(e1, 1)/2``. The share ``e4`` pays
    for the determinant and requires ``lambda n >= 2 H / e4``. The tilt has standard deviation
    ``(m L/n) (1 + sqrt(2 ln(1/d1))) / e3``, and a second noise uses ``(e2, d2)``. This spends about
    three tenths of epsilon, because the determinant costs far less than ``e4``, and the classical
    tail bound is loose.

    Parameters
    ----------
    problem_class : ProblemClass
        Convex losses of one linear prediction, with declared ``smoothness``.
    budget : Budget
        Privacy budget with ``delta > 0``.
    regularisation : float, optional
        ``lambda``, at least ``2 H/(n e4)``. Default: the minimiser of the bound.
    relative_error : float
        Distance ``tau`` between computed and exact minimiser, in units of ``L/(lambda n)``, for
        every data set. Default: ``0.01/n``. (The paper requires a gradient of norm ``gamma``, which
        it sets to ``1/n^2``; then ``tau = gamma/lambda``.)
    analysis : {"tight", "iyengar"}
        Least noise within ``budget``, or the published noise.

    Formal guarantee
    ----------------
    The guarantee of objective perturbation. The outputs of both neighbours may differ from their
    minimisers by ``tau``, so the second noise has sensitivity ``2 tau``. The paper uses ``tau``,
    the distance of one output from its own minimiser. The noise does not depend on the accuracy of
    the solver, and no noise is sampled again.

    Rate
    ----
    The rate of objective perturbation; for the published noise, with that noise.

    Source: Iyengar, Near, Song, Thakkar, Thakurta and Wang, "Towards practical differentially
    private convex optimization", S&P 2019, Algorithm 1.

    Examples
    --------
    >>> facts = ProblemClass(n=1000, dim=5, lipschitz=1.0, radius=1.0, smoothness=0.25)
    >>> budget = Budget(epsilon=1.0, delta=1e-6, relation="replace_one")
    >>> plan = approximate_minima_perturbation(facts, budget)
    >>> 0.99 < plan.guarantee.epsilon(1e-6).upper <= 1.0
    True
    """
    require_convex_lipschitz("approximate_minima_perturbation", problem_class)
    if budget.delta == 0.0:
        raise ValueError("delta must be positive for approximate minima perturbation, got 0.0")
    member("analysis", analysis, ("tight", "iyengar"))
    if relative_error is None:
        relative_error = 0.01 / problem_class.n
    theorem = OBJECTIVE_PERTURBATION_ANALYSES[analysis]
    first = drawable(budget) if analysis == "tight" else _share(budget, 1.0 - _FINISH_SHARE)
    query = regularised(
        problem_class,
        first,
        theorem,
        regularisation,
        relative_error=positive_number("relative_error", relative_error),
    )
    if analysis == "tight":
        mechanism = least_noise(query, first, theorem)
    else:
        mechanism = ObjectivePerturbationRelease(
            GaussianObjectivePerturbation(query, round_up(theorem.scale(query, first))),
            GaussianMechanism.calibrated(query, _share(budget, _FINISH_SHARE)).scale,
        )
    return planned(APPROXIMATE_MINIMA_PERTURBATION, problem_class, budget, mechanism)


def rate(plan: Plan) -> Rate:
    """Return the rate of objective perturbation."""
    budgets = drawable(plan.budget), _share(plan.budget, 1.0 - _FINISH_SHARE)
    analyses = (OBJECTIVE_PERTURBATION_ANALYSES[name] for name in ("tight", "iyengar"))
    return rate_by(plan, zip(budgets, analyses, strict=True))


def _share(budget: Budget, share: float) -> Budget:
    total = drawable(budget)
    return replace(total, epsilon=share * total.epsilon, delta=share * total.delta)


APPROXIMATE_MINIMA_PERTURBATION = Algorithm(
    name="approximate_minima_perturbation",
    summary="objective perturbation with an approximate minimiser, whose error is charged",
    plan=approximate_minima_perturbation,
    mechanism=ObjectivePerturbationRelease,
    run=run,
    rate=rate,
    float64=True,
    noise="objective",
    cites=("iyengar2019", "kifer2012"),
)

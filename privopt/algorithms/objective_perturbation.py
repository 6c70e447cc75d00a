"""Objective perturbation: the minimiser of a regularised objective with a random linear term."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple

import dp_accounting as dp
from jax import Array
from jaxtyping import Float, Key

from privopt.algorithms.shared import (
    OneShotParams,
    Static,
    least_bound,
    minimiser_of,
    noise_kinds,
    planned,
    require_convex_lipschitz,
)
from privopt.arguments import positive_number, shown
from privopt.convex import EmpiricalRisk
from privopt.core import Algorithm, Execution, Plan, Run, planner
from privopt.mechanisms import GaussianMechanism, NormLaplaceMechanism
from privopt.mechanisms.calibration import drawable
from privopt.mechanisms.objective_perturbation import (
    OBJECTIVE_PERTURBATION_ANALYSES,
    GaussianObjectivePerturbation,
    NormLaplaceObjectivePerturbation,
    ObjectivePerturbationAnalysis,
    PerturbedMinimiser,
)
from privopt.privacy import Fourier, calibrate, round_up
from privopt.random import stream
from privopt.spec import Budget, ProblemClass, Relation
from privopt.theory import (
    Rate,
    no_rate,
    objective_perturbation_rate,
    perturbed_objective_regularisation,
)

# Privacy cost of the second noise relative to the cost of the tilt.
_FINISH_SHARE = 0.01
_PURE_FINISH_SHARE = 1e-3  # under pure differential privacy, for which costs add up


class ObjectivePerturbationRelease(NamedTuple):
    """Noise in the objective, and noise that hides the error of the solver.

    The ``tilt`` makes the exact minimiser of its query private. ``finish_scale`` is the scale of
    the second noise, which has the same law as the tilt, in units of the parameter.
    """

    tilt: GaussianObjectivePerturbation | NormLaplaceObjectivePerturbation
    finish_scale: float

    @property
    def finish(
        self,
    ) -> GaussianMechanism[PerturbedMinimiser] | NormLaplaceMechanism[PerturbedMinimiser]:
        """Mechanism that hides the distance between computed and exact minimiser."""
        gaussian = isinstance(self.tilt, GaussianObjectivePerturbation)
        kind = GaussianMechanism if gaussian else NormLaplaceMechanism
        return kind(self.tilt.query, self.finish_scale)

    def event(self, relation: Relation) -> dp.DpEvent:
        """Return the composition of the exact minimiser and, given it, the error of the solver."""
        return dp.ComposedDpEvent((self.tilt.event(relation), self.finish.event(relation)))


class TiltedSecret(NamedTuple):
    """The tilt, and the minimiser before the second noise."""

    tilt: Float[Array, " d"]
    minimiser: Float[Array, " d"]


@planner
def objective_perturbation(
    problem_class: ProblemClass,
    budget: Budget,
    *,
    regularisation: float | None = None,
    analysis: str = "tight",
    noise: str | None = None,
) -> Plan:
    """Return a plan for objective perturbation.

    ``argmin_W F(w) + (lambda/2)|w - c|^2 + <t, w>  +  z`` with noise ``t``. The noise ``z`` hides
    the difference between computed and exact minimiser. It is smaller by orders of magnitude. The
    result is projected.

    Parameters
    ----------
    problem_class : ProblemClass
        Convex losses of one linear prediction, with declared ``smoothness``.
    budget : Budget
        Privacy budget. ``delta = 0`` is pure differential privacy.
    regularisation : float, optional
        Regularisation ``lambda``. Default: the minimiser of the bound, about ``sqrt(E|t|^2)/R``.
        Public; do not tune it on the data.
    analysis : {"tight", "kifer", "iyengar", "chaudhuri"}
        Theorem that determines the noise. ``"chaudhuri"`` is for norm-Laplace noise; ``"kifer"``
        and ``"iyengar"`` are for Gaussian noise. All three are older and use more noise. The
        guarantee is computed from the noise for all of them.
    noise : {"gaussian", "norm_laplace"}, optional
        Law of ``t`` and ``z``. Gaussian noise requires ``delta > 0``. Norm-Laplace noise is pure
        DP. Default: the noise with the smaller bound of one release. The guarantees of many
        releases with Gaussian noise compose to a smaller epsilon.

    Formal guarantee
    ----------------
    The exact minimiser is :class:`privopt.privacy.ObjectivePerturbationDpEvent`, or pure DP with
    norm-Laplace tilts. Given the minimiser, the release has sensitivity ``2 tau``, where ``tau`` is
    the worst-case error of the solver on any data set. The two compose. The guarantee needs the
    assumptions in ``guarantee.assumptions``; clipping enforces the Lipschitz constant.

    Rate
    ----
    Default ``lambda``: ``R sqrt(E|t|^2)/2``, where ``sqrt(E|t|^2) = sigma sqrt(d)/n`` and
    ``sigma`` is slightly above ``m L/mu``. The minimisation is over the constraint set. An
    unconstrained minimiser that is projected afterwards has no such rate if the constraint is
    active.

    Source: Chaudhuri, Monteleoni and Sarwate 2011; Kifer, Smith and Thakurta 2012; Redberg,
    Koskela and Wang 2023.

    Examples
    --------
    >>> facts = ProblemClass(n=1000, dim=5, lipschitz=1.0, radius=1.0, smoothness=0.25)
    >>> budget = Budget(epsilon=1.0, delta=1e-6, relation="replace_one")
    >>> round(objective_perturbation(facts, budget).rate.upper, 4)
    0.0056
    """
    require_convex_lipschitz("objective_perturbation", problem_class)
    theorem = _analysis(analysis, noise, budget)
    plans, errors = [], []
    for kind in noise_kinds(noise, budget):
        pure = kind is NormLaplaceMechanism
        if theorem.pure in (None, pure):
            spendable = _spendable(budget, pure)
            try:
                query = regularised(problem_class, spendable, theorem, regularisation)
            except ValueError as error:  # the given regularisation may suit one kind of noise
                errors.append(error)
                continue
            mechanism = least_noise(query, spendable, theorem)
            plans.append(planned(OBJECTIVE_PERTURBATION, problem_class, budget, mechanism))
    if not plans:
        raise errors[0]
    return least_bound(plans)


def rate(plan: Plan) -> Rate:
    """Return the rate; ``lambda`` may be the minimiser of the bound of an analysis."""
    params: Any = plan.params
    pure = isinstance(params.mechanism.tilt, NormLaplaceObjectivePerturbation)
    budget, every = _spendable(plan.budget, pure), OBJECTIVE_PERTURBATION_ANALYSES.values()
    return rate_by(plan, [(budget, each) for each in every if each.pure in (None, pure)])


def _spendable(budget: Budget, pure: bool) -> Budget:
    """Return the budget that pure noise uses, or the part of it that Gaussian noise may spend."""
    return replace(budget, delta=0.0) if pure else drawable(budget)


def rate_by(plan: Plan, analyses: Iterable[tuple[Budget, ObjectivePerturbationAnalysis]]) -> Rate:
    """Return the rate, if one of these analyses within its budget may have defined the tilt."""
    params: Any = plan.params
    (mechanism,), facts = params, plan.problem_class
    tilt, query = mechanism.tilt, mechanism.tilt.query
    if query.gradient.changes(facts):
        return no_rate("gradients are clipped or divided")
    best = (default_regularisation(facts, budget, each) for budget, each in analyses)
    return objective_perturbation_rate(
        facts,
        regularisation=query.regularisation,
        noise_second_moment=tilt.noise_square(facts.dim),
        distance=query.error + mechanism.finish.noise_norm(facts.dim),
        gaussian=isinstance(tilt, GaussianObjectivePerturbation),
        tuned=math.isfinite(facts.radius) and query.regularisation in best,
    )


def _analysis(name: str, noise: str | None, budget: Budget) -> ObjectivePerturbationAnalysis:
    """Return the analysis with this name; check that it is for the noise."""
    laws = {None, *(kind is NormLaplaceMechanism for kind in noise_kinds(noise, budget))}
    names = [each for each, about in OBJECTIVE_PERTURBATION_ANALYSES.items() if about.pure in laws]
    if name not in names:
        raise ValueError(
            f"analysis must be one of {', '.join(names)} at delta {shown(budget.delta)}, got "
            f"{shown(name)}"
        )
    return OBJECTIVE_PERTURBATION_ANALYSES[name]


def regularised(
    problem_class: ProblemClass,
    budget: Budget,
    analysis: ObjectivePerturbationAnalysis,
    regularisation: float | None,
    *,
    relative_error: float | None = None,
) -> PerturbedMinimiser:
    """Return the query for the given ``lambda``, or for the minimiser of the bound."""
    if regularisation is None:
        if math.isinf(problem_class.radius):
            raise ValueError("regularisation must be given where radius is infinite, got None")
        regularisation = default_regularisation(problem_class, budget, analysis)
    positive_number("regularisation", regularisation)
    query = PerturbedMinimiser.of(
        problem_class, regularisation=regularisation, relative_error=relative_error
    )
    least = analysis.least(problem_class, budget)
    if regularisation < least or math.isinf(analysis.scale(query, budget)):
        raise ValueError(
            f"regularisation must exceed {shown(least)}, below which the losses' curvature alone "
            f"costs more than epsilon {shown(budget.epsilon)} by this analysis, got "
            f"{shown(regularisation)}"
        )
    return query


def default_regularisation(
    problem_class: ProblemClass, budget: Budget, analysis: ObjectivePerturbationAnalysis
) -> float:
    """Return the ``lambda`` that minimises the bound for the noise of an analysis."""
    pure = budget.delta == 0.0
    tilt = NormLaplaceObjectivePerturbation if pure else GaussianObjectivePerturbation

    def second_moment(trial: float) -> float:
        query = PerturbedMinimiser.of(problem_class, regularisation=trial)
        return tilt(query, analysis.scale(query, budget)).noise_square(problem_class.dim)

    least = analysis.least(problem_class, budget)
    return perturbed_objective_regularisation(problem_class, second_moment, least=least)


def least_noise(
    query: PerturbedMinimiser, budget: Budget, analysis: ObjectivePerturbationAnalysis
) -> ObjectivePerturbationRelease:
    """Return both noises: the least that the guarantee permits, or those of an older theorem."""
    start, relation = analysis.scale(query, budget), budget.relation
    if budget.delta == 0.0:
        return _pure_noise(query, relation, start)
    if analysis is not OBJECTIVE_PERTURBATION_ANALYSES["tight"]:
        return _gaussian_noise(query, relation, start)

    def event(factor: float) -> dp.DpEvent:
        return _gaussian_noise(query, relation, start * max(factor, 1e-30)).event(relation)

    factor = calibrate(event, budget, accountant=Fourier(two_sided=False))
    return _gaussian_noise(query, relation, start * factor)


def _gaussian_noise(
    query: PerturbedMinimiser, relation: Relation, scale: float
) -> ObjectivePerturbationRelease:
    tilt = GaussianObjectivePerturbation(query, round_up(scale))
    cost = _FINISH_SHARE * query.gradient.sensitivity(relation) / tilt.scale
    return ObjectivePerturbationRelease(tilt, round_up(query.sensitivity(relation) / cost))


def _pure_noise(
    query: PerturbedMinimiser, relation: Relation, scale: float
) -> ObjectivePerturbationRelease:
    """Return both noises; the tilt is larger by a thousandth, which pays for the second noise."""
    tilt = NormLaplaceObjectivePerturbation(query, round_up(scale * (1.0 + _PURE_FINISH_SHARE)))
    cost = query.gradient.sensitivity(relation) / tilt.scale * _PURE_FINISH_SHARE * (1.0 - 1e-6)
    return ObjectivePerturbationRelease(tilt, round_up(query.sensitivity(relation) / cost))


def run(
    static: Static,
    params: OneShotParams,
    objective: EmpiricalRisk,
    key: Key[Array, ""],
    execution: Execution,
) -> Run:
    """Sample the tilt, minimise, add the second noise, project."""
    del execution
    mechanism = params.mechanism
    tilt = mechanism.tilt.draw(stream(key, "noise"), static.dim, objective.dtype)
    centre = objective.constraint.centre_point(static.dim, objective.dtype)
    minimiser = minimiser_of(mechanism.tilt.query, objective, centre, tilt)
    noisy = mechanism.finish.add_noise(stream(key, "solver"), minimiser)
    return Run(objective.constraint.project(noisy), TiltedSecret(tilt, minimiser))


OBJECTIVE_PERTURBATION = Algorithm(
    name="objective_perturbation",
    summary="minimiser of a randomly tilted objective, for generalised linear models",
    plan=objective_perturbation,
    mechanism=ObjectivePerturbationRelease,
    run=run,
    rate=rate,
    float64=True,
    noise="objective",
    cites=("chaudhuri2011", "kifer2012", "redberg2023"),
)

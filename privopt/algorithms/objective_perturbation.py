"""Objective perturbation: tilt a regularised objective at random, release its minimiser."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import dp_accounting as dp
import jax
import jax.numpy as jnp
from jax import Array

from privopt.algorithms.choices import positive_number
from privopt.core import Algorithm, Plan, Run
from privopt.mechanisms import (
    GaussianMechanism,
    GaussianTilt,
    NormLaplaceMechanism,
    NormLaplaceTilt,
    TiltedMinimiser,
)
from privopt.privacy import (
    Fourier,
    Guarantee,
    calibrate,
    gaussian_mu,
    renyi_divergence,
    round_up,
)
from privopt.spec import Budget, ProblemClass, Relation
from privopt.theory import (
    Rate,
    approximate_dp_advantage,
    erm_lower_bound,
    tilted_minimiser,
    tilted_minimiser_regularisation,
)

__all__ = ["OBJECTIVE_PERTURBATION"]

_SHARE = 0.01  # of the tilt's privacy loss, what the noise that hides the solver's error may add
_PURE_SHARE = 1e-3  # of epsilon, for the same under pure differential privacy


class Params(NamedTuple):
    """Numbers of a run."""

    mechanism: GaussianTilt | NormLaplaceTilt
    finish: GaussianMechanism | NormLaplaceMechanism


class Static(NamedTuple):
    """Shape of a run."""

    dim: int


class Secret(NamedTuple):
    """The tilt, and the minimiser before the last noise."""

    tilt: Array
    minimiser: Array


class Analysis(NamedTuple):
    """Who proves it: what noise and how much regularisation a theorem asks for.

    ``scale(query, budget)`` is the noise of the tilt (infinite where none suffices), and
    ``least(problem_class, budget)`` the regularisation that the theorem needs.
    """

    scale: Callable[[TiltedMinimiser, Budget], float]
    least: Callable[[ProblemClass, Budget], float]


def plan(
    problem_class: ProblemClass,
    budget: Budget,
    *,
    regularisation: float | None = None,
    analysis: str = "tight",
) -> Plan:
    """Plan objective perturbation: ``argmin_W F(w) + (lambda/2)|w - c|^2 + <t, w>  +  z``.

    ``t`` is the noise; ``z`` hides what a solver, however good, leaves between the computed and
    the exact minimiser, and is smaller by orders of magnitude. The result is projected.

    Parameters
    ----------
    problem_class : ProblemClass
        Convex losses of one linear prediction, with declared ``smoothness``.
    budget : Budget
        ``delta = 0`` asks for pure differential privacy.
    regularisation : float, optional
        ``lambda``; default: the theory's, about ``sqrt(E|t|^2)/R``. Public: never tuned on data.
    analysis : {"tight", "kifer", "chaudhuri"}
        Which theorem sets the noise. ``"kifer"`` (``delta > 0``) and ``"chaudhuri"`` (``delta =
        0``) are older, and noisier; they are here to be compared with. The guarantee is
        always that of the noise really added.

    Formal guarantee
    ----------------
    The exact minimiser is :class:`privopt.privacy.ObjectivePerturbationDpEvent`, or pure DP with
    norm-Laplace tilts. Given it, the release is that of a mechanism with sensitivity ``2 tau``,
    ``tau`` the solver's worst-case error on any data set: the two compose. Rests on
    ``guarantee.assumptions``; the Lipschitz constant is enforced by clipping.

    Rate
    ----
    Theory's ``lambda``: ``R sqrt(E|t|^2)/2``, where ``sqrt(E|t|^2) = sigma sqrt(d)/n`` and
    ``sigma`` is somewhat above ``m L/mu``. The constraint takes part in the minimisation: the
    unconstrained minimiser, projected afterwards, has no such rate where the constraint binds.

    Source: Chaudhuri, Monteleoni and Sarwate 2011; Kifer, Smith and Thakurta 2012; Redberg,
    Koskela and Wang 2023.
    """
    chosen = _analysis(analysis, budget)
    least = chosen.least(problem_class, budget) if problem_class.smoothness is not None else 0.0
    tuned = regularisation is None
    if regularisation is None:
        regularisation = _balanced(problem_class, budget, chosen, least)
    regularisation = positive_number("regularisation", regularisation)
    query = TiltedMinimiser.of(problem_class, regularisation=regularisation)
    if regularisation < least or math.isinf(chosen.scale(query, budget)):
        raise ValueError(
            f"regularisation must exceed {least!r} for epsilon {budget.epsilon!r} by the "
            f"{analysis} analysis, got {regularisation!r}"
        )
    mechanism, finish = _noise(query, budget, chosen)
    return Plan(
        algorithm=OBJECTIVE_PERTURBATION,
        problem_class=problem_class,
        budget=budget,
        params=Params(mechanism, finish),
        static=Static(problem_class.dim),
        guarantee=Guarantee(
            _event(mechanism, finish, budget.relation),
            budget.relation,
            _assumptions(problem_class, budget),
        ),
        rate=_rate(problem_class, budget, mechanism, finish, tuned=tuned),
        requires=frozenset({"linear_model"}),
    )


def _tight(query: TiltedMinimiser, budget: Budget) -> float:
    """In closed form: ``2 delta_G(epsilon - ln(1 + H/(lambda n)); s/sigma) = delta``."""
    left = budget.epsilon - query.jacobian
    if not left > 0.0:
        return math.inf
    moved = query.gradient.sensitivity(budget.relation)
    if budget.delta == 0.0:
        return moved / (left * (1.0 - _PURE_SHARE))
    return moved / gaussian_mu(left, 0.5 * budget.delta)


def _tight_least(problem_class: ProblemClass, budget: Budget) -> float:
    curvature = (problem_class.smoothness or 0.0) / problem_class.n
    return curvature / math.expm1(min(budget.epsilon, 700.0))


def _kifer(query: TiltedMinimiser, budget: Budget) -> float:
    """``sigma = (L/n) sqrt(8 ln(2/delta) + 4 epsilon) / epsilon``, for one record present or not.

    A record replaced is removed and added: half of epsilon, ``delta / (1 + e^(epsilon/2))``.
    """
    epsilon, delta = budget.epsilon, budget.delta
    if budget.relation is Relation.REPLACE_ONE:
        epsilon, delta = 0.5 * epsilon, delta / (1.0 + math.exp(0.5 * epsilon))
    contribution = query.gradient.sensitivity(budget.relation) / budget.relation.multiple
    return contribution * math.sqrt(8.0 * math.log(2.0 / delta) + 4.0 * epsilon) / epsilon


def _kifer_least(problem_class: ProblemClass, budget: Budget) -> float:
    """``lambda n >= 2 H / epsilon``."""
    curvature = (problem_class.smoothness or 0.0) / problem_class.n
    return 2.0 * curvature * budget.relation.multiple / budget.epsilon


def _chaudhuri(query: TiltedMinimiser, budget: Budget) -> float:
    """``beta = s / (epsilon - 2 ln(1 + H/(lambda n)))``: the determinant counts twice."""
    left = budget.epsilon - 2.0 * query.jacobian
    return query.gradient.sensitivity(budget.relation) / left if left > 0.0 else math.inf


def _chaudhuri_least(problem_class: ProblemClass, budget: Budget) -> float:
    curvature = (problem_class.smoothness or 0.0) / problem_class.n
    return curvature / math.expm1(min(0.5 * budget.epsilon, 700.0))


_TIGHT = Analysis(_tight, _tight_least)
_ANALYSES = {
    True: {"tight": _TIGHT, "chaudhuri": Analysis(_chaudhuri, _chaudhuri_least)},
    False: {"tight": _TIGHT, "kifer": Analysis(_kifer, _kifer_least)},
}


def _analysis(name: str, budget: Budget) -> Analysis:
    known = _ANALYSES[budget.delta == 0.0]
    if name not in known:
        raise ValueError(
            f"analysis must be one of {', '.join(known)} at delta {budget.delta!r}, got {name!r}"
        )
    return known[name]


def _balanced(
    problem_class: ProblemClass, budget: Budget, analysis: Analysis, least: float
) -> float:
    if math.isinf(problem_class.radius):
        raise ValueError("regularisation must be given where radius is infinite, got None")
    tilt = NormLaplaceTilt if budget.delta == 0.0 else GaussianTilt

    def second_moment(regularisation: float) -> float:
        query = TiltedMinimiser.of(problem_class, regularisation=regularisation)
        return tilt(query, analysis.scale(query, budget)).second_moment(problem_class.dim)

    return tilted_minimiser_regularisation(problem_class, second_moment, least=least)


def _noise(
    query: TiltedMinimiser, budget: Budget, analysis: Analysis
) -> tuple[Any, GaussianMechanism | NormLaplaceMechanism]:
    """The least noise that the guarantee itself, or an older theorem, asks for."""
    start = analysis.scale(query, budget)
    if budget.delta == 0.0:
        return _pure_noise(query, budget, start)
    if analysis is not _TIGHT:
        return _gaussian_noise(query, budget.relation, start)

    def event(factor: float) -> dp.DpEvent:
        relation = budget.relation
        return _event(*_gaussian_noise(query, relation, start * max(factor, 1e-30)), relation)

    factor = calibrate(event, budget, accountant=Fourier(two_sided=False))
    return _gaussian_noise(query, budget.relation, start * factor)


def _gaussian_noise(
    query: TiltedMinimiser, relation: Relation, scale: float
) -> tuple[GaussianTilt, GaussianMechanism]:
    """The tilt, and noise at which the solver's error shows a hundredth of what the tilt shows."""
    tilt = GaussianTilt(query, round_up(scale))
    shown = query.gradient.sensitivity(relation) / tilt.scale
    return tilt, GaussianMechanism(query, round_up(query.sensitivity(relation) / (_SHARE * shown)))


def _pure_noise(
    query: TiltedMinimiser, budget: Budget, scale: float
) -> tuple[NormLaplaceTilt, NormLaplaceMechanism]:
    """Likewise, the solver's error taking a thousandth of what the determinant leaves."""
    tilt = NormLaplaceTilt(query, round_up(scale * (1.0 + 1e-9)))
    moved = query.gradient.sensitivity(budget.relation) / tilt.scale
    share = _PURE_SHARE * moved
    error = query.sensitivity(budget.relation)
    return tilt, NormLaplaceMechanism(query, round_up(error / share * (1.0 + 1e-9)))


def _event(mechanism: Any, finish: Any, relation: Relation) -> dp.DpEvent:
    return dp.ComposedDpEvent([mechanism.event(relation), finish.event(relation)])


def _assumptions(problem_class: ProblemClass, budget: Budget) -> tuple[str, ...]:
    assumed = [
        "every loss is a convex function of one linear prediction",
        f"every loss is {problem_class.smoothness:g}-smooth",
    ]
    if budget.relation is Relation.ADD_OR_REMOVE_ONE:
        assumed.append(f"at most {problem_class.n} records")
    return tuple(assumed)


def _rate(
    problem_class: ProblemClass, budget: Budget, mechanism: Any, finish: Any, *, tuned: bool
) -> Rate:
    query = mechanism.query
    upper = tilted_minimiser(
        problem_class,
        regularisation=query.regularisation,
        tilt_second_moment=mechanism.second_moment(problem_class.dim),
        distance=query.error + finish.noise_norm(problem_class.dim),
    )
    gaussian = budget.delta > 0.0
    noise = "sigma sqrt(d)/n" if gaussian else "d/(n epsilon)"
    power = 1.0 if tuned else 2.0
    return Rate(
        theorem="E F(w) - F* <= (lambda/4) R^2 + E|t|^2/(4 lambda)",
        source="Kifer, Smith and Thakurta 2012; both squares kept",
        upper=upper,
        lower=min(upper, _lower(problem_class, budget, _event(mechanism, finish, budget.relation))),
        exponents={
            "n": -power,
            "dim": power * (0.5 if gaussian else 1.0),
            "epsilon": -power,
        },
        regime=(
            f"{noise} <= L and H/(lambda n) <= epsilon"
            if tuned
            else f"lambda fixed, noise leading: {noise} >= lambda R"
        ),
        tight_on="huber",
    )


def _lower(problem_class: ProblemClass, budget: Budget, event: dp.DpEvent) -> float:
    """What follows from (epsilon, delta), or from the chi-square divergence of the event."""
    advantage, delta = approximate_dp_advantage(budget)
    lower = erm_lower_bound(problem_class, advantage=advantage, delta=delta)
    divergence = renyi_divergence(event, budget.relation, [2.0])
    if budget.relation is not Relation.REPLACE_ONE or divergence is None:
        return lower
    advantage = math.sqrt(math.expm1(min(float(divergence[0]), 700.0)))
    return max(lower, erm_lower_bound(problem_class, advantage=advantage))


def run(static: Static, params: Params, objective: Any, key: Array) -> Run:
    """Draw the tilt, minimise, add the last noise, project; what is not finite is the centre."""
    tilt_key, finish_key = jax.random.split(key)
    constraint = objective.constraint
    centre = constraint.centre_point(static.dim, objective.dtype)
    tilt = params.mechanism.draw(tilt_key, static.dim, objective.dtype)
    minimiser = params.mechanism.query.bind(objective)(centre, tilt)
    minimiser = jnp.where(jnp.isfinite(minimiser).all(), minimiser, centre)
    released = constraint.project(params.finish.add_noise(finish_key, minimiser))
    return Run(released, Secret(tilt, minimiser))


OBJECTIVE_PERTURBATION = Algorithm(
    name="objective_perturbation",
    summary="minimiser of a randomly tilted objective, generalised linear models",
    plan=plan,
    run=run,
    float64=True,
)

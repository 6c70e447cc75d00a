"""Output perturbation: the minimiser of a regularised problem plus noise."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from jax import Array
from jaxtyping import Key

from privopt.algorithms.shared import (
    SMOOTHING_SHARE,
    MinimiserSecret,
    NoiseKind,
    OneShotParams,
    envelope_width,
    least_bound,
    minimiser_of,
    noise_kinds,
    require_convex_lipschitz,
)
from privopt.arguments import member, positive_number
from privopt.convex import EmpiricalRisk
from privopt.core import Algorithm, Execution, Plan, Run, planner
from privopt.mechanisms import (
    ClippedGradient,
    GaussianMechanism,
    NormLaplaceMechanism,
    RegularisedMinimiser,
)
from privopt.random import stream
from privopt.spec import Budget, ProblemClass, Relation
from privopt.theory import (
    Rate,
    ball_perturbation_rate,
    ball_perturbation_regularisation,
    no_rate,
    output_perturbation_rate,
    perturbed_minimiser_regularisation,
    unprojected_perturbation_rate,
    unprojected_perturbation_regularisation,
)

CONSTRAINTS = ("ball", "any", "none")


class OutputDeclaration(NamedTuple):
    """Declarations about minimisers and the constraint set, which decide between bounds."""

    stationary: bool
    constraint: str = "any"


class OutputStatic(NamedTuple):
    """Shape of a run, and whether the noisy minimiser is projected."""

    dim: int
    projected: bool


@planner
def output_perturbation(
    problem_class: ProblemClass,
    budget: Budget,
    *,
    regularisation: float | None = None,
    noise: str | None = None,
    stationary: bool = False,
    constraint: str | None = None,
) -> Plan:
    """Return a plan for output perturbation.

    ``Proj(argmin_W F(w) + (lambda/2)|w - c|^2  +  z)``. Losses without declared ``smoothness`` are
    replaced by their Moreau envelopes, which adds one percent to the rate. Envelopes preserve
    convexity and ``L``, hence the guarantee.

    Parameters
    ----------
    problem_class : ProblemClass
        Convex, ``L``-Lipschitz losses. For positive ``strong_convexity`` no regulariser is added.
    budget : Budget
        Privacy budget. ``delta = 0`` is pure differential privacy.
    regularisation : float, optional
        Regularisation ``lambda``. Default: the minimiser of the bound; on any set
        ``2 sqrt(L u)/R``, where ``u/lambda`` is the expected norm of the noise; 0 for strongly
        convex losses. Public; do not tune it on the data.
    noise : {"gaussian", "norm_laplace"}, optional
        Gaussian noise requires ``delta > 0``. Norm-Laplace noise, with a density proportional to
        ``exp(-|z|/beta)``, is pure DP. Default: the noise with the smaller bound of one release.
        The guarantees of many releases with Gaussian noise compose to a smaller epsilon.
    stationary : bool
        Declares that for every data set the gradient vanishes at the minimiser. This improves the
        rate for smooth losses. It holds on a ball if ``L <= 2 m R``, and for interior minimisers.
    constraint : {"ball", "any", "none"}, optional
        ``"ball"`` uses the bound for smooth losses on the Euclidean ball of the problem class; a
        problem with another set is then refused. ``"any"`` uses the bound for every convex set.
        ``"none"`` releases the noisy minimiser without projection, so it may lie outside of the
        set. For smooth losses of one linear prediction, other problems are refused, the bound then
        does not depend on ``d``. Default: ``"ball"`` or ``"any"``, by the smaller bound; ``"any"``
        for given ``regularisation``, declared stationary minimisers and strongly convex losses.

    Formal guarantee
    ----------------
    The minimiser has sensitivity ``2L/(lambda n)`` (``replace_one``), and half of it under
    ``zero_out`` and ``add_or_remove_one`` (at most ``n`` records). The worst-case error of the
    solver, which is fixed in advance, is added. The guarantee needs the assumptions in
    ``guarantee.assumptions``, because a minimiser cannot be clipped.

    Rate
    ----
    - Convex, default ``lambda``: ``sqrt(2) L R (sqrt(d)/(n mu))^{1/2}``.
    - Smooth, on a ball, default ``lambda``: of order ``(sqrt(d)/(n mu))^{2/3}``, for large ``n``
      of order ``(n mu)^{-1/2}``.
    - Smooth, of linear predictions, not projected, default ``lambda``: of order
      ``(n mu)^{-2/3}`` in every dimension.
    - Strongly convex: ``L E|z|``, of order ``L^2 sqrt(d)/(m n mu)``; for a given ``lambda`` the
      same expression in ``lambda``, plus ``lambda R^2/4``.
    - Smooth with a stationary minimiser: ``((H + lambda)/2) E|z|^2`` replaces ``L E|z|`` if
      smaller.
    - Pure DP: ``d/(n epsilon)`` replaces ``sqrt(d)/(n mu)``.

    Source: Chaudhuri, Monteleoni and Sarwate 2011, Algorithm 1 and Theorem 6; on a ball
    :func:`privopt.theory.ball_perturbation_rate`; without projection
    :func:`privopt.theory.unprojected_perturbation_rate`.

    Examples
    --------
    >>> facts = ProblemClass(n=1000, dim=5, lipschitz=1.0, radius=1.0, smoothness=0.25)
    >>> budget = Budget(epsilon=1.0, delta=1e-6, relation="replace_one")
    >>> plan = output_perturbation(facts, budget, regularisation=0.5, noise="gaussian")
    >>> round(plan.params.mechanism.scale, 4)
    0.0169
    """
    require_convex_lipschitz("output_perturbation", problem_class)
    if stationary and problem_class.smoothness is None:
        raise ValueError("smoothness must be declared where stationary is True, got None")
    return least_bound(
        _plan(problem_class, budget, kind, regularisation, OutputDeclaration(stationary, name))
        for kind in noise_kinds(noise, budget)
        for name in _constraints(constraint, problem_class, stationary, regularisation)
    )


def _constraints(
    constraint: str | None,
    problem_class: ProblemClass,
    stationary: bool,
    regularisation: float | None,
) -> tuple[str, ...]:
    """Return the constraints whose bounds are compared."""
    smooth, finite = problem_class.smoothness is not None, math.isfinite(problem_class.radius)
    if constraint is not None:
        member("constraint", constraint, CONSTRAINTS)
        if constraint == "ball" and (stationary or not smooth or not finite):
            raise ValueError(
                "constraint must be 'any' for losses without declared smoothness, an infinite "
                "radius, or stationary=True, got 'ball'"
            )
        if constraint == "none" and (stationary or not problem_class.smoothness):
            raise ValueError(
                "constraint must be 'ball' or 'any' for losses without declared positive "
                "smoothness, or stationary=True, got 'none'"
            )
        return (constraint,)
    convex = problem_class.strong_convexity == 0.0
    both = smooth and finite and convex and not stationary and regularisation is None
    return ("any", "ball") if both else ("any",)


def _plan(
    problem_class: ProblemClass,
    budget: Budget,
    kind: NoiseKind,
    regularisation: float | None,
    declared: OutputDeclaration,
) -> Plan:
    """Return the plan with one kind of noise and one bound."""
    radius, convexity = problem_class.radius, problem_class.strong_convexity
    if budget.relation is Relation.ADD_OR_REMOVE_ONE:
        convexity = 0.0
    if regularisation is None and convexity == 0.0:
        if math.isinf(radius):
            raise ValueError("regularisation must be given where radius is infinite, got None")
        regularisation = _balanced(problem_class, budget, kind, declared.constraint)
    elif regularisation is None:
        regularisation = 0.0
    elif not (convexity > 0.0 and regularisation == 0.0):
        regularisation = positive_number("regularisation", regularisation)
    smoothing = 0.0
    if problem_class.smoothness is None:
        smoothing = _smoothing(problem_class, budget, kind, regularisation)
    query = RegularisedMinimiser.of(
        problem_class, budget.relation, regularisation=regularisation, smoothing=smoothing
    )
    mechanism = kind.calibrated(query, budget)
    static = OutputStatic(problem_class.dim, projected=declared.constraint != "none")
    params = OneShotParams(mechanism)
    return Plan(OUTPUT_PERTURBATION, problem_class, budget, params, static, declared)


def rate(plan: Plan) -> Rate:
    """Return the rate, by the norm of the noise or its square."""
    params: Any = plan.params
    (mechanism,), facts, declared = params, plan.problem_class, plan.declared
    assert isinstance(declared, OutputDeclaration)
    query, kind = mechanism.query, type(mechanism)
    if query.gradient.changes(facts):
        return no_rate("gradients are clipped or divided")
    balanced = query.strong_convexity == 0.0 and math.isfinite(facts.radius)
    best = _balanced(facts, plan.budget, kind, declared.constraint) if balanced else None
    numbers: dict[str, Any] = {
        "regularisation": query.regularisation,
        "noise_square": mechanism.noise_square(facts.dim),
        "solver_error": query.error,
        "gaussian": kind is GaussianMechanism,
        "balanced": query.regularisation == best,
    }
    if declared.constraint == "none":
        return unprojected_perturbation_rate(facts, **numbers)
    numbers["noise_norm"] = mechanism.noise_norm(facts.dim)
    if declared.constraint == "ball":
        return ball_perturbation_rate(facts, **numbers)
    return output_perturbation_rate(
        facts,
        **numbers,
        smoothing=query.smoothing or 0.0,
        stationary=declared.stationary and facts.smoothness is not None,
    )


def _unit_noise(problem_class: ProblemClass, budget: Budget, kind: NoiseKind) -> Any:
    """Return a mechanism with the noise times ``lambda``: the noise of a single gradient."""
    return kind.calibrated(ClippedGradient.of(problem_class), budget)


def _balanced(
    problem_class: ProblemClass, budget: Budget, kind: NoiseKind, constraint: str
) -> float:
    noise, dim = _unit_noise(problem_class, budget, kind), problem_class.dim
    norm, square = float(noise.noise_norm(dim)), float(noise.noise_square(dim))
    if constraint == "any":
        return perturbed_minimiser_regularisation(problem_class, unit_noise_norm=norm)
    if constraint == "none":
        return unprojected_perturbation_regularisation(problem_class, unit_noise_square=square)
    return ball_perturbation_regularisation(
        problem_class, unit_noise_norm=norm, unit_noise_square=square
    )


def _smoothing(
    problem_class: ProblemClass, budget: Budget, kind: NoiseKind, regularisation: float
) -> float:
    """Return ``h`` with a bias ``L^2 h/2`` of one percent of the cost of the noise."""
    convexity = regularisation + problem_class.strong_convexity
    noise = _unit_noise(problem_class, budget, kind)
    noise_norm = float(noise.noise_norm(problem_class.dim)) / convexity
    width = 2.0 * SMOOTHING_SHARE * noise_norm / problem_class.lipschitz
    return envelope_width(problem_class, width)


def run(
    static: OutputStatic,
    params: OneShotParams,
    objective: EmpiricalRisk,
    key: Key[Array, ""],
    execution: Execution,
) -> Run:
    """Solve, add noise and, unless the plan says otherwise, project."""
    del execution
    mechanism = params.mechanism
    centre = objective.constraint.centre_point(static.dim, objective.dtype)
    minimiser = minimiser_of(mechanism.query, objective, centre)
    noisy = mechanism.add_noise(stream(key, "noise"), minimiser)
    released = objective.constraint.project(noisy) if static.projected else noisy
    return Run(released, MinimiserSecret(minimiser))


OUTPUT_PERTURBATION = Algorithm(
    name="output_perturbation",
    summary="regularised minimiser plus Gaussian or norm-Laplace noise",
    plan=output_perturbation,
    mechanism=GaussianMechanism[RegularisedMinimiser] | NormLaplaceMechanism[RegularisedMinimiser],
    run=run,
    rate=rate,
    declares=OutputDeclaration,
    float64=True,
    cites=("chaudhuri2011", "zhang2017", "arora2022"),
)

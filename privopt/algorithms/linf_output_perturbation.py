"""Output perturbation for sparse gradients, with an l_inf projection of the noisy minimiser."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

from jax import Array
from jaxtyping import Key

from privopt.algorithms.shared import (
    MODES,
    SMOOTHING_SHARE,
    MinimiserSecret,
    OneShotParams,
    envelope_width,
    minimiser_of,
    require_convex_lipschitz,
)
from privopt.arguments import member, positive_number, shown
from privopt.convex import EmpiricalRisk, linf_projection
from privopt.core import Algorithm, Execution, Plan, Run, planner
from privopt.mechanisms import (
    ClippedGradient,
    GaussianMechanism,
    LaplaceMechanism,
    RegularisedMinimiser,
    SparseMinimiser,
    published_laplace_scale,
)
from privopt.mechanisms.additive import classic_gaussian_scale
from privopt.random import stream
from privopt.spec import Budget, ProblemClass
from privopt.theory import (
    BalancedMinimiser,
    Exponents,
    Quantity,
    Rate,
    balanced_minimiser,
    ball_balanced_minimiser,
    linf_output_perturbation_rate,
    minimiser_stability,
    no_rate,
    perturbation_cost,
    pure_balanced_minimiser,
    smoothed_pure_balanced_minimiser,
    smoothing_width,
)

_NAME = "linf_output_perturbation"


class LinfStatic(NamedTuple):
    """Shape of a run."""

    dim: int
    projection: str


class LinfDeclaration(NamedTuple):
    """Arguments of the bound, as for ``plan``."""

    mode: str
    distance: float
    glm: bool
    population: bool = False


@planner
def linf_output_perturbation(
    problem_class: ProblemClass,
    budget: Budget,
    *,
    mode: str = "tight",
    regularisation: float | None = None,
    distance: float | None = None,
    glm: bool = False,
    projection: str = "linf",
    quantity: str = "empirical risk",
) -> Plan:
    """Return a plan for output perturbation with an l_inf projection.

    ``argmin_{v in W} |v - (argmin_W F(w) + (lambda/2)|w - c|^2 + z)|_inf``. Approximate privacy:
    Gaussian noise, and any set with a known l_inf projection. Pure privacy: Laplace noise on the
    whole space, without a projection.

    Parameters
    ----------
    problem_class : ProblemClass
        Convex, ``L``-Lipschitz losses with ``sparsity``. For pure privacy: with ``smoothness`` or
        ``glm``, on the whole space. Losses without smoothness are replaced by their Moreau
        envelopes.
    budget : Budget
        Privacy budget. ``delta = 0`` is pure differential privacy.
    mode : {"tight", "paper"}
        Least noise and the bounds derived here, or the published constants: the classical Gaussian
        (``epsilon <= 1``), or the factor ``2H/lambda + 1`` of Laplace noise, each with its own
        default ``lambda``.
    regularisation : float, optional
        Regularisation ``lambda``. Default: the minimiser of the bound. Public; do not tune it on
        the data.
    distance : float, optional
        Bound ``D`` on the distance of a minimiser from the centre. Default: the radius. Required if
        the radius is infinite.
    glm : bool
        Declares losses of one linear prediction. On the whole space the bound is then independent
        of the dimension. Pure privacy then needs less noise, and rows are *transformed* to the
        declared sparsity and norm.
    projection : {"linf", "ball", "l2", "none"}
        ``"ball"`` also declares that the set is the Euclidean ball of radius ``R``. With Gaussian
        noise the bound is then smaller: its logarithm is that of ``d`` over the number of nonzeros
        of the minimiser, and smooth losses pay for the threshold only. The last two are for
        comparison.
    quantity : {"empirical risk", "population risk"}
        Risk that is bounded and, with Gaussian noise, that the default ``lambda`` minimises. The
        population risk needs independent records, ``mode="tight"`` and ``projection="linf"``.

    Formal guarantee
    ----------------
    Gaussian: the minimiser has sensitivity ``2L/(lambda n)`` (``replace_one``), and half of it
    under ``zero_out`` and ``add_or_remove_one`` (at most ``n`` records). Laplace: the l1
    sensitivity is defined in :class:`privopt.mechanisms.SparseMinimiser`. The worst-case error of
    the solver, which is fixed in advance, is added. The guarantee needs the assumptions in
    ``guarantee.assumptions``. The projection is post-processing.

    Rate
    ----
    Gaussian, default ``lambda``: ``2^{5/4} L R sqrt(kappa/n) (s ln 2d)^{1/4}``, ``kappa`` about
    ``1/mu``. Laplace: of order ``(s ln d/(n epsilon))^{2/5}`` for smooth losses; the published
    exponent is ``1/3``. On a ball: :ref:`Sparse gradients, Theorem 14 <theory-sparse-14>`. The
    population risk adds ``2 L^2/(lambda n)``. The bound is not always below the bounds of dense
    methods; ``rate.regime`` states when it is.

    Source: Ghazi, Guzman, Kamath, Kumar and Manurangsi 2024 (arXiv:2404.10881), section 4. The
    paper regularises towards 0 for any optimum.

    Examples
    --------
    >>> facts = ProblemClass(
    ...     n=10_000, dim=5000, lipschitz=1.0, radius=1.0, smoothness=0.25, sparsity=4)
    >>> budget = Budget(epsilon=1.0, delta=1e-6, relation="replace_one")
    >>> tight = linf_output_perturbation(facts, budget)
    >>> paper = linf_output_perturbation(facts, budget, mode="paper")
    >>> ball = linf_output_perturbation(facts, budget, projection="ball")
    >>> [round(plan.rate.upper, 3) for plan in (ball, tight, paper)]
    [0.038, 0.121, 0.191]
    """
    _check(problem_class, budget, mode, glm, projection)
    if distance is not None:
        distance = positive_number("distance", distance)
    elif math.isinf(problem_class.radius):
        raise ValueError("distance must be given where radius is infinite, got None")
    else:
        distance = problem_class.radius
    population = _is_population_risk(quantity, mode, projection)
    declared = LinfDeclaration(mode, distance, glm, population)
    numbers = _Numbers.of(problem_class, budget, declared, projection)
    best = numbers.best if regularisation is None else None
    if best is None:
        regularisation, smoothing = positive_number("regularisation", regularisation), 0.0
    else:
        regularisation, smoothing = best.regularisation, best.smoothing
    if problem_class.smoothness is None and smoothing == 0.0:
        smoothing = _smoothing(problem_class, numbers, regularisation)
    params = OneShotParams(_mechanism(problem_class, budget, declared, regularisation, smoothing))
    static = LinfStatic(problem_class.dim, projection)
    return Plan(LINF_OUTPUT_PERTURBATION, problem_class, budget, params, static, declared)


def rate(plan: Plan) -> Rate:
    """Return the rate at the ``lambda`` of the plan, which may be the minimiser of the bound."""
    params: Any = plan.params
    (mechanism,), facts, declared = params, plan.problem_class, plan.declared
    static: Any = plan.static
    assert isinstance(declared, LinfDeclaration)
    query = mechanism.query
    solver = query.minimiser if isinstance(query, SparseMinimiser) else query
    if solver.gradient.changes(facts) or facts.sparsity is None:
        return no_rate("gradients are clipped or divided, or not declared to be sparse")
    numbers = _Numbers.of(facts, plan.budget, declared, static.projection)
    best, smoothing = numbers.best, solver.smoothing or 0.0
    balanced = best is not None and solver.regularisation == best.regularisation
    dense = isinstance(query, SparseMinimiser) and query.dense
    result = linf_output_perturbation_rate(
        facts,
        regularisation=solver.regularisation,
        scale=mechanism.scale,
        gaussian=isinstance(mechanism, GaussianMechanism),
        distance=declared.distance,
        power=best.power if best is not None and balanced else None,
        share=numbers.share,
        projection=static.projection,
        glm=declared.glm and not numbers.published,
        solver_error=query.error,
        smoothing=smoothing,
        spread=Exponents(dim=0.5) if dense else Exponents(sparsity=0.5),
        population=declared.population,
    )
    required = {"ball"} & {static.projection}
    if declared.glm and smoothing == 0.0:
        required.add("linear_model")
    whole = declared.distance >= facts.radius
    return replace(result, whole_class=whole, requires=frozenset(required))


def _check(
    problem_class: ProblemClass, budget: Budget, mode: str, glm: bool, projection: str
) -> None:
    require_convex_lipschitz(_NAME, problem_class)
    member("mode", mode, MODES)
    member("projection", projection, ("linf", "ball", "l2", "none"))
    if not isinstance(glm, bool):
        raise ValueError(f"glm must be True or False, got {shown(glm)}")
    if problem_class.sparsity is None:
        raise ValueError(f"sparsity must be declared for {_NAME}, got None")
    if problem_class.strong_convexity > 0.0:
        raise ValueError(
            f"strong_convexity must be 0 for {_NAME}, got {shown(problem_class.strong_convexity)}: "
            "gradients of strongly convex losses differ in all coordinates"
        )
    if budget.delta == 0.0:
        if math.isfinite(problem_class.radius):
            raise ValueError(
                f"radius must be inf for pure {_NAME}, got {shown(problem_class.radius)}: on a "
                "set the "
                "l1 sensitivity of a minimiser has no bound without the dimension; delta > 0, or "
                "output_perturbation, take sets"
            )
        if problem_class.smoothness is None and not (glm and mode == "tight"):
            raise ValueError(
                f"smoothness must be declared for pure {_NAME}, got None: the l1 sensitivity of a "
                "minimiser depends on it; losses of one linear prediction are smoothed where "
                "glm=True and mode='tight'"
            )


def _is_population_risk(quantity: str, mode: str, projection: str) -> bool:
    """Return True if the quantity is the population risk; check that the choices permit it."""
    bounded = Quantity.named("quantity", quantity)
    if bounded not in (Quantity.EMPIRICAL_RISK, Quantity.POPULATION_RISK):
        raise ValueError(
            f"quantity must be empirical risk or population risk, got {shown(quantity)}"
        )
    if bounded is Quantity.EMPIRICAL_RISK:
        return False
    if mode != "tight" or projection != "linf":
        raise ValueError(
            "quantity must be empirical risk but for mode='tight' and projection='linf', got "
            f"{shown(quantity)} with mode={shown(mode)}, {projection=}"
        )
    return True


class _Numbers(NamedTuple):
    """Parameters that determine the default ``lambda``."""

    published: bool
    gaussian: bool
    share: float
    unit: float
    cost: float
    best: BalancedMinimiser | None

    @classmethod
    def of(
        cls, problem_class: ProblemClass, budget: Budget, declared: LinfDeclaration, projection: str
    ) -> _Numbers:
        """Compute the parameters.

        ``unit`` is the noise in the gradient: ``sigma lambda``, or ``lambda Delta_2/epsilon``. On a
        ball it includes the solver error, because a little noise can change the best ``lambda``.
        """
        gaussian, published = budget.delta > 0.0, declared.mode == "paper"
        gradient = ClippedGradient.of(problem_class)
        ball = projection == "ball" and gaussian and not published
        ball = ball and math.isfinite(problem_class.radius)
        if not gaussian:
            unit = gradient.sensitivity(budget.relation) / budget.epsilon
        elif published:
            unit = classic_gaussian_scale(gradient, budget)
        elif ball:
            stiff = problem_class.lipschitz / problem_class.radius  # any value gives this product
            unit = stiff * _mechanism(problem_class, budget, declared, stiff, 1.0 / stiff).scale
        else:
            unit = GaussianMechanism.calibrated(gradient, budget).scale
        share = 0.5 if published else 0.25
        total = perturbation_cost(
            problem_class, gaussian=gaussian, projection=projection, glm=declared.glm
        )
        if published or math.isinf(total.factor):  # the published cost does not use the losses
            total = perturbation_cost(problem_class, gaussian=gaussian)
        cost, distance = total.factor, declared.distance
        if ball:
            best = ball_balanced_minimiser(
                problem_class, unit=unit, glm=declared.glm, distance=distance
            )
        elif gaussian:
            gap = minimiser_stability(problem_class) if declared.population else 0.0
            best = balanced_minimiser(linear=cost * unit + gap, distance=distance, share=share)
        elif problem_class.smoothness is None:
            best = smoothed_pure_balanced_minimiser(
                problem_class, unit=unit, cost=cost, distance=distance
            )
        else:
            best = pure_balanced_minimiser(
                problem_class, unit=unit, cost=cost, glm=declared.glm, distance=distance,
                published=published,
            )  # fmt: skip
        return cls(published, gaussian, share, unit, cost, best)


def _smoothing(problem_class: ProblemClass, numbers: _Numbers, regularisation: float) -> float:
    """Return a width that costs one percent of Gaussian noise, or the best for Laplace noise."""
    unit, cost = numbers.unit, numbers.cost
    if not numbers.gaussian:
        return smoothing_width(problem_class, regularisation, unit=unit, cost=cost)
    noise = cost * unit / regularisation
    width = 2.0 * SMOOTHING_SHARE * noise / problem_class.lipschitz**2
    return envelope_width(problem_class, width)


def _mechanism(
    problem_class: ProblemClass,
    budget: Budget,
    declared: LinfDeclaration,
    regularisation: float,
    smoothing: float,
) -> GaussianMechanism[RegularisedMinimiser] | LaplaceMechanism[SparseMinimiser]:
    numbers = {"regularisation": regularisation, "smoothing": smoothing}
    published = declared.mode == "paper"
    if budget.delta > 0.0:
        query = RegularisedMinimiser.of(problem_class, budget.relation, **numbers)
        if published:
            return GaussianMechanism(query, classic_gaussian_scale(query, budget))
        return GaussianMechanism.calibrated(query, budget)
    sparse = SparseMinimiser.of(problem_class, budget.relation, glm=declared.glm, **numbers)
    if published:
        return LaplaceMechanism(sparse, published_laplace_scale(sparse, budget))
    return LaplaceMechanism.calibrated(sparse, budget)


def run(
    static: LinfStatic,
    params: OneShotParams,
    objective: EmpiricalRisk,
    key: Key[Array, ""],
    execution: Execution,
) -> Run:
    """Minimise, add noise, project."""
    del execution
    mechanism, constraint = params.mechanism, objective.constraint
    minimiser = minimiser_of(mechanism.query, objective, objective.start(static.dim))
    released = mechanism.add_noise(stream(key, "noise"), minimiser)
    if static.projection in ("linf", "ball"):
        released = linf_projection(constraint, released)
    elif static.projection == "l2":
        released = constraint.project(released)
    return Run(released, MinimiserSecret(minimiser))


LINF_OUTPUT_PERTURBATION = Algorithm(
    name=_NAME,
    summary="regularised minimiser plus Gaussian or Laplace noise, nearest member in l_inf",
    plan=linf_output_perturbation,
    mechanism=GaussianMechanism[RegularisedMinimiser] | LaplaceMechanism[SparseMinimiser],
    run=run,
    rate=rate,
    declares=LinfDeclaration,
    float64=True,
    cites=("ghazi2024",),
)

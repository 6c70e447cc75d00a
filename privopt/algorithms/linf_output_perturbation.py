"""Output perturbation for sparse gradients: the noisy minimiser's nearest member in l_inf."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from privopt.algorithms.choices import require_convex_lipschitz
from privopt.arguments import member, positive_number
from privopt.convex import EmpiricalRisk, linf_projection
from privopt.core import Algorithm, Execution, Plan, Run, planner
from privopt.mechanisms import (
    ClippedGradient,
    GaussianMechanism,
    LaplaceMechanism,
    RegularisedMinimiser,
    SparseMinimiser,
    classic_gaussian_scale,
    published_laplace_scale,
    sparse_records,
)
from privopt.privacy import gaussian_mu
from privopt.spec import Budget, ProblemClass, Relation
from privopt.streams import stream
from privopt.theory import (
    BalancedMinimiser,
    Powers,
    balanced_minimiser,
    budget_lower_bound,
    linf_output_perturbation_rate,
    perturbation_cost,
    pure_balanced_minimiser,
    smoothed_pure_balanced_minimiser,
    smoothing_width,
)

__all__ = ["LINF_OUTPUT_PERTURBATION"]

_NAME = "linf_output_perturbation"
_SMOOTHING_SHARE = 0.01

Mechanism = GaussianMechanism[RegularisedMinimiser] | LaplaceMechanism[SparseMinimiser]


class Params(NamedTuple):
    """Numbers of a run."""

    mechanism: Mechanism


class Static(NamedTuple):
    """Shape of a run; ``kept`` is how many numbers of a row count, None for all of them."""

    dim: int
    smoothed: bool
    projection: str
    kept: int | None


class Secret(NamedTuple):
    """The minimiser before noise."""

    minimiser: Array


class Choices(NamedTuple):
    """What a plan is asked for, checked; ``distance`` is a number."""

    mode: str
    distance: float
    glm: bool
    projection: str


@planner
def plan(
    problem_class: ProblemClass,
    budget: Budget,
    *,
    mode: str = "tight",
    regularisation: float | None = None,
    distance: float | None = None,
    glm: bool = False,
    projection: str = "linf",
) -> Plan:
    """Plan ``argmin_{v in W} |v - (argmin_W F(w) + (lambda/2)|w - c|^2 + z)|_inf``.

    Approximate privacy: Gaussian noise, any set with a known l_inf projection. Pure privacy:
    Laplace noise, the whole space, where nothing is projected.

    Parameters
    ----------
    problem_class : ProblemClass
        Convex, ``L``-Lipschitz, with ``sparsity``; for pure privacy with ``smoothness`` or ``glm``,
        and without a set. Losses without smoothness are replaced by their Moreau envelopes.
    budget : Budget
        ``delta = 0`` asks for pure differential privacy.
    mode : {"tight", "paper"}
        Least noise, and the bounds derived here; or the published constants: the classical
        Gaussian (``epsilon <= 1``), or the factor ``2H/lambda + 1`` of Laplace noise, each with
        the ``lambda`` that belongs to it.
    regularisation : float, optional
        ``lambda``; default: the theory's, which minimises the bound. Public: never tuned on the
        data.
    distance : float, optional
        ``D``, at least the distance of a minimiser from the centre; default: the radius. Where
        that is infinite ``D`` must be given.
    glm : bool
        Whether losses are those of one linear prediction. On the whole space the bound then has no
        dimension; for pure privacy less noise is needed, and rows are *made* as sparse and as
        short as is declared.
    projection : {"linf", "l2", "none"}
        The last two for comparison.

    Formal guarantee
    ----------------
    Gaussian: the minimiser has sensitivity ``2L/(lambda n)`` (``replace_one``), half that under
    ``zero_out`` and ``add_or_remove_one`` (at most ``n`` records). Laplace: its l1 sensitivity is
    that of :class:`privopt.mechanisms.SparseMinimiser`. The solver's worst-case error, fixed in
    advance, is added. Rests on the assumptions listed in ``guarantee.assumptions``: to clip
    gradients inside a solver would not make losses Lipschitz. Projecting is post-processing.

    Rate
    ----
    Gaussian, theory's ``lambda``: ``2^{5/4} L R sqrt(kappa/n) (s ln 2d)^{1/4}``, ``kappa`` about
    ``1/mu``. Laplace: of order ``(s ln d/(n epsilon))^{2/5}`` for smooth losses, published
    ``1/3``. Not below the dense methods' everywhere: ``rate.regime`` says where noise of this kind
    pays.

    Source: Ghazi, Guzman, Kamath, Kumar and Manurangsi 2024 (arXiv:2404.10881), section 4, who
    regularise towards 0, wherever the optimum is.

    Examples
    --------
    >>> facts = ProblemClass(
    ...     n=10_000, dim=5000, lipschitz=1.0, radius=1.0, smoothness=0.25, sparsity=4)
    >>> budget = Budget(epsilon=1.0, delta=1e-6, relation="replace_one")
    >>> tight, paper = (plan(facts, budget, mode=mode) for mode in ("tight", "paper"))
    >>> round(tight.rate.upper, 3), round(paper.rate.upper, 3)
    (0.121, 0.192)
    """
    choices = _checked(problem_class, budget, mode, distance, glm, projection)
    gaussian = budget.delta > 0.0
    unit = _unit_scale(problem_class, budget, choices)
    cost = perturbation_cost(problem_class, gaussian=gaussian, projection=projection, glm=glm)
    published = mode == "paper"
    if published or math.isinf(cost.factor):  # as published, whatever is known of the losses
        cost = perturbation_cost(problem_class, gaussian=gaussian)
    best = None
    if regularisation is None:
        best = _balanced(problem_class, choices, gaussian, unit, cost.factor)
        regularisation, smoothing = best.regularisation, best.smoothing
    else:
        regularisation, smoothing = positive_number("regularisation", regularisation), 0.0
    if problem_class.smoothness is None and smoothing == 0.0:
        smoothing = _smoothing(problem_class, gaussian, regularisation, unit, cost.factor)
    mechanism = _mechanism(problem_class, budget, choices, regularisation, smoothing)
    query = mechanism.query
    mu = gaussian_mu(budget.epsilon, budget.delta) if gaussian else None
    solver = query.error
    dense = isinstance(query, SparseMinimiser) and query.dense
    return Plan(
        algorithm=LINF_OUTPUT_PERTURBATION,
        problem_class=problem_class,
        budget=budget,
        params=Params(mechanism),
        static=Static(
            problem_class.dim,
            smoothing > 0.0,
            projection,
            problem_class.sparsity if glm and not gaussian else None,
        ),
        assumptions=_assumptions(problem_class, budget, glm),
        rate=linf_output_perturbation_rate(
            problem_class,
            regularisation=regularisation,
            scale=mechanism.scale,
            gaussian=gaussian,
            distance=choices.distance,
            power=None if best is None else best.power,
            share=0.5 if published else 0.25,
            projection=projection,
            glm=glm and not published,
            solver_error=solver,
            smoothing=smoothing,
            spread=Powers(dim=0.5) if dense else Powers(sparsity=0.5),
            lower=budget_lower_bound(problem_class, budget, mu=mu),
        ),
        requires=_required(glm, smoothing),
    )

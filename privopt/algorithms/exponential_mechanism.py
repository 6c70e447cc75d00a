"""The exponential mechanism: draw the parameter, rather than perturb it."""

from __future__ import annotations

import math
from typing import NamedTuple

from jax import Array

from privopt.algorithms.choices import require_convex_lipschitz
from privopt.arguments import positive_number
from privopt.convex import MAX_SAMPLER_DIM, EmpiricalRisk
from privopt.core import Algorithm, Execution, Plan, Run, planner
from privopt.mechanisms import ClippedRisk, GibbsMechanism
from privopt.privacy import gaussian_mu
from privopt.spec import Budget, ProblemClass, Relation
from privopt.theory import (
    budget_lower_bound,
    exponential_mechanism_rate,
    exponential_mechanism_regularisation,
)

__all__ = ["EXPONENTIAL_MECHANISM"]


class Params(NamedTuple):
    """Numbers of a run."""

    mechanism: GibbsMechanism


class Static(NamedTuple):
    """Shape of a run."""

    dim: int


class Secret(NamedTuple):
    """What the sampler saw: the lowest point, its proposals, the largest log of an acceptance."""

    minimiser: Array
    proposals: Array
    log_acceptance: Array


@planner
def plan(
    problem_class: ProblemClass, budget: Budget, *, regularisation: float | None = None
) -> Plan:
    """Plan a draw from ``exp(-k (F(w) + (m/2) |w - c|^2))`` on ``W``.

    Parameters
    ----------
    problem_class : ProblemClass
        Convex, ``L``-Lipschitz, finite ``radius``, ``dim`` at most 3: no exact sampler is known
        beyond that, and a Markov chain stopped in finite time adds ``(1 + e^epsilon)`` times its
        distance from the target to ``delta``, a distance that nobody can certify here.
    budget : Budget
        ``delta = 0`` asks for pure differential privacy, and for no regulariser.
    regularisation : float, optional
        ``m``, with ``delta > 0`` only; default the theory's, ``2 G sqrt(d)/(mu R)``. Public: never
        tuned on the data.

    Formal guarantee
    ----------------
    ``F - F'`` is ``G``-Lipschitz, ``G = 2L/n`` (``replace_one``) or ``L/n`` (``zero_out``,
    ``add_or_remove_one`` by the public ``n``). Pure: ``k = epsilon/(2 R G)`` is epsilon-DP by the
    range of ``F - F'``, which holds for all data, as computed. Otherwise ``k = m mu^2/G^2`` is
    ``mu``-Gaussian DP. The sampler is exact and its running time depends on the data, up to a
    public number of proposals: with a probability below 2^-64, charged to ``delta`` where there is
    one, the centre is released in the place of a draw (:class:`GibbsMechanism`). Rests on the
    assumptions in ``guarantee.assumptions``; clipping enforces ``L`` for generalised linear losses.

    Rate
    ----
    ``E F(w) - F* <= d/k + m R^2/4``: pure, ``4 L R d / (n epsilon)``; else, at the theory's ``m``,
    ``2 L R sqrt(d) / (n mu)`` (replace-one).

    Source: Gopi, Lee and Liu 2022, "Private convex optimization via exponential mechanism";
    Bassily, Smith and Thakurta 2014, Section 3.

    Examples
    --------
    >>> facts = ProblemClass(n=1000, dim=2, lipschitz=1.0, radius=1.0)
    >>> budget = Budget(epsilon=1.0, delta=0.0, relation="replace_one")
    >>> round(plan(facts, budget).params.mechanism.temperature, 6)
    0.004
    """
    require_convex_lipschitz("exponential_mechanism", problem_class)
    if problem_class.dim > MAX_SAMPLER_DIM:
        raise ValueError(
            f"dim must be at most {MAX_SAMPLER_DIM} for exponential_mechanism, got "
            f"{problem_class.dim}: no sampler is exact beyond, and no Markov chain can be charged"
        )
    if math.isinf(problem_class.radius):
        raise ValueError("radius must be finite for exponential_mechanism, got inf")
    query = ClippedRisk.of(problem_class)
    balanced = regularisation is None
    mu = gaussian_mu(budget.epsilon, budget.delta) if budget.delta > 0.0 else None
    if mu is None:
        if not balanced:
            raise ValueError(
                f"regularisation must be None where delta is 0, got {regularisation!r}"
            )
        mechanism = GibbsMechanism.pure(query, budget)
    else:
        if regularisation is None:
            regularisation = exponential_mechanism_regularisation(
                problem_class,
                sensitivity=query.sensitivity(budget.relation),
                mu=mu,
            )
        regularisation = positive_number("regularisation", regularisation)
        mechanism = GibbsMechanism.regularised(query, budget, regularisation)
    return Plan(
        algorithm=EXPONENTIAL_MECHANISM,
        problem_class=problem_class,
        budget=budget,
        params=Params(mechanism),
        static=Static(problem_class.dim),
        assumptions=_assumptions(problem_class, budget),
        rate=exponential_mechanism_rate(
            problem_class,
            temperature=mechanism.temperature,
            regularisation=mechanism.regularisation,
            pure=mu is None,
            balanced=balanced,
            lower=budget_lower_bound(problem_class, budget, mu=mu),
        ),
        most_records=problem_class.n,
    )


def _assumptions(problem_class: ProblemClass, budget: Budget) -> tuple[str, ...]:
    assumed = [
        f"every loss is convex and {problem_class.lipschitz:g}-Lipschitz on the constraint set"
    ]
    if budget.delta == 0.0:
        assumed.append("no draw exhausts its proposals, which has a probability below 2^-64")
    if budget.relation is Relation.ADD_OR_REMOVE_ONE:
        assumed.append(f"at most {problem_class.n} records")
    return tuple(assumed)


def run(
    static: Static, params: Params, objective: EmpiricalRisk, key: Array, execution: Execution
) -> Run:
    """One exact draw."""
    del execution
    draw = params.mechanism.draw(key, objective, dim=static.dim)
    return Run(draw.point, Secret(draw.minimiser, draw.proposals, draw.log_acceptance))


EXPONENTIAL_MECHANISM = Algorithm(
    name="exponential_mechanism",
    summary="an exact draw from exp(-k risk), pure or regularised, in at most three dimensions",
    plan=plan,
    run=run,
    float64=True,
    noise="law",
    largest_dim=MAX_SAMPLER_DIM,
)

"""The exponential mechanism: a sample from a Gibbs distribution of the parameter."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from jax import Array
from jaxtyping import Float, Int, Key

from privopt.algorithms.shared import (
    OneShotParams,
    Static,
    least_bound,
    permits_gaussian,
    planned,
    require_convex_lipschitz,
)
from privopt.arguments import positive_number, shown
from privopt.convex import MAX_SAMPLER_DIM, EmpiricalRisk
from privopt.core import Algorithm, Execution, Plan, Run, planner
from privopt.mechanisms import ClippedRisk, GibbsMechanism
from privopt.privacy import gaussian_mu, round_up
from privopt.spec import Budget, ProblemClass
from privopt.theory import (
    Rate,
    exponential_mechanism_rate,
    exponential_mechanism_regularisation,
    no_rate,
)


class GibbsSecret(NamedTuple):
    """Diagnostics of the sampler: minimiser, number of proposals, largest log acceptance."""

    minimiser: Float[Array, " d"]
    proposals: Int[Array, ""]
    log_acceptance: Float[Array, ""]


@planner
def exponential_mechanism(
    problem_class: ProblemClass,
    budget: Budget,
    *,
    regularisation: float | None = None,
    pure: bool | None = None,
) -> Plan:
    """Return a plan for the exponential mechanism.

    It samples from the density ``exp(-k (F(w) + (m/2) |w - c|^2))`` on ``W``.

    Parameters
    ----------
    problem_class : ProblemClass
        Convex, ``L``-Lipschitz losses, finite ``radius``, ``dim`` at most 3. No exact sampler is
        known for larger dimensions, and the distance of a Markov chain from its target, which would
        have to be charged to ``delta``, cannot be certified.
    budget : Budget
        Privacy budget. ``delta = 0`` is pure differential privacy without a regulariser.
    regularisation : float, optional
        Regularisation ``m``, for ``delta > 0`` only. Default: the minimiser of the bound,
        ``2 G sqrt(d)/(mu R)``. Public; do not tune it on the data.
    pure : bool, optional
        True for pure differential privacy, without a regulariser. Default: the smaller bound. The
        risk may still be larger: on logistic losses in three dimensions, the regularised mechanism
        had a smaller risk and a larger bound.

    Formal guarantee
    ----------------
    ``F - F'`` is ``G``-Lipschitz, ``G = 2L/n`` (``replace_one``) or ``L/n`` (``zero_out``,
    ``add_or_remove_one`` for the public ``n``). Pure: ``k = epsilon/(2 R G)`` is epsilon-DP by the
    range of ``F - F'``, which holds for all data, as computed. Otherwise ``k = m mu^2/G^2`` is
    ``mu``-Gaussian DP. The sampler is exact. Its running time depends on the data, up to a public
    number of proposals. With a probability below 2^-64, which is charged to a positive ``delta``,
    the centre is released instead of a sample (:class:`GibbsMechanism`). The guarantee needs the
    assumptions in ``guarantee.assumptions``; clipping enforces ``L`` for generalised linear losses.

    Rate
    ----
    ``E F(w) - F* <= d/k + m R^2/4``. Pure: ``4 L R d / (n epsilon)``. Otherwise, for the default
    ``m``: ``2 L R sqrt(d) / (n mu)`` (replace-one).

    Source: Gopi, Lee and Liu 2022, "Private convex optimization via exponential mechanism";
    Bassily, Smith and Thakurta 2014, Section 3.

    Examples
    --------
    >>> facts = ProblemClass(n=1000, dim=2, lipschitz=1.0, radius=1.0)
    >>> budget = Budget(epsilon=1.0, delta=0.0, relation="replace_one")
    >>> round(exponential_mechanism(facts, budget).params.mechanism.temperature, 6)
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
    if pure not in (None, True, False):
        raise ValueError(f"pure must be True, False or None, got {shown(pure)}")
    if pure is False and budget.delta == 0.0:
        raise ValueError("pure must not be False where delta is 0, got False")
    if regularisation is not None:
        regularisation = positive_number("regularisation", regularisation)
        if pure or budget.delta == 0.0:
            raise ValueError(
                "regularisation must be None for pure differential privacy, got "
                f"{shown(regularisation)}"
            )
    if pure is not None or regularisation is not None:
        laws = [bool(pure)]
    else:
        laws = [False, True] if permits_gaussian(budget) else [True]

    def plan_of(is_pure: bool) -> Plan:
        if is_pure:
            mechanism = GibbsMechanism.pure(query, budget)
        else:
            value = regularisation or _balanced(query, problem_class, budget)
            mechanism = GibbsMechanism.regularised(query, budget, value)
        return planned(EXPONENTIAL_MECHANISM, problem_class, budget, mechanism)

    return least_bound(map(plan_of, laws))


def rate(plan: Plan) -> Rate:
    """Return the bound of the error of the sample and of the regulariser."""
    params: Any = plan.params
    (mechanism,), facts, budget = params, plan.problem_class, plan.budget
    query, regularisation = mechanism.query, mechanism.regularisation
    if query.gradient.changes(facts):
        return no_rate("losses are clipped or divided")
    pure = regularisation == 0.0
    return exponential_mechanism_rate(
        facts,
        temperature=mechanism.temperature,
        regularisation=regularisation,
        pure=pure,
        balanced=pure or regularisation == round_up(_balanced(query, facts, budget)),
    )


def _balanced(query: ClippedRisk, problem_class: ProblemClass, budget: Budget) -> float:
    """Return the regularisation ``m`` that minimises the bound."""
    return exponential_mechanism_regularisation(
        problem_class,
        sensitivity=query.sensitivity(budget.relation),
        mu=gaussian_mu(budget.epsilon, budget.delta),
    )


def run(
    static: Static,
    params: OneShotParams,
    objective: EmpiricalRisk,
    key: Key[Array, ""],
    execution: Execution,
) -> Run:
    """Return one exact sample."""
    del execution
    draw = params.mechanism.draw(key, objective, dim=static.dim)
    return Run(draw.point, GibbsSecret(draw.minimiser, draw.proposals, draw.log_acceptance))


EXPONENTIAL_MECHANISM = Algorithm(
    name="exponential_mechanism",
    summary="an exact draw from exp(-k risk), pure or regularised, in at most three dimensions",
    plan=exponential_mechanism,
    mechanism=GibbsMechanism,
    run=run,
    rate=rate,
    float64=True,
    noise="law",
    largest_dim=MAX_SAMPLER_DIM,
    cites=("mcsherry2007", "bassily2014", "gopi2022"),
)

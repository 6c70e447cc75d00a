"""Rates of one-shot methods: perturbation of objectives and statistics; Gibbs sampling.

Theorems and proofs are in :doc:`/theory/perturbation`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize_scalar

from privopt.arguments import checked
from privopt.spec import ProblemClass
from privopt.theory.output_perturbation import regulariser_bias
from privopt.theory.rate import FIXED, Exponents, Quantity, Rate, Term, largest_excess, no_rate


@checked
def perturbed_objective_regularisation(
    problem_class: ProblemClass, second_moment: Callable[[float], float], *, least: float = 0.0
) -> float:
    """Return the ``lambda > least`` of the smallest bound, ``E|t|^2 = second_moment(lambda)``.

    ``second_moment`` must not increase in ``lambda``. If it is constant, the result is
    ``sqrt(E|t|^2)/R`` and the bound is ``R sqrt(E|t|^2) / 2``. If the noise also covers the
    curvature of the losses, the result is larger. The search grid has steps of two per cent.
    """
    radius = problem_class.radius

    def balanced(regularisation: float) -> float:
        return max(math.sqrt(second_moment(regularisation)) / radius, least * 1.001)

    # The minimiser is at least the balance of the smallest noise and at most its own balance.
    lowest = balanced(1e12 * (least + problem_class.lipschitz / radius))
    highest = lowest
    while balanced(highest) > highest:
        highest *= 2.0
    steps = 2 + math.ceil(math.log(highest / lowest) / 0.02)
    grid = np.geomspace(lowest, highest, steps).tolist()

    def bound(regularisation: float) -> float:
        return math.fsum(_costs(problem_class, regularisation, second_moment(regularisation)))

    return float(min(grid, key=bound))


@checked
def objective_perturbation_rate(
    problem_class: ProblemClass,
    *,
    regularisation: float,
    noise_second_moment: float,
    distance: float,
    gaussian: bool,
    tuned: bool,
) -> Rate:
    """Return the excess risk of ``argmin_W F(w) + (lambda/2)|w - c|^2 + <t, w>``.

    For convex, ``L``-Lipschitz losses and any ``t`` of mean zero that is independent of the data::

        E F(w) - F* <= (lambda/4) R^2 + E|t|^2 / (4 lambda) + L distance.

    Proof: :ref:`Perturbation, Theorem 3 <theory-perturbation-3>`. Source: Kifer, Smith and Thakurta
    2012 for the order; constants derived here.

    ``regularisation`` is ``lambda`` and ``noise_second_moment`` is ``E|t|^2``. ``distance`` bounds
    the distance from the minimiser, due to the solver and a second noise. If not ``gaussian``, the
    norm of ``t`` is of order ``d`` (pure privacy). ``tuned`` is True if ``lambda`` minimises the
    bound, False if it is fixed.

    Examples
    --------
    >>> facts = ProblemClass(n=100, dim=2, lipschitz=1.0, radius=1.0)
    >>> rate = objective_perturbation_rate(facts, regularisation=0.2, noise_second_moment=0.04,
    ...                                    distance=0.0, gaussian=True, tuned=True)
    >>> round(rate.upper, 9), rate.exponents["dim"]
    (0.1, 0.5)
    """
    noise = "sigma sqrt(d)/n" if gaussian else "d/(n epsilon)"
    power = Exponents(n=-1.0, dim=0.5 if gaussian else 1.0, epsilon=-1.0)
    noise_cost, bias = _costs(problem_class, regularisation, noise_second_moment)
    return Rate(
        quantity=Quantity.EMPIRICAL_RISK,
        theorem="E F(w) - F* <= (lambda/4) R^2 + E|t|^2/(4 lambda)",
        source="Kifer, Smith and Thakurta 2012; both squares kept",
        terms=(
            Term("noise", noise_cost, power if tuned else 2.0 * power),
            Term("regulariser", bias, power if tuned else FIXED),
            Term("solver", problem_class.lipschitz * distance),
        ),
        cap=largest_excess(problem_class),
        regime=(
            f"{noise} <= L, at H/(lambda n epsilon) constant"
            if tuned
            else f"lambda fixed, noise leading: {noise} >= 10 lambda R"
        ),
        tight_on="huber" if tuned else None,
    )


def _costs(facts: ProblemClass, regularisation: float, second_moment: float) -> tuple[float, float]:
    """Return the noise term and the regulariser term."""
    return 0.25 * second_moment / regularisation, 0.25 * regularisation * facts.radius**2


@checked
def exponential_mechanism_regularisation(
    problem_class: ProblemClass, *, sensitivity: float, mu: float
) -> float:
    """Return the ``m`` that balances sampling error and regulariser: ``2 G sqrt(d) / (mu R)``.

    The bound is then ``G R sqrt(d) / mu``.
    """
    return 2.0 * sensitivity * math.sqrt(problem_class.dim) / (mu * problem_class.radius)


@checked
def exponential_mechanism_rate(
    problem_class: ProblemClass,
    *,
    temperature: float,
    regularisation: float = 0.0,
    pure: bool,
    balanced: bool = True,
) -> Rate:
    """Return the excess risk of a sample of ``exp(-k (F + (m/2)|w - c|^2))`` on ``W``.

    For convex losses and ``k = 1/temperature``::

        E F(w) - F* <= d / k + m R^2 / 4.

    With ``k = epsilon/(2 R G)`` and ``m = 0`` (``pure``) this is ``2 R G d/epsilon``, and with ``k
    = m mu^2/G^2`` it is ``d G^2/(m mu^2) + m R^2/4``. Proof: :ref:`Perturbation, Theorem 4
    <theory-perturbation-4>`. ``regularisation`` is ``m``. ``balanced`` is True if ``m`` is that of
    :func:`exponential_mechanism_regularisation`, False if it is fixed. Source: Bassily, Smith and
    Thakurta 2014 (the order, for pure DP); Gopi, Lee and Liu 2022, with ``D`` in place of ``R``;
    constants derived here.

    Examples
    --------
    >>> facts = ProblemClass(n=100, dim=2, lipschitz=1.0, radius=1.0)
    >>> exponential_mechanism_rate(facts, temperature=0.04, pure=True).upper
    0.08
    """
    by_sample = by_bias = Exponents(n=-1.0, dim=0.5, epsilon=-1.0)
    if pure:
        by_sample, by_bias = Exponents(n=-1.0, dim=1.0, epsilon=-1.0), FIXED
    elif not balanced:
        by_sample, by_bias = 2.0 * by_sample, FIXED
    regime = "sqrt(d) <= n mu" if balanced else "m fixed, d/k >= 25 m R^2"
    sampling = problem_class.dim * temperature
    bias = regulariser_bias(problem_class, regularisation)
    return Rate(
        quantity=Quantity.EMPIRICAL_RISK,
        theorem="E F(w) - F* <= "
        + ("d/k (4 L R d/(n epsilon) under replace_one)" if pure else "d/k + m R^2/4"),
        source="Bassily, Smith and Thakurta 2014 (arXiv:1405.7085)"
        if pure
        else "Gopi, Lee and Liu 2022 (arXiv:2203.00263)",
        terms=(Term("draw", sampling, by_sample), Term("regulariser", bias, by_bias)),
        cap=largest_excess(problem_class),
        regime="d <= n epsilon / 40" if pure else regime,
        tight_on="distance" if pure or balanced else None,
    )


@checked
def sufficient_statistics_rate(
    problem_class: ProblemClass,
    *,
    noise_std: float,
    weight: float,
    floor: float,
    balanced: bool,
    gaussian: bool,
) -> Rate:
    """Return the excess risk of the minimiser of a noisy quadratic over a set of radius ``R``.

    ``F(c + v) = v^T A v/2 - <b, v>`` up to a constant. The output minimises it over ``W`` with ``A
    + E + lambda I`` in place of ``A`` and ``b + e`` in place of ``b``. Entries of ``e`` have
    standard deviation ``sigma/w``; entries of the symmetric ``E`` have ``sigma`` on the diagonal
    and ``sigma/sqrt(2)`` off it. For all data and any closed ``W`` within ``R`` of ``c``::

        E F(w) - F* <= R sigma sqrt((d + 1)(1/w^2 + R^2/2)) + (R^2/2) E lambda.

    The ridge ``lambda = max(0, f - l)``, with ``l`` the smallest eigenvalue of ``A + E``, satisfies
    ``E lambda <= f + nu`` with ``nu = sigma sqrt(2(d + 1))``. Proof: :ref:`Perturbation, Theorem 5
    <theory-perturbation-5>`. Source: Wang 2018 for the method; the bound is derived here.

    Parameters
    ----------
    problem_class : ProblemClass
        Public facts.
    noise_std, weight : float
        ``sigma`` and ``w``.
    floor : float
        ``f``; minus infinity for ``lambda = 0``. A negative ``f`` counts as 0 in the bound, and the
        quadratic may not be convex.
    balanced : bool
        True if ``f = nu``, False if ``f`` is fixed.
    gaussian : bool
        If False, the noise vector has a uniform direction and the mean norm of Gaussian noise with
        this ``sigma``, which is then of order ``d^2/(n epsilon)``.

    Examples
    --------
    >>> facts = ProblemClass(n=100, dim=3, lipschitz=2.0, radius=1.0, smoothness=1.0)
    >>> rate = sufficient_statistics_rate(
    ...     facts, noise_std=0.01, weight=math.sqrt(2.0), floor=-math.inf, balanced=False,
    ...     gaussian=True)
    >>> round(rate.upper, 9), rate.exponents["n"]
    (0.02, -1.0)
    """
    radius, roots = problem_class.radius, math.sqrt(problem_class.dim + 1.0)
    if math.isinf(radius):
        return no_rate("the set is not bounded", whole_class=False)
    powers = Exponents(n=-1.0, dim=0.5 if gaussian else 1.5, epsilon=-1.0)
    noise = radius * roots * noise_std
    terms = [Term("noise", noise * math.sqrt(1.0 / weight**2 + 0.5 * radius**2), powers)]
    bound = "R sigma sqrt((d + 1)(1/w^2 + R^2/2))"
    with_ridge, convex = floor > -math.inf, floor >= 0.0
    if with_ridge:
        terms.append(Term("ridge", noise * radius / math.sqrt(2.0), powers))
        terms.append(
            Term("floor", 0.5 * radius**2 * max(floor, 0.0), powers if balanced else FIXED)
        )
        bound += " + R^2 sigma sqrt(2(d + 1))" if balanced else " + R^2 (nu + f)/2"
    ratio = "sqrt(d)/(n mu)" if gaussian else "d^(3/2)/(n epsilon)"
    return Rate(
        quantity=Quantity.EMPIRICAL_RISK,
        theorem=f"E F(w) - F* <= {bound} of squared losses with |x| <= X, |y - <x, c>| <= Y "
        f"(order L R {ratio})",
        source="Wang 2018 (arXiv:1803.02596) for the method; the bound is derived here",
        terms=tuple(terms),
        cap=largest_excess(problem_class),
        whole_class=False,
        requires=frozenset({"squares"} if convex else {"squares", "ball"}),
        regime=f"{ratio} <= 1/4" if balanced or not with_ridge else "f fixed, and below noise/20",
        tight_on="isotropic_squares" if gaussian and (balanced or not with_ridge) else None,
    )


@checked
def sufficient_statistics_weight(
    sensitivity: Callable[[float], float],
    *,
    radius: float,
    ridges: float,
    feature_clip: float,
    label_clip: float,
) -> float:
    """Return the ``w`` of the smallest bound if ``sigma`` is proportional to ``sensitivity(w)``.

    ``ridges`` is the number of times that ``R^2 nu/2`` is paid: 0 without a ridge, 2 if it is
    balanced. Without a ridge ``w^2 Y^2 = 2 k X^2`` with ``k = 2 Y/(Y + sqrt(Y^2 + 8 R^2 X^2))``
    under ``replace_one``. On the whole space ``R = Y/X``, so that predictions have the size of
    labels.

    Examples
    --------
    >>> def sensitivity(weight):
    ...     return 1.0 + 0.5 * weight**2
    >>> round(sufficient_statistics_weight(
    ...     sensitivity, radius=1.0, ridges=0.0, feature_clip=1.0, label_clip=1.0), 5)
    1.0
    """
    unit = feature_clip / label_clip
    reach = radius if math.isfinite(radius) else 1.0 / unit
    ridge_cost = ridges * reach / math.sqrt(2.0)

    def bound(logarithm: float) -> float:
        weight = unit * math.exp(logarithm)
        cost = math.hypot(1.0 / weight, reach / math.sqrt(2.0)) + ridge_cost
        return math.log(sensitivity(weight) * cost)

    result = minimize_scalar(bound, bounds=(-12.0, 3.0), method="bounded", options={"xatol": 1e-10})
    return unit * math.exp(float(result.x))

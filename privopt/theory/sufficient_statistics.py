"""Least squares from noisy second moments: what the noise costs, and how to share it out."""

from __future__ import annotations

import math
from collections.abc import Callable

from scipy.optimize import minimize_scalar

from privopt.arguments import checked
from privopt.spec import ProblemClass
from privopt.theory.rate import FIXED, Powers, Quantity, Rate, Term, largest_excess, no_rate


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
    """Excess risk of the minimiser of a noisy quadratic over a set of radius ``R``.

    ``F(c + v) = v^T A v/2 - <b, v>`` up to a constant, and ``w`` minimises it with ``A + E +
    lambda I`` for ``A`` and ``b + e`` for ``b`` over ``W``. Numbers of ``e`` have standard
    deviation ``sigma/w``, those of the symmetric ``E`` have ``sigma`` on the diagonal and
    ``sigma/sqrt(2)`` off it. Then, for all data and any closed ``W`` within ``R`` of ``c``,

        E F(w) - F* <= R sigma sqrt((d + 1)(1/w^2 + R^2/2)) + (R^2/2) E lambda.

    Proof: with ``v*`` for a minimiser of ``F``, which the noise does not know, ``F(w) - F*`` is at
    most ``<e, v> - v^T E v/2 - <e, v*> + v*^T E v*/2 + (lambda/2) |v*|^2``, of which the middle
    has mean 0. The rest is at most the supremum over the ball of a Gaussian process. Lift ``v`` to
    ``u = (v, sqrt(R^2 - |v|^2))``: the increments of the process have variance at most ``(sigma^2/
    w^2) |u - u'|^2 + (sigma^2/4) |u u^T - u' u'^T|^2 <= sigma^2 (1/w^2 + R^2/2) |u - u'|^2``. So
    have those of ``<g, u>`` times a number, ``g`` standard normal of ``d + 1`` numbers, and its
    supremum is no smaller in expectation (Sudakov and Fernique).

    *The ridge* ``lambda = max(0, f - l)``, with ``l`` the least eigenvalue of ``A + E``, at least
    that of ``E``: ``E lambda <= f + nu`` with ``nu = sigma sqrt(2(d + 1))``, by the same comparison
    for ``-v^T E v`` alone.

    ``noise_std`` is ``sigma``, ``weight`` ``w``, and ``floor`` ``f``, minus infinity for ``lambda
    = 0``; below 0 it counts as 0 here, and the quadratic may not be convex. ``balanced`` says
    whether ``f`` is ``nu``; else it is fixed. A vector of noise that is not ``gaussian`` has a
    uniform direction too, and its mean length is that of Gaussian noise of this ``sigma``, of order
    ``d^2/(n epsilon)``.

    Source: Wang 2018 for the method with an adaptive ridge; the bound is derived here.

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
    powers = Powers(n=-1.0, dim=0.5 if gaussian else 1.5, epsilon=-1.0)
    noise = radius * roots * noise_std
    terms = [Term("noise", noise * math.sqrt(1.0 / weight**2 + 0.5 * radius**2), powers)]
    bound = "R sigma sqrt((d + 1)(1/w^2 + R^2/2))"
    raised, convex = floor > -math.inf, floor >= 0.0
    if raised:
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
        regime=f"{ratio} <= 1/4" if balanced or not raised else "f fixed, and below noise/20",
        tight_on="isotropic_squares" if gaussian and (balanced or not raised) else None,
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
    """The ``w`` of the smallest bound, where ``sigma`` is in proportion to ``sensitivity(w)``.

    ``ridges`` is how often ``R^2 nu/2`` is paid: 0 without a ridge, 2 where it is balanced.

    Without a ridge ``w^2 Y^2 = 2 k X^2`` with ``k = 2 Y/(Y + sqrt(Y^2 + 8 R^2 X^2))`` under
    ``replace_one``. On the whole space ``R`` is ``Y/X``: predictions as large as labels.

    Examples
    --------
    >>> def of_a_replaced_record(weight):
    ...     return 1.0 + 0.5 * weight**2
    >>> round(sufficient_statistics_weight(
    ...     of_a_replaced_record, radius=1.0, ridges=0.0, feature_clip=1.0, label_clip=1.0), 5)
    1.0
    """
    unit = feature_clip / label_clip
    reach = radius if math.isfinite(radius) else 1.0 / unit
    pull = ridges * reach / math.sqrt(2.0)

    def bound(logarithm: float) -> float:
        weight = unit * math.exp(logarithm)
        cost = math.hypot(1.0 / weight, reach / math.sqrt(2.0)) + pull
        return math.log(sensitivity(weight) * cost)

    found = minimize_scalar(bound, bounds=(-12.0, 3.0), method="bounded", options={"xatol": 1e-10})
    return unit * math.exp(float(found.x))

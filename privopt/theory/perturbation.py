"""Perturbed minimisers and minimisers of perturbed objectives: upper bounds and their tuning."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from privopt.arguments import checked
from privopt.spec import ProblemClass
from privopt.theory.rate import Powers, Quantity, Rate, Term, largest_excess


def _stationary(
    problem_class: ProblemClass, regularisation: float, noise_square: float, solver_error: float
) -> tuple[float, float, float]:
    """What the objective rises, what both costs add together, and the regulariser alone.

    If every loss is ``H``-smooth and ``grad F_lambda`` vanishes at ``w_lambda = argmin_W
    F_lambda``, then whatever the noise ``z``::

        E F(w) - F* <= (lambda R^2/4) (1 + min(1, 2 q/R)) + ((H + lambda)/2) q^2,

    ``q = sqrt(E|z|^2) + tau``. The released ``w`` is within ``p = |z| + tau`` of ``w_lambda``,
    where ``F_lambda`` has no slope, so by smoothness and strong convexity ``F(w) - F*`` is at
    most::

        ((H + lambda)/2) p^2 + (lambda/2) (|w* - c|^2 - |w* - w_lambda|^2 - |w - c|^2),

    where the two distances subtracted add up to ``|w* - c| - p`` at least, and their squares to
    half the square of that. For ``p <= R`` what they leave of the first is at most ``R^2/2 + R p``,
    and never above ``R^2``. Jensen's and Minkowski's inequalities put ``q`` in the place of ``p``.

    Stationary is more than being the minimiser: a slope at the boundary of ``W`` costs another
    ``|grad F_lambda(w_lambda)| E|z|``. It holds in the interior of ``W``; and over the ball of
    radius ``R`` for *every* data set of a class of ``m``-strongly convex losses with ``L <= 2 m
    R``: such a loss has at the centre a gradient of norm at most ``L - m R``, so the outward slope
    of ``F`` anywhere on the sphere is at least ``m R - (L - m R) >= 0``.

    Source: Chaudhuri, Monteleoni and Sarwate 2011, who argue so on the whole space; constants, and
    the case of the ball, derived here.
    """
    if problem_class.smoothness is None:
        raise ValueError("smoothness must be declared for this bound, got None")
    far = math.sqrt(noise_square) + solver_error
    rise = 0.5 * (problem_class.smoothness + regularisation) * far**2
    bias = _bias(problem_class, regularisation)
    share = min(1.0, 2.0 * far / problem_class.radius)
    return rise, share and bias * share, bias


@checked
def perturbed_minimiser_regularisation(
    problem_class: ProblemClass, *, unit_noise_norm: float
) -> float:
    """The ``lambda`` that balances regulariser and noise when ``E|z| = unit_noise_norm / lambda``.

    ``argmin_lambda lambda R^2/4 + L u / lambda = 2 sqrt(L u) / R``; the bound is then ``R sqrt(L
    u)``, for Gaussian noise ``sqrt(2) L R (sqrt(d) / (n mu))^{1/2}``.
    """
    return 2.0 * math.sqrt(problem_class.lipschitz * unit_noise_norm) / problem_class.radius


@checked
def output_perturbation_rate(
    problem_class: ProblemClass,
    *,
    regularisation: float,
    noise_norm: float,
    noise_square: float,
    solver_error: float = 0.0,
    smoothing: float = 0.0,
    gaussian: bool,
    balanced: bool,
    stationary: bool = False,
) -> Rate:
    """Excess risk of ``Proj(argmin F_lambda + z)``, ``F_lambda = F + (lambda/2)|w - c|^2``.

    For convex, L-Lipschitz losses, whatever the noise ``z``::

        E F(w) - F* <= lambda R^2 / 4 + L (E|z| + tau) + L^2 h / 2,

    the four terms being the regulariser (centred at ``c``, within ``R`` of every member), the
    noise, the distance ``tau`` of the computed from the exact minimiser, and the width ``h`` of the
    Moreau smoothing of a non-smooth loss. Projection does not expand distances to points of the
    set, so it is free.

    *The regulariser.* At ``w_lambda = argmin_W F_lambda`` some subgradient ``g`` of ``F`` has ``<g
    + lambda b, w* - w_lambda> >= 0``, ``b = w_lambda - c``. With ``a = w* - c``, convexity gives
    ``F(w_lambda) - F* <= lambda <b, a - b> <= lambda |a|^2/4``. The bound is attained for small
    ``lambda``: by ``sqrt(L^2 - s^2) |w'| + s (R - w_1)`` with ``w'`` all coordinates but the first
    and ``s = lambda R/2``.

    Noise enters at its norm where the risk has a slope or a kink, else at its square
    (``_stationary``). A given ``lambda`` has a bias that no noise shrinks: below ``lambda R^2/4``
    nothing is a rate.

    ``regularisation``, ``solver_error`` and ``smoothing`` are ``lambda``, ``tau`` and ``h``;
    ``noise_norm`` and ``noise_square`` are ``E|z|`` and ``E|z|^2``. The norm of Gaussian noise is
    of order ``sqrt(d)``, else of order ``d``. ``balanced`` says whether ``lambda`` is that of
    :func:`perturbed_minimiser_regularisation`; else it is fixed. ``stationary`` says whether every
    minimiser is: the smaller bound is then taken.

    Source: the triangle inequality for Lipschitz losses, with the minimisers' distance of
    Chaudhuri, Monteleoni and Sarwate 2011, Corollary 8; constants derived here.

    Examples
    --------
    >>> facts = ProblemClass(n=100, dim=4, lipschitz=1.0, radius=1.0)
    >>> rate = output_perturbation_rate(facts, regularisation=0.2, noise_norm=0.1,
    ...                                 noise_square=0.01, gaussian=True, balanced=True)
    >>> round(rate.upper, 9), rate.exponents["n"]
    (0.15, -0.5)
    """
    noise = "sqrt(d)/(n mu)" if gaussian else "d/(n epsilon)"
    per_norm = Powers(n=-1.0, dim=0.5 if gaussian else 1.0, epsilon=-1.0)
    fixed = regularisation > 0.0
    bias, least = ("lambda R^2/4 + ", "12 lambda R^2 <= ") if fixed else ("", "")
    regulariser = Term("regulariser", _bias(problem_class, regularisation))
    lipschitz = problem_class.lipschitz
    terms: tuple[Term, ...] = (
        Term("noise", lipschitz * noise_norm, per_norm),
        regulariser,
        Term("solver", lipschitz * solver_error, Powers(n=-1.0)),
        Term("smoothing", 0.5 * lipschitz**2 * smoothing, per_norm),
    )
    power, bound, tight_on = 1.0, f"{bias}L E|z|", "distance" if fixed else None
    regime = f"lambda fixed, {least}L E|z| <= L R" if fixed else "E|z| <= R"
    if not fixed and problem_class.smoothness is None:
        tight_on = "regularised_distance"
    if balanced:
        power, tight_on, regime = 0.5, "two_kinks", f"{noise} <= 1"
        moved = 0.5 * per_norm  # so does lambda
        powers = (moved, moved, Powers(n=-1.0) + -1.0 * moved, moved)
        terms = tuple(Term(t.name, t.value, p) for t, p in zip(terms, powers, strict=True))
    flat = (math.inf,) * 3
    if stationary:
        flat = _stationary(problem_class, regularisation, noise_square, solver_error)
    if math.fsum(flat) < math.fsum(term.value for term in terms):
        biased, moves, tight_on = terms[1], (per_norm, per_norm), None
        if not balanced:
            curvature = "((H + lambda)/2)" if fixed else "(H/2)"
            power, bound, moves = 2.0, f"{bias}{curvature} E|z|^2", (2.0 * per_norm, per_norm)
            regime = f"{least}{curvature} E|z|^2 <= L E|z|"
            tight_on = None if fixed else "squared_distance"
        rise, drift = (
            Term(*each) for each in zip(("noise", "drift"), flat[:2], moves, strict=True)
        )
        terms = (biased, rise, drift) if balanced else (rise, drift, biased)
    return Rate(
        quantity=Quantity.EMPIRICAL_RISK,
        theorem=f"E F(w) - F* <= {bound} (order ({noise})^{power:g})",
        source="Chaudhuri, Monteleoni and Sarwate 2011 (arXiv:0912.0071); Bassily, Smith and "
        "Thakurta 2014 (arXiv:1405.7085)",
        terms=terms,
        cap=largest_excess(problem_class),
        regime=regime,
        tight_on=tight_on,
    )


def _bias(problem_class: ProblemClass, regularisation: float) -> float:
    """``lambda R^2 / 4``."""
    return 0.25 * regularisation * problem_class.radius**2 if regularisation > 0.0 else 0.0


@checked
def perturbed_objective_regularisation(
    problem_class: ProblemClass, second_moment: Callable[[float], float], *, least: float = 0.0
) -> float:
    """The ``lambda > least`` of the smallest bound, where ``E|t|^2 = second_moment(lambda)``.

    The tilt must not grow with ``lambda``. For a tilt that ignores ``lambda`` the answer is
    ``sqrt(E|t|^2)/R``, and the bound ``R sqrt(E|t|^2) / 2``; a tilt that pays for the losses'
    curvature asks for somewhat more. Found on a grid of steps of two per cent.
    """
    radius = problem_class.radius

    def balanced(regularisation: float) -> float:
        return max(math.sqrt(second_moment(regularisation)) / radius, least * 1.001)

    # No regularisation below that of the smallest tilt is best, nor one above its own balance.
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
    """Excess risk of ``argmin_W F(w) + (lambda/2)|w - c|^2 + <t, w>``, moved by ``distance``.

    For convex, L-Lipschitz losses and any ``t`` of mean zero that does not depend on the data::

        E F(w) - F* <= (lambda/4) R^2 + E|t|^2 / (4 lambda) + L distance.

    With ``a = w* - c`` and ``v = w_t - c``, strong convexity of the tilted objective between its
    minimiser and ``w*`` gives ``F(w_t) - F* <= (lambda/2)(|a|^2 - |v|^2 - |v-a|^2) - <t, v-a>``,
    and the largest value over ``v`` is ``|lambda a - t|^2 / (4 lambda) + <t, a>``. Keeping one of
    the two squares only doubles the bound.

    ``regularisation`` is ``lambda``, ``noise_second_moment`` ``E|t|^2``, and ``distance`` how far a
    solver and a second noise move the minimiser. A tilt that is not ``gaussian`` has a norm of
    order ``d``, under pure privacy. ``tuned`` says whether ``lambda`` is that of the smallest
    bound; else it is fixed.

    Source: constants derived here; the order is that of Kifer, Smith and Thakurta 2012.

    Examples
    --------
    >>> facts = ProblemClass(n=100, dim=2, lipschitz=1.0, radius=1.0)
    >>> rate = objective_perturbation_rate(facts, regularisation=0.2, noise_second_moment=0.04,
    ...                                    distance=0.0, gaussian=True, tuned=True)
    >>> round(rate.upper, 9), rate.exponents["dim"]
    (0.1, 0.5)
    """
    noise = "sigma sqrt(d)/n" if gaussian else "d/(n epsilon)"
    power = Powers(n=-1.0, dim=0.5 if gaussian else 1.0, epsilon=-1.0)
    tilted, bias = _costs(problem_class, regularisation, noise_second_moment)
    return Rate(
        quantity=Quantity.EMPIRICAL_RISK,
        theorem="E F(w) - F* <= (lambda/4) R^2 + E|t|^2/(4 lambda)",
        source="Kifer, Smith and Thakurta 2012; both squares kept",
        terms=(
            Term("noise", tilted, power if tuned else 2.0 * power),
            Term("regulariser", bias, power if tuned else Powers()),
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
    """Of the noise, and of the regulariser."""
    return 0.25 * second_moment / regularisation, 0.25 * regularisation * facts.radius**2

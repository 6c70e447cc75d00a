"""Rates of output perturbation: on any convex set, on a Euclidean ball, and without projection.

Theorems and proofs are in :doc:`/theory/perturbation`.
"""

from __future__ import annotations

import math

import numpy as np

from privopt.arguments import checked
from privopt.spec import ProblemClass
from privopt.theory.rate import FIXED, Exponents, Quantity, Rate, Term, largest_excess


def _smoothness(problem_class: ProblemClass) -> float:
    if problem_class.smoothness is None:
        raise ValueError("smoothness must be declared for this bound, got None")
    return problem_class.smoothness


def _stationary(
    problem_class: ProblemClass, regularisation: float, noise_square: float, solver_error: float
) -> tuple[float, float, float]:
    """Return the loss increase, the mixed term and the regulariser of the bound in ``E|z|^2``.

    For ``H``-smooth losses with ``grad F_lambda = 0`` at the minimiser ``w_lambda`` and any noise
    ``z``::

        E F(w) - F* <= (lambda R^2/4) (1 + min(1, 2 q/R)) + ((H + lambda)/2) q^2

    with ``q = sqrt(E|z|^2) + tau``. Proof and the cases in which the gradient vanishes:
    :ref:`Perturbation, Theorem 2 <theory-perturbation-2>`.
    """
    smoothness = _smoothness(problem_class)
    far = math.sqrt(noise_square) + solver_error
    rise = 0.5 * (smoothness + regularisation) * far**2
    bias = regulariser_bias(problem_class, regularisation)
    share = min(1.0, 2.0 * far / problem_class.radius)
    return rise, share and bias * share, bias


@checked
def perturbed_minimiser_regularisation(
    problem_class: ProblemClass, *, unit_noise_norm: float
) -> float:
    """Return the ``lambda`` that balances regulariser and noise, ``E|z| = unit_noise_norm/lambda``.

    ``argmin_lambda lambda R^2/4 + L u / lambda = 2 sqrt(L u) / R``, with the value ``R sqrt(L u)``.
    """
    return 2.0 * math.sqrt(problem_class.lipschitz * unit_noise_norm) / problem_class.radius


def _on_ball(
    problem_class: ProblemClass, noise_norm: float, noise_square: float
) -> tuple[float, float]:
    """Return the terms of first and of second order in ``z`` of :func:`ball_perturbation_rate`."""
    smoothness = _smoothness(problem_class)
    dim, half = problem_class.dim, 0.5 * problem_class.dim
    # E|u_1| for u uniform on the sphere; half of it is moved inwards
    coordinate = math.exp(math.lgamma(half) - math.lgamma(half + 0.5)) / math.sqrt(math.pi)
    first = 0.5 * problem_class.lipschitz * noise_norm * coordinate
    bend = problem_class.lipschitz * (1.0 - 1.0 / dim) / problem_class.radius
    return first, 0.5 * (smoothness + bend) * noise_square


@checked
def ball_perturbation_regularisation(
    problem_class: ProblemClass, *, unit_noise_norm: float, unit_noise_square: float
) -> float:
    """Return the ``lambda`` that minimises the bound of :func:`ball_perturbation_rate`.

    The noise is ``1/lambda`` times one with ``E|z| = unit_noise_norm`` and
    ``E|z|^2 = unit_noise_square``, so the bound is ``lambda R^2/4 + A/lambda + B/lambda^2``. It is
    convex in ``lambda``, and its derivative vanishes at the positive root of
    ``R^2 lambda^3/4 = A lambda + 2 B``.
    """
    first, second = _on_ball(problem_class, unit_noise_norm, unit_noise_square)
    roots = np.roots([0.25 * problem_class.radius**2, 0.0, -first, -2.0 * second])
    return float(max(roots.real))


@checked
def ball_perturbation_rate(
    problem_class: ProblemClass,
    *,
    regularisation: float,
    noise_norm: float,
    noise_square: float,
    solver_error: float = 0.0,
    gaussian: bool,
    balanced: bool,
) -> Rate:
    """Return the excess risk of output perturbation of smooth losses on a Euclidean ball.

    For convex, ``L``-Lipschitz and ``H``-smooth losses on the ball of radius ``R`` about ``c``, and
    noise ``z`` whose law is invariant under rotations::

        E F(w) - F* <= lambda R^2/4 + (L/2) E|z_1| + ((H + (1 - 1/d) L/R)/2) E|z|^2 + L tau

    with the released point ``w = Proj(argmin F_lambda + z)``. Noise along a gradient of the
    minimiser costs only if it points inwards, and noise in the other directions enters by its
    square. With the ``lambda`` that minimises it, the bound is of order
    ``(sqrt(d)/(n mu))^{2/3}`` while the term in ``E|z|^2`` exceeds that in ``E|z_1|``, and then of
    order ``(n mu)^{-1/2}``, without ``d``. The bound of :func:`output_perturbation_rate` is of
    order ``(sqrt(d)/(n mu))^{1/2}`` and holds on every convex set.

    Proof: :ref:`Perturbation, Theorem 10 <theory-perturbation-10>`. Source: Zhang, Zheng, Mou and
    Wang 2017 (arXiv:1703.09947) for the power 2/3 without a constraint; derived here on a ball.

    Arguments are those of :func:`output_perturbation_rate`; ``balanced`` refers to
    :func:`ball_perturbation_regularisation`.

    Examples
    --------
    >>> facts = ProblemClass(n=100, dim=4, lipschitz=1.0, radius=1.0, smoothness=1.0)
    >>> rate = ball_perturbation_rate(facts, regularisation=0.2, noise_norm=0.1,
    ...                               noise_square=0.01, gaussian=True, balanced=True)
    >>> round(rate.upper, 9)
    0.079970659
    """
    first, second = _on_ball(problem_class, noise_norm, noise_square)
    bias = regulariser_bias(problem_class, regularisation)
    one_dimensional = Exponents(n=-1.0, dim=0.0 if gaussian else 0.5, epsilon=-1.0)
    per_norm = Exponents(n=-1.0, dim=0.5 if gaussian else 1.0, epsilon=-1.0)
    of_lambda, order = FIXED, "lambda fixed"
    if balanced:
        curved = second >= first
        of_lambda = (2.0 / 3.0) * per_norm if curved else 0.5 * one_dimensional
        noise = "sqrt(d)/(n mu)" if gaussian else "d/(n epsilon)"
        plain = "1/(n mu)" if gaussian else "sqrt(d)/(n epsilon)"
        order = f"order ({noise})^(2/3)" if curved else f"order ({plain})^(1/2)"
    terms = [
        Term("noise", second, 2.0 * per_norm + -2.0 * of_lambda),
        Term("noise along the gradient", first, one_dimensional + -1.0 * of_lambda),
        Term("regulariser", bias, of_lambda),
        Term(
            "solver", problem_class.lipschitz * solver_error, Exponents(n=-1.0) + -1.0 * of_lambda
        ),
    ]
    if first > second:
        terms[:2] = reversed(terms[:2])
    return Rate(
        quantity=Quantity.EMPIRICAL_RISK,
        theorem="E F(w) - F* <= lambda R^2/4 + (L/2) E|z_1| + ((H + (1 - 1/d) L/R)/2) E|z|^2 "
        f"({order})",
        source="Zhang, Zheng, Mou and Wang 2017 (arXiv:1703.09947), without a constraint",
        terms=tuple(terms),
        cap=largest_excess(problem_class),
        regime="the first term leads, on a Euclidean ball",
        requires=frozenset({"ball"}),
    )


@checked
def unprojected_perturbation_regularisation(
    problem_class: ProblemClass, *, unit_noise_square: float
) -> float:
    """Return the ``lambda`` that minimises the bound of :func:`unprojected_perturbation_rate`.

    The noise is ``1/lambda`` times one with ``E|z|^2 = unit_noise_square``, so with
    ``v = unit_noise_square/d`` the bound is ``lambda R^2/4 + H v/(2 lambda^2)``. It is smallest at
    ``(4 H v/R^2)^{1/3}``, with the value ``3 lambda R^2/8``.
    """
    variance = unit_noise_square / problem_class.dim
    return float(np.cbrt(4.0 * _smoothness(problem_class) * variance / problem_class.radius**2))


@checked
def unprojected_perturbation_rate(
    problem_class: ProblemClass,
    *,
    regularisation: float,
    noise_square: float,
    solver_error: float = 0.0,
    gaussian: bool,
    balanced: bool,
) -> Rate:
    """Return the excess risk of a noisy minimiser that is not projected, for linear predictions.

    For convex, ``L``-Lipschitz losses ``phi_i(<x_i, w>)`` with ``phi_i'' |x_i|^2 <= H`` on the
    whole space, any convex set ``W``, and noise ``z`` whose law is invariant under rotations::

        E F(w) - F* <= lambda R^2/4 + (H/2) E z_1^2 + L tau

    with ``w = argmin_W F_lambda + z`` and ``F*`` the minimum over ``W``. The noise has mean zero,
    so it costs only curvature, and each loss is curved in one direction. With the ``lambda`` that
    minimises it, the bound is of order ``(n mu)^{-2/3}``, without ``d``. The point may lie outside
    of ``W``, where a risk may be below ``F*``; its mean is not, by Jensen's inequality. Lower
    bounds for points in ``W`` do not apply.

    Proof: :ref:`Perturbation, Theorem 11 <theory-perturbation-11>`. Source: Arora, Bassily, Guzman,
    Menart and Ullah 2022 (arXiv:2205.03014) for the order; the constants are derived here.

    Arguments are those of :func:`output_perturbation_rate`; ``balanced`` refers to
    :func:`unprojected_perturbation_regularisation`.

    Examples
    --------
    >>> facts = ProblemClass(n=100, dim=4, lipschitz=1.0, radius=1.0, smoothness=1.0)
    >>> rate = unprojected_perturbation_rate(facts, regularisation=0.2, noise_square=0.01,
    ...                                      gaussian=True, balanced=True)
    >>> round(rate.upper, 9)
    0.05125
    """
    per_coordinate = Exponents(n=-1.0, dim=0.0 if gaussian else 0.5, epsilon=-1.0)
    noise = "1/(n mu)" if gaussian else "sqrt(d)/(n epsilon)"
    of_lambda, order = FIXED, "lambda fixed"
    if balanced:
        of_lambda, order = (2.0 / 3.0) * per_coordinate, f"order ({noise})^(2/3)"
    curved = 0.5 * _smoothness(problem_class) * noise_square / problem_class.dim
    error = problem_class.lipschitz * solver_error
    bias = regulariser_bias(problem_class, regularisation)
    return Rate(
        quantity=Quantity.EMPIRICAL_RISK,
        theorem=f"E F(w) - F* <= lambda R^2/4 + (H/2) E z_1^2 ({order})",
        source="Arora, Bassily, Guzman, Menart and Ullah 2022 (arXiv:2205.03014), for the order",
        terms=(
            Term("noise", curved, 2.0 * per_coordinate + -2.0 * of_lambda),
            Term("regulariser", bias, of_lambda),
            Term("solver", error, Exponents(n=-1.0) + -1.0 * of_lambda),
        ),
        regime=f"{noise} <= 1" if balanced else "the first term leads",
        tight_on="steep_squares" if balanced else None,
        whole_class=False,
        requires=frozenset({"linear_model"}),
    )


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
    """Return the excess risk of output perturbation, ``Proj(argmin F_lambda + z)``.

    ``F_lambda = F + (lambda/2)|w - c|^2``. For convex, ``L``-Lipschitz losses and any noise ``z``::

        E F(w) - F* <= lambda R^2 / 4 + L (E|z| + tau) + L^2 h / 2.

    The four terms are the regulariser, the noise, the distance ``tau`` of the computed from the
    exact minimiser, and the Moreau smoothing of width ``h`` of a non-smooth loss. If
    ``stationary``, the bound in ``E|z|^2`` is used if it is smaller. Proofs: :ref:`Perturbation,
    Theorems 1 <theory-perturbation-1>` and :ref:`2 <theory-perturbation-2>`. A fixed ``lambda`` has
    a bias that does not depend on the noise: there is no rate below ``lambda R^2/4``. Source:
    Chaudhuri, Monteleoni and Sarwate 2011, Corollary 8; constants derived here.

    Parameters
    ----------
    problem_class : ProblemClass
        Public facts.
    regularisation, solver_error, smoothing : float
        ``lambda``, ``tau`` and ``h``.
    noise_norm, noise_square : float
        ``E|z|`` and ``E|z|^2``.
    gaussian : bool
        True if the noise norm is of order ``sqrt(d)``, False if it is of order ``d``.
    balanced : bool
        True if ``lambda`` is that of :func:`perturbed_minimiser_regularisation`, False if fixed.
    stationary : bool
        True if the gradient vanishes at every minimiser.

    Examples
    --------
    >>> facts = ProblemClass(n=100, dim=4, lipschitz=1.0, radius=1.0)
    >>> rate = output_perturbation_rate(facts, regularisation=0.2, noise_norm=0.1,
    ...                                 noise_square=0.01, gaussian=True, balanced=True)
    >>> round(rate.upper, 9), rate.exponents["n"]
    (0.15, -0.5)
    """
    noise = "sqrt(d)/(n mu)" if gaussian else "d/(n epsilon)"
    per_norm = Exponents(n=-1.0, dim=0.5 if gaussian else 1.0, epsilon=-1.0)
    fixed = regularisation > 0.0
    bias, least = ("lambda R^2/4 + ", "12 lambda R^2 <= ") if fixed else ("", "")
    regulariser = Term("regulariser", regulariser_bias(problem_class, regularisation))
    lipschitz = problem_class.lipschitz
    terms: tuple[Term, ...] = (
        Term("noise", lipschitz * noise_norm, per_norm),
        regulariser,
        Term("solver", lipschitz * solver_error, Exponents(n=-1.0)),
        Term("smoothing", 0.5 * lipschitz**2 * smoothing, per_norm),
    )
    power, bound, tight_on = 1.0, f"{bias}L E|z|", "distance" if fixed else None
    regime = f"lambda fixed, {least}L E|z| <= L R" if fixed else "E|z| <= R"
    if not fixed and problem_class.smoothness is None:
        tight_on = "regularised_distance"
    if balanced:
        power, tight_on, regime = 0.5, "two_kinks", f"{noise} <= 1"
        half = 0.5 * per_norm  # the exponents of lambda too
        powers = (half, half, Exponents(n=-1.0) + -1.0 * half, half)
        terms = tuple(Term(t.name, t.value, p) for t, p in zip(terms, powers, strict=True))
    flat = (math.inf,) * 3
    if stationary:
        flat = _stationary(problem_class, regularisation, noise_square, solver_error)
    if math.fsum(flat) < math.fsum(term.value for term in terms):
        tight_on, exponents = None, (per_norm, per_norm)
        if not balanced:
            curvature = "((H + lambda)/2)" if fixed else "(H/2)"
            power, bound, exponents = 2.0, f"{bias}{curvature} E|z|^2", (2.0 * per_norm, per_norm)
            regime = f"{least}{curvature} E|z|^2 <= L E|z|"
            tight_on = None if fixed else "squared_distance"
        noise_terms = tuple(
            Term(*each) for each in zip(("noise", "drift"), flat[:2], exponents, strict=True)
        )
        terms = (terms[1], *noise_terms) if balanced else (*noise_terms, terms[1])
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


def regulariser_bias(problem_class: ProblemClass, regularisation: float) -> float:
    """Return ``lambda R^2 / 4``."""
    return 0.25 * regularisation * problem_class.radius**2 if regularisation > 0.0 else 0.0

"""The rate of output perturbation where noise counts by its largest coordinate."""

from __future__ import annotations

import math

from privopt.spec import ProblemClass
from privopt.theory.largest_excess import largest_excess
from privopt.theory.noise_norms import NoiseKind, NoiseVector
from privopt.theory.perturbation_cost import perturbation_cost
from privopt.theory.rate import FIXED, Powers, Quantity, Rate, Term, no_rate

__all__ = ["linf_output_perturbation_rate"]

_SOURCE = "Ghazi, Guzman, Kamath, Kumar and Manurangsi 2024 (arXiv:2404.10881), section 4"


def linf_output_perturbation_rate(
    problem_class: ProblemClass,
    *,
    regularisation: float,
    scale: float,
    gaussian: bool,
    distance: float,
    power: float | None = None,
    share: float = 0.25,
    projection: str = "linf",
    glm: bool = False,
    solver_error: float = 0.0,
    smoothing: float = 0.0,
    spread: Powers = Powers(sparsity=0.5),  # noqa: B008
) -> Rate:
    """``E F(w) - F* <= c lambda D^2 + g b + L tau + L^2 h/2``.

    The four terms are the costs of regulariser, noise, solver and smoothing. The regulariser costs
    at most ``lambda D^2/4``, as in :func:`privopt.theory.output_perturbation_rate`; the
    published bound is ``lambda D^2/2``. ``g`` is that of :func:`perturbation_cost`.

    *Gaussian noise*, ``b = 2 L kappa/(lambda n)``, ``lambda`` balanced: ``2^{5/4} L D sqrt(kappa/n)
    (s ln 2d)^{1/4}`` on a bounded set, ``sqrt(2)`` less on the whole space. Published, ``kappa =
    sqrt(2 ln(1.25/delta))/epsilon``: ``4 L D (s ln(1.25/delta) ln 2d)^{1/4}/sqrt(n epsilon)``.

    *Laplace noise* on the whole space, ``Phi = s (1 + .. + 1/d)/(n epsilon)``: of order ``L^{4/5}
    H^{1/5} D^{6/5} Phi^{2/5}`` where ``H`` exceeds ``lambda``, and ``sqrt(2) L D Phi^{1/2}`` where
    ``H`` is far below; published is ``Phi^{1/3}``.

    Parameters
    ----------
    problem_class : ProblemClass
        With ``sparsity``.
    regularisation, smoothing : float
        ``lambda`` and ``h``.
    scale : float
        ``sigma`` or ``b`` of the noise.
    gaussian : bool
    distance : float
        ``D``, at least the distance of some minimiser from the centre.
    power : float, optional
        How the bound moves with the noise where ``lambda`` is balanced, as a
        :class:`BalancedMinimiser` says; None for a ``lambda`` that is given.
    share : float
        ``c``.
    projection : {"linf", "ball", "l2", "none"}
    glm : bool
        Whether losses are generalised linear ones.
    solver_error : float
        ``tau``.
    spread : Powers
        How ``Delta_1/Delta_2``, to which the scale of Laplace noise is proportional, moves with the
        sizes.

    Examples
    --------
    >>> facts = ProblemClass(n=10_000, dim=5000, lipschitz=1.0, radius=1.0, sparsity=4)
    >>> rate = linf_output_perturbation_rate(
    ...     facts, regularisation=0.2, scale=0.0042, gaussian=True, distance=1.0, power=0.5)
    >>> round(rate.upper, 4), rate.exponents["n"]
    (0.1221, -0.5)
    """
    cost = perturbation_cost(
        problem_class, gaussian=gaussian, projection=projection, glm=glm, scale=scale
    )
    if math.isinf(cost.factor):
        return no_rate("what is released may lie outside the set")
    balanced = power is not None
    bias = share * regularisation * distance**2
    noise, blur = cost.factor * scale, 0.5 * problem_class.lipschitz**2 * smoothing
    if power is None:  # both of noise and smoothing where they are balanced with each other
        power = noise / (noise + blur) if smoothing > 0.0 and not gaussian else 1.0
    scales = Powers(n=-cost.power, dim=cost.dim, epsilon=-cost.power, sparsity=cost.sparsity)
    if not gaussian:
        scales = scales + spread
    moved = power * scales
    moves = moved if balanced else FIXED
    terms = (
        Term("noise", noise, moved),
        Term("regulariser", bias, moves),
        Term("solver", problem_class.lipschitz * solver_error, Powers(n=-1.0) + -1.0 * moves),
        Term("smoothing", blur, moved),
    )
    quotient = "lambda D^2/4" if share == 0.25 else f"{share:g} lambda D^2"
    return Rate(
        quantity=Quantity.EMPIRICAL_RISK,
        theorem=f"E F(w) - F* <= {quotient} + {cost.formula}",
        source=_SOURCE,
        terms=terms,
        cap=largest_excess(problem_class),
        regime=("" if balanced else "lambda fixed, ")
        + _regime(problem_class, gaussian, projection, glm, spread),
        tight_on="sparse_linear"
        if balanced and projection in ("linf", "ball") and gaussian
        else None,
    )


def _regime(
    problem_class: ProblemClass, gaussian: bool, projection: str, glm: bool, spread: Powers
) -> str:
    """Where noise that counts by its largest coordinate costs less than by its Euclidean norm."""
    bounded = math.isfinite(problem_class.radius)
    if not gaussian and spread.sparsity == 0.0:
        return "dense: sqrt(d) <= sqrt(s) + sqrt(k H/lambda)/2"
    if glm and not bounded:
        return "no dimension: generalised linear losses on the whole space"
    if bounded and projection == "l2":
        return "dense: the Euclidean projection"
    cost = perturbation_cost(problem_class, gaussian=gaussian)
    noise = NoiseVector(
        NoiseKind.GAUSSIAN if gaussian else NoiseKind.LAPLACE, 1.0, problem_class.dim
    )
    euclidean = problem_class.lipschitz * math.sqrt(noise.square)
    rule = f"{cost.formula} = {cost.factor:.3g} b <= L E|z|_2 = {euclidean:.3g} b"
    if cost.factor <= euclidean:
        return f"sparse: {rule}"
    return f"dense, not sparse: {rule} fails, and output_perturbation adds less to the risk"

"""What noise on a minimiser adds to the risk, by its largest coordinate or by its norm.

Losses whose gradients have at most ``s`` numbers that are not 0 satisfy ``F(v) - F(w) <= |grad
F(v)|_1 |v - w|_inf <= L sqrt(s) |v - w|_inf``, and the largest coordinate of the noise grows like
``sqrt(ln d)`` (Gaussian) or ``ln d`` (Laplace), where its Euclidean norm grows like ``sqrt(d)``.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from scipy.special import polygamma

from privopt.spec import ProblemClass
from privopt.theory.noise_norms import NoiseKind, NoiseVector

__all__ = ["PerturbationCost", "perturbation_cost"]


class PerturbationCost(NamedTuple):
    """What noise of scale 1 adds to the risk, as a formula too, and its exponents.

    Attributes
    ----------
    factor : float
        ``g``: noise of a scale ``b`` costs at most ``g b``.
    formula : str
    dim, sparsity : float
        Exponents at this setting, local logarithms included.
    power : float
        The exponent of the scale: above 1 where a logarithm holds it.
    """

    factor: float
    formula: str
    dim: float
    sparsity: float
    power: float = 1.0


def perturbation_cost(
    problem_class: ProblemClass,
    *,
    gaussian: bool,
    projection: str = "linf",
    glm: bool = False,
    scale: float = 1.0,
) -> PerturbationCost:
    """``E F(proj(w + z)) - F(w) <= g b`` for a member ``w``, and noise ``z`` of scale ``b``.

    *Nearest in the largest coordinate*: ``|proj(w + z) - w|_inf <= |proj(w + z) - (w + z)|_inf +
    |z|_inf <= 2 |z|_inf``, since ``w`` is a member; hence ``2 L sqrt(s) E|z|_inf``. On the whole
    space nothing is projected, and the 2 drops out.

    *Nearest in the largest coordinate of a Euclidean ball*, Gaussian noise: that is ``S_tau(w +
    z)``, so that ``|proj(w + z) - w|`` is nowhere above ``|z_j| + tau``, and no gradient of ``s``
    numbers sees more than ``|z|_(s) + sqrt(s) tau``. Both means are those of
    :class:`privopt.theory.NoiseVector`, ``sqrt(s ln(d/s))`` and ``sqrt(ln(d b/R))``, the logarithm
    of as many entries as the set has no room for. Generalised linear losses see ``|<x_i, z>| +
    |x_i|_1 tau``, whose first part has no dimension.

    *Generalised linear losses on the whole space*: the loss of record ``i`` depends on ``<x_i,
    z>`` alone. That is ``|x_i|`` times a variable whose mean modulus is ``sqrt(2/pi) b`` (Gaussian)
    or at most ``sqrt(2) b`` (Laplace), whatever the dimension and the sparsity.

    *Nearest in the Euclidean norm*: ``L E|z|_2``, as projecting does not expand distances.

    *Not projected, although there is a set*: nothing is known of losses outside.

    Source: Jain and Thakurta 2014 observe the second for risks of linear predictions.

    Examples
    --------
    >>> facts = ProblemClass(n=100, dim=50, lipschitz=1.0, radius=1.0, sparsity=4)
    >>> cost = perturbation_cost(facts, gaussian=True)
    >>> cost.formula, round(cost.factor, 3)
    ('2 L sqrt(s) E|z|_inf', 12.139)
    """
    dim, lipschitz = problem_class.dim, problem_class.lipschitz
    sparsity = problem_class.sparsity or dim
    bounded = math.isfinite(problem_class.radius)
    if glm and not bounded:
        factor, name = (math.sqrt(2.0 / math.pi), "sqrt(2/pi)") if gaussian else (
            math.sqrt(2.0), "sqrt(2)"
        )  # fmt: skip
        letter = "sigma" if gaussian else "b"
        return PerturbationCost(lipschitz * factor, f"{name} L {letter}", 0.0, 0.0)
    if bounded and projection == "none":
        return PerturbationCost(math.inf, "unknown outside the set", 0.0, 0.0)
    noise = NoiseVector(NoiseKind.GAUSSIAN if gaussian else NoiseKind.LAPLACE, 1.0, dim)
    if bounded and projection == "ball" and gaussian:
        return _on_a_ball(problem_class, glm, scale)
    if bounded and projection == "l2":
        return PerturbationCost(lipschitz * math.sqrt(noise.square), "L E|z|_2", 0.5, 0.0)
    growth = 0.5 / math.log(2.0 * dim)
    if not gaussian:
        growth = dim * float(polygamma(1, dim + 1.0)) / noise.largest
    twice, name = (2.0, "2 ") if bounded else (1.0, "")
    factor = twice * lipschitz * math.sqrt(sparsity) * noise.largest
    return PerturbationCost(factor, f"{name}L sqrt(s) E|z|_inf", growth, 0.5)


def _on_a_ball(facts: ProblemClass, glm: bool, scale: float) -> PerturbationCost:
    """Its exponents by differences."""
    sparsity = facts.sparsity or facts.dim
    noise = "sqrt(2/pi) b" if glm else "E|z|_(s)"

    def cost(scale: float, dim: float, sparsity: float) -> float:
        vector = NoiseVector(NoiseKind.GAUSSIAN, scale, round(dim))
        root = math.sqrt(sparsity)
        few = math.sqrt(2.0 / math.pi) * scale if glm else vector.largest_few(round(sparsity))
        return min(few, root * vector.largest) + root * vector.ball_threshold(facts.radius)

    here, dim = cost(scale, facts.dim, sparsity), 2.0 * facts.dim

    def slope(there: float, ratio: float) -> float:
        return math.log(there / here) / math.log(ratio)

    return PerturbationCost(
        facts.lipschitz * here / scale,
        f"L ({noise} + sqrt(s) E tau)",
        slope(cost(scale, dim, sparsity), 2.0),
        slope(cost(scale, facts.dim, 2.0 * sparsity), 2.0),
        slope(cost(1.001 * scale, facts.dim, sparsity), 1.001),
    )

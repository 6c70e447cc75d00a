"""Output perturbation where noise counts by its largest coordinate: cost, regulariser and rate.

Losses whose gradients have at most ``s`` numbers that are not 0 satisfy ``F(v) - F(w) <= |grad
F(v)|_1 |v - w|_inf <= L sqrt(s) |v - w|_inf``, and the largest coordinate of the noise grows like
``sqrt(ln d)`` (Gaussian) or ``ln d`` (Laplace), where its Euclidean norm grows like ``sqrt(d)``.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from scipy.optimize import brentq
from scipy.special import polygamma

from privopt.arguments import checked
from privopt.spec import ProblemClass
from privopt.theory.noise_norms import NoiseKind, NoiseVector
from privopt.theory.rate import FIXED, Powers, Quantity, Rate, Term, largest_excess, no_rate

_SOURCE = "Ghazi, Guzman, Kamath, Kumar and Manurangsi 2024 (arXiv:2404.10881), section 4"
_SMOOTHING_SHARE = 0.01


class PerturbationCost(NamedTuple):
    """Noise of a scale ``b`` adds at most ``g b`` to the risk, ``g`` the ``factor``.

    ``formula`` says ``g b``. ``dim`` and ``sparsity`` are its exponents at this setting, local
    logarithms included, and ``power`` that of the scale: above 1 where a logarithm holds it.
    """

    factor: float
    formula: str
    dim: float
    sparsity: float
    power: float = 1.0


@checked
def perturbation_cost(
    problem_class: ProblemClass,
    *,
    gaussian: bool,
    projection: str = "linf",
    glm: bool = False,
    scale: float = 1.0,
) -> PerturbationCost:
    """``E F(proj(w + z)) - F(w) <= g b`` for a member ``w``, and noise ``z`` of scale ``b``.

    ``projection`` is onto the member nearest in the largest coordinate (``"linf"``): ``g b = 2 L
    sqrt(s) E|z|_inf``, as ``|proj(w + z) - w|_inf <= 2 |z|_inf``. On the whole space nothing is
    projected, and the 2 drops out. The same on a Euclidean ball with Gaussian noise (``"ball"``):
    the nearest is ``S_tau(w + z)``, so no gradient of ``s`` numbers sees more than ``|z|_(s) +
    sqrt(s) tau``, whose means are those of :class:`NoiseVector`. Nearest in the Euclidean norm
    (``"l2"``): ``L E|z|_2``. ``"none"`` where there is a set: nothing is known of losses outside.

    Of generalised linear losses (``glm``) the loss of record ``i`` depends on ``<x_i, z>`` alone,
    of mean modulus ``sqrt(2/pi) b |x_i|`` (Gaussian) or at most ``sqrt(2) b |x_i|`` (Laplace): on
    the whole space no dimension counts, on a ball ``|x_i|_1 tau`` is added.

    Source: Jain and Thakurta 2014 observe this for risks of linear predictions.
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
    if bounded and projection == "ball" and gaussian and scale > 0.0:
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


@checked
def minimiser_stability(problem_class: ProblemClass) -> float:
    """``2 L^2/n``: over ``lambda``, how much better a minimiser fits its own records than others.

    Source: Bousquet and Elisseeff 2002; Shalev-Shwartz, Shamir, Srebro and Sridharan 2009.
    """
    return 2.0 * problem_class.lipschitz**2 / problem_class.n


class BalancedMinimiser(NamedTuple):
    """The ``lambda`` of least bound, the width ``h`` of smoothing, and how the bound moves.

    ``power`` is ``d log bound / d log noise``, the share of the noise in the bound.
    """

    regularisation: float
    smoothing: float
    power: float


@checked
def balanced_minimiser(
    *, linear: float, curved: float = 0.0, order: float = 1.5, distance: float, share: float = 0.25
) -> BalancedMinimiser:
    """``argmin_lambda  A/lambda + B/lambda^p + c lambda D^2``, by a root in ``log lambda``.

    ``linear``, ``curved`` and ``order`` are ``A``, ``B`` and ``p``; ``distance`` is ``D``, from the
    centre to the optimum; ``share`` is ``c``: 1/4, or 1/2 as published.
    """
    stiff = share * distance**2
    ends = math.sqrt(linear / stiff), (order * curved / stiff) ** (1.0 / (1.0 + order))
    low = max(ends)

    def slope(log: float) -> float:
        regularisation = math.exp(log)
        drop = linear / regularisation + order * curved / regularisation**order
        return stiff * regularisation - drop

    best = low
    if curved > 0.0:  # at twice the lower end both parts are below half of the regulariser's
        best = math.exp(brentq(slope, math.log(low), math.log(2.0 * low), xtol=1e-14))
    noise = linear / best + curved / best**order
    return BalancedMinimiser(best, 0.0, noise / (noise + stiff * best))


@checked
def ball_balanced_minimiser(
    problem_class: ProblemClass, *, unit: float, glm: bool, distance: float
) -> BalancedMinimiser:
    """``argmin_lambda  C(u/lambda) + lambda D^2/4``, ``C`` the cost of Gaussian noise on a ball.

    Noise of scale ``u/lambda`` is added, ``u`` the ``unit``.
    """

    def noise(regularisation: float) -> tuple[float, float]:
        scale = unit / regularisation
        cost = perturbation_cost(
            problem_class, gaussian=True, projection="ball", glm=glm, scale=scale
        )
        return cost.power, cost.factor * scale

    def slope(log: float) -> float:
        power, cost = noise(math.exp(log))
        return log - math.log(power * cost) + math.log(0.25 * distance**2)

    middle = 0.5 * math.log(unit)
    best = math.exp(brentq(slope, middle - 40.0, middle + 40.0, xtol=1e-9))
    power, _ = noise(best)
    return BalancedMinimiser(best, 0.0, 1.0 / (1.0 + power))


@checked
def pure_balanced_minimiser(
    problem_class: ProblemClass,
    *,
    unit: float,
    cost: float,
    glm: bool,
    distance: float,
    published: bool = False,
) -> BalancedMinimiser:
    """The same for Laplace noise of scale ``u/lambda`` times a spread of the l1 sensitivity.

    The spread is ``min{sqrt(d), sqrt(s) + (1/2) sqrt(k H/lambda)}``, ``k = s`` for generalised
    linear losses and ``2s`` for others; as published ``sqrt(2s) (1 + 2H/lambda)``, and the
    regulariser then counts twice. ``unit`` is ``u = lambda Delta_2/epsilon``, ``cost`` what noise
    of scale 1 costs; the class has a sparsity and a smoothness.
    """
    smoothness, sparsity = problem_class.smoothness, problem_class.sparsity
    assert smoothness is not None
    assert sparsity is not None
    noise = cost * unit
    if published:
        linear = noise * math.sqrt(2.0 * sparsity)
        curved = 2.0 * smoothness * linear
        return balanced_minimiser(
            linear=linear, curved=curved, order=2.0, distance=distance, share=0.5
        )
    width = sparsity if glm else 2.0 * sparsity
    sparse = balanced_minimiser(
        linear=noise * math.sqrt(sparsity),
        curved=0.5 * noise * math.sqrt(width * smoothness),
        distance=distance,
    )
    dense = balanced_minimiser(linear=noise * math.sqrt(problem_class.dim), distance=distance)
    # either bound is its regulariser's part over 1 - power
    return min(sparse, dense, key=lambda each: each.regularisation / (1.0 - each.power))


@checked
def smoothed_pure_balanced_minimiser(
    problem_class: ProblemClass, *, unit: float, cost: float, distance: float
) -> BalancedMinimiser:
    """The same for generalised linear losses with kinks, smoothed over a width ``h`` to be chosen.

    ``g u (sqrt(s) + (1/2) sqrt(s/(lambda h)))/lambda + L^2 h/2 + lambda D^2/4``. At ``lambda`` the
    best width has ``L^2 h = (g u sqrt(s) L/2)^{2/3}/lambda``. Where ``sqrt(d)`` spreads less,
    widths cost a hundredth of the noise.
    """
    parts = _smoothed(problem_class, unit, cost)
    best = balanced_minimiser(linear=parts.noise + parts.blur, distance=distance)
    width = smoothing_width(problem_class, best.regularisation, unit=unit, cost=cost)
    return BalancedMinimiser(best.regularisation, width, best.power * parts.power)


@checked
def smoothing_width(
    problem_class: ProblemClass, regularisation: float, *, unit: float, cost: float
) -> float:
    """The best width ``h`` at a given ``lambda``, at most ``4/L^2``.

    The cap keeps the logistic loss, which is its own envelope and ``L^2/4``-smooth, within ``1/h``.
    """
    blur = _smoothed(problem_class, unit, cost).blur
    return min(2.0 * blur / regularisation, 4.0) / problem_class.lipschitz**2


class _Smoothed(NamedTuple):
    """Noise and smoothing, both times ``lambda``, and how their sum moves with the noise."""

    noise: float
    blur: float
    power: float


def _smoothed(problem_class: ProblemClass, unit: float, cost: float) -> _Smoothed:
    noise, sparsity = cost * unit, problem_class.sparsity or problem_class.dim
    rooted = noise * math.sqrt(sparsity)
    curved = (0.5 * rooted * problem_class.lipschitz) ** (2.0 / 3.0)
    full = noise * math.sqrt(problem_class.dim)
    sparse = _Smoothed(rooted + curved, 0.5 * curved, (rooted + curved) / (rooted + 1.5 * curved))
    dense = _Smoothed(full, _SMOOTHING_SHARE * full, 1.0)
    return min(sparse, dense, key=lambda each: each.noise + each.blur)


@checked
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
    population: bool = False,
) -> Rate:
    """``E F(w) - F* <= c lambda D^2 + g b + L tau + L^2 h/2``.

    The four terms are the costs of regulariser, noise, solver and smoothing. The regulariser costs
    at most ``lambda D^2/4``, as in :func:`privopt.theory.output_perturbation_rate`; the published
    bound is ``lambda D^2/2``. ``g`` is that of :func:`perturbation_cost`.

    *Gaussian noise*, ``b = 2 L kappa/(lambda n)``, ``lambda`` balanced: ``2^{5/4} L D sqrt(kappa/n)
    (s ln 2d)^{1/4}`` on a bounded set, ``sqrt(2)`` less on the whole space. Published, ``kappa =
    sqrt(2 ln(1.25/delta))/epsilon``: ``4 L D (s ln(1.25/delta) ln 2d)^{1/4}/sqrt(n epsilon)``.

    *Laplace noise* on the whole space, ``Phi = s (1 + .. + 1/d)/(n epsilon)``: of order ``L^{4/5}
    H^{1/5} D^{6/5} Phi^{2/5}`` where ``H`` exceeds ``lambda``, and ``sqrt(2) L D Phi^{1/2}`` where
    ``H`` is far below; published is ``Phi^{1/3}``.

    *The population risk* of independent records (``population``, Gaussian noise) has another term,
    ``2 L^2/(lambda n)``: with one record replaced the minimiser moves by at most ``2L/(lambda n)``,
    and the loss of no record by more than ``L`` times that, so the minimiser fits its own records
    better than fresh ones by no more. The other terms are those of the records' mean loss: on
    average the population's optimum has there what it has on the population, and gradients of the
    population's risk have an l1 norm of at most ``L sqrt(s)`` too. Balanced, the sum is of order
    ``L D ((s ln d)^{1/4} sqrt(kappa/n) + 1/sqrt(n))``.

    ``regularisation``, ``smoothing`` and ``solver_error`` are ``lambda``, ``h`` and ``tau``;
    ``scale`` is ``sigma`` or ``b`` of the noise; ``distance`` is ``D``, at least that of some
    minimiser from the centre; ``share`` is ``c``. ``power`` is that of a
    :class:`BalancedMinimiser`; None for a ``lambda`` that is given. ``projection`` and ``glm`` are
    those of :func:`perturbation_cost`. ``spread`` says how ``Delta_1/Delta_2``, to which the scale
    of Laplace noise is proportional, moves with the sizes.

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
    gap = minimiser_stability(problem_class) / regularisation if population else 0.0
    if population and balanced:  # lambda^2 moves as the mean of noise and gap, each by its share
        share_of_noise = noise / (noise + gap)
        moves = 0.5 * (share_of_noise * scales + (1.0 - share_of_noise) * Powers(n=-1.0))
        moved = scales + -1.0 * moves
    terms: tuple[Term, ...] = (
        Term("noise", noise, moved),
        Term("regulariser", bias, moves),
        Term("solver", problem_class.lipschitz * solver_error, Powers(n=-1.0) + -1.0 * moves),
        Term("smoothing", blur, moved),
    )
    if population:
        terms += (Term("generalisation", gap, Powers(n=-1.0) + -1.0 * moves),)
    quotient = "lambda D^2/4" if share == 0.25 else f"{share:g} lambda D^2"
    return Rate(
        quantity=Quantity.POPULATION_RISK if population else Quantity.EMPIRICAL_RISK,
        theorem=f"E F(w) - F* <= {quotient} + {cost.formula}"
        + (" + 2 L^2/(lambda n)" if population else ""),
        source=_SOURCE,
        terms=terms,
        cap=largest_excess(problem_class),
        regime=("" if balanced else "lambda fixed, ")
        + _regime(problem_class, gaussian, projection, glm, spread),
        tight_on="sparse_linear"
        if balanced and projection in ("linf", "ball") and gaussian and not population
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

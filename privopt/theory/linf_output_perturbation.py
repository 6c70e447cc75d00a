"""Output perturbation for losses with sparse gradients: cost of noise, regulariser and rate.

If gradients have at most ``s`` nonzero entries, ``F(v) - F(w) <= |grad F(v)|_1 |v - w|_inf <= L
sqrt(s) |v - w|_inf``. The maximum norm of the noise grows like ``sqrt(ln d)`` (Gaussian) or ``ln
d`` (Laplace); its Euclidean norm grows like ``sqrt(d)``.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from scipy.optimize import brentq
from scipy.special import polygamma

from privopt.arguments import checked
from privopt.spec import ProblemClass
from privopt.theory.rate import FIXED, Exponents, Quantity, Rate, Term, largest_excess, no_rate
from privopt.theory.sparse_means import NoiseKind, NoiseVector

_SOURCE = (
    "Ghazi, Guzman, Kamath, Kumar and Manurangsi 2024 (arXiv:2404.10881), output perturbation with "
    "projection in the maximum norm"
)
_SMOOTHING_SHARE = 0.01
_STEP = 1e-5  # of finite differences of logarithms
_LEAST = 1e-300  # the tail of the threshold underflows if the ball does not bind


class PerturbationCost(NamedTuple):
    """Linear bound ``g b`` of the risk that noise of scale ``b`` adds, with ``g`` the ``factor``.

    ``formula`` is ``g b`` as text. ``dim`` and ``sparsity`` are its local exponents. ``power`` is
    the exponent of ``b``, above 1 if a logarithm depends on it.
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
    regularisation: float = 0.0,
    distance: float = math.inf,
) -> PerturbationCost:
    """Return a ``g`` with ``E F(proj(w + z)) - F(w) <= g b`` for noise ``z`` of scale ``b``.

    ``w`` is any point of the set.

    ``projection``
        ``"linf"``: nearest point in the maximum norm, ``g b = 2 L sqrt(s) E|z|_inf``. On the whole
        space there is no projection and no factor 2. ``"ball"``: the same on a Euclidean ball with
        Gaussian noise; ``g b`` is the smaller of ``L (min(E|z|_(s), sqrt(s) E|z|_inf) + sqrt(s) E
        tau)`` and, for ``H``-smooth losses, ``L sqrt(s) E tau + (H/2) (|z|_(s) + sqrt(s) tau)^2``
        with root mean squares in the brackets. ``"l2"``: Euclidean projection, ``g b = L E|z|_2``.
        ``"none"``: infinite if there is a set, because losses are unknown outside it.
    ``glm``
        True for generalised linear losses. On the whole space ``g b`` is ``sqrt(2/pi) L sigma``
        (Gaussian) or ``sqrt(2) L b`` (Laplace), independent of the dimension. On a ball
        ``sqrt(2/pi) sigma`` replaces ``E|z|_(s)``.
    ``regularisation``, ``distance``
        If ``lambda`` and ``D`` are given for a ball, ``w`` is the minimiser of ``F + (lambda/2)
        |w|^2``, and the result has ``E F(proj(w + z)) - F* <= lambda D^2/4 + g b``. This ``g b`` is
        smaller than at any point: a minimiser near the sphere has a smaller bias.

    Proof: :ref:`Sparse gradients, Theorem 5 <theory-sparse-5>`; for a minimiser :ref:`Theorem 14
    <theory-sparse-14>`. Source: Jain and Thakurta 2014 for
    linear predictions.
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
        return _on_a_ball(_BallCost(problem_class, glm, distance), scale, regularisation)
    if bounded and projection == "l2":
        return PerturbationCost(lipschitz * math.sqrt(noise.square), "L E|z|_2", 0.5, 0.0)
    growth = 0.5 / math.log(2.0 * dim)
    if not gaussian:
        growth = dim * float(polygamma(1, dim + 1.0)) / noise.largest
    twice, name = (2.0, "2 ") if bounded else (1.0, "")
    factor = twice * lipschitz * math.sqrt(sparsity) * noise.largest
    return PerturbationCost(factor, f"{name}L sqrt(s) E|z|_inf", growth, 0.5)


class _BallCost(NamedTuple):
    """Cost of Gaussian noise on a ball, as a function of noise, ``lambda`` and sizes."""

    problem_class: ProblemClass
    glm: bool
    distance: float

    def at(self, noise: NoiseVector, sparsity: float, norm: float) -> tuple[float, float]:
        """Return the bounds of ``E F(v) - F(w)`` for ``|w| <= norm``: for any losses, and smooth.

        The second is infinite if no smoothness is declared.
        """
        facts, root = self.problem_class, math.sqrt(sparsity)
        threshold = noise.ball_threshold(facts.radius, norm)
        few = spread = noise.largest_few(sparsity)
        if self.glm:
            few, spread = math.sqrt(2.0 / math.pi) * noise.scale, noise.scale
        general = facts.lipschitz * (min(few, root * noise.largest) + root * threshold)
        if facts.smoothness is None:
            return general, math.inf
        second = spread + root * math.hypot(threshold, noise.scale)
        return general, facts.lipschitz * root * threshold + 0.5 * facts.smoothness * second**2

    def __call__(
        self, scale: float, regularisation: float, dim: float, sparsity: float
    ) -> tuple[float, float]:
        """Return the two costs, of which the smaller one is proved, beside ``lambda D^2/4``.

        Let ``C(q)`` be the smaller cost for ``|w| <= q``. For every ``q`` in ``[D/2, R]`` the
        excess risk is at most ``max{lambda D^2/4 + C(q), lambda q (D - q) + C(R)}``. Both are equal
        at the best ``q``.
        """
        noise = NoiseVector(NoiseKind.GAUSSIAN, scale, dim)
        radius, half = self.problem_class.radius, 0.5 * self.distance
        most = self.at(noise, sparsity, radius)
        if regularisation == 0.0 or half >= radius:
            return most

        def slack(norm: float) -> float:
            bias = regularisation * (norm - half) ** 2
            return bias + min(self.at(noise, sparsity, norm)) - min(most)

        if slack(half) >= 0.0:
            return self.at(noise, sparsity, half)
        return self.at(noise, sparsity, brentq(slack, half, radius, xtol=1e-12 * radius))


def _on_a_ball(cost: _BallCost, scale: float, regularisation: float) -> PerturbationCost:
    """Return the cost of Gaussian noise on a ball; exponents are finite differences."""
    facts = cost.problem_class
    dim, sparsity = facts.dim, facts.sparsity or facts.dim
    general, smooth = cost(scale, regularisation, dim, sparsity)
    base = max(min(general, smooth), _LEAST)
    noise = "sqrt(2/pi) b" if cost.glm else "E|z|_(s)"
    formula = f"L ({noise} + sqrt(s) E tau)"
    if smooth < general:
        formula = "L sqrt(s) E tau"
        if facts.smoothness:
            few = "b" if cost.glm else "|z|_(s)"
            formula += f" + H/2 ({few} + sqrt(s) tau)^2"

    def slope(scale: float, dim: float, sparsity: float) -> float:
        value = max(min(cost(scale, regularisation, dim, sparsity)), _LEAST)
        return math.log(value / base) / _STEP

    more = math.exp(_STEP)
    return PerturbationCost(
        base / scale,
        formula,
        slope(scale, more * dim, sparsity),
        slope(scale, dim, more * sparsity),
        slope(more * scale, dim, sparsity),
    )


@checked
def minimiser_stability(problem_class: ProblemClass) -> float:
    """Return ``2 L^2/n``: over ``lambda`` it bounds the generalisation gap of the minimiser.

    Source: Bousquet and Elisseeff 2002; Shalev-Shwartz, Shamir, Srebro and Sridharan 2009.
    """
    return 2.0 * problem_class.lipschitz**2 / problem_class.n


class BalancedMinimiser(NamedTuple):
    """The best ``lambda``, the smoothing width ``h`` and the exponent of the noise.

    ``power`` is ``d log bound / d log noise``, the share of the noise in the bound.
    """

    regularisation: float
    smoothing: float
    power: float


@checked
def balanced_minimiser(
    *, linear: float, curved: float = 0.0, order: float = 1.5, distance: float, share: float = 0.25
) -> BalancedMinimiser:
    """Return ``argmin_lambda  A/lambda + B/lambda^p + c lambda D^2``, by a root in ``log lambda``.

    ``linear``, ``curved`` and ``order`` are ``A``, ``B`` and ``p``. ``distance`` is ``D``, the
    distance of the minimiser from the centre. ``share`` is ``c``: 1/4, or 1/2 as published.
    """
    stiff = share * distance**2
    low = max(math.sqrt(linear / stiff), (order * curved / stiff) ** (1.0 / (1.0 + order)))

    def slope(log: float) -> float:
        regularisation = math.exp(log)
        drop = linear / regularisation + order * curved / regularisation**order
        return stiff * regularisation - drop

    best = low
    if curved > 0.0:  # at 2 low both noise terms are below half of the regulariser term
        best = math.exp(brentq(slope, math.log(low), math.log(2.0 * low), xtol=1e-14))
    noise = linear / best + curved / best**order
    return BalancedMinimiser(best, 0.0, noise / (noise + stiff * best))


@checked
def ball_balanced_minimiser(
    problem_class: ProblemClass, *, unit: float, glm: bool, distance: float
) -> BalancedMinimiser:
    """Return ``argmin_lambda  C(u/lambda, lambda) + lambda D^2/4`` for Gaussian noise on a ball.

    ``C`` is the cost of noise of scale ``u/lambda``, with ``u`` the ``unit``, on the minimiser.
    """
    cost = _BallCost(problem_class, glm, distance)
    dim, sparsity = problem_class.dim, problem_class.sparsity or problem_class.dim

    def noise(log: float) -> float:
        regularisation = math.exp(log)
        return min(cost(unit / regularisation, regularisation, dim, sparsity))

    def drop(log: float) -> float:  # of the noise, in units of log lambda; 0 without noise
        return max(noise(log) - noise(log + _STEP), _LEAST) / _STEP

    def slope(log: float) -> float:
        return log + math.log(0.25 * distance**2) - math.log(drop(log))

    middle = 0.5 * math.log(unit)
    best = math.exp(brentq(slope, middle - 40.0, middle + 40.0, xtol=1e-9))
    total = noise(math.log(best)) + 0.25 * best * distance**2
    return BalancedMinimiser(best, 0.0, noise(math.log(best)) / total)


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
    """Return the balanced ``lambda`` for Laplace noise scaled to the l1 sensitivity.

    The scale is ``u/lambda`` times ``Delta_1/Delta_2 <= min{sqrt(d), sqrt(s) + (1/2) sqrt(k
    H/lambda)}``, with ``k = s`` for generalised linear losses and ``2s`` for others. As
    ``published`` the ratio is ``sqrt(2s) (1 + 2H/lambda)`` and the regulariser counts twice.
    ``unit`` is ``u = lambda Delta_2/epsilon``; ``cost`` is the cost of noise of scale 1. The class
    must have a sparsity and a smoothness.
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
    # each bound equals its regulariser term divided by 1 - power
    return min(sparse, dense, key=lambda each: each.regularisation / (1.0 - each.power))


@checked
def smoothed_pure_balanced_minimiser(
    problem_class: ProblemClass, *, unit: float, cost: float, distance: float
) -> BalancedMinimiser:
    """Return the balanced ``lambda`` and width ``h`` for generalised linear losses with kinks.

    They minimise ``g u (sqrt(s) + (1/2) sqrt(s/(lambda h)))/lambda + L^2 h/2 + lambda D^2/4``. At
    ``lambda`` the best width satisfies ``L^2 h = (g u sqrt(s) L/2)^{2/3}/lambda``. If ``sqrt(d)``
    is the smaller ratio of sensitivities, the smoothing term is a hundredth of the noise.
    """
    parts = _smoothed(problem_class, unit, cost)
    best = balanced_minimiser(linear=parts.noise + parts.blur, distance=distance)
    width = smoothing_width(problem_class, best.regularisation, unit=unit, cost=cost)
    return BalancedMinimiser(best.regularisation, width, best.power * parts.power)


@checked
def smoothing_width(
    problem_class: ProblemClass, regularisation: float, *, unit: float, cost: float
) -> float:
    """Return the best width ``h`` at a given ``lambda``, at most ``4/L^2``.

    The cap keeps the logistic loss, which is its own envelope and ``L^2/4``-smooth, within ``1/h``.
    """
    blur = _smoothed(problem_class, unit, cost).blur
    return min(2.0 * blur / regularisation, 4.0) / problem_class.lipschitz**2


class _Smoothed(NamedTuple):
    """Noise and smoothing terms times ``lambda``; exponent of their sum in the noise."""

    noise: float
    blur: float
    power: float


def _smoothed(problem_class: ProblemClass, unit: float, cost: float) -> _Smoothed:
    noise, sparsity = cost * unit, problem_class.sparsity or problem_class.dim
    linear = noise * math.sqrt(sparsity)
    curved = (0.5 * linear * problem_class.lipschitz) ** (2.0 / 3.0)
    full = noise * math.sqrt(problem_class.dim)
    sparse = _Smoothed(linear + curved, 0.5 * curved, (linear + curved) / (linear + 1.5 * curved))
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
    spread: Exponents = Exponents(sparsity=0.5),  # noqa: B008
    population: bool = False,
) -> Rate:
    """Return the rate ``E F(w) - F* <= c lambda D^2 + g b + L tau + L^2 h/2``.

    The four terms are regulariser, noise, solver and smoothing; ``g`` is the factor of
    :func:`perturbation_cost`. On a ball it depends on ``lambda``, see :ref:`Sparse gradients,
    Theorem 14 <theory-sparse-14>`, and the solver term is ``3 L tau``. Balanced, the bound is

    - with Gaussian noise ``b = 2 L kappa/(lambda n)``: ``2^{5/4} L D sqrt(kappa/n) (s ln
      2d)^{1/4}`` on a bounded set, ``sqrt(2)`` less on the whole space. Published, with ``kappa =
      sqrt(2 ln(1.25/delta))/epsilon``: ``4 L D (s ln(1.25/delta) ln 2d)^{1/4}/sqrt(n epsilon)``;
    - with Laplace noise on the whole space and ``Phi = s (1 + .. + 1/d)/(n epsilon)``: of order
      ``L^{4/5} H^{1/5} D^{6/5} Phi^{2/5}`` if ``H > lambda``, and ``sqrt(2) L D Phi^{1/2}`` if
      ``H`` is much smaller. Published: ``Phi^{1/3}``;
    - for the population risk, with independent records, ``2 L^2/(lambda n)`` is added. With
      Gaussian noise the order is ``L D ((s ln d)^{1/4} sqrt(kappa/n) + 1/sqrt(n))``.

    Proofs: :ref:`Sparse gradients, Theorems 6 <theory-sparse-6>` and :ref:`7 <theory-sparse-7>`.
    Source: Ghazi, Guzman, Kamath, Kumar and Manurangsi 2024 (arXiv:2404.10881), with ``lambda
    D^2/2``.

    Parameters
    ----------
    problem_class : ProblemClass
        Public facts.
    regularisation, smoothing, solver_error : float
        ``lambda``, ``h`` and ``tau``.
    scale, gaussian : float, bool
        ``sigma`` of Gaussian or ``b`` of Laplace noise.
    distance, share : float
        ``D``, at least the distance of some minimiser from the centre, and ``c``: 1/4, or 1/2 as
        published.
    power : float, optional
        Exponent of a :class:`BalancedMinimiser`; None if ``lambda`` is given.
    projection, glm : str, bool
        As for :func:`perturbation_cost`.
    spread : Exponents
        Exponents of ``Delta_1/Delta_2``, to which the scale of Laplace noise is proportional.
    population : bool
        True for the population risk.

    Examples
    --------
    >>> facts = ProblemClass(n=10_000, dim=5000, lipschitz=1.0, radius=1.0, sparsity=4)
    >>> rate = linf_output_perturbation_rate(
    ...     facts, regularisation=0.2, scale=0.0042, gaussian=True, distance=1.0, power=0.5)
    >>> round(rate.upper, 4), rate.exponents["n"]
    (0.1221, -0.5)
    """
    cost = perturbation_cost(
        problem_class, gaussian=gaussian, projection=projection, glm=glm, scale=scale,
        regularisation=regularisation if share == 0.25 else 0.0, distance=distance,
    )  # fmt: skip
    if math.isinf(cost.factor):
        return no_rate("the output may be outside the set")
    balanced = power is not None
    bias = share * regularisation * distance**2
    noise, blur = cost.factor * scale, 0.5 * problem_class.lipschitz**2 * smoothing
    if power is None:  # noise and smoothing are balanced with each other
        power = noise / (noise + blur) if smoothing > 0.0 and not gaussian else 1.0
    scales = Exponents(n=-cost.power, dim=cost.dim, epsilon=-cost.power, sparsity=cost.sparsity)
    if not gaussian:
        scales = scales + spread
    by_noise = power * scales
    by_lambda = by_noise if balanced else FIXED
    gap = minimiser_stability(problem_class) / regularisation if population else 0.0
    if population and balanced and gaussian:  # lambda^2 is proportional to noise plus gap
        share_of_noise = noise / (noise + gap)
        by_gap = (1.0 - share_of_noise) * Exponents(n=-1.0)
        by_lambda = 0.5 * (share_of_noise * scales + by_gap)
        by_noise = scales + -1.0 * by_lambda
    per_lambda = Exponents(n=-1.0) + -1.0 * by_lambda
    ball = projection == "ball" and math.isfinite(problem_class.radius)
    solver = (3.0 if ball else 1.0) * problem_class.lipschitz * solver_error
    terms: tuple[Term, ...] = (
        Term("noise", noise, by_noise),
        Term("regulariser", bias, by_lambda),
        Term("solver", solver, per_lambda),
        Term("smoothing", blur, by_noise),
    )
    if population:
        terms += (Term("generalisation", gap, per_lambda),)
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
    problem_class: ProblemClass, gaussian: bool, projection: str, glm: bool, spread: Exponents
) -> str:
    """Return the regime in which the maximum norm costs less than the Euclidean norm."""
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

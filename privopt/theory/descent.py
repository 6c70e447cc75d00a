"""Noisy projected descent: rates, step sizes, default number of steps.

The method is ``w_{t+1} = Proj(w_t - eta_t (g_t + z_t))`` for ``t = 1..T`` on convex,
``L``-Lipschitz losses. The start ``w_1`` is within ``R`` of every point of the set, ``g_t`` is the
gradient of a batch, and ``z_t`` is noise of standard deviation ``sigma`` per coordinate. With the
moments ``a`` and ``v`` of the batches, given the past::

    E |g_t + z_t|^2 <= G^2 = a L^2 + d sigma^2,
    E |g_t + z_t - grad F(w_t)|^2 <= V = v L^2 + d sigma^2.

The theorems and their proofs are in :doc:`/theory/descent`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from privopt.arguments import checked
from privopt.spec import ProblemClass
from privopt.theory.rate import (
    FIXED,
    GIVEN_STEPS,
    Exponents,
    Quantity,
    Rate,
    Term,
    add,
    largest_excess,
    no_rate,
    no_rate_if,
    unmet_assumptions,
)
from privopt.theory.steps import ALL_RECORDS, BatchMoments, OutputRule, StepRule

MAX_STEPS = 10**4  # of the default number of steps
_ROUND_OFF = 1e-9
_DIFFERENCE = 1e-6  # relative change of a step size, for the slope of a coefficient
_SLACK, _SMOOTH_SLACK = 0.1, 0.5  # relative excess of the bound over its limit, at default steps
_BY_NOISE = Exponents(n=2.0, dim=-1.0, epsilon=2.0)  # 1/(d sigma_1^2)


class DescentSetting(NamedTuple):
    """Quantities that all theorems of noisy descent depend on."""

    facts: ProblemClass
    steps: int
    noise_std: float
    moments: BatchMoments = ALL_RECORDS
    steps_powers: Exponents = GIVEN_STEPS

    @property
    def second_moment(self) -> float:
        """``G^2``; the noise alone if ``L`` is not declared."""
        return self._finite_sum(self.squares(self.moments.second_moment - 1.0, 1.0))

    @property
    def variance(self) -> float:
        """``V``; the noise alone if ``L`` is not declared."""
        return self._finite_sum(self.squares(self.moments.variance, 0.0))

    @property
    def convex_step(self) -> float:
        """``eta = R / (G sqrt(T + 1))``, the minimiser of the bound for convex losses."""
        return self.facts.radius / math.sqrt(self.second_moment * (self.steps + 1.0))

    @property
    def smooth_step(self) -> float:
        """``eta = 1/(H + sqrt(V T)/R)``, the minimiser of the bound for smooth convex losses.

        Infinite for linear losses (``H = 0``) without variance.
        """
        if self.facts.smoothness is None:
            raise ValueError("smoothness must be declared for this step size, got None")
        inverse = self.facts.smoothness + math.sqrt(self.variance * self.steps) / self.facts.radius
        return 1.0 / inverse if inverse > 0.0 else math.inf

    @property
    def strongly_convex_step(self) -> float:
        """``eta = A/(m T)``, ``A = ln(1 + z + 3 z^2)``, ``z = m R sqrt(T/V)``, in linear decay.

        For smooth and strongly convex losses. The bound of the last iterate is within 7 % of its
        minimum if ``T >= 30 H/m``. If this step is too long, the best of several multiples of
        ``1/H`` is returned.
        """
        smoothness, variance = self.facts.smoothness, self.variance
        assert smoothness is not None
        uncapped = _log_step(self, [])[0] if variance > 0.0 else math.inf

        def bound(size: float) -> float:
            start, noise, _ = _coefficients(self, StepRule(size, decay=1.0), smoothness)
            return start * self.facts.radius**2 + noise * variance

        sizes = {min(uncapped, share / smoothness) for share in (0.5, 0.75, 0.9, 0.97)}
        return min(sizes, key=bound)

    def squares(self, sampling: float, gradients: float) -> list[Term]:
        """Return ``d sigma^2`` and the gradient parts, which are in units of ``L^2``."""
        by_noise = Exponents(n=-2.0, dim=1.0, epsilon=-2.0) + self.steps_powers
        parts = [Term("noise", self.facts.dim * self.noise_std**2, by_noise)]
        # Sampling has the exponent of a fixed rate.
        by_rate = Exponents(n=-1.0)
        for name, share, powers in (
            ("sampling", sampling, by_rate),
            ("gradients", gradients, FIXED),
        ):
            if share > 0.0:
                parts.append(Term(name, share * self.facts.lipschitz**2, powers))
        return [part for part in parts if part.value > 0.0]

    @staticmethod
    def _finite_sum(parts: list[Term]) -> float:
        return math.fsum(part.value for part in parts if math.isfinite(part.value))

    def start(self, value: float) -> Term:
        """Return a term of order ``1/T``."""
        return Term("start", value, -1.0 * self.steps_powers)

    def rate(
        self,
        theorem: str,
        source: str,
        terms: list[Term],
        combine: Callable[..., float],
        condition: str,
        tight_on: str | None = None,
    ) -> Rate:
        """Return a rate of the empirical risk; the noise dominates under ``condition``."""
        return Rate(
            quantity=Quantity.EMPIRICAL_RISK,
            theorem=theorem,
            source=source,
            terms=tuple(terms),
            combine=combine,
            cap=largest_excess(self.facts),
            regime=self._regime(condition),
            tight_on=tight_on,
        )

    def _regime(self, condition: str) -> str:
        fixed = self.steps_powers in (FIXED, GIVEN_STEPS)
        if self.noise_std == 0.0:
            return "fixed T" if fixed else "default T"
        sampled = "" if self.moments == ALL_RECORDS else ", rate and noise multiplier"
        if fixed:
            return f"noise leading, {condition}, at fixed steps{sampled}"
        return f"at default steps{sampled}, where the rest moves like the noise"


@checked
def descent_rate(
    problem_class: ProblemClass,
    *,
    steps: int,
    step_rule: StepRule,
    output: OutputRule | str | None,
    noise_std: float,
    moments: BatchMoments | None = ALL_RECORDS,
    steps_powers: Exponents = GIVEN_STEPS,
    clipped: bool = False,
    plain: bool = True,
) -> Rate:
    """Return the rate of ``w_{t+1} = Proj(w_t - eta_t (g_t + z_t))``, started at the centre.

    The smallest bound of the theorems that apply to the step sizes and the output, with ``G^2 =
    a L^2 + d sigma^2`` and ``V = v L^2 + d sigma^2``:

    ========================================= ============================================
    constant step, average or random iterate; ``R^2/(2 eta (T + 1)) + eta G^2/2``, at best
    linear decay, last                        ``R G/sqrt(T + 1)``
    ``H``-smooth: constant step below         ``R^2/(2 eta T) + eta V/(2 (1 - eta H))``, at
    ``1/H``, average after step; linear       best ``H R^2/(2T) + R sqrt(V/T)``
    decay, last
    ``2/(m (t + 1))``, weighted average       ``2 G^2/(m (T + 2))``
    any steps, last                           :func:`last_iterate`
    ========================================= ============================================

    Proofs: :ref:`Descent, Theorems 1 <theory-descent-1>` to 4.

    The last iterate in linear decay has the bounds of the averages and is the default output. Its
    risk is much smaller than the bound if the loss is sharp or flat at the minimiser. For smooth
    and strongly convex losses its bound is ``0.6 sqrt(A) V/(m T)`` with a logarithm ``A``, and has
    no term ``L^2``. ``L`` bounds the whole gradient, including the gradient of a regulariser.

    Parameters
    ----------
    problem_class : ProblemClass
        Public facts.
    steps, step_rule : int, StepRule
        ``T`` and the step sizes.
    output : OutputRule, str or None
        Output rule; None if no theorem applies to the output.
    noise_std : float
        ``sigma``. Its exponents are those of ``sqrt(T)/(n epsilon)``; for sampled batches this is
        at a fixed rate and noise multiplier.
    moments : BatchMoments or None
        ``a`` and ``v``; None if the gradient of a batch is biased given the past.
    steps_powers : Exponents
        Exponents of ``T`` in the axes; by default ``T`` is an axis.
    clipped, plain : bool
        ``clipped`` is True if clipping may change gradients, ``plain`` if the update is plain
        descent. If no theorem applies, the rate has no terms and states the reason.

    References
    ----------
    Bassily, Smith and Thakurta 2014 (arXiv:1405.7085), Theorem 2.4, and Zinkevich 2003; Lan 2012
    (doi:10.1007/s10107-010-0434-y) and Bubeck 2015 (arXiv:1405.4980), Theorem 6.3; Lacoste-Julien,
    Schmidt and Bach 2012 (arXiv:1212.2002). They bound the initial distance by the diameter; here
    the start is the centre and the distance is at most ``R``.

    Examples
    --------
    >>> facts = ProblemClass(n=100, dim=4, lipschitz=1.0, radius=1.0, smoothness=0.5)
    >>> rate = descent_rate(facts, steps=10, step_rule=StepRule(0.4), noise_std=0.5,
    ...                     output="average_after_step")
    >>> rate.upper, rate.leading.name
    (0.375, 'noise')
    """
    reasons = {
        "gradients of shuffled passes are biased": moments is None,
        **unmet_assumptions(problem_class, clipped=clipped, plain=plain),
    }
    descent = DescentSetting(problem_class, steps, noise_std, moments or ALL_RECORDS, steps_powers)
    return (
        no_rate_if(reasons)
        or best_rate(descent, step_rule, output)
        or no_rate("no theorem for these step sizes with this output")
    )


def best_rate(
    descent: DescentSetting, rule: StepRule, output: OutputRule | str | None
) -> Rate | None:
    """Return the smallest bound that applies to this step rule and output, or None."""
    facts, steps, eta = descent.facts, descent.steps, rule.scale
    rates: list[Rate | None] = []
    if rule == StepRule(eta) and output in (OutputRule.AVERAGE, OutputRule.RANDOM_ITERATE):
        rates.append(_convex(descent, eta))
    elif rule == StepRule(eta) and output == OutputRule.AVERAGE_AFTER_STEP:
        rates.append(_smooth(descent, eta))
    elif output == OutputRule.LAST and rule.linear_decay and facts.strong_convexity == 0.0:
        rates += [_convex(descent, eta * (steps + 1.0) / steps), _smooth(descent, eta)]
    elif output == OutputRule.LAST:
        rates += [_any_steps(descent, rule, None), _any_steps(descent, rule, facts.smoothness)]
    elif output == OutputRule.WEIGHTED_AVERAGE and facts.strong_convexity > 0.0:
        rates.append(_strongly_convex(descent, rule))
    return min(filter(None, rates), key=lambda rate: rate.uncapped, default=None)


def _convex(descent: DescentSetting, step_size: float) -> Rate:
    """Return the rate of :ref:`Theorem 1 <theory-descent-1>`."""
    facts, steps = descent.facts, descent.steps
    squares = descent.squares(descent.moments.second_moment - 1.0, 1.0)
    tuned = math.isclose(step_size, descent.convex_step, rel_tol=_ROUND_OFF)
    if tuned:
        factor, powers = facts.radius / math.sqrt(steps + 1.0), -0.5 * descent.steps_powers
        terms = [each.root(factor, powers) for each in squares]
    else:
        start = descent.start(facts.radius**2 / (2.0 * step_size * (steps + 1.0)))
        terms = [*(each.times(0.5 * step_size) for each in squares), start]
    tight_on = "medians" if facts.smoothness is None else "linear"
    return descent.rate(
        "E F(w) - F* <= R G / sqrt(T + 1), G^2 = a L^2 + d sigma^2 (order L R sqrt(d)/(n mu))",
        "Bassily, Smith and Thakurta 2014 (arXiv:1405.7085), Theorem 2.4 and Theorem 5.3; "
        "for the last iterate Zamani and Glineur 2023 (arXiv:2307.11134)",
        terms,
        math.hypot if tuned else add,
        "sqrt(d) sigma >= 7 L",
        ("far_distance" if descent.noise_std == 0.0 else tight_on) if tuned else None,
    )


def _smooth(descent: DescentSetting, step_size: float) -> Rate | None:
    """Return the rate of :ref:`Theorem 2 <theory-descent-2>`, or None if ``eta H >= 1``."""
    facts, steps, variance = descent.facts, descent.steps, descent.moments.variance
    squares = descent.squares(variance, 0.0)
    if facts.smoothness is None:
        return None
    margin = 1.0 - step_size * facts.smoothness
    if margin < (_ROUND_OFF if squares else -_ROUND_OFF):
        return None
    tuned = math.isclose(step_size, descent.smooth_step, rel_tol=_ROUND_OFF)
    if tuned:
        factor, powers = facts.radius / math.sqrt(steps), -0.5 * descent.steps_powers
        terms = [each.root(factor, powers) for each in squares]
        start = descent.start(facts.smoothness * facts.radius**2 / (2.0 * steps))
    else:
        terms = [each.times(step_size / (2.0 * margin)) for each in squares]
        start = descent.start(facts.radius**2 / (2.0 * step_size * steps))
    sampled = " and d sigma^2 >= 50 v L^2" if variance > 0.0 else ""
    family = "rounded_medians" if facts.smoothness > 0.0 else "linear"
    return descent.rate(
        "E F(w) - F* <= H R^2/(2 T) + R sqrt(V/T), V = v L^2 + d sigma^2 "
        "(order L R sqrt(d)/(n mu))",
        "Lan 2012 (doi:10.1007/s10107-010-0434-y); for the last iterate Liu and Zhou 2024 "
        "(arXiv:2312.08531); constants derived here",
        [*terms, start],
        hypot_plus_last if tuned else add,
        f"sqrt(d T) sigma >= 25 H R{sampled}",
        family if tuned and descent.noise_std > 0.0 else None,
    )


def hypot_plus_last(*values: float) -> float:
    """Return the Euclidean norm of all values but the last, plus the last value."""
    return math.hypot(*values[:-1]) + values[-1]


def _strongly_convex(descent: DescentSetting, rule: StepRule) -> Rate | None:
    """Return the rate of :ref:`Theorem 3 <theory-descent-3>`, or None for other step sizes."""
    modulus = descent.facts.strong_convexity
    if rule != StepRule.strongly_convex(modulus):
        return None
    squares = descent.squares(descent.moments.second_moment - 1.0, 1.0)
    factor = 2.0 / (modulus * (descent.steps + 2.0))
    return descent.rate(
        "E F(w) - F* <= 2 G^2 / (m (T + 2)), G^2 = a L^2 + d sigma^2",
        "Lacoste-Julien, Schmidt and Bach 2012 (arXiv:1212.2002)",
        [each.times(factor, -1.0 * descent.steps_powers) for each in squares],
        add,
        "sqrt(d) sigma >= 10 L",
        "squared_distance",
    )


def _any_steps(descent: DescentSetting, rule: StepRule, smoothness: float | None) -> Rate | None:
    """Return the rate of :ref:`Theorem 4 <theory-descent-4>`, or None for steps above ``1/H``.

    The exponents of its coefficients are those of the longest step and of ``T``.
    """
    facts, by_steps, modulus = descent.facts, descent.steps_powers, descent.facts.strong_convexity
    if (
        smoothness is not None
        and not rule.sizes(descent.steps).max() * smoothness < 1.0 - _DIFFERENCE
    ):
        return None
    start, noise, end = _coefficients(descent, rule, smoothness)
    longer = _coefficients(
        descent, rule._replace(scale=rule.scale * (1.0 + _DIFFERENCE)), smoothness
    )
    start_slope = 0.0
    if min(start, longer.start) > 0.0:
        start_slope = math.log(longer.start / start) / _DIFFERENCE
    noise_slope = math.log(longer.noise / noise) / _DIFFERENCE
    sampling, gradients = descent.moments.variance, 0.0
    if smoothness is None:
        sampling, gradients = descent.moments.second_moment - 1.0, 1.0 + end / noise
    squares = descent.squares(sampling, gradients)
    by_size, tight_on = -rule.power * by_steps, None
    if rule.linear_decay and squares and smoothness is None:
        best = descent.convex_step * descent.steps / (descent.steps + 1.0)
        if math.isclose(rule.scale, best, rel_tol=_ROUND_OFF):
            by_size = -0.5 * (by_steps + _exponents_of_sum(squares))
    elif rule.linear_decay and squares and modulus > 0.0:
        best, exponents = _log_step(descent, squares)
        if math.isclose(rule.scale, best, rel_tol=_ROUND_OFF):
            by_size, tight_on = exponents, "squared_distance"
    powers = noise_slope * by_size + (noise_slope - 1.0) * by_steps
    terms = [each.times(noise, powers) for each in squares]
    if start > 0.0 or not terms:  # a rate without terms would be infinite
        terms.append(Term("start", start * facts.radius**2, start_slope * (by_size + by_steps)))
    return descent.rate(
        "E F(w) - F* <= a R^2 + b V of the last iterate, a and b by the steps (order V/(m T))",
        "Zamani and Glineur 2023 (arXiv:2307.11134); Liu and Zhou 2024 (arXiv:2312.08531); any "
        "steps and constants derived here",
        terms,
        add,
        "start and gradients below a fiftieth of the bound",
        tight_on,
    )


def _coefficients(descent: DescentSetting, rule: StepRule, smoothness: float | None) -> LastIterate:
    modulus = descent.facts.strong_convexity
    return last_iterate(rule.sizes(descent.steps), modulus=modulus, smoothness=smoothness)


def log_factor(ratio: float) -> tuple[float, float]:
    """Return ``A = ln(1 + z + 3 z^2)`` and ``d ln A / d ln z`` at ``z = m R sqrt(T/V)``."""
    factor = math.log1p(ratio + 3.0 * ratio**2)
    return factor, ratio * (1.0 + 6.0 * ratio) / ((1.0 + ratio + 3.0 * ratio**2) * factor)


def _log_step(descent: DescentSetting, squares: list[Term]) -> tuple[float, Exponents]:
    """Return ``A/(m T)`` and its exponents, where ``V`` is the sum of ``squares``."""
    facts, by_steps = descent.facts, descent.steps_powers
    ratio = facts.strong_convexity * facts.radius * math.sqrt(descent.steps / descent.variance)
    factor, slope = log_factor(ratio)
    step = factor / (facts.strong_convexity * descent.steps)
    by_ratio = 0.5 * slope * (by_steps + -1.0 * _exponents_of_sum(squares))
    return step, -1.0 * by_steps + by_ratio


def _exponents_of_sum(terms: list[Term]) -> Exponents:
    """Return the local exponents of the sum of terms."""
    total, exponents = math.fsum(term.value for term in terms), FIXED
    for term in terms:
        exponents += term.value / total * term.powers
    return exponents


class LastIterate(NamedTuple):
    """Coefficients of ``E F(w_{T+1}) - F* <= start R^2 + noise V + end L^2``."""

    start: float
    noise: float
    end: float


def last_iterate(
    sizes: npt.NDArray[np.float64], *, modulus: float = 0.0, smoothness: float | None = None
) -> LastIterate:
    """Return the coefficients of the bound of the last iterate, for step sizes ``eta_1..eta_T``.

    ``F`` is ``m``-strongly convex (``m >= 0``), ``R >= |w_1 - w*|``, and ``E g_t`` is a subgradient
    of ``F`` at ``w_t`` given the past.

    - With ``smoothness = H`` and ``eta_t H < 1``: ``V >= E |g_t - grad F(w_t)|^2``, ``end = 0``.
    - Without: ``V >= E |g_t|^2``, and ``F`` is ``L``-Lipschitz.

    The backward recursion for ``theta_t`` and ``y_t``, its proof and its sources: :ref:`Descent,
    Theorem 4 <theory-descent-4>`. Sources: Zamani and Glineur 2023 (arXiv:2307.11134); Liu and Zhou
    2024 (arXiv:2312.08531).
    """
    descending = sizes[::-1].tolist()
    rise, noise = 1.0 / descending[0], 0.0  # rise is y_t of the theorem
    if smoothness is None:
        end = 0.5 / (rise + modulus)
        for size in descending:
            noise += 0.5 * rise * size**2
            theta = 1.0 / (1.0 + size * rise)
            rise *= theta * max(0.0, theta * (1.0 - size * modulus) - size * modulus)
        return LastIterate(0.5 * rise, noise, end)
    for size, before in zip(descending, [*descending[1:], None], strict=True):
        noise += 0.5 * rise * size**2 / (1.0 - size * smoothness)
        rise *= 1.0 - size * modulus
        if before is not None:  # 1 - theta, a root of the quadratic equation
            stiff = modulus + 1.0 / before
            root = math.sqrt(stiff**2 + 4.0 * rise / before)
            rise = 2.0 * rise / ((2.0 * rise + stiff + root) * before)
    return LastIterate(0.5 * rise, noise, 0.0)


class DefaultSteps(NamedTuple):
    """Default number of steps and its exponents."""

    steps: int
    powers: Exponents = FIXED


class DescentNumbers(NamedTuple):
    """Step rule and output rule of a theorem."""

    step_rule: StepRule
    output: OutputRule


@checked
def descent_steps(
    problem_class: ProblemClass,
    *,
    one_step_noise: float,
    clip_norm: float | None = None,
    moments: BatchMoments = ALL_RECORDS,
    plain: bool = True,
) -> DefaultSteps:
    """Return the default ``T``, at which the bound is near its limit ``R sqrt(d) sigma_1``.

    The noise of ``T`` steps is ``sigma = sigma_1 sqrt(T)``. The number of steps is the smaller of

    - convex losses: ``a C^2/(0.21 d sigma_1^2)``, at which ``R sqrt(a C^2/T + d sigma_1^2)`` is a
      tenth above the limit;
    - smooth losses: ``H R/(sqrt(d) sigma_1)`` plus ``v L^2/(d sigma_1^2)`` for batches, at which
      the bound is half above the limit. For strongly convex losses the first part is at most
      ``2 A H/m``, with ``A`` of :attr:`DescentSetting.strongly_convex_step`;

    and at most 10,000. A Moreau envelope does not reduce the number: if its cost is below the
    limit, its curvature needs more steps, unless descent is accelerated
    (:func:`accelerated_steps`). See :ref:`Descent, Theorem 5 <theory-descent-5>`.

    ``one_step_noise`` is ``sigma_1``, the noise per coordinate of a single full gradient within the
    budget. ``clip_norm`` is ``C``, by default ``L``. ``moments`` are ``a`` and ``v`` of the
    batches. ``plain`` is True for plain descent; the smooth theorem applies to no other update.
    """
    facts, noise = problem_class, math.sqrt(problem_class.dim) * one_step_noise
    clip_norm = facts.lipschitz if clip_norm is None else clip_norm
    steps = moments.second_moment * (clip_norm / noise) ** 2 / ((1.0 + _SLACK) ** 2 - 1.0)
    powers = _BY_NOISE
    if facts.convex and facts.smoothness is not None and plain and math.isfinite(facts.radius):
        curvature_steps, by_curvature = _curvature_steps(facts, noise)
        sampling_steps = 0.0
        if moments.variance > 0.0:
            sampling_steps = moments.variance * (facts.lipschitz / noise) ** 2
            sampling_steps /= 2.0 * _SMOOTH_SLACK
        if curvature_steps + sampling_steps < steps:
            steps = curvature_steps + sampling_steps
            share = sampling_steps / steps if sampling_steps > 0.0 else 0.0
            powers = (1.0 - share) * by_curvature + share * (_BY_NOISE + Exponents(n=-1.0))
    capped = not 1.0 < steps < MAX_STEPS
    return DefaultSteps(math.ceil(min(max(steps, 1.0), MAX_STEPS)), FIXED if capped else powers)


def _curvature_steps(facts: ProblemClass, noise: float) -> tuple[float, Exponents]:
    """Return the number of steps that smoothness requires, with its exponents."""
    assert facts.smoothness is not None
    start = facts.radius / noise
    convex = facts.smoothness * start / (2.0 * _SMOOTH_SLACK), 0.5 * _BY_NOISE
    if facts.strong_convexity == 0.0:
        return convex
    factor, slope = log_factor(facts.strong_convexity * start)
    strongly_convex = 2.0 * factor * facts.smoothness / facts.strong_convexity
    return min(convex, (strongly_convex, 0.5 * slope * _BY_NOISE), key=lambda each: each[0])


@checked
def descent_batch(problem_class: ProblemClass, *, one_step_noise: float) -> float:
    """Return ``b = L^2/(H R sqrt(d) sigma_1)``, or 0 if smoothness does not determine the steps.

    At this batch size sampling and curvature require equally many steps, so the number of steps and
    the number of gradients are each at most twice their minimum.
    """
    facts, noise = problem_class, math.sqrt(problem_class.dim) * one_step_noise
    if not facts.smoothness or not facts.convex or math.isinf(facts.lipschitz * facts.radius):
        return 0.0
    curvature_steps, _ = _curvature_steps(facts, noise)
    return (facts.lipschitz / noise) ** 2 / (2.0 * _SMOOTH_SLACK * max(curvature_steps, 1.0))


@checked
def descent_numbers(
    problem_class: ProblemClass,
    *,
    steps: int,
    noise_std: float,
    moments: BatchMoments = ALL_RECORDS,
    step_rule: StepRule | None = None,
    output: OutputRule | None = None,
) -> DescentNumbers:
    """Return the step sizes and the output of the theorem with the smallest bound.

    Candidates are the last iterate after steps in linear decay, with the best step for smooth or
    for convex losses. For strongly convex losses, ``2/(m (t + 1))`` with weights proportional to
    ``t`` is another candidate. A given ``step_rule`` or ``output`` is kept: a constant step selects
    among the averages, and an output selects among the step rules.

    Examples
    --------
    >>> facts = ProblemClass(n=100, dim=25, lipschitz=1.0, radius=1.0, smoothness=0.5)
    >>> descent_numbers(facts, steps=99, noise_std=0.0, output=OutputRule.AVERAGE).step_rule
    StepRule(scale=0.1, power=0.0, offset=0.0, decay=0.0)
    """
    if step_rule is not None and output is not None:
        return DescentNumbers(step_rule, output)
    descent = DescentSetting(problem_class, steps, noise_std, moments)
    if step_rule is None:
        candidates = _step_rules(descent, output)
    elif step_rule.constant:
        averages = (OutputRule.AVERAGE, OutputRule.AVERAGE_AFTER_STEP)
        candidates = [DescentNumbers(step_rule, each) for each in averages]
    else:
        others = (OutputRule.LAST, OutputRule.WEIGHTED_AVERAGE)
        candidates = [DescentNumbers(step_rule, each) for each in others]

    def bound(numbers: DescentNumbers) -> float:
        rate = best_rate(descent, *numbers)
        return math.inf if rate is None else rate.uncapped

    return min(candidates, key=bound)


def _step_rules(descent: DescentSetting, output: OutputRule | None) -> list[DescentNumbers]:
    """Return the step rules of all theorems, for the given output or for every output."""
    facts, steps, modulus = descent.facts, descent.steps, descent.facts.strong_convexity
    candidates = []
    if modulus > 0.0 and output in (None, OutputRule.WEIGHTED_AVERAGE):
        rule = StepRule.strongly_convex(modulus)
        candidates.append(DescentNumbers(rule, OutputRule.WEIGHTED_AVERAGE))
    if math.isinf(facts.radius):
        if not candidates:
            raise ValueError("step_size must be given where radius is infinite, got None")
        return candidates
    convex, smooth = descent.convex_step, math.inf
    if facts.smoothness is not None and output != OutputRule.AVERAGE:
        smooth = descent.strongly_convex_step if modulus > 0.0 else descent.smooth_step
    if output in (None, OutputRule.LAST):
        scales = [smooth] if math.isfinite(smooth) else []
        if modulus == 0.0 or not (scales or candidates):
            scales.append(convex * steps / (steps + 1.0))
        candidates += [DescentNumbers(StepRule(s, decay=1.0), OutputRule.LAST) for s in scales]
    elif not candidates:
        after_step = output == OutputRule.AVERAGE_AFTER_STEP and math.isfinite(smooth)
        candidates.append(DescentNumbers(StepRule(smooth if after_step else convex), output))
    return candidates

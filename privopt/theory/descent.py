"""Noisy projected descent: the theorems, each with its proof, and the rate of a run.

``w_{t+1} = Proj(w_t - eta_t (g_t + z_t))`` for ``t = 1..T`` on convex, L-Lipschitz losses, started
within ``R`` of every point of the set; ``g_t`` is the gradient of a batch, ``z_t`` noise of
standard deviation ``sigma`` in every coordinate. With ``a`` and ``v`` of the batches, given the
past::

    E |g_t + z_t|^2 <= G^2 = a L^2 + d sigma^2,
    E |g_t + z_t - grad F(w_t)|^2 <= V = v L^2 + d sigma^2.
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
    Powers,
    Quantity,
    Rate,
    Term,
    add,
    largest_excess,
    no_rate,
    obstacles,
    refused,
)
from privopt.theory.steps import ALL_RECORDS, Moments, OutputRule, StepRule

_ROUND_OFF = 1e-9
_NUDGE = 1e-6  # of a step size, for the slope of a coefficient


class Descent(NamedTuple):
    """What every theorem asks for."""

    facts: ProblemClass
    steps: int
    noise_std: float
    moments: Moments = ALL_RECORDS
    steps_powers: Powers = GIVEN_STEPS

    @property
    def second_moment(self) -> float:
        """``G^2``; where ``L`` is not declared, the noise alone."""
        return self._sum(self.squares(self.moments.second_moment - 1.0, 1.0))

    @property
    def variance(self) -> float:
        """``V``; where ``L`` is not declared, the noise alone."""
        return self._sum(self.squares(self.moments.variance, 0.0))

    @property
    def rough_step(self) -> float:
        """``eta = R / (G sqrt(T + 1))``, where the bound for any convex losses is least."""
        return self.facts.radius / math.sqrt(self.second_moment * (self.steps + 1.0))

    @property
    def smooth_step(self) -> float:
        """``eta = 1/(H + sqrt(V T)/R)``, where the bound for smooth convex losses is least.

        Infinite for linear losses (``H = 0``) without any variance.
        """
        if self.facts.smoothness is None:
            raise ValueError("smoothness must be declared for this step size, got None")
        inverse = self.facts.smoothness + math.sqrt(self.variance * self.steps) / self.facts.radius
        return 1.0 / inverse if inverse > 0.0 else math.inf

    @property
    def strongly_convex_step(self) -> float:
        """``eta = A/(m T)``, ``A = ln(1 + z + 3 z^2)``, ``z = m R sqrt(T/V)``, in linear decay.

        For smooth and strongly convex losses: within 7% of the least bound of the last iterate
        where ``T`` is 30 times ``H/m`` or more. Where fewer steps make it too long, the best of
        some shares of ``1/H``.
        """
        smoothness, variance = self.facts.smoothness, self.variance
        assert smoothness is not None
        free = _settling(self, [])[0] if variance > 0.0 else math.inf

        def bound(size: float) -> float:
            start, noise, _ = _last(self, StepRule(size, decay=1.0), smoothness)
            return start * self.facts.radius**2 + noise * variance

        return min({min(free, share / smoothness) for share in (0.5, 0.75, 0.9, 0.97)}, key=bound)

    def squares(self, sampling: float, gradients: float) -> list[Term]:
        """``d sigma^2``, and the parts of the gradient in units of ``L^2``."""
        moved_noise = Powers(n=-2.0, dim=1.0, epsilon=-2.0) + self.steps_powers
        parts = [Term("noise", self.facts.dim * self.noise_std**2, moved_noise)]
        named = ("sampling", sampling, Powers(n=-1.0)), ("gradients", gradients, FIXED)
        for name, share, powers in named:  # sampling at a fixed rate
            if share > 0.0:
                parts.append(Term(name, share * self.facts.lipschitz**2, powers))
        return [part for part in parts if part.value > 0.0]

    @staticmethod
    def _sum(parts: list[Term]) -> float:
        return math.fsum(part.value for part in parts if math.isfinite(part.value))

    def start(self, value: float) -> Term:
        """A term that falls with the steps alone."""
        return Term("start", value, -1.0 * self.steps_powers)

    def rate(
        self,
        theorem: str,
        source: str,
        terms: list[Term],
        combine: Callable[..., float],
        where: str,
        tight_on: str | None = None,
    ) -> Rate:
        """Of the empirical risk; the noise leads ``where`` that is so."""
        return Rate(
            quantity=Quantity.EMPIRICAL_RISK,
            theorem=theorem,
            source=source,
            terms=tuple(terms),
            combine=combine,
            cap=largest_excess(self.facts),
            regime=self._regime(where),
            tight_on=tight_on,
        )

    def _regime(self, where: str) -> str:
        """Where the noise leads, and what is held fixed."""
        if self.noise_std == 0.0:
            return "fixed T" if self.steps_powers in (FIXED, GIVEN_STEPS) else "default T"
        sampled = "" if self.moments == ALL_RECORDS else ", rate and noise multiplier"
        if self.steps_powers in (FIXED, GIVEN_STEPS):
            return f"noise leading, {where}, at fixed steps{sampled}"
        return f"at default steps{sampled}, where the rest moves like the noise"


@checked
def descent_rate(
    problem_class: ProblemClass,
    *,
    steps: int,
    step_rule: StepRule,
    output: OutputRule | str | None,
    noise_std: float,
    moments: Moments | None = ALL_RECORDS,
    steps_powers: Powers = GIVEN_STEPS,
    clipped: bool = False,
    plain: bool = True,
) -> Rate:
    """The rate of ``w_{t+1} = Proj(w_t - eta_t (g_t + z_t))``, started at the centre of the set.

    Of the theorems that speak of the steps and of the output, the one of least bound, with ``G^2 =
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

    The last iterate in linear decay has the bounds of the averages, and is the default: where a
    risk is sharp or flat at its minimiser it is far below them. For smooth and strongly convex
    losses it has ``V/(m T)`` times 0.6 ``sqrt(A)``, ``A`` a logarithm, without ``L^2``. ``L``
    bounds the whole gradient, a regulariser's too.

    ``output`` is ``None`` where no theorem speaks of what is returned, and ``moments`` where the
    gradient of a batch is biased given the past. The exponents take the noise to move like
    ``sqrt(T)/(n epsilon)``: at fixed rate and noise multiplier where batches are sampled.
    ``steps_powers`` say how ``T`` moves with the axes; by default it is an axis of its own.
    ``clipped`` says whether clipping may change gradients, ``plain`` whether the update is plain
    descent. The rate has no terms, and the reason, where no theorem covers it.

    Source: Bassily, Smith and Thakurta 2014 (arXiv:1405.7085), Theorem 2.4, and Zinkevich 2003; Lan
    2012 (doi:10.1007/s10107-010-0434-y) and Bubeck 2015 (arXiv:1405.4980), Theorem 6.3;
    Lacoste-Julien, Schmidt and Bach 2012 (arXiv:1212.2002). They start at a distance of the
    diameter, we at the centre.

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
        **obstacles(problem_class, clipped=clipped, plain=plain),
    }
    known = Descent(problem_class, steps, noise_std, moments or ALL_RECORDS, steps_powers)
    return (
        refused(reasons)
        or covering(known, step_rule, output)
        or no_rate("no theorem for these step sizes with this output")
    )


def covering(known: Descent, rule: StepRule, output: OutputRule | str | None) -> Rate | None:
    """The rate, by the theorem of least bound that speaks of this step rule with this output."""
    facts, steps, eta = known.facts, known.steps, rule.scale
    found: list[Rate | None] = []
    if rule == StepRule(eta) and output in (OutputRule.AVERAGE, OutputRule.RANDOM_ITERATE):
        found.append(_any_loss(known, eta))
    elif rule == StepRule(eta) and output == OutputRule.AVERAGE_AFTER_STEP:
        found.append(_smooth(known, eta))
    elif output == OutputRule.LAST and rule.linear_decay and facts.strong_convexity == 0.0:
        found += [_any_loss(known, eta * (steps + 1.0) / steps), _smooth(known, eta)]
    elif output == OutputRule.LAST:
        found += [_any_steps(known, rule, None), _any_steps(known, rule, facts.smoothness)]
    elif output == OutputRule.WEIGHTED_AVERAGE and facts.strong_convexity > 0.0:
        found.append(_strongly_convex(known, rule))
    return min(filter(None, found), key=lambda rate: rate.uncapped, default=None)


def _any_loss(known: Descent, step_size: float) -> Rate:
    """``2 eta E(F(w_t) - F*) <= E|w_t - w*|^2 - E|w_{t+1} - w*|^2 + eta^2 G^2``, summed over ``t``.

    Step ``T + 1`` is part of the proof alone: ``w_{T+1}`` does not depend on it.
    """
    facts, steps = known.facts, known.steps
    squares = known.squares(known.moments.second_moment - 1.0, 1.0)
    tuned = math.isclose(step_size, known.rough_step, rel_tol=_ROUND_OFF)
    if tuned:
        factor, moved = facts.radius / math.sqrt(steps + 1.0), -0.5 * known.steps_powers
        terms = [each.root(factor, moved) for each in squares]
    else:
        start = known.start(facts.radius**2 / (2.0 * step_size * (steps + 1.0)))
        terms = [*(each.times(0.5 * step_size) for each in squares), start]
    tight_on = "medians" if facts.smoothness is None else "linear"
    return known.rate(
        "E F(w) - F* <= R G / sqrt(T + 1), G^2 = a L^2 + d sigma^2 (order L R sqrt(d)/(n mu))",
        "Bassily, Smith and Thakurta 2014 (arXiv:1405.7085), Theorem 2.4 and Theorem 5.3; "
        "for the last iterate Zamani and Glineur 2023 (arXiv:2307.11134)",
        terms,
        math.hypot if tuned else add,
        "sqrt(d) sigma >= 7 L",
        ("far_distance" if known.noise_std == 0.0 else tight_on) if tuned else None,
    )


def _smooth(known: Descent, step_size: float) -> Rate | None:
    """Let ``D = w_{t+1} - w_t`` and ``u`` in the set. Smoothness and the projection give ::

        F(w_{t+1}) - F(u) <= (|w_t - u|^2 - |w_{t+1} - u|^2)/(2 eta) - (m/2)|w_t - u|^2
                             - <z_t, w_t - u> - <z_t, D> - (1/eta - H)|D|^2/2.

    The first product has mean zero, and the rest is at most ``eta |z_t|^2/(2 (1 - eta H))``. No
    ``L^2`` stands alone: full gradients of smooth losses cost no variance.
    """
    facts, steps, varied = known.facts, known.steps, known.moments.variance
    squares = known.squares(varied, 0.0)
    if facts.smoothness is None:
        return None
    left = 1.0 - step_size * facts.smoothness
    if left < (_ROUND_OFF if squares else -_ROUND_OFF):
        return None
    tuned = math.isclose(step_size, known.smooth_step, rel_tol=_ROUND_OFF)
    if tuned:
        factor, moved = facts.radius / math.sqrt(steps), -0.5 * known.steps_powers
        terms = [each.root(factor, moved) for each in squares]
        start = known.start(facts.smoothness * facts.radius**2 / (2.0 * steps))
    else:
        terms = [each.times(step_size / (2.0 * left)) for each in squares]
        start = known.start(facts.radius**2 / (2.0 * step_size * steps))
    sampled = " and d sigma^2 >= 50 v L^2" if varied > 0.0 else ""
    family = "rounded_medians" if facts.smoothness > 0.0 else "linear"
    return known.rate(
        "E F(w) - F* <= H R^2/(2 T) + R sqrt(V/T), V = v L^2 + d sigma^2 "
        "(order L R sqrt(d)/(n mu))",
        "Lan 2012 (doi:10.1007/s10107-010-0434-y); for the last iterate Liu and Zhou 2024 "
        "(arXiv:2312.08531); constants derived here",
        [*terms, start],
        root_and_last if tuned else add,
        f"sqrt(d T) sigma >= 25 H R{sampled}",
        family if tuned and known.noise_std > 0.0 else None,
    )


def root_and_last(*values: float) -> float:
    """The root of the sum of squares of all values but the last one, plus the last one."""
    return math.hypot(*values[:-1]) + values[-1]


def _strongly_convex(known: Descent, rule: StepRule) -> Rate | None:
    """Each step's inequality times ``t``, summed: distances telescope, and ``t eta_t/2 <= 1/m``."""
    modulus = known.facts.strong_convexity
    if rule != StepRule.strongly_convex(modulus):
        return None
    squares = known.squares(known.moments.second_moment - 1.0, 1.0)
    factor = 2.0 / (modulus * (known.steps + 2.0))
    return known.rate(
        "E F(w) - F* <= 2 G^2 / (m (T + 2)), G^2 = a L^2 + d sigma^2",
        "Lacoste-Julien, Schmidt and Bach 2012 (arXiv:1212.2002)",
        [each.times(factor, -1.0 * known.steps_powers) for each in squares],
        add,
        "sqrt(d) sigma >= 10 L",
        "squared_distance",
    )


def _any_steps(known: Descent, rule: StepRule, smoothness: float | None) -> Rate | None:
    """The last iterate. Its coefficients move as those of a longest step and of ``T`` steps do."""
    facts, moved, modulus = known.facts, known.steps_powers, known.facts.strong_convexity
    if smoothness is not None and not rule.sizes(known.steps).max() * smoothness < 1.0 - _NUDGE:
        return None
    start, noise, end = _last(known, rule, smoothness)
    longer = _last(known, rule._replace(scale=rule.scale * (1.0 + _NUDGE)), smoothness)
    fall = math.log(longer.start / start) / _NUDGE if min(start, longer.start) > 0.0 else 0.0
    rise = math.log(longer.noise / noise) / _NUDGE
    sampling, gradients = known.moments.variance, 0.0
    if smoothness is None:
        sampling, gradients = known.moments.second_moment - 1.0, 1.0 + end / noise
    squares = known.squares(sampling, gradients)
    size, tight_on = -rule.power * moved, None
    if rule.linear_decay and squares and smoothness is None:
        rough = known.rough_step * known.steps / (known.steps + 1.0)
        if math.isclose(rule.scale, rough, rel_tol=_ROUND_OFF):
            size = -0.5 * (moved + _average(squares))
    elif rule.linear_decay and squares and modulus > 0.0:
        free, moves = _settling(known, squares)
        if math.isclose(rule.scale, free, rel_tol=_ROUND_OFF):
            size, tight_on = moves, "squared_distance"
    moves = rise * size + (rise - 1.0) * moved
    terms = [each.times(noise, moves) for each in squares]
    if start > 0.0 or not terms:  # without any term nothing would be claimed
        terms.append(Term("start", start * facts.radius**2, fall * (size + moved)))
    return known.rate(
        "E F(w) - F* <= a R^2 + b V of the last iterate, a and b by the steps (order V/(m T))",
        "Zamani and Glineur 2023 (arXiv:2307.11134); Liu and Zhou 2024 (arXiv:2312.08531); any "
        "steps and constants derived here",
        terms,
        add,
        "start and gradients below a fiftieth of the bound",
        tight_on,
    )


def _last(known: Descent, rule: StepRule, smoothness: float | None) -> LastIterate:
    modulus = known.facts.strong_convexity
    return last_iterate(rule.sizes(known.steps), modulus=modulus, smoothness=smoothness)


def settled(ratio: float) -> tuple[float, float]:
    """``A = ln(1 + z + 3 z^2)`` at ``z = m R sqrt(T/V)``, and ``d ln A / d ln z``."""
    settling = math.log1p(ratio + 3.0 * ratio**2)
    return settling, ratio * (1.0 + 6.0 * ratio) / ((1.0 + ratio + 3.0 * ratio**2) * settling)


def _settling(known: Descent, squares: list[Term]) -> tuple[float, Powers]:
    """``A/(m T)``, and how it moves where ``V`` is the sum of ``squares``."""
    facts, moved = known.facts, known.steps_powers
    ratio = facts.strong_convexity * facts.radius * math.sqrt(known.steps / known.variance)
    settling, slope = settled(ratio)
    step = settling / (facts.strong_convexity * known.steps)
    return step, -1.0 * moved + 0.5 * slope * (moved + -1.0 * _average(squares))


def _average(terms: list[Term]) -> Powers:
    """How the sum moves."""
    total, moves = math.fsum(term.value for term in terms), FIXED
    for term in terms:
        moves += term.value / total * term.powers
    return moves


class LastIterate(NamedTuple):
    """``E F(w_{T+1}) - F* <= start R^2 + noise V + end L^2``, as its three coefficients."""

    start: float
    noise: float
    end: float


def last_iterate(
    sizes: npt.NDArray[np.float64], *, modulus: float = 0.0, smoothness: float | None = None
) -> LastIterate:
    """The bound for ``w_{t+1} = Proj(w_t - eta_t g_t)``, ``t = 1..T``, as three coefficients.

    ``F`` is ``m``-strongly convex (``m >= 0``), ``R`` at least ``|w_1 - w*|``, ``E g_t`` a
    subgradient of ``F`` at ``w_t`` given the past. With ``smoothness = H`` and ``eta_t H < 1``,
    ``V`` is at least ``E |g_t - grad F(w_t)|^2``, and ``end`` is 0. Without, ``V`` is at least ``E
    |g_t|^2``, and ``F`` is ``L``-Lipschitz.

    *Points that move.* Let ``u_0 = w*``, ``u_t = theta_t u_{t-1} + (1 - theta_t) w_t`` with numbers
    ``theta_t`` in ``[0, 1]``, ``e_t = E |w_{t+1} - u_t|^2``, ``f_t = E F(w_t) - F*``, and ``h_t``
    the bound of ``E F(u_t) - F*`` that convexity gives::

        h_t = theta_t h_{t-1} + (1 - theta_t) f_t - (m/2) theta_t (1 - theta_t) e_{t-1},  h_0 = 0.

    As ``w_t - u_t = theta_t (w_t - u_{t-1})``, the usual inequality of one step towards ``u_t`` has
    ``(1 - eta_t m) theta_t^2 e_{t-1} - e_t`` at its end.

    *Smooth.* ``2 eta_t (f_{t+1} - h_t) <= (1 - eta_t m) theta_t^2 e_{t-1} - e_t + eta_t^2 V/(1 -
    eta_t H)``. With ``theta_1 = 1``, ``theta_{T+1} = 0``, ``y_t = (1 - theta_{t+1})/eta_t``, the
    sums of ``k_{t+1} = theta_{t+1} h_t + (1 - theta_{t+1}) f_{t+1}`` and ``y_t e_t/2`` rise by no
    more than the noise if ::

        y_t (1 - eta_t m) theta_t^2 = (1 - theta_t) (1/eta_{t-1} + m theta_t),

    a quadratic equation for ``theta_t``, solved from the last step backwards. As ``k_{T+1} =
    f_{T+1}``: ``start = y_1 (1 - eta_1 m)/2``, ``noise = sum_t y_t eta_t^2/(2 (1 - eta_t H))``.

    *Not smooth.* ``2 eta_t (f_t - h_t) <= (1 - eta_t m) theta_t^2 e_{t-1} - e_t + eta_t^2 V``. With
    ``y_t = (1 - theta_t)/(eta_t theta_t)`` that is ``h_t + y_t e_t/2 <= h_{t-1} + y_{t-1} e_{t-1}/2
    + y_t eta_t^2 V/2``, where ``y_{t-1}`` is ``y_t theta_t (theta_t (1 - eta_t m) - eta_t m)``, or
    0 if that is less. At last ``f_{T+1} - h_T <= L sqrt(e_T) - m e_T/2 <= y_T e_T/2 + L^2/(2 (y_T +
    m))``, and ``y_T = 1/eta_T`` is as good as any up to a constant.

    In linear decay at ``m = 0`` both are no more than for the average of constant steps.

    Source: the moving points are those of Zamani and Glineur 2023 (arXiv:2307.11134); Liu and Zhou
    2024 (arXiv:2312.08531) use them for smooth losses. Any steps, ``m`` and the constants are
    derived here.
    """
    descending = sizes[::-1].tolist()
    rise, noise = 1.0 / descending[0], 0.0
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
        if before is not None:  # 1 - theta, of the quadratic equation
            stiff = modulus + 1.0 / before
            root = math.sqrt(stiff**2 + 4.0 * rise / before)
            rise = 2.0 * rise / ((2.0 * rise + stiff + root) * before)
    return LastIterate(0.5 * rise, noise, 0.0)

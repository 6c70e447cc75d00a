"""The rate of noisy descent: the theorem that covers a method, term by term."""

from __future__ import annotations

import math
from typing import NamedTuple

from privopt.spec import ProblemClass
from privopt.theory.descent import noisy_descent_step_size
from privopt.theory.descent_numbers import OutputRule, StepRule
from privopt.theory.largest_excess import largest_excess
from privopt.theory.moments import ALL_RECORDS, Moments
from privopt.theory.rate import FIXED, GIVEN_STEPS, Powers, Quantity, Rate, Term, add, no_rate
from privopt.theory.smooth_descent import smooth_descent, smooth_descent_step_size

__all__ = ["descent_rate", "root_and_last"]

_ROUND_OFF = 1e-9


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

    The theorems, with ``G^2 = a L^2 + d sigma^2`` and ``V = v L^2 + d sigma^2``:

    ========================================== ============================================
    constant step, average or random iterate;  :func:`noisy_descent`, ``R G/sqrt(T + 1)``
    linear decay, last
    constant step below ``1/H``, average after :func:`smooth_descent`,
    step                                       ``H R^2/(2T) + R sqrt(V/T)``
    ``2/(m (t + 1))``, weighted average        :func:`noisy_strongly_convex_descent`
    ``c/sqrt(t)``, last                        :func:`last_of_noisy_descent`
    ========================================== ============================================

    Parameters
    ----------
    problem_class : ProblemClass
    steps, step_rule, output
        ``T``, ``eta_t`` and what is returned; ``None`` for an output that no theorem speaks of.
    noise_std : float
        ``sigma``, of the noise of each coordinate of the mean gradient. The exponents take it to
        move like ``sqrt(T)/(n epsilon)``: at fixed rate and noise multiplier where batches are
        sampled.
    moments : Moments or None
        Of the batch's gradient; None where it is biased given the past.
    steps_powers : Powers
        How ``T`` moves with the axes; by default it is an axis of its own.
    clipped, plain : bool
        Whether clipping may change gradients; whether the update is plain descent.

    Returns
    -------
    Rate
        Of the empirical risk; without terms, and with the reason, where no theorem covers it.

    Examples
    --------
    >>> from privopt.theory import StepRule
    >>> facts = ProblemClass(n=100, dim=4, lipschitz=1.0, radius=1.0, smoothness=0.5)
    >>> rate = descent_rate(facts, steps=10, step_rule=StepRule(0.4), noise_std=0.5,
    ...                     output="average_after_step")
    >>> rate.upper, rate.leading.name
    (0.375, 'noise')
    """
    reason = None
    if moments is None:
        reason, moments = "gradients of shuffled passes are biased", ALL_RECORDS
    elif not problem_class.convex:
        reason = "the losses are not convex"
    elif clipped or math.isinf(problem_class.lipschitz):
        reason = "gradients are clipped below the Lipschitz constant"
    elif not plain:
        reason = "the update is not plain descent"
    elif math.isinf(problem_class.radius):
        reason = "the set is not bounded"
    if reason is None:
        known = _Known(problem_class, steps, noise_std, moments, steps_powers)
        rate = _covering(known, step_rule, output)
        if rate is not None:
            return rate
    return no_rate(reason or "no theorem for these step sizes with this output")


class _Known(NamedTuple):
    """What every theorem asks for."""

    facts: ProblemClass
    steps: int
    noise_std: float
    moments: Moments
    steps_powers: Powers

    def squares(self, *, sampling: float, gradients: float) -> list[Term]:
        """``d sigma^2``, and the parts of the gradient in units of ``L^2``."""
        moved_noise = Powers(n=-2.0, dim=1.0, epsilon=-2.0) + self.steps_powers
        square = self.facts.lipschitz**2
        parts = [
            Term("noise", self.facts.dim * self.noise_std**2, moved_noise),
            Term("sampling", sampling * square, Powers(n=-1.0)),  # at a fixed rate
            Term("gradients", gradients * square),
        ]
        return [part for part in parts if part.value > 0.0]

    def start(self, value: float, power: float) -> Term:
        """A term that falls with the steps alone."""
        return Term("start", value, -power * self.steps_powers)


def _covering(known: _Known, step_rule: StepRule, output: OutputRule | str | None) -> Rate | None:
    """The rate by the theorem that speaks of this step rule with this output."""
    scale, modulus = step_rule.scale, known.facts.strong_convexity
    if step_rule == StepRule(scale):
        if output in (OutputRule.AVERAGE, OutputRule.RANDOM_ITERATE):
            return _noisy(known, scale)
        return _smooth(known, scale) if output == OutputRule.AVERAGE_AFTER_STEP else None
    if output == OutputRule.LAST and step_rule == StepRule(scale, decay=1.0):
        return _noisy(known, scale * (known.steps + 1.0) / known.steps)
    if output == OutputRule.LAST and step_rule == StepRule(scale, power=0.5):
        return _last(known, scale)
    strongly = modulus > 0.0 and step_rule == StepRule.strongly_convex(modulus)
    return _strongly_convex(known) if output == OutputRule.WEIGHTED_AVERAGE and strongly else None


def _noisy(known: _Known, step_size: float) -> Rate:
    facts, steps, noise_std, moments, *_ = known
    squares = known.squares(sampling=moments.second_moment - 1.0, gradients=1.0)
    best = noisy_descent_step_size(facts, steps=steps, noise_std=noise_std, moments=moments)
    tuned = math.isclose(step_size, best, rel_tol=_ROUND_OFF)
    if tuned:
        factor = facts.radius / math.sqrt(steps + 1.0)
        terms = _roots(squares, factor, -0.5 * known.steps_powers)
    else:
        start = known.start(facts.radius**2 / (2.0 * step_size * (steps + 1.0)), 1.0)
        terms = [*_times(squares, 0.5 * step_size, FIXED), start]
    return Rate(
        quantity=Quantity.EMPIRICAL_RISK,
        theorem="E F(w) - F* <= R G / sqrt(T + 1), G^2 = a L^2 + d sigma^2 "
        "(order L R sqrt(d)/(n mu))",
        source="Bassily, Smith and Thakurta 2014 (arXiv:1405.7085), Theorem 2.4 and Theorem 5.3; "
        "for the last iterate Zamani and Glineur 2023 (arXiv:2307.11134)",
        terms=tuple(terms),
        combine=math.hypot if tuned else add,
        cap=largest_excess(known.facts),
        regime=_regime(known, "sqrt(d) sigma >= 7 L"),
        tight_on=_tight_on(known) if tuned else None,
    )


def _tight_on(known: _Known) -> str:
    """The hardest family that the class admits: medians unless the losses are smooth."""
    if known.noise_std == 0.0:
        return "far_distance"
    return "medians" if known.facts.smoothness is None else "linear"


def _smooth(known: _Known, step_size: float) -> Rate | None:
    facts, steps, noise_std, moments, *_ = known
    bound = smooth_descent(
        facts, steps=steps, step_size=step_size, noise_std=noise_std, moments=moments
    )
    if facts.smoothness is None or math.isinf(bound):
        return None
    squares = known.squares(sampling=moments.variance, gradients=0.0)
    sampled = " and d sigma^2 >= 50 v L^2" if moments.variance > 0.0 else ""
    family = "rounded_medians" if facts.smoothness > 0.0 else "linear"
    best = smooth_descent_step_size(facts, steps=steps, noise_std=noise_std, moments=moments)
    tuned = math.isclose(step_size, best, rel_tol=_ROUND_OFF)
    if tuned:
        terms = _roots(squares, facts.radius / math.sqrt(steps), -0.5 * known.steps_powers)
        start = known.start(facts.smoothness * facts.radius**2 / (2.0 * steps), 1.0)
    else:
        factor = step_size / (2.0 * (1.0 - step_size * facts.smoothness))
        terms = _times(squares, factor, FIXED)
        start = known.start(facts.radius**2 / (2.0 * step_size * steps), 1.0)
    return Rate(
        quantity=Quantity.EMPIRICAL_RISK,
        theorem="E F(w) - F* <= H R^2/(2 T) + R sqrt(V/T), V = v L^2 + d sigma^2 "
        "(order L R sqrt(d)/(n mu))",
        source="Lan 2012 (doi:10.1007/s10107-010-0434-y); constants derived here",
        terms=(*terms, start),
        combine=root_and_last if tuned else add,
        cap=largest_excess(known.facts),
        regime=_regime(known, f"sqrt(d T) sigma >= 25 H R{sampled}"),
        tight_on=family if tuned and noise_std > 0.0 else None,
    )


def root_and_last(*values: float) -> float:
    """The root of the sum of squares of all values but the last one, plus the last one."""
    return math.hypot(*values[:-1]) + values[-1]


def _strongly_convex(known: _Known) -> Rate:
    facts, moments = known.facts, known.moments
    squares = known.squares(sampling=moments.second_moment - 1.0, gradients=1.0)
    factor = 2.0 / (facts.strong_convexity * (known.steps + 2.0))
    return Rate(
        quantity=Quantity.EMPIRICAL_RISK,
        theorem="E F(w) - F* <= 2 G^2 / (m (T + 2)), G^2 = a L^2 + d sigma^2",
        source="Lacoste-Julien, Schmidt and Bach 2012 (arXiv:1212.2002)",
        terms=tuple(_times(squares, factor, -1.0 * known.steps_powers)),
        cap=largest_excess(known.facts),
        regime=_regime(known, "sqrt(d) sigma >= 10 L"),
        tight_on="squared_distance",
    )


def _last(known: _Known, scale: float) -> Rate:
    facts, steps, moments = known.facts, known.steps, known.moments
    squares = known.squares(sampling=moments.second_moment - 1.0, gradients=1.0)
    slow = (2.0 + math.log(steps + 1.0)) / math.sqrt(steps + 1.0)
    start = known.start(slow * facts.diameter**2 / scale, 0.5)
    return Rate(
        quantity=Quantity.EMPIRICAL_RISK,
        theorem="E F(w) - F* <= (D^2/c + c G^2) (2 + ln T) / sqrt(T)",
        source="Shamir and Zhang 2013 (arXiv:1212.1824), Theorem 2",
        terms=(*_times(squares, slow * scale, -0.5 * known.steps_powers), start),
        cap=largest_excess(known.facts),
        regime=_regime(known, "sqrt(d) sigma >= 10 L and c G >= 10 D"),
    )


def _times(terms: list[Term], factor: float, powers: Powers) -> list[Term]:
    return [Term(term.name, factor * term.value, term.powers + powers) for term in terms]


def _roots(terms: list[Term], factor: float, powers: Powers) -> list[Term]:
    return [
        Term(term.name, factor * math.sqrt(term.value), 0.5 * term.powers + powers)
        for term in terms
    ]


def _regime(known: _Known, where: str) -> str:
    if known.noise_std == 0.0:
        return "fixed T" if known.steps_powers in (FIXED, GIVEN_STEPS) else "default T"
    sampled = "" if known.moments == ALL_RECORDS else ", rate and noise multiplier"
    if known.steps_powers in (FIXED, GIVEN_STEPS):
        return f"noise leading, {where}, at fixed steps{sampled}"
    return f"at default steps{sampled}, where the rest moves like the noise"

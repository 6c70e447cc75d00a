"""Descent along gradients whose projected noise leaves a small bias."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from privopt.arguments import member
from privopt.spec import ProblemClass
from privopt.theory.descent_numbers import OutputRule
from privopt.theory.largest_excess import largest_excess
from privopt.theory.rate import GIVEN_STEPS, Powers, Quantity, Rate, Term, add, no_rate

__all__ = [
    "BODIES",
    "GradientMoments",
    "bias_reduced_moments",
    "bias_reduced_rate",
    "bias_reduced_step_size",
    "bias_reduced_steps",
]

BODIES = ("l1_l2", "l1", "l2", "none")
"""Onto which noisy means are projected: ``|v|_1 <= C sqrt(s)``, ``|v|_2 <= C``, or both."""

_UNCLIPPED = 1.0 - 1e-6  # a clip norm this close to its bound changes nothing but round-off


class GradientMoments(NamedTuple):
    """What is known of a gradient given the past.

    Attributes
    ----------
    bias : float
        ``b >= |E G - grad F|``.
    square : float
        ``nu^2 >= E |G|^2``.
    powers : Powers
        How ``nu^2`` moves with the axes.
    bias_powers : Powers
        How ``b`` does.
    """

    bias: float
    square: float
    powers: Powers
    bias_powers: Powers


def bias_reduced_moments(
    problem_class: ProblemClass,
    *,
    noise: float,
    base: int,
    probabilities: Sequence[float],
    body: str,
    clip: float | None = None,
    steps_powers: Powers = GIVEN_STEPS,
) -> GradientMoments:
    """Bias and second moment of :class:`privopt.mechanisms.BiasReducedGradient`.

    The mean of ``b`` records has noise of scale ``sigma_b = sigma/b``, and with ``C`` the clip
    norm an error of at most ``e_b`` in root mean square, ::

        l1_l2   e_b^2 = min(C sqrt(s) sigma_b sqrt(2 ln 2d), d sigma_b^2, (2 C)^2)
        l1      e_b^2 = min(C sqrt(s) sigma_b sqrt(2 ln 2d), d sigma_b^2)
        l2      e_b^2 = min(d sigma_b^2, (2 C)^2)
        none    e_b^2 = d sigma_b^2,

    for ``|v - m|^2 <= <v - m, xi>`` where ``v`` projects ``m + xi`` and ``m`` is in the body: in
    expectation at most that of the body's support function, and of ``|xi|^2``. The clean parts of
    an increment cancel, so that ``E |D_k|^2 <= (e_{2b} + e_b)^2`` at ``b = b_0 2^k``, and ::

        bias <= e at the largest batch (0 where nothing is projected),
        nu^2 <= 2 E |mean_{b_0}|^2 + 2 sum_k (e_{2b} + e_b)^2 / p_k.

    At ``sigma = 2 z C``, ``A = 2 sqrt(2) C^2 z sqrt(s ln 2d)`` and ``e_b^2 = A/b`` these are
    ``sqrt(2 A/n)`` and ``2 C^2 + 12 A (M + 1)/b_0`` at most.

    Parameters
    ----------
    problem_class : ProblemClass
        With ``sparsity`` where the body has an l1 norm.
    noise : float
        ``sigma``, on sums.
    base : int
        ``b_0``.
    probabilities : sequence of float
        ``p_0..p_M``.
    body : str
        One of ``BODIES``.
    clip : float, optional
        ``C``; default ``L``.
    steps_powers : Powers
        How ``T`` moves with the axes. ``sigma`` moves as ``sqrt(T/n)/epsilon``.

    Examples
    --------
    >>> facts = ProblemClass(n=1024, dim=64, lipschitz=1.0, radius=1.0, sparsity=2)
    >>> found = bias_reduced_moments(
    ...     facts, noise=4.0, base=1, probabilities=[2**-k / 1.998 for k in range(10)], body="l1_l2"
    ... )
    >>> round(found.bias, 4), round(found.square, 1)
    (0.1312, 503.4)
    """
    member("body", body, BODIES)
    clip = problem_class.lipschitz if clip is None else clip
    level = Powers(n=-0.5, epsilon=-1.0) + 0.5 * steps_powers  # of sigma
    sparse, spread = math.inf, Powers(sparsity=0.5, dim=0.5 / math.log(2.0 * problem_class.dim))
    if body.startswith("l1"):
        assert problem_class.sparsity is not None
        widest = math.sqrt(2.0 * math.log(2.0 * problem_class.dim))
        sparse = clip * math.sqrt(problem_class.sparsity) * noise * widest
    dense = problem_class.dim * noise**2
    cap = (2.0 * clip) ** 2 if body in ("l1_l2", "l2") else math.inf

    def error(batch: int) -> float:
        return math.sqrt(min(sparse / batch, dense / batch**2, cap))

    sizes = [base << k for k in range(len(probabilities))]
    largest = 2 * sizes[-1]
    increments = math.fsum(
        2.0 * (error(size) + error(2 * size)) ** 2 / p
        for size, p in zip(sizes, probabilities, strict=True)
    )
    first = {
        "l1": 2.0 * (clip**2 + error(base) ** 2),
        "none": clip**2 + dense / base**2,
    }.get(body, clip**2)
    square = 2.0 * first + increments
    is_sparse = sparse <= dense / largest
    moves = level + spread if is_sparse else 2.0 * level + Powers(dim=1.0)
    logarithm = Powers(n=1.0 / (len(probabilities) * math.log(2.0)))
    bias = 0.0 if body == "none" else error(largest)
    return GradientMoments(
        bias,
        square,
        increments / square * (moves + logarithm),
        0.5 * moves + Powers(n=-0.5 if is_sparse else -1.0),
    )


def bias_reduced_steps(problem_class: ProblemClass, *, delta: float, base: int) -> int:
    """``T = ceil(2 n/(b_0 ln(4/delta)))``: what the published stopping rule takes on average.

    A function of public numbers, at which the error of ``T`` steps and the bias of one balance
    within a logarithm: more steps need more noise, fewer leave more of the variance.

    Examples
    --------
    >>> facts = ProblemClass(n=1000, dim=4, lipschitz=1.0, radius=1.0)
    >>> bias_reduced_steps(facts, delta=1e-6, base=1)
    132
    """
    return max(1, math.ceil(2.0 * problem_class.n / (base * math.log(4.0 / delta))))


def bias_reduced_step_size(
    problem_class: ProblemClass,
    *,
    steps: int,
    moments: GradientMoments,
    first_gap: float | None = None,
) -> float:
    """``R/(nu sqrt(T + 1))`` for convex losses, else ``sqrt(2 Gamma/(H nu^2 (T + 1)))``.

    Raises
    ------
    ValueError
        If a fact that it needs is not declared.

    Examples
    --------
    >>> facts = ProblemClass(n=1000, dim=4, lipschitz=1.0, radius=1.0)
    >>> moments = GradientMoments(0.0, 4.0, Powers(), Powers())
    >>> bias_reduced_step_size(facts, steps=24, moments=moments)
    0.1
    """
    if problem_class.convex:
        if math.isinf(problem_class.radius):
            raise ValueError("step_size must be given where radius is infinite, got None")
        return problem_class.radius / math.sqrt(moments.square * (steps + 1.0))
    if not problem_class.smoothness or first_gap is None:
        raise ValueError(
            "step_size must be given for losses that are not convex unless smoothness is declared "
            "and first_gap given, got None"
        )
    descent = problem_class.smoothness * moments.square * (steps + 1.0)
    return math.sqrt(2.0 * first_gap / descent)


def bias_reduced_rate(
    problem_class: ProblemClass,
    *,
    steps: int,
    step_size: float | None,
    output: OutputRule | str | None,
    moments: GradientMoments,
    first_gap: float | None = None,
    clip: float | None = None,
    steps_powers: Powers = GIVEN_STEPS,
    lower: float = 0.0,
) -> Rate:
    """Projected descent along ``G_t`` with ``|E G_t - grad F| <= b`` and ``E |G_t|^2 <= nu^2``.

    Convex losses over a set of radius ``R`` about the start, diameter ``2R``, and the average of
    the ``T + 1`` iterates::

        E F(w) - F* <= R^2/(2 eta (T + 1)) + eta nu^2/2 + 2 R b.

    ``|w_{t+1} - w*|^2 <= |w_t - w*|^2 - 2 eta <G_t, w_t - w*> + eta^2 |G_t|^2``, and given the past
    ``E <G_t, w_t - w*> >= F(w_t) - F* - b |w_t - w*|``. The last iterate may take a step along
    ``grad F`` itself, since ``L <= nu``. The diameter must be bounded: ``|w_t - w*|`` has to be.

    Smooth losses that are not convex, on the whole space, with ``F(w_1) - inf F <= Gamma`` and a
    random iterate::

        E |grad F(w)|^2 <= Gamma/(eta (T + 1)) + eta H nu^2/2 + L b,

    from ``F(w_{t+1}) <= F(w_t) - eta <grad F, G_t> + (H eta^2/2) |G_t|^2``. The rate is of the
    root, by Jensen's inequality. Source: Ghazi et al. 2024 (arXiv:2404.10881), section 5, with the
    constants derived here.

    Parameters
    ----------
    problem_class, steps
    step_size : float or None
        ``eta``; None where steps are not constant.
    output : OutputRule or its name
    moments : GradientMoments
    first_gap : float, optional
        ``Gamma``.
    clip : float, optional
        Below ``L`` no rate is claimed.
    steps_powers : Powers
    lower : float
        What no algorithm with this guarantee can beat.

    Examples
    --------
    >>> facts = ProblemClass(n=1000, dim=4, lipschitz=1.0, radius=1.0)
    >>> moments = GradientMoments(0.1, 4.0, Powers(), Powers())
    >>> bias_reduced_rate(facts, steps=99, step_size=0.05, output="average", moments=moments).upper
    0.4
    """
    quantity = Quantity.EMPIRICAL_RISK if problem_class.convex else Quantity.GRADIENT_NORM
    bias, square, powers, bias_powers = moments

    def none(reason: str) -> Rate:
        return no_rate(reason, quantity=quantity, lower=lower if problem_class.convex else 0.0)

    if math.isinf(problem_class.lipschitz):
        return none("no Lipschitz constant is declared")
    if clip is not None and clip < problem_class.lipschitz * _UNCLIPPED:
        return none("gradients are clipped below the Lipschitz constant")
    if step_size is None:
        return none("no theorem for step sizes that change")
    points = steps + 1.0
    if not problem_class.convex:
        if not math.isinf(problem_class.radius):
            return none("losses are not convex, and the set is not the whole space")
        if problem_class.smoothness is None or first_gap is None:
            return none("smoothness or first_gap is not known")
        if output != OutputRule.RANDOM_ITERATE:
            return none("no theorem for this output where losses are not convex")
        parts = (
            Term("noise", 0.5 * step_size * problem_class.smoothness * square, powers),
            Term("bias", problem_class.lipschitz * bias, bias_powers),
            Term("start", first_gap / (step_size * points), -1.0 * steps_powers),
        )
        return Rate(
            quantity=quantity,
            theorem="E |grad F(w)|^2 <= Gamma/(eta (T + 1)) + eta H nu^2/2 + L b",
            source="Ghazi et al. 2024 (arXiv:2404.10881), section 5; constants derived here",
            terms=tuple(Term(x.name, math.sqrt(x.value), 0.5 * x.powers) for x in parts),
            combine=math.hypot,
            regime="a given step size, noise leading",
        )
    if math.isinf(problem_class.radius):
        return none("the set is not bounded")
    if output not in (OutputRule.AVERAGE, OutputRule.RANDOM_ITERATE):
        return none("no theorem for this output")
    radius = problem_class.radius
    drift = Term("bias", 2.0 * radius * bias, bias_powers)
    if math.isclose(step_size, radius / math.sqrt(square * points), rel_tol=1e-9):
        tuned = 0.5 * powers + -0.5 * steps_powers
        terms: tuple[Term, ...] = (Term("noise", radius * math.sqrt(square / points), tuned), drift)
    else:
        start = Term("start", radius**2 / (2.0 * step_size * points), -1.0 * steps_powers)
        terms = Term("noise", 0.5 * step_size * square, powers), drift, start
    return Rate(
        quantity=quantity,
        theorem="E F(w) - F* <= R nu/sqrt(T + 1) + 2 R b",
        source="Ghazi et al. 2024 (arXiv:2404.10881), section 5; constants derived here",
        terms=terms,
        combine=add,
        cap=largest_excess(problem_class),
        lower=lower,
        regime="noise leading, T of the order of n/b_0 at least",
    )

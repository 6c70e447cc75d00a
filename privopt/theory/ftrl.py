"""Follow the regularised leader with correlated noise: upper bounds of regret and of risk."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from privopt.arguments import checked
from privopt.spec import ProblemClass
from privopt.theory.descent import root_and_last
from privopt.theory.rate import (
    FIXED,
    Powers,
    Quantity,
    Rate,
    Term,
    add,
    largest_excess,
    obstacles,
    refused,
)

_ROUND_OFF = 1e-9


class PrefixError(NamedTuple):
    """What noise leaves in the prefix sums, in units of ``sigma``, for one coordinate.

    The error after ``t`` answers is a sum ``X_t + Y_t``. ``X_t`` has increments of mean zero given
    the past, of which only the increments cost; ``Y_t`` is the rest, and costs by its size. Any
    such split is allowed; the usual one is ``X = 0``.

    ``deviation`` is ``y``, the mean over ``t = 1..T`` of the standard deviation of ``Y_t``: with
    ``X = 0`` the mean of ``sqrt((B B^T)_tt)``. ``increment`` is ``x``, the root mean square over
    ``t`` of the standard deviation of ``X_t - X_{t-1}``: fresh noise in every step has ``y = 0``
    and ``x = 1``. ``growth`` is the local exponent of sensitivity times error in ``T``
    (:func:`local_exponent`). ``restarts`` is ``r``, how often the noise and the leader begin anew;
    ``restarted`` is ``y_r``, the mean standard deviation of ``Y`` there.
    """

    deviation: float
    increment: float = 0.0
    growth: float = 0.0
    restarts: int = 0
    restarted: float = 0.0


@checked
def local_exponent(error: Callable[[int], float], steps: int) -> float:
    """``d log error / d log T`` of ``T -> error(T)``, between half and twice as many steps.

    Doubling keeps the saw teeth of trees in step.
    """
    ends = max(1, steps // 2), 2 * steps
    low, high = (error(end) for end in ends)
    return math.log(high / low) / math.log(ends[1] / ends[0])


@checked
def ftrl_regularisation(
    problem_class: ProblemClass,
    *,
    steps: int,
    noise_std: float,
    error: PrefixError,
    quantity: Quantity | str = Quantity.REGRET,
    batch_size: float = 1.0,
) -> float:
    """``Lambda = sqrt(T (L^2 + d sigma^2 x^2 + 2 L sigma sqrt(d) y))/R``, where the bound is least.

    With ``L^2 (N + 2 (1 - c))`` in place of ``T L^2`` for the population risk (:func:`ftrl_rate`).
    0 where the set is not bounded.
    """
    rounds = float(steps)
    if Quantity.named("quantity", quantity) is not Quantity.REGRET:
        rounds = _filled(problem_class, steps, batch_size)
    costs = _costs(problem_class, steps, noise_std, error, rounds)
    return math.sqrt(2.0 * costs.inverse) / problem_class.radius


@checked
def ftrl_batch(problem_class: ProblemClass, *, unit_noise: float) -> int:
    """``b = sqrt(d) u/L``, with ``u/b`` the noise that a batch of ``b`` needs if asked once.

    The risk of one pass with fresh noise is least there: ``R sqrt(L^2 b/n + d u^2/(b n))``. That of
    trees and Toeplitz factorisations is within a tenth of its least. At most ``n``.
    """
    best = math.sqrt(problem_class.dim) * unit_noise / problem_class.lipschitz
    return max(1, min(problem_class.n, math.ceil(best)))


@checked
def ftrl_rate(
    problem_class: ProblemClass,
    *,
    steps: int,
    noise_std: float,
    error: PrefixError,
    quantity: Quantity | str = Quantity.POPULATION_RISK,
    batch_size: float = 1.0,
    epochs: int = 1,
    batch_powers: Powers = FIXED,
    regularisation: float | None = None,
    clipped: bool = False,
    plain: bool = True,
) -> Rate:
    """Expected regret of the lazily projected leader, or its population risk after one pass.

    ``w_{t+1} = Proj(w_1 - S_t/Lambda)``, ``S_t = g_1 + ... + g_t + Z_t``, ``g_t`` a subgradient of
    ``f_t`` at ``w_t``. For convex, ``L``-Lipschitz losses and points ``u`` fixed before the noise
    is drawn, all within ``R`` of ``w_1``, and Gaussian noise of standard deviation ``sigma`` whose
    error in the prefix sums is ``Z = X + Y`` as in :class:`PrefixError`, ``r`` restarts::

        E regret <= Lambda R^2/2 + T (L^2 + d sigma^2 x^2)/(2 Lambda) + T L sigma sqrt(d) y/Lambda
                    + 2 r R sigma sqrt(d) y_r.

    With ``x = 0`` it holds for every order of losses, and against points ``u`` that are chosen
    last. With ``Y = 0`` it is the regret of noisy gradient descent. At the best ``Lambda`` the
    terms are the root of a sum of squares, ``R sqrt(2 T L sigma sqrt(d) y)``, ``R sigma x sqrt(T
    d)`` and ``R L sqrt(T)``, and that of the restarts is added; at any other ``Lambda`` all are
    added. The exponents take ``T`` to move like ``n/b``, and ``sigma y`` like ``T^growth/(b
    epsilon)``.

    *Derivation.* Let ``G_t = g_1 + ... + g_t``, and compare with the leader ``v_{t+1} = Proj(w_1 -
    (G_t + X_t)/Lambda)`` that only ``X`` disturbs: ``|w_t - v_t| <= |Y_{t-1}|/Lambda``, so
    ``f_t(w_t) - f_t(u) <= <g_t, v_t - u> + L |Y_{t-1}|/Lambda``. ``v_{t+1}`` minimises ``<G_t +
    X_t, w> + (Lambda/2)|w - w_1|^2`` over the set; the minimum has a ``1/Lambda``-Lipschitz
    gradient in ``G_t + X_t``, which is ``v_{t+1}``. Therefore::

        sum_t <g_t + x_t, v_t - u> <= (Lambda/2)(|u - w_1|^2 - |u - v_{T+1}|^2)
                                      + sum_t |g_t + x_t|^2/(2 Lambda),

    and given the past ``x_t`` has mean zero while ``g_t``, ``v_t``, ``u`` are fixed. *A restart*
    starts the next leader from ``w = Proj(w_1 - (G + X + Y)/Lambda)`` and not from ``v``, which
    adds ``(Lambda/2)(|u - w|^2 - |u - v|^2) <= 2 R |Y|``.

    *The population risk* of the average of ``w_1..w_{T+1}`` after one pass over batches of ``b``
    independent records, of which the last has ``c b``, is the regret over ``N = T + 1``, with ``L^2
    (N + 2 (1 - c))`` for ``T L^2``: ``w_t`` knows nothing of batch ``t``, hence ``E f_t(w_t) = E
    F_P(w_t)``. A last batch that is not full has a gradient at most ``L (1 - c)`` from that of a
    full one, which moves ``w_{T+1}`` by ``L (1 - c)/Lambda`` and its loss by ``L`` times that.

    ``steps`` is ``T``, of all passes together. ``f_t`` may be the loss of a batch: the sum of its
    records' losses over a divisor no smaller than their number. ``noise_std`` is ``sigma``, of the
    noise multiplied by ``C^-1``, in the units of ``g_t``. Beyond one of the ``epochs``, records are
    seen again and say nothing of the population; the regret is that of the whole stream.
    ``batch_powers`` say how ``b`` moves with the axes. ``regularisation`` is ``Lambda``, by default
    :func:`ftrl_regularisation`. ``clipped`` says whether clipping may change gradients, ``plain``
    whether there is no momentum. The rate has no terms, and the reason, where no theorem covers it.

    Source: Kairouz, McMahan, Song, Thakkar, Thakurta and Xu 2021, Theorem C.1 (arXiv:2103.00039);
    the split and the restarts are derived here. Without noise ``R L sqrt(T)`` is the best there is
    (Abernethy, Bartlett, Rakhlin and Tewari 2008). Cesa-Bianchi, Conconi and Gentile 2004
    (doi:10.1109/TIT.2004.833339) for the population.

    Examples
    --------
    >>> facts = ProblemClass(n=100, dim=4, lipschitz=1.0, radius=1.0)
    >>> rate = ftrl_rate(facts, steps=100, noise_std=0.5, error=PrefixError(1.5), quantity="regret")
    >>> rate.upper, round(rate.terms[0].value, 3), rate.terms[1].value
    (20.0, 17.321, 10.0)
    """
    spoken = Quantity.named("quantity", quantity)
    regret, risk = spoken is Quantity.REGRET, spoken is Quantity.POPULATION_RISK
    reasons = {
        f"follow the leader is not bounded in {spoken}": not (regret or risk),
        "records that are seen again are not fresh draws of the population": risk and epochs > 1,
        **obstacles(problem_class, clipped=clipped),
        "momentum": not plain,
    }
    refusal = refused(reasons, spoken)
    if refusal is not None:
        return refusal
    rounds = float(steps) if regret else _filled(problem_class, steps, batch_size)
    costs = _costs(problem_class, steps, noise_std, error, rounds)
    best = math.sqrt(2.0 * costs.inverse) / problem_class.radius
    used = best if regularisation is None else regularisation
    tuned = math.isclose(used, best, rel_tol=_ROUND_OFF)
    counted, moved = (1.0, FIXED) if regret else (steps + 1.0, batch_powers + Powers(n=-1.0))
    terms = [
        term.times(1.0 / counted, moved)
        for term in _terms(costs, error, batch_powers, None if tuned else used)
    ]
    combine = (root_and_last if error.restarts else math.hypot) if tuned else add
    return Rate(
        quantity=spoken,
        theorem=_REGRET if regret else _RISK,
        source="Kairouz et al. 2021 (arXiv:2103.00039), Theorem C.1; constants derived here",
        terms=tuple(terms),
        combine=combine,
        cap=largest_excess(problem_class) * (steps if regret else 1.0),
        rounds=problem_class.n / batch_size if regret and epochs == 1 else 0.0,
        regime=_REGIMES.get(terms[0].name, "") + "fixed batches and passes",
        tight_on=_hard_family(noise_std) if regret and tuned else None,
    )


_REGRET = "E regret <= R sqrt(T (L^2 + d sigma^2 x^2 + 2 L sigma sqrt(d) y)), Z = X + Y"
_REGIMES = {
    "noise": "noise leading, sigma sqrt(d) y >= 12 L, at ",
    "increments": "increments leading, sigma x sqrt(d) >= 7 L, at ",
}
_RISK = "E F_P(w) - F_P* <= R sqrt(L^2 + d sigma^2 x^2 + 2 L sigma sqrt(d) y)/sqrt(T + 1)"


def _hard_family(noise_std: float) -> str:
    """Where the regret is 0.75 to 0.95 of the bound with noise, and all of it without.

    None is known for the risk of the average, in which correlated noise cancels.
    """
    return "far_distance" if noise_std > 0.0 else "orthogonal_linear"


class _Costs(NamedTuple):
    """The bound as ``start Lambda + (noise + increments + gradients)/Lambda + restarts``."""

    start: float
    noise: float
    increments: float
    gradients: float
    restarts: float

    @property
    def inverse(self) -> float:
        """What is divided by ``Lambda``."""
        return self.noise + self.increments + self.gradients


def _costs(
    facts: ProblemClass, steps: int, noise_std: float, error: PrefixError, rounds: float
) -> _Costs:
    lipschitz, radius = facts.lipschitz, facts.radius
    norm = noise_std * math.sqrt(facts.dim)
    drift, last = norm * error.deviation, error.restarts * error.restarted * norm
    return _Costs(
        start=0.5 * radius**2,
        noise=steps * lipschitz * drift if drift > 0.0 else 0.0,
        increments=0.5 * steps * (norm * error.increment) ** 2,
        gradients=0.5 * rounds * lipschitz**2,
        restarts=2.0 * radius * last if last > 0.0 else 0.0,
    )


def _filled(facts: ProblemClass, steps: int, batch_size: float) -> float:
    """``N + 2 (1 - c)``: ``T + 1`` rounds, and what the last batch lacks."""
    return steps + 1.0 + 2.0 * max(0.0, steps - facts.n / batch_size)


def _terms(
    costs: _Costs, error: PrefixError, batch_powers: Powers, regularisation: float | None
) -> list[Term]:
    """Those of the regret, privacy's first, the larger of them before the other."""
    steps = Powers(n=1.0) + -1.0 * batch_powers
    moved = Powers(dim=0.5, epsilon=-1.0) + error.growth * steps + -1.0 * batch_powers
    parts = [
        Term("noise", costs.noise, steps + moved),
        Term("increments", costs.increments, steps + 2.0 * moved),
    ]
    parts.sort(key=lambda part: -part.value)
    parts.append(Term("gradients", costs.gradients, steps))
    if regularisation is None:
        terms = [part.times(4.0 * costs.start).root() for part in parts]
    else:
        terms = [part.times(1.0 / regularisation) for part in parts]
        terms.append(Term("start", costs.start * regularisation))
    if error.restarts:
        terms.append(Term("restarts", costs.restarts, moved))
    return [term for term in terms if term.value > 0.0]

"""Follow the regularised leader (DP-FTRL) with correlated noise: regret and population risk."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from privopt.arguments import checked
from privopt.spec import ProblemClass
from privopt.theory.descent import hypot_plus_last
from privopt.theory.rate import (
    FIXED,
    Exponents,
    Quantity,
    Rate,
    Term,
    add,
    largest_excess,
    no_rate_if,
    unmet_assumptions,
)

_ROUND_OFF = 1e-9


class PrefixError(NamedTuple):
    """Error of noisy prefix sums per coordinate, in units of ``sigma``.

    The error after ``t`` steps is split as ``X_t + Y_t``. The increments of ``X_t`` have mean zero
    given the past; only they enter the bound. ``Y_t`` is the remainder and enters by its size. Any
    such split is valid; the usual one is ``X = 0``.

    Attributes
    ----------
    deviation : float
        ``y``, the mean over ``t`` of the standard deviation of ``Y_t``. With ``X = 0`` it is the
        mean of ``sqrt((B B^T)_tt)``.
    increment : float
        ``x``, the root mean square over ``t`` of the standard deviation of ``X_t - X_{t-1}``.
        Fresh noise in every step has ``y = 0`` and ``x = 1``.
    growth : float
        Local exponent of sensitivity times error in ``T`` (:func:`local_exponent`).
    restarts, restarted : int, float
        ``r``, the number of restarts of noise and leader, and ``y_r``, the mean standard deviation
        of ``Y`` at the restarts.
    """

    deviation: float
    increment: float = 0.0
    growth: float = 0.0
    restarts: int = 0
    restarted: float = 0.0


@checked
def local_exponent(error: Callable[[int], float], steps: int) -> float:
    """Return ``d log error / d log T`` of ``T -> error(T)``, between ``T/2`` and ``2 T`` steps.

    Powers of two preserve the position within the sawtooth of tree errors.
    """
    fewer, more = max(1, steps // 2), 2 * steps
    return math.log(error(more) / error(fewer)) / math.log(more / fewer)


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
    """Return the best ``Lambda = sqrt(T (L^2 + d sigma^2 x^2 + 2 L sigma sqrt(d) y))/R``.

    For the population risk, ``L^2 (N + 2 (1 - c))`` replaces ``T L^2`` (:func:`ftrl_rate`). The
    value is 0 if the set is not bounded.
    """
    rounds = float(steps)
    if Quantity.named("quantity", quantity) is not Quantity.REGRET:
        rounds = _filled(problem_class, steps, batch_size)
    costs = _costs(problem_class, steps, noise_std, error, rounds)
    return math.sqrt(2.0 * costs.inverse) / problem_class.radius


@checked
def ftrl_batch(problem_class: ProblemClass, *, unit_noise: float) -> int:
    """Return the batch size ``b = sqrt(d) u/L``, at most ``n``.

    ``u/b`` is the noise of a single gradient of a batch of ``b``. ``b`` minimises the risk of one
    pass with fresh noise, ``R sqrt(L^2 b/n + d u^2/(b n))``. For trees and Toeplitz factorisations
    the risk is within a tenth of its minimum.
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
    batch_powers: Exponents = FIXED,
    regularisation: float | None = None,
    clipped: bool = False,
    plain: bool = True,
) -> Rate:
    """Return the expected regret of DP-FTRL, or the population risk of its average after one pass.

    ``w_{t+1} = Proj(w_1 - S_t/Lambda)``, ``S_t = g_1 + ... + g_t + Z_t``, with a subgradient
    ``g_t`` of ``f_t`` at ``w_t``. Losses are convex and ``L``-Lipschitz, all points are within
    ``R`` of ``w_1``, and the comparator is fixed before the noise is drawn. The noise is Gaussian
    with standard deviation ``sigma``; its error in the prefix sums is ``Z = X + Y`` as in
    :class:`PrefixError`, with ``r`` restarts::

        E regret <= Lambda R^2/2 + T (L^2 + d sigma^2 x^2)/(2 Lambda) + T L sigma sqrt(d) y/Lambda
                    + 2 r R sigma sqrt(d) y_r.

    At the best ``Lambda`` the bound is the root of the sum of squares of ``R sqrt(2 T L sigma
    sqrt(d) y)``, ``R sigma x sqrt(T d)`` and ``R L sqrt(T)``, plus the restarts. The population
    risk of the average of ``w_1..w_{T+1}``, after one pass over batches of ``b`` independent
    records and a last batch of ``c b``, is the regret divided by ``N = T + 1``, with ``L^2 (N + 2
    (1 - c))`` in place of ``T L^2``. Proofs: :ref:`Regret, Theorems 1 <theory-regret-1>` and
    :ref:`2 <theory-regret-2>`. The exponents assume ``T`` of order ``n/b`` and ``sigma y`` of order
    ``T^growth/(b epsilon)``. Source: Kairouz, McMahan, Song, Thakkar, Thakurta and Xu 2021
    (arXiv:2103.00039), Theorem C.1; Cesa-Bianchi, Conconi and Gentile 2004
    (doi:10.1109/TIT.2004.833339) for the population. The split and the restarts are derived here.

    Parameters
    ----------
    problem_class : ProblemClass
        Public facts.
    steps : int
        ``T`` of all passes together. ``f_t`` may be the loss of a batch: the sum of the losses of
        its records over a divisor at least as large as their number.
    noise_std : float
        ``sigma``, the noise before multiplication by ``C^-1``, in the units of ``g_t``.
    error : PrefixError
        Error of the prefix sums per unit of ``sigma``.
    quantity : Quantity or str
        Regret of the whole stream, or population risk.
    batch_size, epochs : float, int
        ``b`` and the number of passes. With more than one pass there is no population risk.
    batch_powers : Exponents
        Exponents of ``b`` in the axes.
    regularisation : float, optional
        ``Lambda``, by default :func:`ftrl_regularisation`. At other values all terms are added.
    clipped, plain : bool
        ``clipped`` is True if clipping may change gradients, ``plain`` if there is no momentum. If
        no theorem applies, the rate has no terms and states the reason.

    Examples
    --------
    >>> facts = ProblemClass(n=100, dim=4, lipschitz=1.0, radius=1.0)
    >>> rate = ftrl_rate(facts, steps=100, noise_std=0.5, error=PrefixError(1.5), quantity="regret")
    >>> rate.upper, round(rate.terms[0].value, 3), rate.terms[1].value
    (20.0, 17.321, 10.0)
    """
    bounded = Quantity.named("quantity", quantity)
    regret, risk = bounded is Quantity.REGRET, bounded is Quantity.POPULATION_RISK
    reasons = {
        f"follow the leader is not bounded in {bounded}": not (regret or risk),
        "records that are seen again are not fresh draws of the population": risk and epochs > 1,
        **unmet_assumptions(problem_class, clipped=clipped),
        "momentum": not plain,
    }
    refusal = no_rate_if(reasons, bounded)
    if refusal is not None:
        return refusal
    rounds = float(steps) if regret else _filled(problem_class, steps, batch_size)
    costs = _costs(problem_class, steps, noise_std, error, rounds)
    best = math.sqrt(2.0 * costs.inverse) / problem_class.radius
    used = best if regularisation is None else regularisation
    tuned = math.isclose(used, best, rel_tol=_ROUND_OFF)
    points, powers = (1.0, FIXED) if regret else (steps + 1.0, batch_powers + Exponents(n=-1.0))
    terms = [
        term.times(1.0 / points, powers)
        for term in _terms(costs, error, batch_powers, None if tuned else used)
    ]
    combine = (hypot_plus_last if error.restarts else math.hypot) if tuned else add
    # The regret is 0.75 to 0.95 of the bound on the first family, and all of it on the second. No
    # family is known for the risk of the average, in which correlated noise cancels.
    tight_on = "far_distance" if noise_std > 0.0 else "orthogonal_linear"
    return Rate(
        quantity=bounded,
        theorem=_REGRET if regret else _RISK,
        source="Kairouz et al. 2021 (arXiv:2103.00039), Theorem C.1; constants derived here",
        terms=tuple(terms),
        combine=combine,
        cap=largest_excess(problem_class) * (steps if regret else 1.0),
        rounds=problem_class.n / batch_size if regret and epochs == 1 else 0.0,
        regime=_REGIMES.get(terms[0].name, "") + "fixed batches and passes",
        tight_on=tight_on if regret and tuned else None,
    )


_REGRET = "E regret <= R sqrt(T (L^2 + d sigma^2 x^2 + 2 L sigma sqrt(d) y)), Z = X + Y"
_REGIMES = {
    "noise": "noise leading, sigma sqrt(d) y >= 12 L, at ",
    "increments": "increments leading, sigma x sqrt(d) >= 7 L, at ",
}
_RISK = "E F_P(w) - F_P* <= R sqrt(L^2 + d sigma^2 x^2 + 2 L sigma sqrt(d) y)/sqrt(T + 1)"


class _Costs(NamedTuple):
    """Coefficients of ``start Lambda + (noise + increments + gradients)/Lambda + restarts``."""

    start: float
    noise: float
    increments: float
    gradients: float
    restarts: float

    @property
    def inverse(self) -> float:
        """Coefficient of ``1/Lambda``."""
        return self.noise + self.increments + self.gradients


def _costs(
    facts: ProblemClass, steps: int, noise_std: float, error: PrefixError, rounds: float
) -> _Costs:
    lipschitz, radius = facts.lipschitz, facts.radius
    norm = noise_std * math.sqrt(facts.dim)
    drift, restarts = norm * error.deviation, error.restarts * error.restarted * norm
    return _Costs(
        start=0.5 * radius**2,
        noise=steps * lipschitz * drift if drift > 0.0 else 0.0,
        increments=0.5 * steps * (norm * error.increment) ** 2,
        gradients=0.5 * rounds * lipschitz**2,
        restarts=2.0 * radius * restarts if restarts > 0.0 else 0.0,
    )


def _filled(facts: ProblemClass, steps: int, batch_size: float) -> float:
    """Return ``N + 2 (1 - c)``: ``T + 1`` rounds and the correction for the last batch."""
    return steps + 1.0 + 2.0 * max(0.0, steps - facts.n / batch_size)


def _terms(
    costs: _Costs, error: PrefixError, batch_powers: Exponents, regularisation: float | None
) -> list[Term]:
    """Return the terms of the regret, privacy terms first and sorted by size."""
    steps = Exponents(n=1.0) + -1.0 * batch_powers
    by_noise = Exponents(dim=0.5, epsilon=-1.0) + error.growth * steps + -1.0 * batch_powers
    parts = [
        Term("noise", costs.noise, steps + by_noise),
        Term("increments", costs.increments, steps + 2.0 * by_noise),
    ]
    parts.sort(key=lambda part: -part.value)
    parts.append(Term("gradients", costs.gradients, steps))
    if regularisation is None:
        terms = [part.times(4.0 * costs.start).root() for part in parts]
    else:
        terms = [part.times(1.0 / regularisation) for part in parts]
        terms.append(Term("start", costs.start * regularisation))
    if error.restarts:
        terms.append(Term("restarts", costs.restarts, by_noise))
    return [term for term in terms if term.value > 0.0]

"""Accountant of pure differential privacy: randomised response, Laplace noise, their sums.

Every ``epsilon_0``-DP release is a post-processing of randomised response on one bit with the
same ``epsilon_0``, so that event stands for *any* pure release (``pure_event`` in
``calibration``). Composition adds: ``E = sum epsilon_0`` (basic composition), and

    delta(epsilon) <= (e^E - e^epsilon)_+ / (1 + e^E).

From below, test whether *every* release came out most typical of the true data: with
probability ``h`` (the product of single probabilities) it does, with loss exactly ``E``, hence
``delta(epsilon) >= h (1 - e^(epsilon - E))_+``. The two meet for one bit, where
``h = 1 / (1 + e^-E)``, and at ``delta = 0`` for every composition.

Source: Kairouz, Oh and Viswanath, "The composition theorem for differential privacy", IEEE
Trans. Inf. Theory 2017 (arXiv:1311.0776, proof of Theorem 3.3, for domination); Dwork and Roth,
"The algorithmic foundations of differential privacy", 2014, Theorems 3.6 and 3.16.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import dp_accounting as dp
import numpy as np
import numpy.typing as npt

from privopt.privacy.events import BoundedRangeDpEvent
from privopt.privacy.interval import Interval
from privopt.privacy.leaves import leaves
from privopt.privacy.parameters import is_count, is_noise, is_rate
from privopt.privacy.renyi.pure import response_loss
from privopt.privacy.selection import repetitions_of, selection_epsilon
from privopt.privacy.sums import total
from privopt.spec import Relation

__all__ = ["PureDP"]

_ROUNDING = 2.0**-48  # relative; a handful of operations, each within a unit or two of 2^-53
_LARGEST = math.nextafter(math.inf, 0.0)


@dataclass(frozen=True)
class PureDP:
    """Compositions of pure releases, randomised response, Laplace noise, and selections among such.

    Any ``epsilon``-DP release is ``ZCDpEvent(0, epsilon)``, under every relation.

    Randomised response (``noise_parameter = p``, ``num_buckets = k``) names the pair of output
    distributions itself, so its ``epsilon_0 = ln(1 + (1 - p) k / p)`` holds under every relation.
    (dp-accounting agrees for ``replace_one``; under ``zero_out`` it lets a null record answer
    uniformly, which costs less, and under ``add_or_remove_one`` it does not answer.)
    Laplace noise of scale ``b`` times the l1 bound of one record's contribution has
    ``epsilon_0 = relation.multiple / b``. The best of a random number of runs, each a composition
    of these (``RepeatAndSelectDpEvent``, not Poisson), has ``selection_epsilon`` of the summed
    loss of one run, known from above alone.

    Formal guarantee
    ----------------
    ``E``-DP under ``relation``, with ``E`` the sum over all releases, rounded up.
    """

    name = "pure DP"

    def supports(self, event: dp.DpEvent, relation: Relation) -> bool:
        """Whether every leaf is one of these, with parameters that make sense."""
        return all(_of_leaf(leaf, relation) is not None for leaf, _ in leaves(event))

    def epsilon(self, event: dp.DpEvent, relation: Relation, delta: float) -> Interval:
        """Between the all-typical test and randomised response with the summed ``epsilon_0``."""
        loss, log_typical = _compose(event, relation)
        log_delta = math.log(delta) * (1.0 - _ROUNDING) if delta > 0.0 else -math.inf
        lower = upper = 0.0
        if delta == 0.0:
            lower = loss.lower
        elif log_delta < log_typical:
            missed = math.exp(log_delta - log_typical)
            lower = max(0.0, loss.lower * (1.0 - _ROUNDING) + math.log1p(-missed))
        spent = delta * (1.0 + math.exp(-loss.upper)) * (1.0 - _ROUNDING)
        if spent < 1.0:
            upper = max(0.0, loss.upper * (1.0 + _ROUNDING) + math.log1p(-spent))
        return Interval(lower, upper)

    def delta(self, event: dp.DpEvent, relation: Relation, epsilon: float) -> Interval:
        """Between the all-typical test and randomised response with the summed ``epsilon_0``."""
        loss, log_typical = _compose(event, relation)
        lower = upper = 0.0
        if epsilon < loss.lower:
            lower = -math.exp(log_typical) * math.expm1(epsilon - loss.lower)
        if epsilon < loss.upper:
            upper = -math.expm1(epsilon - loss.upper) / (1.0 + math.exp(-loss.upper))
        return Interval(lower * (1.0 - _ROUNDING), min(1.0, upper * (1.0 + _ROUNDING)))

    def trade_off(
        self, event: dp.DpEvent, relation: Relation, alphas: npt.NDArray[np.float64]
    ) -> npt.NDArray[np.float64]:
        """``max(0, 1 - e^E alpha, e^-E (1 - alpha))``, rounded down."""
        loss = _compose(event, relation)[0].upper
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            steep = np.where(alphas > 0.0, 1.0 - np.exp(loss) * alphas - _ROUNDING, 1.0)
            flat = np.nextafter(np.exp(-loss) * (1.0 - alphas) * (1.0 - _ROUNDING), -1.0)
        return np.asarray(np.maximum(np.maximum(steep, flat), 0.0))


class _Pure(NamedTuple):
    """Bounds of ``epsilon_0`` of one release, and the probability of its most typical outcomes.

    Those are the true bucket, or all values on the near side of the true one's value.
    """

    least: float
    most: float
    typical: float


def _of_leaf(leaf: dp.DpEvent, relation: Relation) -> _Pure | None:
    """What is known of one release; None if it is not known to be pure."""
    match leaf:
        case dp.RandomizedResponseDpEvent(noise_parameter=p, num_buckets=k):
            if is_rate(p) and is_count(k) and k >= 2:
                p, k = float(p), int(k)
                loss = response_loss(p, k)
                return _Pure(loss, loss, (1.0 - p) + p / k)
        case BoundedRangeDpEvent(epsilon=span) if is_noise(span):
            return _Pure(0.5 * float(span), float(span), 1.0 / (1.0 + math.exp(-0.5 * span)))
        case dp.ZCDpEvent(rho=rho, xi=loss) if is_noise(rho) and is_noise(loss) and rho == 0.0:
            return _Pure(float(loss), float(loss), 1.0 / (1.0 + math.exp(-loss)))
        case dp.LaplaceDpEvent(noise_multiplier=b) if is_noise(b):
            if b == 0.0:
                return _Pure(math.inf, math.inf, 1.0)
            loss = relation.multiple / float(b)
            return _Pure(min(loss, _LARGEST), loss, 0.5)
        case dp.dp_event.RepeatAndSelectDpEvent(event=inner):
            repetitions = repetitions_of(leaf)
            if repetitions is None or math.isinf(repetitions.shape):
                return None
            if (run := _composed(inner, relation)) is None:
                return None
            most = run[0].upper
            if most < math.inf:
                most = selection_epsilon(most, repetitions)
            return _Pure(0.0, most, 1.0)
    return None


def _compose(event: dp.DpEvent, relation: Relation) -> tuple[Interval, float]:
    """Bounds of ``E``, and a lower bound of ``ln h``."""
    both = _composed(event, relation)
    assert both is not None, "asked about an event that is not supported"
    return both


def _composed(event: dp.DpEvent, relation: Relation) -> tuple[Interval, float] | None:
    parts = [(_of_leaf(leaf, relation), count) for leaf, count in leaves(event)]
    known = [(pure, count) for pure, count in parts if pure is not None]
    if len(known) < len(parts):
        return None
    least = total((pure.least, count) for pure, count in known)
    most = total((pure.most, count) for pure, count in known)
    log_typical = total(
        (math.log(pure.typical) * (1.0 + _ROUNDING) - _ROUNDING, count) for pure, count in known
    )
    if not any(math.isinf(pure.least) for pure, _ in known):
        least = min(least, _LARGEST)
    return Interval(least * (1.0 - _ROUNDING), most * (1.0 + _ROUNDING)), log_typical

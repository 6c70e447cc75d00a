"""The interface of accountants, and those in closed form: Gaussian, pure, zero-concentrated.

Gaussian distances add in squares, largest losses and the parameters of zCDP add. The bounds of a
composition of pure releases with the sum ``E`` of the largest losses are, with ``h`` the
probability that every release has its most likely outcome,

    h (1 - e^(epsilon - E))_+ <= delta(epsilon) <= (e^E - e^epsilon)_+ / (1 + e^E).

Proof: :ref:`Accountants, Theorem 8 <theory-accountants-8>`.

Sources: Dong, Roth and Su 2022 (arXiv:1905.02383, Theorem 2.7 and Corollary 3.3); Kairouz, Oh and
Viswanath 2017 (arXiv:1311.0776, proof of Theorem 3.3, for domination); Dwork and Roth, "The
algorithmic foundations of differential privacy", 2014, Theorems 3.6 and 3.16; Bun and Steinke 2016
(arXiv:1605.02065), Propositions 1.4 (pure) and 1.6 (Gaussian), Lemma 1.7 (composition).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol, TypeVar

import dp_accounting as dp
import numpy as np

from privopt.arguments import shown
from privopt.privacy.flatten import flatten
from privopt.privacy.gaussian import (
    gaussian_delta,
    gaussian_trade_off,
    largest_epsilon,
    smallest_epsilon,
)
from privopt.privacy.mechanisms.base import collect, compose_losses, compose_shifts, round_up_cost
from privopt.privacy.numbers import SMALLEST, Array, Interval
from privopt.privacy.renyi import envelope, zcdp_delta, zcdp_epsilon
from privopt.spec import Relation

# Relative: a division, two roots, a product and hypot are below 5 units of 2^-53 among normal
# numbers; noise near the largest float64 makes up to three of the results subnormal, 4 units each.
_GAUSSIAN_ROUNDING = 2.0**-49
_ROUNDING = 2.0**-48  # relative; a dozen operations and the sum, each a unit or two of 2^-53
_MAX_FLOAT = math.nextafter(math.inf, 0.0)
_DELTAS = np.geomspace(1e-12, 0.9, 40)


Number = TypeVar("Number", covariant=True)
Curve = TypeVar("Curve", covariant=True)


class Respondent(Protocol[Number, Curve]):
    """Epsilon, delta and trade-off curves of supported events, as numbers and curves of any type.

    Arguments are already checked: ``delta`` in ``[0, 1)``, ``epsilon >= 0``, ``alphas`` in
    ``[0, 1]``. The other methods are called only for events that ``supports`` accepts.
    """

    @property
    def name(self) -> str:
        """The name in reports."""

    def supports(self, event: dp.DpEvent, relation: Relation) -> bool:
        """Return True if all parts of ``event`` are supported, parameters included."""

    def epsilon(self, event: dp.DpEvent, relation: Relation, delta: float) -> Number:
        """Return the smallest ``epsilon`` for which ``event`` is ``(epsilon, delta)``-DP."""

    def delta(self, event: dp.DpEvent, relation: Relation, epsilon: float) -> Number:
        """Return the smallest ``delta`` for which ``event`` is ``(epsilon, delta)``-DP."""

    def trade_off(self, event: dp.DpEvent, relation: Relation, alphas: Array) -> Curve:
        """Return the smallest type-II error of a test with type-I error ``alphas``."""


class Accountant(Respondent[Interval, Array], Protocol):
    """Certified bounds of the privacy of the supported events.

    Formal guarantee
    ----------------
    For a supported event, every mechanism that the event describes satisfies the upper ends of
    ``epsilon`` and ``delta`` and the curve ``trade_off`` (a lower bound of every test's type-II
    error) under ``relation``, rounding included. Some such mechanism attains at least the lower
    ends.
    """


@dataclass(frozen=True)
class NonPrivate:
    """Compositions with a non-private event, which have infinite epsilon."""

    name = "non-private"

    def supports(self, event: dp.DpEvent, relation: Relation) -> bool:
        return any(isinstance(leaf, dp.NonPrivateDpEvent) for leaf, _ in flatten(event))

    def epsilon(self, event: dp.DpEvent, relation: Relation, delta: float) -> Interval:
        return Interval(math.inf, math.inf)

    def delta(self, event: dp.DpEvent, relation: Relation, epsilon: float) -> Interval:
        return Interval(1.0, 1.0)

    def trade_off(self, event: dp.DpEvent, relation: Relation, alphas: Array) -> Array:
        return np.zeros_like(alphas)


@dataclass(frozen=True)
class GaussianDP:
    """Compositions of Gaussian releases and of exactly equivalent ones (``Release.shifts``).

    Formal guarantee
    ----------------
    ``mu``-GDP under ``relation``, with the ``mu`` of ``distance(event, relation).upper``. The lower
    ends are attained by data sets in which the differing record contributes the full norm in the
    same direction to every release, in the first step of every largest tree.

    Examples
    --------
    >>> import dp_accounting as dp
    >>> releases = dp.SelfComposedDpEvent(dp.GaussianDpEvent(2.0), 4)
    >>> round(GaussianDP().distance(releases, Relation.REPLACE_ONE).upper, 6)
    2.0
    """

    name = "Gaussian DP"
    cites = ("dong2022",)

    def supports(self, event: dp.DpEvent, relation: Relation) -> bool:
        return compose_shifts(event, relation) is not None

    def distance(self, event: dp.DpEvent, relation: Relation) -> Interval:
        """Return ``mu`` of the whole composition; infinite if one release has no noise."""
        shifts = compose_shifts(event, relation) or []
        mu = math.hypot(*(each.distance for each in shifts))
        if any(each.noise == 0.0 and each.times for each in shifts):
            return Interval(math.inf, math.inf)
        return Interval(
            min(mu, _MAX_FLOAT) * (1.0 - _GAUSSIAN_ROUNDING), mu * (1.0 + _GAUSSIAN_ROUNDING)
        )

    def epsilon(self, event: dp.DpEvent, relation: Relation, delta: float) -> Interval:
        mu = self.distance(event, relation)
        return Interval(smallest_epsilon(delta, mu.lower), largest_epsilon(delta, mu.upper))

    def delta(self, event: dp.DpEvent, relation: Relation, epsilon: float) -> Interval:
        mu = self.distance(event, relation)
        return Interval(
            gaussian_delta(epsilon, mu=mu.lower).lower, gaussian_delta(epsilon, mu=mu.upper).upper
        )

    def trade_off(self, event: dp.DpEvent, relation: Relation, alphas: Array) -> Array:
        return gaussian_trade_off(alphas, self.distance(event, relation).upper)


@dataclass(frozen=True)
class PureDP:
    """Compositions of releases with a largest loss (``Release.loss``), and selections of them.

    Formal guarantee
    ----------------
    ``E``-DP under ``relation``, with ``E`` the sum over all releases, rounded up.

    Examples
    --------
    >>> import dp_accounting as dp
    >>> releases = dp.SelfComposedDpEvent(dp.LaplaceDpEvent(4.0), 3)
    >>> round(PureDP().epsilon(releases, Relation.ADD_OR_REMOVE_ONE, 0.0).upper, 6)
    0.75
    """

    name = "pure DP"
    cites = ("dwork2006", "kairouz2017")

    def supports(self, event: dp.DpEvent, relation: Relation) -> bool:
        return compose_losses(event, relation) is not None

    def epsilon(self, event: dp.DpEvent, relation: Relation, delta: float) -> Interval:
        loss, log_typical = _compose(event, relation)
        log_delta = math.log(delta) * (1.0 - _ROUNDING) if delta > 0.0 else -math.inf
        lower = upper = 0.0
        if delta == 0.0:
            lower = loss.lower
        elif log_delta < log_typical:
            ratio = math.exp(log_delta - log_typical)
            lower = max(0.0, loss.lower * (1.0 - _ROUNDING) + math.log1p(-ratio))
        share = delta * (1.0 + math.exp(-loss.upper)) * (1.0 - _ROUNDING)
        if share < 1.0:
            upper = max(0.0, loss.upper * (1.0 + _ROUNDING) + math.log1p(-share))
        return Interval(lower, upper)

    def delta(self, event: dp.DpEvent, relation: Relation, epsilon: float) -> Interval:
        loss, log_typical = _compose(event, relation)
        lower = upper = 0.0
        if epsilon < loss.lower:
            lower = -math.exp(log_typical) * math.expm1(epsilon - loss.lower)
        if epsilon < loss.upper:
            upper = -math.expm1(epsilon - loss.upper) / (1.0 + math.exp(-loss.upper))
        return Interval(lower * (1.0 - _ROUNDING), min(1.0, upper * (1.0 + _ROUNDING)))

    def trade_off(self, event: dp.DpEvent, relation: Relation, alphas: Array) -> Array:
        loss = _compose(event, relation)[0].upper
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            steep = np.where(alphas > 0.0, 1.0 - np.exp(loss) * alphas - _ROUNDING, 1.0)
            flat = np.nextafter(np.exp(-loss) * (1.0 - alphas) * (1.0 - _ROUNDING), -1.0)
        return np.asarray(np.maximum(np.maximum(steep, flat), 0.0))


def _compose(event: dp.DpEvent, relation: Relation) -> tuple[Interval, float]:
    result = compose_losses(event, relation)
    assert result is not None, "the event must be supported"
    return result


@dataclass(frozen=True)
class ZCDP:
    """Compositions of releases with a bound ``D_alpha <= xi + rho alpha`` (``Release.zcdp``).

    With ``m = relation.multiple``: ``rho = (m/z)^2 / 2`` for a Gaussian release, times
    ``floor(log2 T) + 1`` for a tree; ``epsilon tanh(epsilon / 2)`` for a pure release;
    ``epsilon^2 / 8`` if losses span ``epsilon``. Sampling is not supported, because the divergences
    of a sample are not linear in the order.

    Formal guarantee
    ----------------
    The upper ends hold, rounding included. The lower ends are zero.

    Examples
    --------
    >>> import dp_accounting as dp
    >>> releases = dp.SelfComposedDpEvent(dp.GaussianDpEvent(2.0), 4)
    >>> rho, xi = ZCDP().concentration(releases, Relation.ADD_OR_REMOVE_ONE)
    >>> round(rho, 6), xi
    (0.5, 0.0)
    """

    name = "zCDP"
    cites = ("bun2016",)

    def supports(self, event: dp.DpEvent, relation: Relation) -> bool:
        return _concentration(event, relation) is not None

    def epsilon(self, event: dp.DpEvent, relation: Relation, delta: float) -> Interval:
        rho, xi = self.concentration(event, relation)
        return Interval(0.0, zcdp_epsilon(rho, delta, xi))

    def delta(self, event: dp.DpEvent, relation: Relation, epsilon: float) -> Interval:
        rho, xi = self.concentration(event, relation)
        return Interval(0.0, zcdp_delta(rho, epsilon, xi))

    def trade_off(self, event: dp.DpEvent, relation: Relation, alphas: Array) -> Array:
        rho, xi = self.concentration(event, relation)
        if rho == 0.0:
            return envelope(np.array([xi]), np.zeros(1), alphas)
        losses = np.array([zcdp_epsilon(rho, delta, xi) for delta in _DELTAS])
        return envelope(losses, _DELTAS, alphas)

    def concentration(self, event: dp.DpEvent, relation: Relation) -> tuple[float, float]:
        """Return ``(rho, xi)`` of the whole composition, rounded up."""
        result = _concentration(event, relation)
        if result is None:
            raise ValueError(f"event must be supported under {relation.value}, got {shown(event)}")
        return result


def _concentration(event: dp.DpEvent, relation: Relation) -> tuple[float, float] | None:
    parts = collect(event, lambda release: release.zcdp(relation))
    if parts is None:
        return None
    rho, xi = (
        sum(count * (max(cost, SMALLEST) if cost > 0.0 else 0.0) for cost, count in costs)
        for costs in (
            [(round_up_cost(each.rho), count) for each, count in parts],
            [(round_up_cost(each.xi), count) for each, count in parts],
        )
    )
    return rho * (1.0 + _ROUNDING), xi * (1.0 + _ROUNDING)

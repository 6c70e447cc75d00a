"""Advantages: the most that the answers of a private algorithm tell about one record.

Let ``P`` and ``Q`` be the laws of the answers on two data sets of which one, in equal chance, is
the true one, and ``s = +-1`` the sign that says which. The **advantage** of one who sees the
answers is the root mean square of what is then expected of the sign,

    T(P, Q) = sqrt(E E[s | answers]^2),    T^2 = (1/2) int (P - Q)^2 / (P + Q),

between 0 and 1. It is Le Cam's distance: monotone under post-processing, and a metric (Kafka,
Oesterreicher and Vincze 1991). Three facts are used, with ``chi^2(P, Q) = int (P - Q)^2 / Q``.

1. Randomised response at ``epsilon`` has ``T = tanh(epsilon/2)`` and ``chi = 2 sinh(epsilon/2)``.
   Every symmetric pair is a mixture of such pairs whose ``epsilon = |L|`` is announced, so that
   ``T^2 = E tanh^2(L/2)`` under ``(P + Q)/2``, ``L`` the privacy loss.
2. If ``chi^2 <= kappa^2`` in both orders, then ``T <= kappa/sqrt(4 + kappa^2)``, the advantage of
   randomised response of that ``chi^2``.
3. With chances ``(1 + p)/2`` and ``(1 - p)/2`` in place of equal ones, ``E (E[s | answers] - p)^2
   <= (1 - p^2) T^2`` for symmetric pairs; under the assumption of 2, with its bound for ``T``;
   and at most ``(1 - p^2)(1 + |p|) T^2`` for any pair.

*Proof of 3, and of 2 at p = 0.* Let ``r = E[s | answers]``, of mean ``p``. Under randomised
response of advantage ``c``, ``r`` is ``r_1 = (p + c)/(1 + p c)`` or ``r_2 = (p - c)/(1 - p c)``, of
variance ``c^2 (1 - p^2)^2/(1 - p^2 c^2) <= (1 - p^2) c^2``; mixtures follow. Given ``chi^2 <=
kappa^2``, ``E 1/(1 - r)`` and ``E 1/(1 + r)`` are at most what they are for the randomised response
of equality. With ``S = r_1 + r_2`` and ``Z = r_1 r_2``,

    (1/2)(1 + Z - S)^2/(1 - r) + (1/2)(1 + Z + S)^2/(1 + r) - r^2 + 2 S r - (1 + S^2 + 2 Z)
        = (r - r_1)^2 (r - r_2)^2/(1 - r^2) >= 0,

so ``E r^2`` is largest where both points are ``r_1`` or ``r_2``. The last claim: ``r - p = (1 -
p^2) c/(1 + p c)`` for ``c = (P - Q)/(P + Q)``, at a density ``1 + p c >= 1 - |p|``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from privopt.spec import Budget, Relation

Array = NDArray[np.float64]

_NODES = np.linspace(-9.0, 9.0, 97)
_WEIGHTS = np.exp(-0.5 * _NODES**2) / np.exp(-0.5 * _NODES**2).sum()
_MOST_LOSS = 700.0


class Advantage(Protocol):
    """What a kind of guarantee lets the answers tell."""

    def __hash__(self) -> int:
        """By its numbers."""

    @property
    def name(self) -> str:
        """The guarantee, in words."""

    @property
    def symmetric(self) -> bool:
        """Whether fact 3 of the module holds without its factor ``1 + |p|``."""

    def sign(self, copies: Array) -> Array:
        """``T`` between data sets in which so many records differ."""

    def record(self, width: int) -> float:
        """``c`` with ``E |E[x - p | answers, p]|^2 <= c^2`` for a record of ``width`` coordinates.

        The record is ``x`` in ``{-1, 1}^width`` of independent coordinates of mean ``p``. Infinite
        where nothing is known.
        """

    def removal(self, width: int) -> float:
        """``c`` with ``E <w, x - p> <= c`` for any function ``w`` of the answers, ``|w| <= 1``."""

    def information(self, copies: Array) -> Array:
        """The most that the answers tell of what so many records are, in nats; infinite if unknown.

        At least the divergence from answers on null records in their places.
        """


@dataclass(frozen=True)
class GaussianAdvantage:
    """Of ``mu``-Gaussian DP: no pair tells more than two normals ``mu`` apart.

    ``T^2 = E tanh^2(L/2)``, ``L`` normal of mean ``mu^2/2`` and variance ``mu^2``; ``chi^2 =
    exp(mu^2) - 1``. A group of ``k`` has ``k mu`` (Dong, Roth and Su 2022, arXiv:1905.02383,
    Theorem 2.14), and replacing is two steps under the relations other than ``replace_one``.

    Examples
    --------
    >>> advantage = GaussianAdvantage(1.0, Relation.REPLACE_ONE)
    >>> advantage.sign(np.array([1.0, 2.0])).round(4).tolist()
    [0.4517, 0.7419]
    """

    mu: float
    relation: Relation
    symmetric = True

    @property
    def name(self) -> str:
        return f"{self.mu:.4g}-Gaussian DP"

    def sign(self, copies: Array) -> Array:
        """By the trapezoidal rule, whose error is below 1e-8 for these analytic integrands."""
        mu = np.minimum(_steps(self.relation) * self.mu * np.asarray(copies), 40.0)[..., None]
        losses = mu * (0.5 * mu + _NODES)
        square = (np.tanh(0.5 * losses) ** 2 * _WEIGHTS).sum(axis=-1)
        return np.asarray(np.sqrt(np.minimum(square + 1e-8 * square, 1.0)))

    def record(self, width: int) -> float:
        """``sqrt(chi^2)``: against the record redrawn, on which ``<w, x - p>`` has mean 0."""
        return _gaussian_kappa(_steps(self.relation) * self.mu)

    def removal(self, width: int) -> float:
        """The same against the record removed, one step under every relation."""
        return _gaussian_kappa(self.mu)

    def information(self, copies: Array) -> Array:
        """``(k mu)^2/2``, of two normals ``k mu`` apart."""
        return np.asarray(0.5 * (self.mu * np.asarray(copies)) ** 2)


@dataclass(frozen=True)
class ApproximateAdvantage:
    """Of (epsilon, delta)-DP: randomised response, and with chance ``delta`` the sign itself.

    No pair tells more (Kairouz, Oh and Viswanath 2015, arXiv:1311.0776), hence ``T^2 = (1 - delta)
    tanh^2(epsilon/2) + delta``. A group of ``k`` has ``k epsilon`` and ``delta (exp(k epsilon) - 1)
    / (exp(epsilon) - 1)``.
    """

    budget: Budget
    symmetric = True

    @property
    def name(self) -> str:
        epsilon, delta = self.budget.epsilon, self.budget.delta
        return f"({epsilon:.4g}, {delta:.4g})-DP" if delta > 0.0 else f"{epsilon:.4g}-DP"

    def sign(self, copies: Array) -> Array:
        epsilon, delta = self._group(_steps(self.budget.relation) * np.asarray(copies))
        square = (1.0 - delta) * np.tanh(0.5 * epsilon) ** 2 + delta
        return np.asarray(np.sqrt(np.minimum(square, 1.0)))

    def record(self, width: int) -> float:
        """``c^2 = kappa c + 8 delta width``, ``kappa = 2 sinh(epsilon/2)``.

        For ``e = E[x - p | answers, p]``, ``E |e|^2 = E <e, x - p>`` is at most ``kappa sqrt(E
        |e|^2) + 2 delta max |<e, x - p>|``, and neither vector is longer than ``2 sqrt(width)``.
        """
        kappa, delta = self._kappa(_steps(self.budget.relation))
        return _with_slack(kappa, delta, width)

    def removal(self, width: int) -> float:
        kappa, delta = self._kappa(1)
        return kappa + 4.0 * delta * math.sqrt(width)

    def information(self, copies: Array) -> Array:
        """``k epsilon tanh(k epsilon/2)``, of randomised response; infinite for a delta."""
        total = self.budget.epsilon * np.asarray(copies)
        return np.where(self.budget.delta > 0.0, np.inf, total * np.tanh(0.5 * total))

    def _kappa(self, steps: int) -> tuple[float, float]:
        epsilon, delta = self._group(np.array(float(steps)))
        kappa = 2.0 * math.sinh(0.5 * float(epsilon)) if epsilon < _MOST_LOSS else math.inf
        return kappa, float(delta)

    def _group(self, steps: Array) -> tuple[Array, Array]:
        epsilon, delta = self.budget.epsilon, self.budget.delta
        total = np.minimum(steps * epsilon, _MOST_LOSS)
        if delta == 0.0:
            return total, np.zeros_like(total)
        one = math.expm1(min(epsilon, _MOST_LOSS))
        return total, np.minimum(delta * np.expm1(total) / one, 1.0)


@dataclass(frozen=True)
class RenyiAdvantage:
    """Of a Renyi divergence of order 2: ``chi^2 = exp(D_2) - 1`` between neighbours.

    For sampled methods, whose ``D_2`` says far more than their (epsilon, delta). Groups by the
    triangle inequality of ``T``. ``divergence`` bounds ``D_2`` in both orders
    (:func:`privopt.privacy.renyi_divergence`); ``lost`` is the chance that instead all is told.
    """

    divergence: float
    relation: Relation
    lost: float = 0.0

    @property
    def name(self) -> str:
        lost = f" but with chance {self.lost:.2g}" if self.lost > 0.0 else ""
        return f"of Renyi divergence {self.divergence:.4g} at order 2{lost}"

    @property
    def symmetric(self) -> bool:
        return self.relation is Relation.REPLACE_ONE

    def sign(self, copies: Array) -> Array:
        """``k T``, at most 1, ``T^2 = (1 - lost) kappa^2/(4 + kappa^2) + lost``."""
        square = self._kappa**2
        one = math.sqrt((1.0 - self.lost) * square / (4.0 + square) + self.lost)
        return np.asarray(np.minimum(_steps(self.relation) * one * np.asarray(copies), 1.0))

    def record(self, width: int) -> float:
        """``c^2 = kappa c + 8 lost width`` where replacing is one step; nothing known for two."""
        return _with_slack(self._kappa, self.lost, width) if self.symmetric else math.inf

    def removal(self, width: int) -> float:
        """``kappa + 4 lost sqrt(width)``."""
        return self._kappa + 4.0 * self.lost * math.sqrt(width)

    def information(self, copies: Array) -> Array:
        """``D_2`` of one record; of more, or where all may be told, nothing is known."""
        one = np.asarray(copies) <= 1.0
        return np.where(one & (self.lost == 0.0), self.divergence, np.inf)

    @property
    def _kappa(self) -> float:
        return math.sqrt(math.expm1(min(self.divergence, 500.0)))


def _with_slack(kappa: float, delta: float, width: int) -> float:
    return 0.5 * kappa + math.sqrt(0.25 * kappa**2 + 8.0 * delta * width)


def _steps(relation: Relation) -> int:
    """How many steps it takes to replace a record."""
    return 1 if relation is Relation.REPLACE_ONE else 2


def _gaussian_kappa(mu: float) -> float:
    return math.sqrt(math.expm1(mu**2)) if mu < 26.0 else math.inf

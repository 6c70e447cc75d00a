"""Advantages: bounds on the information that private outputs contain about one record.

Let ``P`` and ``Q`` be the output distributions on two data sets, one of which is chosen with
probability 1/2, and let ``s = +-1`` indicate the choice. The **advantage** is the root mean square
of the posterior mean of ``s``, between 0 and 1,

    T(P, Q) = sqrt(E E[s | output]^2),    T^2 = (1/2) int (P - Q)^2 / (P + Q).

It is monotone under post-processing, and a metric. If ``chi^2 <= kappa^2`` in both orders, ``T <=
kappa/sqrt(4 + kappa^2)``. If ``s`` has mean ``p``, then ``E (E[s | output] - p)^2 <= (1 - p^2)
T^2`` for symmetric pairs and under a bound of ``chi^2``, else times ``1 + |p|``. Proofs:
:ref:`Lower bounds, Theorem 1 <theory-lower-1>`.
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
_MAX_LOSS = 700.0


class Advantage(Protocol):
    """Upper bounds on the information in outputs, for one kind of guarantee."""

    def __hash__(self) -> int:
        """Return a hash of the parameters."""

    @property
    def name(self) -> str:
        """The guarantee as text."""

    @property
    def symmetric(self) -> bool:
        """True if an uneven sign needs no factor ``1 + |p|``."""

    def sign(self, copies: Array) -> Array:
        """Return ``T`` between data sets that differ in ``copies`` records."""

    def record(self, width: int) -> float:
        """Return ``c`` with ``E |E[x - p | output, p]|^2 <= c^2`` for a record ``x``.

        ``x`` in ``{-1, 1}^width`` has independent coordinates of mean ``p``. The value is infinite
        if no bound is known.
        """

    def removal(self, width: int) -> float:
        """Return ``c`` with ``E <w, x - p> <= c`` for every output function ``|w| <= 1``."""

    def information(self, copies: Array) -> Array:
        """Return a bound, in nats, on the information of the output about ``copies`` records.

        It is at least the divergence from the output on null records in their places; infinite if
        no bound is known.
        """


class _ChiSquare:
    """Bounds by ``chi^2 <= kappa^2``, but with probability ``delta``, after a number of steps."""

    relation: Relation

    def _kappa(self, steps: int) -> tuple[float, float]:
        raise NotImplementedError

    def record(self, width: int) -> float:
        """Return the root of ``c^2 = kappa c + 8 delta width``."""
        kappa, delta = self._kappa(replacement_steps(self.relation))
        return 0.5 * kappa + math.sqrt(0.25 * kappa**2 + 8.0 * delta * width)

    def removal(self, width: int) -> float:
        """Return ``kappa + 4 delta sqrt(width)`` for one step, under every relation."""
        kappa, delta = self._kappa(1)
        return kappa + 4.0 * delta * math.sqrt(width)


@dataclass(frozen=True)
class GaussianAdvantage(_ChiSquare):
    """Advantage of ``mu``-Gaussian DP: that of two normal distributions with distance ``mu``.

    ``T^2 = E tanh^2(L/2)`` for normal ``L`` with mean ``mu^2/2`` and variance ``mu^2``; ``chi^2 =
    exp(mu^2) - 1``. A group of ``k`` has ``k mu`` (Dong, Roth and Su 2022, Theorem 2.14). Replacing
    a record is two steps under the relations other than ``replace_one``.

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
        """Return ``T`` by the trapezoidal rule; the error is below 1e-8 for analytic integrands."""
        steps = replacement_steps(self.relation) * np.asarray(copies)
        mu = np.minimum(steps * self.mu, 40.0)[..., None]
        losses = mu * (0.5 * mu + _NODES)
        square = (np.tanh(0.5 * losses) ** 2 * _WEIGHTS).sum(axis=-1)
        return np.asarray(np.sqrt(np.minimum(square + 1e-8 * square, 1.0)))

    def _kappa(self, steps: int) -> tuple[float, float]:
        mu = steps * self.mu
        return (math.sqrt(math.expm1(mu**2)) if mu < 26.0 else math.inf), 0.0

    def information(self, copies: Array) -> Array:
        """Return ``(k mu)^2/2``, the divergence of two normals with distance ``k mu``."""
        return np.asarray(0.5 * (self.mu * np.asarray(copies)) ** 2)


@dataclass(frozen=True)
class ApproximateAdvantage(_ChiSquare):
    """Advantage of (epsilon, delta)-DP: randomised response, and ``s`` itself with chance delta.

    No pair has a larger advantage (Kairouz, Oh and Viswanath 2015, arXiv:1311.0776), so ``T^2 = (1
    - delta) tanh^2(epsilon/2) + delta``. A group of ``k`` has ``k epsilon`` and ``delta (exp(k
    epsilon) - 1) / (exp(epsilon) - 1)``.
    """

    budget: Budget
    symmetric = True

    @property
    def relation(self) -> Relation:  # type: ignore[override]
        return self.budget.relation

    @property
    def name(self) -> str:
        epsilon, delta = self.budget.epsilon, self.budget.delta
        return f"({epsilon:.4g}, {delta:.4g})-DP" if delta > 0.0 else f"{epsilon:.4g}-DP"

    def sign(self, copies: Array) -> Array:
        epsilon, delta = self.group(replacement_steps(self.relation) * np.asarray(copies))
        square = (1.0 - delta) * np.tanh(0.5 * epsilon) ** 2 + delta
        return np.asarray(np.sqrt(np.minimum(square, 1.0)))

    def information(self, copies: Array) -> Array:
        """Return ``k epsilon tanh(k epsilon/2)``, of randomised response; infinite if delta > 0."""
        total = self.budget.epsilon * np.asarray(copies)
        return np.where(self.budget.delta > 0.0, np.inf, total * np.tanh(0.5 * total))

    def _kappa(self, steps: int) -> tuple[float, float]:
        epsilon, delta = self.group(np.array(float(steps)))
        kappa = 2.0 * math.sinh(0.5 * float(epsilon)) if epsilon < _MAX_LOSS else math.inf
        return kappa, float(delta)

    def group(self, steps: Array) -> tuple[Array, Array]:
        """Return epsilon and delta between data sets that are ``steps`` neighbours apart."""
        epsilon, delta = self.budget.epsilon, self.budget.delta
        total = np.minimum(steps * epsilon, _MAX_LOSS)
        if delta == 0.0:
            return total, np.zeros_like(total)
        one = math.expm1(min(epsilon, _MAX_LOSS))
        return total, np.minimum(delta * np.expm1(total) / one, 1.0)


@dataclass(frozen=True)
class RenyiAdvantage(_ChiSquare):
    """Advantage under a Renyi divergence of order 2: ``chi^2 = exp(D_2) - 1`` between neighbours.

    For sampled methods ``D_2`` gives a smaller advantage than (epsilon, delta). Groups use the
    triangle inequality of ``T``. ``divergence`` bounds ``D_2`` in both orders
    (:func:`privopt.privacy.renyi_divergence`). With probability ``lost`` the output reveals
    everything.
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
        """Return ``min(k T, 1)``, ``T^2 = (1 - lost) kappa^2/(4 + kappa^2) + lost``."""
        square = self._kappa(1)[0] ** 2
        one = math.sqrt((1.0 - self.lost) * square / (4.0 + square) + self.lost)
        steps = replacement_steps(self.relation)
        return np.asarray(np.minimum(steps * one * np.asarray(copies), 1.0))

    def information(self, copies: Array) -> Array:
        """Return ``D_2`` for one record; infinite for more records or if ``lost > 0``."""
        one = np.asarray(copies) <= 1.0
        return np.where(one & (self.lost == 0.0), self.divergence, np.inf)

    def _kappa(self, steps: int) -> tuple[float, float]:
        """Return ``sqrt(chi^2)``; infinite for two steps, for which no bound is known."""
        kappa = math.sqrt(math.expm1(min(self.divergence, 500.0)))
        return (kappa if steps == 1 else math.inf), self.lost


def replacement_steps(relation: Relation) -> int:
    """Return the number of neighbouring steps that replace a record."""
    return 1 if relation is Relation.REPLACE_ONE else 2

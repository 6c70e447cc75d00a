"""Accountant of zero-concentrated differential privacy: one or two numbers a release.

A release is ``(xi, rho)``-zCDP if ``D_alpha <= xi + rho alpha`` at every order ``alpha > 1``. Both
numbers add under adaptive composition.

Source: Bun and Steinke, "Concentrated differential privacy", TCC 2016 (arXiv:1605.02065),
Propositions 1.4 (pure) and 1.6 (Gaussian), Lemma 1.7 (composition).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import dp_accounting as dp
import numpy as np
import numpy.typing as npt

from privopt.privacy.events import BoundedRangeDpEvent
from privopt.privacy.interval import Interval
from privopt.privacy.leaves import leaves
from privopt.privacy.parameters import is_count, is_noise, is_rate, tree_nodes
from privopt.privacy.renyi.conversion import envelope, zcdp_delta, zcdp_epsilon
from privopt.privacy.renyi.pure import response_loss
from privopt.privacy.sums import half_square, times
from privopt.spec import Relation

__all__ = ["ZCDP"]

_ROUNDING = 2.0**-48  # relative; a dozen operations and the sum
_DELTAS = np.geomspace(1e-12, 0.9, 40)


@dataclass(frozen=True)
class ZCDP:
    """Gaussian noise, tree aggregation, ``ZCDpEvent``, and releases with a pure loss ``epsilon``.

    With ``m = relation.multiple``: ``rho = (m/z)^2 / 2`` for a Gaussian release, times
    ``floor(log2 T) + 1`` for a tree; ``rho = epsilon^2 / 2`` for Laplace (``epsilon = m/b``),
    discrete Laplace, randomised response and any pure release (``ZCDpEvent`` with ``rho = 0``);
    a quarter of that if losses span ``epsilon``. Sampling is beyond zCDP: the divergences of a
    sample stop being linear in the order.

    Formal guarantee
    ----------------
    The upper ends hold, rounding included; the lower ends are zero, which says nothing.
    """

    name = "zCDP"

    def supports(self, event: dp.DpEvent, relation: Relation) -> bool:
        """Whether every leaf is one of these, with parameters that make sense."""
        return _concentration(event, relation) is not None

    def epsilon(self, event: dp.DpEvent, relation: Relation, delta: float) -> Interval:
        """The best order of the conversion at ``delta``."""
        rho, xi = self.concentration(event, relation)
        return Interval(0.0, zcdp_epsilon(rho, delta, xi))

    def delta(self, event: dp.DpEvent, relation: Relation, epsilon: float) -> Interval:
        """The best order of the conversion at ``epsilon``."""
        rho, xi = self.concentration(event, relation)
        return Interval(0.0, zcdp_delta(rho, epsilon, xi))

    def trade_off(
        self, event: dp.DpEvent, relation: Relation, alphas: npt.NDArray[np.float64]
    ) -> npt.NDArray[np.float64]:
        """The envelope of what ``epsilon`` proves at forty ``delta``."""
        rho, xi = self.concentration(event, relation)
        if rho == 0.0:
            return envelope(np.array([xi]), np.zeros(1), alphas)
        losses = np.array([zcdp_epsilon(rho, delta, xi) for delta in _DELTAS])
        return envelope(losses, _DELTAS, alphas)

    def concentration(self, event: dp.DpEvent, relation: Relation) -> tuple[float, float]:
        """``(rho, xi)`` of the whole composition, rounded up.

        Raises
        ------
        ValueError
            If the event is not supported.
        """
        both = _concentration(event, relation)
        if both is None:
            raise ValueError(f"event must be supported under {relation.value}, got {event!r}")
        return both


def _concentration(event: dp.DpEvent, relation: Relation) -> tuple[float, float] | None:
    rho = xi = 0.0
    for leaf, count in leaves(event):
        each = _of_leaf(leaf, relation)
        if each is None:
            return None
        rho += times(count, each[0])
        xi += times(count, each[1])
    return rho * (1.0 + _ROUNDING), xi * (1.0 + _ROUNDING)


def _of_leaf(leaf: dp.DpEvent, relation: Relation) -> tuple[float, float] | None:
    multiple = float(relation.multiple)
    match leaf:
        case dp.GaussianDpEvent(noise_multiplier=z) if is_noise(z):
            return _of_shift(multiple, z), 0.0
        case dp.SingleEpochTreeAggregationDpEvent(noise_multiplier=z, step_counts=steps):
            nodes = tree_nodes(steps)
            if nodes is not None and is_noise(z) and relation is not Relation.ADD_OR_REMOVE_ONE:
                return times(nodes, _of_shift(multiple, z)), 0.0
        case dp.LaplaceDpEvent(noise_multiplier=b) if is_noise(b):
            return _of_shift(multiple, b), 0.0
        case dp.dp_event.DiscreteLaplaceDpEvent(noise_parameter=a, sensitivity=bound):
            if is_noise(a) and is_count(bound) and 0.0 < float(a) < math.inf:
                return half_square(float(a) * int(bound) * multiple), 0.0
        case dp.RandomizedResponseDpEvent(noise_parameter=p, num_buckets=k):
            if is_rate(p) and is_count(k) and k >= 2:
                return half_square(response_loss(float(p), int(k))), 0.0
        case BoundedRangeDpEvent(epsilon=span) if is_noise(span):
            return 0.25 * half_square(float(span)), 0.0
        case dp.ZCDpEvent(rho=rho, xi=xi) if is_noise(rho) and is_noise(xi):
            return (float(rho), float(xi)) if rho > 0.0 else (half_square(float(xi)), 0.0)
    return None


def _of_shift(size: float, noise: float) -> float:
    return half_square(size / float(noise) if noise > 0.0 else math.inf)

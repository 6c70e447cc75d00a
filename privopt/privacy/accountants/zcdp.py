"""Accountant of zero-concentrated differential privacy: one or two numbers a release.

A release is ``(xi, rho)``-zCDP if ``D_alpha <= xi + rho alpha`` at every order ``alpha > 1``. Both
numbers add under adaptive composition.

Source: Bun and Steinke, "Concentrated differential privacy", TCC 2016 (arXiv:1605.02065),
Propositions 1.4 (pure) and 1.6 (Gaussian), Lemma 1.7 (composition).
"""

from __future__ import annotations

from dataclasses import dataclass

import dp_accounting as dp
import numpy as np
import numpy.typing as npt

from privopt.privacy.numbers import SMALLEST, Interval, times
from privopt.privacy.releases import asked, round_up_cost
from privopt.privacy.renyi.conversion import envelope, zcdp_delta, zcdp_epsilon
from privopt.spec import Relation

_ROUNDING = 2.0**-48  # relative; a dozen operations and the sum
_DELTAS = np.geomspace(1e-12, 0.9, 40)


@dataclass(frozen=True)
class ZCDP:
    """Compositions of whatever has a bound ``D_alpha <= xi + rho alpha`` (``Release.zcdp``).

    With ``m = relation.multiple``: ``rho = (m/z)^2 / 2`` for a Gaussian release, times
    ``floor(log2 T) + 1`` for a tree; ``epsilon tanh(epsilon / 2)`` for a pure release, an eighth
    of ``epsilon^2`` if losses span ``epsilon``. Sampling is beyond zCDP: the divergences of a
    sample stop being linear in the order.

    Formal guarantee
    ----------------
    The upper ends hold, rounding included; the lower ends are zero, which says nothing.

    Examples
    --------
    >>> import dp_accounting as dp
    >>> releases = dp.SelfComposedDpEvent(dp.GaussianDpEvent(2.0), 4)
    >>> rho, xi = ZCDP().concentration(releases, Relation.ADD_OR_REMOVE_ONE)
    >>> round(rho, 6), xi
    (0.5, 0.0)
    """

    name = "zCDP"

    def supports(self, event: dp.DpEvent, relation: Relation) -> bool:
        return _concentration(event, relation) is not None

    def epsilon(self, event: dp.DpEvent, relation: Relation, delta: float) -> Interval:
        rho, xi = self.concentration(event, relation)
        return Interval(0.0, zcdp_epsilon(rho, delta, xi))

    def delta(self, event: dp.DpEvent, relation: Relation, epsilon: float) -> Interval:
        rho, xi = self.concentration(event, relation)
        return Interval(0.0, zcdp_delta(rho, epsilon, xi))

    def trade_off(
        self, event: dp.DpEvent, relation: Relation, alphas: npt.NDArray[np.float64]
    ) -> npt.NDArray[np.float64]:
        rho, xi = self.concentration(event, relation)
        if rho == 0.0:
            return envelope(np.array([xi]), np.zeros(1), alphas)
        losses = np.array([zcdp_epsilon(rho, delta, xi) for delta in _DELTAS])
        return envelope(losses, _DELTAS, alphas)

    def concentration(self, event: dp.DpEvent, relation: Relation) -> tuple[float, float]:
        """``(rho, xi)`` of the whole composition, rounded up."""
        both = _concentration(event, relation)
        if both is None:
            raise ValueError(f"event must be supported under {relation.value}, got {event!r}")
        return both


def _concentration(event: dp.DpEvent, relation: Relation) -> tuple[float, float] | None:
    parts = asked(event, lambda release: release.zcdp(relation))
    if parts is None:
        return None
    rho, xi = (
        sum(times(count, max(cost, SMALLEST) if cost > 0.0 else 0.0) for cost, count in costs)
        for costs in (
            [(round_up_cost(each.rho), count) for each, count in parts],
            [(round_up_cost(each.xi), count) for each, count in parts],
        )
    )
    return rho * (1.0 + _ROUNDING), xi * (1.0 + _ROUNDING)

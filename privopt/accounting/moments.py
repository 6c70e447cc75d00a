"""The moments accountant as it was published, for comparison with what was printed.

Rényi divergences at a fixed list of orders, converted by Markov's inequality on the moments of
the privacy loss: ``delta = min_alpha e^((alpha - 1)(D_alpha - epsilon))``. Valid, and looser than
``Renyi``, which refines the orders and converts better. Columns called "MA" in the literature are
its answers.

Sources: Abadi et al., "Deep learning with differential privacy", CCS 2016 (arXiv:1607.00133),
Theorem 2; Mironov, "Rényi differential privacy", CSF 2017 (arXiv:1702.07476), Proposition 3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import dp_accounting as dp
import numpy as np
import numpy.typing as npt

from privopt.privacy.interval import Interval
from privopt.privacy.releases import renyi_curve, renyi_divergence
from privopt.privacy.renyi.conversion import envelope, epsilons, log_deltas, round_delta
from privopt.privacy.renyi.orders import check_orders
from privopt.spec import Relation

__all__ = ["Moments"]

Array = npt.NDArray[np.float64]

_PUBLISHED = (*(1.0 + 0.1 * i for i in range(1, 100)), *(float(order) for order in range(12, 64)))
_DELTAS = np.concatenate([np.geomspace(1e-12, 0.1, 34), np.linspace(0.15, 0.95, 17)])


@dataclass(frozen=True)
class Moments:
    """Every event of ``Renyi``, by the orders 1.1, 1.2, ..., 10.9, 12, 13, ..., 63 alone.

    Parameters
    ----------
    orders : sequence of float, optional
        Other orders: increasing, above one.

    Formal guarantee
    ----------------
    The upper ends hold, rounding included; the lower ends are zero, which says nothing.

    Raises
    ------
    ValueError
        If the orders are not increasing, finite and above one.
    """

    orders: tuple[float, ...] = _PUBLISHED

    def __post_init__(self) -> None:
        object.__setattr__(self, "orders", tuple(check_orders(self.orders).tolist()))

    @property
    def name(self) -> str:
        """What reports call this accountant."""
        return "moments accountant"

    def supports(self, event: dp.DpEvent, relation: Relation) -> bool:
        """Whether the Rényi divergences of every leaf are known."""
        return renyi_curve(event, relation) is not None

    def epsilon(self, event: dp.DpEvent, relation: Relation, delta: float) -> Interval:
        """``min_alpha D_alpha + ln(1/delta) / (alpha - 1)``."""
        orders, divergences = self._moments(event, relation)
        if not np.all(divergences > 0.0):
            return Interval(0.0, 0.0)
        if delta == 0.0:
            return Interval(0.0, math.inf)
        return Interval(0.0, float(np.min(epsilons(orders, divergences, delta, improved=False))))

    def delta(self, event: dp.DpEvent, relation: Relation, epsilon: float) -> Interval:
        """``min_alpha e^((alpha - 1)(D_alpha - epsilon))``, at most one."""
        orders, divergences = self._moments(event, relation)
        if not np.all(divergences > 0.0):
            return Interval(0.0, 0.0)
        best = np.min(log_deltas(orders, divergences, epsilon, improved=False))
        return Interval(0.0, round_delta(float(best)))

    def trade_off(self, event: dp.DpEvent, relation: Relation, alphas: Array) -> Array:
        """The envelope of what ``epsilon`` proves at some fifty ``delta``."""
        orders, divergences = self._moments(event, relation)
        if not np.all(divergences > 0.0):
            return envelope(np.zeros(1), np.zeros(1), alphas)
        proved = epsilons(orders, divergences, _DELTAS[:, None], improved=False)
        return envelope(np.min(proved, axis=1), _DELTAS, alphas)

    def _moments(self, event: dp.DpEvent, relation: Relation) -> tuple[Array, Array]:
        divergences = renyi_divergence(event, relation, self.orders)
        if divergences is None:
            raise ValueError(f"event must be supported under {relation.value}, got {event!r}")
        return np.asarray(self.orders), divergences

"""The best of a random number of runs of a composition.

Source: Papernot and Steinke 2022 (arXiv:2110.03620), Theorems 2 and 6.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import numpy as np
from dp_accounting import DpEvent
from dp_accounting.dp_event import RepeatAndSelectDpEvent

from privopt.privacy.mechanisms.base import (
    Curve,
    Loss,
    Release,
    compose_losses,
    renyi_curve,
    renyi_orders,
)
from privopt.privacy.numbers import Array
from privopt.privacy.renyi import ORDERS, renyi_log_deltas
from privopt.privacy.selection import Repetitions, selection_epsilon
from privopt.spec import Relation

_SLACK = 2.0**-50


@dataclass(frozen=True)
class Selected(Release, event=RepeatAndSelectDpEvent):
    """The best of ``repetitions`` runs of ``inner``; only the best output is released."""

    inner: DpEvent
    repetitions: Repetitions

    @classmethod
    def read(cls, event: RepeatAndSelectDpEvent) -> Selected | None:
        with suppress(ValueError):
            return cls(event.event, Repetitions(event.mean, event.shape))
        return None

    def loss(self, relation: Relation) -> Loss | None:
        # selection_epsilon of one run, known from above alone
        run = compose_losses(self.inner, relation)
        if run is None or math.isinf(self.repetitions.shape):
            return None
        most = run[0].upper
        return Loss(selection_epsilon(most, self.repetitions) if most < math.inf else most)

    def orders(self) -> tuple[float, ...]:
        return renyi_orders(self.inner)

    def renyi(self, relation: Relation) -> Curve | None:
        run = renyi_curve(self.inner, relation)
        if run is None:
            return None
        return partial(selection_divergence, run, self.repetitions, also=self.orders())


def selection_divergence(
    one_run: Curve, repetitions: Repetitions, orders: Array, also: Sequence[float] = ()
) -> Array:
    """Return ``D_alpha`` of the selection, from the divergences of ``one_run``.

    With ``rho`` the divergence of one run, truncated negative binomial repetitions cost

        rho(alpha) + ln E[K] / (alpha - 1)
            + (1 + shape) min_b [(1 - 1/b) rho(b) + ln(1/gamma) / b],   b >= 1,

    and Poisson repetitions ``rho(alpha) + E[K] delta + ln E[K] / (alpha - 1)``, where one run is
    ``(ln(1 + 1/(alpha - 1)), delta)``-DP. A divergence increases with its order, so higher orders
    bound lower ones. The grid consists of ``ORDERS``, the given orders and ``also``.
    """
    grid = np.union1d(orders, (*ORDERS, *also))
    rho, log_mean = one_run(grid), math.log(repetitions.mean)
    cost = rho + log_mean * (1.0 + _SLACK) / (grid - 1.0)
    if math.isinf(repetitions.shape):
        allowed = np.log1p(1.0 / (grid - 1.0)) * (1.0 - _SLACK)
        log_delta = np.min(renyi_log_deltas(grid, rho, allowed[:, None]), axis=1)
        cost += repetitions.mean * np.exp(np.minimum(log_delta, 0.0)) * (1.0 + _SLACK) + 1e-300
    else:
        rate = repetitions.log_inverse_gamma
        extra = min(rate, float(np.min((1.0 - 1.0 / grid) * rho + rate / grid)))
        cost += (1.0 + repetitions.shape) * extra
    cost = np.minimum.accumulate(cost[::-1])[::-1] * (1.0 + 2.0 * _SLACK)
    return np.asarray(cost[np.searchsorted(grid, orders)])

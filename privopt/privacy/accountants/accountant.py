"""The interface of every accountant, and that of what can only estimate."""

from __future__ import annotations

from typing import Protocol

import dp_accounting as dp
import numpy as np
import numpy.typing as npt

from privopt.privacy.approximation import ApproximateCurve, Approximation
from privopt.privacy.interval import Interval
from privopt.spec import Relation

__all__ = ["Accountant", "Estimator"]


class Accountant(Protocol):
    """Proves bounds on the privacy of the events it supports.

    Formal guarantee
    ----------------
    For a supported event, every mechanism that the event describes satisfies the upper ends of
    ``epsilon`` and ``delta`` and the curve ``trade_off`` under ``relation``, rounding included;
    some such mechanism attains at least the lower ends.

    Arguments arrive checked (``delta`` in ``[0, 1)``, ``epsilon >= 0``, ``alphas`` in
    ``[0, 1]``), and the other methods are asked only about events that ``supports`` accepts.
    """

    @property
    def name(self) -> str:
        """What reports call this accountant."""
        ...

    def supports(self, event: dp.DpEvent, relation: Relation) -> bool:
        """Whether the whole tree of ``event`` is understood, parameters included."""
        ...

    def epsilon(self, event: dp.DpEvent, relation: Relation, delta: float) -> Interval:
        """Bounds of the smallest ``epsilon`` at which ``event`` is ``(epsilon, delta)``-DP."""
        ...

    def delta(self, event: dp.DpEvent, relation: Relation, epsilon: float) -> Interval:
        """Bounds of the smallest ``delta`` at which ``event`` is ``(epsilon, delta)``-DP."""
        ...

    def trade_off(
        self, event: dp.DpEvent, relation: Relation, alphas: npt.NDArray[np.float64]
    ) -> npt.NDArray[np.float64]:
        """A lower bound of the type-II error of every test with type-I error ``alphas``."""
        ...


class Estimator(Protocol):
    """Estimates the privacy of the events it supports, and proves nothing.

    Its methods are those of ``Accountant`` with answers of another type, so that no estimate is
    taken for a bound. Arguments arrive checked in the same way.
    """

    @property
    def name(self) -> str:
        """What reports call this estimator, and the ``method`` of its answers."""
        ...

    def supports(self, event: dp.DpEvent, relation: Relation) -> bool:
        """Whether the whole tree of ``event`` is understood, parameters included."""
        ...

    def epsilon(self, event: dp.DpEvent, relation: Relation, delta: float) -> Approximation:
        """About the smallest ``epsilon`` at which ``event`` is ``(epsilon, delta)``-DP."""
        ...

    def delta(self, event: dp.DpEvent, relation: Relation, epsilon: float) -> Approximation:
        """About the smallest ``delta`` at which ``event`` is ``(epsilon, delta)``-DP."""
        ...

    def trade_off(
        self, event: dp.DpEvent, relation: Relation, alphas: npt.NDArray[np.float64]
    ) -> ApproximateCurve:
        """About the smallest type-II error of a test with type-I error ``alphas``."""
        ...

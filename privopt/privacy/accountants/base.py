"""Interfaces of accountants."""

from __future__ import annotations

from typing import Protocol, TypeVar

import dp_accounting as dp

from privopt.privacy.numbers import Array, Interval
from privopt.spec import Relation

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

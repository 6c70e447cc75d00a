"""The interface of every accountant."""

from __future__ import annotations

from typing import Protocol, TypeVar

import dp_accounting as dp
import numpy as np
import numpy.typing as npt

from privopt.privacy.numbers import Interval
from privopt.spec import Relation

Number = TypeVar("Number", covariant=True)
Curve = TypeVar("Curve", covariant=True)


class Respondent(Protocol[Number, Curve]):
    """Answers questions about the events it supports, in numbers and curves of some type.

    Arguments arrive checked (``delta`` in ``[0, 1)``, ``epsilon >= 0``, ``alphas`` in
    ``[0, 1]``), and the other methods are asked only about events that ``supports`` accepts.
    """

    @property
    def name(self) -> str:
        """What reports call this respondent."""

    def supports(self, event: dp.DpEvent, relation: Relation) -> bool:
        """Whether the whole tree of ``event`` is understood, parameters included."""

    def epsilon(self, event: dp.DpEvent, relation: Relation, delta: float) -> Number:
        """The smallest ``epsilon`` at which ``event`` is ``(epsilon, delta)``-DP."""

    def delta(self, event: dp.DpEvent, relation: Relation, epsilon: float) -> Number:
        """The smallest ``delta`` at which ``event`` is ``(epsilon, delta)``-DP."""

    def trade_off(
        self, event: dp.DpEvent, relation: Relation, alphas: npt.NDArray[np.float64]
    ) -> Curve:
        """The smallest type-II error of a test with type-I error ``alphas``."""


class Accountant(Respondent[Interval, npt.NDArray[np.float64]], Protocol):
    """Proves bounds on the privacy of the events it supports.

    Formal guarantee
    ----------------
    For a supported event, every mechanism that the event describes satisfies the upper ends of
    ``epsilon`` and ``delta`` and the curve ``trade_off`` (a lower bound of every test's type-II
    error) under ``relation``, rounding included; some such mechanism attains at least the lower
    ends.
    """

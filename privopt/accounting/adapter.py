"""Adapter: an accountant of privopt with the interface of dp-accounting."""

from __future__ import annotations

import math

import dp_accounting as dp

from privopt.arguments import shown
from privopt.privacy.accountants import Accountant, Fourier, NonPrivate
from privopt.privacy.flatten import first_unsupported, flatten
from privopt.privacy.numbers import check_epsilon, check_target_delta, real
from privopt.spec import Relation

_RELATIONS = {
    dp.NeighboringRelation.REPLACE_ONE: Relation.REPLACE_ONE,
    dp.NeighboringRelation.ADD_OR_REMOVE_ONE: Relation.ADD_OR_REMOVE_ONE,
    dp.NeighboringRelation.REPLACE_SPECIAL: Relation.ZERO_OUT,
}
_MAX_EPSILON = 1e300  # stands for an infinite epsilon: delta decreases


class DpAccountant(dp.PrivacyAccountant):  # type: ignore[misc]
    """``dp_accounting.PrivacyAccountant`` based on one of ``ACCOUNTANTS``.

    ``get_epsilon`` and ``get_delta`` return the certified *upper* ends. The interface requires that
    every accountant supports non-private events, ``delta = 1`` and ``epsilon = inf``.

    Parameters
    ----------
    neighboring_relation : dp_accounting.NeighboringRelation
        No default.
    accountant : Accountant
        Default: the Fourier accountant.

    Examples
    --------
    >>> accountant = DpAccountant(dp.NeighboringRelation.ADD_OR_REMOVE_ONE)
    >>> round(accountant.compose(dp.GaussianDpEvent(2.0), 10).get_epsilon(1e-6), 2)
    8.31
    """

    def __init__(
        self, neighboring_relation: dp.NeighboringRelation, accountant: Accountant | None = None
    ) -> None:
        if neighboring_relation not in _RELATIONS:
            raise ValueError(
                "neighboring_relation must be a dp_accounting.NeighboringRelation, "
                f"got {shown(neighboring_relation)}"
            )
        super().__init__(neighboring_relation)
        self._accountant = Fourier() if accountant is None else accountant
        self._relation = _RELATIONS[neighboring_relation]

    def _maybe_compose(
        self, event: dp.DpEvent, count: int, do_compose: bool
    ) -> dp.PrivacyAccountant.CompositionErrorDetails | None:
        if do_compose or self._supports(event):
            return None  # the state is the ledger of the base class
        return self.CompositionErrorDetails(
            invalid_event=first_unsupported(event, self._supports),
            error_message=f"{self._accountant.name}: not supported under {self._relation.value}",
        )

    def get_epsilon(self, target_delta: float) -> float:
        """Return the smallest epsilon proved at ``target_delta`` in ``[0, 1]``.

        Raise ``UnsupportedEventError`` if the accountant supports each composed event, but not all
        of them together.
        """
        ledger = self._supported_ledger()
        if ledger is None:
            return math.inf
        if target_delta == 1.0:
            return 0.0
        delta = check_target_delta(target_delta)
        return self._accountant.epsilon(ledger, self._relation, delta).upper

    def get_delta(self, target_epsilon: float) -> float:
        """Return the smallest delta proved at ``target_epsilon`` in ``[0, inf]``."""
        ledger = self._supported_ledger()
        if ledger is None:
            return 1.0
        epsilon = check_epsilon(min(real("epsilon", target_epsilon), _MAX_EPSILON))
        return self._accountant.delta(ledger, self._relation, epsilon).upper

    def _supports(self, event: dp.DpEvent) -> bool:
        """Return True if the accountant supports the event without its non-private releases."""
        rest = [
            dp.SelfComposedDpEvent(leaf, count)
            for leaf, count in flatten(event)
            if not isinstance(leaf, dp.NonPrivateDpEvent)
        ]
        return self._accountant.supports(dp.ComposedDpEvent(rest), self._relation)

    def _supported_ledger(self) -> dp.DpEvent | None:
        """Return the composed event, or None if it contains a non-private release."""
        ledger = self.ledger
        if NonPrivate().supports(ledger, self._relation):
            return None
        if not self._accountant.supports(ledger, self._relation):
            raise dp.UnsupportedEventError(
                f"{self._accountant.name} does not support {shown(ledger)} under "
                f"{self._relation.value}"
            )
        return ledger

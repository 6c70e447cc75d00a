"""An accountant of ours where one of dp-accounting's is expected."""

from __future__ import annotations

from typing import Any

import dp_accounting as dp

from privopt.privacy.accountants import Accountant, Fourier
from privopt.privacy.arguments import check_delta, check_epsilon
from privopt.privacy.leaves import leaves
from privopt.spec import Relation

__all__ = ["DpAccountant"]

_RELATIONS = {
    dp.NeighboringRelation.REPLACE_ONE: Relation.REPLACE_ONE,
    dp.NeighboringRelation.ADD_OR_REMOVE_ONE: Relation.ADD_OR_REMOVE_ONE,
    dp.NeighboringRelation.REPLACE_SPECIAL: Relation.ZERO_OUT,
}


class DpAccountant(dp.PrivacyAccountant):  # type: ignore[misc]
    """``dp_accounting.PrivacyAccountant`` on top of one of ``ACCOUNTANTS``.

    ``get_epsilon`` and ``get_delta`` are the certified *upper* ends.

    Parameters
    ----------
    neighboring_relation : dp_accounting.NeighboringRelation
        No default.
    accountant : Accountant
        By default the Fourier accountant.

    Examples
    --------
    >>> accountant = DpAccountant(dp.NeighboringRelation.ADD_OR_REMOVE_ONE)
    >>> accountant.compose(dp.GaussianDpEvent(2.0), 10).get_epsilon(1e-6)  # doctest: +SKIP
    """

    def __init__(
        self, neighboring_relation: dp.NeighboringRelation, accountant: Accountant | None = None
    ) -> None:
        super().__init__(neighboring_relation)
        self._accountant = Fourier() if accountant is None else accountant
        self._relation = _RELATIONS[neighboring_relation]

    def _maybe_compose(self, event: dp.DpEvent, count: int, do_compose: bool) -> Any:
        if do_compose or self._accountant.supports(event, self._relation):
            return None  # the ledger, which the base class keeps, is all the state there is
        parts = (leaf for leaf, _ in leaves(event))
        return self.CompositionErrorDetails(
            invalid_event=next(
                (leaf for leaf in parts if not self._accountant.supports(leaf, self._relation)),
                event,
            ),
            error_message=f"{self._accountant.name}: not supported under {self._relation.value}",
        )

    def get_epsilon(self, target_delta: float) -> float:
        """The smallest epsilon proved at ``target_delta``."""
        delta = check_delta(target_delta)
        return self._accountant.epsilon(self.ledger, self._relation, delta).upper

    def get_delta(self, target_epsilon: float) -> float:
        """The smallest delta proved at ``target_epsilon``."""
        epsilon = check_epsilon(target_epsilon)
        return self._accountant.delta(self.ledger, self._relation, epsilon).upper

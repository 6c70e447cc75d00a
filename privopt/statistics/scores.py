"""Scores of a finite public set of candidates, as selection sees them."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from privopt.arguments import real
from privopt.spec import Relation


class ScoreQuery(Protocol):
    """A table of scores that knows how unevenly one record can move it."""

    def score_range(self, relation: Relation) -> float:
        """Largest ``max_y c(y) - min_y c(y)``, with ``c`` the change of all scores at once.

        What all scores gain together, no selection can see.
        """


class BoundedScores(NamedTuple):
    """Declared bounds of how far one record moves a score; facts for every data set.

    Attributes
    ----------
    change : float
        Largest change of any one score when a record is added, removed or zeroed.
    replacement : float
        Largest change of any one score when a record is replaced; at most ``2 change``.
    monotone : bool
        Whether an added record moves all scores in the same direction, as it does counts.

    Examples
    --------
    >>> from privopt.statistics import BoundedScores
    >>> BoundedScores.of(1.0).score_range("replace_one")
    4.0
    """

    change: float
    replacement: float
    monotone: bool

    @classmethod
    def of(
        cls, change: float, *, replacement: float | None = None, monotone: bool = False
    ) -> BoundedScores:
        """Scores that one record moves by ``change``, and a replacement by twice that."""
        real("change", change)
        most = change if monotone else 2.0 * change
        replacement = most if replacement is None else min(real("replacement", replacement), most)
        for name, value in (("change", change), ("replacement", replacement)):
            if not 0.0 <= value < float("inf"):
                raise ValueError(f"{name} must be non-negative and finite, got {value!r}")
        return cls(float(change), float(replacement), bool(monotone))

    def score_range(self, relation: Relation) -> float:
        """Twice the largest change of one score; ``change`` for monotone scores, one record.

        Replacing a record removes one and adds one: for monotone scores the two changes lie in
        ``[-change, 0]`` and ``[0, change]``, so no score moves by more than ``change``.
        """
        if Relation(relation) is Relation.REPLACE_ONE:
            return 2.0 * self.replacement
        return self.change if self.monotone else 2.0 * self.change

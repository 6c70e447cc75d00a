"""Selection from a finite public set by the exponential mechanism: only the index leaves.

Source: McSherry and Talwar, "Mechanism design via differential privacy", FOCS 2007.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import jax.numpy as jnp
from dp_accounting import DpEvent
from jax import Array

from privopt import draws
from privopt.arguments import check_fields, real, shown
from privopt.mechanisms.calibration import check_calibration
from privopt.privacy import BoundedRangeDpEvent, round_up
from privopt.records import check_answer
from privopt.release import release
from privopt.spec import Budget, Relation
from privopt.statistics.events import pure_release, resolvable


class ScoreQuery(Protocol):
    """A table of scores that knows how unevenly one record can move it."""

    def score_range(self, relation: Relation) -> float:
        """Largest ``max_y c(y) - min_y c(y)``, with ``c`` the change of all scores at once.

        What all scores gain together, no selection can see.
        """


class BoundedScores(NamedTuple):
    """Declared bounds of how far one record moves a score; facts for every data set.

    ``change`` is the largest change of any one score when a record is added, removed or zeroed,
    ``replacement`` the same when it is replaced, at most ``2 change``; ``monotone`` says whether an
    added record moves all scores in the same direction, as it does counts.

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
                raise ValueError(f"{name} must be non-negative and finite, got {shown(value)}")
        return cls(float(change), float(replacement), bool(monotone))

    def score_range(self, relation: Relation) -> float:
        """Twice the largest change of one score; ``change`` for monotone scores, one record.

        Replacing a record removes one and adds one: for monotone scores the two changes lie in
        ``[-change, 0]`` and ``[0, change]``, so no score moves by more than ``change``.
        """
        if Relation(relation) is Relation.REPLACE_ONE:
            return 2.0 * self.replacement
        return self.change if self.monotone else 2.0 * self.change


class ExponentialMechanism(NamedTuple):
    """``P(y)`` proportional to ``exp(q(y)/b)``, drawn as ``argmax_y q(y) + b Gumbel``.

    ``query`` has the scores' range ``r``; ``scale`` is ``b``, representable in float32.

    Formal guarantee
    ----------------
    ``r/b``-DP with ``r = query.score_range(relation)``; indeed ``r/b``-*bounded range*: between
    neighbours, ``ln P(y)/P'(y)`` varies over ``y`` by ``r/b`` at most, and takes both signs. For
    the scores change by ``c(y)``, up to a constant in ``[0, r]``, and with them ``ln P(y)`` by
    ``c(y)/b`` and one number for all ``y``.

    Examples
    --------
    >>> import jax, jax.numpy as jnp
    >>> from privopt import Budget
    >>> from privopt.statistics import BoundedScores, ExponentialMechanism
    >>> budget = Budget(epsilon=1.0, delta=0.0, relation="replace_one")
    >>> mechanism = ExponentialMechanism.calibrated(BoundedScores.of(1.0), budget)
    >>> int(mechanism.select(jax.random.key(0), jnp.array([0.0, 100.0])))
    1
    """

    query: ScoreQuery
    scale: float

    @classmethod
    def calibrated(cls, query: ScoreQuery, budget: Budget) -> ExponentialMechanism:
        """The least noise with which one selection stays within ``budget.epsilon``.

        ``b = r/epsilon``: ``2 Delta/epsilon`` for scores of sensitivity ``Delta``,
        ``Delta/epsilon`` for monotone ones. ``budget.delta`` is not spent.
        """
        check_calibration(query, budget, "score_range")
        scores = query.score_range(budget.relation)
        if not math.isfinite(scores):
            raise ValueError(
                f"query must have a finite score range under {budget.relation}, got {shown(scores)}"
            )
        return cls(query, round_up(scores / resolvable(budget.epsilon)))

    def loss(self, relation: Relation) -> float:
        """Return ``epsilon = r/b`` of one selection, rounded up."""
        check_fields("mechanism", self)
        scores = self.query.score_range(relation)
        if scores == 0.0:
            return 0.0
        return math.nextafter(scores / self.scale, math.inf) if self.scale > 0.0 else math.inf

    def event(self, relation: Relation) -> DpEvent:
        return pure_release(self.loss(relation))

    def select(self, key: Array, scores: Array) -> Array:
        """The index of the candidate that is released, an integer array of shape ``()``.

        ``scores`` have shape ``(candidates,)``; noise is drawn in their dtype. Minus infinity
        excludes a candidate, which must not depend on the data.
        """
        scores = check_answer(scores, "scores", ndim=1)
        if scores.size == 0:
            raise ValueError("scores must hold at least one, got none")
        # Relative to the best, so that noise is not lost in the digits that all scores share.
        gaps = scores - scores.max()
        noise = release("noise", self.scale * draws.gumbel(key, scores.shape, scores.dtype))
        return release("selection", jnp.argmax(gaps + noise))

    def bounded_range_event(self, relation: Relation) -> DpEvent:
        """The bounded-range view of one selection, ``(epsilon^2/8)``-zCDP: a quarter of pure DP's.

        For compositions, where it is the tighter; by itself ``event`` is.
        Source: Cesar and Rogers, "Bounding, concentrating, and truncating", ALT 2021
        (arXiv:2004.07223).
        """
        epsilon = self.loss(relation)
        if epsilon == 0.0 or math.isinf(epsilon):
            return self.event(relation)
        return BoundedRangeDpEvent(epsilon)

    def gap_bound(self, candidates: int, failure: float, *, optimal: int = 1) -> float:
        """``g`` with ``P(q* - q(selected) >= g) <= failure``: ``b ln(k/(m failure))``.

        ``k`` candidates, ``m = optimal`` of them with the best score ``q*``. In expectation the
        gap is at most ``b (ln(k/m) + 1)``. Source: Dwork and Roth 2014, Theorem 3.11.
        """
        if not 0.0 < failure < 1.0:
            raise ValueError(f"failure must lie in (0, 1), got {shown(failure)}")
        if not 1 <= optimal <= candidates:
            raise ValueError(f"optimal must lie in [1, {candidates}], got {shown(optimal)}")
        return self.scale * math.log(candidates / (optimal * failure))

"""Selection from a finite public set by the exponential mechanism; only the index is released.

Source: McSherry and Talwar, "Mechanism design via differential privacy", FOCS 2007.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import jax.numpy as jnp
from dp_accounting import DpEvent, NonPrivateDpEvent, NoOpDpEvent
from jax import Array

from privopt import random
from privopt.arguments import check_fields, checked, real, shown
from privopt.mechanisms.calibration import check_calibration
from privopt.privacy import BoundedRangeDpEvent, pure_event, round_up
from privopt.records import check_answer
from privopt.release import release
from privopt.spec import Budget, Relation


@checked
def pure_release(epsilon: float) -> DpEvent:
    """Return the event of an ``epsilon``-DP release; a no-op at 0, non-private at infinity.

    Examples
    --------
    >>> pure_release(0.0), pure_release(math.inf)
    (NoOpDpEvent(), NonPrivateDpEvent())
    """
    if epsilon == 0.0:
        return NoOpDpEvent()
    return pure_event(epsilon) if epsilon < math.inf else NonPrivateDpEvent()


def resolvable(epsilon: float) -> float:
    """Return a loss with an accounted epsilon, rounding included, of at most ``epsilon``."""
    return epsilon / (1.0 + 1e-11) if epsilon < math.inf else epsilon


class ScoreQuery(Protocol):
    """A table of scores with the range of its change between neighbours."""

    def score_range(self, relation: Relation) -> float:
        """Return the largest ``max_y c(y) - min_y c(y)``, where ``c`` is the change of the scores.

        A common change of all scores does not affect the selection.
        """


class BoundedScores(NamedTuple):
    """Declared sensitivities of a score, valid for every data set.

    ``change`` is the sensitivity of each score when a record is added, removed or zeroed;
    ``replacement`` is that of a replacement, at most ``2 change``. ``monotone`` is True if an added
    record changes all scores in the same direction, for example counts.

    Examples
    --------
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
        """Return scores of sensitivity ``change``, and by default twice that for a replacement."""
        real("change", change)
        limit = change if monotone else 2.0 * change
        replacement = limit if replacement is None else min(real("replacement", replacement), limit)
        for name, value in (("change", change), ("replacement", replacement)):
            if not 0.0 <= value < float("inf"):
                raise ValueError(f"{name} must be non-negative and finite, got {shown(value)}")
        return cls(float(change), float(replacement), bool(monotone))

    def score_range(self, relation: Relation) -> float:
        """Return twice the sensitivity of one score, or ``change`` for an added monotone record.

        For monotone scores a replacement changes each score by at most ``change``, because the
        removal and the addition have changes in ``[-change, 0]`` and ``[0, change]``.
        """
        if Relation(relation) is Relation.REPLACE_ONE:
            return 2.0 * self.replacement
        return self.change if self.monotone else 2.0 * self.change


class ExponentialMechanism(NamedTuple):
    """Selection with ``P(y)`` proportional to ``exp(q(y)/b)``, as ``argmax_y q(y) + b Gumbel``.

    ``query`` provides the score range ``r``; ``scale`` is ``b``, representable in float32.

    Formal guarantee
    ----------------
    ``r/b``-DP with ``r = query.score_range(relation)``, and ``r/b``-*bounded range*: between
    neighbours, ``ln P(y)/P'(y)`` varies over ``y`` by at most ``r/b`` and takes both signs. Proof:
    :ref:`Mechanisms, Theorem 7 <theory-mechanisms-7>`.

    Examples
    --------
    >>> import jax
    >>> budget = Budget(epsilon=1.0, delta=0.0, relation="replace_one")
    >>> mechanism = ExponentialMechanism.calibrated(BoundedScores.of(1.0), budget)
    >>> int(mechanism.select(jax.random.key(0), jnp.array([0.0, 100.0])))
    1
    """

    query: ScoreQuery
    scale: float

    @classmethod
    def calibrated(cls, query: ScoreQuery, budget: Budget) -> ExponentialMechanism:
        """Return the mechanism with a single selection within ``budget.epsilon``.

        ``b = r/epsilon``: ``2 Delta/epsilon`` for scores of sensitivity ``Delta``,
        ``Delta/epsilon`` for monotone ones. ``budget.delta`` is not used.
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
        """Return the index of the selected candidate, an integer array of shape ``()``.

        ``scores`` have shape ``(candidates,)``; noise is drawn in their dtype. Minus infinity
        excludes a candidate; the exclusion must not depend on the data.
        """
        scores = check_answer(scores, "scores", ndim=1)
        if scores.size == 0:
            raise ValueError("scores must hold at least one, got none")
        # Relative to the best score, so that large common scores do not absorb the noise.
        gaps = scores - scores.max()
        noise = release("noise", self.scale * random.gumbel(key, scores.shape, scores.dtype))
        return release("selection", jnp.argmax(gaps + noise))

    def bounded_range_event(self, relation: Relation) -> DpEvent:
        """Return the bounded-range event of one selection, ``(epsilon^2/8)``-zCDP.

        This is a quarter of the zCDP of pure DP and tighter in compositions; for a single selection
        ``event`` is tighter.

        Source: Cesar and Rogers, "Bounding, concentrating, and truncating", ALT 2021
        (arXiv:2004.07223).
        """
        epsilon = self.loss(relation)
        if epsilon == 0.0 or math.isinf(epsilon):
            return self.event(relation)
        return BoundedRangeDpEvent(epsilon)

    def gap_bound(self, candidates: int, failure: float, *, optimal: int = 1) -> float:
        """Return ``g = b ln(k/(m failure))`` with ``P(q* - q(selected) >= g) <= failure``.

        ``k`` candidates, ``m = optimal`` of them with the best score ``q*``. In expectation the
        gap is at most ``b (ln(k/m) + 1)``. Source: Dwork and Roth 2014, Theorem 3.11.
        """
        if not 0.0 < failure < 1.0:
            raise ValueError(f"failure must lie in (0, 1), got {shown(failure)}")
        if not 1 <= optimal <= candidates:
            raise ValueError(f"optimal must lie in [1, {candidates}], got {shown(optimal)}")
        return self.scale * math.log(candidates / (optimal * failure))

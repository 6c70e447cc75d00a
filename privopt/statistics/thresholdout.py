"""A holdout set that can be used again and again."""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from dp_accounting import DpEvent
from jax import Array

from privopt import draws
from privopt.arguments import check_fields, count, positive_number
from privopt.mechanisms.calibration import check_calibration
from privopt.mechanisms.round_off import UNIT
from privopt.privacy import round_up
from privopt.records import as_floats
from privopt.release import release
from privopt.spec import Budget, Relation
from privopt.statistics.events import pure_release, resolvable
from privopt.statistics.mean import BoundedMean
from privopt.statistics.sparse_vector import Memory, SparseVector, refuse_without_budget


class MeanGap(NamedTuple):
    """How far the mean of the holdout is from that of training records, which are public to it.

    Examples
    --------
    >>> gap = MeanGap(BoundedMean.of(0.0, 1.0, size=2))
    >>> float(gap.answer(jnp.array([1.0, 1.0, 0.5, 0.5]), jnp.array([0.0, 0.5])))
    0.5
    """

    query: BoundedMean

    def l1_sensitivity(self, relation: Relation) -> float:
        """Return that of the mean plus the round-off of two differences of at most ``2 h``."""
        sensitivity = self.query.l1_sensitivity(relation)
        return sensitivity + 2.1 * UNIT * 2.0 * self.query.bounds.half_width

    def answer(self, training: Array, holdout: Array) -> Array:
        """Shape ``()``, of the values of one function there, shapes ``(m,)`` and ``(n,)``."""
        unseen, seen = self.query.answer(holdout), self.mean_of(training)
        if unseen.dtype != seen.dtype:
            raise ValueError(
                f"training must have the dtype of holdout, {unseen.dtype}, got {seen.dtype}"
            )
        return jnp.abs(unseen - seen)

    def mean_of(self, training: Array) -> Array:
        """Return the mean of the training records, of which there is at least one."""
        training = as_floats(training, "training", ndim=1)
        if training.size == 0:
            raise ValueError(f"training must hold a record, got shape {training.shape}")
        return self.query._replace(size=float(training.size)).answer(training)


class Thresholdout(NamedTuple):
    """The mean on training records, unless that of the holdout is far from it; then that, noisy.

    A question is the values that a function has on the records: ``gap.query`` bounds them and takes
    their mean over the holdout. Means further apart than about ``threshold`` are answered by the
    holdout's, with Laplace noise of ``answer_scale``; ``comparison`` decides, and pays for
    so many answers. All scales are representable in float32.

    Formal guarantee
    ----------------
    For the *holdout*, ``(s/b_1 + c (2 s/b_2 + s/b_3))``-DP under each relation, ``s =
    gap.l1_sensitivity(relation)``, ``b_1`` and ``b_2`` as in :class:`SparseVector`, ``b_3`` the
    ``answer_scale``: the noise of an answer is not that of the comparison. Nothing is promised to
    training records. Privacy keeps the answers near the population's
    (:func:`privopt.theory.expected_generalisation`).

    Source: Dwork, Feldman, Hardt, Pitassi, Reingold and Roth, "The reusable holdout: preserving
    validity in adaptive data analysis", Science 2015 (arXiv:1506.02629), Algorithm Thresholdout,
    with ``b_1 : b_2 : b_3 = 2 : 4 : 1``. They draw the noise of the threshold again after an
    answer, which is not needed (Lyu, Su and Li 2017, Theorem 4), and pay ``2 c s/b_3``; we
    ``(1 + 3 c) s/(2 b_3)``.

    Examples
    --------
    >>> query = BoundedMean.of(0.0, 1.0, size=10_000)
    >>> budget = Budget(epsilon=2.0, delta=0.0, relation="replace_one")
    >>> mechanism = Thresholdout.calibrated(query, 0.04, budget, answers=10)
    >>> seen, unseen = jnp.ones(10_000), jnp.full(10_000, 0.5)  # a model that knows its records
    >>> answer, state = mechanism.update(mechanism.init(jax.random.key(0)), seen, unseen)
    >>> abs(float(answer) - 0.5) < 0.01, int(state.left)
    (True, 9)
    """

    gap: MeanGap
    threshold: float
    comparison: SparseVector
    answer_scale: float

    @classmethod
    def calibrated(
        cls, query: BoundedMean, threshold: float, budget: Budget, *, answers: int
    ) -> Thresholdout:
        """Noise with which ``answers`` answers of the holdout stay within ``budget.epsilon``.

        ``threshold`` is public, in the units of the values; ``budget.delta`` is not spent.
        """
        check_calibration(query, budget, "l1_sensitivity", "restore")
        threshold, answers = positive_number("threshold", threshold), count("answers", answers)
        gap = MeanGap(query)
        moved = gap.l1_sensitivity(budget.relation)
        scale = moved * (0.5 + 1.5 * answers) / resolvable(budget.epsilon)
        comparison = SparseVector(gap, float(answers), round_up(2.0 * scale), round_up(4.0 * scale))
        return cls(gap, round_up(threshold), comparison, round_up(scale))

    @property
    def query(self) -> BoundedMean:
        """The mean of the holdout."""
        return self.gap.query

    def event(self, relation: Relation) -> DpEvent:
        """Return the privacy event of all answers together, for the holdout."""
        check_fields("mechanism", self)
        moved = self.gap.l1_sensitivity(relation)
        if moved > 0.0 and not self.answer_scale > 0.0:
            return pure_release(math.inf)
        paid = self.comparison.answers * moved / self.answer_scale if moved > 0.0 else 0.0
        return pure_release((self.comparison.loss(relation) + paid) * (1.0 + 2.0**-50))

    def init(self, key: Array) -> Memory:
        """The state before the first question."""
        return self.comparison.init(key)

    def update(self, state: Memory, training: Array, holdout: Array) -> tuple[Array, Memory]:
        """The answer, shape ``()``, and a new state.

        ``training`` and ``holdout`` are the values of the question there, shapes ``(m,)`` and
        ``(n,)`` of one dtype. ValueError where nothing is left of what was paid for; inside a
        compiled program, which cannot refuse, the answer is then NaN.
        """
        refuse_without_budget(state, self.comparison.answers)
        key, answer_key = jax.random.split(state.key)
        training = as_floats(training, "training", ndim=1)
        holdout = as_floats(holdout, "holdout", ndim=1)
        gap = self.gap.answer(training, holdout)
        above, after = self.comparison.update(state._replace(key=key), gap, self.threshold)
        seen, unseen = self.gap.mean_of(training), self.query.answer(holdout)
        noise = release("noise", self.answer_scale * draws.laplace(answer_key, (), unseen.dtype))
        told = self.query.restore(jnp.where(above, unseen + noise, seen))
        return release("answer", jnp.where(state.left > 0, told, jnp.nan)), after

"""The sparse vector technique and Thresholdout: privacy is spent on large answers only."""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from dp_accounting import DpEvent
from jax import Array

from privopt import random
from privopt.arguments import check_fields, checked, count, instance, positive_number, shown
from privopt.mechanisms.calibration import UNIT, check_calibration
from privopt.mechanisms.queries import L1BoundedQuery
from privopt.privacy import round_up
from privopt.random import as_key
from privopt.records import as_floats, check_answer
from privopt.release import release
from privopt.spec import Budget, Relation
from privopt.statistics.queries import BoundedMean
from privopt.statistics.selection import pure_release, resolvable


class SparseVectorState(NamedTuple):
    """State of a mechanism between two queries.

    ``remaining`` is the public number of large answers that may follow. ``threshold_noise``, of
    scale 1, and ``key``, from which all further noise is drawn, are secret. Use each state once and
    continue with the state that ``update`` returns: two queries with one noise are not private.
    """

    key: Array
    threshold_noise: Array
    remaining: Array

    def __repr__(self) -> str:
        return "<SparseVectorState: secret>"


class SparseVector(NamedTuple):
    """Comparison of ``q_i(data) + Lap(b_2)`` with ``T_i + Lap(b_1)``, at most ``c`` times True.

    All queries have the sensitivity of ``query``. ``answers`` is ``c``. ``threshold_scale`` is
    ``b_1``; its noise is drawn once. ``question_scale`` is ``b_2``; its noise is drawn for every
    query. The scales are representable in float32.

    Formal guarantee
    ----------------
    ``(s/b_1 + 2 c s/b_2)``-DP under each relation, ``s = query.l1_sensitivity(relation)``, for any
    number of adaptive queries. Proof: :ref:`Mechanisms, Theorem 8 <theory-mechanisms-8>`.

    References
    ----------
    Lyu, Su and Li, "Understanding the sparse vector technique for differential privacy", VLDB 2017
    (arXiv:1603.01699), Algorithm 1 and Theorem 2; four of the six variants in their article are not
    private.

    Examples
    --------
    >>> from privopt.statistics import Count
    >>> budget = Budget(epsilon=1.0, delta=0.0, relation="zero_out")
    >>> mechanism = SparseVector.calibrated(Count(), budget, answers=2)
    >>> state, results = mechanism.init(jax.random.key(0)), []
    >>> for number in (0.0, 0.0, 500.0, 0.0):
    ...     above, state = mechanism.update(state, jnp.asarray(number), 250.0)
    ...     results.append(bool(above))
    >>> results, int(state.remaining)
    ([False, False, True, False], 1)
    """

    query: L1BoundedQuery
    answers: float
    threshold_scale: float
    question_scale: float

    @classmethod
    def calibrated(cls, query: L1BoundedQuery, budget: Budget, *, answers: int) -> SparseVector:
        """Return the mechanism with ``answers`` True results within ``budget.epsilon``.

        ``epsilon`` is shared ``1 : (2 c)^(2/3)`` between threshold and queries, which minimises the
        variance of the difference. ``budget.delta`` is not used.
        """
        check_calibration(query, budget, "l1_sensitivity")
        answers, epsilon = count("answers", answers), resolvable(budget.epsilon)
        sensitivity = query.l1_sensitivity(budget.relation)
        if not math.isfinite(sensitivity):
            raise ValueError(
                f"query must have a finite l1 sensitivity under {budget.relation}, got "
                f"{shown(sensitivity)}"
            )
        share = (2.0 * answers) ** (2.0 / 3.0)
        threshold, question = (1.0 + share) / epsilon, 2.0 * answers * (1.0 + 1.0 / share) / epsilon
        return cls(
            query,
            float(answers),
            round_up(threshold * sensitivity),
            round_up(question * sensitivity),
        )

    def loss(self, relation: Relation) -> float:
        """Return ``epsilon`` of the whole interaction, rounded up."""
        check_fields("mechanism", self)
        sensitivity = self.query.l1_sensitivity(relation)
        if sensitivity == 0.0:
            return 0.0
        if not (self.threshold_scale > 0.0 and self.question_scale > 0.0):
            return math.inf
        queries = 2.0 * self.answers * sensitivity / self.question_scale
        return (sensitivity / self.threshold_scale + queries) * (1.0 + 2.0**-50)

    def event(self, relation: Relation) -> DpEvent:
        """Return the privacy event of all answers together."""
        return pure_release(self.loss(relation))

    def init(self, key: Array) -> SparseVectorState:
        """Return the initial state."""
        key, threshold_key = jax.random.split(as_key(key))
        noise = random.laplace(threshold_key, (), jnp.result_type(float))
        return SparseVectorState(
            key, release("noise", noise), jnp.asarray(self.answers).astype(jnp.int32)
        )

    @checked
    def update(
        self, state: SparseVectorState, answer: Array, threshold: float | Array
    ) -> tuple[Array, SparseVectorState]:
        """Return True if the noisy ``answer`` reaches the noisy ``threshold``, and the new state.

        ``answer`` is one answer of ``query``, shape ``()``, because a vector of answers would be
        accounted as one. ``threshold`` is public, of shape ``()`` and in the units of the answer.
        Raises ``ValueError`` if no True result is left. A compiled program cannot raise; the result
        is then False for all data, and ``remaining`` is 0.
        """
        check_answers_left(state, self.answers)
        answer = check_answer(answer, "answer", ndim=0)
        numeric = jnp.issubdtype(jnp.result_type(threshold), jnp.number)
        if jnp.ndim(threshold) != 0 or not numeric:
            raise ValueError(f"threshold must be one real number, got {shown(threshold)}")
        key, question_key = jax.random.split(state.key)
        noise = release(
            "noise", self.question_scale * random.laplace(question_key, (), answer.dtype)
        )
        threshold_noise = self.threshold_scale * state.threshold_noise.astype(answer.dtype)
        limit = jnp.asarray(threshold, answer.dtype) + threshold_noise
        result = release("answer", (answer + noise >= limit) & (state.remaining > 0))
        return result, state._replace(key=key, remaining=state.remaining - result.astype(jnp.int32))


def check_answers_left(state: SparseVectorState, answers: float) -> None:
    """Check, on the host, that the state has between 1 and ``answers`` answers left."""
    remaining = instance("state", state, SparseVectorState).remaining
    if isinstance(remaining, jax.core.Tracer) or remaining.ndim != 0:
        return
    if not 0 < int(remaining) <= answers:
        raise ValueError(
            f"state must have an answer left, got {int(remaining)} of the {answers:g} paid for"
        )


class MeanGap(NamedTuple):
    """Distance between the mean of the holdout and the mean of the training records.

    The training records are public with respect to the holdout.

    Examples
    --------
    >>> gap = MeanGap(BoundedMean.of(0.0, 1.0, size=2))
    >>> float(gap.answer(jnp.array([1.0, 1.0, 0.5, 0.5]), jnp.array([0.0, 0.5])))
    0.5
    """

    query: BoundedMean

    def l1_sensitivity(self, relation: Relation) -> float:
        """Return the sensitivity of the mean plus round-off of two differences up to ``2 h``."""
        sensitivity = self.query.l1_sensitivity(relation)
        return sensitivity + 2.1 * UNIT * 2.0 * self.query.bounds.half_width

    def answer(self, training: Array, holdout: Array) -> Array:
        """Return the distance, shape ``()``, for values of shapes ``(m,)`` and ``(n,)``."""
        unseen, training_mean = self.query.answer(holdout), self.mean_of(training)
        if unseen.dtype != training_mean.dtype:
            raise ValueError(
                f"training must have the dtype of holdout, {unseen.dtype}, "
                f"got {training_mean.dtype}"
            )
        return jnp.abs(unseen - training_mean)

    def mean_of(self, training: Array) -> Array:
        """Return the mean of at least one training record."""
        training = as_floats(training, "training", ndim=1)
        if training.size == 0:
            raise ValueError(f"training must hold a record, got shape {training.shape}")
        return self.query._replace(size=float(training.size)).answer(training)


class Thresholdout(NamedTuple):
    """Reusable holdout: the mean of training records, or a noisy holdout mean if they differ.

    A query consists of the values of one function on the records; ``gap.query`` bounds them and
    takes their mean over the holdout. If the means differ by more than about ``threshold``, the
    result is the mean of the holdout plus Laplace noise of ``answer_scale``. ``comparison`` decides
    and limits the number of such results. All scales are representable in float32.

    Formal guarantee
    ----------------
    For the *holdout*, ``(s/b_1 + c (2 s/b_2 + s/b_3))``-DP under each relation, with ``s =
    gap.l1_sensitivity(relation)``, ``b_1`` and ``b_2`` as in :class:`SparseVector`, and ``b_3`` the
    ``answer_scale``. There is no guarantee for training records. Privacy keeps the results near
    those of the population (:func:`privopt.theory.expected_generalisation`). Proof:
    :ref:`Mechanisms, Theorem 9 <theory-mechanisms-9>`.

    References
    ----------
    Dwork, Feldman, Hardt, Pitassi, Reingold and Roth, "The reusable holdout: preserving validity in
    adaptive data analysis", Science 2015 (arXiv:1506.02629), Algorithm Thresholdout, with ``b_1 :
    b_2 : b_3 = 2 : 4 : 1``, without their second draw of the threshold noise.

    Examples
    --------
    >>> query = BoundedMean.of(0.0, 1.0, size=10_000)
    >>> budget = Budget(epsilon=2.0, delta=0.0, relation="replace_one")
    >>> mechanism = Thresholdout.calibrated(query, 0.04, budget, answers=10)
    >>> training, holdout = jnp.ones(10_000), jnp.full(10_000, 0.5)  # an overfitted model
    >>> answer, state = mechanism.update(mechanism.init(jax.random.key(0)), training, holdout)
    >>> abs(float(answer) - 0.5) < 0.01, int(state.remaining)
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
        """Return the mechanism with ``answers`` holdout results within ``budget.epsilon``.

        ``threshold`` is public, in the units of the values; ``budget.delta`` is not used.
        """
        check_calibration(query, budget, "l1_sensitivity", "restore")
        threshold, answers = positive_number("threshold", threshold), count("answers", answers)
        gap = MeanGap(query)
        sensitivity = gap.l1_sensitivity(budget.relation)
        scale = sensitivity * (0.5 + 1.5 * answers) / resolvable(budget.epsilon)
        comparison = SparseVector(gap, float(answers), round_up(2.0 * scale), round_up(4.0 * scale))
        return cls(gap, round_up(threshold), comparison, round_up(scale))

    @property
    def query(self) -> BoundedMean:
        """Mean of the holdout."""
        return self.gap.query

    def event(self, relation: Relation) -> DpEvent:
        """Return the privacy event of all results together, for the holdout."""
        check_fields("mechanism", self)
        sensitivity = self.gap.l1_sensitivity(relation)
        if sensitivity > 0.0 and not self.answer_scale > 0.0:
            return pure_release(math.inf)
        results = self.comparison.answers * sensitivity
        results = results / self.answer_scale if sensitivity > 0.0 else 0.0
        return pure_release((self.comparison.loss(relation) + results) * (1.0 + 2.0**-50))

    def init(self, key: Array) -> SparseVectorState:
        """Return the initial state."""
        return self.comparison.init(key)

    def update(
        self, state: SparseVectorState, training: Array, holdout: Array
    ) -> tuple[Array, SparseVectorState]:
        """Return the result, shape ``()``, and the new state.

        ``training`` and ``holdout`` are the values of the query, shapes ``(m,)`` and ``(n,)`` of
        one dtype. Raises ``ValueError`` if no holdout result is left. A compiled program cannot
        raise; the result is then NaN.
        """
        check_answers_left(state, self.comparison.answers)
        key, answer_key = jax.random.split(state.key)
        training = as_floats(training, "training", ndim=1)
        holdout = as_floats(holdout, "holdout", ndim=1)
        gap = self.gap.answer(training, holdout)
        differs, after = self.comparison.update(state._replace(key=key), gap, self.threshold)
        training_mean, unseen = self.gap.mean_of(training), self.query.answer(holdout)
        noise = release("noise", self.answer_scale * random.laplace(answer_key, (), unseen.dtype))
        result = self.query.restore(jnp.where(differs, unseen + noise, training_mean))
        return release("answer", jnp.where(state.remaining > 0, result, jnp.nan)), after

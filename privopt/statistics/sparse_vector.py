"""The sparse vector technique: of many questions, pay for those alone whose answers are large."""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from dp_accounting import DpEvent
from jax import Array

from privopt import draws
from privopt.arguments import check_fields, checked, count, instance, shown
from privopt.mechanisms.calibration import check_calibration
from privopt.mechanisms.queries import L1BoundedQuery
from privopt.privacy import round_up
from privopt.records import check_answer
from privopt.release import release
from privopt.spec import Budget, Relation
from privopt.statistics.events import pure_release, resolvable
from privopt.streams import as_key


class Memory(NamedTuple):
    """What a mechanism keeps between two questions.

    ``left`` large answers are still paid for, which is public; ``threshold_noise``, of scale 1, and
    ``key``, from which all further noise is drawn, are secret. Ask each state once, and go on with
    what ``update`` returns: one noise for two questions is no privacy.
    """

    key: Array
    threshold_noise: Array
    left: Array

    def __repr__(self) -> str:
        return "<Memory: secret>"


class SparseVector(NamedTuple):
    """Is ``q_i(data) + Lap(b_2)`` at least ``T_i + Lap(b_1)``? At most ``c`` times yes.

    All questions have the bounds of ``query``. ``answers`` is ``c``, ``threshold_scale`` is
    ``b_1``, whose noise is drawn once, ``question_scale`` is ``b_2``, whose noise is drawn for
    every question. The scales are representable in float32.

    Formal guarantee
    ----------------
    ``(s/b_1 + 2 c s/b_2)``-DP under each relation, ``s = query.l1_sensitivity(relation)``,
    whatever the number of questions, chosen in the light of earlier answers. For with the noise of
    the threshold moved by ``s``, at the cost ``s/b_1``, every *no* is at least as likely on the
    neighbour; a *yes* then costs ``2 s/b_2``. Source: Lyu, Su and Li, "Understanding the sparse
    vector technique for differential privacy", VLDB 2017 (arXiv:1603.01699), Algorithm 1 and
    Theorem 2; their article lists six variants, of which four are not private.

    Examples
    --------
    >>> from privopt.statistics import Count
    >>> budget = Budget(epsilon=1.0, delta=0.0, relation="zero_out")
    >>> mechanism = SparseVector.calibrated(Count(), budget, answers=2)
    >>> state, found = mechanism.init(jax.random.key(0)), []
    >>> for number in (0.0, 0.0, 500.0, 0.0):
    ...     above, state = mechanism.update(state, jnp.asarray(number), 250.0)
    ...     found.append(bool(above))
    >>> found, int(state.left)
    ([False, False, True, False], 1)
    """

    query: L1BoundedQuery
    answers: float
    threshold_scale: float
    question_scale: float

    @classmethod
    def calibrated(cls, query: L1BoundedQuery, budget: Budget, *, answers: int) -> SparseVector:
        """Noise with which ``answers`` times *yes* stay within ``budget.epsilon``.

        ``epsilon`` is shared ``1 : (2 c)^(2/3)`` between threshold and questions, where the
        variance of the difference is least. ``budget.delta`` is not spent.
        """
        check_calibration(query, budget, "l1_sensitivity")
        answers, epsilon = count("answers", answers), resolvable(budget.epsilon)
        moved = query.l1_sensitivity(budget.relation)
        if not math.isfinite(moved):
            raise ValueError(
                f"query must have a finite l1 sensitivity under {budget.relation}, got "
                f"{shown(moved)}"
            )
        share = (2.0 * answers) ** (2.0 / 3.0)
        threshold, question = (1.0 + share) / epsilon, 2.0 * answers * (1.0 + 1.0 / share) / epsilon
        return cls(query, float(answers), round_up(threshold * moved), round_up(question * moved))

    def loss(self, relation: Relation) -> float:
        """Return ``epsilon`` of the whole interaction, rounded up."""
        check_fields("mechanism", self)
        moved = self.query.l1_sensitivity(relation)
        if moved == 0.0:
            return 0.0
        if not (self.threshold_scale > 0.0 and self.question_scale > 0.0):
            return math.inf
        paid = moved / self.threshold_scale + 2.0 * self.answers * moved / self.question_scale
        return paid * (1.0 + 2.0**-50)

    def event(self, relation: Relation) -> DpEvent:
        """What all answers together do to privacy."""
        return pure_release(self.loss(relation))

    def init(self, key: Array) -> Memory:
        """The state before the first question."""
        key, threshold_key = jax.random.split(as_key(key))
        noise = draws.laplace(threshold_key, (), jnp.result_type(float))
        return Memory(key, release("noise", noise), jnp.asarray(self.answers).astype(jnp.int32))

    @checked
    def update(
        self, state: Memory, answer: Array, threshold: float | Array
    ) -> tuple[Array, Memory]:
        """Return True if the noisy ``answer`` reaches the noisy ``threshold``, and a new state.

        ``answer`` is the answer of ``query``, shape ``()``: one question at a time, since all
        answers of a vector would be paid for as one. ``threshold`` is public, of shape ``()`` and
        in the units of the answer. ``ValueError`` if no paid answer is left. Inside a compiled
        program, which cannot raise, the answer is then False whatever the data, and ``left`` is 0.
        """
        refuse_without_budget(state, self.answers)
        answer = check_answer(answer, "answer", ndim=0)
        real = jnp.issubdtype(jnp.result_type(threshold), jnp.number)
        if jnp.ndim(threshold) != 0 or not real:
            raise ValueError(f"threshold must be one real number, got {shown(threshold)}")
        key, question_key = jax.random.split(state.key)
        noise = release(
            "noise", self.question_scale * draws.laplace(question_key, (), answer.dtype)
        )
        moved = self.threshold_scale * state.threshold_noise.astype(answer.dtype)
        limit = jnp.asarray(threshold, answer.dtype) + moved
        above = release("answer", (answer + noise >= limit) & (state.left > 0))
        return above, state._replace(key=key, left=state.left - above.astype(jnp.int32))


def refuse_without_budget(state: Memory, answers: float) -> None:
    """Check, on the host, that the state has an answer left, and not more than were paid for."""
    left = instance("state", state, Memory).left
    if not isinstance(left, jax.core.Tracer) and left.ndim == 0 and not 0 < int(left) <= answers:
        raise ValueError(
            f"state must have an answer left, got {int(left)} of the {answers:g} paid for"
        )

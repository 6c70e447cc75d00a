"""Batches of a fixed size, drawn without replacement, and random ordered subsets."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NoReturn

import jax
import jax.numpy as jnp
from dp_accounting import (
    DpEvent,
    GaussianDpEvent,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
)
from jax import Array

from privopt.convex import pytree_dataclass
from privopt.mechanisms.batches.batches import Draw, present, step_count, whole_batch_size
from privopt.mechanisms.calibration import require_public_size
from privopt.spec import Relation


@pytree_dataclass
@dataclass(frozen=True)
class FixedSizeBatches:
    """``B_t`` uniform among the sets of ``b`` of the first ``n`` records, fresh in every step.

    Formal guarantee
    ----------------
    ``T`` adaptive answers with fresh noise are the ``T``-fold composition of Gaussian mechanisms on
    samples without replacement, under ``replace_one`` only: a record added or removed would move
    another one into or out of the batch. Far more noise is needed than for a Poisson batch of the
    same size, since the record that is in the batch keeps another one out of it.

    Examples
    --------
    >>> FixedSizeBatches.of(10, 100).composed(2.0, 5, Relation.REPLACE_ONE).count
    5
    """

    batch_size: int = field(metadata={"static": True})
    n: int = field(metadata={"static": True})

    def __post_init__(self) -> None:
        whole_batch_size(self.batch_size, self.n)

    @classmethod
    def of(cls, batch_size: float, n: int) -> FixedSizeBatches:
        """Batches of ``batch_size`` of ``n`` records, at most 1.04e9."""
        return cls(whole_batch_size(batch_size, n), n)

    @property
    def block(self) -> int:
        """1: a step's draw is a permutation of all records."""
        return 1

    @property
    def by_number(self) -> bool:
        """No: every set of records is as likely as any other."""
        return False

    def divisor(self, size: float) -> float:
        """``b``."""
        del size
        return float(self.batch_size)

    def draws_of(self, key: Array, records: Array | int) -> Draw:
        """Step ``t`` draws from ``fold_in(key, t)``."""

        def draw(step: Array) -> tuple[Array, Array]:
            order = jax.random.permutation(jax.random.fold_in(key, step), self.n)
            return present(order[None, : self.batch_size], records)

        return draw

    def composed(self, multiplier: float, steps: int, relation: Relation) -> DpEvent:
        """``steps`` releases of a Gaussian mechanism from samples without replacement."""
        require_public_size(relation, "batches of fixed size")
        one = SampledWithoutReplacementDpEvent(self.n, self.batch_size, GaussianDpEvent(multiplier))
        return SelfComposedDpEvent(one, step_count(steps))

    def participation(self, steps: int, relation: Relation) -> NoReturn:
        """Refused."""
        raise ValueError(
            "batches must not be drawn afresh in every step for noise with memory: no theorem "
            f"covers batches of fixed size, got {self!r}"
        )


def ordered_subset(key: Array, size: int, n: int) -> Array:
    """``size`` distinct numbers below ``n``, int32, uniform among the lists of such numbers.

    So the first half of the list is a random half of the set. ``1 <= size <= n`` are static. Up to
    ``sqrt(n/2)`` numbers are drawn together, and all again until they are distinct: four rounds of
    five succeed. A longer list is the beginning of a permutation.

    Examples
    --------
    >>> drawn = ordered_subset(jax.random.key(0), 4, 100)
    >>> len(set(drawn.tolist()))
    4
    """
    if 2 * size * size > n:
        return jax.random.permutation(key, jnp.arange(n, dtype=jnp.int32))[:size]

    def draw(turn: Array) -> Array:
        return jax.random.randint(jax.random.fold_in(key, turn), (size,), 0, n, jnp.int32)

    def repeats(state: tuple[Array, Array]) -> Array:
        ascending = jnp.sort(state[1])
        return jnp.any(ascending[1:] == ascending[:-1])

    def again(state: tuple[Array, Array]) -> tuple[Array, Array]:
        turn = state[0] + 1
        return turn, draw(turn)

    first = jnp.zeros((), jnp.int32)
    return jax.lax.while_loop(repeats, again, (first, draw(first)))[1]

"""Passes over the data in random order, each record in one batch of every pass."""

from __future__ import annotations

from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
from dp_accounting import DpEvent, GaussianDpEvent, SelfComposedDpEvent
from jax import Array

from privopt.arguments import count
from privopt.convex import pytree_dataclass
from privopt.mechanisms.batches.batches import (
    Draw,
    Participation,
    batch_size_of,
    present,
    require_numbered,
    step_count,
)
from privopt.privacy import round_up
from privopt.spec import Relation

__all__ = ["ShuffledBatches", "require_places"]


@pytree_dataclass
@dataclass(frozen=True)
class ShuffledBatches:
    """A pass is ``k`` disjoint batches of a fresh permutation of ``n`` records; ``b = n/k``.

    Where ``k`` does not divide ``n`` the last batch of a pass is smaller, its divisor the same.

    Attributes
    ----------
    batches, n : int
        ``k`` and ``n``.

    Formal guarantee
    ----------------
    A record is in one batch of every pass, so ``T`` adaptive answers with fresh noise are
    ``ceil(T/k)`` releases of a Gaussian mechanism. **No amplification by shuffling is claimed**:
    the numbers of Poisson sampling do not hold for shuffled passes. Under ``add_or_remove_one``
    the batches of others would move, and it is refused.

    Examples
    --------
    >>> ShuffledBatches.of(10, 100).composed(2.0, 25, Relation.ZERO_OUT)
    SelfComposedDpEvent(event=GaussianDpEvent(noise_multiplier=2.0), count=3)
    """

    batches: int = field(metadata={"static": True})
    n: int = field(metadata={"static": True})

    def __post_init__(self) -> None:
        require_numbered("n", self.n)
        if not 1 <= count("batches", self.batches) <= self.n:
            raise ValueError(f"batches must be at most n = {self.n}, got {self.batches}")

    @classmethod
    def of(cls, batch_size: float, n: int) -> ShuffledBatches:
        """Passes over ``n`` records in batches of about ``batch_size``.

        Raises
        ------
        ValueError
            If ``batch_size`` is not in ``(0, n]``, or ``n`` is above 1.04e9.
        """
        return cls(max(1, round(n / batch_size_of(batch_size, n))), n)

    @property
    def block(self) -> int:
        """A pass."""
        return self.batches

    @property
    def by_number(self) -> bool:
        """No: every order is as likely as any other."""
        return False

    def divisor(self, size: float) -> float:
        """``n/k``, rounded up to what float32 represents."""
        del size
        return round_up(self.n / self.batches)

    def draws_of(self, key: Array, records: Array | int) -> Draw:
        """Pass ``p`` draws its order from ``fold_in(key, p)``."""
        places = -(-self.n // self.batches)
        shape = self.batches, places

        def draw(number: Array) -> tuple[Array, Array]:
            order = jax.random.permutation(jax.random.fold_in(key, number), self.n)
            padding = 0, self.batches * places - self.n
            rows = jnp.pad(order, padding, constant_values=self.n).reshape(shape)
            return present(rows, jnp.minimum(records, self.n))

        return draw

    def composed(self, multiplier: float, steps: int, relation: Relation) -> DpEvent:
        """One release of a Gaussian mechanism a pass."""
        passes = self.participation(steps, relation).times
        return SelfComposedDpEvent(GaussianDpEvent(multiplier), passes)

    def participation(self, steps: int, relation: Relation) -> Participation:
        """Once a pass, last in one and first in the next at worst."""
        require_places(relation, "shuffled passes")
        return Participation(-(-step_count(steps) // self.batches), 1, even=False)


def require_places(relation: Relation, what: str) -> None:
    """ValueError under ``add_or_remove_one``, where a record added moves the places of others."""
    if Relation(relation) is Relation.ADD_OR_REMOVE_ONE:
        raise ValueError(
            f"relation must be replace_one or zero_out for {what}, where a record "
            f"added moves others to other batches, got {relation}"
        )

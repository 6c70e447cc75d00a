"""All records at every step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from dp_accounting import DpEvent, GaussianDpEvent, SelfComposedDpEvent
from jax import Array

from privopt.convex import pytree_dataclass
from privopt.mechanisms.batches.batches import Participation, step_count
from privopt.spec import Relation


@pytree_dataclass
@dataclass(frozen=True)
class AllRecords:
    """``B_t = {0, .., n-1}`` and ``b = n``, the public size, whatever the number of records.

    Formal guarantee
    ----------------
    ``T`` adaptive answers with fresh noise are ``sqrt(T)/z``-Gaussian DP, ``z`` the noise
    multiplier, and twice that under ``replace_one``; exactly, under every relation.

    Examples
    --------
    >>> AllRecords().composed(2.0, 100, Relation.ZERO_OUT)
    SelfComposedDpEvent(event=GaussianDpEvent(noise_multiplier=2.0), count=100)
    """

    @property
    def block(self) -> int:
        """0: nothing is drawn."""
        return 0

    @property
    def by_number(self) -> bool:
        """No: all take part."""
        return False

    def divisor(self, size: float) -> float:
        """The public size."""
        return size

    def draws_of(self, key: Array, records: Array | int) -> NoReturn:
        """Nothing is drawn."""
        raise NotImplementedError

    def composed(self, multiplier: float, steps: int, relation: Relation) -> DpEvent:
        """``steps`` releases of a Gaussian mechanism."""
        del relation
        return SelfComposedDpEvent(GaussianDpEvent(multiplier), step_count(steps))

    def participation(self, steps: int, relation: Relation) -> Participation:
        """In every step."""
        del relation
        return Participation(step_count(steps), 1, even=True)

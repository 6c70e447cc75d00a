"""One pass over the data as it is stored, each record in one batch."""

from __future__ import annotations

from dataclasses import dataclass, field

import jax.numpy as jnp
from dp_accounting import DpEvent, GaussianDpEvent
from jax import Array

from privopt.convex import pytree_dataclass
from privopt.mechanisms.batches.batches import (
    Draw,
    Participation,
    present,
    step_count,
    whole_batch_size,
)
from privopt.mechanisms.batches.shuffled import require_places
from privopt.spec import Relation

__all__ = ["OnePassBatches"]


@pytree_dataclass
@dataclass(frozen=True)
class OnePassBatches:
    """``B_t = {t b, .., (t + 1) b - 1}`` for ``t = 0 .. ceil(n/b) - 1``: the order of a stream.

    The last batch may be smaller, its divisor the same.

    Attributes
    ----------
    batch_size, n : int
        ``b`` and ``n``.

    Formal guarantee
    ----------------
    A record is in one batch, so all answers with fresh noise are one release of a Gaussian
    mechanism, however many there are. Under ``add_or_remove_one`` the batches of others would move,
    and it is refused; so are more steps than one pass has.

    Examples
    --------
    >>> OnePassBatches.of(10, 100).composed(2.0, 10, Relation.REPLACE_ONE)
    GaussianDpEvent(noise_multiplier=2.0)
    """

    batch_size: int = field(metadata={"static": True})
    n: int = field(metadata={"static": True})

    @classmethod
    def of(cls, batch_size: float, n: int) -> OnePassBatches:
        """One pass over ``n`` records in batches of ``batch_size``.

        Raises
        ------
        ValueError
            If ``batch_size`` is no integer from 1 to ``n``, or ``n`` is above 1.04e9.
        """
        return cls(whole_batch_size(batch_size, n), n)

    @property
    def block(self) -> int:
        """1: there is nothing to save."""
        return 1

    def divisor(self, size: float) -> float:
        """``b``."""
        del size
        return float(self.batch_size)

    def bind(self, key: Array, records: Array | int) -> Draw:
        """No randomness."""
        del key
        places = jnp.arange(self.batch_size, dtype=jnp.int32)[None]

        def draw(step: Array) -> tuple[Array, Array]:
            rows = step.astype(jnp.int32) * self.batch_size + places
            return present(rows, jnp.minimum(records, self.n))

        return draw

    def composed(self, multiplier: float, steps: int, relation: Relation) -> DpEvent:
        """One release of a Gaussian mechanism."""
        self.participation(steps, relation)
        return GaussianDpEvent(multiplier)

    def participation(self, steps: int, relation: Relation) -> Participation:
        """Once."""
        require_places(relation, "one pass in order")
        steps, most = step_count(steps), -(-self.n // self.batch_size)
        if steps > most:
            raise ValueError(f"steps must be at most {most}, the batches of one pass, got {steps}")
        return Participation(1, max(1, steps), even=True)

"""Passes over the data, each record in one batch of every pass: in one order, or shuffled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import jax
import jax.numpy as jnp
from dp_accounting import DpEvent, GaussianDpEvent, SelfComposedDpEvent
from jax import Array

from privopt.arguments import count, member
from privopt.convex import pytree_dataclass
from privopt.mechanisms.batches.batches import (
    Draw,
    Participation,
    batch_size_of,
    place_count,
    present,
    require_numbered,
    step_count,
    whole_batch_size,
)
from privopt.privacy import round_up
from privopt.spec import Relation

_PLACES = 2**12  # in a block of batches


class Passes:
    """Batches with each record in one batch of every pass: a pass is one Gaussian release."""

    participation: Callable[[int, Relation], Participation]

    def composed(self, noise_multiplier: float, steps: int, relation: Relation) -> DpEvent:
        passes = self.participation(steps, relation).times
        return SelfComposedDpEvent(GaussianDpEvent(noise_multiplier), passes)


@pytree_dataclass
@dataclass(frozen=True)
class OrderedBatches(Passes):
    """Passes in one order ``o``: ``B_t = {o(p b), .., o((p + 1) b - 1)}``, ``p = t mod ceil(n/b)``.

    The order is ``"stored"``, or one ``"random"`` permutation sampled from the key. The last batch
    of a pass may be smaller; its divisor is the same. After ``epochs`` passes the batches are
    empty. Records with multiplicities need a random order.

    Formal guarantee
    ----------------
    A record is in one batch of every pass, at the same place of each, so all answers with
    independent noise are one release of a Gaussian mechanism per pass, for every number of steps
    in a pass. The guarantee holds for each order; a random order is not exploited. With
    multiplicities, replacing a record moves the numbers of others, but the law of a permutation
    does not depend on the numbering. ``add_or_remove_one`` is rejected, because the batches of
    others would change, and so are more steps than the passes have.

    Examples
    --------
    >>> batches = OrderedBatches.of(10, 100, epochs=3)
    >>> batches.participation(30, Relation.REPLACE_ONE)
    Participation(times=3, gap=10, even=True)
    """

    batch_size: int
    n: int = field(metadata={"static": True})
    epochs: int
    order: str = field(metadata={"static": True})
    places: int = field(default=0, repr=False, compare=False, metadata={"static": True})

    def __post_init__(self) -> None:
        object.__setattr__(self, "places", place_count(self.places, self.batch_size, self.n))
        member("order", self.order, ("stored", "random"))

    @classmethod
    def of(
        cls, batch_size: float, n: int, epochs: int = 1, order: str = "stored"
    ) -> OrderedBatches:
        """Return ``epochs`` passes over ``n <= 1.04e9`` records in batches of ``batch_size``."""
        return cls(whole_batch_size(batch_size, n), n, count("epochs", epochs), order)

    def padded(self, places: int) -> OrderedBatches:
        """Return the batches with more empty places."""
        return replace(self, places=places)

    @property
    def period(self) -> int:
        """Number of steps in a pass: ``ceil(n/b)``."""
        return -(-self.n // self.batch_size)

    @property
    def block(self) -> int:
        return max(1, min(_PLACES // self.places, self.n // self.places))

    @property
    def by_number(self) -> bool:
        return self.order == "stored"

    def divisor(self, size: float) -> float:
        del size
        return self.batch_size

    def draws_of(self, key: Array, records: Array | int) -> Draw:
        order = None
        if self.order == "random":
            order = jax.random.permutation(key, jnp.arange(self.n, dtype=jnp.int32))
        places = jnp.arange(self.places, dtype=jnp.int32)
        size = jnp.asarray(self.batch_size, jnp.int32)

        def draw(number: Array) -> tuple[Array, Array]:
            steps = number * self.block + jnp.arange(self.block, dtype=number.dtype)
            period = jnp.asarray(self.period, steps.dtype)
            positions = (steps % period).astype(jnp.int32)[:, None] * size + places[None]
            rows = positions if order is None else order[positions]
            in_pass = steps // period < jnp.asarray(self.epochs, steps.dtype)
            in_batch = in_pass[:, None] & (places < size)[None] & (positions < self.n)
            rows = jnp.where(in_batch, rows, self.n)
            return present(rows, jnp.minimum(records, self.n))

        return draw

    def participation(self, steps: int, relation: Relation) -> Participation:
        require_places(relation, "passes in one order")
        steps, most = step_count(steps), self.epochs * self.period
        if steps > most:
            raise ValueError(
                f"steps must be at most {most}, the batches of {self.epochs} passes, got {steps}"
            )
        return Participation(-(-steps // self.period), self.period, even=True)


@pytree_dataclass
@dataclass(frozen=True)
class ShuffledBatches(Passes):
    """Shuffled passes: ``k`` disjoint batches of a new permutation of ``n`` records; ``b = n/k``.

    If ``k`` does not divide ``n``, the last batch of a pass is smaller; its divisor is the same.

    Formal guarantee
    ----------------
    A record is in one batch of every pass, so ``T`` adaptive answers with independent noise are
    ``ceil(T/k)`` releases of a Gaussian mechanism. **Amplification by shuffling is not
    exploited**: the guarantees of Poisson sampling do not hold for shuffled passes.
    ``add_or_remove_one`` is rejected, because the batches of others would change.

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
        """Return passes over ``n`` records, at most 1.04e9, in batches of about ``batch_size``."""
        return cls(max(1, round(n / batch_size_of(batch_size, n))), n)

    @property
    def block(self) -> int:
        return self.batches

    @property
    def by_number(self) -> bool:
        return False

    def divisor(self, size: float) -> float:
        del size
        return round_up(self.n / self.batches)

    def draws_of(self, key: Array, records: Array | int) -> Draw:
        places = -(-self.n // self.batches)
        shape = self.batches, places

        def draw(number: Array) -> tuple[Array, Array]:
            order = jax.random.permutation(jax.random.fold_in(key, number), self.n)
            padding = 0, self.batches * places - self.n
            rows = jnp.pad(order, padding, constant_values=self.n).reshape(shape)
            return present(rows, jnp.minimum(records, self.n))

        return draw

    def participation(self, steps: int, relation: Relation) -> Participation:
        require_places(relation, "shuffled passes")
        return Participation(-(-step_count(steps) // self.batches), 1, even=False)


def require_places(relation: Relation, subject: str) -> None:
    """Refuse ``add_or_remove_one``, under which a new record changes the places of others."""
    if Relation(relation) is Relation.ADD_OR_REMOVE_ONE:
        raise ValueError(
            f"relation must be replace_one or zero_out for {subject}, since a new record "
            f"moves others to other batches, got {relation}"
        )

"""Protocol of batch samplers; all records, and batches of fixed size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import NamedTuple, NoReturn, Protocol

import jax
import jax.numpy as jnp
from dp_accounting import (
    DpEvent,
    GaussianDpEvent,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
)
from jax import Array
from jaxtyping import Bool, Int

from privopt.arguments import positive_integer, real, shown
from privopt.convex import pytree_dataclass
from privopt.mechanisms.calibration import require_public_size
from privopt.spec import Relation

MAX_NUMBERED = 31 * 32**5

BATCHES = ("block", "by_number", "divisor", "draws_of", "composed", "participation")
"""What a sampler answers."""

Draw = Callable[[Array], tuple[Array, Array]]
"""``k -> (rows, taken)``, both ``(block, places)``: of steps ``k block .. (k + 1) block - 1``.

``rows`` are numbers of records (int32), ``taken`` says which of the places are filled.
"""


class Participation(NamedTuple):
    """Participation of one record in ``T`` steps: at most ``times``, at least ``gap`` steps apart.

    The distance of consecutive participations is exactly ``gap`` if ``even`` (epochs in one
    order).

    Examples
    --------
    >>> from privopt.mechanisms import ShuffledBatches
    >>> ShuffledBatches.of(10, 100).participation(25, Relation.REPLACE_ONE)
    Participation(times=3, gap=1, even=False)
    """

    times: int
    gap: int
    even: bool


class Batches(Protocol):
    r"""Sampler of the batches ``B_t``, independent of the data.

    The gradient of step ``t`` is ``g_t = (1/b) \sum_{i \in B_t} clip_C(grad l(w_t; x_i))``. The
    divisor ``b`` is public and does not depend on the number of sampled records.

    An implementation is a frozen dataclass registered as a pytree
    (:func:`privopt.convex.arrays`). Every field that enters ``composed`` is used on the
    device.
    """

    @property
    def block(self) -> int:
        """Number of steps sampled at once; 0 if every step uses all records.

        It changes speed and no bit.
        """

    # Batches with a method ``batch_of(key, records)``, the sampler ``t -> (rows, taken)`` of single
    # steps, need no other steps of the block for one step at a time, as in a stepper.
    # Batches with the attributes ``places`` and ``padded(places)`` share programs with batches of
    # other sizes: padding adds empty places and changes no other number.

    @property
    def by_number(self) -> bool:
        """True if the law of the batches depends on the order of the records.

        Records with multiplicities are then rejected: they are numbered group by group, and
        replacing one would change the numbers of others.
        """

    def divisor(self, size: float) -> float:
        """Return ``b``; ``size`` is the public number of records of the query."""

    def draws_of(self, key: Array, records: Array | int) -> Draw:
        """Return the sampler of a run; all randomness is from ``key``. Not called if ``block = 0``.

        Rows from ``records`` on are masked (:func:`present`).
        """

    def composed(self, noise_multiplier: float, steps: int, relation: Relation) -> DpEvent:
        """Return the event of ``steps`` adaptive answers with independent Gaussian noise.

        ``noise_multiplier`` is the noise standard deviation over the per-record sensitivity of an
        answer. ValueError, with the reason, if no theorem covers these batches under ``relation``.
        """

    def participation(self, steps: int, relation: Relation) -> Participation:
        """Return the participation for correlated noise; ValueError if no theorem covers it."""


def batch_size_of(batch_size: float, n: int) -> float:
    """Return ``batch_size``; check that it is in ``(0, n]`` and that ``n`` is at most 1.04e9."""
    require_numbered("n", n)
    if not 0.0 < real("batch_size", batch_size) <= n:
        raise ValueError(
            f"batch_size must be positive and at most n = {n}, got {shown(batch_size)}"
        )
    return float(batch_size)


def whole_batch_size(batch_size: float, n: int) -> int:
    """Return ``batch_size``, an integer from 1 to ``n <= 1.04e9``, or raise ValueError."""
    require_numbered("n", n)
    if not real("batch_size", batch_size).is_integer() or not 1 <= batch_size <= n:
        raise ValueError(f"batch_size must be an integer from 1 to {n}, got {shown(batch_size)}")
    return int(batch_size)


def step_count(steps: int) -> int:
    """Return ``steps`` as a non-negative integer, or raise ValueError."""
    if isinstance(steps, bool) or not isinstance(steps, Integral) or steps < 0:
        raise ValueError(f"steps must be an integer from 0 on, got {shown(steps)}")
    return int(steps)


def padded_size(size: int) -> int:
    """Return ``size`` rounded up by at most an eighth, to one of few sizes that share a program."""
    unit = max(1, 2 ** (size.bit_length() - 4))
    return -(-size // unit) * unit


def place_count(places: int, batch_size: int, n: int) -> int:
    """Return ``places``, at least the padded batch size and at most ``n``."""
    size = whole_batch_size(batch_size, n)
    return int(min(float(n), max(real("places", places), padded_size(size))))


def present(
    rows: Int[Array, "*places"], records: Int[Array, ""] | int
) -> tuple[Int[Array, "*places"], Bool[Array, "*places"]]:
    """Return ``(rows, mask)``: a number outside ``0 .. records - 1`` is masked, and becomes row 0.

    JAX would gather the last record for it.
    """
    mask = (rows >= 0) & (rows < jnp.asarray(records, rows.dtype))
    return jnp.where(mask, rows, 0), mask


def require_numbered(name: str, count: int) -> None:
    """Check that ``count`` records can be numbered exactly in int32."""
    if positive_integer(name, count) > MAX_NUMBERED:
        raise ValueError(
            f"{name} must be at most {MAX_NUMBERED} for sampling by record number, got {count}"
        )


def in_blocks(batch: Draw, block: int) -> Draw:
    """Return the sampler of ``block`` steps at once, from the sampler ``t -> batch`` of one."""

    def draw(number: Array) -> tuple[Array, Array]:
        steps = number * block + jnp.arange(block, dtype=number.dtype)
        return jax.vmap(batch)(steps)

    return draw


class FreshBatches:
    """Batches that are sampled independently in every step, with the same law for all records."""

    by_number = False
    batch_of: Callable[[Array, Array | int], Draw]

    @property
    def block(self) -> int:
        return 1

    def draws_of(self, key: Array, records: Array | int) -> Draw:
        return in_blocks(self.batch_of(key, records), self.block)

    def participation(self, steps: int, relation: Relation) -> NoReturn:
        raise ValueError(
            "batches must not be sampled in every step for correlated noise: no theorem "
            f"covers this, got {shown(self)}"
        )


@pytree_dataclass
@dataclass(frozen=True)
class AllRecords:
    """Full batches: ``B_t = {0, .., n-1}`` and ``b = n``, the public size.

    Formal guarantee
    ----------------
    ``T`` adaptive answers with independent noise are ``sqrt(T)/z``-Gaussian DP, ``z`` the noise
    multiplier, and twice that under ``replace_one``; exactly, under every relation.

    Examples
    --------
    >>> AllRecords().composed(2.0, 100, Relation.ZERO_OUT)
    SelfComposedDpEvent(event=GaussianDpEvent(noise_multiplier=2.0), count=100)
    """

    block = 0
    by_number = False

    def divisor(self, size: float) -> float:
        return size

    def draws_of(self, key: Array, records: Array | int) -> NoReturn:
        raise NotImplementedError

    def composed(self, noise_multiplier: float, steps: int, relation: Relation) -> DpEvent:
        return SelfComposedDpEvent(GaussianDpEvent(noise_multiplier), step_count(steps))

    def participation(self, steps: int, relation: Relation) -> Participation:
        return Participation(step_count(steps), 1, even=True)


@pytree_dataclass
@dataclass(frozen=True)
class FixedSizeBatches(FreshBatches):
    """Uniform batches of ``b`` of the first ``n`` records, independent in every step.

    Formal guarantee
    ----------------
    ``T`` adaptive answers with independent noise are the ``T``-fold composition of Gaussian
    mechanisms on samples without replacement, under ``replace_one`` only: adding or removing a
    record would move another one into or out of the batch. Much more noise is needed than for a
    Poisson batch of the same size, since a record in the batch keeps another one out of it.

    Examples
    --------
    >>> FixedSizeBatches.of(10, 100).composed(2.0, 5, Relation.REPLACE_ONE).count
    5
    """

    batch_size: int
    n: int = field(metadata={"static": True})
    places: int = field(default=0, repr=False, compare=False, metadata={"static": True})

    def __post_init__(self) -> None:
        object.__setattr__(self, "places", place_count(self.places, self.batch_size, self.n))

    @classmethod
    def of(cls, batch_size: float, n: int) -> FixedSizeBatches:
        """Return batches of ``batch_size`` of ``n`` records, at most 1.04e9."""
        return cls(whole_batch_size(batch_size, n), n)

    def padded(self, places: int) -> FixedSizeBatches:
        """Return the batches with more empty places."""
        return replace(self, places=places)

    def divisor(self, size: float) -> float:
        del size
        return self.batch_size

    def batch_of(self, key: Array, records: Array | int) -> Draw:

        def batch(step: Array) -> tuple[Array, Array]:
            order = jax.random.permutation(jax.random.fold_in(key, step), self.n)
            filled = jnp.arange(self.places, dtype=jnp.int32) < jnp.asarray(
                self.batch_size, jnp.int32
            )
            return present(jnp.where(filled, order[: self.places], -1), records)

        return batch

    def composed(self, noise_multiplier: float, steps: int, relation: Relation) -> DpEvent:
        require_public_size(relation, "batches of fixed size")
        gaussian = GaussianDpEvent(noise_multiplier)
        one = SampledWithoutReplacementDpEvent(self.n, self.batch_size, gaussian)
        return SelfComposedDpEvent(one, step_count(steps))

"""Poisson batches, of all records and of blocks in a cycle, sampled in time linear in the batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NoReturn

import jax
import jax.numpy as jnp
from dp_accounting import (
    DpEvent,
    GaussianDpEvent,
    PoissonSampledDpEvent,
    SelfComposedDpEvent,
    TruncatedSubsampledGaussianDpEvent,
)
from jax import Array
from scipy import stats

from privopt.arguments import count, positive_number, shown
from privopt.convex import pytree_dataclass
from privopt.mechanisms.batches.batches import (
    Draw,
    FreshBatches,
    batch_size_of,
    in_blocks,
    padded_size,
    present,
    require_numbered,
    step_count,
)
from privopt.mechanisms.batches.passes import require_places
from privopt.privacy import round_up
from privopt.random import child_words, fold_in
from privopt.spec import Assumptions, Budget, Relation

_ARITHMETIC = 2.0**-14  # relative; exceeds the float32 error of an inclusion rate
_OVERFLOW_SHARE = 1e-3  # fraction of delta that pays for full batches
_OVERFLOWS = tuple(10.0**-power for power in (15, 25, 40, 80, 160, 300))  # per step
_MOST_STEPS, _MOST_PLACES = 16, 2**16  # in a block of batches
_BASE = 32
_WORD = 2.0**32

Sampler = Callable[[Array, Array | int], tuple[Array, Array]]


@pytree_dataclass
@dataclass(frozen=True)
class PoissonBatches(FreshBatches):
    """Poisson batches: each of at most ``n`` records is sampled independently with ``q = b/n``.

    The divisor is ``b``, not the number of sampled records. Batches have ``capacity`` places.
    Sampled records beyond the capacity, and records after the ``n``-th, are left out. ``rate`` is
    ``q``, ``batch_size`` is ``b`` and ``most`` is ``n``.

    Formal guarantee
    ----------------
    ``T`` adaptive answers with independent noise are the ``T``-fold composition of Poisson-sampled
    Gaussian mechanisms, under every relation. In addition, a step reveals everything with
    probability ``tau = P(Binomial(n - 1, q) >= capacity)``: unless the *other* records fill the
    batch, which is equally likely for both neighbours, the capacity does not affect the record.
    The rate is accounted ``2^-14`` higher, for the arithmetic of the sampler.

    Neighbours are data sets of at most ``n`` records, a public maximum (``Assumptions.n``). Beyond
    it there is no guarantee under ``add_or_remove_one``: removing a record would bring in the
    ``(n + 1)``-th.

    Examples
    --------
    >>> PoissonBatches(0.25, 10.0, capacity=40, most=40).composed(2.0, 5, Relation.ZERO_OUT).count
    5
    """

    rate: float
    batch_size: float
    capacity: int = field(metadata={"static": True})
    most: int = field(metadata={"static": True})

    def __post_init__(self) -> None:
        require_numbered("most", self.most)
        count("capacity", self.capacity)

    @classmethod
    def of(
        cls, batch_size: float, n: int, *, budget: Budget, steps: int, capacity: int | None = None
    ) -> PoissonBatches:
        """Return batches of expected size ``batch_size`` of at most ``n`` records.

        By default the capacity suffices for ``steps`` steps with probability ``1 -
        budget.delta/1000``.
        """
        batch_size = batch_size_of(batch_size, n)
        rate = min(1.0, round_up(batch_size / n))
        if capacity is None:
            most = _OVERFLOW_SHARE * budget.delta / steps
            # One probability for all usual budgets, so that a new budget needs no new program.
            chance = next((each for each in _OVERFLOWS if each <= most), most)
            capacity = padded_size(capacity_of(n - 1, _accounted(rate), chance))
        if not batch_size <= capacity:
            raise ValueError(
                f"capacity must be at least the batch size {batch_size:g}, got {shown(capacity)}"
            )
        overflow = stats.binom.sf(capacity - 1, n - 1, _accounted(rate)) * steps
        if overflow >= budget.delta:
            raise ValueError(
                f"capacity must be such that batches overflow with probability below delta "
                f"{shown(budget.delta)}, got {shown(capacity)}, at which it is {overflow:.2g}"
            )
        return cls(rate, round_up(batch_size), min(capacity, n), n)

    @property
    def places(self) -> int:
        """Number of places in a batch."""
        return self.capacity

    def padded(self, places: int) -> PoissonBatches:
        """Return the batches with a larger capacity.

        The sampled records are the same unless a batch overflows, which is less likely, so the
        guarantee of the smaller capacity holds.
        """
        return replace(self, capacity=min(places, self.most))

    @property
    def block(self) -> int:  # each call of the generator has a fixed cost
        return max(1, min(_MOST_STEPS, _MOST_PLACES // self.capacity))

    def divisor(self, size: float) -> float:
        del size
        return self.batch_size

    def batch_of(self, key: Array, records: Array | int) -> Draw:
        sample = poisson_sampler(self.rate, self.capacity, self.most)
        return lambda t: sample(fold_in(key, t), records)

    def composed(self, noise_multiplier: float, steps: int, relation: Relation) -> DpEvent:
        del relation
        if not 0.0 < self.rate <= 1.0:
            raise ValueError(f"rate must lie in (0, 1], got {shown(self.rate)}")
        rate = _accounted(self.rate)
        one: DpEvent
        if self.capacity >= self.most:
            one = GaussianDpEvent(noise_multiplier)
            one = one if rate == 1.0 else PoissonSampledDpEvent(rate, one)
        else:
            one = TruncatedSubsampledGaussianDpEvent(
                self.most, rate, self.capacity, noise_multiplier
            )
        return SelfComposedDpEvent(one, step_count(steps))

    def assumptions(self, relation: Relation) -> Assumptions:
        """Return the assumptions: a public maximum of the number of records."""
        del relation
        return Assumptions(n=self.most)


def poisson_sampler(rate: Array | float, capacity: int, most: int) -> Sampler:
    """Return a sampler of batches that contain each record independently with probability ``rate``.

    The gaps between sampled records are geometric, ``P(G >= k) = (1 - rate)^k``, and the digits of
    a geometric variable to any base are independent: digit ``j`` to base ``b`` is ``v`` with
    probability proportional to ``(1 - rate)^{v b^j}``; the leading digit is unbounded. Each digit
    is sampled by comparing a word of 32 random bits with a table, so ``O(capacity log most)`` bits
    are used for any number of records. The deviation from the exact law is that of floating-point
    arithmetic: inclusion rates have a relative error of about 1e-6 in float32, and events of
    probability below ``2^-32`` do not occur.

    ``capacity``, the places in a batch, and ``most``, the largest number of records, are static.
    The sampler is ``(key, records) -> (rows, mask)``, both of shape ``(capacity,)``. ``rows``
    contains the increasing numbers of the first ``capacity`` sampled records, then zeros (int32).
    ``mask`` is True for a sampled record and False for an empty place.

    Examples
    --------
    >>> rows, mask = poisson_sampler(0.1, 20, 100)(jax.random.key(0), 100)
    >>> rows.shape, bool((rows[mask] < 100).all())
    ((20,), True)
    """
    require_numbered("most", most)
    rate = jnp.asarray(rate)
    digits = 1
    while (_BASE - 1) * _BASE ** (digits - 1) < most:
        digits += 1
    exponent = -jnp.log1p(-rate)
    tables = [
        _thresholds(exponent * _BASE**place, leading=place == digits - 1) for place in range(digits)
    ]

    def sample(key: Array, records: Array | int) -> tuple[Array, Array]:
        # In this order the first records do not depend on the capacity.
        words = child_words(key, digits * capacity).reshape(capacity, digits).T
        gaps = jnp.zeros(capacity, jnp.int32)
        for place, table in enumerate(tables):
            digit = jnp.sum(words[place][:, None] < table[None], axis=-1, dtype=jnp.int32)
            gaps = jnp.minimum(gaps + digit * _BASE**place, most)
        rows = _bounded_sum(gaps + 1, most + 1) - 1
        return present(rows, jnp.minimum(records, most))  # a gap of ``most`` is no row

    return sample


def _thresholds(exponent: Array, *, leading: bool) -> Array:
    """Return ``2^32 P(D >= v)``, ``v = 1..b-1``, with ``P(D >= v) = (a^v - a^b)/(1 - a^b)``.

    ``a = exp(-exponent)``; the leading digit has ``P(D >= v) = a^v``. The digit is the number of
    thresholds that exceed a uniform word.
    """
    value = jnp.arange(1, _BASE).astype(exponent.dtype)
    at_least = jnp.exp(-value * exponent)
    if not leading:
        at_least *= jnp.expm1((value - _BASE) * exponent) / jnp.expm1(-_BASE * exponent)
    return jnp.minimum(at_least * _WORD, _WORD - 256.0).astype(jnp.uint32)


def _bounded_sum(steps: Array, bound: int) -> Array:
    """Return cumulative sums clipped to ``bound``, without overflow."""
    if steps.shape[0] * bound < 2**31:
        return jnp.minimum(jnp.cumsum(steps, dtype=jnp.int32), bound)
    return jax.lax.associative_scan(lambda a, b: jnp.minimum(a + b, bound), steps)


def capacity_of(others: int, rate: float, chance: float) -> int:
    """Return the fewest places that ``others`` records fill with probability at most ``chance``."""
    if rate >= 1.0 or chance <= 0.0:
        return others + 1
    low, high = -1, others
    while high - low > 1:  # scipy.stats.binom.isf fails for chances below 2^-53
        middle = (low + high) // 2
        small = stats.binom.sf(middle, others, rate) <= chance
        low, high = (low, middle) if small else (middle, high)
    return high + 1


def _accounted(rate: float) -> float:
    return min(1.0, rate * (1.0 + _ARITHMETIC))


@pytree_dataclass
@dataclass(frozen=True)
class CyclicPoissonBatches:
    """Poisson batches of blocks in a cycle: step ``t`` samples from block ``t mod m``.

    Record ``i`` is in block ``i mod m``. Each record of the block is in ``B_t`` independently with
    probability ``q = b m/n``. The divisor is ``b``. The gradients of ``m`` steps together, not
    those of one step, are unbiased. ``sample`` samples one block, of at most ``ceil(n/m)``
    records; ``cycle`` is ``m``. The blocks are public: they depend on the record numbers alone.

    Formal guarantee
    ----------------
    Answers with noise of a lower triangular ``C`` with at most ``m`` diagonals are the
    ``ceil(T/m)``-fold composition of the Gaussian mechanisms on Poisson batches of a block, at the
    noise multiplier over the largest norm of a column of ``C``. Independent noise has one
    diagonal.

    *Proof*. Record ``i`` can be sampled only in the steps ``s_k = i mod m + k m``. If it is, it
    adds ``C_{t s_k} v_k`` to row ``t`` of ``C g``, which vanishes unless ``s_k <= t < s_k + m =
    s_{k+1}``: the rows from one of its steps to the next depend on no other. Take these rows as
    one answer, given all rows before and the sampling of the other records. The parameter of a
    step is a function of the rows before it, hence so is the contribution of the others to a row,
    and ``v_k`` is known at ``s_k``. Without the contribution of the others, a known shift, the
    answer is ``B C_{. s_k} v_k + sigma xi`` with an independent ``B ~ Bernoulli(q)``: a Gaussian
    mechanism of sensitivity ``|C_{. s_k}| |v_k|`` on a Poisson sample. Columns at the end of the
    stream are cut, and shorter. These answers compose adaptively. Under ``replace_one`` the same
    holds with ``v_k`` on one side and ``v'_k`` on the other. If the others fill the places of a
    batch, which is equally likely for both neighbours, everything is revealed, as in
    ``PoissonBatches``.

    The blocks must be fixed. ``add_or_remove_one`` is rejected, because a new record shifts the
    numbers of others. Records with multiplicities are rejected too, and so is noise without a
    band, since the noise of a step would not have ended at the next step of the record.

    Source: Choquette-Choo, Ganesh, McKenna, McMahan, Rush, Thakurta and Xu 2023
    (arXiv:2306.08153), on banded matrices and Poisson sampling in a cycle.

    Examples
    --------
    >>> budget = Budget(epsilon=1.0, delta=1e-6, relation="zero_out")
    >>> batches = CyclicPoissonBatches.of(5, 1000, 20, budget=budget, steps=100)
    >>> round(batches.sample.rate, 6), batches.banded(2.0, 16, 100, budget.relation).count
    (0.1, 5)
    """

    sample: PoissonBatches
    cycle: int = field(metadata={"static": True})
    n: int = field(metadata={"static": True})

    def __post_init__(self) -> None:
        require_numbered("n", self.n)
        if count("cycle", self.cycle) > self.n:
            raise ValueError(f"cycle must be at most n = {self.n}, got {self.cycle}")

    @classmethod
    def of(
        cls,
        batch_size: float,
        n: int,
        cycle: int,
        *,
        budget: Budget,
        steps: int,
        capacity: int | None = None,
    ) -> CyclicPoissonBatches:
        """Return batches of expected size ``batch_size`` of ``n`` records in ``cycle`` blocks.

        By default the capacity suffices for ``steps`` steps with probability ``1 -
        budget.delta/1000``.
        """
        require_numbered("n", n)
        if count("cycle", cycle) > n:
            raise ValueError(f"cycle must be at most n = {n}, got {cycle}")
        if positive_number("batch_size", batch_size) * cycle > n:
            raise ValueError(
                f"batch_size must be at most n/cycle = {n / cycle:g}, got {shown(batch_size)}"
            )
        most = -(-n // cycle)
        expected = min(float(most), batch_size * (most * cycle / n))
        sample = PoissonBatches.of(
            expected, most, budget=budget, steps=-(-steps // cycle), capacity=capacity
        )
        return cls(replace(sample, batch_size=round_up(batch_size)), cycle, n)

    @property
    def places(self) -> int:
        """Number of places in a batch."""
        return self.sample.places

    def padded(self, places: int) -> CyclicPoissonBatches:
        """Return the batches with a larger capacity, see :meth:`PoissonBatches.padded`."""
        return replace(self, sample=self.sample.padded(places))

    @property
    def block(self) -> int:
        return self.sample.block

    by_number = True  # blocks depend on the record numbers

    def divisor(self, size: float) -> float:
        return self.sample.divisor(size)

    def batch_of(self, key: Array, records: Array | int) -> Draw:
        sample = poisson_sampler(self.sample.rate, self.sample.capacity, self.sample.most)
        all_records = jnp.minimum(records, self.n)

        def batch(t: Array) -> tuple[Array, Array]:
            residue = (t % self.cycle).astype(jnp.int32)
            of_block = (all_records - residue + self.cycle - 1) // self.cycle
            places, mask = sample(fold_in(key, t), of_block)
            return present(jnp.where(mask, places * self.cycle + residue, -1), all_records)

        return batch

    def draws_of(self, key: Array, records: Array | int) -> Draw:
        return in_blocks(self.batch_of(key, records), self.block)

    def composed(self, noise_multiplier: float, steps: int, relation: Relation) -> DpEvent:
        return self.banded(noise_multiplier, 1, steps, relation)

    def banded(self, noise_multiplier: float, band: int, steps: int, relation: Relation) -> DpEvent:
        """Return the event of ``steps`` adaptive answers with noise of ``band`` diagonals.

        ``noise_multiplier`` is the noise standard deviation over the product of the per-record
        sensitivity of an answer and the largest norm of a column of ``C``.
        """
        require_places(relation, "blocks by number")
        if count("band", band) > self.cycle:
            raise ValueError(
                f"band must be at most cycle = {self.cycle} for participations without "
                f"a common answer, got {band}"
            )
        return self.sample.composed(noise_multiplier, -(-step_count(steps) // self.cycle), relation)

    def assumptions(self, relation: Relation) -> Assumptions:
        """Return the assumptions: fixed blocks of a public maximum size."""
        del relation
        blocks = f"records are in {self.cycle} blocks by their numbers"
        return Assumptions(n=self.n, besides=(blocks,))

    def participation(self, steps: int, relation: Relation) -> NoReturn:
        raise ValueError(
            "batches must not be sampled for correlated noise, unless it is banded by at most "
            f"cycle = {self.cycle}: no theorem covers other noise on cyclic Poisson batches, got "
            f"{shown(self)}"
        )

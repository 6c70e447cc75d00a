"""Poisson batches of blocks that take turns: sampling that amplifies banded noise too."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NoReturn

import jax
import jax.numpy as jnp
from dp_accounting import DpEvent
from jax import Array

from privopt.arguments import count, positive_number, shown
from privopt.convex import pytree_dataclass
from privopt.mechanisms.batches.batches import Draw, present, require_numbered, step_count
from privopt.mechanisms.batches.passes import require_places
from privopt.mechanisms.batches.poisson import PoissonBatches, poisson_sampler
from privopt.privacy import round_up
from privopt.spec import Budget, Premises, Relation


@pytree_dataclass
@dataclass(frozen=True)
class CyclicPoissonBatches:
    """Record ``i`` is in block ``i mod m``; step ``t`` takes a Poisson batch of block ``t mod m``.

    Each record of the block is in ``B_t`` with probability ``q = b m/n``, on its own. The divisor
    is ``b``. The gradients of ``m`` steps together, not those of one, are without bias.

    ``sample`` is of one block, of ``ceil(n/m)`` records at most; ``cycle`` is ``m``. The blocks are
    public, by the numbers of the records alone.

    Formal guarantee
    ----------------
    Answers with noise of a lower triangular ``C`` with at most ``m`` diagonals are the
    ``ceil(T/m)``-fold composition of the Gaussian mechanisms on Poisson batches of a block, at the
    noise multiplier over the largest norm of a column of ``C``; fresh noise has one diagonal.

    *Proof*. Record ``i`` can take part in the steps ``s_k = i mod m + k m`` alone. If it does, it
    adds ``C_{t s_k} v_k`` to row ``t`` of ``C g``, which vanishes unless ``s_k <= t < s_k + m =
    s_{k+1}``: the rows from one of its steps to the next see no other. Take these rows as one
    answer, given all rows before and who of the others takes part when. The parameter of a step is
    a function of the rows before it, hence so is all that the others add to a row, and ``v_k`` is
    known at ``s_k``. Without the others' share, a known shift, the answer is ``B C_{. s_k} v_k +
    sigma xi`` with a coin ``B`` of probability ``q`` that nothing else depends on: a Gaussian
    mechanism of contribution ``|C_{. s_k}| |v_k|`` on a Poisson sample. Columns at the end of the
    stream are cut, and shorter. These answers compose adaptively. Under ``replace_one`` the same
    holds with ``v_k`` on one side and ``v'_k`` on the other. Where the others fill the places of a
    batch, which is as likely on either neighbour, all is given away, as in ``PoissonBatches``.

    The blocks must not move: under ``add_or_remove_one`` a record added shifts the numbers of
    others, and it is refused. So are records that are stored with multiplicities, and noise without
    a band, where no step of a record would be done with when the next one comes.

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
        """Batches of expected size ``batch_size`` of ``n`` records in ``cycle`` blocks.

        Places for all but a thousandth of ``budget.delta``, unless ``capacity`` says how many.
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
        """Return the batches with more empty places. The sampled records are the same."""
        return replace(self, sample=self.sample.padded(places))

    @property
    def block(self) -> int:
        return self.sample.block

    by_number = True  # blocks are

    def divisor(self, size: float) -> float:
        return self.sample.divisor(size)

    def draws_of(self, key: Array, records: Array | int) -> Draw:
        sample = poisson_sampler(self.sample.rate, self.sample.capacity, self.sample.most)
        all_records = jnp.minimum(records, self.n)

        def batch(t: Array) -> tuple[Array, Array]:
            turn = (t % self.cycle).astype(jnp.int32)
            of_block = (all_records - turn + self.cycle - 1) // self.cycle
            places, taken = sample(jax.random.fold_in(key, t), of_block)
            return present(jnp.where(taken, places * self.cycle + turn, -1), all_records)

        def draw(number: Array) -> tuple[Array, Array]:
            steps = number * self.block + jnp.arange(self.block, dtype=number.dtype)
            return jax.vmap(batch)(steps)

        return draw

    def composed(self, noise_multiplier: float, steps: int, relation: Relation) -> DpEvent:
        return self.banded(noise_multiplier, 1, steps, relation)

    def banded(self, noise_multiplier: float, band: int, steps: int, relation: Relation) -> DpEvent:
        """``steps`` adaptive answers with noise of a lower triangular ``C`` of so many diagonals.

        ``noise_multiplier`` is the noise's scale over the largest share of one record in a row of ``C g``
        times the largest norm of a column of ``C``.
        """
        require_places(relation, "blocks by number")
        if count("band", band) > self.cycle:
            raise ValueError(
                f"band must be at most cycle = {self.cycle} for participations that touch no "
                f"answer together, got {band}"
            )
        return self.sample.composed(noise_multiplier, -(-step_count(steps) // self.cycle), relation)

    def premises(self, relation: Relation) -> Premises:
        """The blocks, which are of so many records."""
        del relation
        blocks = f"records are in {self.cycle} blocks by their numbers"
        return Premises(n=self.n, besides=(blocks,))

    def participation(self, steps: int, relation: Relation) -> NoReturn:
        raise ValueError(
            "batches must not be sampled for noise with memory, unless it is banded by at most "
            f"cycle = {self.cycle}: no theorem covers another on cyclic Poisson batches, got "
            f"{shown(self)}"
        )

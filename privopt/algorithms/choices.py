"""What plans choose from, the choices that belong together as one, and what they ask of a loss."""

from __future__ import annotations

import math
from dataclasses import dataclass

from privopt.arguments import answering, count, member, positive_number
from privopt.mechanisms import (
    AllRecords,
    Batches,
    ClippedGradient,
    CyclicPoissonBatches,
    FixedSizeBatches,
    PoissonBatches,
    ShuffledBatches,
)
from privopt.mechanisms.batches import BATCHES
from privopt.privacy import Sampler
from privopt.spec import Budget, ProblemClass
from privopt.theory import ALL_RECORDS, Moments, batch_moments

CYCLIC_POISSON = "cyclic_poisson"
"""Of Poisson batches of blocks that take turns."""

_GAMMA = 0.01  # of automatic clipping, relative to the clip norm
_ROUND_OFF = 1e-6  # relative, of a rate of inclusion


@dataclass(frozen=True)
class Clipping:
    """How each record's gradient is clipped.

    Attributes
    ----------
    norm : float or None
        ``C``; None for the declared ``L``, at which nothing is clipped.
    kind : {"norm", "automatic"}
        ``g min(1, C/|g|)`` or ``g C/(|g| + C/100)``.
    """

    norm: float | None = None
    kind: str = "norm"

    def __post_init__(self) -> None:
        if self.norm is not None:
            positive_number("clip", self.norm)
        if self.kind not in ("norm", "automatic"):
            raise ValueError(f"clipping must be norm or automatic, got {self.kind!r}")

    def query(self, problem_class: ProblemClass) -> ClippedGradient:
        """The clipped gradient of problems of this class."""
        query = ClippedGradient.of(problem_class, self.norm)
        return query._replace(gamma=_GAMMA * query.clip) if self.kind == "automatic" else query


@dataclass(frozen=True)
class Batching:
    """Batches of which size, and how drawn.

    Attributes
    ----------
    n : int
        Number of records.
    size : float
        ``b``, the expected size.
    sampler : str or Batches
        A :class:`privopt.privacy.Sampler`, ``"cyclic_poisson"``, or a sampler of one's own.
    capacity : int or None
        Places in a Poisson batch; None for so many that records left out cost a thousandth of
        ``delta``.
    cycle : int or None
        Blocks of cyclic Poisson batches.
    """

    n: int
    size: float
    sampler: str | Batches
    capacity: int | None = None
    cycle: int | None = None

    @classmethod
    def of(
        cls,
        problem_class: ProblemClass,
        size: float | None = None,
        rate: float | None = None,
        sampler: str | Batches = "poisson",
        capacity: int | None = None,
        cycle: int | None = None,
        least: float = 0.0,
    ) -> Batching:
        """From the choices of a plan, ``rate = b/n`` in the place of ``size``.

        By default ``b = max(sqrt(n), 4 sqrt(d))``, at which neither sampling nor a small noise
        multiplier costs much, or ``least`` if that is more.

        Raises
        ------
        ValueError
            Naming the choice, its value and the rule it broke.
        """
        n, dim, names = problem_class.n, problem_class.dim, (*Sampler, CYCLIC_POISSON)
        if not isinstance(sampler, str):
            own: Batches = answering("sampler", sampler, BATCHES, names)
            given = {"batch_size": size, "rate": rate, "capacity": capacity, "cycle": cycle}
            for name, value in given.items():
                if value is not None:
                    raise ValueError(f"{name} must be left out beside a sampler, got {value!r}")
            return cls(n, float(own.divisor(float(n))), own)
        member("sampler", sampler, names)
        if rate is not None:
            if size is not None:
                raise ValueError(f"rate must be left out beside batch_size, got {rate!r}")
            if positive_number("rate", rate) > 1.0:
                raise ValueError(f"rate must be at most 1, got {rate!r}")
            size = rate * n
        if size is None:
            size = min(n, math.ceil(max(math.sqrt(n), 4.0 * math.sqrt(dim), least)))
        size = positive_number("batch_size", size)
        if sampler not in (Sampler.POISSON, CYCLIC_POISSON):
            if not size.is_integer():
                raise ValueError(f"batch_size must be whole for {sampler} batches, got {size!r}")
            if capacity is not None:
                raise ValueError(
                    f"capacity must be left out for {sampler} batches, got {capacity!r}"
                )
        if (cycle is None) == (sampler == CYCLIC_POISSON):
            rule = "given for" if cycle is None else f"left out but for {CYCLIC_POISSON}, not for"
            raise ValueError(f"cycle must be {rule} {sampler} batches, got {cycle!r}")
        places = capacity and count("capacity", capacity)
        return cls(n, size, sampler, places, cycle and count("cycle", cycle))

    def batches(self, budget: Budget, steps: int) -> Batches:
        """The sampler, with places for ``steps`` steps within ``budget``."""
        if not isinstance(self.sampler, str):
            return self.sampler
        if self.sampler == Sampler.WITHOUT_REPLACEMENT:
            return FixedSizeBatches.of(self.size, self.n)
        if self.sampler == Sampler.SHUFFLED:
            return ShuffledBatches.of(self.size, self.n)
        if self.cycle is None:
            return self.poisson(budget, steps)
        return CyclicPoissonBatches.of(
            self.size, self.n, self.cycle, budget=budget, steps=steps, capacity=self.capacity
        )

    def poisson(self, budget: Budget, steps: int) -> PoissonBatches:
        """Poisson batches, whatever the sampler."""
        return PoissonBatches.of(
            self.size, self.n, budget=budget, steps=steps, capacity=self.capacity
        )

    @property
    def moments(self) -> Moments | None:
        """As :func:`moments_of` the batches, before these are made."""
        if not isinstance(self.sampler, str):
            return moments_of(self.sampler, self.n)
        if self.cycle is not None:
            return None
        return batch_moments(self.sampler, n=self.n, batch_size=self.size)


def moments_of(batches: Batches, n: int) -> Moments | None:
    """How far a batch's gradient is from that of ``n`` records; None where it may be biased."""
    if type(batches) is AllRecords:
        return ALL_RECORDS
    match batches:
        case PoissonBatches(rate=rate, batch_size=size, most=most):
            unbiased = most >= n >= size and math.isclose(rate * n, size, rel_tol=_ROUND_OFF)
            return batch_moments(Sampler.POISSON, n=n, batch_size=size) if unbiased else None
        case FixedSizeBatches(batch_size=size, n=known) if known == n:
            return batch_moments(Sampler.WITHOUT_REPLACEMENT, n=n, batch_size=size)
    return None


def require_delta(algorithm: str, budget: Budget) -> None:
    """For methods with Gaussian noise: ValueError at ``delta = 0``."""
    if budget.delta == 0.0:
        raise ValueError(
            f"delta must be positive for the Gaussian noise of {algorithm}, got {budget.delta!r}"
        )


def require_convex_lipschitz(algorithm: str, problem_class: ProblemClass) -> None:
    """For methods whose very guarantee rests on convexity and ``L``: ValueError without them."""
    if not problem_class.convex:
        raise ValueError(
            f"convex must be True for {algorithm}, got False: its guarantee rests on convexity, "
            "while those of gradient methods (dp_gd, dp_sgd) hold for any loss"
        )
    if math.isinf(problem_class.lipschitz):
        raise ValueError(
            f"lipschitz must be declared for {algorithm}, got inf: its guarantee rests on it, "
            "and no clip norm stands in for it"
        )

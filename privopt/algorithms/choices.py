"""Parse the arguments of planning functions: clipping, batching, optimiser and output rule."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import optax

from privopt.arguments import answering, count, member, positive_number, shown
from privopt.convex import (
    Average,
    ConstraintSet,
    L1L2Ball,
    Output,
    RandomIterate,
    StepSizes,
    Update,
    average_after_step,
    checked_output,
    last_iterate,
    polynomial_average,
    projected_leader,
)
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
from privopt.spec import Budget, Norm, ProblemClass
from privopt.theory import ALL_RECORDS, Moments, OutputRule, StepRule, batch_moments

Optimiser: TypeAlias = (
    Update | optax.GradientTransformation | Callable[..., optax.GradientTransformation]
)

MODES = ("tight", "paper")
"""Least noise of our accountant, or the published noise."""

CYCLIC_POISSON = "cyclic_poisson"
"""Sampler with Poisson batches of blocks in turn."""

_GAMMA = 0.01  # of automatic clipping, relative to the clip norm
_MAX_RECORDED = 10_000
_ROUND_OFF = 1e-6  # relative, of a rate of inclusion
OUTPUTS: dict[OutputRule, Output] = {
    OutputRule.AVERAGE: Average(),
    OutputRule.AVERAGE_AFTER_STEP: average_after_step(),
    OutputRule.WEIGHTED_AVERAGE: polynomial_average(),
    OutputRule.RANDOM_ITERATE: RandomIterate(),
    OutputRule.LAST: last_iterate(),
}


class Static(NamedTuple):
    """Shape of a run."""

    dim: int


def clipped_gradient(
    problem_class: ProblemClass,
    clip: float | None,
    kind: str = "norm",
    norm: Norm | str = Norm.L2,
) -> ClippedGradient:
    """Return the query for gradients clipped to ``C``; for None, to the declared ``L``.

    The kind ``"norm"`` is ``g min(1, C/|g|)``; ``"automatic"`` is ``g C/(|g| + C/100)``.
    """
    norm = Norm.named("clip_norm", norm)
    if clip is not None:
        positive_number("clip", clip)
    if kind not in ("norm", "automatic"):
        raise ValueError(f"clipping must be norm or automatic, got {shown(kind)}")
    query = ClippedGradient.of(problem_class, clip, norm=norm)
    return query._replace(gamma=_GAMMA * query.clip) if kind == "automatic" else query


def gradient_set(
    post: ConstraintSet | str | None, problem_class: ProblemClass, query: ClippedGradient
) -> ConstraintSet | None:
    """Return the set onto which private gradients are projected, or None.

    ``"sparse"`` is the set ``{|v|_1 <= L sqrt(s), |v|_2 <= L}`` for declared ``sparsity``. It
    contains all means of such gradients.
    """
    if post is None:
        return None
    if post == "sparse":
        if problem_class.sparsity is None:
            raise ValueError("sparsity must be declared for post='sparse', got None")
        if query.norm is not Norm.L2:
            raise ValueError(f"clip_norm must be l2 for post='sparse', got {query.norm}")
        return L1L2Ball.of(query.clip, problem_class.sparsity)
    if isinstance(post, type) or not callable(getattr(post, "project", None)):
        raise ValueError(f"post must be 'sparse', a constraint set or None, got {shown(post)}")
    assert not isinstance(post, str)
    return post


@dataclass(frozen=True)
class Batching:
    """Batches of expected ``size`` of ``n`` records; ``sampler`` is a name or an object.

    Poisson batches have ``capacity`` places. By default the records beyond the capacity cost a
    thousandth of ``delta``. Cyclic batches have ``cycle`` blocks.
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
        """Construct from the arguments of a plan; ``rate = b/n`` replaces ``size``.

        The default size is ``b = max(sqrt(n), 4 sqrt(d))``, for which the cost of sampling and of a
        small noise multiplier is small, or ``least`` if larger.
        """
        n, dim, names = problem_class.n, problem_class.dim, (*Sampler, CYCLIC_POISSON)
        if not isinstance(sampler, str):
            own: Batches = answering("sampler", sampler, BATCHES, names)
            options = {"batch_size": size, "rate": rate, "capacity": capacity, "cycle": cycle}
            for name, value in options.items():
                if value is not None:
                    raise ValueError(f"{name} must be left out with a sampler, got {shown(value)}")
            return cls(n, float(own.divisor(float(n))), own)
        member("sampler", sampler, names)
        if rate is not None:
            if size is not None:
                raise ValueError(f"rate must be left out with batch_size, got {shown(rate)}")
            if positive_number("rate", rate) > 1.0:
                raise ValueError(f"rate must be at most 1, got {shown(rate)}")
            size = rate * n
        if size is None:
            size = min(n, math.ceil(max(math.sqrt(n), 4.0 * math.sqrt(dim), least)))
        size = positive_number("batch_size", size)
        if sampler not in (Sampler.POISSON, CYCLIC_POISSON):
            if not size.is_integer():
                raise ValueError(
                    f"batch_size must be whole for {sampler} batches, got {shown(size)}"
                )
            if capacity is not None:
                raise ValueError(
                    f"capacity must be left out for {sampler} batches, got {shown(capacity)}"
                )
        if (cycle is None) == (sampler == CYCLIC_POISSON):
            rule = "given for" if cycle is None else f"left out but for {CYCLIC_POISSON}, not for"
            raise ValueError(f"cycle must be {rule} {sampler} batches, got {shown(cycle)}")
        places = capacity and count("capacity", capacity)
        return cls(n, size, sampler, places, cycle and count("cycle", cycle))

    def batches(self, budget: Budget, steps: int) -> Batches:
        """Return the sampler, with enough places for ``steps`` steps within ``budget``."""
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
        """Return Poisson batches of this size, for any sampler."""
        return PoissonBatches.of(
            self.size, self.n, budget=budget, steps=steps, capacity=self.capacity
        )

    @property
    def moments(self) -> Moments | None:
        """Moments of the batches, as :func:`moments_of`, without a sampler object."""
        if not isinstance(self.sampler, str):
            return moments_of(self.sampler, self.n)
        if self.cycle is not None:
            return None
        return batch_moments(self.sampler, n=self.n, batch_size=self.size)


def moments_of(batches: Batches, n: int) -> Moments | None:
    """Return the moments of a batch gradient, or None if it may be biased for ``n`` records."""
    if type(batches) is AllRecords:
        return ALL_RECORDS
    match batches:
        case PoissonBatches(rate=rate, batch_size=size, most=most):
            unbiased = most >= n >= size and math.isclose(rate * n, size, rel_tol=_ROUND_OFF)
            return batch_moments(Sampler.POISSON, n=n, batch_size=size) if unbiased else None
        case FixedSizeBatches(batch_size=size, n=total) if total == n:
            return batch_moments(Sampler.WITHOUT_REPLACEMENT, n=n, batch_size=size)
    return None


def require_delta(algorithm: str, budget: Budget) -> None:
    """Check that ``delta`` is positive, as Gaussian noise requires."""
    if budget.delta == 0.0:
        raise ValueError(
            f"delta must be positive for the Gaussian noise of {algorithm}, got "
            f"{shown(budget.delta)}"
        )


def step_rule(sizes: StepSizes | None) -> StepRule:
    """Return step sizes as a rule of the theorems: 0 for an optimiser that has its own.

    No theorem covers such an optimiser.
    """
    if sizes is None:
        return StepRule(0.0)
    return StepRule(*map(float, (sizes.scale, sizes.power, sizes.offset, sizes.decay)))


def output_rule(output: Output) -> OutputRule | None:
    """Return the name of an output in the theorems, or None."""
    return next((name for name, rule in OUTPUTS.items() if rule == output), None)


def chosen_output(output: Output | str | None) -> Output | None:
    """Return the output rule for an object or a name in :class:`privopt.theory.OutputRule`."""
    if isinstance(output, str):
        return OUTPUTS[OutputRule.named("output", output)]
    return None if output is None else checked_output(output)


PLAIN = Update.of(optax.sgd)
"""Plain descent."""


def checked_update(update: Optimiser | None) -> Update:
    """Return the update of an optimiser that descends, or plain descent for None."""
    if update is None:
        return PLAIN
    checked = update if isinstance(update, Update) else Update.of(update)
    if not checked.descends:
        raise ValueError(
            f"update must move against the gradient, got {checked}, which moves along it: the "
            "factory must contain the minus sign, as optax.scale_by_learning_rate does"
        )
    return checked


def is_plain(update: Update) -> bool:
    """Return True for ``w - eta g``, with step sizes of the run."""
    return update == PLAIN


def needs_mapping(update: Update) -> bool:
    """Return True unless the update is exact for gradients on a set: descent, and the leader."""
    return not is_plain(update) and update.origin is not projected_leader


def recorded(record: int | str, steps: int) -> tuple[int, bool]:
    """Return the number of recorded points of the path, and True to record every step."""
    if record == "all":
        if steps > _MAX_RECORDED:
            raise ValueError(
                f"record must be a number for more than {_MAX_RECORDED} steps, got 'all' for "
                f"{steps}"
            )
        return steps, True
    if isinstance(record, bool) or not isinstance(record, int) or not 0 <= record <= _MAX_RECORDED:
        raise ValueError(
            f"record must be 'all' or an integer from 0 to {_MAX_RECORDED}, got {shown(record)}"
        )
    return record, False

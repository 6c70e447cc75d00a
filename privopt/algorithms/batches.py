"""Private batches: the choices of stochastic methods checked, their oracle calibrated."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from privopt.algorithms.first_order import Params, Static, descent, descent_bound
from privopt.arguments import count, positive_number
from privopt.core import Algorithm, Plan
from privopt.mechanisms import (
    MICROBATCH,
    ClippedGradient,
    FixedSizeGradient,
    PoissonGradient,
    ShuffledGradient,
)
from privopt.privacy import Sampler, gaussian_mu
from privopt.spec import Budget, ProblemClass, Relation
from privopt.theory import (
    Rate,
    approximate_dp_advantage,
    erm_lower_bound,
    noise_limited_steps,
    sampled_second_moment,
)

__all__ = ["Batches", "default_batch_size"]

_GAMMA = 0.01  # of automatic clipping, relative to the clip norm


@dataclass(frozen=True, kw_only=True)
class Batches:
    """Batches of gradients that ``steps`` questions may see within ``budget``.

    Attributes
    ----------
    problem_class : ProblemClass
    budget : Budget
    mechanism : gradient oracle
        Calibrated.
    steps : int
    batch_size : float
    sampler : Sampler
    clipped : bool
        Whether gradients may be changed by clipping.
    """

    problem_class: ProblemClass
    budget: Budget
    mechanism: PoissonGradient | FixedSizeGradient | ShuffledGradient
    steps: int
    batch_size: float
    sampler: Sampler
    clipped: bool

    @classmethod
    def calibrated(
        cls,
        problem_class: ProblemClass,
        budget: Budget,
        *,
        steps: int | None = None,
        batch_size: float | None = None,
        rate: float | None = None,
        clip: float | None = None,
        clipping: str = "norm",
        sampler: str = "poisson",
        capacity: int | None = None,
        microbatch: int = MICROBATCH,
    ) -> Batches:
        """From choices, as ``dp_sgd`` describes them.

        Raises
        ------
        ValueError
            Naming the choice, its value and the rule it broke.
        """
        n, dim = problem_class.n, problem_class.dim
        if budget.delta == 0.0:
            raise ValueError("delta must be positive for Gaussian noise, got 0.0")
        if clipping not in ("norm", "automatic"):
            raise ValueError(f"clipping must be norm or automatic, got {clipping!r}")
        if sampler not in list(Sampler):
            raise ValueError(f"sampler must be one of {', '.join(Sampler)}, got {sampler!r}")
        if rate is not None:
            if batch_size is not None:
                raise ValueError(f"rate must be left out beside batch_size, got {rate!r}")
            rate = positive_number("rate", rate)
            if rate > 1.0:
                raise ValueError(f"rate must be at most 1, got {rate!r}")
            batch_size = rate * n
        if batch_size is None:
            batch_size = default_batch_size(problem_class)
        batch_size = positive_number("batch_size", batch_size)
        if sampler != Sampler.POISSON and not batch_size.is_integer():
            raise ValueError(f"batch_size must be whole for {sampler} batches, got {batch_size!r}")
        clip = None if clip is None else positive_number("clip", clip)
        query = ClippedGradient.of(problem_class, clip)
        clipped = clipping != "norm" or query.clip < problem_class.lipschitz * (1.0 - 1e-6)
        if clipping == "automatic":
            query = query._replace(gamma=_GAMMA * query.clip)
        if steps is None:
            one_step_noise = query.sensitivity(budget.relation)
            one_step_noise /= gaussian_mu(budget.epsilon, budget.delta)
            gradient = query.clip * math.sqrt(1.0 + 1.0 / batch_size)
            steps = noise_limited_steps(math.sqrt(dim) * one_step_noise / gradient)
        steps = count("steps", steps)
        mechanism = _oracle(Sampler(sampler), query, budget, steps, batch_size, n, capacity)
        microbatch = count("microbatch", microbatch)
        return cls(
            problem_class=problem_class,
            budget=budget,
            mechanism=replace(mechanism, microbatch=microbatch, steps=steps),
            steps=steps,
            batch_size=batch_size,
            sampler=Sampler(sampler),
            clipped=clipped,
        )

    def plan(self, algorithm: Algorithm, **choices: Any) -> Plan:
        """The plan of a method on these batches; ``choices`` are those of ``descent``."""
        problem_class, budget, scale = self.problem_class, self.budget, self.mechanism.scale
        sampling = sampled_second_moment(self.batch_size / problem_class.n, self.batch_size)
        method = descent(
            problem_class, steps=self.steps, noise_scale=scale, sampling=sampling, **choices
        )
        upper, theorem, source = descent_bound(
            problem_class, method, noise_scale=scale, sampling=sampling, clipped=self.clipped
        )
        if self.sampler is Sampler.SHUFFLED:
            upper, theorem = math.inf, "none: gradients of shuffled passes are biased"
        advantage, delta = approximate_dp_advantage(budget)
        lower = erm_lower_bound(problem_class, advantage=advantage, delta=delta)
        curved = problem_class.strong_convexity > 0.0
        power = 2.0 if curved else 1.0
        return Plan(
            algorithm=algorithm,
            problem_class=problem_class,
            budget=budget,
            params=Params(self.mechanism, method),
            static=Static(problem_class.dim),
            assumptions=self._assumptions(),
            rate=Rate(
                theorem=theorem,
                source=source,
                upper=upper,
                lower=min(upper, lower),
                exponents={"n": -power, "dim": 0.5 * power, "epsilon": -power},
                regime="noise leading, sqrt(d) sigma >= L, at fixed rate, steps and multiplier",
                tight_on="squared_distance" if curved else "linear",
            ),
            most_records=problem_class.n,
        )

    def _assumptions(self) -> tuple[str, ...]:
        assumed = []
        if self.budget.relation is Relation.ADD_OR_REMOVE_ONE:
            assumed.append(f"at most {self.problem_class.n} records")
        if self.sampler is Sampler.SHUFFLED:
            assumed.append("no amplification by shuffling is claimed")
        return tuple(assumed)


def default_batch_size(problem_class: ProblemClass) -> int:
    """``max(sqrt(n), 4 sqrt(d))``: neither sampling nor a small noise multiplier costs much."""
    least = math.ceil(max(math.sqrt(problem_class.n), 4.0 * math.sqrt(problem_class.dim)))
    return min(problem_class.n, least)


def _oracle(
    sampler: Sampler,
    query: ClippedGradient,
    budget: Budget,
    steps: int,
    batch_size: float,
    n: int,
    capacity: int | None,
) -> PoissonGradient | FixedSizeGradient | ShuffledGradient:
    if sampler is Sampler.POISSON:
        if capacity is not None:
            capacity = count("capacity", capacity)
        return PoissonGradient.calibrated(
            query, budget, steps, batch_size=batch_size, n=n, capacity=capacity
        )
    if capacity is not None:
        raise ValueError(f"capacity must be left out for {sampler} batches, got {capacity!r}")
    kind = ShuffledGradient if sampler is Sampler.SHUFFLED else FixedSizeGradient
    return kind.calibrated(query, budget, steps, batch_size=batch_size, n=n)

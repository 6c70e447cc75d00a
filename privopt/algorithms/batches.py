"""Private batches: the choices of stochastic methods checked, their oracle calibrated."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from privopt.algorithms.first_order import Params, Static, descent, is_plain, output_rule, step_rule
from privopt.arguments import count, positive_number
from privopt.core import Algorithm, Plan
from privopt.mechanisms import (
    MICROBATCH,
    ClippedGradient,
    FixedSizeGradient,
    PoissonGradient,
    ShuffledGradient,
)
from privopt.privacy import Guarantee, Sampler, gaussian_mu
from privopt.spec import Budget, ProblemClass, Relation
from privopt.theory import (
    ALL_RECORDS,
    DefaultSteps,
    Powers,
    batch_moments,
    budget_lower_bound,
    descent_rate,
    descent_steps,
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
    steps_powers : Powers
        How they move with the axes.
    batch_size : float
    sampler : Sampler
    clipped : bool
        Whether gradients may be changed by clipping.
    """

    problem_class: ProblemClass
    budget: Budget
    mechanism: PoissonGradient | FixedSizeGradient | ShuffledGradient
    steps: int
    steps_powers: Powers
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
        plain: bool = True,
    ) -> Batches:
        """From choices, as ``dp_sgd`` describes them; ``plain`` says that the update is descent.

        Raises
        ------
        ValueError
            Naming the choice, its value and the rule it broke.
        """
        n = problem_class.n
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
        moments = batch_moments(sampler, n=n, batch_size=batch_size)
        default = DefaultSteps(1)
        if steps is None:
            mu = gaussian_mu(budget.epsilon, budget.delta)
            default = descent_steps(
                problem_class,
                one_step_noise=query.sensitivity(budget.relation) / mu,
                clip=query.clip,
                moments=moments or ALL_RECORDS,
                plain=plain and moments is not None,
            )
            steps = default.steps
        steps = count("steps", steps)
        mechanism = _oracle(Sampler(sampler), query, budget, steps, batch_size, n, capacity)
        microbatch = count("microbatch", microbatch)
        return cls(
            problem_class=problem_class,
            budget=budget,
            mechanism=replace(mechanism, microbatch=microbatch),
            steps=steps,
            steps_powers=default.powers,
            batch_size=batch_size,
            sampler=Sampler(sampler),
            clipped=clipped,
        )

    def plan(self, algorithm: Algorithm, **choices: Any) -> Plan:
        """The plan of a method on these batches; ``choices`` are those of ``descent``."""
        problem_class, budget, scale = self.problem_class, self.budget, self.mechanism.scale
        moments = batch_moments(self.sampler, n=problem_class.n, batch_size=self.batch_size)
        method = descent(
            problem_class, steps=self.steps, noise_std=scale, moments=moments, **choices
        )
        return Plan(
            algorithm=algorithm,
            problem_class=problem_class,
            budget=budget,
            params=Params(self.mechanism, method),
            static=Static(problem_class.dim),
            guarantee=Guarantee(
                self.mechanism.event(budget.relation, self.steps),
                budget.relation,
                self._assumptions(),
            ),
            rate=descent_rate(
                problem_class,
                steps=self.steps,
                steps_powers=self.steps_powers,
                step_rule=step_rule(method.step_sizes),
                output=output_rule(method.output),
                noise_std=scale,
                moments=moments,
                clipped=self.clipped,
                plain=is_plain(method.update),
                lower=budget_lower_bound(problem_class, budget),
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

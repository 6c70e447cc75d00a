"""First-order methods as values: batches, clipping, noise, update, step sizes and output.

DP-GD, DP-SGD and NoisyAdam are :class:`Descent` with other fields. Step ``t`` of all of them is::

    B_t     ~ batches                                          all records, or a random batch
    g_t     = post((1/b) sum_{i in B_t} clip_C(grad l(w_t; x_i)) + sigma z_t)
    w_{t+1} = Proj(w_t + U_t(g_t))                             U_t(g) = -eta_t g by default

:class:`privopt.mechanisms.PrivateGradient` computes ``g_t`` and owns the privacy event.
:class:`privopt.convex.FirstOrder` computes ``w_{t+1}``, which is post-processing, and the output.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias

import jax.numpy as jnp
import optax
from jax import Array
from jaxtyping import Bool, Int, Key

from privopt.algorithms.descent_rates import (
    OUTPUTS,
    PLAIN,
    chosen_output,
    default_steps,
    descent_rate_of,
    is_plain,
    least_batch,
    moments_of,
    needs_mapping,
    output_rule,
    projected_numbers,
    step_rule,
    unmet_projection_assumption,
)
from privopt.algorithms.shared import Static, require_delta
from privopt.arguments import answering, count, instance, member, positive_number, shown
from privopt.convex import (
    ConstraintSet,
    EmpiricalRisk,
    FirstOrder,
    Iterates,
    L1L2Ball,
    Oracle,
    Output,
    StepSizes,
    Update,
    last_iterate,
)
from privopt.core import Algorithm, Execution, Plan, Run, Steps, planner, whole
from privopt.mechanisms import (
    AllRecords,
    Batches,
    ClippedGradient,
    CyclicPoissonBatches,
    FixedSizeBatches,
    Noise,
    PoissonBatches,
    PrivateGradient,
    ShuffledBatches,
    VarianceReducedGradient,
    noise_of,
)
from privopt.mechanisms.batches import BATCHES
from privopt.privacy import Sampler
from privopt.release import Pytree
from privopt.spec import Budget, Norm, ProblemClass
from privopt.theory import ALL_RECORDS, BatchMoments, DefaultSteps, batch_moments, descent_numbers

Optimiser: TypeAlias = (
    Update | optax.GradientTransformation | Callable[..., optax.GradientTransformation]
)

CYCLIC_POISSON = "cyclic_poisson"
"""Sampler with Poisson batches of blocks in turn."""

_GAMMA = 0.01  # of automatic clipping, relative to the clip norm
_MAX_RECORDED = 10_000


@dataclass(frozen=True)
class Batching:
    """Arguments of a batch sampler, before ``n`` and the number of steps are known.

    Parameters
    ----------
    size : float, optional
        Expected batch size ``b``. Default: ``max(sqrt(n), 4 sqrt(d))``, for which the cost of
        sampling and of a small noise multiplier is small.
    rate : float, optional
        ``b/n``; replaces ``size``.
    sampler : {"poisson", "without_replacement", "shuffled", "cyclic_poisson"} or Batches
    capacity : int, optional
        Number of places in a Poisson batch. By default the records beyond the capacity cost a
        thousandth of ``delta``.
    cycle : int, optional
        Number of blocks of cyclic Poisson batches.
    """

    size: float | None = None
    rate: float | None = None
    sampler: str | Batches = "poisson"
    capacity: int | None = None
    cycle: int | None = None

    def sized(self, problem_class: ProblemClass, least: float = 0.0) -> Batching:
        """Check all arguments and return a copy with a size; the default is ``least`` or more."""
        n, dim, names = problem_class.n, problem_class.dim, (*Sampler, CYCLIC_POISSON)
        sampler, size = self.sampler, self.size
        if not isinstance(sampler, str):
            own: Batches = answering("sampler", sampler, BATCHES, names)
            options = {
                "batch_size": size, "rate": self.rate,
                "capacity": self.capacity, "cycle": self.cycle,
            }  # fmt: skip
            for name, value in options.items():
                if value is not None:
                    raise ValueError(f"{name} must be left out with a sampler, got {shown(value)}")
            return Batching(float(own.divisor(float(n))), sampler=own)
        member("sampler", sampler, names)
        if self.rate is not None:
            if size is not None:
                raise ValueError(f"rate must be left out with batch_size, got {shown(self.rate)}")
            if positive_number("rate", self.rate) > 1.0:
                raise ValueError(f"rate must be at most 1, got {shown(self.rate)}")
            size = self.rate * n
        if size is None:
            size = min(n, math.ceil(max(math.sqrt(n), 4.0 * math.sqrt(dim), least)))
        size = positive_number("batch_size", size)
        if sampler not in (Sampler.POISSON, CYCLIC_POISSON):
            if not size.is_integer():
                raise ValueError(
                    f"batch_size must be whole for {sampler} batches, got {shown(size)}"
                )
            if self.capacity is not None:
                raise ValueError(
                    f"capacity must be left out for {sampler} batches, got {shown(self.capacity)}"
                )
        if (self.cycle is None) == (sampler == CYCLIC_POISSON):
            rule = "given" if self.cycle is None else f"left out but for {CYCLIC_POISSON}, not"
            raise ValueError(f"cycle must be {rule} for {sampler} batches, got {shown(self.cycle)}")
        capacity, cycle = self.capacity, self.cycle
        return replace(
            self,
            size=size,
            rate=None,
            capacity=capacity and count("capacity", capacity),
            cycle=cycle and count("cycle", cycle),
        )

    def batches(self, n: int, budget: Budget, steps: int) -> Batches:
        """Return the sampler of a sized value, with places for ``steps`` steps."""
        assert self.size is not None
        places: Any = {"budget": budget, "steps": steps, "capacity": self.capacity}
        match self.sampler:
            case Sampler.POISSON:
                return PoissonBatches.of(self.size, n, **places)
            case Sampler.WITHOUT_REPLACEMENT:
                return FixedSizeBatches.of(self.size, n)
            case Sampler.SHUFFLED:
                return ShuffledBatches.of(self.size, n)
            case str():
                assert self.cycle is not None
                return CyclicPoissonBatches.of(self.size, n, self.cycle, **places)
        return self.sampler

    def moments(self, n: int) -> BatchMoments | None:
        """Return the moments of a sized value, before its sampler is constructed."""
        if not isinstance(self.sampler, str):
            return moments_of(self.sampler, n)
        if self.cycle is not None:
            return None
        assert self.size is not None
        return batch_moments(self.sampler, n=n, batch_size=self.size)


class DescentParams(NamedTuple):
    """A private gradient and the method that uses it."""

    mechanism: PrivateGradient | VarianceReducedGradient
    descent: FirstOrder


@dataclass(frozen=True, kw_only=True)
class Descent:
    """First-order method on private gradients, before problem class and budget are known.

    The defaults of all fields are those of theory for the problem class and the budget; see
    :func:`privopt.dp_sgd`, which has the same arguments. ``batches`` is a :class:`Batching` or a
    sampler object.

    Examples
    --------
    >>> from privopt.spec import ProblemClass
    >>> problem_class = ProblemClass(n=1000, dim=5, lipschitz=1.0, radius=1.0)
    >>> budget = Budget(epsilon=1.0, delta=1e-6, relation="replace_one")
    >>> method = Descent(steps=100, batches=Batching(50), update=optax.adam(0.1))
    >>> plan = method.calibrate(problem_class, budget)
    >>> plan.algorithm.name, plan.params.mechanism.steps
    ('descent', 100)
    """

    steps: int | None = None
    batches: Batching | Batches = field(default_factory=AllRecords)
    clip_norm: float | None = None
    norm: Norm | str = Norm.L2
    clipping: str = "norm"
    noise: Noise | str | None = None
    post: ConstraintSet | str | None = None
    update: Optimiser | None = None
    step_size: float | StepSizes | None = None
    output: Output | str | None = None
    record: int | str = 0

    def calibrate(
        self, problem_class: ProblemClass, budget: Budget, algorithm: Algorithm | None = None
    ) -> Plan:
        """Return the plan with the least noise within ``budget``.

        ``algorithm`` names the plan and bounds its risk. Default: the algorithm ``descent``, with
        the rate of DP-SGD.
        """
        instance("problem_class", problem_class, ProblemClass)
        instance("budget", budget, Budget)
        algorithm = algorithm or DESCENT
        require_delta(algorithm.name, budget)
        update = checked_update(self.update)
        query = clipped_gradient(problem_class, self.clip_norm, self.clipping, self.norm)
        post = gradient_set(self.post, problem_class, query)
        batching = self.batches
        if not isinstance(batching, Batching):
            batching = Batching(sampler=batching)
        least = least_batch(problem_class, budget, query, self.steps, batching.sampler)
        batching = batching.sized(problem_class, least)
        # The step sizes of other updates do not depend on the curvature.
        facts = problem_class if is_plain(update) else replace(problem_class, strong_convexity=0.0)
        projected = self.post == "sparse" and isinstance(batching.sampler, AllRecords)
        default = default_steps(
            facts, budget, query, self.steps,
            moments=batching.moments(problem_class.n), output=self.output,
            projected=projected
            and not unmet_projection_assumption(problem_class, self.noise, AllRecords()),
        )  # fmt: skip
        mechanism = PrivateGradient.calibrated(
            query,
            budget,
            default.steps,
            batching.batches(problem_class.n, budget, default.steps),
            noise_of(self.noise, default.steps),
            post,
        )
        return self.plan(algorithm, problem_class, budget, mechanism, default)

    def plan(
        self,
        algorithm: Algorithm,
        problem_class: ProblemClass,
        budget: Budget,
        mechanism: PrivateGradient | VarianceReducedGradient,
        declared: object = None,
    ) -> Plan:
        """Return the plan of this method on a calibrated ``mechanism``.

        Step sizes and output of plain descent are those of :func:`privopt.theory.descent_numbers`,
        or of :func:`projected_numbers` if gradients are projected onto the sparse set. Other
        updates return the last iterate and use steps ``R/sqrt(d T)`` in linear decay. If every
        coordinate changes by one step size per step, the iterate moves about ``R/sqrt(3)`` in
        total. No theorem covers these updates. An optimiser with its own step sizes needs none.
        """
        steps, update = int(mechanism.steps), checked_update(self.update)
        step_size, output = self.step_size, self.output
        if update.has_step_sizes and step_size is not None:
            raise ValueError(
                "step_size must be left out with update, an optimiser with its own step sizes, got "
                f"{shown(step_size)}: give a factory to set it, such as "
                "update=Update.of(optax.adam)"
            )
        if self.post == "sparse" and step_size is None and output is None and is_plain(update):
            assert isinstance(mechanism, PrivateGradient)
            if not unmet_projection_assumption(problem_class, mechanism.noise, mechanism.batches):
                step_size, output = projected_numbers(problem_class, mechanism)
        if step_size is not None and not isinstance(step_size, StepSizes):
            step_size = StepSizes.constant(positive_number("step_size", step_size))
        output = chosen_output(output)
        if is_plain(update):
            numbers = descent_numbers(
                problem_class,
                steps=steps,
                noise_std=mechanism.scale,
                moments=moments_of(mechanism.batches, problem_class.n) or ALL_RECORDS,
                step_rule=None if step_size is None else step_rule(step_size),
                output=None if output is None else output_rule(output),
            )
            step_size = step_size or StepSizes(*numbers.step_rule)
            output = output or OUTPUTS[numbers.output]
        elif step_size is None and not update.has_step_sizes:
            if math.isinf(problem_class.radius):
                raise ValueError("step_size must be given where radius is infinite, got None")
            per_coordinate = problem_class.radius / math.sqrt(problem_class.dim * steps)
            step_size = StepSizes.linear_decay(per_coordinate)
        method = FirstOrder(
            step_size,
            update,
            output or last_iterate(),
            *recorded(self.record, steps),
            needs_mapping(update),
        )
        params, static = DescentParams(mechanism, method), Static(problem_class.dim)
        return Plan(algorithm, problem_class, budget, params, static, declared)


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


def clipped_gradient(
    problem_class: ProblemClass,
    clip_norm: float | None,
    kind: str = "norm",
    norm: Norm | str = Norm.L2,
) -> ClippedGradient:
    """Return the query for gradients clipped to ``C``; for None, to the declared ``L``.

    The kind ``"norm"`` is ``g min(1, C/|g|)``; ``"automatic"`` is ``g C/(|g| + C/100)``.
    """
    norm = Norm.named("norm", norm)
    if clip_norm is not None:
        positive_number("clip_norm", clip_norm)
    if kind not in ("norm", "automatic"):
        raise ValueError(f"clipping must be norm or automatic, got {shown(kind)}")
    query = ClippedGradient.of(problem_class, clip_norm, norm=norm)
    return query._replace(gamma=_GAMMA * query.clip_norm) if kind == "automatic" else query


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
            raise ValueError(f"norm must be l2 for post='sparse', got {query.norm}")
        return L1L2Ball.of(query.clip_norm, problem_class.sparsity)
    if isinstance(post, type) or not callable(getattr(post, "project", None)):
        raise ValueError(f"post must be 'sparse', a constraint set or None, got {shown(post)}")
    assert not isinstance(post, str)
    return post


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


class DescentSecret(NamedTuple):
    """The last iterate, which the guarantee also covers, and the result of the observer."""

    last: Array
    observed: Pytree


def steps(
    static: Static,
    params: DescentParams,
    objective: EmpiricalRisk,
    key: Key[Array, ""],
    execution: Execution,
) -> Steps:
    """Return the steps of the method on the device, from the problem's start."""
    assert isinstance(params.mechanism, PrivateGradient)
    oracle = params.mechanism.oracle(objective, key, execution.microbatch)
    return steps_of(params.descent, oracle, static, objective, key, execution)


def steps_of(
    method: FirstOrder,
    oracle: Oracle,
    static: Static,
    objective: EmpiricalRisk,
    key: Key[Array, ""],
    execution: Execution,
) -> Steps:
    """Return the steps of a method with an oracle."""
    start, observer = objective.start(static.dim), execution.observer
    descent = method.of(oracle, objective.constraint, start, key, observer, objective)
    return Steps(
        descent.steps, descent.init, descent.until, lambda state: run_of(descent.ends(state))
    )


def run_of(iterates: Iterates) -> Run:
    """Split the result of a method into release, secret and path."""
    return Run(iterates.output, DescentSecret(iterates.last, iterates.observed), iterates.path)


def rows(
    static: Static,
    params: DescentParams,
    key: Key[Array, ""],
    t: Int[Array, ""],
    records: Int[Array, ""] | int,
) -> tuple[Int[Array, " places"], Bool[Array, " places"]]:
    """Return the indices and the mask of the records in batch ``t``."""
    del static
    assert isinstance(params.mechanism, PrivateGradient)
    batches = params.mechanism.batches
    if batches.block == 0:
        if not isinstance(records, int):
            raise ValueError("counts must be None for the rows of all records, got multiplicities")
        return jnp.arange(records), jnp.ones(records, bool)
    return params.mechanism.batch_of(key, records)(t)


def step_count(static: Static, params: DescentParams) -> int:
    """Return ``T``."""
    del static
    return int(params.mechanism.steps)


IN_STEPS: dict[str, Any] = {
    "mechanism": PrivateGradient,
    "run": whole(steps),
    "steps": steps,
    "step_count": step_count,
    "rows": rows,
    "rate": descent_rate_of,
    "declares": DefaultSteps,
    "public_terms": True,
}
"""Arguments of :class:`privopt.core.Algorithm` shared by all first-order algorithms."""


@planner
def descent(problem_class: ProblemClass, budget: Budget, *, method: Descent | None = None) -> Plan:
    """Return the plan of a :class:`Descent`; default: DP-GD."""
    return (method or Descent()).calibrate(problem_class, budget)


DESCENT = Algorithm(
    name="descent",
    summary="first-order method on private gradients",
    plan=descent,
    **IN_STEPS,
    gathers=True,
)

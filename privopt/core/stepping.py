"""Runs one step at a time, for checkpoints and for records that are read when needed."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike
from jaxtyping import Bool, Int, Int32, Key, UInt32
from numpy.typing import NDArray

from privopt.arguments import described, instance, shown
from privopt.convex import BatchRisk, EmpiricalRisk, pytree_dataclass
from privopt.core.parameters import Parameters, device_numbers, plan_digest
from privopt.core.plan import Algorithm, Plan
from privopt.core.replicates import cast_back, run_arguments
from privopt.core.running import (
    RunnableProblem,
    check_problem,
    check_stream,
    in_shape,
    precision,
    precision_dtype,
)
from privopt.core.runs import Execution, Run, Source, Steps
from privopt.random import as_key
from privopt.records import prepare
from privopt.release import Pytree
from privopt.spec import ProblemClass


@pytree_dataclass
@dataclass(frozen=True, repr=False)
class RunState:
    """State of a run between two steps: a pytree of arrays, which can be saved.

    Keep it as secret as the key that it contains: the noise can be removed with the state and the
    releases.

    Attributes
    ----------
    words : Array
        ``jax.random.key_data`` of the key of the run.
    digest : Array
        Digest of the plan and the stream of the run. A stepper of another plan refuses the state.
    inner : pytree
        State of the algorithm, with the number of steps ``t``.
    """

    words: UInt32[Array, " 2"]
    digest: NDArray[np.uint32] | Array
    inner: Any

    # Largest possible t, if a stepper constructed the state. It is no part of the pytree. Without
    # it, every step would wait for the number of steps on the device.
    _most_steps: ClassVar[int | None] = None

    def _after(self, most: int | Array) -> RunState:
        """Record that at most ``most + 1`` steps are taken, outside of compiled functions."""
        if not isinstance(most, jax.core.Tracer):
            object.__setattr__(self, "_most_steps", int(most) + 1)
        return self

    def __repr__(self) -> str:
        return "<RunState: secret>"  # neither the key nor an iterate before its noise

    @property
    def t(self) -> Int[Array, ""]:
        """Number of steps taken."""
        return self.inner.t

    @property
    def key(self) -> Key[Array, ""]:
        """Key of the run."""
        return _key(self.words)


@dataclass(frozen=True)
class Stepper:
    """Steps of one plan on one problem; constructed by :func:`stepper`."""

    plan: Plan
    problem_class: ProblemClass
    shape: tuple[int, ...] | None
    source: Source
    stream: int
    digest: NDArray[np.uint32]
    execution: Execution

    @property
    def steps(self) -> int:
        """``T``: number of planned steps, all of which the guarantee covers."""
        return count_steps(self.plan)

    def init(self, key: Key[Array, ""]) -> RunState:
        """Return the state before the first step of the run with this typed key."""
        key = as_key(key)
        with precision(self.plan):
            words = jax.random.key_data(key)
            state = RunState(words, self.digest, self._call(_init, words))
        return state._after(-1)

    def step(self, state: RunState, batch: Pytree = None) -> RunState:
        """Return the state after one more step; pure: JAX may compile and map it.

        ``batch`` is a pytree of the records that :meth:`rows` selects, in the same order. They are
        converted like the records of a problem. Masked places may hold any values of the right
        shape. By default the records are those of the problem. ``ValueError`` is raised for the
        state of another plan and after the last step; a compiled step then returns its input.
        """
        most = instance("state", state, RunState)._most_steps
        read_count = most is None or most >= self.steps
        fits = check_state(state, self.digest, self.steps, before_last=True, read_count=read_count)
        source = self.source if batch is None else self._batch_risk(state, batch)
        with precision(self.plan):
            inner = self._call(_advance, state.words, state.inner, fits, source=source)
        return replace(state, inner=inner)._after(state.t if most is None else most)

    def rows(self, state: RunState) -> tuple[Int[Array, " places"], Bool[Array, " places"]]:
        """Return ``(indices, mask)`` of the batch of the next step.

        They serve to read records and must not be published: amplification by sampling relies on
        the secrecy of the sample.
        """
        _check_rows(self.plan)
        check_state(state, self.digest, self.steps)
        with precision(self.plan):
            return self._call(_rows, state.words, state.inner)

    def released(self, state: RunState) -> Pytree:
        """Return the release; after ``steps`` steps it agrees with ``privopt.run`` up to rounding.

        Before the last step it is the release of a shorter run, which the same guarantee covers.
        """
        return self.ends(state).released

    def ends(self, state: RunState) -> Run:
        """Return the release, the path and the secret diagnostics, as :func:`privopt.run`."""
        fits = check_state(state, self.digest, self.steps)
        with precision(self.plan):
            run = self._call(_ends, state.words, state.inner, fits)
        return in_shape(run, self.shape)

    def _batch_risk(self, state: RunState, batch: Pytree) -> Source:
        places = jax.eval_shape(self.rows, state)[0].shape[0]
        risk = self.source
        if not isinstance(risk, EmpiricalRisk) or not isinstance(risk.records, int):
            raise ValueError(
                "batch must be None if records are drawn or have multiplicities, got "
                f"{described(batch)}"
            )
        facts = self.problem_class
        records = prepare(
            risk.loss, batch, dim=facts.dim, smoothness=facts.smoothness, name="batch"
        )
        stored = jax.tree.leaves(records)[0].shape[0]
        if stored != places:
            raise ValueError(
                f"batch must hold the {places} records selected by rows(state), got {stored}"
            )
        risk = BatchRisk.of(risk, records, risk.records)
        if risk.dtype != self.source.dtype:
            raise ValueError(f"batch must be {self.source.dtype}, got {risk.dtype}")
        return risk

    def _call(self, part: Any, *inputs: Pytree, source: Source | None = None) -> Any:
        fixed = self.plan.algorithm, self.plan.static, self.execution
        source = self.source if source is None else source
        return _program(part, *fixed, self._numbers, source, *inputs)

    @cached_property
    def _numbers(self) -> tuple[Parameters, ArrayLike]:
        """Numbers of the plan and the stream on the device, converted once for all steps."""
        params = device_numbers(self.plan.params, precision_dtype(self.plan, self.source.dtype))
        with jax.ensure_compile_time_eval():  # also if the first call is in a caller's jit
            return jax.tree.map(jnp.asarray, (params, np.uint32(self.stream)))


def stepper(
    plan: Plan,
    problem: RunnableProblem,
    *,
    stream: int = 0,
    execution: Execution = Execution(),  # noqa: B008
) -> Stepper:
    """Return a stepper, which runs ``plan`` on ``problem`` one step at a time.

    ``s = stepper(plan, problem)``, ``state = s.init(key)``, then ``state = s.step(state)`` for
    ``s.steps`` times. ``s.released(state)`` then agrees with ``run(plan, problem, key).released``
    up to rounding. Saving and loading a state between two steps does not change the bits. A step
    inside a compiled function of the caller agrees up to rounding, because the compiler may fuse
    its operations with others.

    Formal guarantee
    ----------------
    The guarantee of :func:`privopt.run`, for the releases of one key. The states are not released.
    Two runs that continue from one state with different records use the same noise: no guarantee
    covers both together.

    Examples
    --------
    >>> import privopt
    >>> facts = privopt.ProblemClass(n=50, dim=2, lipschitz=1.0, radius=1.0)
    >>> budget = privopt.Budget(epsilon=1.0, delta=1e-5, relation="replace_one")
    >>> plan = privopt.dp_gd(facts, budget, steps=3)
    >>> problem = privopt.problems.linear(np.eye(2)[np.arange(50) % 2], problem_class=facts)
    >>> s = stepper(plan, problem)
    >>> state = s.init(jax.random.key(0))
    >>> for _ in range(s.steps):
    ...     state = s.step(state)
    >>> released = privopt.run(plan, problem, jax.random.key(0)).released
    >>> bool(np.allclose(s.released(state), released, atol=1e-6))
    True
    """
    instance("plan", plan, Plan)
    check_problem(plan, problem)
    check_stream(stream)
    check_steps(plan)
    execution = replace(instance("execution", execution, Execution), chunk=None, replicates=None)
    return Stepper(
        plan,
        problem.problem_class,
        problem.shape,
        problem.source,
        stream,
        plan_digest(plan, stream),
        execution,
    )


def check_state(
    state: RunState,
    digest: NDArray[np.uint32],
    steps: int,
    *,
    before_last: bool = False,
    read_count: bool = True,
) -> ArrayLike:
    """Check that a state belongs to the plan with this digest, after 0 to ``steps`` steps.

    With ``before_last``, the state must permit another step. Unless ``read_count``, the number
    of steps is valid already and is not read. Return True if the digests are equal.
    Inside a compiled function, which cannot raise, the result is a Boolean array.
    """
    instance("state", state, RunState)
    traced = [isinstance(each, jax.core.Tracer) for each in (state.digest, state.t)]
    if not traced[0] and not np.array_equal(state.digest, digest):
        raise ValueError("state must be of a run of this plan in this stream, got one of another")
    if read_count and not traced[1] and not 0 <= int(state.t) <= steps - before_last:
        rule = "before the last" if before_last else "after at most all"
        raise ValueError(
            f"state must be {rule} of the {steps} planned steps, which the guarantee covers, got "
            f"one after {shown(int(state.t))}"
        )
    return (jnp.asarray(state.digest) == digest).all() if traced[0] else True


def count_steps(plan: Plan) -> int:
    """Return the number of steps of a plan with an iterative algorithm."""
    check_steps(plan)
    count: Any = plan.algorithm.step_count
    return int(count(plan.static, plan.params))


def check_steps(plan: Plan) -> None:
    """Check that a plan has an iterative algorithm."""
    algorithm = plan.algorithm
    count = algorithm.step_count
    if count is None or count(plan.static, plan.params) < 1:
        raise ValueError(f"plan must be of a run in steps, got one of {algorithm.name}")


def planned_rows(
    plan: Plan, key: Key[Array, ""], t: int, n: int
) -> tuple[Int32[np.ndarray, " places"], Bool[np.ndarray, " places"]]:
    """Return :meth:`Stepper.rows` after ``t`` steps, for ``n`` records that are not in memory."""
    _check_rows(plan)
    with precision(plan):
        params = device_numbers(plan.params, precision_dtype(plan, np.dtype(np.float32)))
        rows, mask = _planned_rows(plan.algorithm, plan.static, n, params, key, np.int32(t))
    return np.asarray(rows), np.asarray(mask)


def _check_rows(plan: Plan) -> None:
    if plan.algorithm.rows is None:
        raise ValueError(
            "plan.algorithm must read one batch of a fixed size in every step for batches from "
            f"outside, got {plan.algorithm.name}"
        )


@partial(jax.jit, static_argnames=("algorithm", "static", "n"))
def _planned_rows(
    algorithm: Algorithm, static: Hashable, n: int, params: Parameters, key: Array, t: ArrayLike
) -> tuple[Array, Array]:
    assert algorithm.rows is not None
    return algorithm.rows(static, params, key, t, n)


@partial(jax.jit, static_argnames=("part", "algorithm", "static", "execution"))
def _program(
    part: Callable[..., Pytree],
    algorithm: Algorithm,
    static: Hashable,
    execution: Execution,
    numbers: tuple[Parameters, ArrayLike],
    source: Source,
    words: Array,
    *inputs: Any,
) -> Any:
    """Evaluate one part of the run of the key with these ``words``."""
    arguments = run_arguments(algorithm, static, execution, numbers, source, _key(words))
    result = part(algorithm, arguments, *inputs)
    return cast_back(algorithm, source, result) if isinstance(result, Run) else result


def _key(words: Array) -> Array:
    return jax.random.wrap_key_data(words, impl="threefry2x32")


def _init(algorithm: Algorithm, arguments: Any) -> Pytree:
    return _steps(algorithm, arguments).init()


def _advance(algorithm: Algorithm, arguments: Any, inner: Any, fits: Array) -> Pytree:
    """Take one step, or none from a state that does not fit the plan."""
    steps = _steps(algorithm, arguments)
    last = jnp.minimum(inner.t + 1, jnp.asarray(steps.planned))
    return steps.until(inner, jnp.where(fits & (inner.t >= 0), last, inner.t), in_blocks=False)


def _ends(algorithm: Algorithm, arguments: Any, inner: Any, fits: Array) -> Run:
    """Return the run that ends here; a state that does not fit the plan releases NaN."""
    run = _steps(algorithm, arguments).ends(inner)
    points = None if run.path is None else run.path.points
    safe = jax.tree.map(lambda leaf: jnp.where(fits, leaf, jnp.nan), (run.released, points))
    path = None if run.path is None else run.path._replace(points=safe[1])
    return run._replace(released=safe[0], path=path)


def _rows(algorithm: Algorithm, arguments: Any, inner: Any) -> tuple[Array, Array]:
    assert algorithm.rows is not None
    static, params, objective, key, *_ = arguments
    return algorithm.rows(static, params, key, inner.t, objective.records)


def _steps(algorithm: Algorithm, arguments: Any) -> Steps:
    assert algorithm.steps is not None
    return algorithm.steps(*arguments)

"""A run a step at a time: for checkpoints, and for data that is read as it is needed."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from privopt.arguments import instance, shown
from privopt.convex import BatchRisk, EmpiricalRisk, pytree_dataclass
from privopt.core.fitting import Problem, check_problem
from privopt.core.parameters import Parameters, device_numbers
from privopt.core.plan import Algorithm, Plan
from privopt.core.replicates import arguments_of, cast_back
from privopt.core.running import check_key, check_stream, in_shape, precision, precision_dtype
from privopt.core.runs import Execution, Run, Source, Steps
from privopt.release import Pytree


@pytree_dataclass
@dataclass(frozen=True)
class RunState:
    """The state of a run between two steps: a pytree of arrays, which can be saved.

    It is secret, as the key in it is: whoever reads the state and the releases can take the noise
    off. ``inner`` is the algorithm's own state; ``words`` is ``jax.random.key_data`` of the run's
    key, and ``generator`` the key's implementation.
    """

    words: Array
    inner: Any
    generator: str = field(metadata={"static": True})

    @property
    def t(self) -> Array:
        """Steps taken."""
        return self.inner.t

    @property
    def key(self) -> Array:
        """The run's key."""
        return jax.random.wrap_key_data(self.words, impl=self.generator)


@dataclass(frozen=True)
class Stepper:
    """The steps of one plan on one problem; made by :func:`stepper`."""

    plan: Plan
    shape: tuple[int, ...] | None
    source: Source
    stream: int
    execution: Execution

    @property
    def steps(self) -> int:
        """``T``: the number of steps that is planned and accounted for."""
        count = self.plan.algorithm.step_count
        assert count is not None
        return count(self.plan.static, self.plan.params)

    def init(self, key: Array) -> RunState:
        """The state before the first step of the run with this typed key."""
        check_key(key, "key", ndim=0)
        generator = str(jax.random.key_impl(key))
        with precision(self.plan):
            return RunState(jax.random.key_data(key), self._call(_init, key), generator)

    def step(self, state: RunState, batch: Pytree = None) -> RunState:
        """The state after one more step; pure: JAX may compile, map and differentiate around it.

        ``batch`` is a pytree of the records that :meth:`rows` names, in its order; places not taken
        may hold anything of the right shape. By default they are found in the problem. ValueError
        if all steps have been taken; a compiled step then changes nothing.
        """
        if not isinstance(state.t, jax.core.Tracer) and int(state.t) >= self.steps:
            raise ValueError(
                f"state must be before the last of {self.steps} planned steps, to which the "
                f"guarantee speaks, got one after {int(state.t)}"
            )
        source = self.source if batch is None else self._given(state, batch)
        with precision(self.plan):
            return replace(state, inner=self._call(_advance, state.key, state.inner, source=source))

    def rows(self, state: RunState) -> tuple[Array, Array]:
        """``(rows, taken)`` of the next step, each ``(places,)``: record numbers, filled places.

        For reading records, never for publication: amplification by sampling rests on keeping
        secret who takes part.
        """
        _check_rows(self.plan)
        with precision(self.plan):
            return self._call(_rows, state.key, state.inner)

    def released(self, state: RunState) -> Pytree:
        """What the run releases: after ``steps`` steps, bit for bit that of ``privopt.run``.

        Before that, what a run of so many steps would release; the same guarantee covers it.
        """
        return self.ends(state).released

    def ends(self, state: RunState) -> Run:
        """``released`` with the path and the secret diagnostics, as :func:`privopt.run` returns."""
        with precision(self.plan):
            found = self._call(_ends, state.key, state.inner)
        return in_shape(found, self.shape)

    def _given(self, state: RunState, batch: Pytree) -> Source:
        places = jax.eval_shape(self.rows, state)[0].shape[0]
        lengths = {np.shape(leaf)[0] if np.ndim(leaf) else 0 for leaf in jax.tree.leaves(batch)}
        if lengths != {places}:
            raise ValueError(
                f"batch must hold the {places} records that rows(state) names, got "
                f"{', '.join(map(str, sorted(lengths))) or 'none'}"
            )
        whole = self.source
        if not isinstance(whole, EmpiricalRisk) or not isinstance(whole.records, int):
            raise ValueError("batch must be None where records are drawn or have multiplicities")
        return BatchRisk.of(whole, batch, whole.records)

    def _call(self, part: Any, *given: Pytree, source: Source | None = None) -> Any:
        plan = self.plan
        source = self.source if source is None else source
        params = device_numbers(plan.params, precision_dtype(plan, source.dtype))
        numbers = params, np.uint32(self.stream)
        fixed = plan.algorithm, plan.static, self.execution
        return _program(part, *fixed, numbers, source, *given)


def stepper(
    plan: Plan,
    problem: Problem,
    *,
    stream: int = 0,
    execution: Execution = Execution(),  # noqa: B008
) -> Stepper:
    """The steps of ``plan`` on ``problem``, one at a time.

    ``s = stepper(plan, problem)``, ``state = s.init(key)``, then ``state = s.step(state)`` for
    ``s.steps`` times; ``s.released(state)`` is ``run(plan, problem, key).released`` to the bit. A
    state that is saved in the middle and loaded ends in the same bits.

    Formal guarantee
    ----------------
    That of :func:`privopt.run`, for what is released and for one key. The states are not released.
    Two runs that go on from one state, on other records or to other plans, draw the same noise:
    nothing is claimed of both together.

    Examples
    --------
    >>> import privopt
    >>> facts = privopt.ProblemClass(n=50, dim=2, lipschitz=1.0, radius=1.0)
    >>> budget = privopt.Budget(epsilon=1.0, delta=1e-5, relation="replace_one")
    >>> plan = privopt.ALGORITHMS["dp_gd"].plan(facts, budget, steps=3)
    >>> where = privopt.problems.linear(np.eye(2)[np.arange(50) % 2], problem_class=facts)
    >>> s = stepper(plan, where)
    >>> state = s.init(jax.random.key(0))
    >>> for _ in range(s.steps):
    ...     state = s.step(state)
    >>> whole = privopt.run(plan, where, jax.random.key(0)).released
    >>> bool((s.released(state) == whole).all())
    True
    """
    instance("plan", plan, Plan)
    check_problem(plan, problem)
    check_stream(stream)
    check_steps(plan)
    execution = replace(instance("execution", execution, Execution), chunk=None, replicates=None)
    return Stepper(plan, problem.shape, problem.source, stream, execution)


def check_steps(plan: Plan) -> None:
    """ValueError unless the plan's runs are made of steps."""
    algorithm = plan.algorithm
    count = algorithm.step_count
    if count is None or count(plan.static, plan.params) < 1:
        raise ValueError(f"plan must be of a run in steps, got {shown(plan)}")


def planned_rows(plan: Plan, key: Array, t: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """:meth:`Stepper.rows` after ``t`` steps, for data of ``n`` records that are elsewhere."""
    _check_rows(plan)
    with precision(plan):
        params = device_numbers(plan.params, precision_dtype(plan, np.dtype(np.float32)))
        rows, taken = _planned_rows(plan.algorithm, plan.static, n, params, key, np.int32(t))
    return np.asarray(rows), np.asarray(taken)


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
    key: Array,
    *inner: Any,
) -> Any:
    """A part of the run with these arguments."""
    found = part(
        algorithm, arguments_of(algorithm, static, execution, numbers, source, key), *inner
    )
    return cast_back(algorithm, source, found) if isinstance(found, Run) else found


def _init(algorithm: Algorithm, arguments: Any) -> Pytree:
    return _steps(algorithm, arguments).init()


def _advance(algorithm: Algorithm, arguments: Any, inner: Any) -> Pytree:
    steps = _steps(algorithm, arguments)
    return steps.until(inner, jnp.minimum(inner.t + 1, jnp.asarray(steps.planned)))


def _ends(algorithm: Algorithm, arguments: Any, inner: Any) -> Run:
    return _steps(algorithm, arguments).ends(inner)


def _rows(algorithm: Algorithm, arguments: Any, inner: Any) -> tuple[Array, Array]:
    assert algorithm.rows is not None
    static, params, objective, key, *_ = arguments
    return algorithm.rows(static, params, key, inner.t, objective.records)


def _steps(algorithm: Algorithm, arguments: Any) -> Steps:
    assert algorithm.steps is not None
    return algorithm.steps(*arguments)

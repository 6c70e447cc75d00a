"""One compiled program for all plans and keys: stacked numbers, mapped keys, devices, chunks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import Mesh, PartitionSpec
from jax.typing import ArrayLike

from privopt.core.parameters import Parameters
from privopt.core.plan import Algorithm
from privopt.core.runs import Execution, Run, Source
from privopt.streams import stream

MOST_BYTES = 2**30  # of an array of a program for many keys, where no chunk is asked for


@partial(jax.jit, static_argnames=("algorithm", "static", "execution"))
def run_one(
    algorithm: Algorithm,
    static: Hashable,
    execution: Execution,
    numbers: tuple[Parameters, ArrayLike],
    source: Source,
    key: Array,
    leader: Array,
) -> Run:
    """A run with the noise of ``key`` and the coins of ``leader``, the first key of its group."""
    arguments = arguments_of(algorithm, static, execution, numbers, source, key, leader)
    return cast_back(algorithm, source, algorithm.run(*arguments))


def arguments_of(
    algorithm: Algorithm,
    static: Hashable,
    execution: Execution,
    numbers: tuple[Parameters, ArrayLike],
    source: Source,
    key: Array,
    leader: Array | None = None,
) -> tuple[Any, ...]:
    """The arguments of ``Algorithm.run`` and ``Algorithm.steps``; ``key`` may lead itself."""
    params, number = numbers
    given = source.astype(jnp.float64) if algorithm.float64 else source
    objective, left = given.sample(key)
    arguments = static, params, objective, key_of_stream(left, number), execution
    if algorithm.coins is None:
        return arguments
    own = stream(key_of_stream(key if leader is None else leader, number), "coins")
    return *arguments, algorithm.coins(static, params, own)


def cast_back(algorithm: Algorithm, source: Source, found: Run) -> Run:
    """The run in the type of the data."""
    if not algorithm.float64:
        return found
    return jax.tree.map(lambda leaf: leaf.astype(source.dtype), found)


def key_of_stream(key: Array, number: ArrayLike) -> Array:
    """``key`` itself for stream 0, for another one a grandchild of its own."""
    return jnp.where(number == 0, key, jax.random.fold_in(stream(key, "runs"), number))


def run_chunks(
    algorithm: Algorithm,
    static: Hashable,
    execution: Execution,
    numbers: tuple[Parameters, ArrayLike],
    source: Source,
    groups: Array,
) -> Run:
    """Every plan with every key of ``groups``, shape ``(groups, group)``, one chunk at a time.

    Every chunk runs the same program: the last is filled up with keys of the first.
    """
    count, group = groups.shape
    devices = jax.local_devices()[: 1 if _is_spread(source) else count]
    mode = _mode(algorithm, execution, devices[0].platform)
    carried_out = replace(execution, chunk=None, replicates=mode)

    def asked(first: int, width: int) -> tuple[Any, ...]:
        used = devices[:width]
        whole = -(-width // len(used)) * len(used)
        some = groups if whole == count else groups[(first + np.arange(whole)) % count]
        mesh = Mesh(np.array(used), ("replicates",))
        return algorithm, static, carried_out, numbers, source, some, mesh

    width = count
    if execution.chunk is not None:
        width = min(count, max(1, execution.chunk // group))
    elif mode == "together" and not _is_traced((numbers, source, groups)):
        width = _fitting(lambda width: _run_many.trace(*asked(0, width)).jaxpr.jaxpr, count)

    def chunk(first: int) -> Run:
        found, kept = _run_many(*asked(first, width)), min(width, count - first)
        if kept * group == jax.tree.leaves(found)[0].shape[1]:
            return found
        # Cut on one device: to cut what is spread takes a collective, and two at once can deadlock.
        found = jax.device_put(found, devices[0])
        return jax.tree.map(lambda leaf: leaf[:, : kept * group], found)

    if execution.chunk is None and width == count:
        return chunk(0)
    return _joined(chunk, range(0, count, width), count * group, group)


def _fitting(program: Callable[[int], Any], count: int) -> int:
    """How many groups of keys, at most ``count``, keep the arrays that grow with them small.

    Arrays of one group, such as a copy of the data, are not made smaller by fewer.
    """
    many = _sizes(program(count))
    if max(many) <= MOST_BYTES or count == 1:
        return count
    largest = max(many - _sizes(program(1)), default=0)
    return count if largest <= MOST_BYTES else max(1, count * MOST_BYTES // largest)


@lru_cache(maxsize=64)
def _sizes(program: Any) -> Counter[int]:
    """How many arrays of so many bytes a program makes; what is in a loop counts once."""
    found: Counter[int] = Counter()
    for equation in program.eqns:
        found.update(each.aval.size * each.aval.dtype.itemsize for each in equation.outvars)
        for part in jax.tree.leaves(list(equation.params.values())):
            nested = getattr(part, "jaxpr", part)
            if hasattr(nested, "eqns"):
                found.update(_sizes(nested))
    return found


def _is_traced(values: Any) -> bool:
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(values))


def _is_spread(source: Source) -> bool:
    """Whether records lie on more than one device, which then all work on every run.

    Inside a program of the caller's, where records lie is not known yet.
    """
    leaves = [leaf for leaf in jax.tree.leaves(source) if isinstance(leaf, Array)]
    known = [leaf for leaf in leaves if not _is_traced(leaf)]
    return any(len(leaf.sharding.device_set) > 1 for leaf in known)


def _mode(
    algorithm: Algorithm, execution: Execution, platform: str
) -> Literal["together", "in_turn"]:
    if execution.replicates is not None:
        return execution.replicates
    return "in_turn" if algorithm.gathers and platform == "cpu" else "together"


def _joined(chunk: Callable[[int], Run], firsts: range, count: int, group: int) -> Run:
    """All chunks in NumPy arrays, of which there is one copy at any time."""
    whole: Run | None = None
    for first in firsts:
        found = jax.device_get(chunk(first))
        if whole is None:
            whole = jax.tree.map(
                lambda leaf: np.empty((leaf.shape[0], count, *leaf.shape[2:]), leaf.dtype), found
            )

        def fill(rows: np.ndarray, part: np.ndarray, start: int = first * group) -> None:
            rows[:, start : start + part.shape[1]] = part

        jax.tree.map(fill, whole, found)
    assert whole is not None
    return whole


@partial(jax.jit, static_argnames=("algorithm", "static", "execution", "mesh"))
def _run_many(
    algorithm: Algorithm,
    static: Hashable,
    execution: Execution,
    numbers: tuple[Parameters, ArrayLike],
    source: Source,
    groups: Array,
    mesh: Mesh,
) -> Run:
    one = partial(run_one, algorithm, static, replace(execution, replicates=None))
    together = execution.replicates == "together"

    def replicate(plans: tuple[Parameters, ArrayLike], source: Source, groups: Array) -> Run:
        def members(plan: tuple[Parameters, ArrayLike], keys: Array, leader: Array | None) -> Run:
            def member(key: Array) -> Run:
                return one(plan, source, key, key if leader is None else leader)

            return jax.vmap(member)(keys) if together else jax.lax.map(member, keys)

        if algorithm.coins is None:
            keys = groups.reshape(-1)
            if together:
                return jax.vmap(lambda plan: members(plan, keys, None))(plans)
            return jax.lax.map(lambda plan: members(plan, keys, None), plans)

        def grouped(plan: tuple[Parameters, ArrayLike]) -> Run:
            found = jax.lax.map(lambda keys: members(plan, keys, keys[0]), groups)
            return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), found)

        return jax.lax.map(grouped, plans)

    if mesh.size == 1:
        return replicate(numbers, source, groups)
    spread, everywhere = PartitionSpec("replicates"), PartitionSpec()
    return jax.shard_map(
        replicate,
        mesh=mesh,
        in_specs=(everywhere, everywhere, spread),
        out_specs=PartitionSpec(None, "replicates"),
        check_vma=False,
    )(numbers, source, groups)

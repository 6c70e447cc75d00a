"""One compiled program for all plans and keys, on all devices and in chunks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import Mesh, PartitionSpec
from jax.typing import ArrayLike
from jaxtyping import Key

from privopt.core.parameters import Parameters
from privopt.core.plan import Algorithm
from privopt.core.runs import Execution, Run, Source
from privopt.random import fold_in, stream
from privopt.release import Pytree

MOST_BYTES = 2**30  # largest array of a program for many keys, unless a chunk is given


class ReplicateKeys(NamedTuple):
    """Keys of one replicate: of its records (None unless they are sampled) and of its noise."""

    records: Key[Array, ""] | None
    noise: Key[Array, ""]


def replicate_keys(source: Source, key: Key[Array, ""], number: ArrayLike) -> ReplicateKeys:
    """Return the keys of the replicate of ``key`` in stream ``number``."""
    records, rest = source.keys(key)
    return ReplicateKeys(records, key_of_stream(rest, number))


def public_key(key: Key[Array, ""], number: ArrayLike) -> Key[Array, ""]:
    """Return the key of the public randomness of a group; ``key`` is the first key of the group."""
    # The clone is for the checker of key reuse: noise and public randomness are different streams.
    return key_of_stream(jax.random.clone(key), number)


def key_of_stream(key: Key[Array, ""], number: ArrayLike) -> Key[Array, ""]:
    """Return ``key`` for stream 0, and a separate grandchild of it for any other stream."""
    return jnp.where(number == 0, key, fold_in(stream(key, "runs"), number))


def run_arguments(
    algorithm: Algorithm,
    static: Hashable,
    execution: Execution,
    numbers: tuple[Parameters, ArrayLike],
    source: Source,
    key: Key[Array, ""],
) -> tuple[Any, ...]:
    """Return the arguments of ``Algorithm.run`` and ``Algorithm.steps`` for one replicate.

    ``numbers`` are the parameters of the plan and the number of the stream.
    """
    params, number = numbers
    arguments = algorithm, static, execution, params, source, replicate_keys(source, key, number)
    if algorithm.public_randomness is None:
        return _arguments(*arguments)
    randomness = _sample_public(algorithm, static, params, public_key(key, number))
    return *_arguments(*arguments), randomness


def _arguments(
    algorithm: Algorithm,
    static: Hashable,
    execution: Execution,
    params: Parameters,
    source: Source,
    keys: ReplicateKeys,
) -> tuple[Any, ...]:
    """Return the arguments without public randomness."""
    records = source.astype(jnp.float64) if algorithm.float64 else source
    return static, params, records.sample(keys.records), keys.noise, execution


def _sample_public(
    algorithm: Algorithm, static: Hashable, params: Parameters, key: Array
) -> Pytree:
    assert algorithm.public_randomness is not None
    return algorithm.public_randomness(static, params, stream(key, "public"))


def cast_back(algorithm: Algorithm, source: Source, run: Run) -> Run:
    """Return the run in the dtype of the data."""
    if not algorithm.float64:
        return run
    return jax.tree.map(lambda leaf: leaf.astype(source.dtype), run)


def run_chunks(
    algorithm: Algorithm,
    static: Hashable,
    execution: Execution,
    numbers: tuple[Parameters, ArrayLike],
    source: Source,
    keys: Key[Array, " keys"],
    group: int,
) -> Run:
    """Run every plan with every key, chunk by chunk. ``group`` keys share public randomness.

    All chunks run the same program: the last chunk is padded with keys of the first chunk.
    """
    count = keys.shape[0] // group
    devices = jax.local_devices()[: 1 if _is_spread(source) else count]
    mode = _mode(algorithm, execution, devices[0].platform)
    inner = replace(execution, chunk=None, replicates=mode)

    def arguments(first: int, width: int) -> tuple[Any, ...]:
        used = devices[:width]
        whole = -(-width // len(used)) * len(used)
        some = keys
        if whole != count:
            rows = (first * group + np.arange(whole * group)) % keys.shape[0]
            some = jnp.take(keys, rows, axis=0)
        mesh = Mesh(np.array(used), ("replicates",))
        return algorithm, static, inner, numbers, source, some, group, mesh

    width = count
    if execution.chunk is not None:
        width = min(count, max(1, execution.chunk // group))
    elif mode == "together" and not _is_traced((numbers, source, keys)):
        width = _fitting(lambda width: run_all.trace(*arguments(0, width)).jaxpr.jaxpr, count)

    def chunk(first: int) -> Run:
        result, size = run_all(*arguments(first, width)), min(width, count - first)
        if size * group == jax.tree.leaves(result)[0].shape[1]:
            return result
        # Slicing a sharded array needs a collective, and two at once can deadlock.
        result = jax.device_put(result, devices[0])
        return jax.tree.map(lambda leaf: leaf[:, : size * group], result)

    if execution.chunk is None and width == count:
        return chunk(0)
    return _joined(chunk, range(0, count, width), count * group, group)


def _fitting(program: Callable[[int], Any], count: int) -> int:
    """Return the largest number of groups, at most ``count``, with arrays of ``MOST_BYTES`` each.

    Fewer groups do not reduce the arrays of one group, such as a copy of the data.
    """
    many = _sizes(program(count))
    if max(many) <= MOST_BYTES or count == 1:
        return count
    largest = max(many - _sizes(program(1)), default=0)
    return count if largest <= MOST_BYTES else max(1, count * MOST_BYTES // largest)


@lru_cache(maxsize=64)
def _sizes(program: Any) -> Counter[int]:
    """Count the arrays of a program by their size in bytes; a loop body counts once."""
    sizes: Counter[int] = Counter()
    for equation in program.eqns:
        sizes.update(each.aval.size * each.aval.dtype.itemsize for each in equation.outvars)
        for part in jax.tree.leaves(list(equation.params.values())):
            nested = getattr(part, "jaxpr", part)
            if hasattr(nested, "eqns"):
                sizes.update(_sizes(nested))
    return sizes


def _is_traced(values: Any) -> bool:
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(values))


def _is_spread(source: Source) -> bool:
    """Return True if records are sharded over several devices, which then share every run.

    Under the caller's ``jit`` the sharding is unknown; the result is then False.
    """
    arrays = [leaf for leaf in jax.tree.leaves(source) if isinstance(leaf, Array)]
    concrete = [leaf for leaf in arrays if not _is_traced(leaf)]
    return any(len(leaf.sharding.device_set) > 1 for leaf in concrete)


def _mode(
    algorithm: Algorithm, execution: Execution, platform: str
) -> Literal["together", "in_turn"]:
    if execution.replicates is not None:
        return execution.replicates
    return "in_turn" if algorithm.gathers and platform == "cpu" else "together"


def _joined(chunk: Callable[[int], Run], firsts: range, count: int, group: int) -> Run:
    """Return all chunks as NumPy arrays, with one copy in memory at any time."""
    whole: Run | None = None
    for first in firsts:
        part = jax.device_get(chunk(first))
        if whole is None:
            whole = jax.tree.map(
                lambda leaf: np.empty((leaf.shape[0], count, *leaf.shape[2:]), leaf.dtype), part
            )

        def fill(rows: np.ndarray, values: np.ndarray, start: int = first * group) -> None:
            rows[:, start : start + values.shape[1]] = values

        jax.tree.map(fill, whole, part)
    assert whole is not None
    return whole


@partial(jax.jit, static_argnames=("algorithm", "static", "execution", "group", "mesh"))
def run_all(
    algorithm: Algorithm,
    static: Hashable,
    execution: Execution,
    numbers: tuple[Parameters, ArrayLike],
    source: Source,
    keys: Key[Array, " keys"] | Key[Array, ""],
    group: int = 1,
    mesh: Mesh | None = None,
) -> Run:
    """Run every plan with every key; leaves have leading axes ``(plans, keys)``.

    For a single key and the numbers of one plan the leaves have no leading axes.
    """
    over = jax.vmap if execution.replicates == "together" else _mapped
    inner = replace(execution, replicates=None)

    def single_run(numbers: tuple[Parameters, ArrayLike], key: Array) -> Run:
        arguments = run_arguments(algorithm, static, inner, numbers, source, key)
        return cast_back(algorithm, source, algorithm.run(*arguments))

    if mesh is None:
        return single_run(numbers, keys)
    if keys.size == np.size(numbers[1]) == 1:  # a single run needs no loop and no batch axis
        result = single_run(jax.tree.map(lambda leaf: leaf[0], numbers), keys[0])
        return jax.tree.map(lambda leaf: leaf[None, None], result)

    def device_runs(numbers: tuple[Parameters, ArrayLike], source: Source, keys: Array) -> Run:
        (params, streams), groups = numbers, keys.reshape(-1, group)
        # All keys are derived here, outside of the loop over plans: JAX's checker of key reuse
        # rejects a key that a loop body uses in every iteration.
        derive: Any = partial(replicate_keys, source)
        for axes in ((0, None), (0, None), (None, 0)):  # members of a group, groups, plans
            derive = jax.vmap(derive, in_axes=axes)
        own = derive(groups, streams)

        def members(params: Parameters, keys: ReplicateKeys, *public: Pytree) -> Run:
            def one(keys: ReplicateKeys) -> Run:
                arguments = _arguments(algorithm, static, inner, params, source, keys)
                return cast_back(algorithm, source, algorithm.run(*arguments, *public))

            return over(one)(keys)

        if algorithm.public_randomness is None:
            own = jax.tree.map(lambda leaf: leaf.reshape(leaf.shape[0], -1), own)
            if np.size(streams) == 1:  # without an axis of plans the numbers have no batch axis
                result = members(*jax.tree.map(lambda leaf: leaf[0], (params, own)))
                return jax.tree.map(lambda leaf: leaf[None], result)
            return over(members)(params, own)

        derive = jax.vmap(jax.vmap(public_key, in_axes=(0, None)), in_axes=(None, 0))
        public_keys = derive(jax.random.clone(groups)[:, 0], streams)

        def grouped(params: Parameters, keys: ReplicateKeys, public_keys: Array) -> Run:
            def one(keys: ReplicateKeys, key: Array) -> Run:
                return members(params, keys, _sample_public(algorithm, static, params, key))

            runs = _mapped(one)(keys, public_keys)
            return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), runs)

        return _mapped(grouped)(params, own, public_keys)

    if mesh.size == 1:
        return device_runs(numbers, source, keys)
    sharded, everywhere = PartitionSpec("replicates"), PartitionSpec()
    return jax.shard_map(
        device_runs,
        mesh=mesh,
        in_specs=(everywhere, everywhere, sharded),
        out_specs=PartitionSpec(None, "replicates"),
        check_vma=False,
    )(numbers, source, keys)


def _mapped(function: Callable[..., Run]) -> Callable[..., Run]:
    """Return ``function`` over leading axes, one element at a time."""
    return lambda *arguments: jax.lax.map(lambda each: function(*each), arguments)

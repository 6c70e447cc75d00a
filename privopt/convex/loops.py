"""Platform-dependent loops: sequential on CPU, vectorised or of fixed length on accelerators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.custom_batching import custom_vmap
from jaxtyping import Int

from privopt.release import Pytree

BLOCK = 16  # steps of a loop of fixed length
UNROLLED = 4  # of them in one iteration


def by_platform(
    *operands: Pytree, cpu: Callable[..., Pytree], default: Callable[..., Pytree]
) -> Pytree:
    """Return ``cpu(*operands)`` on a CPU and ``default(*operands)`` elsewhere, of equal results.

    As ``jax.lax.platform_dependent``, which traces both. That is a third of the time of a first
    run, so without an accelerator only ``cpu`` is traced.

    Examples
    --------
    >>> by_platform(3, cpu=lambda x: x + x, default=lambda x: 2 * x)
    6
    """
    if jax.default_backend() == "cpu":
        return cpu(*operands)
    return jax.lax.platform_dependent(*operands, cpu=cpu, default=default)


def sequential_on_cpu(function: Callable[..., Pytree]) -> Callable[..., Pytree]:
    """Return ``function`` with a ``jax.vmap`` that is a loop on a CPU and a batch elsewhere.

    For searches that stay in the cache and end early. An accelerator has a cost per operation, so a
    batch is faster there.

    Examples
    --------
    >>> squares = jax.vmap(sequential_on_cpu(lambda x: x * x))
    >>> squares(jnp.arange(3)).tolist(), "scan" in str(jax.make_jaxpr(squares)(jnp.arange(3)))
    ([0, 1, 4], True)
    """
    sequential = custom_vmap(function)

    @sequential.def_vmap
    def rule(count: int, batched: list[bool], *arguments: Array) -> tuple[Pytree, Pytree]:
        rows = [
            argument if varies else jnp.broadcast_to(argument, (count, *argument.shape))
            for argument, varies in zip(arguments, batched, strict=True)
        ]

        def loop(*rows: Array) -> Pytree:
            return jax.lax.map(lambda row: sequential(*row), rows)

        result: Any = by_platform(*rows, cpu=loop, default=jax.vmap(function))
        return result, jax.tree.map(lambda _: True, result)

    return sequential


def repeat(step: Callable[[Pytree], Pytree], state: Pytree, count: Int[Array, ""] | int) -> Pytree:
    """Apply ``step`` ``count`` times to ``state``.

    An accelerator reads the condition of a loop on the host unless its length is fixed. There, the
    steps are grouped into blocks of fixed length.

    Examples
    --------
    >>> int(repeat(lambda x: 2 * x, jnp.asarray(1), jnp.asarray(10)))
    1024
    """

    def times(count: Array | int, step: Callable[[Pytree], Pytree], state: Pytree) -> Pytree:
        return jax.lax.fori_loop(0, count, lambda _, state: step(state), state)

    def in_blocks(state: Pytree) -> Pytree:
        state = times(count // BLOCK, lambda state: times(BLOCK, step, state), state)
        return times(count % BLOCK, step, state)

    return by_platform(state, cpu=lambda state: times(count, step, state), default=in_blocks)

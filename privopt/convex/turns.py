"""What a CPU does one after another, and an accelerator in batches or in loops of known length."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.custom_batching import custom_vmap

from privopt.release import Pytree

BLOCK = 16  # steps of a loop of known length


def in_turn_on_cpu(function: Callable[..., Pytree]) -> Callable[..., Pytree]:
    """The same function of arrays; ``jax.vmap`` of it is a loop on a CPU, and a batch elsewhere.

    For what a CPU does better alone: a search that stays in the cache and ends when it is done. An
    accelerator, which launches every operation, does better with all at once.

    Examples
    --------
    >>> squares = jax.vmap(in_turn_on_cpu(lambda x: x * x))
    >>> squares(jnp.arange(3)).tolist(), "scan" in str(jax.make_jaxpr(squares)(jnp.arange(3)))
    ([0, 1, 4], True)
    """
    alone = custom_vmap(function)

    @alone.def_vmap
    def rule(count: int, batched: list[bool], *given: Array) -> tuple[Pytree, Pytree]:
        each = [
            argument if varies else jnp.broadcast_to(argument, (count, *argument.shape))
            for argument, varies in zip(given, batched, strict=True)
        ]

        def in_turn(*each: Array) -> Pytree:
            return jax.lax.map(lambda one: alone(*one), each)

        found: Any = jax.lax.platform_dependent(*each, cpu=in_turn, default=jax.vmap(function))
        return found, jax.tree.map(lambda _: True, found)

    return alone


def repeated(step: Callable[[Pytree], Pytree], state: Pytree, count: Array | int) -> Pytree:
    """``step(step(.. step(state)))``, ``count`` times.

    An accelerator reads on the host whether a loop goes on, unless its length is known: there
    blocks of steps are loops of known length.

    Examples
    --------
    >>> int(repeated(lambda x: 2 * x, jnp.asarray(1), jnp.asarray(10)))
    1024
    """

    def times(count: Array | int, step: Callable[[Pytree], Pytree], state: Pytree) -> Pytree:
        return jax.lax.fori_loop(0, count, lambda _, state: step(state), state)

    def in_blocks(state: Pytree) -> Pytree:
        state = times(count // BLOCK, lambda state: times(BLOCK, step, state), state)
        return times(count % BLOCK, step, state)

    return jax.lax.platform_dependent(
        state, cpu=lambda state: times(count, step, state), default=in_blocks
    )

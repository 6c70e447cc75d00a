"""A random ordered subset of the records."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

__all__ = ["ordered_subset"]


def ordered_subset(key: Array, size: int, n: int) -> Array:
    """``size`` distinct numbers below ``n`` in random order, each such list as likely as another.

    The first half of the list is then a random half of the set, which no sorted list has.

    Numbers are drawn at once, and all of them again until they are distinct; up to ``sqrt(n/2)``
    numbers four rounds of five succeed. Larger lists begin a permutation of all.

    Parameters
    ----------
    key : Array
    size, n : int
        Static, ``1 <= size <= n``.

    Returns
    -------
    Array
        int32, shape ``(size,)``.

    Examples
    --------
    >>> drawn = ordered_subset(jax.random.key(0), 4, 100)
    >>> len(set(drawn.tolist()))
    4
    """
    if 2 * size * size > n:
        return jax.random.permutation(key, jnp.arange(n, dtype=jnp.int32))[:size]

    def draw(turn: Array) -> Array:
        return jax.random.randint(jax.random.fold_in(key, turn), (size,), 0, n, jnp.int32)

    def repeats(state: tuple[Array, Array]) -> Array:
        ascending = jnp.sort(state[1])
        return jnp.any(ascending[1:] == ascending[:-1])

    def again(state: tuple[Array, Array]) -> tuple[Array, Array]:
        turn = state[0] + 1
        return turn, draw(turn)

    first = jnp.zeros((), jnp.int32)
    return jax.lax.while_loop(repeats, again, (first, draw(first)))[1]

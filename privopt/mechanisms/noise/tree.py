"""Noise of the binary tree."""

from __future__ import annotations

from dataclasses import dataclass, field
from numbers import Integral

import jax
import jax.numpy as jnp
from jax import Array

from privopt.convex import pytree_dataclass
from privopt.factorisations import Factorisation, TreeFactorisation
from privopt.mechanisms.noise.event import GaussianMemory
from privopt.mechanisms.noise.vectors import drawn, restored, rows
from privopt.release import Pytree

__all__ = ["TreeNoise"]

MAX_LEVELS = 31  # of int32 steps


@pytree_dataclass
@dataclass(frozen=True)
class TreeNoise(GaussianMemory):
    r"""A prefix is the sum of the blocks of its binary digits; each owns one normal vector.

    Counted from 0, step ``t`` ends a block of ``2^j`` steps, the largest power of two that divides
    ``t + 1``. It brings ``V_t ~ N(0, I)``, and the blocks that it covers go, which ended ``2^i``
    steps ago:

    .. math:: z_t = V_t - \sum_{i < j} V_{t - 2^i} .

    So only one vector is new in a step, drawn from ``fold_in(key, t)``, and every other one can be
    drawn again: by any machine, and for ever.

    Attributes
    ----------
    remembered : int
        How many levels are kept in memory, from 0 to 31. Longer blocks are drawn again, which
        costs ``2^-remembered`` draws a step on average. It changes speed and memory, ``remembered +
        1`` vectors, and no bit of the noise.

    Formal guarantee
    ----------------
    The prefix sums of ``T`` answers are a post-processing of the noisy sums of these blocks, one a
    step; a step lies in ``floor(log2 T) + 1`` of them at most.

    Source: Dwork, Naor, Pitassi and Rothblum 2010; Chan, Shi and Song 2011.

    Examples
    --------
    >>> noise, key, like = TreeNoise(), jax.random.key(0), jnp.zeros(1)
    >>> memory, total = noise.begin(like), 0.0
    >>> for t in range(4):
    ...     z, memory = noise.next(memory, t, key, like)
    ...     total = total + z
    >>> bool(jnp.allclose(total, drawn(key, 3, like)))  # four steps are one block
    True
    """

    remembered: int = field(default=5, metadata={"static": True})

    def __post_init__(self) -> None:
        given = self.remembered
        whole = isinstance(given, Integral) and not isinstance(given, bool)
        if not whole or not 0 <= given <= MAX_LEVELS:
            raise ValueError(f"remembered must be an integer from 0 to {MAX_LEVELS}, got {given!r}")

    def begin(self, point: Pytree) -> Array:
        """The last block of every remembered level, and of all above in one row."""
        return rows(self.remembered + 1 if self.remembered else 0, point)

    def next(self, memory: Array, t: Array, key: Array, like: Pytree) -> tuple[Pytree, Array]:
        """``V_t`` less the blocks that it covers, longest first."""
        t = jnp.asarray(t)
        length = (t + 1) & ~t
        levels = jax.lax.population_count(length - 1)
        level = jnp.minimum(levels, self.remembered)
        noise = drawn(key, t, like)
        if self.remembered:
            memory = jax.lax.dynamic_update_index_in_dim(memory, noise, level, 0)

        def drawn_again(state: tuple[Array, Array]) -> tuple[Array, Array]:
            i, noise = state
            return i - 1, noise - drawn(key, t - jnp.left_shift(jnp.ones_like(t), i), like)

        def recalled(state: tuple[Array, Array]) -> tuple[Array, Array]:
            i, noise = state
            return i - 1, noise - memory[i]

        begin = levels - 1, noise
        i, noise = jax.lax.while_loop(lambda state: state[0] >= self.remembered, drawn_again, begin)
        if self.remembered:
            _, noise = jax.lax.while_loop(lambda state: state[0] >= 0, recalled, (i, noise))
        return restored(noise, like), memory

    def factorisation(self, steps: int) -> Factorisation:
        """The binary tree."""
        return TreeFactorisation(steps)

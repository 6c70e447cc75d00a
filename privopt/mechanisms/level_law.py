"""The law of the level of a multilevel estimator: public, exact, the same for draw and divisor."""

from __future__ import annotations

from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
from jax import Array

from privopt.arguments import count
from privopt.convex import pytree_dataclass


@pytree_dataclass
@dataclass(frozen=True)
class LevelLaw:
    """``P(N = k) = 2^(M - k)/(2^(M + 1) - 1)`` for ``k = 0..M``: a halving law, cut and normalised.

    ``N`` is the number of zeros that lead a word of ``M + 1`` fair bits which is not all zeros.

    ``highest`` is ``M``, at most 30.

    Examples
    --------
    >>> [round(p, 3) for p in LevelLaw.of(100, 10).probabilities]
    [0.571, 0.286, 0.143]
    """

    highest: int = field(metadata={"static": True})

    @classmethod
    def of(cls, n: int, base: int) -> LevelLaw:
        """With ``M = floor(log2(n/b)) - 1``: the top level takes ``2^(M + 1) b <= n`` records."""
        count("n", n)
        if count("base", base) > n // 2:
            raise ValueError(f"base must be at most n/2 = {n / 2:g}, got {base}")
        return cls((n // base).bit_length() - 2)

    @property
    def probabilities(self) -> tuple[float, ...]:
        """Of each level, from 0 on."""
        words = 2 ** (self.highest + 1) - 1
        return tuple(2 ** (self.highest - level) / words for level in range(self.highest + 1))

    def draw(self, key: Array) -> Array:
        """One level, int32: words are drawn until one is not all zeros."""
        spare = 31 - self.highest

        def word(turn: Array) -> Array:
            return jax.random.bits(jax.random.fold_in(key, turn), (), jnp.uint32) >> spare

        def again(state: tuple[Array, Array]) -> tuple[Array, Array]:
            return state[0] + 1, word(state[0])

        first = jnp.zeros((), jnp.int32), jnp.zeros((), jnp.uint32)
        _, found = jax.lax.while_loop(lambda state: state[1] == 0, again, first)
        return jax.lax.clz(found).astype(jnp.int32) - spare

    def weight(self, level: Array, dtype: jnp.dtype) -> Array:
        """``1/P(N = level)``, by which an increment is multiplied."""
        words = 2.0 ** (self.highest + 1) - 1.0
        return jnp.ldexp(jnp.asarray(words, dtype), level - self.highest)

"""Noise of the binary tree, as it is and with refined estimates."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from numbers import Integral

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from privopt.arguments import count, shown
from privopt.convex import pytree_dataclass
from privopt.factorisations import Factorisation, TreeFactorisation, tree_height
from privopt.mechanisms.noise.noise import CorrelatedNoise, drawn, restored, rows
from privopt.privacy import round_up
from privopt.release import Pytree

MAX_LEVELS = 31  # of int32 steps


@pytree_dataclass
@dataclass(frozen=True)
class TreeNoise(CorrelatedNoise):
    r"""A prefix is the sum of the blocks of its binary digits; each owns one normal vector.

    Counted from 0, step ``t`` ends a block of ``2^j`` steps, the largest power of two that divides
    ``t + 1``. Its vector ``V_t ~ N(0, I)`` replaces those of the blocks that it covers:

    .. math:: z_t = V_t - \sum_{i < j} V_{t - 2^i} .

    ``V_t`` comes from ``fold_in(key, t)``, so a vector that is not in memory can be drawn again.

    So many levels are ``remembered``, from 0 to 31. Longer blocks are drawn again, which costs
    ``2^-remembered`` draws a step on average. It changes speed and memory, ``remembered + 1``
    vectors, and no bit of the noise.

    Formal guarantee
    ----------------
    The prefix sums of ``T`` answers are a post-processing of the noisy sums of these blocks, one a
    step; a step lies in ``floor(log2 T) + 1`` of them at most.

    Source: Dwork, Naor, Pitassi and Rothblum 2010; Chan, Shi and Song 2011.

    Examples
    --------
    >>> noise, key, like = TreeNoise(), jax.random.key(0), jnp.zeros(1)
    >>> state, total = noise.init(like), 0.0
    >>> for t in range(4):
    ...     z, state = noise.update(state, t, key, like)
    ...     total = total + z
    >>> bool(jnp.allclose(total, drawn(key, 3, like)))  # four steps are one block
    True
    """

    remembered: int = field(default=5, metadata={"static": True})

    def __post_init__(self) -> None:
        given = self.remembered
        whole = isinstance(given, Integral) and not isinstance(given, bool)
        if not whole or not 0 <= given <= MAX_LEVELS:
            raise ValueError(
                f"remembered must be an integer from 0 to {MAX_LEVELS}, got {shown(given)}"
            )

    def init(self, point: Pytree) -> Array:
        return rows(self.remembered + 1 if self.remembered else 0, point)

    def update(self, state: Array, t: Array, key: Array, like: Pytree) -> tuple[Pytree, Array]:
        t = jnp.asarray(t)
        length = (t + 1) & ~t
        levels = jax.lax.population_count(length - 1)
        level = jnp.minimum(levels, self.remembered)
        noise = drawn(key, t, like)
        if self.remembered:
            state = jax.lax.dynamic_update_index_in_dim(state, noise, level, 0)

        def drawn_again(carry: tuple[Array, Array]) -> tuple[Array, Array]:
            i, noise = carry
            return i - 1, noise - drawn(key, t - jnp.left_shift(jnp.ones_like(t), i), like)

        def recalled(carry: tuple[Array, Array]) -> tuple[Array, Array]:
            i, noise = carry
            return i - 1, noise - state[i]

        begin = levels - 1, noise
        i, noise = jax.lax.while_loop(lambda carry: carry[0] >= self.remembered, drawn_again, begin)
        if self.remembered:
            _, noise = jax.lax.while_loop(lambda carry: carry[0] >= 0, recalled, (i, noise))
        return restored(noise, like), state

    def factorisation(self, steps: int) -> Factorisation:
        return TreeFactorisation(steps)


@pytree_dataclass
@dataclass(frozen=True)
class HonakerNoise(CorrelatedNoise):
    r"""A block's estimate weighs its own noisy sum with the estimates of its halves.

    A block of ``2^j`` steps has the estimate ``e_j = w_j V_j + (1 - w_j) (e_{j-1} + e'_{j-1})``,
    ``w_j = 1/(2 - 2^-j)``. The left half's ``e_{j-1}`` is remembered; the right half ends with the
    block, and so do right halves within it. Their vectors ``V`` appear nowhere else, so one normal
    vector with the standard deviation ``s_j`` of what they add together stands for all of them,
    ``s_0 = 1, s_j^2 = w_j^2 + (1 - w_j)^2 s_{j-1}^2``: one draw a step, of the same law. With
    ``2^j`` the largest power of two that divides ``t + 1``, and the remembered ``e_i``, ``i < j``,

    .. math:: z_t = s_j \xi_t + \sum_{i < j} \Big(\prod_{i < k \le j} (1 - w_k) - 1\Big) e_i .

    A tree of this ``height`` lasts ``2^height - 1`` steps and remembers ``height`` vectors.

    Formal guarantee
    ----------------
    The prefix sums are a post-processing of the noisy sums of all complete blocks, as those of
    :class:`TreeNoise`; whatever the weights, which are rounded to float32, ``s_j`` upwards.

    Source: Honaker 2015; the estimate that is known when a block ends.
    """

    height: int = field(metadata={"static": True})

    def __post_init__(self) -> None:
        if count("height", self.height) > MAX_LEVELS:
            raise ValueError(f"height must be at most {MAX_LEVELS}, got {self.height}")

    @classmethod
    def of(cls, steps: int) -> HonakerNoise:
        """The least tree that lasts ``steps`` steps."""
        return cls(tree_height(count("steps", steps)))

    def init(self, point: Pytree) -> Array:
        return rows(self.height, point)

    def update(self, state: Array, t: Array, key: Array, like: Pytree) -> tuple[Pytree, Array]:
        t, fresh = jnp.asarray(t), drawn(key, t, like)
        level = jax.lax.population_count(t & ~(t + 1))
        halves, deviations = (jnp.asarray(table, fresh.dtype) for table in _weights(self.height))

        def merged(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            i, estimate, covered = carry
            half = state[i]
            return i + 1, halves[i + 1] * (half + estimate), covered + half

        nothing = jnp.zeros_like(level), jnp.zeros_like(fresh), jnp.zeros_like(fresh)
        _, known, covered = jax.lax.while_loop(lambda carry: carry[0] < level, merged, nothing)
        estimate = deviations[level] * fresh + known
        state = jax.lax.dynamic_update_index_in_dim(state, estimate, level, 0)
        return restored(estimate - covered, like), state

    def factorisation(self, steps: int) -> Factorisation:
        if tree_height(count("steps", steps)) > self.height:
            raise ValueError(
                f"steps must be at most {2**self.height - 1} for a tree of height {self.height}, "
                f"got {steps}"
            )
        return TreeFactorisation(steps, refined=True)


def _weights(height: int) -> tuple[np.ndarray, np.ndarray]:
    """``1 - w_j`` and ``s_j``; ``w_j`` in float32, where ``1 - w_j`` is exact."""
    own = [float(np.float32(1.0 / (2.0 - 2.0**-j))) for j in range(height)]
    deviations = [1.0]
    for w in own[1:]:
        deviations.append(round_up(math.hypot(w, (1.0 - w) * deviations[-1])))
    return 1.0 - np.array(own), np.array(deviations)

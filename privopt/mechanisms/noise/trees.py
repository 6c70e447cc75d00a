"""Noise of the binary tree: plain, and with refined estimates."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from numbers import Integral

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float, Key

from privopt.arguments import count, shown
from privopt.convex import pytree_dataclass
from privopt.factorisations import Factorisation, TreeFactorisation, tree_height
from privopt.mechanisms.noise.noise import CorrelatedNoise, sample_normal, unravel_like, zero_rows
from privopt.privacy import round_up
from privopt.release import Pytree

MAX_LEVELS = 31  # int32 steps


@pytree_dataclass
@dataclass(frozen=True)
class TreeNoise(CorrelatedNoise):
    r"""Binary tree noise: a prefix is the sum of the blocks of its binary digits.

    Each block owns one normal vector. Counted from 0, step ``t`` ends a block of ``2^j`` steps,
    the largest power of two that divides ``t + 1``. Its vector ``V_t ~ N(0, I)`` replaces the
    vectors of the blocks that it covers:

    .. math:: z_t = V_t - \sum_{i < j} V_{t - 2^i} .

    ``V_t`` comes from ``fold_in(key, t)``, so a vector outside the state can be sampled again.

    The state holds ``remembered + 1`` vectors, ``remembered`` from 0 to 31. Longer blocks are
    sampled again, which costs ``2^-remembered`` samples per step on average. It changes speed and
    memory, and no bit of the noise.

    Formal guarantee
    ----------------
    The prefix sums of ``T`` answers are a post-processing of the noisy sums of these blocks, one
    per step; a step is in at most ``floor(log2 T) + 1`` of them.

    Source: Dwork, Naor, Pitassi and Rothblum 2010; Chan, Shi and Song 2011.

    Examples
    --------
    >>> noise, key, like = TreeNoise(), jax.random.key(0), jnp.zeros(1)
    >>> state, total = noise.init(like), 0.0
    >>> for t in range(4):
    ...     z, state = noise.update(state, t, key, like)
    ...     total = total + z
    >>> bool(jnp.allclose(total, sample_normal(key, 3, like)))  # four steps are one block
    True
    """

    remembered: int = field(default=5, metadata={"static": True})

    def __post_init__(self) -> None:
        remembered = self.remembered
        is_integer = isinstance(remembered, Integral) and not isinstance(remembered, bool)
        if not is_integer or not 0 <= remembered <= MAX_LEVELS:
            raise ValueError(
                f"remembered must be an integer from 0 to {MAX_LEVELS}, got {shown(remembered)}"
            )

    def init(self, point: Pytree) -> Float[Array, "rows d"]:
        return zero_rows(self.remembered + 1 if self.remembered else 0, point)

    def update(
        self, state: Float[Array, "rows d"], t: Array, key: Key[Array, ""], like: Pytree
    ) -> tuple[Pytree, Array]:
        t = jnp.asarray(t)
        length = (t + 1) & ~t
        height = jax.lax.population_count(length - 1)
        level = jnp.minimum(height, self.remembered)
        noise = sample_normal(key, t, like)
        if self.remembered:
            state = jax.lax.dynamic_update_index_in_dim(state, noise, level, 0)

        def subtract_sampled(carry: tuple[Array, Array]) -> tuple[Array, Array]:
            i, noise = carry
            return i - 1, noise - sample_normal(key, t - jnp.left_shift(jnp.ones_like(t), i), like)

        def subtract_stored(carry: tuple[Array, Array]) -> tuple[Array, Array]:
            i, noise = carry
            return i - 1, noise - state[i]

        start = height - 1, noise
        i, noise = jax.lax.while_loop(
            lambda carry: carry[0] >= self.remembered, subtract_sampled, start
        )
        if self.remembered:
            _, noise = jax.lax.while_loop(lambda carry: carry[0] >= 0, subtract_stored, (i, noise))
        return unravel_like(noise, like), state

    def factorisation(self, steps: int) -> Factorisation:
        return TreeFactorisation(steps)


@pytree_dataclass
@dataclass(frozen=True)
class HonakerNoise(CorrelatedNoise):
    r"""Binary tree noise with refined estimates of the blocks.

    The estimate of a block of ``2^j`` steps is ``e_j = w_j V_j + (1 - w_j) (e_{j-1} + e'_{j-1})``,
    ``w_j = 1/(2 - 2^-j)``: its own noisy sum, weighted with the estimates of its halves. The
    ``e_{j-1}`` of the left half is in the state. The right half ends with the block, and so do
    right halves within it. Their vectors ``V`` are used nowhere else, so one normal vector with
    the standard deviation ``s_j`` of their combined contribution replaces all of them, ``s_0 = 1,
    s_j^2 = w_j^2 + (1 - w_j)^2 s_{j-1}^2``: one sample per step, of the same law. With ``2^j`` the
    largest power of two that divides ``t + 1``, and the ``e_i``, ``i < j``, of the state,

    .. math:: z_t = s_j \xi_t + \sum_{i < j} \Big(\prod_{i < k \le j} (1 - w_k) - 1\Big) e_i .

    A tree of this ``height`` has ``2^height - 1`` steps and a state of ``height`` vectors.

    Formal guarantee
    ----------------
    The prefix sums are a post-processing of the noisy sums of all complete blocks, as in
    :class:`TreeNoise`, for all weights. The weights are rounded to float32, and ``s_j`` is rounded
    up.

    Source: Honaker 2015; the estimate that is available at the end of a block.
    """

    height: int = field(metadata={"static": True})

    def __post_init__(self) -> None:
        if count("height", self.height) > MAX_LEVELS:
            raise ValueError(f"height must be at most {MAX_LEVELS}, got {self.height}")

    @classmethod
    def of(cls, steps: int) -> HonakerNoise:
        """Return the smallest tree with at least ``steps`` steps."""
        return cls(tree_height(count("steps", steps)))

    def init(self, point: Pytree) -> Float[Array, "rows d"]:
        return zero_rows(self.height, point)

    def update(
        self, state: Float[Array, "rows d"], t: Array, key: Key[Array, ""], like: Pytree
    ) -> tuple[Pytree, Array]:
        t, fresh = jnp.asarray(t), sample_normal(key, t, like)
        level = jax.lax.population_count(t & ~(t + 1))
        halves, deviations = (jnp.asarray(table, fresh.dtype) for table in _weights(self.height))

        def merge(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            i, estimate, covered = carry
            half = state[i]
            return i + 1, halves[i + 1] * (half + estimate), covered + half

        empty = jnp.zeros_like(level), jnp.zeros_like(fresh), jnp.zeros_like(fresh)
        _, partial, covered = jax.lax.while_loop(lambda carry: carry[0] < level, merge, empty)
        estimate = deviations[level] * fresh + partial
        state = jax.lax.dynamic_update_index_in_dim(state, estimate, level, 0)
        return unravel_like(estimate - covered, like), state

    def factorisation(self, steps: int) -> Factorisation:
        if tree_height(count("steps", steps)) > self.height:
            raise ValueError(
                f"steps must be at most {2**self.height - 1} for a tree of height {self.height}, "
                f"got {steps}"
            )
        return TreeFactorisation(steps, refined=True)


def _weights(height: int) -> tuple[np.ndarray, np.ndarray]:
    """Return ``1 - w_j`` and ``s_j``; ``w_j`` in float32, so that ``1 - w_j`` is exact."""
    own = [float(np.float32(1.0 / (2.0 - 2.0**-j))) for j in range(height)]
    deviations = [1.0]
    for w in own[1:]:
        deviations.append(round_up(math.hypot(w, (1.0 - w) * deviations[-1])))
    return 1.0 - np.array(own), np.array(deviations)

"""Thresholds ``t`` at which ``(x - t)_+ = max(x - t, 0)`` has a given size, found without a sort.

All of them take ``x`` over the last axis, of any leading shape, and return ``t`` with a last axis of
length one. Each is the root of a monotone function whose pieces are known in closed form once the
set ``{j : x_j > t}`` is. A loop moves ``t`` until that set stays what it was; its rounds, some ten
for ``10^6`` coordinates, are passes over ``x`` and of fixed shape. Callers subtract the largest
coordinate first (:func:`lowered`): all that counts is then exact, however large ``x`` is.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

__all__ = ["l1_threshold", "l2_threshold", "lowered", "onto_simplex", "ratio_threshold"]

SAMPLE_STRIDE = 16
MIN_SAMPLED = 4096  # coordinates; below it a first guess costs more than it saves
MAX_ROUNDS = 128


def lowered(x: jax.Array) -> jax.Array:
    """``x - max_j x_j``: exact where ``x_j`` is within a factor two of the largest coordinate."""
    return x - jnp.max(x, axis=-1, keepdims=True)


def onto_simplex(x: jax.Array, total: jax.Array) -> jax.Array:
    """Projection onto ``{v >= 0, sum v = total}``: ``(x - t)_+`` with the ``t`` of that sum.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> onto_simplex(jnp.array([0.5, 1.0]), 1.0).tolist()
    [0.25, 0.75]
    """
    x = lowered(x)
    return jnp.maximum(x - l1_threshold(x, total), 0.0)


def l1_threshold(x: jax.Array, total: jax.Array) -> jax.Array:
    """``t`` with ``sum_j (x_j - t)_+ = total``, for ``total >= 0``.

    Newton steps for a convex, decreasing, piecewise linear function: from anywhere the first ends
    at or left of the root, and the rest climb to it, exactly, in finitely many rounds (Michelot
    1986, "A finite algorithm for finding the projection of a point onto the canonical simplex",
    in the form of Condat 2016, section 3.3). They begin at the root for every 16th coordinate.
    """
    floor = jnp.max(x, axis=-1, keepdims=True) - total
    start = floor
    if x.shape[-1] >= MIN_SAMPLED:
        guess = l1_threshold(x[..., ::SAMPLE_STRIDE], total / SAMPLE_STRIDE)
        start = jnp.maximum(guess, floor)

    def round_(carry: tuple[jax.Array, jax.Array, jax.Array]) -> tuple[jax.Array, ...]:
        threshold, known, _ = carry
        above = jnp.sum(x > threshold, axis=-1, keepdims=True)
        excess = jnp.sum(jnp.maximum(x - threshold, 0.0), axis=-1, keepdims=True) - total
        moved = threshold + excess / jnp.maximum(above, 1).astype(x.dtype)
        return jnp.maximum(moved, floor), above, jnp.any(above != known)

    begin = (start, jnp.full(start.shape, -1), jnp.asarray(True))
    return jax.lax.while_loop(lambda carry: carry[2], round_, begin)[0]


def l2_threshold(x: jax.Array, radius: jax.Array) -> jax.Array:
    """``t`` with ``||(x - t)_+||_2 = radius``, for ``radius >= 0``.

    Newton steps for a convex, decreasing function, from ``max_j x_j - radius``, left of the root:
    they climb, and end where a step no longer moves ``t`` by a rounding of the radius.
    """
    unit = jnp.where(radius > 0.0, radius, 1.0)
    start = jnp.max(x, axis=-1, keepdims=True) - radius

    def round_(carry: tuple[jax.Array, jax.Array, jax.Array]) -> tuple[jax.Array, ...]:
        threshold, _, rounds = carry
        over = jnp.maximum(x - threshold, 0.0) / unit
        first = jnp.sum(over, axis=-1, keepdims=True)
        second = jnp.sqrt(jnp.sum(jnp.square(over), axis=-1, keepdims=True))
        step = (second - radius / unit) * second / jnp.where(first > 0.0, first, 1.0)
        moving = jnp.any(step > jnp.finfo(x.dtype).eps)
        return threshold + unit * jnp.maximum(step, 0.0), moving, rounds + 1

    def unfinished(carry: tuple[jax.Array, jax.Array, jax.Array]) -> jax.Array:
        return carry[1] & (carry[2] < MAX_ROUNDS)

    begin = (start, jnp.asarray(True), jnp.zeros((), int))
    return jax.lax.while_loop(unfinished, round_, begin)[0]


def ratio_threshold(
    x: jax.Array, ratio: jax.Array, lowest: jax.Array, highest: jax.Array
) -> jax.Array:
    """The least ``t`` in ``[lowest, highest]`` with ``||(x - t)_+||_1 <= ratio ||(x - t)_+||_2``.

    ``highest``, below ``max_j x_j``, where there is none. The quotient of the norms falls in ``t``.
    With ``k`` coordinates above ``t``, of mean ``a`` and sum of squares ``V`` about it, the root
    is ``t = a - ratio sqrt(V/(k (k - ratio^2)))``. It is tried where it lies between the bounds,
    their middle at every other round, until no coordinate lies between.

    Parameters
    ----------
    x : jax.Array
        No larger than about one, so that squares stay within range.
    ratio, lowest, highest : jax.Array
        They broadcast against ``x``, with a last axis of length one.
    """
    shape = (*x.shape[:-1], 1)
    lowest, highest = (jnp.broadcast_to(end, shape) for end in (lowest, highest))

    def looked_at(threshold: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        over = jnp.maximum(x - threshold, 0.0)
        above = jnp.sum(over > 0.0, axis=-1, keepdims=True)
        number = jnp.maximum(above, 1).astype(x.dtype)
        first = jnp.sum(over, axis=-1, keepdims=True)
        second = jnp.sum(jnp.square(over), axis=-1, keepdims=True)
        spread = jnp.maximum(second - jnp.square(first) / number, 0.0)
        spare = number - jnp.square(ratio)
        solvable = spare > 0.0
        below = ratio * jnp.sqrt(spread / (number * jnp.where(solvable, spare, 1.0)))
        root = threshold + first / number - jnp.where(solvable, below, jnp.inf)
        return above, root, first <= ratio * jnp.sqrt(second)

    at_low, guess, low_meets = looked_at(lowest)
    at_high, _, high_meets = looked_at(highest)
    low = jnp.where(high_meets, lowest, highest)
    high = jnp.where(low_meets, lowest, highest)

    Bracket = tuple[jax.Array, ...]

    def round_(carry: Bracket) -> Bracket:
        low, high, at_low, at_high, guess, rounds = carry
        middle = low + 0.5 * (high - low)
        tried = (low < guess) & (guess < high) & (rounds % 2 == 0)
        threshold = jnp.where(tried, guess, middle)
        above, guess, meets = looked_at(threshold)
        low, at_low = (jnp.where(meets, *pair) for pair in ((low, threshold), (at_low, above)))
        high, at_high = (jnp.where(meets, *pair) for pair in ((threshold, high), (above, at_high)))
        return low, high, at_low, at_high, guess, rounds + 1

    def unfinished(carry: Bracket) -> jax.Array:
        low, high, at_low, at_high, _, rounds = carry
        return jnp.any((low < high) & (at_low != at_high)) & (rounds < MAX_ROUNDS)

    begin = (low, high, at_low, at_high, guess, jnp.zeros((), int))
    low, high, *_ = jax.lax.while_loop(unfinished, round_, begin)
    threshold = low
    for _ in range(2):  # the second time next to the root, where the spread is exact
        threshold = jnp.clip(looked_at(threshold)[1], low, high)
    return threshold

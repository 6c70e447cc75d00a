"""Thresholds ``t`` at which ``(x - t)_+ = max(x - t, 0)`` has a given size, found without a sort.

``x`` has shape ``(..., d)`` and ``t`` shape ``(..., 1)``; other numbers broadcast against ``t``.
The largest ``x_j`` must be 0 (:func:`lowered`), so that the coordinates near the threshold are
exact, however large ``x`` was. A round is one pass over ``x``; about ten are needed for ``10^6``
coordinates, and their number is bounded whatever ``x`` holds. On a CPU long rows are searched one
after another: each stays in the cache, and takes no more rounds than it needs itself. An
accelerator, which reads on the host whether a round follows, searches all of them at once.

*Newton's method from the left.* For ``f`` convex and decreasing, steps from ``f(t) >= 0`` rise and
never pass the root. Let ``f_k`` be the values, ``g_k`` the absolute slopes. Convexity at ``t_{k+1}
= t_k + f_k/g_k`` says ``f_k >= f_{k+1} + g_{k+1} f_k/g_k``, so ``f_{k+1}/f_k + g_{k+1}/g_k <= 1``,
and the product ``f g`` falls to a quarter or less in every round. Where all ``x_j - t`` are at most
the size that is asked for, ``f_0`` is below ``d`` sizes and slopes lie in ``[1, d]``. So ``f_k`` is
below ``d^2 4^-k`` sizes: less than a rounding of float64 at ``k = 58``, for ``d <= 2^31``. In
floating point a loop also ends when ``t`` has not risen; a comparison with NaN ends it too.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp

from privopt.convex.turns import in_turn_on_cpu

MIN_LONG = 512  # coordinates of a row; shorter ones are searched together
MIN_SAMPLED = 4096  # coordinates; below it a first guess costs more than it saves
SAMPLE_STRIDE = 16
MAX_NEWTON_ROUNDS = 60
MAX_BRACKETED_ROUNDS = 128  # half of them halve the bracket

Threshold = Callable[..., jax.Array]


def lowered(x: jax.Array) -> jax.Array:
    """``x - max_j x_j``: exact where ``x_j`` is within a factor two of the largest coordinate."""
    return x - jnp.max(x, axis=-1, keepdims=True)


def in_range(size: jax.Array) -> jax.Array:
    """A power of two whose product with ``size`` has a finite inverse and finite sums."""
    shift = jnp.where(size > 2.0**64, 2.0**-64, jnp.where(size < 2.0**-64, 2.0**64, 1.0))
    return shift.astype(size.dtype)


def onto_simplex(x: jax.Array, total: jax.Array) -> jax.Array:
    """Projection onto ``{v >= 0, sum v = total}``: ``(x - t)_+`` with the ``t`` of that sum.

    Examples
    --------
    >>> onto_simplex(jnp.array([0.5, 1.0]), jnp.array(1.0)).tolist()
    [0.25, 0.75]
    """
    x = lowered(x)
    return jnp.maximum(x - l1_threshold(x, total), 0.0)


def by_rows(threshold: Threshold) -> Threshold:
    """The same function, over long rows one after another on a CPU, under ``vmap`` too."""
    alone = in_turn_on_cpu(threshold)

    @jax.jit
    @functools.wraps(threshold)
    def of_rows(x: jax.Array, *numbers: jax.Array) -> jax.Array:
        shape = (*x.shape[:-1], 1)
        numbers = tuple(jnp.broadcast_to(number, shape) for number in numbers)
        if x.shape[-1] < MIN_LONG:
            return threshold(x, *numbers)
        search = alone
        for _ in x.shape[:-1]:
            search = jax.vmap(search)
        return search(x, *numbers)

    return of_rows


@by_rows
def l1_threshold(x: jax.Array, total: jax.Array) -> jax.Array:
    """``t`` with ``sum_j (x_j - t)_+ = total``, for ``total >= 0``.

    Newton's method from the left, where the sum is piecewise linear: exact and finite (Michelot
    1986, "A finite algorithm for finding the projection of a point onto the canonical simplex", in
    the form of Condat 2016, section 3.3). It begins with the step from the root for every 16th
    coordinate: a step from the right of the root ends left of it. The root is at least ``-total``.
    The last step is taken even if it goes down: it corrects the rounding of those before it.
    """
    shift = in_range(total)
    total = total * shift
    x = jnp.maximum(x * shift, -total)

    def step(threshold: jax.Array) -> jax.Array:
        above = jnp.sum(x > threshold, axis=-1, keepdims=True)
        excess = jnp.sum(jnp.maximum(x - threshold, 0.0), axis=-1, keepdims=True) - total
        return jnp.maximum(threshold + excess / jnp.maximum(above, 1).astype(x.dtype), -total)

    start = -total
    if x.shape[-1] >= MIN_SAMPLED:
        sample = x[..., ::SAMPLE_STRIDE]
        highest = jnp.max(sample, axis=-1, keepdims=True)
        guess = highest + l1_threshold(sample - highest, total / SAMPLE_STRIDE)
        start = step(jnp.maximum(guess, start))
    return climbed(step, start) / shift


@by_rows
def l2_threshold(x: jax.Array, radius: jax.Array) -> jax.Array:
    """``t`` with ``||(x - t)_+||_2 = radius``, for ``radius >= 0``.

    Newton's method from the left, from ``-radius``.
    """
    shift = in_range(radius)
    x, radius = x * shift, radius * shift
    unit = jnp.where(radius > 0.0, radius, 1.0)

    def step(threshold: jax.Array) -> jax.Array:
        over = jnp.maximum(x - threshold, 0.0) / unit
        first = jnp.sum(over, axis=-1, keepdims=True)
        second = jnp.sqrt(jnp.sum(jnp.square(over), axis=-1, keepdims=True))
        excess = (second - radius / unit) * second / jnp.where(first > 0.0, first, 1.0)
        return threshold + unit * excess

    return climbed(step, -radius) / shift


def climbed(step: Callable[[jax.Array], jax.Array], start: jax.Array) -> jax.Array:
    """The last of the steps from ``start``: the first one that does not rise."""

    Climb = tuple[jax.Array, jax.Array, jax.Array]

    def unfinished(carry: Climb) -> jax.Array:
        threshold, moved, rounds = carry
        return jnp.any(moved > threshold) & (rounds < MAX_NEWTON_ROUNDS)

    def round_(carry: Climb) -> Climb:
        threshold, moved, rounds = carry
        threshold = jnp.maximum(threshold, moved)
        return threshold, step(threshold), rounds + 1

    begin = (start, step(start), jnp.zeros((), int))
    return jax.lax.while_loop(unfinished, round_, begin)[1]


@by_rows
def ratio_threshold(
    x: jax.Array, ratio: jax.Array, lowest: jax.Array, highest: jax.Array
) -> jax.Array:
    """The least ``t`` in ``[lowest, highest]`` with ``||(x - t)_+||_1 <= ratio ||(x - t)_+||_2``.

    ``highest``, below 0, where there is none. The quotient of the norms falls in ``t``. With ``k``
    coordinates above ``t``, of mean ``a`` and sum of squares ``V`` about it, the root is ``t = a -
    ratio sqrt(V/(k (k - ratio^2)))``. It is tried where it lies between the bounds, their middle at
    every other round, until no coordinate lies between.
    """

    def looked_at(threshold: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        unit = jnp.maximum(-threshold, 4.0 * jnp.finfo(x.dtype).tiny)
        over = jnp.maximum(x - threshold, 0.0) / unit  # at most one, so that squares are in range
        above = jnp.sum(over > 0.0, axis=-1, keepdims=True)
        number = jnp.maximum(above, 1).astype(x.dtype)
        first = jnp.sum(over, axis=-1, keepdims=True)
        second = jnp.sum(jnp.square(over), axis=-1, keepdims=True)
        spread = jnp.maximum(second - jnp.square(first) / number, 0.0)
        spare = number - jnp.square(ratio)
        solvable = spare > 0.0
        below = ratio * jnp.sqrt(spread / (number * jnp.where(solvable, spare, 1.0)))
        root = threshold + unit * (first / number - jnp.where(solvable, below, jnp.inf))
        return above, root, first <= ratio * jnp.sqrt(second)

    at_low, guess, low_meets = looked_at(lowest)
    at_high, _, high_meets = looked_at(highest)
    low = jnp.where(high_meets, lowest, highest)
    high = jnp.where(low_meets, lowest, highest)

    Bracket = tuple[jax.Array, jax.Array, jax.Array, jax.Array, jax.Array, jax.Array]

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
        return jnp.any((low < high) & (at_low != at_high)) & (rounds < MAX_BRACKETED_ROUNDS)

    begin = (low, high, at_low, at_high, guess, jnp.zeros((), int))
    low, high, *_ = jax.lax.while_loop(unfinished, round_, begin)
    threshold = low
    for _ in range(2):  # the second time next to the root, where the spread is exact
        threshold = jnp.clip(looked_at(threshold)[1], low, high)
    return threshold

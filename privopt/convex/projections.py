"""Thresholds ``t`` at which ``(x - t)_+ = max(x - t, 0)`` has a given norm, without a sort.

``x`` has shape ``(..., d)`` and ``t`` shape ``(..., 1)``; other numbers broadcast against ``t``.
The largest ``x_j`` must be 0 (:func:`shift_maximum`). The coordinates near the threshold are then
exact for any size of ``x``. A round is one pass over ``x``. About ten rounds are needed for
``10^6`` coordinates, and their number is bounded for every ``x``
(:ref:`Solvers, Theorem 1 <theory-solvers-1>`). In floating point a loop also ends if ``t`` does not
increase, or on NaN.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

from privopt.convex.loops import sequential_on_cpu

MIN_LONG = 512  # coordinates of a row; shorter rows are searched together
MIN_SAMPLED = 4096  # coordinates; for shorter rows an initial guess costs more than it saves
SAMPLE_STRIDE = 16
MAX_NEWTON_ROUNDS = 60
MAX_BRACKETED_ROUNDS = 128  # half of them halve the interval

Threshold = Callable[..., Array]


def shift_maximum(x: Float[Array, "*batch d"]) -> Float[Array, "*batch d"]:
    """Return ``x - max_j x_j``, exact for ``x_j`` within a factor 2 of the maximum."""
    return x - jnp.max(x, axis=-1, keepdims=True)


def range_factor(size: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Return a power of two such that its product with ``size`` has finite inverse and sums."""
    factor = jnp.where(size > 2.0**64, 2.0**-64, jnp.where(size < 2.0**-64, 2.0**64, 1.0))
    return factor.astype(size.dtype)


def project_simplex(x: Float[Array, "*batch d"], total: Array) -> Float[Array, "*batch d"]:
    """Project onto ``{v >= 0, sum v = total}``.

    Examples
    --------
    >>> project_simplex(jnp.array([0.5, 1.0]), jnp.array(1.0)).tolist()
    [0.25, 0.75]
    """
    x = shift_maximum(x)
    return jnp.maximum(x - l1_threshold(x, total), 0.0)


def _by_rows(threshold: Threshold) -> Threshold:
    """Search long rows sequentially on a CPU, also under ``vmap``.

    Each row then stays in the cache and takes only the rounds that it needs. An accelerator, which
    reads the condition of a loop on the host, searches all rows at once.
    """
    sequential = sequential_on_cpu(threshold)

    @jax.jit
    @functools.wraps(threshold)
    def of_rows(x: Array, *numbers: Array) -> Array:
        shape = (*x.shape[:-1], 1)
        numbers = tuple(jnp.broadcast_to(number, shape) for number in numbers)
        if x.shape[-1] < MIN_LONG:
            return threshold(x, *numbers)
        search = sequential
        for _ in x.shape[:-1]:
            search = jax.vmap(search)
        return search(x, *numbers)

    return of_rows


@_by_rows
def l1_threshold(x: Float[Array, "*batch d"], total: Array) -> Float[Array, "*batch 1"]:
    """Solve ``sum_j (x_j - t)_+ = total`` for ``t``, with ``total >= 0``.

    Newton's method from the left is exact and finite, because the sum is piecewise linear (Michelot
    1986, in the form of Condat 2016, section 3.3). It starts with one step from the root for every
    16th coordinate; a step from the right of the root ends on the left. The root is at least
    ``-total``. The last step is taken even if it decreases, because it corrects earlier rounding.
    """
    factor = range_factor(total)
    total = total * factor
    x = jnp.maximum(x * factor, -total)

    def step(threshold: Array) -> Array:
        larger = jnp.sum(x > threshold, axis=-1, keepdims=True)
        excess = jnp.sum(jnp.maximum(x - threshold, 0.0), axis=-1, keepdims=True) - total
        return jnp.maximum(threshold + excess / jnp.maximum(larger, 1).astype(x.dtype), -total)

    start = -total
    if x.shape[-1] >= MIN_SAMPLED:
        sample = x[..., ::SAMPLE_STRIDE]
        highest = jnp.max(sample, axis=-1, keepdims=True)
        guess = highest + l1_threshold(sample - highest, total / SAMPLE_STRIDE)
        start = step(jnp.maximum(guess, start))
    return _ascend(step, start) / factor


@_by_rows
def l2_threshold(x: Float[Array, "*batch d"], radius: Array) -> Float[Array, "*batch 1"]:
    """Solve ``||(x - t)_+||_2 = radius`` for ``t``, with ``radius >= 0``."""
    factor = range_factor(radius)
    x, radius = x * factor, radius * factor
    unit = jnp.where(radius > 0.0, radius, 1.0)

    def step(threshold: Array) -> Array:
        over = jnp.maximum(x - threshold, 0.0) / unit
        first = jnp.sum(over, axis=-1, keepdims=True)
        second = jnp.sqrt(jnp.sum(jnp.square(over), axis=-1, keepdims=True))
        excess = (second - radius / unit) * second / jnp.where(first > 0.0, first, 1.0)
        return threshold + unit * excess

    return _ascend(step, -radius) / factor


def _ascend(step: Callable[[Array], Array], start: Array) -> Array:
    """Iterate ``step`` and return its first value that does not increase."""

    Carry = tuple[Array, Array, Array]

    def unfinished(carry: Carry) -> Array:
        threshold, target, rounds = carry
        return jnp.any(target > threshold) & (rounds < MAX_NEWTON_ROUNDS)

    def round_(carry: Carry) -> Carry:
        threshold, target, rounds = carry
        threshold = jnp.maximum(threshold, target)
        return threshold, step(threshold), rounds + 1

    first = (start, step(start), jnp.zeros((), int))
    return jax.lax.while_loop(unfinished, round_, first)[1]


@_by_rows
def ratio_threshold(
    x: Float[Array, "*batch d"], ratio: Array, lowest: Array, highest: Array
) -> Float[Array, "*batch 1"]:
    """Return the least ``t`` in an interval with ``||(x - t)_+||_1 <= ratio ||(x - t)_+||_2``.

    The interval is ``[lowest, highest]`` with ``highest < 0``. If there is no such ``t``, the
    result is ``highest``. Rounds alternate between the root for the current coordinates above
    ``t``, if it is within the bounds, and bisection. The search ends when no coordinate is between
    the bounds.
    """

    def evaluate(threshold: Array) -> tuple[Array, Array, Array]:
        unit = jnp.maximum(-threshold, 4.0 * jnp.finfo(x.dtype).tiny)
        over = jnp.maximum(x - threshold, 0.0) / unit  # at most 1, so squares are in range
        larger = jnp.sum(over > 0.0, axis=-1, keepdims=True)
        number = jnp.maximum(larger, 1).astype(x.dtype)
        first = jnp.sum(over, axis=-1, keepdims=True)
        second = jnp.sum(jnp.square(over), axis=-1, keepdims=True)
        spread = jnp.maximum(second - jnp.square(first) / number, 0.0)
        spare = number - jnp.square(ratio)
        solvable = spare > 0.0
        distance = ratio * jnp.sqrt(spread / (number * jnp.where(solvable, spare, 1.0)))
        root = threshold + unit * (first / number - jnp.where(solvable, distance, jnp.inf))
        return larger, root, first <= ratio * jnp.sqrt(second)

    at_low, guess, low_meets = evaluate(lowest)
    at_high, _, high_meets = evaluate(highest)
    low = jnp.where(high_meets, lowest, highest)
    high = jnp.where(low_meets, lowest, highest)

    Bracket = tuple[Array, Array, Array, Array, Array, Array]

    def round_(carry: Bracket) -> Bracket:
        low, high, at_low, at_high, guess, rounds = carry
        middle = low + 0.5 * (high - low)
        use_guess = (low < guess) & (guess < high) & (rounds % 2 == 0)
        threshold = jnp.where(use_guess, guess, middle)
        larger, guess, meets = evaluate(threshold)
        low, at_low = (jnp.where(meets, *pair) for pair in ((low, threshold), (at_low, larger)))
        high, at_high = (jnp.where(meets, *pair) for pair in ((threshold, high), (larger, at_high)))
        return low, high, at_low, at_high, guess, rounds + 1

    def unfinished(carry: Bracket) -> Array:
        low, high, at_low, at_high, _, rounds = carry
        return jnp.any((low < high) & (at_low != at_high)) & (rounds < MAX_BRACKETED_ROUNDS)

    interval = (low, high, at_low, at_high, guess, jnp.zeros((), int))
    low, high, *_ = jax.lax.while_loop(unfinished, round_, interval)
    threshold = low
    for _ in range(2):  # the second evaluation is next to the root, where the spread is exact
        threshold = jnp.clip(evaluate(threshold)[1], low, high)
    return threshold

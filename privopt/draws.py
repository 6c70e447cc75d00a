"""Noise whose tails reach as far as a privacy claim looks.

A law that is the image of one 32-bit word ends where that word ends: float32 normals of the usual
kind stop at 5.42 standard deviations, and what a neighbour alone can produce beyond has more
probability than most claims allow. Here every law is the exact image of a uniform number of 96
bits, of which the small end and the large end are both resolved to float precision.

The uniform number is the midpoint of one of ``2^96`` equal cells of ``(0, 1)``. So each law is a
rounding of the ideal one: to the precision of the dtype, except in the outermost cells, which are
wider (with probability ``2^-72`` in float32, ``2^-43`` in float64), and the last at an end, of
probability ``2^-96``, stands for all that lies beyond. The rounding is one of those of
floating-point noise, which no claim of this package covers; the end is charged to ``delta``,
:func:`end_cost`. A claim of pure differential privacy has no ``delta`` to charge, and fails with
probability ``2^-96`` a draw; with any number of bits it would fail with some probability.

Words have 32 bits whether or not float64 is enabled. Other types than float32 and float64 are
refused: noise rounded to an integer is zero with positive probability.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from privopt.arguments import checked
from privopt.streams import as_key

__all__ = [
    "EXPONENTIAL_REACH",
    "NORMAL_REACH",
    "end_cost",
    "exponential",
    "gumbel",
    "laplace",
    "norm_laplace",
    "normal",
    "order",
]

Dtype: TypeAlias = np.dtype[Any] | type | str

_CELLS = 2.0**96
_STREAM = 0x64726177
_TURNS = ((13, 15, 26, 6), (17, 29, 16, 24))  # bits, of Threefry's rounds

EXPONENTIAL_REACH = math.log(2.0 * _CELLS)
"""``97 ln 2 = 67.2``: the largest exponential variable, and Laplace variable in size."""

NORMAL_REACH = math.sqrt(2.0 * EXPONENTIAL_REACH)
"""``11.6``: the largest normal variable in size."""


@checked
def end_cost(epsilon: float, numbers: float = 2.0**40) -> float:
    """What the ends of the tails add to ``delta`` at ``epsilon``, in a run of so many draws.

    Each draw is the rounding of an ideal one but for a probability of ``2^-96``, so the laws of all
    draws of a run are within ``t = numbers 2^-96`` of the ideal ones in total variation, on both of
    two neighbours: ``P(S) <= P*(S) + t <= e^epsilon P'*(S) + delta + t``, and ``P'* <= P' + t``:
    ``(1 + e^epsilon) t``, infinite beyond float64. Two normals are one draw.
    """
    return numbers / _CELLS * (1.0 + math.exp(epsilon)) if epsilon < 700.0 else math.inf


@checked
@partial(jax.jit, static_argnames=("shape", "dtype"))
def normal(key: Array, shape: tuple[int, ...], dtype: Dtype) -> Array:
    """Standard normals, in pairs ``sqrt(2 E) (cos a, sin a)`` of an exponential and an angle.

    The angle has 32 random bits in float32, 64 in float64. Source: Box and Muller, "A note on the
    generation of random normal deviates", 1958.
    """
    size = math.prod(shape)
    work = _working(dtype)
    fine = work == jnp.float64
    words = _words(key, 3 if fine else 2, (size + 1) // 2)
    radius = jnp.sqrt(2.0 * _exponential(words, work))
    # An eighth of the circle, where sine and cosine are both accurate, and three bits: which.
    rest = (words[4].astype(work) + 0.5) / 2.0**32 if fine else 0.5
    angle = ((words[3] >> 3).astype(work) + rest) * (math.pi / 2.0**31)
    cosine, sine = (jnp.cos(angle), jnp.sin(angle)) if fine else _circle(angle)
    long, short = radius * cosine, radius * sine
    swapped = words[3] & 1 == 1
    first = _signed(words[3] >> 1, jnp.where(swapped, short, long))
    second = _signed(words[3] >> 2, jnp.where(swapped, long, short))
    return jnp.concatenate([first, second])[:size].reshape(shape)


@checked
@partial(jax.jit, static_argnames=("shape", "dtype"))
def exponential(key: Array, shape: tuple[int, ...], dtype: Dtype) -> Array:
    """``P(E > t) = e^-t``."""
    work = _working(dtype)
    drawn = _exponential(_words(key, 2, math.prod(shape)), work)
    return drawn.reshape(shape)


@checked
@partial(jax.jit, static_argnames=("shape", "dtype"))
def laplace(key: Array, shape: tuple[int, ...], dtype: Dtype) -> Array:
    """``P(|Z| > t) = e^-t``, with a fair sign."""
    work = _working(dtype)
    words = _words(key, 2, math.prod(shape))
    return _signed(words[3], _exponential(words, work)).reshape(shape)


@checked
@partial(jax.jit, static_argnames=("shape", "dtype"))
def gumbel(key: Array, shape: tuple[int, ...], dtype: Dtype) -> Array:
    """``P(Z <= t) = exp(-e^-t)``: minus the logarithm of an exponential variable."""
    work = _working(dtype)
    drawn = -jnp.log(_exponential(_words(key, 2, math.prod(shape)), work))
    return drawn.reshape(shape)


@checked
@partial(jax.jit, static_argnames=("dim", "dtype"))
def norm_laplace(key: Array, dim: int, dtype: Dtype) -> Array:
    """A vector with density proportional to ``exp(-|z|_2)``, shape ``(dim,)``.

    The direction is that of a normal vector, the radius ``Gamma(dim)``, a sum of ``dim``
    exponential variables.
    """
    direction_key, radius_key = jax.random.split(key)
    direction = normal(direction_key, (dim,), dtype)
    radius = exponential(radius_key, (dim,), dtype).sum()
    return radius * direction / jnp.linalg.norm(direction)


@checked
@partial(jax.jit, static_argnames="n")
def order(key: Array, n: int) -> Array:
    """Return a random order of ``0..n-1``, int32, by sorting pairs of random words.

    Words of 32 bits do not depend on whether float64 is enabled, as those of 64 bits would. The
    last bits of each pair are replaced by its number. The order is uniform but for ties in the
    other bits, of probability below ``n^2 2^{bits(n) - 65}``.

    Examples
    --------
    >>> sorted(order(jax.random.key(0), 4).tolist())
    [0, 1, 2, 3]
    """
    numbers = jnp.arange(n, dtype=jnp.uint32)
    first, second = _threefry(jax.random.key_data(as_key(key)), jnp.zeros_like(numbers), numbers)
    bits = n.bit_length()
    second = second >> bits << bits | numbers
    _, second = jax.lax.sort((first, second), num_keys=2)
    return (second & (2**bits - 1)).astype(jnp.int32)


def _exponential(words: list[Array], dtype: Dtype) -> Array:
    """``-ln U``."""
    part, below = _uniform(words, dtype)
    inside = jnp.where(below, part, 1.0 - part)
    lost = jnp.where(below, 0.0, (1.0 - inside) - part)  # what rounding took from 1 - part
    return -jnp.log(inside) - lost / inside


def _uniform(words: list[Array], dtype: Dtype) -> tuple[Array, Array]:
    """``(v, below)`` of ``U = v`` where below one half, else ``1 - v``; ``v`` in ``(0, 1/2]``."""
    parts = [word.astype(dtype) for word in (words[0] << 1 >> 1, words[1], words[2])]
    part = parts[0] / 2.0**32 + (parts[1] / 2.0**64 + (parts[2] + 0.5) / 2.0**96)
    return part, words[0] >> 31 == 0


def _circle(angle: Array) -> tuple[Array, Array]:
    """Cosine and sine from 0 to ``pi/4``, to a unit in the last place of float32.

    XLA calls a library for every single number on a CPU; polynomials are vector instructions.
    Source: Moshier, "Cephes mathematical library", ``sinf.c``.
    """
    square = angle * angle
    low, middle, high = 4.166664568298827e-2, -1.388731625493765e-3, 2.443315711809948e-5
    cosine = 1.0 + square * (-0.5 + square * (low + square * (middle + square * high)))
    low, middle, high = -1.6666654611e-1, 8.3321608736e-3, -1.9515295891e-4
    return cosine, angle + angle * square * (low + square * (middle + square * high))


def _signed(word: Array, size: Array) -> Array:
    """``size`` with the sign that the lowest bit of ``word`` gives."""
    return jnp.where(word & 1 == 1, -size, size)


def _words(key: Array, blocks: int, size: int) -> list[Array]:
    """``2 blocks`` independent arrays of ``size`` words of 32 bits, in a stream of their own.

    They are the keys into which that stream's key would be split: two words for one run of the
    generator, of which ``jax.random.bits`` would keep one. The streams that ``fold_in(key, 0)``,
    ... begin are others. A second run that counts on from ``2^32`` would repeat the first.
    """
    if blocks * size > 2**32:
        raise ValueError(f"shape must need at most 2^32 pairs of words, got {blocks * size}")
    stream = jax.random.key_data(jax.random.fold_in(as_key(key), _STREAM))

    def counted(count: Array) -> tuple[Array, Array]:
        return _threefry(stream, jnp.zeros_like(count), count)

    def in_turn(counts: Array) -> tuple[Array, Array]:
        return jax.lax.map(counted, counts)

    # In a loop a CPU makes the words once: fused into what uses them, they are made many times. On
    # an accelerator a loop costs launches.
    counts = jnp.arange(blocks * size, dtype=jnp.uint32).reshape(blocks, size)
    halves = jax.lax.platform_dependent(counts, cpu=in_turn, default=counted)
    return [half[i] for i in range(blocks) for half in halves]


def _threefry(key: Array, first: Array, second: Array) -> tuple[Array, Array]:
    """Threefry-2x32 of 20 rounds, as JAX has it, without the loop that JAX makes of them on CPUs.

    Source: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011.
    """
    keys = (key[0], key[1], key[0] ^ key[1] ^ jnp.uint32(0x1BD11BDA))
    first, second = first + keys[0], second + keys[1]
    for i in range(5):
        for turn in _TURNS[i % 2]:
            first = first + second
            second = first ^ (second << turn | second >> 32 - turn)
        first, second = first + keys[(i + 1) % 3], second + keys[(i + 2) % 3] + jnp.uint32(i + 1)
    return first, second


def _working(dtype: Dtype) -> np.dtype[Any]:
    """Return ``dtype`` if noise can be drawn in it."""
    working = np.dtype(jnp.dtype(dtype))
    if working not in (jnp.float32, jnp.float64):
        raise ValueError(f"dtype of noise must be float32 or float64, got {working.name}")
    return working

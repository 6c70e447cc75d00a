"""Randomness: named streams of a key, and noise samplers with accurate tails.

*Streams* are the children of one key, distinguished by name. JAX derives keys by number:
``fold_in(key, number)``; ``split(key)[i]`` is ``fold_in(key, i)``. Two uses of one key therefore
coincide if their numbers do. The steps of a loop use numbers below ``2^31``, with
``fold_in(key, t)``; ``split`` uses the first of these. Each name has a separate number from
``2^31`` on. For one key the map from number to child is a bijection of the generator, so different
numbers never give equal keys.

This is true of JAX's generator Threefry, and not of all its generators: the children of a key of
``unsafe_rbg`` commute, ``fold_in(fold_in(key, 1), 2) == fold_in(fold_in(key, 2), 1)``, so streams
of one key share noise. All keys enter through :func:`as_key`.

*Samples* are exact functions of a uniform number of 96 bits, the midpoint of one of ``2^96``
equal cells of ``(0, 1)``, so both ends of its range are resolved to float precision. The usual
float32 normals, functions of 32 bits, end at 5.42 standard deviations. The end of a tail is charged
to ``delta`` (:func:`end_cost`, :ref:`Mechanisms, Theorem 16 <theory-mechanisms-16>`). Rounding to
the dtype is a floating-point effect, which no guarantee of this package covers.

Words have 32 bits whether or not float64 is enabled. Types other than float32 and float64 are
refused: noise rounded to an integer is zero with positive probability.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from privopt.arguments import checked, described, shown

__all__ = [
    "EXPONENTIAL_REACH",
    "NORMAL_REACH",
    "STREAMS",
    "as_key",
    "cauchy",
    "end_cost",
    "exponential",
    "gumbel",
    "laplace",
    "norm_laplace",
    "normal",
    "order",
    "stream",
]

Dtype: TypeAlias = np.dtype[Any] | type | str

_CELLS = 2.0**96
_STREAM = 0x64726177
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))  # bits, of Threefry's rounds

EXPONENTIAL_REACH = math.log(2.0 * _CELLS)
"""``97 ln 2 = 67.2``: the largest size of exponential and Laplace variables."""

NORMAL_REACH = math.sqrt(2.0 * EXPONENTIAL_REACH)
"""``11.6``: the largest size of a normal variable."""

STREAMS: Mapping[str, int] = MappingProxyType(
    {
        "noise": 2**31,
        "batches": 2**31 + 1,
        "public": 2**31 + 2,
        "output": 2**31 + 3,
        "runs": 2**31 + 4,
        "solver": 2**31 + 5,
        "selection": 2**31 + 6,
        "anchors": 2**31 + 7,
        "levels": 2**31 + 8,
    }
)
"""Number of each name. A new number would change every result."""


@checked
def as_key(key: Any, name: str = "key", *, ndim: int = 0) -> Array:
    """Return ``key`` as a key of the generator Threefry; all keys of callers pass this function.

    ``key`` is a typed key (``ndim=0``) or a vector of typed keys (``ndim=1``) of ``threefry2x32``
    or ``rbg``. ``rbg`` derives children as Threefry does, but its bits depend on the number of keys
    that are used together (``jax.vmap``). Therefore only the words of such a key are used, with
    Threefry, so that a run does not depend on ``Execution``. ``ValueError`` for other generators,
    for arrays of integers (``jax.random.PRNGKey``), and for other shapes; the message does not
    contain the key.

    Examples
    --------
    >>> import jax
    >>> str(jax.random.key_impl(as_key(jax.random.key(0, impl="rbg"))))
    'threefry2x32'
    >>> as_key(jax.random.key(0, impl="unsafe_rbg"))
    Traceback (most recent call last):
    ValueError: key must be of the generator threefry2x32 or rbg, got unsafe_rbg
    """
    typed = isinstance(key, Array) and jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    if not typed or key.ndim != ndim:
        kind = "a single typed key" if ndim == 0 else "a vector of typed keys"
        got = f"keys of shape {key.shape}" if typed else described(key)
        if isinstance(key, list | tuple) and key:
            got = "a list of keys; write jnp.stack(keys)"
        raise ValueError(f"{name} must be {kind} made by jax.random.key (and split), got {got}")
    generator = str(jax.random.key_impl(key))
    if generator == "threefry2x32":
        return key
    if generator != "rbg":
        raise ValueError(f"{name} must be of the generator threefry2x32 or rbg, got {generator}")
    words = jax.random.key_data(key)  # two keys of Threefry, equal if the key comes from a seed
    threefry = jax.random.wrap_key_data(words[..., :2], impl="threefry2x32")
    fold_in = jax.vmap(jax.random.fold_in) if ndim else jax.random.fold_in
    return fold_in(fold_in(threefry, words[..., 2]), words[..., 3])


@checked
def stream(key: Array, name: str) -> Array:
    """Return the child of a typed ``key`` for ``name``, one of ``STREAMS``.

    It is independent of the children of other names and of ``fold_in(key, t)`` for
    ``0 <= t < 2^31``. ``noise`` is for the noise of mechanisms, ``batches`` for samplers,
    ``public`` for the public randomness of a plan, ``output`` for an output rule, ``runs`` for the
    streams of ``run(stream=)``, ``solver`` for the noise that hides the error of a solver.

    Examples
    --------
    >>> import jax
    >>> key = jax.random.key(0)
    >>> bool(stream(key, "noise") == stream(key, "batches"))
    False
    """
    if name not in STREAMS:
        raise ValueError(f"name must be one of {', '.join(STREAMS)}, got {shown(name)}")
    return fold_in(key, np.uint32(STREAMS[name]))


def fold_in(key: Array, number: ArrayLike) -> Array:
    """Return the child of a typed ``key`` for a number, the same as ``jax.random.fold_in``.

    JAX's has a loop on CPUs; two of them take 7 % of a step of DP-SGD. This is one kernel.

    Examples
    --------
    >>> key = jax.random.key(0)
    >>> bool(fold_in(key, 3) == jax.random.fold_in(key, 3))
    True
    """
    words = _folded(jax.random.key_data(as_key(key)), jnp.uint32(number))
    return jax.random.wrap_key_data(words, impl="threefry2x32")


@checked
def end_cost(epsilon: float, numbers: float = 2.0**40) -> float:
    """Return the cost of the tail ends in ``delta``, for a run of ``numbers`` samples.

    ``(1 + e^epsilon) numbers 2^-96``, infinite beyond float64. Two normals count as one sample.
    Proof: :ref:`Mechanisms, Theorem 16 <theory-mechanisms-16>`.
    """
    return numbers / _CELLS * (1.0 + math.exp(epsilon)) if epsilon < 700.0 else math.inf


@checked
@partial(jax.jit, static_argnames=("shape", "dtype"))
def normal(key: Array, shape: tuple[int, ...], dtype: Dtype) -> Array:
    """Sample standard normals in pairs ``sqrt(2 E) (cos a, sin a)``.

    ``E`` is an exponential variable and ``a`` an angle. The angle has 32 random bits in float32, 64
    in float64. Source: Box and Muller, "A note on the generation of random normal deviates", 1958.
    """
    size = math.prod(shape)
    work = _working(dtype)
    fine = work == jnp.float64
    words = _words(key, 3 if fine else 2, (size + 1) // 2)
    radius = jnp.sqrt(2.0 * _exponential(words, work))
    # An angle in an eighth of the circle, for which sine and cosine are accurate, and three bits.
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
    """Sample from ``P(E > t) = e^-t``."""
    work = _working(dtype)
    samples = _exponential(_words(key, 2, math.prod(shape)), work)
    return samples.reshape(shape)


@checked
@partial(jax.jit, static_argnames=("shape", "dtype"))
def laplace(key: Array, shape: tuple[int, ...], dtype: Dtype) -> Array:
    """Sample from ``P(|Z| > t) = e^-t``, with a fair sign."""
    work = _working(dtype)
    words = _words(key, 2, math.prod(shape))
    return _signed(words[3], _exponential(words, work)).reshape(shape)


@checked
@partial(jax.jit, static_argnames=("shape", "dtype"))
def gumbel(key: Array, shape: tuple[int, ...], dtype: Dtype) -> Array:
    """Sample from ``P(Z <= t) = exp(-e^-t)``: minus the logarithm of an exponential variable."""
    work = _working(dtype)
    samples = -jnp.log(_exponential(_words(key, 2, math.prod(shape)), work))
    return samples.reshape(shape)


@checked
@partial(jax.jit, static_argnames=("shape", "dtype"))
def cauchy(key: Array, shape: tuple[int, ...], dtype: Dtype) -> Array:
    """Sample from the standard Cauchy law, ``|Z| = cot(pi U/2)``, with a fair sign."""
    work = _working(dtype)
    words = _words(key, 2, math.prod(shape))
    part, is_small = _uniform(words, work)
    tangent = jnp.tan(0.5 * math.pi * part)
    size = jnp.where(is_small, 1.0 / tangent, tangent)
    return _signed(words[3], size).reshape(shape)


@checked
@partial(jax.jit, static_argnames=("dim", "dtype"))
def norm_laplace(key: Array, dim: int, dtype: Dtype) -> Array:
    """Sample a vector with density proportional to ``exp(-|z|_2)``, shape ``(dim,)``.

    The direction is uniform, from a normal vector. The radius is ``Gamma(dim)``, a sum of ``dim``
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

    Words of 32 bits are used because words of 64 bits would depend on the float64 setting. The last
    bits of each pair are replaced by its index. The order is uniform except for ties in the other
    bits, of probability below ``n^2 2^{bits(n) - 65}``.
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
    """Return ``-ln U``."""
    part, is_small = _uniform(words, dtype)
    inside = jnp.where(is_small, part, 1.0 - part)
    error = jnp.where(is_small, 0.0, (1.0 - inside) - part)  # rounding error of 1 - part
    return -jnp.log(inside) - error / inside


def _uniform(words: list[Array], dtype: Dtype) -> tuple[Array, Array]:
    """Return ``v`` in ``(0, 1/2]`` and True if ``U = v``; otherwise ``U = 1 - v``."""
    parts = [word.astype(dtype) for word in (words[0] << 1 >> 1, words[1], words[2])]
    part = parts[0] / 2.0**32 + (parts[1] / 2.0**64 + (parts[2] + 0.5) / 2.0**96)
    return part, words[0] >> 31 == 0


def _circle(angle: Array) -> tuple[Array, Array]:
    """Return cosine and sine on ``[0, pi/4]``, accurate to a unit in the last place of float32.

    On a CPU, XLA calls a library function for every single number; polynomials are vectorised.
    Source: Moshier, "Cephes mathematical library", ``sinf.c``.
    """
    square = angle * angle
    low, middle, high = 4.166664568298827e-2, -1.388731625493765e-3, 2.443315711809948e-5
    cosine = 1.0 + square * (-0.5 + square * (low + square * (middle + square * high)))
    low, middle, high = -1.6666654611e-1, 8.3321608736e-3, -1.9515295891e-4
    return cosine, angle + angle * square * (low + square * (middle + square * high))


def _signed(word: Array, size: Array) -> Array:
    """Return ``size`` with the sign given by the lowest bit of ``word``."""
    return jnp.where(word & 1 == 1, -size, size)


def _words(key: Array, blocks: int, size: int) -> list[Array]:
    """Return ``2 blocks`` independent arrays of ``size`` words of 32 bits, from a separate stream.

    They are the keys that splitting the key of that stream would give: two words per run of the
    generator, of which ``jax.random.bits`` would keep one. The stream differs from the streams that
    ``fold_in(key, 0)``, ... start. Counting beyond ``2^32`` would repeat the first words.
    """
    if blocks * size > 2**32:
        raise ValueError(f"shape must need at most 2^32 pairs of words, got {blocks * size}")
    halves = _pairs(fold_in(key, _STREAM), blocks, size)
    return [half[i] for i in range(blocks) for half in halves]


def child_words(key: Array, count: int) -> Array:
    """Return the first ``count`` words of the keys ``jax.random.split(key, ...)``.

    Each run of the generator gives two words; ``jax.random.bits`` keeps only one.
    """
    halves = _pairs(key, 2, -(-count // 4))
    return jnp.stack(halves, axis=-1).ravel()[:count]


def _pairs(key: Array, blocks: int, size: int) -> tuple[Array, Array]:
    """Return the words of ``blocks * size`` children of a key, in two arrays of that shape."""
    words = jax.random.key_data(key)

    def counted(count: Array) -> tuple[Array, Array]:
        return _threefry(words, jnp.zeros_like(count), count)

    def in_turn(counts: Array) -> tuple[Array, Array]:
        return jax.lax.map(counted, counts)

    # In a loop, a CPU computes the words once; fused into their uses they are computed repeatedly.
    # On an accelerator a loop costs launches.
    counts = jnp.arange(blocks * size, dtype=jnp.uint32).reshape(blocks, size)
    pairs: tuple[Array, Array] = jax.lax.platform_dependent(counts, cpu=in_turn, default=counted)
    return pairs


@partial(jax.jit, inline=True)  # outside of jit one program
def _folded(words: Array, number: Array) -> Array:
    return jnp.stack(_threefry(words, jnp.zeros_like(number), number))


def _threefry(key: Array, first: Array, second: Array) -> tuple[Array, Array]:
    """Compute Threefry-2x32 of 20 rounds, equal to JAX's, without the loop that JAX uses on CPUs.

    Source: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011.
    """
    keys = key[0], key[1], key[0] ^ key[1] ^ jnp.uint32(0x1BD11BDA)
    pair: tuple[Array, Array] = _rounds(
        *(jnp.broadcast_to(word, first.shape) for word in keys), first, second
    )
    return pair


@jax.custom_batching.custom_vmap
@jax.jit
def _rounds(*words: Array) -> tuple[Array, Array]:
    """Return two words for three keys and two counters, all of the same shape."""
    *keys, first, second = words
    first, second = jax.lax.add(first, keys[0]), jax.lax.add(second, keys[1])
    for i in range(5):
        for rotation in _ROTATIONS[i % 2]:
            first = jax.lax.add(first, second)
            left = jax.lax.shift_left(second, jnp.uint32(rotation))
            right = jax.lax.shift_right_logical(second, jnp.uint32(32 - rotation))
            second = jax.lax.bitwise_xor(first, jax.lax.bitwise_or(left, right))
        first = jax.lax.add(first, keys[(i + 1) % 3])
        second = jax.lax.add(jax.lax.add(second, keys[(i + 2) % 3]), jnp.uint32(i + 1))
    return first, second


@_rounds.def_vmap
def _batched_rounds(
    axis_size: int, in_batched: Sequence[bool], *words: Array
) -> tuple[tuple[Array, Array], tuple[bool, bool]]:
    """Return the words of a batch. Without this rule ``vmap`` traces all 120 operations again."""
    batch = [
        word if batched else jnp.broadcast_to(word, (axis_size, *word.shape))
        for word, batched in zip(words, in_batched, strict=True)
    ]
    return _rounds(*batch), (True, True)


def _working(dtype: Dtype) -> np.dtype[Any]:
    """Return ``dtype`` if noise can be sampled in it."""
    working = np.dtype(jnp.dtype(dtype))
    if working not in (jnp.float32, jnp.float64):
        raise ValueError(f"dtype of noise must be float32 or float64, got {working.name}")
    return working

"""Dataclasses as pytrees, vector operations along the last axis, and checks of parameters.

Structures registered by ``jax.tree_util.register_dataclass`` compare equal across classes (JAX
0.10: ``L1Ball(1.0)`` and ``L2Ball(1.0)``). Structures are keys of the compilation cache. If their
hashes coincide, the program of one class runs on the numbers of another. The nodes of this module
compare by class.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import fields
from functools import partial
from numbers import Real
from typing import TypeGuard, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float

from privopt.arguments import checked, shown
from privopt.release import Pytree

Number = float | np.ndarray | Array


def cast(number: Number, x: Float[Array, "*shape"]) -> Array:
    """Return ``number`` in the dtype of ``x``."""
    return jnp.asarray(number).astype(x.dtype)


def broadcast(bound: Number, x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Return a number or a vector in the shape and dtype of ``x``."""
    return jnp.broadcast_to(cast(bound, x), x.shape)


def one_hot(score: Float[Array, "*batch d"]) -> Float[Array, "*batch d"]:
    """Return the unit vector of the first coordinate with the largest score."""
    return jax.nn.one_hot(jnp.argmax(score, axis=-1), score.shape[-1], dtype=score.dtype)


def power_of_two(size: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Return the least power of two above ``size``; 1 if ``size`` is 0."""
    _, exponent = jnp.frexp(size)
    return jnp.where(size > 0.0, jnp.ldexp(jnp.ones_like(size), exponent), 1.0)


@checked
@partial(jax.jit, static_argnames="order", inline=True)  # outside of jit one program, not seven
def norm(x: Float[Array, "*batch d"], order: float = 2.0) -> Float[Array, "*batch"]:
    """Compute the norm of order 1, 2 or infinity over the last axis.

    The Euclidean norm is scaled, so that squares neither underflow nor overflow. Extreme vectors
    are first multiplied by a power of two, because compilers divide by ``scale`` through its
    reciprocal, which is flushed to zero for numbers near the largest. A vector with NaN has the
    norm NaN. This is tested explicitly, because the maximum of XLA ignores NaN on a CPU.

    Examples
    --------
    >>> print(norm(jnp.array([[3.0, 4.0], [3e-200, 4e-200]])))
    [5.e+000 5.e-200]
    """
    if order == 1.0:
        return jnp.sum(jnp.abs(x), axis=-1)
    if order != 2.0:
        return jnp.where(jnp.isnan(x).any(axis=-1), jnp.nan, jnp.max(jnp.abs(x), axis=-1))
    largest = jnp.max(jnp.abs(x), axis=-1, keepdims=True)
    shift = jnp.where(largest > 2.0**64, 2.0**-64, jnp.where(largest < 2.0**-64, 2.0**64, 1.0))
    shift = shift.astype(x.dtype)
    scale = largest * shift
    scale = jnp.where(scale > 0.0, scale, 1.0)
    root = jnp.sqrt(jnp.sum(jnp.square(x * shift / scale), axis=-1))
    return scale[..., 0] * root / shift[..., 0]


def inner(x: Array, y: Array) -> Array:
    """Compute ``<x, y>`` over the last axis."""
    return jnp.sum(x * y, axis=-1)


def two_sum(
    one: Float[Array, "*shape"], two: Float[Array, "*shape"]
) -> tuple[Float[Array, "*shape"], Float[Array, "*shape"]]:
    """Return the rounded sum and its exact error. Source: Knuth, TAOCP 2, 4.2.2."""
    total = one + two
    part = total - one
    return total, (one - (total - part)) + (two - part)


def on_host(value: object) -> TypeGuard[float | np.ndarray]:
    """Return True if ``value`` can be read on the host."""
    return isinstance(value, Real | np.ndarray) and not isinstance(value, bool)


def require_positive(name: str, value: object) -> None:
    """Check that all numbers that can be read are positive and finite."""
    if _broken(value) or (on_host(value) and not np.all(np.asarray(value) > 0.0)):
        raise ValueError(f"{name} must be positive and finite, got {shown(value)}")


def require_finite(name: str, value: object) -> None:
    """Check that all numbers that can be read are finite."""
    if _broken(value):
        raise ValueError(f"{name} must be finite, got {shown(value)}")


def require_shape(name: str, value: Number, *shapes: tuple[int, ...]) -> None:
    """Check that an array has one of these shapes."""
    if (shape := np.shape(value)) not in shapes:
        expected = " or ".join(map(str, shapes))
        raise ValueError(f"{name} must have shape {expected}, got {shape}")


def _broken(value: object) -> bool:
    if isinstance(value, Array):
        return False
    if isinstance(value, np.ndarray) and value.dtype.kind not in "fiu":
        return True
    return not (on_host(value) and np.all(np.isfinite(value)))


def scaled_rows(rows: Float[Array, "*n d"], factors: Float[Array, "*n"]) -> Float[Array, "*n d"]:
    """Multiply row ``i`` by ``f_i``; a factor 0 gives zeros even if the row is not finite."""
    factors = factors[..., None]
    return jnp.where(factors == 0.0, 0.0, jnp.where(factors == 1.0, rows, factors * rows))


_T = TypeVar("_T")


@checked
def pytree_dataclass(cls: type[_T]) -> type[_T]:
    """Register a frozen dataclass as a pytree; its fields are the children unless ``static``.

    A field with ``metadata={"static": True}`` is hashable structure. Unflattening sets the fields
    without a call of the constructor, because JAX replaces numbers by arbitrary objects and the
    constructor checks numbers.

    Examples
    --------
    >>> from dataclasses import dataclass, field
    >>> @pytree_dataclass
    ... @dataclass(frozen=True)
    ... class Power:
    ...     base: float
    ...     exponent: int = field(metadata={"static": True})
    >>> jax.tree.map(lambda leaf: 2.0 * leaf, Power(1.5, 3)).base, jax.tree.leaves(Power(1.5, 3))
    (3.0, [1.5])
    """
    dynamic = [f.name for f in fields(cls) if not f.metadata.get("static")]  # type: ignore[arg-type]
    static = [f.name for f in fields(cls) if f.metadata.get("static")]  # type: ignore[arg-type]

    keys = [jax.tree_util.GetAttrKey(name) for name in dynamic]

    def flatten(node: _T) -> tuple[list[Pytree], tuple[Hashable, ...]]:
        values = vars(node)
        return [values[name] for name in dynamic], tuple([values[name] for name in static])

    def flatten_with_keys(node: _T) -> tuple[list[tuple[object, Pytree]], tuple[Hashable, ...]]:
        children, structure = flatten(node)
        return list(zip(keys, children, strict=True)), structure

    def unflatten(structure: tuple[Hashable, ...], children: Iterable[Pytree]) -> _T:
        node = object.__new__(cls)
        for names, values in ((dynamic, children), (static, structure)):
            for name, value in zip(names, values, strict=True):
                object.__setattr__(node, name, value)
        return node

    jax.tree_util.register_pytree_with_keys(cls, flatten_with_keys, unflatten, flatten)
    return cls


def node_classes(tree: Pytree) -> tuple[object, ...]:
    """Return the nested classes of the nodes of a pytree, which distinguish user-defined classes.

    Examples
    --------
    >>> node_classes((1.0, [2.0]))
    (<class 'tuple'>, (None,), (<class 'list'>, (None,)))
    """

    def classes(structure: jax.tree_util.PyTreeDef) -> tuple[object, ...]:
        node = structure.node_data()
        return (node and node[0], *map(classes, structure.children()))

    return classes(jax.tree.structure(tree))

"""The entrance for records: every public function that takes records calls this module first.

* Types and shapes are public. A wrong one raises ``ValueError`` with the name of the argument.
* Values are private. No exception and no message depends on them: a missing entry becomes NaN, a
  number beyond the range of floats becomes infinite, and mechanisms give such a record no weight.
* Floating-point types are float32 and float64. The round-off that sensitivities include is theirs.
* Integers and booleans become floats wherever a loss or a statistic takes their absolute value or
  their sum. In integers the absolute value of the most negative one is negative, so that clipping
  would not shorten it.
* What a loss declares of its records is enforced here, record by record (``Loss.prepare``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import DTypeLike
from numpy.typing import NDArray

from privopt.arguments import described
from privopt.convex import FeaturesLike, Pytree, as_features, is_features

__all__ = [
    "MISSING",
    "as_array",
    "as_floats",
    "check_answer",
    "check_floating",
    "on_device",
    "prepare",
]

MISSING = ("NoneType", "NAType", "NaTType", "MaskedConstant")
"""Types of missing entries in Python, pandas and NumPy."""

_SUPPORTED = ("float32", "float64")


def as_array(values: object, name: str) -> Array | NDArray[Any]:
    """Return ``values`` as an array of real numbers, on the host unless it is a JAX array.

    Missing entries become NaN: None, masked entries and missing values of pandas. A Python number
    beyond the range of floats becomes infinite. ``ValueError`` for types other than booleans,
    integers, float32 and float64, and for nested sequences of different lengths.

    Examples
    --------
    >>> as_array([1.0, None], "data")
    array([ 1., nan])
    >>> as_array(np.ones(2, np.float16), "data")
    Traceback (most recent call last):
    ValueError: data must be float32 or float64, got float16
    """
    if isinstance(values, jax.Array):
        array: Array | NDArray[Any] = values
    elif hasattr(values, "__array__") or isinstance(values, Sequence | Real):
        try:
            array = np.asarray(values)
        except ValueError:
            raise ValueError(f"{name} must be an array, got rows of different shapes") from None
        if array.dtype == object:
            entries = [_entry(entry, name) for entry in array.ravel()]
            array = np.array(entries, np.float64).reshape(array.shape)
        if isinstance(values, np.ma.MaskedArray) and array.dtype.kind in "biuf":
            floats = array if array.dtype.kind == "f" else array.astype(np.float64)
            array = np.where(np.ma.getmaskarray(values), floats.dtype.type(math.nan), floats)
    else:
        raise ValueError(f"{name} must be an array, got {described(values)}")
    dtype = array.dtype
    if jnp.issubdtype(dtype, jnp.floating):
        check_floating(dtype, name)
    elif jnp.issubdtype(dtype, jnp.integer):
        if dtype.kind not in "iu":  # JAX's integers of 2 and 4 bits, which NumPy does not compare
            array = array.astype(np.int8 if jnp.iinfo(dtype).min < 0 else np.uint8)
    elif dtype != np.bool_:
        raise ValueError(f"{name} must be numeric, got dtype {dtype.type.__name__}")
    return array


def _entry(entry: Any, name: str) -> float:
    """Return an entry of an array of Python objects as a float."""
    if type(entry).__name__ in MISSING:
        return math.nan
    if not isinstance(entry, Real | np.bool_):
        raise ValueError(f"{name} must be numeric, got {described(entry)}")
    try:
        return float(entry)
    except OverflowError:
        return math.inf if entry > 0 else -math.inf  # type: ignore[operator]


def check_floating(dtype: DTypeLike, name: str) -> None:
    """Check that a floating-point type is one whose round-off is accounted for."""
    if jnp.dtype(dtype).name not in _SUPPORTED:
        raise ValueError(f"{name} must be float32 or float64, got {jnp.dtype(dtype).name}")


def check_answer(answer: object, name: str, *, ndim: int) -> Array:
    """Return an answer to which noise is added, if it is floating and has ``ndim`` axes.

    Integers are refused: noise in integers is zero with positive probability, and an answer above
    ``2^24`` that becomes a float is rounded, by more than its sensitivity allows for.
    """
    array = jnp.asarray(answer) if isinstance(answer, jax.Array | np.ndarray | np.generic) else None
    if array is None or not jnp.issubdtype(array.dtype, jnp.floating) or array.ndim != ndim:
        got = described(answer) if array is None else f"{array.dtype} of shape {array.shape}"
        raise ValueError(f"{name} must be an array of floats with {ndim} axes, got {got}")
    check_floating(array.dtype, name)
    return array


def on_device(values: FeaturesLike, name: str = "data") -> Any:
    """Return ``values`` as a JAX array of the same kind, or as features if they are sparse.

    An integer beyond the range of the device's type becomes the nearest integer in the range.
    """
    if is_features(values):
        features = as_features(values)
        check_floating(features.dtype, name)
        return features
    array = as_array(values, name)
    if isinstance(array, np.ndarray) and array.dtype.kind in "iu":
        limits = np.iinfo(jax.dtypes.canonicalize_dtype(array.dtype))
        array = array.clip(max(limits.min, np.iinfo(array.dtype).min), limits.max)
    return jnp.asarray(array)


def as_floats(values: FeaturesLike, name: str, *, ndim: int) -> Any:
    """Return ``values`` as floats on the device, with ``ndim`` axes.

    Integers and booleans take JAX's default floating type. Sparse matrices become features.

    Examples
    --------
    >>> as_floats([-(2**31), 1], "data", ndim=1).dtype
    dtype('float32')
    """
    if is_features(values):
        array = on_device(values, name)
    else:
        array = as_array(values, name)
        if not jnp.issubdtype(array.dtype, jnp.floating):
            array = array.astype(jnp.result_type(float))
        array = jnp.asarray(array)
    if len(array.shape) != ndim:
        raise ValueError(f"{name} must have {ndim} axes, got shape {array.shape}")
    return array


def prepare(
    loss: Any, data: Pytree, *, dim: int, smoothness: float | None, name: str = "data"
) -> Pytree:
    """Return ``data`` on the device in the form for which the constants of ``loss`` hold.

    A loss with a method ``prepare(data, dim=, smoothness=)`` changes records, each by itself: types
    become floating, and features become as short as the declared ``smoothness`` requires. The
    result has one leading axis of records and floating leaves of one type.
    """
    data = jax.tree.map(lambda leaf: on_device(leaf, name), data)
    if hasattr(loss, "prepare"):
        data = loss.prepare(data, dim=dim, smoothness=smoothness)
    leaves = jax.tree.leaves(data)
    floating = {leaf.dtype for leaf in leaves if jnp.issubdtype(leaf.dtype, jnp.floating)}
    if len(floating) != 1:
        raise ValueError(
            f"{name} must have floating leaves of one dtype, got {sorted(map(str, floating))}"
        )
    lengths = {leaf.shape[0] if leaf.ndim else None for leaf in leaves}
    if len(lengths) != 1 or None in lengths:
        shapes = list(dict.fromkeys(leaf.shape for leaf in leaves))
        raise ValueError(f"{name} must have one leading axis of records, got shapes {shapes}")
    return data

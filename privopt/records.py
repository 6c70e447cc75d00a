"""Conversion of records: every public function that takes records calls this module first.

* Types and shapes are public. A wrong one raises ``ValueError`` with the name of the argument.
* Values are private. No exception and no message depends on them: a missing entry becomes NaN, a
  number beyond the range of floats becomes infinite, and mechanisms give such a record no weight.
* The type of a column is public: texts, booleans, numbers (integers and floats count as one type,
  because a missing value turns a column of integers into floats), or Python objects. Lists, tuples
  and columns of objects have no type. Each of their entries is read separately, and an invalid
  entry is missing or unknown but never an error.
* Floating-point types are float32 and float64. Sensitivities include their round-off.
* Integers and booleans become floats wherever a loss or a statistic takes their absolute value or
  their sum. The absolute value of the most negative integer is negative, so clipping would not
  shorten it.
* The declarations of a loss are enforced here, record by record (``Loss.prepare``).
"""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Sequence
from decimal import Decimal
from numbers import Real
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from privopt.arguments import checked, described, shown
from privopt.convex import Pytree, as_features, is_features

__all__ = [
    "BOOLEANS",
    "as_array",
    "as_column",
    "as_floats",
    "check_answer",
    "check_floating",
    "column_type",
    "on_device",
    "places_of",
    "prepare",
    "public_values",
]

_MISSING = ("NoneType", "NAType", "NaTType", "MaskedConstant")  # of Python, pandas and NumPy
_SUPPORTED = ("float32", "float64")
TEXTS, BOOLEANS, NUMBERS, OBJECTS = "texts", "booleans", "numbers", "objects"
_NUMBER = Real | np.bool_  # NumPy's booleans are not Python's numbers
_DTYPE_KINDS = {"U": TEXTS, "T": TEXTS, "b": BOOLEANS, "O": OBJECTS}
_TYPE_NAMES = {  # of pandas, pyarrow and polars, in small letters
    TEXTS: re.compile(r"(large_)?(str|string|string_view|utf8)\b"),
    BOOLEANS: re.compile(r"bool(ean)?\b"),
    NUMBERS: re.compile(r"(u?int\d*|(half)?float\d*|double)\b"),
}
_SHORT = re.compile(r"(halffloat|float(16|32)?)\b")


@checked
def as_array(values: object, name: str) -> Array | NDArray[Any]:
    """Return ``values`` as an array of real numbers, on the host unless it is a JAX array.

    Missing entries become NaN: None, masked entries, missing values of pandas, and Python objects
    that are not numbers. A Python number beyond the range of floats becomes infinite. The columns
    of a data frame become those of a matrix. ``ValueError`` for types other than booleans,
    integers, float32, float64 and objects, and for nested sequences of different lengths.

    Examples
    --------
    >>> as_array([1.0, None, "text", 10**400], "data")
    array([ 1., nan, nan, inf])
    >>> as_array(np.ones(2, np.float16), "data")
    Traceback (most recent call last):
    ValueError: data must be float32 or float64, got float16
    >>> as_array(np.array(["text"]), "data")
    Traceback (most recent call last):
    ValueError: data must be numeric, got texts
    """
    columns = _columns_of(values)
    if columns:
        single = all(_short_dtype(column) == np.float32 for column in columns)
        dtype = np.float32 if single else np.float64
        return np.stack([as_column(column, name) for column in columns], axis=1).astype(dtype)
    array = _nested(values, name) if _is_untyped(values) else _array(values, name)
    return _numeric(array, column_type(values), name)


@checked
def as_column(values: object, name: str) -> NDArray[np.float64]:
    """Return a column as float64 on the host, shape ``(records,)``; see :func:`as_array`.

    An entry of a list that is a list itself is not a number.
    """
    array, kind = _column(values, name)
    return np.asarray(_numeric(array, kind, name), np.float64)


def _numeric(array: Any, kind: str, name: str) -> Array | NDArray[Any]:
    """Return an array of the column type ``kind`` as real numbers."""
    if kind not in (BOOLEANS, NUMBERS, OBJECTS):
        raise ValueError(f"{name} must be numeric, got {kind}")
    if array.dtype == object:
        entries = np.ma.filled(array, None) if isinstance(array, np.ma.MaskedArray) else array
        numbers = np.array([_number(entry) for entry in entries.ravel().tolist()], np.float64)
        array = numbers.reshape(array.shape)
    if isinstance(array, np.ma.MaskedArray):
        floats = array if array.dtype.kind == "f" else array.astype(np.float64)
        array = np.ma.filled(floats, math.nan)
    dtype = array.dtype
    if jnp.issubdtype(dtype, jnp.floating):
        check_floating(dtype, name)
    elif _is_integer(dtype):
        if dtype.kind not in "iu":  # JAX's integers of 2 and 4 bits
            array = array.astype(np.int8 if jnp.iinfo(dtype).min < 0 else np.uint8)
    elif dtype != np.bool_:
        raise ValueError(f"{name} must be numeric, got dtype {dtype.type.__name__}")
    return array


def _is_integer(dtype: np.dtype[Any]) -> bool:
    return jnp.issubdtype(dtype, jnp.integer) and dtype.kind != "m"  # NumPy counts durations


def _columns_of(frame: Any) -> list[Any]:
    """Return the columns of a data frame of pandas, polars or pyarrow; none for another object."""
    if not (hasattr(frame, "columns") or hasattr(frame, "column_names")):
        return []
    if hasattr(frame, "itercolumns"):  # pyarrow
        return list(frame.itercolumns())
    if hasattr(frame, "iter_columns"):  # polars
        return list(frame.iter_columns())
    return [column for _, column in frame.items()] if hasattr(frame, "items") else []


def _array(values: object, name: str) -> Any:
    """Return an object that is an array, or can be converted to one, as an array."""
    if isinstance(values, jax.Array):
        return values
    if not (hasattr(values, "__array__") or isinstance(values, Real)):
        raise ValueError(f"{name} must be an array, got {described(values)}")
    try:
        return np.asanyarray(values)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be an array, got {described(values)}") from None


def _nested(values: Any, name: str) -> NDArray[Any]:
    """Return nested sequences, or a sequence of arrays, as an array of objects."""
    if values and all(_is_untyped(row) or np.ndim(row) > 0 for row in values):
        rows = [_nested(row, name) if _is_untyped(row) else np.asarray(row) for row in values]
        if len({row.shape for row in rows}) > 1:
            raise ValueError(f"{name} must be an array, got rows of different shapes")
        return np.stack([row.astype(object) for row in rows])
    return np.fromiter(values, object, len(values))


@checked
def check_floating(dtype: np.dtype[Any], name: str) -> None:
    """Check that a floating-point type is float32 or float64."""
    if dtype.name not in _SUPPORTED:
        raise ValueError(f"{name} must be float32 or float64, got {dtype.name}")


@checked
def check_answer(answer: Any, name: str, *, ndim: int | None = None) -> Array:
    """Return an answer to which noise is added, if it is floating and has ``ndim`` axes.

    Integers are refused: noise in integers is zero with positive probability, and the conversion of
    an integer above ``2^24`` to a float has a rounding error beyond its sensitivity.
    """
    array = isinstance(answer, jax.Array | np.ndarray | np.generic)
    floating = array and jnp.issubdtype(answer.dtype, jnp.floating)
    if not floating or ndim not in (None, answer.ndim):
        rule = "an array of floats" + ("" if ndim is None else f" with {ndim} axes")
        got = f"{answer.dtype} of shape {answer.shape}" if array else described(answer)
        raise ValueError(f"{name} must be {rule}, got {got}")
    check_floating(answer.dtype, name)
    return jnp.asarray(answer)


@checked
def on_device(values: Any, name: str = "data") -> Any:
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
    return _silently(array)


@checked
def as_floats(values: Any, name: str, *, ndim: int) -> Any:
    """Return ``values`` as floats on the device, with ``ndim`` axes.

    Integers and booleans take JAX's default floating type. Sparse matrices become features.

    Examples
    --------
    >>> as_floats([-(2**31), 1], "data", ndim=1).tolist()
    [-2147483648.0, 1.0]
    """
    if is_features(values):
        array = on_device(values, name)
    else:
        array = as_array(values, name)
        if not jnp.issubdtype(array.dtype, jnp.floating):
            array = array.astype(jnp.result_type(float))
        array = _silently(array)
    if len(array.shape) != ndim:
        raise ValueError(f"{name} must have {ndim} axes, got shape {array.shape}")
    return array


def _silently(array: Any) -> Array:
    """Return ``jnp.asarray(array)`` without NumPy's warning about one large number."""
    with np.errstate(all="ignore"):
        if isinstance(array, np.ndarray):  # ``jnp.asarray`` copies twice
            return jax.device_put(array, may_alias=False)
        return jnp.asarray(array)


@checked
def prepare(
    loss: Any, data: Pytree, *, dim: int, smoothness: float | None, name: str = "data"
) -> Pytree:
    """Return ``data`` on the device in the form for which the constants of ``loss`` hold.

    A loss with a method ``prepare(data, dim=, smoothness=)`` changes each record separately: types
    become floating, and features are shortened to the declared ``smoothness``. The result has one
    leading axis of records and floating leaves of one type.
    """
    data = jax.tree.map(lambda leaf: on_device(leaf, name), data)
    if hasattr(loss, "prepare"):
        try:
            data = loss.prepare(data, dim=dim, smoothness=smoothness)
        except ValueError as error:  # the loss calls them data
            raise ValueError(str(error) if name == "data" else f"{name}: {error}") from None
    arrays = jax.tree.leaves(data)
    floating = {leaf.dtype for leaf in arrays if jnp.issubdtype(leaf.dtype, jnp.floating)}
    if len(floating) != 1:
        raise ValueError(
            f"{name} must have floating leaves of one dtype, got {sorted(map(str, floating))}"
        )
    lengths = {leaf.shape[0] if leaf.ndim else None for leaf in arrays}
    if len(lengths) != 1 or None in lengths:
        shapes = list(dict.fromkeys(leaf.shape for leaf in arrays))
        raise ValueError(f"{name} must have one leading axis of records, got shapes {shapes}")
    return data


@checked
def public_values(name: str, given: Any, least: int = 1) -> tuple[Hashable, ...]:
    """Return ``given`` as a tuple if it is a sequence of distinct texts, or of distinct numbers.

    Examples
    --------
    >>> public_values("classes", "no")
    Traceback (most recent call last):
    ValueError: classes must be a sequence such as ('no', 'yes'), got an object of type str
    """
    values = given.tolist() if isinstance(given, np.ndarray) else given
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise ValueError(f"{name} must be a sequence such as ('no', 'yes'), got {described(given)}")
    if len(kinds := {_kind(value) for value in values}) > 1 or None in kinds:
        raise ValueError(
            f"{name} must be texts alone, or numbers and booleans alone, got {shown(given)}"
        )
    if len(set(values)) < max(least, len(values)):
        raise ValueError(f"{name} must be {least} or more distinct values, got {shown(given)}")
    return tuple(values)


@checked
def column_type(values: Any) -> str:
    """Return the public type of a column: texts, booleans, numbers, objects, or a dtype's name.

    Examples
    --------
    >>> [column_type(each) for each in (np.ones(2), np.array(["a"]), [1.0, None])]
    ['numbers', 'texts', 'objects']
    """
    dtype = _dtype(values)
    if isinstance(dtype, np.dtype):
        if jnp.issubdtype(dtype, jnp.floating) or _is_integer(dtype):
            return NUMBERS  # including JAX's types, for which NumPy has no kind
        return _DTYPE_KINDS.get(dtype.kind, dtype.type.__name__)
    name = str(dtype).lower()
    return next((kind for kind, names in _TYPE_NAMES.items() if names.match(name)), OBJECTS)


@checked
def places_of(
    values: Any, known: Sequence[Hashable], name: str, *, strict: bool = True
) -> NDArray[np.int64]:
    """Return the place of each entry in ``known``; -1 if it is missing, ``len(known)`` if unknown.

    Raise ``ValueError`` if the type of the column differs from that of ``known``, or is a type of
    booleans or of short floats that cannot represent one of them. Unless ``strict``, numbers are
    accepted as texts that are all missing: a file without any text is read as numbers.

    Examples
    --------
    >>> places_of(np.ma.array([1, 2, 7], mask=[False, True, False]), (1, 2), "y").tolist()
    [0, -1, 2]
    >>> places_of(np.array([0, 1]), ("no", "yes"), "y")
    Traceback (most recent call last):
    ValueError: y must hold texts, as its public values are, got numbers
    """
    array, kind = _column(values, name)
    expected = TEXTS if _kind(known[0]) == TEXTS else NUMBERS
    accepted = {expected, OBJECTS} | ({BOOLEANS} if expected == NUMBERS else set())
    accepted |= set() if strict else {NUMBERS}
    if kind not in accepted:
        raise ValueError(f"{name} must hold {expected}, as its public values are, got {kind}")
    dtype = _short_dtype(values) if expected == NUMBERS else None
    if dtype is not None and not all(_is_held(value, dtype) for value in known):
        raise ValueError(
            f"{name} must be of a type that can hold all of its public values, got dtype {dtype}"
        )
    places = {value: place for place, value in enumerate(known)}
    return np.array([_place(entry, places) for entry in array.tolist()], np.int64)


def _is_untyped(values: Any) -> bool:
    """Return True for a list, a tuple or another sequence without a type of its entries."""
    return isinstance(values, Sequence) and not isinstance(values, str | bytes)


def _dtype(values: Any) -> Any:
    """Return the dtype of an array or a column, or the type of a column of pyarrow."""
    if _is_untyped(values):
        return np.dtype(object)
    dtype = getattr(values, "dtype", getattr(values, "type", None))
    return np.asanyarray(values).dtype if dtype is None else dtype


def _column(values: Any, name: str) -> tuple[Any, str]:
    """Return a column as an array of one axis, and its type."""
    untyped = _is_untyped(values)
    array = np.fromiter(values, object, len(values)) if untyped else _array(values, name)
    if array.ndim != 1:
        raise ValueError(f"{name} must have 1 axes, got shape {array.shape}")
    return array, column_type(values)


def _place(entry: Any, places: dict[Hashable, int]) -> int:
    if _is_missing(entry):
        return -1
    return len(places) if _kind(entry) is None else places.get(entry, len(places))


def _kind(entry: Any) -> str | None:
    """Return texts or numbers, or None for another entry, which may not be hashable."""
    if isinstance(entry, str):
        return TEXTS
    return NUMBERS if isinstance(entry, _NUMBER) and entry == entry else None


def _number(entry: Any) -> float:
    """Return an entry as a float; NaN if it is not a number."""
    if not isinstance(entry, _NUMBER | Decimal):
        return math.nan
    try:
        return float(entry)
    except OverflowError:
        return math.inf if entry > 0 else -math.inf  # type: ignore[operator]
    except ValueError:  # a signalling NaN
        return math.nan


def _is_missing(entry: Any) -> bool:
    return type(entry).__name__ in _MISSING or (isinstance(entry, Real) and entry != entry)


def _short_dtype(values: Any) -> np.dtype[Any] | None:
    """Return the dtype of a column of booleans or of floats of less than 64 bits, else None.

    Types of integers are not checked: one missing value turns them into 64-bit floats.
    """
    if column_type(values) == BOOLEANS:
        return np.dtype(bool)
    bits = _SHORT.match(str(_dtype(values)).lower())
    if bits is None:
        return None
    return np.dtype(np.float16 if "16" in bits[0] or "half" in bits[0] else np.float32)


def _is_held(value: Any, dtype: np.dtype[Any]) -> bool:
    """Return True if ``dtype`` can represent ``value``."""
    try:
        return bool(np.array(value).astype(dtype).item() == value)
    except (OverflowError, ValueError, TypeError):
        return False

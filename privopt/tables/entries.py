"""Columns of records, read by a rule of one entry and the public type of the column.

The type of a column is public: texts, booleans, numbers (integers and floats count as one type,
because a missing value turns a column of integers into floats), or Python objects. A column of a
wrong type is refused. Lists, tuples and columns of objects have no type, so that each of their
entries is read by itself: an entry that cannot be used is missing or unknown and never an error.
"""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Sequence
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privopt.arguments import described, shown
from privopt.problems.declaration import MISSING

TEXTS, BOOLEANS, NUMBERS, OBJECTS = "texts", "booleans", "numbers", "objects"
_NUMBER = Real | np.bool_  # NumPy's booleans are not Python's numbers
_DTYPE_KINDS = {"U": TEXTS, "T": TEXTS, "b": BOOLEANS, "O": OBJECTS} | dict.fromkeys("iuf", NUMBERS)
_TYPE_NAMES = {  # of pandas, pyarrow and polars, in small letters
    TEXTS: re.compile(r"(large_)?(str|string|string_view|utf8)\b"),
    BOOLEANS: re.compile(r"bool(ean)?\b"),
    NUMBERS: re.compile(r"(u?int\d*|(half)?float\d*|double)\b"),
}
_SINGLE = re.compile(r"float(32)?\b")
_SHORT = re.compile(r"(halffloat|float(16|32)?)\b")


def public_values(name: str, given: Any, least: int = 1) -> tuple[Hashable, ...]:
    """Return ``given`` as a tuple if it is a sequence of distinct texts, or of distinct numbers.

    Examples
    --------
    >>> public_values("classes", "no")
    Traceback (most recent call last):
    ValueError: classes must be a sequence, such as ('no', 'yes'), got an object of type str
    """
    values = given.tolist() if isinstance(given, np.ndarray) else given
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise ValueError(
            f"{name} must be a sequence, such as ('no', 'yes'), got {described(given)}"
        )
    if len(kinds := {_kind(value) for value in values}) > 1 or None in kinds:
        raise ValueError(
            f"{name} must be texts alone, or numbers and booleans alone, got {shown(given)}"
        )
    if len(set(values)) < max(least, len(values)):
        raise ValueError(f"{name} must be {least} or more distinct values, got {shown(given)}")
    return tuple(values)


def column_type(values: Any) -> str:
    """Return the public type of a column: texts, booleans, numbers, objects, or another's name.

    Examples
    --------
    >>> [column_type(each) for each in (np.ones(2), np.array(["a"]), [1.0, None])]
    ['numbers', 'texts', 'objects']
    """
    dtype = _dtype(values)
    if isinstance(dtype, np.dtype):
        if dtype.kind == "f" and dtype.itemsize > 8:
            return dtype.type.__name__
        return _DTYPE_KINDS.get(dtype.kind, dtype.type.__name__)
    name = str(dtype).lower()
    return next((kind for kind, names in _TYPE_NAMES.items() if names.match(name)), OBJECTS)


def is_single(values: Any) -> bool:
    """Return True if a column or an array has numbers of 32 bits."""
    return _SINGLE.match(str(_dtype(values)).lower()) is not None


def places_of(
    values: Any, known: Sequence[Hashable], name: str, *, strict: bool = True
) -> NDArray[np.int64]:
    """Return the place of each entry in ``known``; -1 if it is missing, ``len(known)`` if unknown.

    Raise ``ValueError`` if the type of the column differs from that of ``known``, or is a type of
    booleans or of short floats that cannot represent one of them. Unless ``strict``, numbers are
    accepted as texts that are all missing: a file without a single text is read as numbers.

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


def numbers_of(values: Any, name: str) -> NDArray[np.float64]:
    """Return a column as float64, shape ``(records,)``; NaN for an entry that is not a number.

    Numbers beyond all floats become infinite. Raise ``ValueError`` if the column has another type
    than booleans, numbers or objects.

    Examples
    --------
    >>> numbers_of([1, None, "text", 10**400], "age").tolist()
    [1.0, nan, nan, inf]
    >>> numbers_of(np.array(["text"]), "age")
    Traceback (most recent call last):
    ValueError: age must be numeric, got texts
    """
    array, kind = _column(values, name)
    return as_numbers(array, kind, name)


def as_numbers(array: NDArray[Any], kind: str, name: str) -> NDArray[np.float64]:
    """Return an array of any shape, whose column type is ``kind``, as float64; see above."""
    if kind not in (BOOLEANS, NUMBERS, OBJECTS):
        raise ValueError(f"{name} must be numeric, got {kind}")
    if array.dtype.kind not in "biufO":  # such as times of pyarrow
        raise ValueError(f"{name} must be numeric, got {array.dtype.type.__name__}")
    if array.dtype == object:
        entries = np.ma.filled(array, None) if isinstance(array, np.ma.MaskedArray) else array
        numbers = np.array([_number(entry) for entry in entries.ravel().tolist()], np.float64)
        return numbers.reshape(array.shape)
    if isinstance(array, np.ma.MaskedArray):
        return np.ma.filled(array.astype(np.float64), math.nan)
    return np.asarray(array, np.float64)


def is_untyped(values: Any) -> bool:
    """Return True for a list, a tuple or another sequence without a type of its entries."""
    return isinstance(values, Sequence) and not isinstance(values, str | bytes)


def _dtype(values: Any) -> Any:
    """Return the dtype of an array or a column, or the type of a column of pyarrow."""
    if is_untyped(values):
        return np.dtype(object)
    dtype = getattr(values, "dtype", getattr(values, "type", None))
    return np.asanyarray(values).dtype if dtype is None else dtype


def _column(values: Any, name: str) -> tuple[NDArray[Any], str]:
    """Return a column as an array of one axis, and its type."""
    try:
        array = np.fromiter(values, object, len(values)) if is_untyped(values) else values
        array = np.asanyarray(array)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be an array, got {described(values)}") from None
    if array.ndim != 1:
        raise ValueError(f"{name} must have 1 axes, got shape {array.shape}")
    return array, column_type(values)


def _place(entry: Any, places: dict[Hashable, int]) -> int:
    if _is_missing(entry):
        return -1
    return len(places) if _kind(entry) is None else places.get(entry, len(places))


def _kind(entry: Any) -> str | None:
    """Return texts or numbers; None for another entry, which may not even have a hash."""
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
    return type(entry).__name__ in MISSING or (isinstance(entry, Real) and entry != entry)


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

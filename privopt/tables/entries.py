"""Entries of a column of categories or labels, read without printing one of them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privopt.arguments import described, shown
from privopt.records import MISSING

_NUMBER = Real | np.bool_  # NumPy's booleans are none of Python's numbers
_KINDS = {True: "texts", False: "numbers", None: "neither of the two"}


def public_values(name: str, given: Any, least: int = 1) -> tuple[Hashable, ...]:
    """``given`` as a tuple, if it is a sequence of distinct texts, or of numbers and booleans.

    Examples
    --------
    >>> public_values("classes", (0, "no"))
    Traceback (most recent call last):
    ValueError: classes must be texts alone, or numbers and booleans alone, got (0, 'no')
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


def places_of(values: Any, known: Sequence[Hashable], name: str) -> NDArray[np.int64]:
    """The place of each entry among those known; -1 if it is missing, ``len(known)`` if unknown.

    ValueError where no entry is of the kind of those known, text or number, or where the type of
    the array cannot hold one of them. Such types are public, as shapes are; an entry that is merely
    unknown is not refused.

    Examples
    --------
    >>> places_of(np.ma.array([1, 2, 7], mask=[False, True, False]), (1, 2), "y").tolist()
    [0, -1, 2]
    >>> places_of(np.array([0, 1]), ("no", "yes"), "y")
    Traceback (most recent call last):
    ValueError: y must hold texts, as ('no', 'yes') are, got numbers
    """
    try:
        array = np.asanyarray(values)
    except ValueError:
        raise ValueError(f"{name} must be an array, got rows of different shapes") from None
    if array.ndim != 1:
        raise ValueError(f"{name} must have 1 axes, got shape {array.shape}")
    wanted, entries = _kind(known[0]), array.tolist()
    found = {_kind(entry) for entry in entries if not _missing(entry)}
    if found and wanted not in found:
        got = " and ".join(name for kind, name in _KINDS.items() if kind in found)
        raise ValueError(
            f"{name} must hold {_KINDS[wanted]}, as {shown(tuple(known))} are, got {got}"
        )
    numeric = wanted is False and array.dtype.kind in "biuf"
    if numeric and not all(_held(value, array.dtype) for value in known):
        raise ValueError(
            f"{name} must be of a type that can hold {shown(tuple(known))}, got dtype {array.dtype}"
        )
    places = {value: place for place, value in enumerate(known)}
    return np.array([_place(entry, places) for entry in entries], np.int64)


def _place(entry: Any, places: dict[Hashable, int]) -> int:
    if _missing(entry):
        return -1
    return len(places) if _kind(entry) is None else places.get(entry, len(places))


def _kind(entry: Any) -> bool | None:
    """Whether it is a text, or None if it is no number either: such may not even have a hash."""
    if isinstance(entry, str):
        return True
    return False if isinstance(entry, _NUMBER) and entry == entry else None


def _missing(entry: Any) -> bool:
    return type(entry).__name__ in MISSING or (isinstance(entry, Real) and entry != entry)


def _held(value: Any, dtype: np.dtype[Any]) -> bool:
    try:
        return bool(np.array(value).astype(dtype).item() == value)
    except (OverflowError, ValueError, TypeError):
        return False

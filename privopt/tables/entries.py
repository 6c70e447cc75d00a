"""Entries of a column of categories or labels, read without printing one of them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from numbers import Real
from typing import Any

import numpy as np

from privopt.problems.declaration import MISSING


def entries_of(values: Any, name: str) -> list[Any]:
    """The entries of one axis as objects of Python; None for those that are missing.

    Examples
    --------
    >>> entries_of(np.ma.array([1, 2], mask=[False, True]), "y")
    [1, None]
    """
    try:
        array = np.asanyarray(values)
    except ValueError:
        raise ValueError(f"{name} must be an array, got rows of different shapes") from None
    if array.ndim != 1:
        raise ValueError(f"{name} must have 1 axes, got shape {array.shape}")
    return [None if _missing(entry) else entry for entry in array.tolist()]


def entries_like(values: Any, known: Sequence[Hashable], name: str) -> list[Any]:
    """The entries; ValueError for texts where numbers are known, and the other way round.

    Numbers also have a type that can hold every known one. Types are public, as shapes are; an
    entry that is merely unknown is not refused.

    Examples
    --------
    >>> entries_like(np.array([0, 1]), ("no", "yes"), "y")
    Traceback (most recent call last):
    ValueError: y must hold texts, as ('no', 'yes') are, got numbers
    """
    entries = entries_of(values, name)
    texts = {isinstance(value, str) for value in known}
    found = {isinstance(entry, str) for entry in entries if isinstance(entry, str | Real)}
    if len(texts) == 1 and found - texts:
        held, got = ("texts", "numbers") if texts == {True} else ("numbers", "texts")
        raise ValueError(f"{name} must hold {held}, as {tuple(known)!r} are, got {got}")
    dtype = np.asanyarray(values).dtype
    if (
        dtype.kind in "biuf"
        and texts == {False}
        and not all(_held(value, dtype) for value in known)
    ):
        raise ValueError(
            f"{name} must be of a type that can hold {tuple(known)!r}, got dtype {dtype}"
        )
    return entries


def _missing(entry: Any) -> bool:
    return type(entry).__name__ in MISSING or (isinstance(entry, float) and entry != entry)


def _held(value: Any, dtype: np.dtype[Any]) -> bool:
    try:
        return bool(np.array(value).astype(dtype) == value)
    except (OverflowError, ValueError, TypeError):
        return False

"""Equality of tables up to round-off."""

from __future__ import annotations

import json

import jax
import numpy as np
import numpy.typing as npt
import pyarrow as pa

RELATIVE, ABSOLUTE = 1e-6, 1e-12
"""How far equal numbers may be apart: machines round differently in their last digits, and a risk
that is zero but for rounding has no digits in common."""


def equal(ours: pa.Table, theirs: pa.Table) -> bool:
    """Return True if two tables say the same of the same experiment.

    Metadata, rows, columns, texts and integers must be the same, and real numbers within
    ``RELATIVE`` or ``ABSOLUTE`` of each other; so must those within texts that are JSON, as of
    plans.
    """
    same_shape = ours.num_rows == theirs.num_rows and ours.schema.equals(theirs.schema)
    if not same_shape or ours.schema.metadata != theirs.schema.metadata:
        return False
    return not any(
        differing(*pair).any() for pair in zip(ours.columns, theirs.columns, strict=True)
    )


def differing(
    ours: pa.ChunkedArray, theirs: pa.ChunkedArray, relative: float = RELATIVE
) -> npt.NDArray[np.bool_]:
    """Return a mask of the rows in which two columns of one type and length differ."""
    if ours.equals(theirs):
        return np.zeros(len(ours), bool)
    if pa.types.is_floating(ours.type):
        one, other = (column.to_numpy().astype(np.float64) for column in (ours, theirs))
        nulls = ours.is_null().to_numpy() != theirs.is_null().to_numpy()  # NaN in the numbers
        return nulls | ~_close(one, other, relative)
    pairs = list(zip(ours.to_pylist(), theirs.to_pylist(), strict=True))
    if pa.types.is_string(ours.type):
        same = {pair: _equal_texts(*pair) for pair in set(pairs)}
        return np.array([not same[pair] for pair in pairs], bool)
    return np.array([one != other for one, other in pairs], bool)


def _equal_texts(ours: str | None, theirs: str | None) -> bool:
    if ours is None or theirs is None or ours == theirs:
        return ours == theirs
    try:
        same = jax.tree.map(_equal_values, json.loads(ours), json.loads(theirs))
    except ValueError:  # no JSON, or of another shape
        return False
    return all(jax.tree.leaves(same))


def _equal_values(ours: object, theirs: object) -> bool:
    if isinstance(ours, float) and isinstance(theirs, float):
        return bool(_close(ours, theirs))
    return ours == theirs


def _close(
    ours: npt.ArrayLike, theirs: npt.ArrayLike, relative: float = RELATIVE
) -> npt.NDArray[np.bool_]:
    return np.isclose(ours, theirs, rtol=relative, atol=ABSOLUTE, equal_nan=True)

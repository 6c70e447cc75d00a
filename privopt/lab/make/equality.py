"""Equality of tables: whether two of them say the same of the same experiment."""

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
    """Whether two tables say the same of the same experiment.

    Rows, columns, texts and integers must be the same, and real numbers within ``RELATIVE`` or
    ``ABSOLUTE`` of each other; so must those within texts that are JSON, as of plans.
    """
    same_shape = ours.num_rows == theirs.num_rows and ours.schema.equals(theirs.schema)
    if not same_shape or ours.schema.metadata != theirs.schema.metadata:
        return False
    return all(map(_equal_columns, ours.columns, theirs.columns))


def _equal_columns(ours: pa.ChunkedArray, theirs: pa.ChunkedArray) -> bool:
    if ours.equals(theirs):
        return True
    if pa.types.is_floating(ours.type):
        return ours.is_null().equals(theirs.is_null()) and _close(
            ours.drop_null().to_numpy(), theirs.drop_null().to_numpy()
        )
    if pa.types.is_string(ours.type):
        pairs = set(zip(ours.to_pylist(), theirs.to_pylist(), strict=True))
        return all(_equal_texts(*pair) for pair in pairs)
    return False


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
        return _close(ours, theirs)
    return ours == theirs


def _close(ours: npt.ArrayLike, theirs: npt.ArrayLike) -> bool:
    return np.allclose(ours, theirs, rtol=RELATIVE, atol=ABSOLUTE, equal_nan=True)

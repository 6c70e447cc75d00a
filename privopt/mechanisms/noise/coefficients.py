"""Coefficients that host and device share."""

from __future__ import annotations

import numpy as np
from jax.typing import ArrayLike

__all__ = ["coefficients"]


def coefficients(name: str, values: ArrayLike, dimensions: int) -> np.ndarray:
    """``values`` in float32, read-only: the device multiplies by what privacy is computed from.

    Raises
    ------
    ValueError
        If ``values`` is no array of so many dimensions, is empty, or is not finite in float32.

    Examples
    --------
    >>> coefficients("theta", [0.1], 1)
    array([0.1], dtype=float32)
    """
    given = np.asarray(values)
    if given.ndim != dimensions or not given.size or given.dtype.kind not in "fiu":
        raise ValueError(
            f"{name} must be an array of real numbers with {dimensions} dimensions, got shape "
            f"{given.shape} of {given.dtype}"
        )
    with np.errstate(over="ignore"):
        rounded = np.array(given, np.float32)
    if not np.isfinite(rounded).all():
        raise ValueError(f"{name} must be finite in float32, got infinities or NaN")
    rounded.setflags(write=False)
    return rounded

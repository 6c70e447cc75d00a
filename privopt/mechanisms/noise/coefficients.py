"""Coefficients that host and device share."""

from __future__ import annotations

import numpy as np
from jax.typing import ArrayLike

__all__ = ["coefficients", "require_streamable"]

MAX_GROWTH = 2.0**12  # of a past draw beside the fresh one: half of the bits of float32


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


def require_streamable(name: str, weights: np.ndarray, steps: int) -> None:
    """ValueError unless the weights of past draws, over that of the fresh one, stay moderate.

    Where ``C`` is invertible in exact numbers alone the past grows until float32 rounds the fresh
    draw off, which privacy rests on.
    """
    if not np.all(np.abs(weights) <= MAX_GROWTH):
        raise ValueError(
            f"{name} must give C an inverse that float32 can hold: past noise counts at most "
            f"{MAX_GROWTH:g} times as much as fresh noise, got more within {steps} steps"
        )

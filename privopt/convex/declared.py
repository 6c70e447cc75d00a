"""Checks of the numbers that sets and rules are declared with.

They may be device arrays, traced ones included, which are not read.
"""

from __future__ import annotations

from numbers import Integral, Real
from typing import TypeGuard

import jax
import numpy as np

from privopt.convex.vectors import Number


def on_host(value: object) -> TypeGuard[float | np.ndarray]:
    """Whether the numbers of ``value`` can be read here."""
    return isinstance(value, Real | np.ndarray) and not isinstance(value, bool)


def require_positive(name: str, value: object) -> None:
    """ValueError for what is seen not to be positive and finite, at every place of an array."""
    if _broken(value) or (on_host(value) and not np.all(np.asarray(value) > 0.0)):
        raise ValueError(f"{name} must be positive and finite, got {value!r}")


def require_finite(name: str, value: object) -> None:
    """ValueError for what is seen to hold other than finite numbers."""
    if _broken(value):
        raise ValueError(f"{name} must be finite, got {value!r}")


def require_shape(name: str, value: Number, *shapes: tuple[int, ...]) -> None:
    """ValueError for an array of none of these shapes."""
    if (found := np.shape(value)) not in shapes:
        known = " or ".join(map(str, shapes))
        raise ValueError(f"{name} must have shape {known}, got {found}")


def dimension(dim: int) -> int:
    """``dim`` as an int."""
    if isinstance(dim, bool) or not isinstance(dim, Integral) or dim < 1:
        raise ValueError(f"dim must be a positive integer, got {dim!r}")
    return int(dim)


def _broken(value: object) -> bool:
    if isinstance(value, jax.Array):
        return False
    if isinstance(value, np.ndarray) and value.dtype.kind not in "fiu":
        return True
    return not (on_host(value) and np.all(np.isfinite(value)))

"""Argument checks that several audits share."""

from __future__ import annotations

import numpy as np

from privopt.arguments import described, real, shown
from privopt.audit.scores import FloatArray

LEAST_RUNS = 8  # the first quarter must have a covariance


def check_failure(failure: object) -> float:
    """Return ``failure`` as a float, or raise ``ValueError`` unless it lies in (0, 1)."""
    value = real("failure", failure)
    if not 0.0 < value < 1.0:
        raise ValueError(f"failure must be above 0 and below 1, got {shown(failure)}")
    return value


def check_samples(name: str, samples: object) -> FloatArray:
    """Return ``samples`` in float64, or raise ``ValueError`` unless they have shape ``(runs, k)``.

    All numbers must be finite, and there must be at least ``LEAST_RUNS`` runs.
    """
    try:
        array = np.asarray(samples)
    except ValueError:
        raise ValueError(f"{name} must be an array, got rows of different shapes") from None
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name} must be an array of numbers, got {described(samples)}")
    if array.ndim != 2 or array.shape[0] < LEAST_RUNS or array.shape[1] == 0:
        raise ValueError(
            f"{name} must have shape (runs, numbers) with at least {LEAST_RUNS} runs, got "
            f"{array.shape}"
        )
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, got NaN or infinity")
    return array.astype(np.float64)

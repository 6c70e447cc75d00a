"""Basis pursuit by spectral projected gradients: SPGL1 with default settings."""

from __future__ import annotations

import warnings

import numpy as np
import spgl1


def least_l1(matrix: np.ndarray, right_hand_side: np.ndarray) -> np.ndarray:
    """Solve to a residual of 1e-4, the default."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return spgl1.spg_bp(matrix, right_hand_side, verbosity=0)[0]

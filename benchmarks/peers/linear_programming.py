"""Basis pursuit as a linear programme of positive and negative parts, solved by HiGHS in scipy."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog


def least_l1(matrix: np.ndarray, right_hand_side: np.ndarray) -> np.ndarray:
    """Solve with default settings."""
    dim = matrix.shape[1]
    both = np.hstack([matrix, -matrix])
    parts = linprog(np.ones(2 * dim), A_eq=both, b_eq=right_hand_side, bounds=(0, None)).x
    return parts[:dim] - parts[dim:]

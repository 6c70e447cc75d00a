"""Basis pursuit in cvxpy, solved by Clarabel."""

from __future__ import annotations

import cvxpy
import numpy as np


def least_l1(matrix: np.ndarray, right_hand_side: np.ndarray) -> np.ndarray:
    """Solve with default settings."""
    point = cvxpy.Variable(matrix.shape[1])
    problem = cvxpy.Problem(cvxpy.Minimize(cvxpy.norm1(point)), [matrix @ point == right_hand_side])
    problem.solve(solver=cvxpy.CLARABEL)
    return point.value

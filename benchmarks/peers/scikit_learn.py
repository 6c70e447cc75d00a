"""Logistic regression of scikit-learn with the solver lbfgs."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.linear_model import LogisticRegression


def minimise(
    features: np.ndarray, labels: np.ndarray, regularisation: float, tolerance: float, steps: int
) -> np.ndarray:
    """Minimise until a stopping rule of the solver holds; that on the value is the first one."""
    model = LogisticRegression(
        C=1.0 / (regularisation * len(labels)), tol=tolerance, max_iter=steps, fit_intercept=False
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(features, labels).coef_[0]

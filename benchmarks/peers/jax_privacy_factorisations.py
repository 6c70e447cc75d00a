"""Factorisation optimisers of jax-privacy 2.0 with default settings."""

from __future__ import annotations

import numpy as np
from jax_privacy.matrix_factorization import buffered_toeplitz, dense, toeplitz


def optimal(steps: int) -> np.ndarray:
    """Return the matrix ``C``."""
    return np.asarray(dense.optimize(steps))


def banded(steps: int, band: int, rounds: int) -> np.ndarray:
    """Return the coefficients of ``C``."""
    return np.asarray(toeplitz.optimize_banded_toeplitz(steps, band, max_optimizer_steps=rounds))


def buffered(steps: int, buffers: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the weights and the decays."""
    loss = buffered_toeplitz.LossFn.build_min_sep(n=steps, error="mean", max_participations=1)
    result, _ = buffered_toeplitz.optimize_loss(loss, num_buffers=buffers)
    return np.asarray(result.output_scale), np.asarray(result.buf_decay)

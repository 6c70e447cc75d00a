"""The optimisers of jax-privacy 2.0, as they come."""

from __future__ import annotations

import numpy as np
from jax_privacy.matrix_factorization import buffered_toeplitz, dense, toeplitz


def optimal(steps: int) -> np.ndarray:
    """``C``."""
    return np.asarray(dense.optimize(steps))


def banded(steps: int, band: int, rounds: int) -> np.ndarray:
    """The coefficients of ``C``."""
    return np.asarray(toeplitz.optimize_banded_toeplitz(steps, band, max_optimizer_steps=rounds))


def buffered(steps: int, buffers: int) -> tuple[np.ndarray, np.ndarray]:
    """Weights and decays."""
    loss = buffered_toeplitz.LossFn.build_min_sep(n=steps, error="mean", max_participations=1)
    found, _ = buffered_toeplitz.optimize_loss(loss, num_buffers=buffers)
    return np.asarray(found.output_scale), np.asarray(found.buf_decay)

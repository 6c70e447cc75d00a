"""Noise of any lower triangular factorisation."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike
from scipy.linalg import solve_triangular

from privopt.arguments import count
from privopt.convex import pytree_dataclass
from privopt.factorisations import DenseFactorisation, Factorisation
from privopt.mechanisms.noise.coefficients import coefficients, require_streamable
from privopt.mechanisms.noise.event import GaussianMemory
from privopt.mechanisms.noise.vectors import drawn, restored, rows, weighted
from privopt.release import Pytree

__all__ = ["DenseNoise"]


@pytree_dataclass
@dataclass(frozen=True, eq=False)
class DenseNoise(GaussianMemory):
    r"""``z_t = \sum_{s \le t} R_{ts} xi_s``, ``R = C^{-1}``; all vectors ``xi`` are remembered.

    Attributes
    ----------
    inverse : ndarray
        ``R``, lower triangular and invertible, shape ``(steps, steps)``; rounded to float32.

    Formal guarantee
    ----------------
    ``C`` is the inverse of the rounded ``R``.

    Examples
    --------
    >>> noise = DenseNoise(np.array([[1.0, 0.0], [-0.5, 1.0]]))
    >>> noise.factorisation(2).encoder()
    array([[1. , 0. ],
           [0.5, 1. ]])
    """

    inverse: ArrayLike

    def __post_init__(self) -> None:
        inverse = coefficients("inverse", self.inverse, 2)
        if inverse.shape[0] != inverse.shape[1]:
            raise ValueError(f"inverse must be a square matrix, got shape {inverse.shape}")
        if np.triu(inverse, 1).any():
            raise ValueError("inverse must be lower triangular, got numbers above the diagonal")
        if not np.diag(inverse).all():
            raise ValueError("inverse must be invertible, got zeros on the diagonal")
        require_streamable("inverse", inverse / np.diag(inverse)[:, None], len(inverse))
        object.__setattr__(self, "inverse", inverse)

    def begin(self, point: Pytree) -> Array:
        """The vectors ``xi``."""
        return rows(np.shape(self.inverse)[0], point)

    def next(self, memory: Array, t: Array, key: Array, like: Pytree) -> tuple[Pytree, Array]:
        """Row ``t`` of ``R`` times all that has been drawn."""
        fresh = drawn(key, t, like)
        memory = jax.lax.dynamic_update_index_in_dim(memory, fresh, t, 0)
        row = jnp.asarray(self.inverse, fresh.dtype)[t]
        return restored(weighted(row, memory), like), memory

    def factorisation(self, steps: int) -> Factorisation:
        """The leading block of ``C``; ValueError beyond the size of ``R``."""
        inverse = np.asarray(self.inverse, np.float64)
        if count("steps", steps) > len(inverse):
            raise ValueError(f"steps must be at most {len(inverse)} for this noise, got {steps}")
        inverse = inverse[:steps, :steps]
        return DenseFactorisation(solve_triangular(inverse, np.eye(steps), lower=True))

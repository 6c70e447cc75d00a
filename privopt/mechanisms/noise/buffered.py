"""Noise of buffered Toeplitz factorisations: few geometric buffers."""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from privopt.convex import pytree_dataclass
from privopt.factorisations import BufferedFactorisation, Factorisation
from privopt.mechanisms.noise.coefficients import coefficients, require_streamable
from privopt.mechanisms.noise.event import GaussianMemory
from privopt.mechanisms.noise.vectors import drawn, restored, rows, weighted
from privopt.release import Pytree

__all__ = ["BufferedNoise"]


@pytree_dataclass
@dataclass(frozen=True, eq=False)
class BufferedNoise(GaussianMemory):
    r"""``C`` Toeplitz with ``c_0 = 1, c_k = \sum_i omega_i theta_i^{k-1}``.

    .. math:: z_t = \xi_t - \sum_i \omega_i u_i, \qquad u_i \leftarrow \theta_i u_i + z_t .

    Attributes
    ----------
    omega, theta : ndarray
        Weights and decays, one of each for a buffer: ``omega >= 0``, ``0 <= theta <= 1``; rounded
        to float32.

    Formal guarantee
    ----------------
    ``C`` is that of the rounded numbers, on as many steps as there are.

    Source: McMahan, Xu and Zhang 2024 (arXiv:2408.08868).

    Examples
    --------
    >>> noise = BufferedNoise(np.array([0.5]), np.array([0.5]))
    >>> noise.factorisation(4).coefficients()
    array([1.   , 0.5  , 0.25 , 0.125])
    """

    omega: ArrayLike
    theta: ArrayLike

    def __post_init__(self) -> None:
        for name in ("omega", "theta"):
            object.__setattr__(self, name, coefficients(name, getattr(self, name), 1))
        self.factorisation(1)

    def begin(self, point: Pytree) -> Array:
        """The buffers ``u``."""
        return rows(np.size(self.omega), point)

    def next(self, memory: Array, t: Array, key: Array, like: Pytree) -> tuple[Pytree, Array]:
        """All buffers decay and take ``z_t`` up."""
        fresh = drawn(key, t, like)
        noise = fresh - weighted(jnp.asarray(self.omega, fresh.dtype), memory)
        memory = jnp.asarray(self.theta, fresh.dtype)[:, None] * memory + noise[None]
        return restored(noise, like), memory

    def factorisation(self, steps: int) -> Factorisation:
        """Of the rounded numbers; ValueError where ``C^-1`` grows out of float32."""
        found = BufferedFactorisation(steps, np.asarray(self.omega), np.asarray(self.theta))
        with np.errstate(over="ignore", invalid="ignore"):
            require_streamable("omega", found.inverse(), steps)
        return found

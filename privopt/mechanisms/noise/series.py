"""Noise of Toeplitz factorisations that are quotients of two short series."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from privopt.convex import pytree_dataclass
from privopt.factorisations import Factorisation, SeriesFactorisation
from privopt.mechanisms.noise.coefficients import coefficients, require_streamable
from privopt.mechanisms.noise.event import GaussianMemory
from privopt.mechanisms.noise.vectors import drawn, restored, rows, weighted
from privopt.release import Pytree

__all__ = ["SeriesNoise"]


@pytree_dataclass
@dataclass(frozen=True, eq=False)
class SeriesNoise(GaussianMemory):
    r"""``C = p/q`` as power series of the shift, so ``z = (q/p) xi``.

    .. math:: y_t = \xi_t - \sum_{j \ge 1} p_j y_{t-j}, \qquad z_t = \sum_{j \ge 0} q_j y_{t-j} .

    A band of ``C`` is ``p``, with ``q = 1``; a band of ``C^{-1}`` is ``q``, with ``p = 1``. As many
    vectors ``y`` are remembered as the longer series has coefficients, in a ring: a step writes one
    and reads them all in one product with the coefficients, turned to where the ring stands.

    Attributes
    ----------
    numerator, denominator : ndarray
        ``p`` and ``q``, which begin with 1; rounded to float32.

    Formal guarantee
    ----------------
    ``C`` is that of the rounded coefficients, on as many steps as there are.

    Examples
    --------
    >>> noise = SeriesNoise(np.ones(1), np.array([1.0, -0.5]))
    >>> noise.factorisation(4).coefficients()
    array([1.   , 0.5  , 0.25 , 0.125])
    >>> noise.begin(jnp.zeros(3)).shape
    (2, 3)
    """

    numerator: ArrayLike
    denominator: ArrayLike

    def __post_init__(self) -> None:
        for name in ("numerator", "denominator"):
            series = coefficients(name, getattr(self, name), 1)
            if series[0] != 1.0:
                raise ValueError(f"{name} must begin with 1, got {series[0]}")
            object.__setattr__(self, name, series)

    def begin(self, point: Pytree) -> Array:
        """The last vectors ``y``."""
        return rows(max(np.size(self.numerator), np.size(self.denominator)), point)

    def next(self, memory: Array, t: Array, key: Array, like: Pytree) -> tuple[Pytree, Array]:
        """One turn of the ring."""
        t, places, noise = jnp.asarray(t), memory.shape[0], drawn(key, t, like)
        lags = jnp.mod(t - jnp.arange(places, dtype=t.dtype), places)

        def of_the_past(series: ArrayLike) -> Array:
            numbers = jnp.asarray(series, noise.dtype).at[0].set(0.0)
            return weighted(jnp.pad(numbers, (0, places - numbers.size))[lags], memory)

        if np.size(self.numerator) > 1:
            noise = noise - of_the_past(self.numerator)
        memory = jax.lax.dynamic_update_index_in_dim(memory, noise, jnp.mod(t, places), 0)
        if np.size(self.denominator) > 1:
            noise = noise + of_the_past(self.denominator)
        return restored(noise, like), memory

    def factorisation(self, steps: int) -> Factorisation:
        """``p/q``, cut at ``steps``; ValueError where ``1/p`` or ``q/p`` grows out of float32."""
        series = np.asarray(self.numerator), np.asarray(self.denominator)
        numerator, denominator = (each[:steps] for each in series)
        found = SeriesFactorisation("series", steps, numerator, denominator)
        if numerator.size > 1:
            remembered = SeriesFactorisation("series", steps, numerator).inverse()
            require_streamable("numerator", remembered, steps)
        require_streamable("denominator", found.inverse(), steps)
        return found

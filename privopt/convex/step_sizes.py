"""Step sizes of first-order methods, as numbers."""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jax import Array

from privopt.arguments import positive_number
from privopt.convex.declared import on_host, require_finite
from privopt.convex.pytree_dataclass import pytree_dataclass
from privopt.convex.vectors import Number


@pytree_dataclass
@dataclass(frozen=True)
class StepSizes:
    """``eta_t = scale (t + offset)^{-power} (1 - decay (t - 1)/T)`` for ``t = 1..T``.

    One formula holds the schedules of the theorems, so that they differ in numbers and share a
    compiled program.

    Attributes
    ----------
    scale, power, offset, decay : float
        Finite; ``decay`` in ``[0, 1]``.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> StepSizes.linear_decay(0.5).at(jnp.arange(1, 5), jnp.asarray(4)).tolist()
    [0.5, 0.375, 0.25, 0.125]
    """

    scale: Number
    power: Number = 0.0
    offset: Number = 0.0
    decay: Number = 0.0

    def __post_init__(self) -> None:
        for name in ("scale", "power", "offset", "decay"):
            require_finite(name, getattr(self, name))
        decay = np.asarray(self.decay) if on_host(self.decay) else np.zeros(())
        if np.any((decay < 0.0) | (decay > 1.0)):
            raise ValueError(f"decay must lie in [0, 1], got {self.decay!r}")

    @classmethod
    def constant(cls, scale: float) -> StepSizes:
        """``eta``: for averages of convex losses."""
        return cls(scale)

    @classmethod
    def inverse_root(cls, scale: float) -> StepSizes:
        """``c/sqrt(t)``: for the last iterate on convex losses, ``T`` not known in advance."""
        return cls(scale, power=0.5)

    @classmethod
    def linear_decay(cls, scale: float) -> StepSizes:
        """``eta (1 - (t - 1)/T)``: for the last iterate, ``T`` known."""
        return cls(scale, decay=1.0)

    @classmethod
    def strongly_convex(cls, modulus: float) -> StepSizes:
        """``2/(m (t + 1))``, with iterates averaged in proportion to ``t``."""
        return cls(2.0 / positive_number("modulus", modulus), power=1.0, offset=1.0)

    def at(self, t: Array, steps: Array) -> Array:
        """``eta_t``; ``t`` from 1 to ``steps``, integers."""
        dtype = jnp.asarray(self.scale).dtype
        time, last = t.astype(dtype), jnp.asarray(steps).astype(dtype)
        shrunk = 1.0 - self.decay * (time - 1.0) / last
        return jnp.asarray(self.scale * (time + self.offset) ** -self.power * shrunk)

"""Step sizes of first-order methods, as numbers."""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
from jax import Array

from privopt.convex.record import record
from privopt.convex.vectors import Number

__all__ = ["StepSizes"]


@record
@dataclass(frozen=True)
class StepSizes:
    """``eta_t = scale (t + offset)^{-power} (1 - decay (t - 1)/T)`` for ``t = 1..T``.

    One formula holds the schedules of the theorems, so that they differ in numbers and share a
    compiled program.

    Attributes
    ----------
    scale, power, offset, decay : float
        ``decay`` in ``[0, 1]``.
    """

    scale: Number
    power: Number = 0.0
    offset: Number = 0.0
    decay: Number = 0.0

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
        return cls(2.0 / modulus, power=1.0, offset=1.0)

    def at(self, t: Array, steps: Array) -> Array:
        """``eta_t``; ``t`` from 1 to ``steps``, integers."""
        dtype = jnp.asarray(self.scale).dtype
        time, last = t.astype(dtype), jnp.asarray(steps).astype(dtype)
        shrunk = 1.0 - self.decay * (time - 1.0) / last
        return jnp.asarray(self.scale * (time + self.offset) ** -self.power * shrunk)

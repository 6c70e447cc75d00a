"""Risks of many points in float64, a few points at once."""

from __future__ import annotations

import jax
import numpy as np
from jax import Array
from numpy.typing import NDArray

from privopt.convex import EmpiricalRisk, MeanAndSpread, Pytree

__all__ = ["distance_rise", "risks"]

_MAX_BATCH = 32  # points at once
_MAX_NUMBERS = 2**22  # in them, at most, unless one point has more


def risks(risk: EmpiricalRisk, rows: Pytree, count: int, dim: int) -> NDArray[np.float64]:
    """``F`` of ``count`` points of ``dim`` numbers, a pytree with one leading axis."""
    if count == 0:
        return np.zeros(0)
    size = min(_MAX_BATCH, max(1, _MAX_NUMBERS // dim))
    batches = range(-(-count // size))
    padded = jax.tree.map(lambda leaf: np.resize(leaf, (len(batches), size, *leaf.shape[1:])), rows)
    values = [
        np.asarray(_risks(risk, jax.tree.map(lambda leaf, i=i: leaf[i], padded))) for i in batches
    ]
    return np.concatenate(values)[:count]


def distance_rise(
    risk: EmpiricalRisk, optimum: NDArray[np.float64], rows: NDArray[np.float64]
) -> NDArray[np.float64]:
    """``F(w) - F(optimum)`` of squared distances to points, one a row, on the host.

    ``(m/2) |w - o|^2 + m <w - o, o - mean>``: no difference of two sums, so that no constant of
    the records hides a small excess. The second part is 0 where the set holds the mean.
    """
    assert risk.points is not None
    mean = np.asarray(MeanAndSpread.of(risk.points, risk.counts).mean)
    modulus, pull = float(risk.loss.modulus), optimum - mean  # type: ignore[attr-defined]
    steps = (row - optimum for row in rows)
    return np.array([modulus * (0.5 * (step @ step) + step @ pull) for step in steps])


@jax.jit
def _risks(risk: EmpiricalRisk, points: Array) -> Array:
    return jax.vmap(risk.value)(points)

"""Conjugate gradients for linear models: lanes together, in a metric, along flat rays."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from privopt.convex import ray
from privopt.convex.metric import Metric
from privopt.convex.tilted import Tilted
from privopt.convex.vectors import norm

__all__ = ["Lanes", "begin", "descend"]

# of the slope of a ray at its beginning: one lane is soon looked along, many cost more
_FLAT, _FLAT_TOGETHER = 1e-4, 2e-3


class Lanes(NamedTuple):
    """Where the lanes stand.

    ``steps`` is the number taken by each. ``paths`` is how far each has come since its predictions
    were evaluated: they are moved with the points, and round-off grows with the way.
    """

    points: Array
    predictions: Array
    gradients: Array
    norms: Array
    steps: Array
    paths: Array


class _Last(NamedTuple):
    """The last direction, the change of gradient along it, its length, the norms before it."""

    direction: Array
    change: Array
    length: Array
    norms: Array


def begin(tilted: Tilted, points: Array) -> Lanes:
    """Evaluate afresh at ``points``."""
    nothing = jnp.zeros((points.shape[0], tilted.labels.size))
    predictions = jax.lax.cond(  # the origin is where most begin
        jnp.any(points != 0.0), tilted.predictions, lambda _: nothing, points
    )
    gradients = tilted.gradients(points, tilted.slopes(predictions))
    none = jnp.zeros(points.shape[:1])
    return Lanes(points, predictions, gradients, norm(gradients), none.astype(int), none)


def descend(
    tilted: Tilted,
    lanes: Lanes,
    metric: Metric,
    length: Array,
    tolerance: Array,
    steps: int,
    pace: float = jnp.inf,
) -> Lanes:
    """At most ``steps`` more steps of every lane whose gradient is above ``tolerance``.

    Each is one product with the data for its ray and one for the gradient where the ray is flat.

    Parameters
    ----------
    metric, length : callable, Array
        The first direction is ``-metric(gradient)``; ``length``, of shape ``(k,)``, is the first
        length tried along it.
    pace : number
        The descent ends when no step makes a gradient shorter by this factor.
    """

    def unfinished(carry: tuple[Lanes, _Last, Array]) -> Array:
        lanes, last, count = carry
        going = (lanes.norms > tolerance) & (lanes.norms <= pace * last.norms)
        return jnp.any(going) & (count < steps)

    def step(carry: tuple[Lanes, _Last, Array]) -> tuple[Lanes, _Last, Array]:
        lanes, last, count = carry
        return *_step(tilted, lanes, last, metric, tolerance), count + 1

    none = jnp.zeros_like(lanes.points)
    last = _Last(none, none, length, jnp.full_like(lanes.norms, jnp.inf))
    return jax.lax.while_loop(unfinished, step, (lanes, last, jnp.zeros((), int)))[0]


def _step(
    tilted: Tilted, lanes: Lanes, last: _Last, metric: Metric, tolerance: Array
) -> tuple[Lanes, _Last]:
    active = lanes.norms > tolerance
    direction, slope = _direction(lanes, last, metric)
    direction = jnp.where(active[:, None], direction, 0.0)  # finished lanes stand still
    slope = jnp.where(active, slope, 0.0)

    # a difference of predictions would be too coarse: the slope of the ray is a sum that cancels
    change = tilted.predictions(direction)
    pull = _inner(tilted.pull(lanes.points), direction)
    stretch = tilted.regularisation * _inner(direction, direction)

    def evaluate(length: Array) -> tuple[Array, Array]:
        slopes = tilted.slopes(lanes.predictions + length[:, None] * change)
        return _inner(slopes, change) + pull + length * stretch, slopes

    far = -slope / jnp.where(stretch > 0.0, stretch, 1.0)
    first = jnp.where(active, jnp.minimum(last.length, far), last.length)
    share = _FLAT if slope.size == 1 else _FLAT_TOGETHER
    length, slopes = ray.flat(evaluate, first, slope, far, share=share)

    points = lanes.points + length[:, None] * direction
    predictions = lanes.predictions + length[:, None] * change
    gradients = tilted.gradients(points, slopes)
    steps = lanes.steps + active.astype(int)
    paths = lanes.paths + length * norm(direction)
    moved = Lanes(points, predictions, gradients, norm(gradients), steps, paths)
    return moved, _Last(direction, gradients - lanes.gradients, length, lanes.norms)


def _direction(lanes: Lanes, last: _Last, metric: Metric) -> tuple[Array, Array]:
    """Of Hestenes and Stiefel 1952, begun anew where that does not descend; and the slope."""
    steepest = -metric(lanes.gradients)
    rise = _inner(last.direction, last.change)
    share = -_inner(steepest, last.change) / jnp.where(rise > 0.0, rise, jnp.inf)
    direction = steepest + jnp.maximum(share, 0.0)[:, None] * last.direction
    for other in (steepest, -lanes.gradients):
        bad = _inner(lanes.gradients, direction) >= 0.0
        direction = jnp.where(bad[:, None], other, direction)
    return direction, _inner(lanes.gradients, direction)


def _inner(a: Array, b: Array) -> Array:
    return jnp.sum(a * b, axis=-1)

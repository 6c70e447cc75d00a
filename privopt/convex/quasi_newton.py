"""Limited-memory BFGS for linear models: lanes together, in a metric, along flat rays."""

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

_MEMORY = 8
_FLAT, _FLATTER = 0.8, 0.2  # shares of the slope: for a length of 1 to do, and of a search


class Lanes(NamedTuple):
    """Where the lanes stand; ``steps`` is the number taken by each."""

    points: Array
    predictions: Array
    gradients: Array
    norms: Array
    steps: Array


class _Memory(NamedTuple):
    """Moves and changes of the gradient, ``(m, k, dim)``, newest last; ``1/<move, change>``."""

    moves: Array
    changes: Array
    inverses: Array
    scale: Array


def begin(tilted: Tilted, points: Array) -> Lanes:
    """Evaluate afresh at ``points``."""
    predictions, gradients = tilted.evaluate(points)
    steps = jnp.zeros(points.shape[:1], int)
    return Lanes(points, predictions, gradients, norm(gradients), steps)


def descend(
    tilted: Tilted, lanes: Lanes, metric: Metric, scale: Array, tolerance: Array, steps: int
) -> Lanes:
    """At most ``steps`` more steps of every lane whose gradient is above ``tolerance``.

    Parameters
    ----------
    metric, scale : callable, Array
        The first direction is ``-scale metric(gradient)``; ``scale`` has shape ``(k,)``.
    """

    def unfinished(carry: tuple[Lanes, _Memory, Array]) -> Array:
        lanes, _, count = carry
        return jnp.any(lanes.norms > tolerance) & (count < steps)

    def step(carry: tuple[Lanes, _Memory, Array]) -> tuple[Lanes, _Memory, Array]:
        lanes, memory, count = carry
        moved, memory = _step(tilted, lanes, memory, metric, tolerance)
        return moved, memory, count + 1

    memory = _empty(lanes.points, scale)
    lanes, _, _ = jax.lax.while_loop(unfinished, step, (lanes, memory, jnp.zeros((), int)))
    return lanes


def _step(
    tilted: Tilted, lanes: Lanes, memory: _Memory, metric: Metric, tolerance: Array
) -> tuple[Lanes, _Memory]:
    active = lanes.norms > tolerance
    direction = _direction(memory, metric, lanes.gradients)
    slope = _inner(lanes.gradients, direction)
    direction = jnp.where((slope < 0.0)[:, None], direction, -lanes.gradients)
    direction = jnp.where(active[:, None], direction, 0.0)  # finished lanes stand still
    slope = _inner(lanes.gradients, direction)

    trial = _moved(tilted, lanes, direction, jnp.ones_like(slope))

    # where the ray is too steep there, look for where it is not; a loop, that vmap may skip it
    def steep(carry: tuple[Lanes, Array]) -> Array:
        trial, tried = carry
        reached = _inner(trial.gradients, direction)
        return jnp.any(jnp.abs(reached) > _FLAT * jnp.abs(slope)) & ~tried

    def searched(carry: tuple[Lanes, Array]) -> tuple[Lanes, Array]:
        length = _flat_length(tilted, lanes, direction, slope)
        return _moved(tilted, lanes, direction, length), jnp.ones((), bool)

    trial, _ = jax.lax.while_loop(steep, searched, (trial, jnp.zeros((), bool)))
    learnt = _learnt(memory, trial.points - lanes.points, trial.gradients - lanes.gradients, metric)
    return trial._replace(steps=lanes.steps + active.astype(int)), learnt


def _moved(tilted: Tilted, lanes: Lanes, direction: Array, length: Array) -> Lanes:
    points = lanes.points + length[:, None] * direction
    return begin(tilted, points)._replace(steps=lanes.steps)


def _flat_length(tilted: Tilted, lanes: Lanes, direction: Array, slope: Array) -> Array:
    # a difference of predictions would be too coarse: the slope of the ray is a sum that cancels
    change = tilted.predictions(direction)
    pull = _inner(tilted.pull(lanes.points), direction)
    stretch = tilted.regularisation * _inner(direction, direction)

    def evaluate(length: Array) -> Array:
        slopes = tilted.slopes(lanes.predictions + length[:, None] * change)
        return _inner(slopes, change) + pull + length * stretch

    far = jnp.maximum(-slope / jnp.where(stretch > 0.0, stretch, 1.0), 1.0)
    return ray.flat(evaluate, jnp.ones_like(slope), slope, far, share=_FLATTER)


def _direction(memory: _Memory, metric: Metric, gradients: Array) -> Array:
    """The two loops of Nocedal 1980."""

    def back(rest: Array, pair: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        move, change, inverse = pair
        share = inverse * _inner(move, rest)
        return rest - share[:, None] * change, share

    def forth(found: Array, pair: tuple[Array, Array, Array, Array]) -> tuple[Array, None]:
        move, change, inverse, share = pair
        other = inverse * _inner(change, found)
        return found + (share - other)[:, None] * move, None

    pairs = memory.moves, memory.changes, memory.inverses
    rest, shares = jax.lax.scan(back, gradients, pairs, reverse=True)
    return -jax.lax.scan(forth, memory.scale[:, None] * metric(rest), (*pairs, shares))[0]


def _learnt(memory: _Memory, move: Array, change: Array, metric: Metric) -> _Memory:
    product = _inner(move, change)
    size = _inner(change, metric(change))
    good = (product > 0.0) & (size > 0.0)

    def pushed(old: Array, new: Array) -> Array:
        return jnp.concatenate([old[1:], new[None]])

    return _Memory(
        pushed(memory.moves, move),
        pushed(memory.changes, change),
        pushed(memory.inverses, jnp.where(good, 1.0 / jnp.where(good, product, 1.0), 0.0)),
        jnp.where(good, product / jnp.where(good, size, 1.0), memory.scale),
    )


def _empty(points: Array, scale: Array) -> _Memory:
    none = jnp.zeros((_MEMORY, *points.shape), points.dtype)
    return _Memory(none, none, none[..., 0], scale)


def _inner(a: Array, b: Array) -> Array:
    return jnp.sum(a * b, axis=-1)

"""L-BFGS for linear models: lanes together, in a metric, along flat rays."""

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

# One lane is soon looked along: rays are followed until flat, steps are those of conjugate
# gradients, and one pair says it all. Of many a look costs half a step: full lengths, more pairs.
_FLAT, _FLAT_TOGETHER = 1e-4, 0.3  # of the slope of a ray at its beginning
_PAIRS, _PAIRS_TOGETHER = 1, 5


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


class _Memory(NamedTuple):
    """Of the last steps: moves and changes of gradient, shape ``(m, k, dim)``, latest last.

    ``scale`` is what the metric is multiplied by, ``norms`` those before the last step.
    """

    moves: Array
    changes: Array
    scale: Array
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
        The first move tried is ``-length metric(gradient)``, ``length`` of shape ``(k,)``.
    pace : number
        The descent ends when no step makes a gradient shorter by this factor.
    """

    pairs = _PAIRS if lanes.norms.size == 1 else _PAIRS_TOGETHER

    def unfinished(carry: tuple[Lanes, _Memory, Array]) -> Array:
        lanes, past, count = carry
        going = (lanes.norms > tolerance) & (lanes.norms <= pace * past.norms)
        return jnp.any(going) & (count < steps)

    def step(carry: tuple[Lanes, _Memory, Array]) -> tuple[Lanes, _Memory, Array]:
        lanes, past, count = carry
        return *_step(tilted, lanes, past, metric, tolerance), count + 1

    none = jnp.zeros((pairs, *lanes.points.shape))
    past = _Memory(none, none, length, jnp.full_like(lanes.norms, jnp.inf))
    return jax.lax.while_loop(unfinished, step, (lanes, past, jnp.zeros((), int)))[0]


def _step(
    tilted: Tilted, lanes: Lanes, past: _Memory, metric: Metric, tolerance: Array
) -> tuple[Lanes, _Memory]:
    active = lanes.norms > tolerance
    direction, slope = _direction(lanes, past, metric)
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
    first = jnp.where(active, jnp.minimum(1.0, far), 1.0)
    share = _FLAT if slope.size == 1 else _FLAT_TOGETHER
    length, slopes = ray.flat(evaluate, first, slope, far, share=share)

    move = length[:, None] * direction
    points = lanes.points + move
    predictions = lanes.predictions + length[:, None] * change
    gradients = tilted.gradients(points, slopes)
    steps = lanes.steps + active.astype(int)
    paths = lanes.paths + norm(move)
    moved = Lanes(points, predictions, gradients, norm(gradients), steps, paths)
    moves = jnp.concatenate([past.moves[1:], move[None]])
    changes = jnp.concatenate([past.changes[1:], (gradients - lanes.gradients)[None]])
    return moved, _Memory(moves, changes, length * past.scale, lanes.norms)


def _direction(lanes: Lanes, past: _Memory, metric: Metric) -> tuple[Array, Array]:
    """Of L-BFGS (Nocedal 1980), along the gradient where that does not descend; and the slope."""
    rises = _inner(past.moves, past.changes)
    rates = jnp.where(rises > 0.0, 1.0 / jnp.where(rises > 0.0, rises, 1.0), 0.0)
    pairs = past.moves, past.changes, rates

    def back(rest: Array, pair: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        move, change, rate = pair
        share = rate * _inner(move, rest)
        return rest - share[:, None] * change, share

    def forth(direction: Array, pair: tuple[Array, Array, Array, Array]) -> tuple[Array, None]:
        move, change, rate, share = pair
        missing = share - rate * _inner(change, direction)
        return direction + missing[:, None] * move, None

    rest, shares = jax.lax.scan(back, -lanes.gradients, pairs, reverse=True)
    direction = past.scale[:, None] * metric(rest)
    direction, _ = jax.lax.scan(forth, direction, (*pairs, shares))
    bad = _inner(lanes.gradients, direction) >= 0.0
    direction = jnp.where(bad[:, None], -past.scale[:, None] * lanes.gradients, direction)
    return direction, _inner(lanes.gradients, direction)


def _inner(a: Array, b: Array) -> Array:
    return jnp.sum(a * b, axis=-1)

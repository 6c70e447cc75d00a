"""Minimisers of tilted losses of a linear model within a convex set, each with a certificate."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from privopt.convex.constraint import ConstraintSet
from privopt.convex.metric import hessian
from privopt.convex.sets import L2Ball
from privopt.convex.tilted import Tilted
from privopt.convex.vectors import broadcast, norm

__all__ = ["ConstrainedModels", "minimise_constrained_model", "moves_of"]

_ROUNDS = 30
_EVERY = 4  # of the records in a first metric
_FIRST = 40  # steps in it, at most
_MEMORY = 5
_SECULAR = 30
_ENOUGH = 0.5  # of the slope of a step at its beginning, what its end may have at most


class ConstrainedModels(NamedTuple):
    """Members of the set, and what is known of them.

    Attributes
    ----------
    points : Array
        ``w_k`` in ``W``, shape ``(k, dim)``.
    moves : Array
        ``beta_k |w_k - Proj_W(w_k - grad J_k(w_k)/beta_k)|``, shape ``(k,)``: see :func:`moves_of`.
    steps : Array
        Steps taken for each, shape ``(k,)``; a step is two products with the data.
    """

    points: Array
    moves: Array
    steps: Array


def moves_of(
    constraint: ConstraintSet, points: Array, gradients: Array, smoothness: Array
) -> Array:
    """``beta |w - Proj_W(w - grad J(w)/beta)| >= lambda |w - argmin_W J|`` for ``w`` in ``W``.

    For ``J`` ``lambda``-strongly convex and ``beta``-smooth on ``W``: the map ``w -> Proj_W(w -
    grad J(w)/beta)`` contracts distances by ``1 - lambda/beta`` and keeps the minimiser, so that
    ``|w - w*| <= |w - w^+| + (1 - lambda/beta) |w - w*|``. In the interior it is ``|grad J|``.

    Parameters
    ----------
    points, gradients : Array
        ``(k, dim)``; members, and ``grad J_k`` there.
    smoothness : Array
        ``beta``, shape ``(k,)``.
    """
    moved = constraint.project(points - gradients / smoothness[:, None])
    return smoothness * norm(points - moved)


class _Lanes(NamedTuple):
    """Where the lanes stand; ``stretch`` is by how much the metric is too short for a lane."""

    points: Array
    gradients: Array
    moves: Array
    steps: Array
    stretch: Array
    length: Array  # of the last step


class _Memory(NamedTuple):
    """The last point and proposed step of each lane, and the differences of those before."""

    point: Array
    step: Array
    points: Array  # (k, memory, dim)
    steps: Array


class _Metric(NamedTuple):
    """``Q diag(values) Q^T``, the mean Hessian of the losses."""

    values: Array
    vectors: Array


def minimise_constrained_model(
    tilted: Tilted,
    constraint: ConstraintSet,
    start: Array,
    *,
    smoothness: Array,
    tolerance: Array,
) -> ConstrainedModels:
    """``argmin_{w in W} J_k(w)`` for all ``k`` at once, as far as it gets in bounded time.

    *Method.* The model ``<g, s> + s^T (a H + lambda_k) s/2`` is minimised over the ball that ``W``
    is (over the whole space for any other set), by one equation in the multiplier of the ball,
    ``H`` being a Hessian that all lanes share, in its eigenbasis: of one record in 4 first, then
    in rounds of the mean over what is unfinished. Steps are combined as by Anderson. A step that
    leads too far stretches the lane's metric by a factor ``a``, and is taken back.

    Nothing here is a promise: ``moves`` says what was reached, and whoever relies on it compares.

    Parameters
    ----------
    tilted : Tilted
    constraint : constraint set
        ``W``.
    start : Array
        A member, shape ``(dim,)``.
    smoothness : Array
        ``beta_k``, of the whole of ``J_k``; shape ``(k,)``.
    tolerance : Array
        Of ``moves``, shape ``(k,)``.
    """
    problem = _Problem(tilted, constraint, smoothness, tolerance)
    rows, dim = tilted.features.shape
    count = tilted.tilts.shape[0]
    sampled = rows >= _EVERY * max(dim, 25) and count < _EVERY
    patience = 3 + dim // (16 * count)  # steps that cost about what a Hessian does
    points = jnp.broadcast_to(start, tilted.tilts.shape)
    none, ones = jnp.zeros(count, int), jnp.ones(count)
    lanes = _Lanes(points, *problem.evaluated(points), none, ones, ones)

    def round_(carry: tuple[_Lanes, Array]) -> tuple[_Lanes, Array]:
        lanes, number = carry
        steps, mean = jnp.asarray(patience), partial(_mean, tilted, lanes, tolerance, number)
        if sampled:
            first = number == 0
            steps = jnp.where(first, _FIRST, patience)
            metric = _decomposed(jax.lax.cond(first, partial(_sampled, tilted, lanes), mean))
        else:
            metric = _decomposed(mean())
        return _descend(problem, lanes._replace(stretch=ones), metric, steps), number + 1

    def unfinished(carry: tuple[_Lanes, Array]) -> Array:
        return jnp.any(carry[0].moves > tolerance) & (carry[1] < _ROUNDS)

    lanes, _ = jax.lax.while_loop(unfinished, round_, (lanes, jnp.zeros((), int)))
    return ConstrainedModels(lanes.points, lanes.moves, lanes.steps)


class _Problem(NamedTuple):
    """What does not change."""

    tilted: Tilted
    constraint: ConstraintSet
    smoothness: Array
    tolerance: Array

    def evaluated(self, points: Array) -> tuple[Array, Array]:
        """Gradients and moves at members, afresh."""
        slopes = self.tilted.slopes(self.tilted.predictions(points))
        gradients = self.tilted.gradients(points, slopes)
        return gradients, moves_of(self.constraint, points, gradients, self.smoothness)


def _descend(problem: _Problem, lanes: _Lanes, metric: _Metric, steps: Array) -> _Lanes:
    """At most ``steps`` more of every lane that is not done."""

    def unfinished(carry: tuple[_Lanes, _Memory, Array]) -> Array:
        return jnp.any(carry[0].moves > problem.tolerance) & (carry[2] < steps)

    def step(carry: tuple[_Lanes, _Memory, Array]) -> tuple[_Lanes, _Memory, Array]:
        lanes, memory, number = carry
        return *_moved(problem, lanes, memory, metric), number + 1

    start = (lanes, _nothing(lanes), jnp.zeros((), int))
    return jax.lax.while_loop(unfinished, step, start)[0]


def _moved(
    problem: _Problem, lanes: _Lanes, memory: _Memory, metric: _Metric
) -> tuple[_Lanes, _Memory]:
    """One step; where it led too far the lane stays, with a longer metric and no memory."""
    tilted = problem.tilted
    active = lanes.moves > problem.tolerance
    direct = _step(tilted, _ball(problem.constraint, lanes.points[0]), metric, lanes)
    mixed, memory = _mixed(lanes, memory, direct)
    trial = problem.constraint.project(lanes.points + mixed)
    gradients, moves = problem.evaluated(trial)
    way = trial - lanes.points
    before, after = _inner(lanes.gradients, way), _inner(gradients, way)
    short = (before < 0.0) & (after <= -_ENOUGH * before)
    good = short | (moves <= lanes.moves)
    taken = active & good
    model = _inner(way, _product(metric, way))
    met = after - before - tilted.regularisation * _inner(way, way)
    measured = met / jnp.where(model > 0.0, model, 1.0)
    longer = jnp.maximum(2.0 * lanes.stretch, jnp.where(jnp.isfinite(measured), measured, 0.0))
    kept = good[:, None, None].astype(way.dtype)
    return _Lanes(
        jnp.where(taken[:, None], trial, lanes.points),
        jnp.where(taken[:, None], gradients, lanes.gradients),
        jnp.where(taken, moves, lanes.moves),
        lanes.steps + active.astype(int),
        jnp.where(good | ~active, lanes.stretch, longer),
        jnp.where(taken, _length(way), lanes.length),
    ), memory._replace(points=kept * memory.points, steps=kept * memory.steps)


def _ball(constraint: ConstraintSet, start: Array) -> tuple[Array, Array]:
    if isinstance(constraint, L2Ball):
        return broadcast(constraint.centre, start), jnp.asarray(constraint.radius, start.dtype)
    return jnp.zeros_like(start), jnp.asarray(jnp.inf, start.dtype)


def _decomposed(mean: Array) -> _Metric:
    finite = jnp.where(jnp.isfinite(mean).all(), mean, 0.0)
    values, vectors = jnp.linalg.eigh(finite)
    return _Metric(jnp.maximum(values, 0.0), vectors)


def _product(metric: _Metric, vectors: Array) -> Array:
    return (metric.values[None] * (vectors @ metric.vectors)) @ metric.vectors.T


def _sampled(tilted: Tilted, lanes: _Lanes) -> Array:
    some = tilted.every(_EVERY)
    share = jnp.full(lanes.moves.shape, 1.0 / lanes.moves.size)
    curvatures = share @ some.curvatures(some.predictions(lanes.points), jnp.ones_like(share))
    return hessian(some.features, curvatures)


def _mean(tilted: Tilted, lanes: _Lanes, tolerance: Array, number: Array) -> Array:
    unfinished = lanes.moves > tolerance
    farthest = jnp.arange(unfinished.size) == jnp.argmax(lanes.moves)
    share = jnp.where(number < 6, unfinished, farthest).astype(lanes.moves.dtype)
    share = share / jnp.sum(share)
    reach = jnp.clip(lanes.length / jnp.sqrt(1.0 * tilted.features.shape[1]), 1e-7, 1.0)
    predictions = tilted.predictions(lanes.points)
    return hessian(tilted.features, share @ tilted.curvatures(predictions, reach))


def _step(tilted: Tilted, ball: tuple[Array, Array], metric: _Metric, lanes: _Lanes) -> Array:
    """To the minimiser of the model over the ball: ``(A + nu) s = -(g + nu y)``, ``y = w - b``."""
    centre, radius = ball
    curvature = lanes.stretch[:, None] * metric.values[None] + tilted.regularisation[:, None]
    offset = (lanes.points - centre[None]) @ metric.vectors
    gradient = lanes.gradients @ metric.vectors
    pulled = curvature * offset - gradient

    def size(multiplier: Array) -> Array:
        return _length(pulled / (curvature + multiplier[:, None]))

    def search(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        multiplier, length, number = carry
        shifted = curvature + multiplier[:, None]
        bend = jnp.sum(jnp.square(pulled / shifted) / shifted, axis=-1)
        bend = jnp.where(bend > 0.0, bend, 1.0)
        multiplier = multiplier + (length / radius - 1.0) * jnp.square(length) / bend
        multiplier = jnp.maximum(multiplier, 0.0)
        return multiplier, size(multiplier), number + 1

    def outside(carry: tuple[Array, Array, Array]) -> Array:
        return jnp.any(carry[1] > radius * (1.0 + 1e-13)) & (carry[2] < _SECULAR)

    none = jnp.zeros_like(lanes.moves)
    first = (none, size(none), jnp.zeros((), int))
    multiplier = jax.lax.while_loop(outside, search, first)[0][:, None]
    return -((gradient + multiplier * offset) / (curvature + multiplier)) @ metric.vectors.T


def _nothing(lanes: _Lanes) -> _Memory:
    count, dim = lanes.points.shape
    none = jnp.zeros((count, _MEMORY, dim))
    return _Memory(lanes.points, jnp.zeros_like(lanes.points), none, none)


def _mixed(lanes: _Lanes, memory: _Memory, step: Array) -> tuple[Array, _Memory]:
    moved, change = lanes.points - memory.point, step - memory.step
    fresh = jnp.any(moved != 0.0, axis=-1)[:, None] & jnp.any(memory.step != 0.0, axis=-1)[:, None]
    moved, change = jnp.where(fresh, moved, 0.0), jnp.where(fresh, change, 0.0)
    points = jnp.concatenate([memory.points[:, 1:], moved[:, None]], axis=1)
    steps = jnp.concatenate([memory.steps[:, 1:], change[:, None]], axis=1)
    scale = _length(steps)
    scale = jnp.where(scale > 0.0, scale, 1.0)
    unit = steps / scale[:, :, None]
    normal = unit @ jnp.swapaxes(unit, 1, 2) + 1e-12 * jnp.eye(_MEMORY)[None]
    weights = jnp.linalg.solve(normal, jnp.einsum("kmd,kd->km", unit, step)[:, :, None])[:, :, 0]
    mixed = step - jnp.einsum("km,kmd->kd", weights / scale, points + steps)
    mixed = jnp.where(jnp.isfinite(mixed).all(axis=-1, keepdims=True), mixed, step)
    return mixed, _Memory(lanes.points, step, points, steps)


def _length(x: Array) -> Array:
    return jnp.sqrt(_inner(x, x))


def _inner(a: Array, b: Array) -> Array:
    return jnp.sum(a * b, axis=-1)

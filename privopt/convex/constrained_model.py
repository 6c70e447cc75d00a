"""Minimisers of tilted losses of a linear model within a convex set, each with a certificate."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from privopt.convex.constraint import ConstraintSet
from privopt.convex.metric import gram
from privopt.convex.sets import L2Ball
from privopt.convex.tilted import Tilted
from privopt.convex.vectors import broadcast, norm

__all__ = ["ConstrainedModels", "minimise_constrained_model", "moves_of"]

_ROUNDS = 30
_EVERY = 4  # of the records in a first metric
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
    ``H`` being a Hessian that all lanes share, in its eigenbasis: of every tenth record first, then
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
    ball = _ball(constraint, start)
    rows, dim = tilted.features.shape
    count = tilted.tilts.shape[0]
    points = jnp.broadcast_to(start, tilted.tilts.shape)

    def gradients_at(points: Array) -> Array:
        return tilted.gradients(points, tilted.predictions(points))

    gradients = gradients_at(points)
    moves = moves_of(constraint, points, gradients, smoothness)
    ones = jnp.ones(count)
    lanes = _Lanes(points, gradients, moves, jnp.zeros(count, int), ones, ones)

    def descend(lanes: _Lanes, metric: _Metric, steps: Array) -> _Lanes:
        def unfinished(carry: tuple[_Lanes, _Memory, Array]) -> Array:
            return jnp.any(carry[0].moves > tolerance) & (carry[2] < steps)

        def step(carry: tuple[_Lanes, _Memory, Array]) -> tuple[_Lanes, _Memory, Array]:
            lanes, memory, number = carry
            active = lanes.moves > tolerance
            direct = _step(tilted, ball, metric, lanes)
            mixed, memory = _mixed(lanes, memory, direct)
            trial = constraint.project(lanes.points + mixed)
            gradients = gradients_at(trial)
            moves = moves_of(constraint, trial, gradients, smoothness)
            move = trial - lanes.points
            before, after = _inner(lanes.gradients, move), _inner(gradients, move)
            good = (after <= _ENOUGH * jnp.abs(before)) & (before < 0.0) | (moves <= lanes.moves)
            taken = active & good
            model = _inner(move, _product(metric, move))
            met = after - before - tilted.regularisation * _inner(move, move)
            measured = met / jnp.where(model > 0.0, model, 1.0)
            measured = jnp.where(jnp.isfinite(measured), measured, 0.0)
            longer = jnp.maximum(2.0 * lanes.stretch, measured)
            keep = partial_where(taken)
            lanes = _Lanes(
                keep(trial, lanes.points),
                keep(gradients, lanes.gradients),
                keep(moves, lanes.moves),
                lanes.steps + active.astype(int),
                jnp.where(good | ~active, lanes.stretch, longer),
                keep(norm(move), lanes.length),
            )
            forget = good[:, None, None].astype(move.dtype)
            memory = memory._replace(points=forget * memory.points, steps=forget * memory.steps)
            return lanes, memory, number + 1

        memory = _nothing(lanes)
        return jax.lax.while_loop(unfinished, step, (lanes, memory, jnp.zeros((), int)))[0]

    sampled = rows >= _EVERY**2 and count < _EVERY
    patience = 3 + dim // (16 * count)

    def round_(carry: tuple[_Lanes, Array]) -> tuple[_Lanes, Array]:
        lanes, number = carry
        steps = jnp.asarray(patience)
        if sampled:
            first = number == 0
            steps = jnp.where(first, 40, patience)
            metric = jax.lax.cond(first, lambda: _sampled(tilted, lanes), lambda: mean(lanes, number))
        else:
            metric = mean(lanes, number)
        lanes = lanes._replace(stretch=jnp.ones_like(lanes.stretch))
        return descend(lanes, _decomposed(metric), steps), number + 1

    def mean(lanes: _Lanes, number: Array) -> Array:
        return _mean(tilted, lanes, tolerance, number)

    def unfinished(carry: tuple[_Lanes, Array]) -> Array:
        return jnp.any(carry[0].moves > tolerance) & (carry[1] < _ROUNDS)

    lanes, _ = jax.lax.while_loop(unfinished, round_, (lanes, jnp.zeros((), int)))
    return ConstrainedModels(lanes.points, lanes.moves, lanes.steps)


def partial_where(chosen: Array) -> Callable[[Array, Array], Array]:
    def keep(a: Array, b: Array) -> Array:
        return jnp.where(chosen.reshape(-1, *(1,) * (a.ndim - 1)), a, b)

    return keep


def _ball(constraint: ConstraintSet, start: Array) -> tuple[Array, Array]:
    if isinstance(constraint, L2Ball):
        return broadcast(constraint.centre, start), jnp.asarray(constraint.radius, start.dtype)
    return jnp.zeros_like(start), jnp.asarray(jnp.inf, start.dtype)


def _decomposed(hessian: Array) -> _Metric:
    finite = jnp.where(jnp.isfinite(hessian).all(), hessian, 0.0)
    values, vectors = jnp.linalg.eigh(finite)
    return _Metric(jnp.maximum(values, 0.0), vectors)


def _product(metric: _Metric, vectors: Array) -> Array:
    return (metric.values[None] * (vectors @ metric.vectors)) @ metric.vectors.T


def _sampled(tilted: Tilted, lanes: _Lanes) -> Array:
    some = tilted.every(_EVERY)
    share = jnp.full(lanes.moves.shape, 1.0 / lanes.moves.size)
    curvatures = share @ some.curvatures(some.predictions(lanes.points), jnp.ones_like(share))
    return gram(some.features, curvatures)


def _mean(tilted: Tilted, lanes: _Lanes, tolerance: Array, number: Array) -> Array:
    unfinished = lanes.moves > tolerance
    farthest = jnp.arange(unfinished.size) == jnp.argmax(lanes.moves)
    share = jnp.where(number < 6, unfinished, farthest).astype(lanes.moves.dtype)
    share = share / jnp.sum(share)
    reach = jnp.clip(lanes.length / jnp.sqrt(1.0 * tilted.features.shape[1]), 1e-7, 1.0)
    predictions = tilted.predictions(lanes.points)
    return gram(tilted.features, share @ tilted.curvatures(predictions, reach))


def _step(tilted: Tilted, ball: tuple[Array, Array], metric: _Metric, lanes: _Lanes) -> Array:
    """To the minimiser of the model over the ball: ``(A + nu) s = -(g + nu y)``, ``y = w - b``."""
    centre, radius = ball
    curvature = lanes.stretch[:, None] * metric.values[None] + tilted.regularisation[:, None]
    offset = (lanes.points - centre[None]) @ metric.vectors
    gradient = lanes.gradients @ metric.vectors
    pulled = curvature * offset - gradient

    def size(multiplier: Array) -> Array:
        return norm(pulled / (curvature + multiplier[:, None]))

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
    scale = norm(steps)
    scale = jnp.where(scale > 0.0, scale, 1.0)
    unit = steps / scale[:, :, None]
    normal = unit @ jnp.swapaxes(unit, 1, 2) + 1e-12 * jnp.eye(_MEMORY)[None]
    weights = jnp.linalg.solve(normal, jnp.einsum("kmd,kd->km", unit, step)[:, :, None])[:, :, 0]
    mixed = step - jnp.einsum("km,kmd->kd", weights / scale, points + steps)
    mixed = jnp.where(jnp.isfinite(mixed).all(axis=-1, keepdims=True), mixed, step)
    return mixed, _Memory(lanes.points, step, points, steps)


def _inner(a: Array, b: Array) -> Array:
    return jnp.sum(a * b, axis=-1)

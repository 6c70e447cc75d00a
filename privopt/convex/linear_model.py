"""Minimisers of regularised, linearly tilted losses of a linear model, with a certificate."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from privopt.convex.accelerated import accelerated_descent
from privopt.convex.certificate import ROUND_OFF
from privopt.convex.features import as_features, is_features
from privopt.convex.lbfgs import Lanes, begin, descend
from privopt.convex.metric import identity, newton, sampled_newton
from privopt.convex.tilted import Tilted
from privopt.convex.vectors import norm

__all__ = ["MinimisedModels", "minimise_linear_model"]

_ROUNDS = 60
_COARSE = 1e-3
_REACH = 1.0
_PACE = 0.2
_EVERY = 10


class MinimisedModels(NamedTuple):
    """Points and what is known of them.

    Attributes
    ----------
    points : Array
        ``w_k``, shape ``(k, dim)``, float64.
    gradient_norms : Array
        ``|grad J_k(w_k)|``, shape ``(k,)``, evaluated at the point returned. Since ``J_k`` is
        ``lambda_k``-strongly convex, ``|w_k - argmin J_k| <= gradient_norm / lambda_k``.
    steps : Array
        Steps taken for each, shape ``(k,)``; a step is two products with the data.
    """

    points: Array
    gradient_norms: Array
    steps: Array


def minimise_linear_model(
    loss: Any,
    features: Any,
    labels: ArrayLike,
    counts: ArrayLike | None = None,
    *,
    regularisation: ArrayLike,
    smoothness: float,
    tilts: ArrayLike | None = None,
    centre: ArrayLike | None = None,
    start: ArrayLike | None = None,
    tolerance: ArrayLike = 1e-10,
    divisor: ArrayLike | None = None,
    feature_bound: ArrayLike = 1.0,
) -> MinimisedModels:
    """``argmin_w (1/n) sum_i m_i phi(<x_i, w>, y_i) + (lambda_k/2) |w - c|^2 + <b_k, w>``.

    For all ``k`` at once, over the whole space, in float64, to a gradient of norm ``tolerance``.
    Pure: on NumPy or JAX arrays on the host, or inside ``jit`` and ``vmap``.

    *Method.* L-BFGS along flat rays, two products with the data a step: in no metric while that
    is quick, in the Hessian of every tenth record, then in rounds of the mean Hessian of what is
    unfinished. On the host the rounds are a program of their own. With tilts or several
    ``lambda`` the untilted problem is solved coarsely first, and all start there, in the metric of
    its Hessian. Whatever remains is finished by accelerated descent.

    Parameters
    ----------
    loss : pytree
        Convex ``phi`` with ``value`` and ``slope`` of (prediction, label), elementwise; its slope
        may have kinks.
    features : Features or array
        ``x``, shape ``(n, dim)``.
    labels : array
        ``y``, shape ``(n,)``.
    counts : array, optional
        ``m_i >= 0``, shape ``(n,)``, their sum at most ``n``; default 1. A record of count 0 is
        a null record.
    regularisation : number or array
        ``lambda > 0``, scalar or ``(k,)``.
    smoothness : float
        ``H >= 0``: ``0 <= phi'' <= H`` at all predictions and labels. Declared.
    tilts : array, optional
        ``b``, shape ``(k, dim)``; default 0.
    centre, start : array, optional
        ``c`` and the first point, shape ``(dim,)``; default 0 and ``c``.
    tolerance : number
        Positive, in units of the gradient.
    divisor : number, optional
        The public ``n`` of the mean; default the number of rows.
    feature_bound : number
        ``X``: every ``|x_i| <= X``.

    Rate
    ----
    The tolerance is reached for every data set, in a number of steps that public numbers bound.
    ``J_k`` is ``lambda``-strongly convex and ``beta``-smooth, ``beta = lambda + H X^2 rows/n``.
    Steps of L-BFGS are at most a fixed number ``M``. Of where they end and where they began the
    point of the smaller gradient is kept, whose norm is at most ``G <= L X + lambda |start - c| +
    |b|`` for ``|phi'| <= L``. (Where the untilted problem came first, with the geometric mean
    ``m`` of the ``lambda``, lanes begin at a point within ``2 L X/m + |start - c|`` of ``c``:
    ``G <= L X + lambda (2 L X/m + |start - c|) + |b|``.) There ``J - min J <= G^2/(2 lambda)`` and
    ``|w - argmin| <=
    G/lambda``. ``T`` steps of :func:`accelerated_descent` from there leave ``J - min J <=
    (1 - kappa^{-1/2})^T G^2/lambda``, ``kappa = beta/lambda``. Since ``|grad J|^2 <=
    2 beta (J - min J)``,

        ``|grad J| <= sqrt(2 kappa) G (1 - kappa^{-1/2})^{T/2} <= tolerance``

    for ``T = ceil(2 sqrt(kappa) log(sqrt(2 kappa) G/tolerance))``: at most ``M + T`` steps.

    Round-off: the gradient at a float64 point is known to a small multiple of ``2^-52 (L X +
    lambda |w - c| + |b| + H X^2 |w|)``. A tolerance below 64 times that, less ``L X``, may not be
    reached; nothing is then tried beyond it, and ``gradient_norms`` says what was reached.

    Raises
    ------
    ValueError
        For shapes that do not fit, numbers that break their rule (where they are known when
        tracing), a missing smoothness, and when x64 is off.
    """
    if not jax.enable_x64.value:
        raise ValueError("x64 must be on, got it off: wrap the call in `jax.enable_x64(True)`")
    if smoothness is None or not 0.0 <= smoothness < math.inf:
        raise ValueError(f"smoothness must be non-negative and finite, got {smoothness!r}")
    features = as_features(features if is_features(features) else _array("features", features, 2))
    rows, dim = features.shape
    labels = _array("labels", labels, 1, (rows,))
    counts = _array("counts", np.ones(rows) if counts is None else counts, 1, (rows,))
    several = tilts is not None or jnp.ndim(regularisation) == 1
    lambdas = _array("regularisation", regularisation, jnp.ndim(regularisation))
    if lambdas.ndim > 1:
        raise ValueError(f"regularisation must be a number or a vector, got {lambdas.shape}")
    tilts = _array("tilts", np.zeros((lambdas.size, dim)) if tilts is None else tilts, 2)
    if tilts.shape[1] != dim or lambdas.shape not in ((), tilts.shape[:1]):
        raise ValueError(
            f"tilts must have shape (k, {dim}) with k that of regularisation, got {tilts.shape} "
            f"and {lambdas.shape}"
        )
    centre = _array("centre", np.zeros(dim) if centre is None else centre, 1, (dim,))
    start = centre if start is None else _array("start", start, 1, (dim,))
    tolerance = _array("tolerance", tolerance, 0)
    divisor = _array("divisor", rows if divisor is None else divisor, 0)
    feature_bound = _array("feature_bound", feature_bound, 0)
    for name, number in (
        ("regularisation", lambdas),
        ("tolerance", tolerance),
        ("divisor", divisor),
        ("feature_bound", feature_bound),
    ):
        _require_positive(name, number)
    mass_smoothness = smoothness * feature_bound**2 * (rows / divisor)
    lambdas = lambdas * np.ones(tilts.shape[0])
    tilted = Tilted(loss, features, labels, counts / divisor, lambdas, tilts, centre)
    return _minimise(tilted, start, mass_smoothness, tolerance, several=several)


def _minimise(
    tilted: Tilted, start: Array, smoothness: Array, tolerance: Array, *, several: bool
) -> MinimisedModels:
    found, before, done = _quick(tilted, start, smoothness, tolerance, several=several)
    # another program: the memory of Hessians that are not needed would cost many steps
    if isinstance(done, jax.core.Tracer) or not done:
        return _thorough(tilted, found, before, smoothness, tolerance)
    return MinimisedModels(found.points, found.norms, found.steps)


@partial(jax.jit, static_argnames="several")
def _quick(
    tilted: Tilted, start: Array, smoothness: Array, tolerance: Array, *, several: bool
) -> tuple[Lanes, Lanes, Array]:
    """Where the first descents end, where they began, and whether nothing is left to do."""
    if several:
        found, before = _together(tilted, start, smoothness, tolerance)
    else:
        before = begin(tilted, start[None])
        found = _first(tilted, before, smoothness, tolerance)
    safe = ROUND_OFF * smoothness * found.paths <= tolerance
    return found, before, jnp.all((found.norms <= tolerance) & safe)


def _together(
    tilted: Tilted, start: Array, smoothness: Array, tolerance: Array
) -> tuple[Lanes, Lanes]:
    """All from a coarse answer to the untilted problem, in the metric of its Hessian."""
    # nothing here depends on the tilts: under vmap over them it is done once
    mean = jnp.exp(jnp.mean(jnp.log(tilted.regularisation), keepdims=True))
    plain = tilted._replace(regularisation=mean, tilts=jnp.zeros_like(tilted.tilts[:1]))
    alone = begin(plain, start[None])
    coarse = _first(plain, alone, smoothness, jnp.maximum(tolerance, _COARSE))
    alone = _better(coarse, alone)
    curvatures = plain.curvatures(alone.predictions, jnp.full(1, _REACH))[0]
    hessian = newton(tilted.features, curvatures, mean[0])
    before = begin(tilted, jnp.broadcast_to(alone.points, tilted.tilts.shape))
    length = jnp.ones_like(before.norms)
    return descend(tilted, before, hessian, length, tolerance, _patience(tilted)), before


@jax.jit
def _thorough(
    tilted: Tilted, found: Lanes, before: Lanes, smoothness: Array, tolerance: Array
) -> MinimisedModels:
    found = _rounds(tilted, _again(tilted, found), before, tolerance)
    return _finish(tilted, _better(found, before), smoothness, tolerance)


def _first(tilted: Tilted, lanes: Lanes, smoothness: Array, tolerance: Array) -> Lanes:
    """A descent in no metric for as long as it is quick, then in the Hessian of some records."""
    steps, length = _patience(tilted), 1.0 / (tilted.regularisation + smoothness)
    lanes = descend(tilted, lanes, identity, length, tolerance, steps, pace=_PACE)
    if tilted.features.shape[0] < _EVERY**2:
        return lanes

    def sampled(lanes: Lanes) -> Lanes:
        some = tilted.every(_EVERY)
        curvatures = some.curvatures(lanes.predictions[:, ::_EVERY], jnp.full(1, _REACH))[0]
        metric = sampled_newton(some.features, curvatures, tilted.regularisation[0])
        return descend(tilted, lanes, metric, jnp.ones_like(length), tolerance, steps)

    return jax.lax.cond(jnp.all(lanes.norms <= tolerance), lambda lanes: lanes, sampled, lanes)


def _patience(tilted: Tilted) -> int:
    """Steps that cost about what a factored Hessian does: less is lost than was to be gained."""
    n, dim = tilted.features.shape
    return 15 + min(n, dim) // (12 * tilted.tilts.shape[0])


def _rounds(tilted: Tilted, found: Lanes, before: Lanes, tolerance: Array) -> Lanes:
    """Descents in the mean Hessian of what is unfinished; later in that of the farthest lane."""

    def round_(carry: tuple[Lanes, Lanes, Array]) -> tuple[Lanes, Lanes, Array]:
        found, before, count = carry
        found = _again(tilted, found)
        unfinished = found.norms > tolerance
        farthest = jnp.arange(unfinished.size) == jnp.argmax(found.norms)
        share = jnp.where(count < 4, unfinished, farthest).astype(found.norms.dtype)
        share = share / jnp.sum(share)
        reach = _reach(found, before)
        curvatures = share @ tilted.curvatures(found.predictions, reach)
        mean = jnp.exp(share @ jnp.log(tilted.regularisation))
        metric = newton(tilted.features, curvatures, mean)
        length = jnp.ones_like(found.norms)
        moved = descend(tilted, found, metric, length, tolerance, _patience(tilted))
        return moved, found, count + 1

    def unfinished(carry: tuple[Lanes, Lanes, Array]) -> Array:
        return jnp.any(carry[0].norms > tolerance) & (carry[2] < _ROUNDS)

    return jax.lax.while_loop(unfinished, round_, (found, before, jnp.zeros((), int)))[0]


def _better(found: Lanes, before: Lanes) -> Lanes:
    """Of two, lane by lane, the one of smaller gradient; the steps were taken all the same."""

    def chosen(a: Array, b: Array) -> Array:
        return jnp.where((found.norms <= before.norms).reshape(-1, *(1,) * (a.ndim - 1)), a, b)

    return jax.tree.map(chosen, found, before)._replace(steps=found.steps)


def _again(tilted: Tilted, found: Lanes) -> Lanes:
    """The same points, evaluated afresh."""
    return begin(tilted, found.points)._replace(steps=found.steps)


def _reach(found: Lanes, before: Lanes) -> Array:
    """How far predictions last moved, root mean square; within what float64 can tell apart."""
    move = found.predictions - before.predictions
    return jnp.clip(jnp.sqrt(jnp.mean(jnp.square(move), axis=-1)), 1e-7, 1.0)


def _finish(tilted: Tilted, found: Lanes, smoothness: Array, tolerance: Array) -> MinimisedModels:
    """Accelerated descent for as long as it may need, none where nothing is left to do."""
    roundoff = ROUND_OFF * smoothness * jnp.max(found.paths)  # of predictions that were moved
    found = jax.lax.cond(roundoff <= tolerance, lambda: found, lambda: _again(tilted, found))
    condition = (tilted.regularisation + smoothness) / tilted.regularisation
    reachable = jnp.maximum(tolerance, ROUND_OFF * _size(tilted, found.points, smoothness))
    wanted = jnp.log(jnp.sqrt(2.0 * condition) * found.norms / reachable)
    steps = jnp.ceil(2.0 * jnp.sqrt(condition) * wanted)
    steps = jnp.where((found.norms > reachable) & jnp.isfinite(steps), steps, 0.0).astype(int)

    def lane(tilt: Array, regularisation: Array, point: Array, steps: Array) -> Array:
        alone = tilted._replace(tilts=tilt[None], regularisation=regularisation[None])
        return accelerated_descent(
            lambda w: begin(alone, w[None]).gradients[0],
            lambda w: w,
            point,
            smoothness=regularisation + smoothness,
            strong_convexity=regularisation,
            steps=steps,
        )

    def accelerated() -> Lanes:
        points = jax.vmap(lane)(tilted.tilts, tilted.regularisation, found.points, steps)
        last = begin(tilted, points)
        return last._replace(steps=found.steps + steps)

    found = jax.lax.cond(jnp.any(steps > 0), accelerated, lambda: found)
    return MinimisedModels(found.points, found.norms, found.steps)


def _size(tilted: Tilted, points: Array, smoothness: Array) -> Array:
    """Of the terms whose sum is the gradient, and of its change with the round-off of a point."""
    own = tilted.regularisation * norm(points - tilted.centre[None]) + norm(tilted.tilts)
    return 2.0 * own + smoothness * norm(points)


def _array(name: str, value: ArrayLike, ndim: int, shape: tuple[int, ...] | None = None) -> Array:
    """In float64, and on the host what is there: an operation on the device costs a step."""
    array: Any = value if isinstance(value, Array) else np.asarray(value, np.float64)
    if array.dtype != jnp.float64:
        array = array.astype(jnp.float64)
    if array.ndim != ndim or array.size == 0 or (shape is not None and array.shape != shape):
        wanted = f"shape {shape}" if shape is not None else f"{ndim} axes and some entries"
        raise ValueError(f"{name} must have {wanted}, got shape {array.shape}")
    return array


def _require_positive(name: str, value: Array) -> None:
    if isinstance(value, jax.core.Tracer):
        return
    number = np.asarray(value)
    if not np.all((number > 0.0) & np.isfinite(number)):
        raise ValueError(f"{name} must be positive and finite, got {value}")

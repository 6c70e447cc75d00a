"""Solvers for ``min_{w in W} F(w)``, F convex, that certify how far from the minimum they stopped.

Accelerated projected gradient in float64: Beck and Teboulle (2009), "A fast iterative
shrinkage-thresholding algorithm for linear inverse problems", with the restart of O'Donoghue and
Candès (2015), "Adaptive restart for accelerated gradient schemes", section 3.2, and a step size
searched in both directions. Every point at which F is evaluated lies in ``W``: the momentum point
is a convex combination of the iterate and of the *projected* extrapolation, which the analysis
allows because projecting only brings the extrapolation closer to every minimiser.

The answer does not rest on the method's theory. Every iterate ``w``, with gradient ``g``, proves

    min_W F  >=  F(w) + min_{v in W} {<g, v - w> + (mu/2) ||v - w||^2},

and the reported gap is the best value seen, less the best such bound, plus an allowance for
round-off (64 machine epsilons of the value and of the gradient; an estimate, not a proof).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from privopt.arguments import checked, shown
from privopt.convex.certificate import ROUND_OFF, Certifier, require_float64
from privopt.convex.sets import ConstraintSet
from privopt.convex.vectors import norm
from privopt.release import Pytree

MIN_CURVATURE = 1e-100  # a step of its inverse has left any set; smaller would overflow


class Evaluation(NamedTuple):
    """``F`` at a point, and the smooth ``F_h`` with its derivatives in ``w`` and in ``h``."""

    objective: jax.Array
    value: jax.Array
    gradient: jax.Array
    slope: jax.Array


Evaluate = Callable[[jax.Array, jax.Array], Evaluation]


class State(NamedTuple):
    """Where the method stands: iterate, momentum, step size and width; best point and bound."""

    point: jax.Array
    extrapolation: jax.Array
    momentum: jax.Array
    curvature: jax.Array
    width: jax.Array
    best_point: jax.Array
    best_value: jax.Array
    lower_bound: jax.Array
    gradient_scale: jax.Array
    steps: jax.Array

    @property
    def gap(self) -> jax.Array:
        """Best value less best bound, with the round-off of the value."""
        certified = jnp.maximum(self.best_value - self.lower_bound, 0.0)
        return certified + ROUND_OFF * jnp.abs(self.best_value)


def initial(start: jax.Array, width: jax.Array, evaluate: Evaluate, certifier: Certifier) -> State:
    """Begin at the projection of ``start``, with a step that would cross the whole set."""
    point = certifier.constraint.project(start)
    here = evaluate(point, width)
    scale = norm(here.gradient)
    span = jnp.where(certifier.diameter > 0.0, certifier.diameter, 1.0)
    span = jnp.where(jnp.isfinite(span), span, 1.0 + norm(point))
    one = jnp.ones((), point.dtype)
    return State(
        point=point,
        extrapolation=point,
        momentum=one,
        curvature=jnp.where(scale > 0.0, scale, 1.0) / span,
        width=width,
        best_point=point,
        best_value=here.objective,
        lower_bound=-jnp.inf * one,
        gradient_scale=scale,
        steps=jnp.zeros((), int),
    )


def step(state: State, evaluate: Evaluate, certifier: Certifier) -> State:
    """One accepted step: extrapolate, search the step size, certify, restart or narrow."""
    project = certifier.constraint.project
    lead = state.point + (state.extrapolation - state.point) / state.momentum
    gradient = evaluate(lead, state.width).gradient
    scale = jnp.maximum(state.gradient_scale, norm(gradient))

    # The step is accepted when the curvature along it, measured by the change of the gradient
    # beyond its round-off, does not exceed the 1/step-size that was tried. Differences of values
    # would drown in round-off long before.
    def attempt(curvature: jax.Array) -> tuple[jax.Array, jax.Array, Evaluation, jax.Array]:
        point = project(lead - gradient / curvature)
        at_point = evaluate(point, state.width)
        move = point - lead
        square = move @ move
        bend = (at_point.gradient - gradient) @ move - ROUND_OFF * scale * norm(move)
        met = jnp.where(square > 0.0, bend / jnp.where(square > 0.0, square, 1.0), 0.0)
        return curvature, point, at_point, met

    curvature, point, here, met = jax.lax.while_loop(
        lambda tried: tried[3] > tried[0],
        lambda tried: attempt(2.0 * tried[0]),
        attempt(state.curvature),
    )

    decrease = certifier.decrease(point, here.gradient, scale)
    linearised = here.value - state.width * here.slope
    bound = linearised - decrease - ROUND_OFF * jnp.abs(here.value)
    tighter = (bound > state.lower_bound) & jnp.isfinite(bound)
    better = here.objective < state.best_value

    narrow = decrease < 0.25 * (here.objective - linearised)
    restart = ((lead - point) @ (point - state.point) > 0.0) | narrow
    extrapolation = project(state.point + state.momentum * (point - state.point))
    momentum = 0.5 + jnp.sqrt(0.25 + jnp.square(state.momentum))
    curvature = jnp.where(met < 0.25 * curvature, 0.5, 0.98) * curvature
    return State(
        point=point,
        extrapolation=jnp.where(restart, point, extrapolation),
        momentum=jnp.where(restart, 1.0, momentum),
        curvature=jnp.maximum(jnp.where(narrow, 4.0, 1.0) * curvature, MIN_CURVATURE),
        width=jnp.where(narrow, 0.25, 1.0) * state.width,
        best_point=jnp.where(better, point, state.best_point),
        best_value=jnp.where(better, here.objective, state.best_value),
        lower_bound=jnp.where(tighter, bound, state.lower_bound),
        gradient_scale=scale,
        steps=state.steps + 1,
    )


ValueAndGradient = Callable[..., tuple[jax.Array, jax.Array]]


@dataclass(frozen=True)
class Solution:
    """A member of the set, and what is known of it.

    Certified: ``F(point) - min_W F <= gap``, infinity if nothing is known. ``converged`` tells
    whether that is the tolerance or less. A step costs two gradients, more while its size is
    searched.
    """

    point: jax.Array
    value: float
    gap: float
    steps: int
    converged: bool


@checked
def minimise(
    value_and_gradient: ValueAndGradient,
    constraint: ConstraintSet,
    start: jax.Array,
    *,
    arguments: tuple[Pytree, ...] = (),
    tolerance: float,
    max_steps: int = 10_000,
    strong_convexity: float = 0.0,
) -> Solution:
    """Minimise a smooth convex function over ``W`` until the certified gap is ``tolerance``.

    Parameters
    ----------
    value_and_gradient : callable
        ``(w, *arguments) -> (F(w), gradient)``. Hashable and static: pass the same function
        object, with all data in ``arguments``, and new data of the same shapes do not retrace.
        On a CPU write ``X^T s`` as ``s @ X``, which is the faster of the two.
    constraint : ConstraintSet
        ``W``. On an unbounded set only ``strong_convexity`` (or a gradient of exactly zero) can
        certify.
    start : jax.Array
        Shape ``(dim,)``, float64; projected first.
    tolerance : float
        Positive, in units of F. Below about ``1e-13 |F|`` the round-off allowance is never met.
    max_steps : int
        Positive. Reaching it is not an error: the solution says ``converged=False`` and its gap
        is as true as any.
    strong_convexity : float
        ``mu >= 0`` such that ``F - (mu/2) ||.||^2`` is convex on ``W``.

    Examples
    --------
    >>> from privopt.convex import L2Ball
    >>> def linear(w, slope):
    ...     return w @ slope, slope
    >>> with jax.enable_x64(True):
    ...     slope = jnp.array([3.0, 4.0])
    ...     found = minimise(
    ...         linear, L2Ball(1.0), jnp.zeros(2), arguments=(slope,), tolerance=1e-9
    ...     )
    >>> print(found.point.round(6), round(found.value, 6), found.converged)
    [-0.6 -0.8] -5.0 True
    """
    return _solution(
        (value_and_gradient, None),
        constraint, start, arguments, tolerance, max_steps, strong_convexity, width=1.0,
    )  # fmt: skip


@checked
def minimise_nonsmooth(
    smoothed_value_and_gradient: ValueAndGradient,
    value: Callable[..., jax.Array],
    constraint: ConstraintSet,
    start: jax.Array,
    *,
    arguments: tuple[Pytree, ...] = (),
    tolerance: float,
    max_steps: int = 100_000,
    strong_convexity: float = 0.0,
    width: float = 1.0,
) -> Solution:
    """Minimise a convex function over ``W`` through smoothings ``F_h`` of shrinking width ``h``.

    ``(w, h) -> F_h(w)`` must be jointly convex and tend to F as ``h -> 0``, as the Moreau
    envelope of every record's loss does (in its scalar prediction). Linearising in ``w`` and in
    ``h`` then bounds F itself, without the usual loss of order ``h``:

        F(v)  >=  F_h(w) + <grad_w F_h(w), v - w> - h dF_h(w)/dh,

    the last derivative taken by JAX. A width is left, for a quarter of it, once its own
    optimisation error is below a quarter of what the smoothing costs; everything is one compiled
    loop. For a linear programme (absolute or hinge loss) the bound becomes exact at a positive
    width, and only the records at the kink cost anything.

    Parameters
    ----------
    smoothed_value_and_gradient, value : callable
        ``(w, h, *arguments) -> (F_h(w), grad_w F_h(w))``, the value differentiable in ``h``, and
        ``(w, *arguments) -> F(w)``. Static, as for :func:`minimise`.
    constraint, start, tolerance, max_steps, strong_convexity
        As for :func:`minimise`; ``F_h - (mu/2) ||.||^2`` is jointly convex.
    width : float
        The first ``h``, of the order of the losses' residuals.

    Examples
    --------
    >>> from privopt.convex import Box, Huber
    >>> def smoothed(w, width):
    ...     loss = Huber(width)
    ...     return loss.value(w, jnp.ones(1)).sum(), loss.slope(w, jnp.ones(1))
    >>> def absolute(w):
    ...     return jnp.abs(w - 1.0).sum()
    >>> with jax.enable_x64(True):
    ...     box, start = Box(-2.0, 2.0), jnp.zeros(1)
    ...     found = minimise_nonsmooth(smoothed, absolute, box, start, tolerance=1e-6)
    >>> print(found.point.round(4), found.converged)
    [1.] True
    """
    return _solution(
        (smoothed_value_and_gradient, value),
        constraint, start, arguments, tolerance, max_steps, strong_convexity, width,
    )  # fmt: skip


@partial(jax.jit, static_argnums=0)
def _descend(
    functions: tuple[ValueAndGradient, Callable[..., jax.Array] | None],
    certifier: Certifier,
    start: jax.Array,
    arguments: tuple[Pytree, ...],
    tolerance: jax.Array,
    max_steps: jax.Array,
    width: jax.Array,
) -> tuple[State, jax.Array]:
    value_and_gradient, objective = functions
    one = jnp.ones((), start.dtype)

    def evaluate(w: jax.Array, h: jax.Array) -> Evaluation:
        if objective is None:
            value, gradient = value_and_gradient(w, *arguments)
            return Evaluation(value, value, gradient, 0.0 * one)
        (value, gradient), (slope, _) = jax.jvp(
            lambda h: value_and_gradient(w, h, *arguments), (h,), (one,)
        )
        return Evaluation(objective(w, *arguments), value, gradient, slope)

    def unfinished(state: State) -> jax.Array:
        wanted = (state.gap > tolerance) & (state.steps < max_steps)
        return wanted & jnp.isfinite(state.gradient_scale)

    state = initial(start, width, evaluate, certifier)
    state = jax.lax.while_loop(unfinished, lambda s: step(s, evaluate, certifier), state)
    return state, state.gap


def _solution(
    functions: tuple[ValueAndGradient, Callable[..., jax.Array] | None],
    constraint: ConstraintSet,
    start: jax.Array,
    arguments: tuple[Pytree, ...],
    tolerance: float,
    max_steps: int,
    strong_convexity: float,
    width: float,
) -> Solution:
    require_float64("start", start)
    for name, value in (("tolerance", tolerance), ("width", width)):
        if not 0.0 < value < math.inf:
            raise ValueError(f"{name} must be positive and finite, got {shown(value)}")
    if not 0.0 <= strong_convexity < math.inf:
        raise ValueError(
            f"strong_convexity must be non-negative and finite, got {shown(strong_convexity)}"
        )
    if isinstance(max_steps, bool) or not isinstance(max_steps, int) or max_steps < 1:
        raise ValueError(f"max_steps must be a positive integer, got {shown(max_steps)}")

    numbers = constraint.diameter(start.shape[0]), strong_convexity, tolerance, width
    diameter, convexity, target, first_width = jnp.asarray(numbers, jnp.float64)
    state, gap = _descend(
        functions,
        Certifier(constraint, diameter, convexity),
        jnp.asarray(start),
        arguments,
        target,
        jnp.asarray(max_steps),
        first_width,
    )
    certified = float(gap) if math.isfinite(gap) else math.inf
    return Solution(
        point=state.best_point,
        value=float(state.best_value),
        gap=certified,
        steps=int(state.steps),
        converged=certified <= tolerance,
    )

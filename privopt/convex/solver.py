"""Certified solvers for ``min_{w in W} F(w)`` with convex ``F``.

Accelerated projected gradient descent in float64 (Beck and Teboulle 2009, "A fast iterative
shrinkage-thresholding algorithm for linear inverse problems") with the restart of O'Donoghue and
Candès 2015, "Adaptive restart for accelerated gradient schemes", section 3.2, and a step size that
can grow and shrink. ``F`` is evaluated in ``W`` only.

The result does not depend on the convergence theory. Every iterate ``w`` with gradient ``g`` proves

    min_W F  >=  F(w) + min_{v in W} {<g, v - w> + (mu/2) ||v - w||^2}.

The reported gap is the best value minus the best lower bound, plus an allowance for round-off (64
machine epsilons of the value and of the gradient; an estimate, not a proof). See :ref:`Solvers,
Theorem 4 <theory-solvers-4>`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float

from privopt.arguments import checked, positive_integer, positive_number, shown
from privopt.convex.arrays import norm
from privopt.convex.sets import ConstraintSet
from privopt.programs import compiler_options
from privopt.release import Pytree

ROUND_OFF = 64.0 * 2.0**-52
MIN_CURVATURE = 1e-100  # its inverse as a step size leaves every set; smaller ones overflow

ValueAndGradient = Callable[..., tuple[Array, Array]]


@dataclass(frozen=True)
class Solution:
    """Point of the set with a certificate.

    ``F(point) - min_W F <= gap``; the gap is infinite without a certificate. ``converged`` is
    True if the gap is at most the tolerance. A step costs two gradients, and more during the search
    for its size.
    """

    point: Float[Array, " d"]
    value: float
    gap: float
    steps: int
    converged: bool


@checked
def minimise(
    value_and_gradient: ValueAndGradient,
    constraint: ConstraintSet,
    start: Float[Array, " d"],
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
        ``(w, *arguments) -> (F(w), gradient)``. Hashable and static: pass the same function object,
        with all data in ``arguments``, so that new data of the same shapes do not retrace. On a CPU
        write ``X^T s`` as ``s @ X``, which is faster.
    constraint : ConstraintSet
        ``W``. On an unbounded set a certificate requires ``strong_convexity`` or a gradient of
        exactly zero.
    start : Array
        In float64; projected first.
    tolerance : float
        Positive, in units of F. The round-off allowance exceeds values below about ``1e-13 |F|``.
    max_steps : int
        Positive. If it is reached, the solution has ``converged=False`` and a valid gap.
    strong_convexity : float
        ``mu >= 0`` such that ``F - (mu/2) ||.||^2`` is convex on ``W``.

    Examples
    --------
    >>> from privopt.convex import L2Ball
    >>> def linear(w, slope):
    ...     return w @ slope, slope
    >>> with jax.enable_x64(True):
    ...     slope = jnp.array([3.0, 4.0])
    ...     solution = minimise(
    ...         linear, L2Ball(1.0), jnp.zeros(2), arguments=(slope,), tolerance=1e-9
    ...     )
    >>> print(solution.point.round(6), round(solution.value, 6), solution.converged)
    [-0.6 -0.8] -5.0 True
    """
    return _solve(
        (value_and_gradient, None),
        constraint, start, arguments, tolerance, max_steps, strong_convexity, width=1.0,
    )  # fmt: skip


@checked
def minimise_nonsmooth(
    smoothed_value_and_gradient: ValueAndGradient,
    value: Callable[..., Array],
    constraint: ConstraintSet,
    start: Float[Array, " d"],
    *,
    arguments: tuple[Pytree, ...] = (),
    tolerance: float,
    max_steps: int = 100_000,
    strong_convexity: float = 0.0,
    width: float = 1.0,
) -> Solution:
    """Minimise a convex function over ``W`` with smoothings ``F_h`` of decreasing width ``h``.

    ``(w, h) -> F_h(w)`` must be jointly convex and tend to F as ``h -> 0``, like the Moreau
    envelope of every record's loss in its scalar prediction. Linearisation in ``w`` and in ``h``
    then bounds F itself, without the usual loss of order ``h`` (:ref:`Solvers, Theorem 4
    <theory-solvers-4>`):

        F(v)  >=  F_h(w) + <grad_w F_h(w), v - w> - h dF_h(w)/dh.

    JAX computes the last derivative. The width is divided by 4 as soon as the optimisation error at
    this width is below a quarter of the smoothing error.

    Parameters
    ----------
    smoothed_value_and_gradient, value : callable
        ``(w, h, *arguments) -> (F_h(w), grad_w F_h(w))``, differentiable in ``h``, and ``(w,
        *arguments) -> F(w)``. Static, as for :func:`minimise`.
    constraint, start, tolerance, max_steps, strong_convexity
        As for :func:`minimise`; ``F_h - (mu/2) ||.||^2`` is jointly convex.
    width : float
        The first ``h``, of the order of the residuals of the losses.

    Examples
    --------
    >>> from privopt.convex import Huber, L1Ball
    >>> def smoothed(w, width):
    ...     loss = Huber(width)
    ...     return loss.value(w, jnp.ones(1)).sum(), loss.slope(w, jnp.ones(1))
    >>> def absolute(w):
    ...     return jnp.abs(w - 1.0).sum()
    >>> with jax.enable_x64(True):
    ...     ball, start = L1Ball(2.0), jnp.zeros(1)
    ...     solution = minimise_nonsmooth(smoothed, absolute, ball, start, tolerance=1e-6)
    >>> print(solution.point.round(4), solution.converged)
    [1.] True
    """
    return _solve(
        (smoothed_value_and_gradient, value),
        constraint, start, arguments, tolerance, max_steps, strong_convexity, width,
    )  # fmt: skip


@checked
def certify(
    value_and_gradient: ValueAndGradient,
    constraint: ConstraintSet,
    point: Float[Array, " d"],
    *,
    arguments: tuple[Pytree, ...] = (),
    strong_convexity: float = 0.0,
) -> tuple[float, float]:
    """Compute ``F(w)`` and a certified bound on ``F(w) - min_W F`` from one gradient.

    ``value_and_gradient`` is ``(w, *arguments) -> (F(w), subgradient)``, static. On a kink it must
    return the subgradient that certifies, 0 at an unconstrained minimiser. ``point`` is ``w``, a
    point of ``constraint`` in float64.

    Examples
    --------
    >>> from privopt.convex import L2Ball
    >>> def half_square(w):
    ...     return 0.5 * w @ w, w
    >>> with jax.enable_x64(True):
    ...     point = jnp.array([0.5, 0.0])
    ...     value, gap = certify(half_square, L2Ball(1.0), point, strong_convexity=1.0)
    >>> round(value, 4), round(gap, 4)
    (0.125, 0.125)
    """
    _require_float64("point", point)
    numbers = constraint.diameter(point.shape[0]), strong_convexity
    diameter, convexity = np.array(numbers, np.float64)
    certifier = _Certifier(constraint, diameter, convexity)
    value, gap = _certify(value_and_gradient, certifier, point, arguments)
    return float(value), (float(gap) if math.isfinite(gap) else math.inf)


class _Certifier(NamedTuple):
    """Assumptions of a certificate; the ``diameter`` of ``W`` may be infinite."""

    constraint: ConstraintSet
    diameter: Array
    strong_convexity: Array

    def decrease(self, point: Array, gradient: Array, scale: Array) -> Array:
        """Bound ``F(w) - min_W F`` by ``max_{v in W} {<g, w - v> - (mu/2) ||v - w||^2}``.

        ``scale`` is the largest gradient norm so far. On an unbounded set the first form is finite
        only if the computed gradient is exactly zero, and is then accepted. The two forms and their
        round-off: :ref:`Solvers, Theorem 4 <theory-solvers-4>`.
        """
        error, mu = ROUND_OFF * scale, self.strong_convexity
        reach = jnp.where(jnp.isfinite(self.diameter), self.diameter, 0.0)
        linear = gradient @ point + self.constraint.support(-gradient) + error * reach

        curved = mu > 0.0
        divisor = jnp.where(curved, mu, 1.0)
        move = self.constraint.project(point - gradient / divisor) - point
        quadratic = -(gradient @ move) - 0.5 * mu * (move @ move)
        quadratic += error * (norm(move) + error / divisor)
        return error * norm(point) + jnp.where(curved, jnp.minimum(linear, quadratic), linear)


@partial(jax.jit, static_argnames="value_and_gradient")
def _certify(
    value_and_gradient: ValueAndGradient,
    certifier: _Certifier,
    point: Array,
    arguments: tuple[Pytree, ...],
) -> tuple[Array, Array]:
    value, gradient = value_and_gradient(point, *arguments)
    decrease = certifier.decrease(point, gradient, norm(gradient))
    return value, jnp.maximum(decrease, 0.0) + ROUND_OFF * jnp.abs(value)


class _Evaluation(NamedTuple):
    """Values of ``F`` and ``F_h`` at a point, and the derivatives of ``F_h`` in ``w`` and ``h``."""

    objective: Array
    value: Array
    gradient: Array
    slope: Array


_Evaluate = Callable[[Array, Array], _Evaluation]


class _Trial(NamedTuple):
    """Step of size ``1/curvature``, and the curvature that it measures, once it is ``made``."""

    made: Array
    curvature: Array
    point: Array
    here: _Evaluation
    measured: Array


class _State(NamedTuple):
    """Iterate, momentum, inverse step size and width, with the best point and lower bound."""

    point: Array
    extrapolation: Array
    momentum: Array
    curvature: Array
    width: Array
    best_point: Array
    best_value: Array
    lower_bound: Array
    gradient_scale: Array
    steps: Array

    @property
    def gap(self) -> Array:
        """Best value minus lower bound, plus the round-off of the value."""
        certified = jnp.maximum(self.best_value - self.lower_bound, 0.0)
        return certified + ROUND_OFF * jnp.abs(self.best_value)


def _init(start: Array, width: Array, evaluate: _Evaluate, certifier: _Certifier) -> _State:
    """Return the state at the projection of ``start``, with a first step as long as the set."""
    point = certifier.constraint.project(start)
    here = evaluate(point, width)
    scale = norm(here.gradient)
    span = jnp.where(certifier.diameter > 0.0, certifier.diameter, 1.0)
    span = jnp.where(jnp.isfinite(span), span, 1.0 + norm(point))
    one = jnp.ones((), point.dtype)
    return _State(
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


def _step(state: _State, evaluate: _Evaluate, certifier: _Certifier) -> _State:
    """Take one step: extrapolate, search the step size, certify, restart or reduce the width."""
    project = certifier.constraint.project
    lead = state.point + (state.extrapolation - state.point) / state.momentum
    gradient = evaluate(lead, state.width).gradient
    scale = jnp.maximum(state.gradient_scale, norm(gradient))

    # A step is accepted if the measured curvature, the change of the gradient beyond its round-off,
    # is at most the inverse step size. Differences of values have too much round-off for this test.
    def attempt(trial: _Trial) -> _Trial:
        curvature = jnp.where(trial.made, 2.0, 1.0) * trial.curvature
        point = project(lead - gradient / curvature)
        here = evaluate(point, state.width)
        move = point - lead
        square = move @ move
        change = (here.gradient - gradient) @ move - ROUND_OFF * scale * norm(move)
        measured = jnp.where(square > 0.0, change / jnp.where(square > 0.0, square, 1.0), 0.0)
        return _Trial(jnp.ones((), bool), curvature, point, here, measured)

    # The loop makes the first attempt too, so that the program contains one copy of it.
    zero = jnp.zeros_like(scale)
    placeholder = _Evaluation(zero, zero, jnp.zeros_like(lead), zero)
    _, curvature, point, here, measured = jax.lax.while_loop(
        lambda trial: ~trial.made | (trial.measured > trial.curvature),
        attempt,
        _Trial(jnp.zeros((), bool), state.curvature, lead, placeholder, zero),
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
    curvature = jnp.where(measured < 0.25 * curvature, 0.5, 0.98) * curvature
    return _State(
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


@lru_cache
def _program(backend: str) -> jax.stages.Wrapped:
    return jax.jit(_descend, static_argnums=0, compiler_options=compiler_options(backend))


def _descend(
    functions: tuple[ValueAndGradient, Callable[..., Array] | None],
    certifier: _Certifier,
    start: Array,
    arguments: tuple[Pytree, ...],
    tolerance: Array,
    max_steps: Array,
    width: Array,
) -> tuple[_State, Array]:
    value_and_gradient, objective = functions
    one = jnp.ones((), start.dtype)

    def evaluate(w: Array, h: Array) -> _Evaluation:
        if objective is None:
            value, gradient = value_and_gradient(w, *arguments)
            return _Evaluation(value, value, gradient, 0.0 * one)
        (value, gradient), (slope, _) = jax.jvp(
            lambda h: value_and_gradient(w, h, *arguments), (h,), (one,)
        )
        return _Evaluation(objective(w, *arguments), value, gradient, slope)

    def unfinished(state: _State) -> Array:
        more = (state.gap > tolerance) & (state.steps < max_steps)
        return more & jnp.isfinite(state.gradient_scale)

    state = _init(start, width, evaluate, certifier)
    state = jax.lax.while_loop(unfinished, lambda s: _step(s, evaluate, certifier), state)
    return state, state.gap


def _solve(
    functions: tuple[ValueAndGradient, Callable[..., Array] | None],
    constraint: ConstraintSet,
    start: Array,
    arguments: tuple[Pytree, ...],
    tolerance: float,
    max_steps: int,
    strong_convexity: float,
    width: float,
) -> Solution:
    _require_float64("start", start)
    positive_number("tolerance", tolerance)
    positive_number("width", width)
    positive_integer("max_steps", max_steps)
    if not 0.0 <= strong_convexity < math.inf:
        raise ValueError(
            f"strong_convexity must be non-negative and finite, got {shown(strong_convexity)}"
        )

    numbers = constraint.diameter(start.shape[0]), strong_convexity, tolerance, width
    diameter, convexity, target, first_width = np.array(numbers, np.float64)
    state, gap = _program(jax.default_backend())(
        functions,
        _Certifier(constraint, diameter, convexity),
        jnp.asarray(start),
        arguments,
        target,
        np.asarray(max_steps),
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


def _require_float64(name: str, vector: Array) -> None:
    if not jax.enable_x64.value:
        raise ValueError("x64 must be on, got it off: wrap the call in `jax.enable_x64(True)`")
    if getattr(vector, "dtype", None) != jnp.float64 or vector.ndim != 1:
        raise ValueError(
            f"{name} must be a float64 vector (made inside `jax.enable_x64(True)`), got "
            f"{getattr(vector, 'dtype', type(vector).__name__)} of shape {jnp.shape(vector)}"
        )

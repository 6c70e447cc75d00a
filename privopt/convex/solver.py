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

import jax
import jax.numpy as jnp

from privopt.convex.certificate import Certifier, require_float64
from privopt.convex.constraint import ConstraintSet
from privopt.convex.descent import Evaluation, State, initial, step
from privopt.release import Pytree

ValueAndGradient = Callable[..., tuple[jax.Array, jax.Array]]


@dataclass(frozen=True)
class Solution:
    """A member of the set, and what is known of it.

    Attributes
    ----------
    point : jax.Array
        ``w``, of shape ``(dim,)``, float64.
    value : float
        ``F(w)``.
    gap : float
        Certified: ``F(w) - min_W F <= gap``. Infinity if nothing is known.
    steps : int
        Steps taken; each costs two gradients, more while the step size is searched.
    converged : bool
        Whether ``gap`` reached the tolerance.
    """

    point: jax.Array
    value: float
    gap: float
    steps: int
    converged: bool


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

    Raises
    ------
    ValueError
        For numbers that break their rule, for a start that is not a float64 vector, and when x64
        is off.

    Examples
    --------
    >>> import jax, jax.numpy as jnp
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
    smoothed_value_and_gradient : callable
        ``(w, h, *arguments) -> (F_h(w), grad_w F_h(w))``, the value differentiable in ``h``.
        Static, as for :func:`minimise`.
    value : callable
        ``(w, *arguments) -> F(w)``. Static.
    constraint, start, tolerance, max_steps, strong_convexity
        As for :func:`minimise`; ``F_h - (mu/2) ||.||^2`` is jointly convex.
    width : float
        Positive: the first ``h``, of the order of the losses' residuals.

    Raises
    ------
    ValueError
        As for :func:`minimise`.

    Examples
    --------
    >>> import jax, jax.numpy as jnp
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
            raise ValueError(f"{name} must be positive and finite, got {value!r}")
    if not 0.0 <= strong_convexity < math.inf:
        raise ValueError(
            f"strong_convexity must be non-negative and finite, got {strong_convexity!r}"
        )
    if isinstance(max_steps, bool) or not isinstance(max_steps, int) or max_steps < 1:
        raise ValueError(f"max_steps must be a positive integer, got {max_steps!r}")

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

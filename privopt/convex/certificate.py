"""What one gradient proves about the minimum."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from privopt.arguments import checked
from privopt.convex.sets import ConstraintSet
from privopt.convex.vectors import norm
from privopt.release import Pytree

ROUND_OFF = 64.0 * 2.0**-52


class Certifier(NamedTuple):
    """The public facts a certificate rests on.

    ``diameter`` of ``W`` may be infinite; ``strong_convexity`` is ``mu >= 0`` of the objective.
    """

    constraint: ConstraintSet
    diameter: jax.Array
    strong_convexity: jax.Array

    def decrease(self, point: jax.Array, gradient: jax.Array, scale: jax.Array) -> jax.Array:
        """Upper bound on how far the objective can fall below its value at ``point``.

        ``max_{v in W} {<g, w - v> - (mu/2) ||v - w||^2}``. With ``mu = 0`` this is the
        Frank-Wolfe gap ``<g, w> + support(-g)``; with ``mu > 0`` the maximiser is
        ``Proj_W(w - g/mu)``, and on the whole space the bound reads ``||g||^2 / (2 mu)``.

        Round-off: the gradient is taken to be wrong by at most ``e = 64 eps scale``, where
        ``scale`` is the largest gradient norm met (the size its sums had before they cancelled).
        That moves the first form by at most ``e diameter`` and the second by
        ``e (||v - w|| + e/mu)``; ``e ||w||`` covers the inner products. On an unbounded set the
        first form is finite only where the computed gradient is exactly zero, and is then
        believed.
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


@checked
def certify(
    value_and_gradient: Callable[..., tuple[jax.Array, jax.Array]],
    constraint: ConstraintSet,
    point: jax.Array,
    *,
    arguments: tuple[Pytree, ...] = (),
    strong_convexity: float = 0.0,
) -> tuple[float, float]:
    """``F(w)`` and a certified bound on ``F(w) - min_W F``, from one gradient at a candidate.

    ``value_and_gradient`` is ``(w, *arguments) -> (F(w), subgradient)``, static. On a kink the
    subgradient it picks must be the one that certifies, 0 at an unconstrained minimiser. ``point``
    is ``w``, a member of ``constraint`` known from elsewhere; shape ``(dim,)``, float64.

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
    require_float64("point", point)
    numbers = constraint.diameter(point.shape[0]), strong_convexity
    diameter, convexity = jnp.asarray(numbers, jnp.float64)
    certifier = Certifier(constraint, diameter, convexity)
    value, gap = _certify(value_and_gradient, certifier, point, arguments)
    return float(value), (float(gap) if math.isfinite(gap) else math.inf)


@partial(jax.jit, static_argnames="value_and_gradient")
def _certify(
    value_and_gradient: Callable[..., tuple[jax.Array, jax.Array]],
    certifier: Certifier,
    point: jax.Array,
    arguments: tuple[Pytree, ...],
) -> tuple[jax.Array, jax.Array]:
    value, gradient = value_and_gradient(point, *arguments)
    decrease = certifier.decrease(point, gradient, norm(gradient))
    return value, jnp.maximum(decrease, 0.0) + ROUND_OFF * jnp.abs(value)


def require_float64(name: str, vector: jax.Array) -> None:
    """Raise ValueError unless x64 is on and ``vector`` is a float64 vector."""
    if not jax.enable_x64.value:
        raise ValueError("x64 must be on, got it off: wrap the call in `jax.enable_x64(True)`")
    if getattr(vector, "dtype", None) != jnp.float64 or vector.ndim != 1:
        raise ValueError(
            f"{name} must be a float64 vector (made inside `jax.enable_x64(True)`), got "
            f"{getattr(vector, 'dtype', type(vector).__name__)} of shape {jnp.shape(vector)}"
        )

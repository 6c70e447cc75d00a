"""Constraint sets: Euclidean projections, support functions, linear oracles, diameters.

A set is a frozen dataclass whose numbers are pytree leaves: it crosses ``jit`` as an argument, so
a new radius never retraces, and ``jax.vmap`` over a set of arrays sweeps them. The device methods
act on the last axis of arrays of any leading shape and follow the dtype of their argument; the
host methods return Python floats. Each class meets the protocol ``ConstraintSet``.

Python and NumPy numbers are checked when a set is made, shapes when the host asks for a radius or
a diameter, and raise ValueError with the argument, the value and the rule; device arrays are not
read.

Only the box projection is optax's (``optax.projections.projection_box``). Optax 0.2.8 has the
other three as well, for single vectors: its l1 ball and simplex turn float32 into float64 when
x64 is on, and its l2 ball squares the norm, which leaves float32 range at 1e-23 or 1e20.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from optax.projections import projection_box

from privopt.convex.declared import (
    dimension,
    on_host,
    require_finite,
    require_positive,
    require_shape,
)
from privopt.convex.pytree_dataclass import pytree_dataclass
from privopt.convex.thresholds import onto_simplex
from privopt.convex.vectors import Number, broadcast, cast, norm, one_hot


class Ball:
    """A set about the origin, or its own centre, and ``-v`` with ``v`` about it."""

    def centre_point(self, dim: int, dtype: DTypeLike) -> jax.Array:
        """The origin."""
        return jnp.zeros((dimension(dim),), dtype)

    def radius_about_centre(self, dim: int) -> float:
        """``radius``, which is attained."""
        raise NotImplementedError

    def diameter(self, dim: int) -> float:
        """Twice the radius."""
        return 2.0 * self.radius_about_centre(dim)


@pytree_dataclass
@dataclass(frozen=True)
class L2Ball(Ball):
    """``{v : ||v - centre||_2 <= radius}``.

    Parameters
    ----------
    radius : float
        Positive and finite.
    centre : float or array of shape (dim,)
        Finite; a number stands for the vector with all coordinates equal to it.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> ball = L2Ball(2.0)
    >>> ball.project(jnp.array([3.0, 0.0])).tolist(), ball.diameter(2)
    ([2.0, 0.0], 4.0)
    """

    radius: Number
    centre: Number = 0.0

    def __post_init__(self) -> None:
        require_positive("radius", self.radius)
        require_finite("centre", self.centre)

    def project(self, x: jax.Array) -> jax.Array:
        """``centre + (x - centre) min(1, radius / ||x - centre||)``; members keep their bits."""
        centre, radius = broadcast(self.centre, x), cast(self.radius, x)
        offset = x - centre
        distance = norm(offset)[..., None]
        outside = distance > radius
        direction = offset / jnp.where(outside, distance, 1.0)
        return jnp.where(outside, centre + radius * direction, x)

    def support(self, g: jax.Array) -> jax.Array:
        """``<g, centre> + radius ||g||_2``."""
        return jnp.sum(g * broadcast(self.centre, g), axis=-1) + cast(self.radius, g) * norm(g)

    def extreme_point(self, g: jax.Array) -> jax.Array:
        """``centre + radius g / ||g||_2``; the centre where ``g = 0``."""
        length = norm(g)[..., None]
        direction = g / jnp.where(length > 0.0, length, 1.0)
        return broadcast(self.centre, g) + cast(self.radius, g) * direction

    def contains(self, x: jax.Array, tolerance: Number) -> jax.Array:
        """``||x - centre||_2 <= radius + tolerance``."""
        return norm(x - broadcast(self.centre, x)) <= cast(self.radius, x) + cast(tolerance, x)

    def centre_point(self, dim: int, dtype: DTypeLike) -> jax.Array:
        """``centre``."""
        return jnp.broadcast_to(jnp.asarray(self.centre, dtype), (dimension(dim),))

    def radius_about_centre(self, dim: int) -> float:
        """``radius``."""
        require_shape("centre", self.centre, (), (dimension(dim),))
        require_shape("radius", self.radius, ())
        return float(self.radius)


@pytree_dataclass
@dataclass(frozen=True)
class L1Ball(Ball):
    """``{v : ||v||_1 <= radius}``, centred at the origin.

    Parameters
    ----------
    radius : float
        Positive and finite.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> L1Ball(1.0).project(jnp.array([3.0, -4.0])).tolist()
    [0.0, -1.0]
    """

    radius: Number

    def __post_init__(self) -> None:
        require_positive("radius", self.radius)

    def project(self, x: jax.Array) -> jax.Array:
        """Soft thresholding by way of the simplex; members keep their bits.

        Duchi, Shalev-Shwartz, Singer and Chandra (2008), "Efficient projections onto the l1-ball
        for learning in high dimensions", section 4.
        """
        magnitude, radius = jnp.abs(x), cast(self.radius, x)
        inside = jnp.sum(magnitude, axis=-1, keepdims=True) <= radius
        return jnp.where(inside, x, jnp.sign(x) * onto_simplex(magnitude, radius))

    def support(self, g: jax.Array) -> jax.Array:
        """``radius ||g||_inf``."""
        return cast(self.radius, g) * jnp.max(jnp.abs(g), axis=-1)

    def extreme_point(self, g: jax.Array) -> jax.Array:
        """``radius sign(g_j) e_j`` at the first ``j`` of largest ``|g_j|``: always a vertex."""
        return one_hot(jnp.abs(g)) * jnp.where(g < 0.0, -1.0, 1.0) * cast(self.radius, g)

    def contains(self, x: jax.Array, tolerance: Number) -> jax.Array:
        """``||x||_1 <= radius + tolerance``."""
        return jnp.sum(jnp.abs(x), axis=-1) <= cast(self.radius, x) + cast(tolerance, x)

    def radius_about_centre(self, dim: int) -> float:
        """``radius``, attained at the vertices."""
        dimension(dim)
        require_shape("radius", self.radius, ())
        return float(self.radius)


@pytree_dataclass
@dataclass(frozen=True)
class Box:
    """``{v : lower <= v <= upper}`` by coordinate.

    Parameters
    ----------
    lower, upper : float or array of shape (dim,)
        Finite, with ``lower <= upper``.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> Box(-1.0, 2.0).project(jnp.array([3.0, 0.5])).tolist()
    [2.0, 0.5]
    """

    lower: Number
    upper: Number

    def __post_init__(self) -> None:
        require_finite("lower", self.lower)
        require_finite("upper", self.upper)
        bounds = (self.lower, self.upper)
        if not all(map(on_host, bounds)):
            return
        if np.ndim(self.lower) == np.ndim(self.upper):
            require_shape("upper", self.upper, np.shape(self.lower))
        if np.any(np.greater(*bounds)):
            raise ValueError(f"lower must not exceed upper, got {self.lower!r} > {self.upper!r}")

    def project(self, x: jax.Array) -> jax.Array:
        """``min(max(x, lower), upper)``; members keep their bits."""
        projected: jax.Array = projection_box(x, *self._bounds(x))
        return projected

    def support(self, g: jax.Array) -> jax.Array:
        """``sum_j max(lower_j g_j, upper_j g_j)``."""
        return jnp.sum(g * self.extreme_point(g), axis=-1)

    def extreme_point(self, g: jax.Array) -> jax.Array:
        """``upper`` where ``g > 0``, ``lower`` elsewhere."""
        lower, upper = self._bounds(g)
        return jnp.where(g > 0.0, upper, lower)

    def contains(self, x: jax.Array, tolerance: Number) -> jax.Array:
        """``lower - tolerance <= x <= upper + tolerance``."""
        lower, upper = self._bounds(x)
        slack = cast(tolerance, x)
        return jnp.all((lower - slack <= x) & (x <= upper + slack), axis=-1)

    def centre_point(self, dim: int, dtype: DTypeLike) -> jax.Array:
        """The midpoint ``(lower + upper) / 2``."""
        lower, upper = self._bounds(jnp.zeros((dimension(dim),), dtype))
        return 0.5 * lower + 0.5 * upper

    def radius_about_centre(self, dim: int) -> float:
        """Half the diagonal."""
        return 0.5 * self.diameter(dim)

    def diameter(self, dim: int) -> float:
        """The diagonal ``||upper - lower||_2``."""
        require_shape("lower", self.lower, (), (dimension(dim),))
        require_shape("upper", self.upper, (), (dimension(dim),))
        sides = np.asarray(self.upper, np.float64) - np.asarray(self.lower, np.float64)
        return float(np.linalg.norm(np.broadcast_to(sides, (dimension(dim),))))

    def _bounds(self, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        return broadcast(self.lower, x), broadcast(self.upper, x)


@pytree_dataclass
@dataclass(frozen=True)
class Simplex:
    """``{v : v >= 0, sum_j v_j = total}``, centred at the barycentre ``total / dim``.

    Parameters
    ----------
    total : float
        Positive and finite.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> Simplex().project(jnp.array([0.5, 1.0])).tolist()
    [0.25, 0.75]
    """

    total: Number = 1.0

    def __post_init__(self) -> None:
        require_positive("total", self.total)

    def project(self, x: jax.Array) -> jax.Array:
        """``max(x - theta, 0)`` with the ``theta`` that restores the sum, without a sort."""
        return onto_simplex(x, cast(self.total, x))

    def support(self, g: jax.Array) -> jax.Array:
        """``total max_j g_j``."""
        return cast(self.total, g) * jnp.max(g, axis=-1)

    def extreme_point(self, g: jax.Array) -> jax.Array:
        """The vertex ``total e_j`` at the first ``j`` of largest ``g_j``."""
        return one_hot(g) * cast(self.total, g)

    def contains(self, x: jax.Array, tolerance: Number) -> jax.Array:
        """``x >= -tolerance`` and ``|sum_j x_j - total| <= tolerance``."""
        slack = cast(tolerance, x)
        balanced = jnp.abs(jnp.sum(x, axis=-1) - cast(self.total, x)) <= slack
        return balanced & jnp.all(x >= -slack, axis=-1)

    def centre_point(self, dim: int, dtype: DTypeLike) -> jax.Array:
        """The barycentre, every coordinate ``total / dim``."""
        return jnp.broadcast_to(jnp.asarray(self.total, dtype) / dimension(dim), (dim,))

    def radius_about_centre(self, dim: int) -> float:
        """``total sqrt(1 - 1/dim)``, attained at the vertices."""
        require_shape("total", self.total, ())
        return float(self.total) * math.sqrt(1.0 - 1.0 / dimension(dim))

    def diameter(self, dim: int) -> float:
        """``total sqrt(2)``, between two vertices; 0 for the single point of ``dim = 1``."""
        return float(self.total) * math.sqrt(2.0) if dimension(dim) > 1 else 0.0


@pytree_dataclass
@dataclass(frozen=True)
class WholeSpace(Ball):
    """All vectors, centred at the origin.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> WholeSpace().project(jnp.array([3.0, 4.0])).tolist(), WholeSpace().diameter(2)
    ([3.0, 4.0], inf)
    """

    def project(self, x: jax.Array) -> jax.Array:
        """``x`` itself."""
        return x

    def support(self, g: jax.Array) -> jax.Array:
        """Infinity, or 0 where ``g = 0``."""
        return jnp.where(jnp.all(g == 0.0, axis=-1), 0.0, jnp.inf).astype(g.dtype)

    def extreme_point(self, g: jax.Array) -> jax.Array:
        """Not defined: raises NotImplementedError on the host."""
        raise NotImplementedError("WholeSpace has no extreme point: a linear function is unbounded")

    def contains(self, x: jax.Array, tolerance: Number) -> jax.Array:
        """Whether ``x`` is finite."""
        return jnp.all(jnp.isfinite(x), axis=-1)

    def radius_about_centre(self, dim: int) -> float:
        """Infinity."""
        return math.inf

"""Constraint sets: Euclidean projections, support functions, linear oracles, diameters.

A set is a frozen dataclass whose numbers are pytree leaves: it crosses ``jit`` as an argument, so
a new radius never retraces, and ``jax.vmap`` over a set of arrays sweeps them. The device methods
act on the last axis of arrays of any leading shape and follow the dtype of their argument; the
host methods return Python floats. (Projections of Optax 0.2.8 are for single vectors: its l1 ball
and simplex turn float32 into float64 when x64 is on, and its l2 ball squares the norm.)

Python and NumPy numbers are checked when a set is made, shapes when the host asks for a radius or
a diameter, and raise ValueError with the argument, the value and the rule; device arrays are not
read.

"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from optax.projections import projection_box

from privopt.arguments import shown
from privopt.convex.pytree_dataclass import pytree_dataclass
from privopt.convex.thresholds import onto_simplex
from privopt.convex.vectors import (
    Number,
    broadcast,
    cast,
    dimension,
    norm,
    on_host,
    one_hot,
    require_finite,
    require_positive,
    require_shape,
)


class ConstraintSet(Protocol):
    """A closed convex set ``W`` of vectors with ``dim`` coordinates.

    Shapes: ``x`` and ``g`` are ``(..., dim)`` and floating point; vectors come back as
    ``(..., dim)``, numbers as ``(...)``, in the same dtype.
    """

    def project(self, x: jax.Array) -> jax.Array:
        """The nearest member of ``W``, ``argmin_{v in W} ||v - x||_2``; members keep their bits."""

    def support(self, g: jax.Array) -> jax.Array:
        """The support function ``max_{v in W} <g, v>``."""

    def extreme_point(self, g: jax.Array) -> jax.Array:
        """A maximiser of ``<g, v>`` over ``v in W`` (with ``-g``, the Frank-Wolfe oracle)."""

    def contains(self, x: jax.Array, tolerance: Number) -> jax.Array:
        """Whether ``x`` meets every constraint of ``W`` up to ``tolerance``, in units of ``x``."""

    def centre_point(self, dim: int, dtype: DTypeLike) -> jax.Array:
        """The centre of ``W``, of shape ``(dim,)``."""

    def radius_about_centre(self, dim: int) -> float:
        """Largest distance of a member from the centre (host)."""

    def diameter(self, dim: int) -> float:
        """Largest distance between two members (host)."""


class Ball:
    """A set about the origin, or its own centre, and ``-v`` with ``v`` about it."""

    def centre_point(self, dim: int, dtype: DTypeLike) -> jax.Array:
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

    A number as ``centre`` stands for the vector with all coordinates equal to it.

    Examples
    --------
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
        centre, radius = broadcast(self.centre, x), cast(self.radius, x)
        offset = x - centre
        distance = norm(offset)[..., None]
        outside = distance > radius
        direction = offset / jnp.where(outside, distance, 1.0)
        return jnp.where(outside, centre + radius * direction, x)

    def support(self, g: jax.Array) -> jax.Array:
        return jnp.sum(g * broadcast(self.centre, g), axis=-1) + cast(self.radius, g) * norm(g)

    def extreme_point(self, g: jax.Array) -> jax.Array:
        length = norm(g)[..., None]
        direction = g / jnp.where(length > 0.0, length, 1.0)
        return broadcast(self.centre, g) + cast(self.radius, g) * direction

    def contains(self, x: jax.Array, tolerance: Number) -> jax.Array:
        return norm(x - broadcast(self.centre, x)) <= cast(self.radius, x) + cast(tolerance, x)

    def centre_point(self, dim: int, dtype: DTypeLike) -> jax.Array:
        return jnp.broadcast_to(jnp.asarray(self.centre, dtype), (dimension(dim),))

    def radius_about_centre(self, dim: int) -> float:
        require_shape("centre", self.centre, (), (dimension(dim),))
        require_shape("radius", self.radius, ())
        return float(self.radius)


@pytree_dataclass
@dataclass(frozen=True)
class L1Ball(Ball):
    """``{v : ||v||_1 <= radius}``, centred at the origin.

    Examples
    --------
    >>> L1Ball(1.0).project(jnp.array([3.0, -4.0])).tolist()
    [0.0, -1.0]
    """

    radius: Number

    def __post_init__(self) -> None:
        require_positive("radius", self.radius)

    def project(self, x: jax.Array) -> jax.Array:
        """Soft thresholding by way of the simplex (Duchi et al. 2008, section 4)."""
        magnitude, radius = jnp.abs(x), cast(self.radius, x)
        inside = jnp.sum(magnitude, axis=-1, keepdims=True) <= radius
        return jnp.where(inside, x, jnp.sign(x) * onto_simplex(magnitude, radius))

    def support(self, g: jax.Array) -> jax.Array:
        return cast(self.radius, g) * jnp.max(jnp.abs(g), axis=-1)

    def extreme_point(self, g: jax.Array) -> jax.Array:
        return one_hot(jnp.abs(g)) * jnp.where(g < 0.0, -1.0, 1.0) * cast(self.radius, g)

    def contains(self, x: jax.Array, tolerance: Number) -> jax.Array:
        return jnp.sum(jnp.abs(x), axis=-1) <= cast(self.radius, x) + cast(tolerance, x)

    def radius_about_centre(self, dim: int) -> float:
        dimension(dim)
        require_shape("radius", self.radius, ())
        return float(self.radius)


@pytree_dataclass
@dataclass(frozen=True)
class Box:
    """``{v : lower <= v <= upper}`` by coordinate; bounds are numbers or of shape ``(dim,)``.

    Examples
    --------
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
            raise ValueError(
                f"lower must not exceed upper, got {shown(self.lower)} > {shown(self.upper)}"
            )

    def project(self, x: jax.Array) -> jax.Array:
        projected: jax.Array = projection_box(x, *self._bounds(x))
        return projected

    def support(self, g: jax.Array) -> jax.Array:
        return jnp.sum(g * self.extreme_point(g), axis=-1)

    def extreme_point(self, g: jax.Array) -> jax.Array:
        lower, upper = self._bounds(g)
        return jnp.where(g > 0.0, upper, lower)

    def contains(self, x: jax.Array, tolerance: Number) -> jax.Array:
        lower, upper = self._bounds(x)
        slack = cast(tolerance, x)
        return jnp.all((lower - slack <= x) & (x <= upper + slack), axis=-1)

    def centre_point(self, dim: int, dtype: DTypeLike) -> jax.Array:
        lower, upper = self._bounds(jnp.zeros((dimension(dim),), dtype))
        return 0.5 * lower + 0.5 * upper

    def radius_about_centre(self, dim: int) -> float:
        return 0.5 * self.diameter(dim)

    def diameter(self, dim: int) -> float:
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

    Examples
    --------
    >>> Simplex().project(jnp.array([0.5, 1.0])).tolist()
    [0.25, 0.75]
    """

    total: Number = 1.0

    def __post_init__(self) -> None:
        require_positive("total", self.total)

    def project(self, x: jax.Array) -> jax.Array:
        return onto_simplex(x, cast(self.total, x))

    def support(self, g: jax.Array) -> jax.Array:
        return cast(self.total, g) * jnp.max(g, axis=-1)

    def extreme_point(self, g: jax.Array) -> jax.Array:
        return one_hot(g) * cast(self.total, g)

    def contains(self, x: jax.Array, tolerance: Number) -> jax.Array:
        slack = cast(tolerance, x)
        balanced = jnp.abs(jnp.sum(x, axis=-1) - cast(self.total, x)) <= slack
        return balanced & jnp.all(x >= -slack, axis=-1)

    def centre_point(self, dim: int, dtype: DTypeLike) -> jax.Array:
        return jnp.broadcast_to(jnp.asarray(self.total, dtype) / dimension(dim), (dim,))

    def radius_about_centre(self, dim: int) -> float:
        require_shape("total", self.total, ())
        return float(self.total) * math.sqrt(1.0 - 1.0 / dimension(dim))

    def diameter(self, dim: int) -> float:
        return float(self.total) * math.sqrt(2.0) if dimension(dim) > 1 else 0.0


@pytree_dataclass
@dataclass(frozen=True)
class WholeSpace(Ball):
    """All vectors, centred at the origin.

    Examples
    --------
    >>> WholeSpace().project(jnp.array([3.0, 4.0])).tolist(), WholeSpace().diameter(2)
    ([3.0, 4.0], inf)
    """

    def project(self, x: jax.Array) -> jax.Array:
        return x

    def support(self, g: jax.Array) -> jax.Array:
        return jnp.where(jnp.all(g == 0.0, axis=-1), 0.0, jnp.inf).astype(g.dtype)

    def extreme_point(self, g: jax.Array) -> jax.Array:
        raise NotImplementedError("WholeSpace has no extreme point: a linear function is unbounded")

    def contains(self, x: jax.Array, tolerance: Number) -> jax.Array:
        return jnp.all(jnp.isfinite(x), axis=-1)

    def radius_about_centre(self, dim: int) -> float:
        return math.inf

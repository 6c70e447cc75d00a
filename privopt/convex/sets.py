"""Constraint sets: Euclidean projections, support functions, linear oracles, diameters.

A set is a frozen dataclass. Its parameters are pytree leaves, so it is an argument of compiled
programs: a new radius does not retrace, and ``jax.vmap`` over a set of arrays sweeps them. Device
methods act on the last axis and return the dtype of their argument. Host methods return Python
floats. (Projections of Optax 0.2.8 are for single vectors: the l1 ball converts float32 to float64
if x64 is on, and the l2 ball squares the norm.)

Python and NumPy parameters are checked by the constructor, shapes by the host methods. Device
arrays are not read.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import singledispatch
from typing import Protocol, Self

import jax.numpy as jnp
from jax import Array
from jax.typing import DTypeLike
from jaxtyping import Bool, Float

from privopt.arguments import checked, positive_integer, positive_number, shown
from privopt.convex.arrays import (
    Number,
    broadcast,
    cast,
    inner,
    norm,
    one_hot,
    pytree_dataclass,
    require_finite,
    require_positive,
    require_shape,
)
from privopt.convex.projections import (
    l1_threshold,
    l2_threshold,
    project_simplex,
    range_factor,
    ratio_threshold,
    shift_maximum,
)


class ConstraintSet(Protocol):
    """A closed convex set ``W`` of vectors with ``dim`` coordinates.

    Results have the dtype of ``x`` and ``g``.
    """

    def project(self, x: Float[Array, "*batch d"]) -> Float[Array, "*batch d"]:
        """Return ``argmin_{v in W} ||v - x||_2``; points of ``W`` are returned bit for bit."""

    def support(self, g: Float[Array, "*batch d"]) -> Float[Array, "*batch"]:
        """Compute the support function ``max_{v in W} <g, v>``."""

    def extreme_point(self, g: Float[Array, "*batch d"]) -> Float[Array, "*batch d"]:
        """Return a maximiser of ``<g, v>`` over ``v in W`` (for ``-g`` the Frank-Wolfe oracle)."""

    def contains(self, x: Float[Array, "*batch d"], tolerance: Number) -> Bool[Array, "*batch"]:
        """Return True if ``x`` meets every constraint up to ``tolerance``, in units of ``x``."""

    def centre_point(self, dim: int, dtype: DTypeLike) -> Float[Array, " d"]:
        """Return the centre of ``W`` in ``R^dim``."""

    def radius_about_centre(self, dim: int) -> float:
        """Return the largest distance of a point of ``W`` from the centre (host)."""

    def diameter(self, dim: int) -> float:
        """Return the largest distance between two points of ``W`` (host)."""


class Ball:
    """Symmetric set: it contains ``c - v`` if it contains ``c + v``, for its centre ``c``."""

    def centre_point(self, dim: int, dtype: DTypeLike) -> Float[Array, " d"]:
        return jnp.zeros((positive_integer("dim", dim),), dtype)

    def radius_about_centre(self, dim: int) -> float:
        """Return the radius, which is attained."""
        raise NotImplementedError

    def diameter(self, dim: int) -> float:
        """Return twice the radius."""
        return 2.0 * self.radius_about_centre(dim)


@pytree_dataclass
@dataclass(frozen=True)
class L2Ball(Ball):
    """Euclidean ball ``{v : ||v - centre||_2 <= radius}``.

    A number as ``centre`` is the vector with all coordinates equal to it.

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

    def project(self, x: Float[Array, "*batch d"]) -> Float[Array, "*batch d"]:
        centre, radius = broadcast(self.centre, x), cast(self.radius, x)
        offset = x - centre
        distance = norm(offset)[..., None]
        outside = distance > radius
        direction = offset / jnp.where(outside, distance, 1.0)
        return jnp.where(outside, centre + radius * direction, x)

    def support(self, g: Float[Array, "*batch d"]) -> Float[Array, "*batch"]:
        return jnp.sum(g * broadcast(self.centre, g), axis=-1) + cast(self.radius, g) * norm(g)

    def extreme_point(self, g: Float[Array, "*batch d"]) -> Float[Array, "*batch d"]:
        length = norm(g)[..., None]
        direction = g / jnp.where(length > 0.0, length, 1.0)
        return broadcast(self.centre, g) + cast(self.radius, g) * direction

    def contains(self, x: Float[Array, "*batch d"], tolerance: Number) -> Bool[Array, "*batch"]:
        return norm(x - broadcast(self.centre, x)) <= cast(self.radius, x) + cast(tolerance, x)

    def centre_point(self, dim: int, dtype: DTypeLike) -> Float[Array, " d"]:
        return jnp.full((positive_integer("dim", dim),), self.centre, dtype)

    def radius_about_centre(self, dim: int) -> float:
        require_shape("centre", self.centre, (), (positive_integer("dim", dim),))
        require_shape("radius", self.radius, ())
        return float(self.radius)


@pytree_dataclass
@dataclass(frozen=True)
class L1Ball(Ball):
    """l1 ball ``{v : ||v||_1 <= radius}``, centred at the origin.

    Examples
    --------
    >>> L1Ball(1.0).project(jnp.array([3.0, -4.0])).tolist()
    [0.0, -1.0]
    """

    radius: Number

    def __post_init__(self) -> None:
        require_positive("radius", self.radius)

    def project(self, x: Float[Array, "*batch d"]) -> Float[Array, "*batch d"]:
        """Project by soft thresholding (Duchi et al. 2008, section 4)."""
        magnitude, radius = jnp.abs(x), cast(self.radius, x)
        inside = jnp.sum(magnitude, axis=-1, keepdims=True) <= radius
        return jnp.where(inside, x, jnp.sign(x) * project_simplex(magnitude, radius))

    def support(self, g: Float[Array, "*batch d"]) -> Float[Array, "*batch"]:
        return cast(self.radius, g) * jnp.max(jnp.abs(g), axis=-1)

    def extreme_point(self, g: Float[Array, "*batch d"]) -> Float[Array, "*batch d"]:
        return one_hot(jnp.abs(g)) * jnp.where(g < 0.0, -1.0, 1.0) * cast(self.radius, g)

    def contains(self, x: Float[Array, "*batch d"], tolerance: Number) -> Bool[Array, "*batch"]:
        return jnp.sum(jnp.abs(x), axis=-1) <= cast(self.radius, x) + cast(tolerance, x)

    def radius_about_centre(self, dim: int) -> float:
        positive_integer("dim", dim)
        require_shape("radius", self.radius, ())
        return float(self.radius)


@pytree_dataclass
@dataclass(frozen=True)
class L1L2Ball(Ball):
    """Intersection ``{v : ||v||_1 <= l1_radius, ||v||_2 <= l2_radius}``, centred at the origin.

    With ``l1_radius = sqrt(s) l2_radius`` it contains every ``s``-sparse vector of norm at most
    ``l2_radius``, and is contained in ``sqrt(2)`` times their convex hull (Plan and Vershynin 2013,
    "One-bit compressed sensing by linear programming", lemma 3.1).

    Examples
    --------
    >>> ball = L1L2Ball(2.0**0.5, 1.0)
    >>> print(ball.project(jnp.array([3.0, 4.0, 0.0])).round(3), ball.diameter(3))
    [0.6 0.8 0. ] 2.0
    """

    l1_radius: Number
    l2_radius: Number

    def __post_init__(self) -> None:
        require_positive("l1_radius", self.l1_radius)
        require_positive("l2_radius", self.l2_radius)

    @classmethod
    def of(cls, lipschitz: float, sparsity: int) -> Self:
        """Return the set that contains the sparse vectors of norm at most ``lipschitz``.

        The radii are ``lipschitz sqrt(sparsity)`` and ``lipschitz``.
        """
        lipschitz = positive_number("lipschitz", lipschitz)
        return cls(lipschitz * math.sqrt(positive_integer("sparsity", sparsity)), lipschitz)

    def project(self, x: Float[Array, "*batch d"]) -> Float[Array, "*batch d"]:
        """Return ``S_t(x) min(1, l2_radius / ||S_t(x)||_2)``; points of the set are unchanged.

        ``S_t`` is soft thresholding, and ``t >= 0`` is the least threshold with an l1 norm of at
        most ``l1_radius``. Proof: :ref:`Solvers, Theorem 2 <theory-solvers-2>`.
        """
        magnitude, (l1, l2) = jnp.abs(x), self._radii(x)
        inside = (jnp.sum(magnitude, axis=-1) <= l1) & (norm(x) <= l2)
        scaled, unit, radius = _scale(magnitude, l1)
        least = 16.0 * float(jnp.finfo(x.dtype).tiny)  # much smaller than a rounding of the unit
        highest = jnp.clip(l1_threshold(scaled, radius), -1.0, -least)
        shrunk = self._shrink(scaled, highest)
        fitted = jnp.minimum(unit, _longest(shrunk, l1, l2))
        return jnp.where(inside[..., None], x, jnp.sign(x) * (shrunk * fitted))

    def support(self, g: Float[Array, "*batch d"]) -> Float[Array, "*batch"]:
        """Compute ``min_{t >= 0} {l2_radius ||S_t(g)||_2 + t l1_radius}``."""
        return inner(g, self.extreme_point(g))

    def extreme_point(self, g: Float[Array, "*batch d"]) -> Float[Array, "*batch d"]:
        """Return ``S_t(g)`` at the ``t`` of :meth:`support`, scaled to the boundary; 0 for 0.

        Coordinates with equal largest ``|g_j|`` get equal parts of ``l1_radius``.
        """
        magnitude, (l1, l2) = jnp.abs(g), self._radii(g)
        scaled, *_ = _scale(magnitude, l1)
        shrunk = self._shrink(
            scaled, jnp.full_like(scaled[..., :1], -0.125 * float(jnp.finfo(g.dtype).eps))
        )
        return jnp.sign(g) * (shrunk * _longest(shrunk, l1, l2))

    def contains(self, x: Float[Array, "*batch d"], tolerance: Number) -> Bool[Array, "*batch"]:
        l1, l2 = self._radii(x)
        slack = cast(tolerance, x)
        return (jnp.sum(jnp.abs(x), axis=-1) <= l1 + slack) & (norm(x) <= l2 + slack)

    def radius_about_centre(self, dim: int) -> float:
        positive_integer("dim", dim)
        require_shape("l1_radius", self.l1_radius, ())
        require_shape("l2_radius", self.l2_radius, ())
        return float(min(self.l1_radius, self.l2_radius))

    def _radii(self, x: Array) -> tuple[Array, Array]:
        return cast(self.l1_radius, x), cast(self.l2_radius, x)

    def _shrink(self, scaled: Array, highest: Array) -> Array:
        l1, l2 = self._radii(scaled)
        threshold = ratio_threshold(scaled, l1 / l2, jnp.full_like(highest, -1.0), highest)
        return jnp.maximum(scaled - threshold, 0.0)


@pytree_dataclass
@dataclass(frozen=True)
class WholeSpace(Ball):
    """Whole space, centred at the origin.

    Examples
    --------
    >>> WholeSpace().project(jnp.array([3.0, 4.0])).tolist(), WholeSpace().diameter(2)
    ([3.0, 4.0], inf)
    """

    def project(self, x: Array) -> Array:
        return x

    def support(self, g: Float[Array, "*batch d"]) -> Float[Array, "*batch"]:
        return jnp.where(jnp.all(g == 0.0, axis=-1), 0.0, jnp.inf).astype(g.dtype)

    def extreme_point(self, g: Float[Array, "*batch d"]) -> Float[Array, "*batch d"]:
        raise NotImplementedError("WholeSpace has no extreme point: a linear function is unbounded")

    def contains(self, x: Float[Array, "*batch d"], tolerance: Number) -> Bool[Array, "*batch"]:
        return jnp.all(jnp.isfinite(x), axis=-1)

    def radius_about_centre(self, dim: int) -> float:
        return math.inf


def _scale(magnitude: Array, radius: Array) -> tuple[Array, Array, Array]:
    """Return ``magnitude/unit - 1``, the unit (largest coordinate), and ``radius/unit``."""
    unit = _divisor(jnp.max(magnitude, axis=-1, keepdims=True))
    factor = range_factor(unit)
    scaled = shift_maximum(magnitude * factor) / (unit * factor)
    return scaled, unit, radius * factor / (unit * factor)


def _longest(v: Array, l1: Array, l2: Array) -> Array:
    """Return the largest factor for ``v >= 0`` with norms at most ``l1`` and ``l2``."""
    first = jnp.sum(v, axis=-1, keepdims=True)
    return jnp.minimum(l1 / _divisor(first), l2 / _divisor(norm(v)[..., None]))


def _divisor(number: Array) -> Array:
    return jnp.where(number > 0.0, number, 1.0)


@checked
@singledispatch
def linf_projection(
    constraint: ConstraintSet, x: Float[Array, "*batch d"]
) -> Float[Array, "*batch d"]:
    """Return a point of ``W`` nearest to ``x`` in the maximum norm; points of ``W`` are unchanged.

    For a ball about ``c`` the point is ``c + S_t(x - c)`` with the least threshold ``t`` for which
    it is in the ball. Proof: :ref:`Solvers, Theorem 3 <theory-solvers-3>`.

    Examples
    --------
    >>> from privopt.convex import L2Ball, linf_projection
    >>> linf_projection(L2Ball(1.0), jnp.array([3.0, 0.5])).tolist()
    [1.0, 0.0]
    """
    raise TypeError(
        f"constraint must be a set with a known l_inf projection, got {shown(constraint)}"
    )


@linf_projection.register
def _(constraint: L1Ball | WholeSpace, x: Array) -> Array:
    return constraint.project(x)


@linf_projection.register
def _(constraint: L2Ball, x: Array) -> Array:
    centre, radius = broadcast(constraint.centre, x), cast(constraint.radius, x)
    offset = x - centre
    inside = (norm(offset) <= radius)[..., None]
    magnitude = shift_maximum(jnp.abs(offset))
    shrunk = jnp.maximum(magnitude - l2_threshold(magnitude, radius), 0.0)
    return jnp.where(inside, x, centre + jnp.sign(offset) * shrunk)


@linf_projection.register
def _(constraint: L1L2Ball, x: Array) -> Array:
    l1, l2 = cast(constraint.l1_radius, x), cast(constraint.l2_radius, x)
    magnitude = shift_maximum(jnp.abs(x))
    threshold = jnp.maximum(l1_threshold(magnitude, l1), l2_threshold(magnitude, l2))
    shrunk = jnp.maximum(magnitude - threshold, 0.0)
    return jnp.where(constraint.contains(x, 0.0)[..., None], x, jnp.sign(x) * shrunk)

"""What a problem is declared with: refused for its kind and shape, which are public."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypedDict

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike
from numpy.typing import NDArray

from privopt.arguments import described
from privopt.convex import (
    ConstraintSet,
    EmpiricalRisk,
    L2Ball,
    Loss,
    PublicTerm,
    Pytree,
    WholeSpace,
    pytree_dataclass,
)
from privopt.problems.records import real
from privopt.spec import ProblemClass

__all__ = [
    "Constant",
    "ProblemOptions",
    "Shaped",
    "array_rows",
    "as_pytree",
    "check_origin",
    "check_shape",
    "declared_constraint",
    "declared_loss",
    "declared_pair",
    "declared_public",
    "tree_rows",
]

_SET_METHODS = ("project", "centre_point", "radius_about_centre", "diameter")


class ProblemOptions(TypedDict, total=False):
    """What a :class:`~privopt.problems.Problem` may be given besides loss, data and class."""

    constraint: ConstraintSet | None
    counts: ArrayLike | None
    probabilities: ArrayLike | None
    public: PublicTerm | None
    minimiser: ArrayLike | None
    name: str


def declared_loss(loss: Loss) -> Loss:
    """``loss``, if it can be called with a parameter and a record."""
    if isinstance(loss, type) or not callable(loss):
        raise ValueError(f"loss must be a function loss(w, x), got {described(loss)}")
    return loss


def declared_public(public: PublicTerm | None) -> PublicTerm | None:
    """``public`` as a pytree, if it can be called with a parameter."""
    if public is not None and (isinstance(public, type) or not callable(public)):
        raise ValueError(f"public must be a function r(w), got {described(public)}")
    return None if public is None else as_pytree(public)


@pytree_dataclass
@dataclass(frozen=True)
class Constant:
    """A plain function as a pytree without leaves."""

    function: Callable[..., Array] = field(metadata={"static": True})

    def __call__(self, *arguments: Pytree) -> Array:
        """What the function says."""
        return self.function(*arguments)


def as_pytree(function: Callable[..., Array]) -> Callable[..., Array]:
    """``function`` if it is a pytree itself, else as a constant of the program."""
    return Constant(function) if jax.tree_util.all_leaves([function]) else function


def declared_constraint(
    constraint: ConstraintSet | None, problem_class: ProblemClass
) -> ConstraintSet:
    """``constraint`` if it is a set within the class's radius, by default the ball of that."""
    radius, dim = problem_class.radius, problem_class.dim
    if constraint is None:
        return L2Ball(radius) if math.isfinite(radius) else WholeSpace()
    methods = (getattr(constraint, name, None) for name in _SET_METHODS)
    if isinstance(constraint, type) or not all(map(callable, methods)):
        raise ValueError(
            "constraint must be a constraint set, such as convex.L2Ball(1.0), "
            f"got {described(constraint)}"
        )
    reach = constraint.radius_about_centre(dim)
    if reach > radius * (1.0 + 1e-12):
        raise ValueError(
            f"constraint must lie within radius {radius} of its centre, "
            f"got {constraint!r}, which reaches {reach}"
        )
    return constraint


def declared_pair(data: Pytree, dim: int) -> Pytree:
    """``data``, if they are the features, of ``dim`` columns, and the labels of a linear loss."""
    if not (isinstance(data, tuple | list) and len(data) == 2):
        raise ValueError(
            f"data must be (features, labels) for a generalised linear loss, got {described(data)}"
        )
    if np.shape(data[0])[1:] != (dim,):
        raise ValueError(
            f"features must have shape (records, dim = {dim}), got {np.shape(data[0])}"
        )
    return data


@pytree_dataclass
@dataclass(frozen=True)
class Shaped:
    """``loss(W; x)`` of an array ``W`` as a loss of the vector of its numbers, row by row.

    Nothing else changes: the Euclidean norm of the vector is the Frobenius norm of the matrix, so
    ``L``, ``H`` and ``m`` mean the same, and the ball of radius ``R`` is that of Frobenius.

    Attributes
    ----------
    loss : callable pytree
        Takes ``W`` of that shape.
    shape : tuple of int
    """

    loss: Loss
    shape: tuple[int, ...] = field(metadata={"static": True})

    def __call__(self, point: Array, example: Pytree) -> Array:
        """The loss of one record at a vector, or at an array of the shape."""
        value: Array = self.loss(point.reshape(self.shape), example)
        return value

    def smoothed(self, width: Array) -> Shaped:
        """The Moreau envelope, where the loss has one: norms being the same, so is the envelope."""
        return Shaped(self.loss.smoothed(width), self.shape)  # type: ignore[attr-defined]


def check_shape(shape: tuple[int, ...], dim: int) -> tuple[int, ...]:
    """``shape`` if it holds ``dim`` numbers, or ValueError."""
    whole = isinstance(shape, tuple) and all(type(side) is int and side > 0 for side in shape)
    if not (whole and shape and math.prod(shape) == dim):
        raise ValueError(f"shape must be a tuple of integers of product dim = {dim}, got {shape!r}")
    return shape


def array_rows(
    points: ArrayLike, shape: tuple[int, ...]
) -> tuple[tuple[int, ...], NDArray[np.float64]]:
    """The leading axes of parameters of that shape, and one vector a row."""
    wanted = f"dim = {shape[0]}" if len(shape) == 1 else ", ".join(map(str, shape))
    points = _numbers(points)
    if points.shape[-len(shape) :] != shape:
        raise ValueError(f"point must have shape (..., {wanted}), got {points.shape}")
    return points.shape[: -len(shape)], points.reshape(-1, math.prod(shape))


def tree_rows(points: Pytree, like: Pytree) -> tuple[tuple[int, ...], Pytree]:
    """The leading axes of pytrees like that one, and the same with one leading axis."""
    found: object = jax.tree.structure(points)
    expected = jax.tree.structure(like)
    if found != expected:
        _refuse_run(points)
        raise ValueError(f"point must have the structure {expected}, got {found}")
    points = jax.tree.map(_numbers, points)
    wanted = [jnp.shape(leaf) for leaf in jax.tree.leaves(like)]
    leaves = jax.tree.leaves(points)
    axes = leaves[0].shape[: leaves[0].ndim - len(wanted[0])]
    shapes, fitting = [leaf.shape for leaf in leaves], [axes + shape for shape in wanted]
    if shapes != fitting:
        raise ValueError(f"point must have leaves of shapes {fitting}, got {shapes}")
    return axes, jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[len(axes) :]), points)


def check_origin(start: Pytree, dim: int, risk: EmpiricalRisk) -> Pytree:
    """``start`` as arrays, if it can be a parameter of the problem."""
    origin = jax.tree.map(jnp.asarray, start)
    leaves = jax.tree.leaves(origin)
    if any(leaf.dtype != risk.dtype for leaf in leaves):
        raise ValueError(
            f"start must be of the data's dtype {risk.dtype}, got "
            f"{sorted({str(leaf.dtype) for leaf in leaves})}"
        )
    size = sum(leaf.size for leaf in leaves)
    if size != dim:
        raise ValueError(f"start must hold dim = {dim} numbers, got {size}")
    if not isinstance(risk.constraint, WholeSpace):
        raise ValueError(
            "start must be left out where there is a constraint, whose centre it is, got "
            f"{risk.constraint!r}"
        )
    return origin


def _numbers(values: ArrayLike) -> NDArray[np.float64]:
    """An array of them in float64."""
    _refuse_run(values)
    return np.asarray(real(values, "point"), np.float64)


def _refuse_run(values: object) -> None:
    if hasattr(values, "released"):
        raise ValueError(f"point must be run.released, got {described(values)}")

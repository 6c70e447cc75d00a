"""Checks of the arguments of a problem: records, loss, constraint and parameter.

Shapes and dtypes are public, so a wrong one raises. Values are private, and an exception that
depends on a value would release it. Invalid values are corrected record by record.
:meth:`privopt.problems.Problem.check` reports them, for data that may be inspected.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypedDict

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.tree_util import Partial
from jax.typing import ArrayLike, DTypeLike
from jaxtyping import Float64
from numpy.typing import NDArray

from privopt.arguments import described, shown
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
from privopt.records import as_array, on_device, places_of, public_values
from privopt.spec import ProblemClass

_SET_METHODS = ("project", "centre_point", "radius_about_centre", "diameter")


def class_places(labels: ArrayLike, classes: Sequence[Hashable]) -> Float64[np.ndarray, " n"]:
    """Return the index of each label in the public ``classes``; -1 for any other label.

    Examples
    --------
    >>> class_places(["no", "yes", "no"], ("no", "yes")).tolist()
    [0.0, 1.0, 0.0]
    """
    names = public_values("classes", classes, least=2)
    places = places_of(labels, names, "labels")
    return np.where(places < len(names), places, -1).astype(np.float64)


def require_countable(n: int, dtype: DTypeLike) -> None:
    """Check that ``dtype`` represents all integers up to ``n``."""
    limit = int(2.0 / float(np.finfo(dtype).eps))
    if n > limit:
        raise ValueError(f"n must be at most {limit} if records are counted in {dtype}, got {n}")


def multiplicities(counts: ArrayLike, records: int) -> Float64[np.ndarray, " n"]:
    """Round ``counts`` to integers; negative and non-finite values become 0."""
    values = np.asarray(as_array(counts, "counts"), np.float64)
    if values.shape != (records,):
        raise ValueError(f"counts must have shape ({records},), got {values.shape}")
    whole: NDArray[np.float64] = np.rint(np.where(values > 0.0, values, 0.0))
    return np.where(np.isfinite(whole), whole, 0.0)


def distribution(probabilities: ArrayLike, records: int) -> Float64[np.ndarray, " n"]:
    """Normalise declared ``probabilities``, which must be non-negative with a sum near 1."""
    shares = np.asarray(as_array(probabilities, "probabilities"), np.float64)
    if shares.shape != (records,):
        raise ValueError(f"probabilities must have shape ({records},), got {shares.shape}")
    if not np.all(shares >= 0.0):
        row = int(np.argmin(shares >= 0.0))
        raise ValueError(f"probabilities must be non-negative, got {shares[row]} at {row}")
    if not abs(shares.sum() - 1.0) <= 1e-6:
        raise ValueError(f"probabilities must sum to 1, got {shown(float(shares.sum()))}")
    return np.asarray(shares / shares.sum())


class ProblemOptions(TypedDict, total=False):
    """Optional arguments of :class:`~privopt.problems.Problem`."""

    constraint: ConstraintSet | None
    counts: ArrayLike | None
    probabilities: ArrayLike | None
    public: PublicTerm | None
    minimiser: ArrayLike | None
    name: str


def declared_function(
    name: str, signature: str, function: Callable[..., Array]
) -> Callable[..., Array]:
    """Return ``function``, wrapped as a constant of the program if it is not a pytree.

    The leaves of a pytree are arguments of the program, so they must be numbers.
    """
    if isinstance(function, type) or not callable(function):
        raise ValueError(f"{name} must be a function {signature}, got {described(function)}")
    if jax.tree_util.all_leaves([function]):
        return Partial(function)
    for leaf in jax.tree.leaves(function):
        if not isinstance(leaf, Array | np.ndarray | np.generic | int | float):
            raise ValueError(
                f"{name} must be a pytree of numbers, got one that contains {described(leaf)}: "
                "decorate its class with privopt.convex.pytree_dataclass and dataclass"
            )
    return function


def check_scalar(name: str, signature: str, function: Callable[..., Array], *args: Pytree) -> None:
    """Check that a function can be traced by JAX and returns a floating-point scalar.

    Only shapes and types of ``args`` are used.
    """
    try:
        result = _call.eval_shape(function, *args)
    except Exception as error:
        reason = str(error).split("\n", 1)[0]
        raise ValueError(
            f"{name} must be a function {signature} written in JAX, got one that raises "
            f"{type(error).__name__}: {reason}"
        ) from error
    arrays = jax.tree.leaves(result)
    shapes = ", ".join(f"{leaf.dtype} of shape {leaf.shape}" for leaf in arrays) or "none"
    scalar = arrays == [result] and result.shape == ()
    if not (scalar and jnp.issubdtype(result.dtype, jnp.floating)):
        raise ValueError(f"{name} must return a floating-point scalar, got {shapes}")


@jax.jit
def _call(function: Callable[..., Pytree], *args: Pytree) -> Pytree:
    return function(*args)


def declared_constraint(
    constraint: ConstraintSet | None, problem_class: ProblemClass
) -> ConstraintSet:
    """Check that ``constraint`` has at most the declared radius; default: the ball or the space."""
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
            f"constraint must be within radius {radius} of its centre, "
            f"got {shown(constraint)}, which reaches {reach}"
        )
    return constraint


@pytree_dataclass
@dataclass(frozen=True)
class Shaped:
    """Loss of an array ``W`` as a function of the vector of its entries, row by row.

    The Euclidean norm of the vector is the Frobenius norm of the array, so ``L``, ``H``, ``m`` and
    the ball of radius ``R`` keep their meaning.
    """

    loss: Loss
    shape: tuple[int, ...] = field(metadata={"static": True})

    def prepare(self, data: Pytree, *, dim: int, smoothness: float | None) -> Pytree:
        """Prepare the records with the method of the inner loss."""
        inner = getattr(self.loss, "prepare", None)
        return data if inner is None else inner(data, dim=dim, smoothness=smoothness)

    def __call__(self, point: Array, example: Pytree) -> Array:
        """Return the loss of one record at a vector or at an array of the shape."""
        value: Array = self.loss(point.reshape(self.shape), example)
        return value

    def smoothed(self, width: Array) -> Shaped:
        """Return the Moreau envelope, which the equality of the norms preserves."""
        return Shaped(self.loss.smoothed(width), self.shape)  # type: ignore[attr-defined]


def check_shape(shape: tuple[int, ...], dim: int) -> tuple[int, ...]:
    """Check that ``shape`` has ``dim`` entries and return it."""
    whole = isinstance(shape, tuple) and all(type(side) is int and side > 0 for side in shape)
    if not (whole and shape and math.prod(shape) == dim):
        raise ValueError(
            f"shape must be a tuple of integers of product dim = {dim}, got {shown(shape)}"
        )
    return shape


def array_rows(
    points: ArrayLike, shape: tuple[int, ...]
) -> tuple[tuple[int, ...], Float64[np.ndarray, " points *shape"]]:
    """Return the leading axes of parameters of this ``shape``, and the parameters as rows."""
    expected = f"dim = {shape[0]}" if len(shape) == 1 else ", ".join(map(str, shape))
    points = _numbers(points)
    if points.shape[-len(shape) :] != shape:
        raise ValueError(f"point must have shape (..., {expected}), got {points.shape}")
    return points.shape[: -len(shape)], points.reshape(-1, math.prod(shape))


def tree_rows(points: Pytree, like: Pytree) -> tuple[tuple[int, ...], Pytree]:
    """Return the leading axes of pytrees like ``like``, and the pytrees with one leading axis."""
    structure: object = jax.tree.structure(points)
    expected = jax.tree.structure(like)
    if structure != expected:
        _refuse_run(points)
        raise ValueError(f"point must have the structure {expected}, got {structure}")
    points = jax.tree.map(_numbers, points)
    ends = [jnp.shape(leaf) for leaf in jax.tree.leaves(like)]
    arrays = jax.tree.leaves(points)
    axes = arrays[0].shape[: arrays[0].ndim - len(ends[0])]
    shapes, expected_shapes = [leaf.shape for leaf in arrays], [axes + end for end in ends]
    if shapes != expected_shapes:
        raise ValueError(f"point must have leaves of shapes {expected_shapes}, got {shapes}")
    return axes, jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[len(axes) :]), points)


def check_origin(start: Pytree, dim: int, risk: EmpiricalRisk) -> Pytree:
    """Check that ``start`` can be a parameter of the problem and return it as arrays."""
    origin = jax.tree.map(partial(on_device, name="start"), start)
    arrays = jax.tree.leaves(origin)
    if any(leaf.dtype != risk.dtype for leaf in arrays):
        raise ValueError(
            f"start must be of the data's dtype {risk.dtype}, got "
            f"{sorted({str(leaf.dtype) for leaf in arrays})}"
        )
    size = sum(leaf.size for leaf in arrays)
    if size != dim:
        raise ValueError(f"start must hold dim = {dim} numbers, got {size}")
    if not isinstance(risk.constraint, WholeSpace):
        raise ValueError(
            "start must be left out if there is a constraint, because its centre is the start, got "
            f"{shown(risk.constraint)}"
        )
    return origin


def _numbers(values: ArrayLike) -> NDArray[np.float64]:
    _refuse_run(values)
    return np.asarray(as_array(values, "point"), np.float64)


def _refuse_run(values: object) -> None:
    if hasattr(values, "released"):
        raise ValueError(f"point must be run.released, got {described(values)}")

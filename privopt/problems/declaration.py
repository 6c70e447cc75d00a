"""What a problem is declared with: refused for its kind and shape, which are public."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypedDict

import jax
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from privopt.arguments import described
from privopt.convex import (
    ConstraintSet,
    L2Ball,
    Loss,
    PublicTerm,
    Pytree,
    WholeSpace,
    pytree_dataclass,
)
from privopt.spec import ProblemClass

__all__ = [
    "Constant",
    "ProblemOptions",
    "as_pytree",
    "declared_constraint",
    "declared_loss",
    "declared_pair",
    "declared_public",
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

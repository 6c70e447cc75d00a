"""Multinomial logistic regression: one row of the parameter a class."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Unpack

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from privopt.arguments import instance
from privopt.convex import FeaturesLike, as_features, pytree_dataclass, shortened
from privopt.problems.declaration import ProblemOptions
from privopt.problems.problem import Problem
from privopt.problems.records import floating, numeric
from privopt.spec import ProblemClass

__all__ = ["Multinomial", "multinomial"]


@pytree_dataclass
@dataclass(frozen=True)
class Multinomial:
    """``loss(W; (x, y)) = log sum_k exp(<x, w_k>) - <x, w_y>``, labels ``0..classes-1``.

    ``W`` has shape ``(classes, features)``, and every record's loss

    - is ``sqrt(2) |x|``-Lipschitz in the Frobenius norm: the gradient is ``(p - e_y) x^T`` with the
      softmax probabilities ``p``, and ``|p - e_y|^2 = (1 - p_y)^2 + sum_{k != y} p_k^2 <= 2``,
      reached as another class takes all of the probability;
    - is ``|x|^2/2``-smooth: the Hessian is ``(diag(p) - p p^T) (x) x x^T``, and ``v^T (diag(p) -
      p p^T) v`` is the variance of ``v_k`` under ``p``, at most a quarter of the square of the
      range of ``v``, which is ``2 |v|^2`` at most. Reached where two classes share the probability.

    Both hold for whatever the data are: a record whose label is no class has loss 0.

    Examples
    --------
    >>> Multinomial(3)(jnp.zeros((3, 2)), (jnp.ones(2), jnp.array(0.0))).round(4).item()
    1.0986
    """

    classes: int = field(metadata={"static": True})

    curvature: ClassVar[float] = 0.5

    def __call__(self, point: Array, example: tuple[FeaturesLike, Array]) -> Array:
        """The loss of one record."""
        features, label = example
        scores = as_features(features).matvec(point)
        own = label == jnp.arange(self.classes).astype(label.dtype)
        return jnp.sum(jnp.where(own, jax.nn.logsumexp(scores) - scores, 0.0))

    @property
    def domain(self) -> str:
        """Which labels it is declared for."""
        return f"labels must be integers from 0 to {self.classes - 1}"

    def admits(self, example: tuple[FeaturesLike, Array]) -> Array:
        """Whether the label is a class."""
        label = example[1]
        return jnp.any(label == jnp.arange(self.classes).astype(label.dtype))

    def bounded(
        self, data: tuple[FeaturesLike, Array], smoothness: float | None
    ) -> tuple[FeaturesLike, Array]:
        """Features shortened until ``|x|^2/2 <= smoothness``."""
        return shortened(data[0], self.curvature, smoothness), data[1]


def multinomial(
    features: FeaturesLike,
    labels: ArrayLike,
    *,
    classes: int,
    problem_class: ProblemClass,
    **options: Unpack[ProblemOptions],
) -> Problem:
    """Softmax regression: ``log sum_k exp(<x, w_k>) - <x, w_y>``, labels ``0..classes-1``.

    The parameter is a matrix of shape ``(classes, features)``, so ``problem_class.dim`` is the
    product; norms and balls are Frobenius'. ``L = sqrt(2) max |x|``, ``H = max |x|^2 / 2``; see
    :class:`Multinomial`. How many classes there are is public, and never read off the labels.

    Raises
    ------
    ValueError
        If ``classes`` is not an integer above 1, or for the errors of :class:`Problem`.

    Examples
    --------
    >>> import numpy as np
    >>> facts = ProblemClass(n=2, dim=6, lipschitz=2.0, radius=1.0)
    >>> problem = multinomial(np.eye(2), np.array([0, 2]), classes=3, problem_class=facts)
    >>> round(problem.risk(np.zeros((3, 2))), 4)
    1.0986
    """
    if type(classes) is not int or classes < 2:
        raise ValueError(f"classes must be an integer above 1, got {classes!r}")
    instance("problem_class", problem_class, ProblemClass)
    options = {"name": "multinomial", **options}
    table, tags = floating(features, "features", ndim=2), numeric(labels, "labels")
    if classes * table.shape[1] != problem_class.dim:
        raise ValueError(
            f"features must have shape (records, dim / classes = {problem_class.dim} / {classes}), "
            f"got {table.shape}"
        )
    if tags.shape != table.shape[:1]:
        raise ValueError(f"labels must have shape {table.shape[:1]}, got {tags.shape}")
    return Problem(
        loss=Multinomial(classes),
        data=(table, tags.astype(table.dtype)),
        problem_class=problem_class,
        shape=(classes, table.shape[1]),
        **options,
    )

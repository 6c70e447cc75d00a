"""Multinomial logistic regression: one row of the parameter a class."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
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
from privopt.problems.records import floating, labelled
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
        return f"labels must be places of the classes, from 0 to {self.classes - 1}"

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
    classes: Sequence[Hashable],
    problem_class: ProblemClass,
    **options: Unpack[ProblemOptions],
) -> Problem:
    """Softmax regression: ``log sum_k exp(<x, w_k>) - <x, w_y>``, a row ``w_k`` for each class.

    ``classes`` are the labels, in the order of the rows: ``range(10)``, ``(-1, 1)``, ``("no",
    "yes")``. They are public, and never read off the data; a label that is none of them makes its
    record a null one. The parameter is a matrix of shape ``(classes, features)``, so
    ``problem_class.dim`` is the product; norms and balls are Frobenius'. ``L = sqrt(2) max |x|``,
    ``H = max |x|^2 / 2``; see :class:`Multinomial`.

    Raises
    ------
    ValueError
        If ``classes`` are not distinct, or fewer than two, or for the errors of :class:`Problem`.

    Examples
    --------
    >>> import numpy as np
    >>> facts = ProblemClass(n=2, dim=6, lipschitz=2.0, radius=1.0)
    >>> labels = np.array(["cat", "cow"])
    >>> problem = multinomial(
    ...     np.eye(2), labels, classes=("cat", "dog", "cow"), problem_class=facts
    ... )
    >>> round(problem.risk(np.zeros((3, 2))), 4)
    1.0986
    """
    table, places = floating(features, "features", ndim=2), labelled(labels, classes)
    instance("problem_class", problem_class, ProblemClass)
    options, rows = {"name": "multinomial", **options}, len(classes)
    if rows * table.shape[1] != problem_class.dim:
        raise ValueError(
            f"features must have shape (records, dim / classes = {problem_class.dim} / {rows}), "
            f"got {table.shape}"
        )
    return Problem(
        loss=Multinomial(rows),
        data=(table, jnp.asarray(places, table.dtype)),
        problem_class=problem_class,
        shape=(rows, table.shape[1]),
        **options,
    )

"""A linear layer below any other model, whose gradients are products."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import jax.numpy as jnp
from jax import Array

from privopt.convex.features import FeaturesLike, as_features
from privopt.convex.pytree_dataclass import pytree_dataclass
from privopt.release import Pytree


@pytree_dataclass
@dataclass(frozen=True)
class FirstLayer:
    """``loss((W, v); (x, y)) = head(v, x W, y)``: a model on ``k`` linear features of ``x``.

    The gradient in ``W``, shape ``(dim, k)``, is ``x h^T`` with the slopes ``h`` of ``head`` in
    ``x W``, and its norm ``|x| |h|``. So clipped sums are formed and gradients of single records
    are not, which saves most where ``x`` is sparse. The mean of the embeddings of a text's words is
    such a layer: ``x`` are the shares of the words in the text, ``W`` the embeddings.

    Examples
    --------
    >>> loss = FirstLayer(lambda v, hidden, y: 0.5 * (hidden @ v - y) ** 2)
    >>> point = jnp.array([[1.0, 0.0], [0.0, 2.0]]), jnp.array([1.0, -1.0])
    >>> loss(point, (jnp.array([0.5, 0.5]), 1.0)).item()
    1.125
    """

    head: Callable[[Pytree, Array, Pytree], Array] = field(metadata={"static": True})

    def __call__(self, point: Pytree, record: tuple[FeaturesLike, Pytree]) -> Array:
        (weights, rest), (row, other) = point, record
        return self.head(rest, as_features(row).matvec(jnp.transpose(weights)), other)

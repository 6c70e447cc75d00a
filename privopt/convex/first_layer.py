"""Linear layers below any other model, whose gradients are products."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
from jax import Array

from privopt.arguments import described
from privopt.convex.features import FeaturesLike, as_features, floats, is_features
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

    ``W`` may be a pytree of such matrices. Then ``x`` holds features for each of them in the same
    places, and ``head`` receives the products in the same places: a rating by factors of its user
    and its item has two layers.

    Examples
    --------
    >>> loss = FirstLayer(lambda v, hidden, y: 0.5 * (hidden @ v - y) ** 2)
    >>> point = jnp.array([[1.0, 0.0], [0.0, 2.0]]), jnp.array([1.0, -1.0])
    >>> loss(point, (jnp.array([0.5, 0.5]), 1.0)).item()
    1.125
    >>> rating = FirstLayer(lambda v, both, y: 0.5 * (both[0] @ both[1] + v - y) ** 2)
    >>> factors = jnp.eye(2), jnp.array([[3.0, 1.0]])
    >>> user, item = jnp.array([1.0, 0.0]), jnp.array([1.0])
    >>> rating((factors, 0.5), ((user, item), 4.0)).item()
    0.125
    """

    head: Callable[[Pytree, Pytree, Pytree], Array] = field(metadata={"static": True})

    def prepare(self, data: Pytree, *, dim: int, smoothness: float | None) -> Pytree:
        """Return ``(x, y)`` with the features ``x`` as floats."""
        del dim, smoothness
        if not (isinstance(data, tuple | list) and len(data) == 2):
            raise ValueError(
                f"data must be (features, other) for a FirstLayer, got {described(data)}"
            )
        features, other = data
        return jax.tree.map(floats, features, is_leaf=is_features), other

    def __call__(self, point: Pytree, record: Pytree) -> Array:
        (weights, rest), (row, other) = point, record
        return self.head(rest, products(weights, row), other)


def products(weights: Pytree, row: Pytree) -> Pytree:
    """``x W`` of each layer."""

    def product(layer: Array, row: FeaturesLike) -> Array:
        features = as_features(row)
        if jnp.ndim(layer) != 2 or layer.shape[0] != features.shape[-1]:
            raise ValueError(
                f"a layer on {features.shape[-1]} features must have shape "
                f"({features.shape[-1]}, k), got {jnp.shape(layer)}"
            )
        return features.matvec(jnp.transpose(layer))

    return jax.tree.map(product, weights, row)

"""Losses that are not functions of one linear prediction."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import jax
import jax.numpy as jnp
from jax import Array

from privopt.convex import (
    Distance,
    FeaturesLike,
    Pytree,
    as_features,
    prepare_pair,
    pytree_dataclass,
)


@pytree_dataclass
@dataclass(frozen=True)
class RegularisedDistance:
    """Regularised distance ``|w - x|_2 + (m/2) |w|_2^2``, or its Moreau envelope.

    The loss is ``m``-strongly convex, ``(1 + m R)``-Lipschitz for ``|w| <= R``, and not smooth. A
    positive ``width`` ``h`` gives the envelope ``min_v |v - x| + (m/2)|v|^2 + |v - w|^2/(2h)``.
    Completing the square in ``v`` reduces it to the envelope of the distance: with ``s = 1 + m h``,

        loss_h(w; x) = |.|_{h/s}(w/s - x) + m |w|^2 / (2 s),

    which is ``m/s``-strongly convex and ``1/h``-smooth.

    Examples
    --------
    >>> RegularisedDistance(0.5)(jnp.array([2.0, 0.0]), jnp.zeros(2)).item()
    3.0
    """

    modulus: Array | float
    width: Array | float = 0.0

    def __call__(self, point: Array, example: Array) -> Array:
        """Return the loss of one record."""
        scale = 1.0 + self.modulus * self.width
        rounded = Distance(self.width / scale)
        return rounded(point / scale, example) + 0.5 * self.modulus * jnp.sum(point**2) / scale

    def smoothed(self, width: Array) -> RegularisedDistance:
        """Return the Moreau envelope; widths add."""
        return RegularisedDistance(self.modulus, self.width + width)


@pytree_dataclass
@dataclass(frozen=True)
class TwoKinks:
    """Loss ``s |w_1 - x_1| + sqrt(1 - s^2) |w_A - x_A|_2``, ``A`` all other coordinates.

    The loss is 1-Lipschitz for slopes ``s`` from 0 to 1, and not smooth. The two parts share no
    coordinate, so the Moreau envelope of the sum is the sum of the envelopes. The envelope of ``a
    |.|`` of width ``h`` is ``a`` times the envelope of ``|.|`` of width ``a h``.
    """

    slope: Array | float
    width: Array | float = 0.0

    def __call__(self, point: Array, example: Array) -> Array:
        """Return the loss of one record."""
        along, across = self.slope, jnp.sqrt(1.0 - jnp.square(self.slope))
        first = along * Distance(along * self.width)(point[:1], example[:1])
        return first + across * Distance(across * self.width)(point[1:], example[1:])

    def smoothed(self, width: Array) -> TwoKinks:
        """Return the Moreau envelope; widths add."""
        return TwoKinks(self.slope, self.width + width)


@pytree_dataclass
@dataclass(frozen=True)
class Multinomial:
    """Softmax loss ``log sum_k exp(<x, w_k>) - <x, w_y>`` with labels ``0..classes-1``.

    ``W`` has shape ``(classes, features)``. For every record the loss is

    - ``sqrt(2) |x|``-Lipschitz in the Frobenius norm. The gradient is ``(p - e_y) x^T`` with the
      softmax probabilities ``p``, and ``|p - e_y|^2 <= 2``, with equality in the limit ``p = e_k``,
      ``k != y``.
    - ``|x|^2/2``-smooth. The Hessian is ``(diag(p) - p p^T) (x) x x^T``. The quadratic form ``v^T
      (diag(p) - p p^T) v`` is the variance of ``v_k`` under ``p``, at most a quarter of the squared
      range of ``v``, and the squared range is at most ``2 |v|^2``. Equality holds if two classes
      have probability 1/2.

    Both constants hold for all data: a record with an invalid label has loss 0.

    Examples
    --------
    >>> Multinomial(3)(jnp.zeros((3, 2)), (jnp.ones(2), jnp.array(0.0))).round(4).item()
    1.0986
    """

    classes: int = field(metadata={"static": True})

    curvature: ClassVar[float] = 0.5

    def __call__(self, point: Array, example: tuple[FeaturesLike, Array]) -> Array:
        """Return the loss of one record."""
        features, label = example
        scores = as_features(features).matvec(point)
        is_label = label == jnp.arange(self.classes).astype(label.dtype)
        return jnp.sum(jnp.where(is_label, jax.nn.logsumexp(scores) - scores, 0.0))

    @property
    def domain(self) -> str:
        """Rule for the labels, for error messages."""
        return f"labels must be places of the classes, from 0 to {self.classes - 1}"

    def admits(self, example: tuple[FeaturesLike, Array]) -> Array:
        """Return True if the label is a class."""
        label = example[1]
        return jnp.any(label == jnp.arange(self.classes).astype(label.dtype))

    def prepare(
        self, data: Pytree, *, dim: int, smoothness: float | None
    ) -> tuple[FeaturesLike, Array]:
        """Return the records as floats; rows are shortened to ``|x|^2/2 <= smoothness``."""
        return prepare_pair(
            data, columns=dim // self.classes, curvature=self.curvature, smoothness=smoothness
        )


@pytree_dataclass
@dataclass(frozen=True)
class HalfSquare:
    """Public term ``r(w) = |w|_2^2 / 2``, independent of the records."""

    def __call__(self, point: Array) -> Array:
        """Return ``|w|^2 / 2``."""
        return 0.5 * jnp.sum(jnp.square(point))

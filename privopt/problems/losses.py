"""Losses of a whole parameter: distances with curvature, two kinks, the softmax."""

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
    """``loss(w; x) = |w - x|_2 + (m/2) |w|_2^2``, or its Moreau envelope of positive ``width``.

    ``m``-strongly convex, ``(1 + m R)``-Lipschitz for ``|w| <= R``, and not smooth. Completing the
    square in ``v`` turns ``min_v |v - x| + (m/2)|v|^2 + |v - w|^2/(2h)`` into the envelope of the
    distance itself: with ``s = 1 + m h``,

        loss_h(w; x) = |.|_{h/s}(w/s - x) + m |w|^2 / (2 s),

    ``m/s``-strongly convex and ``1/h``-smooth.

    Examples
    --------
    >>> RegularisedDistance(0.5)(jnp.array([2.0, 0.0]), jnp.zeros(2)).item()
    3.0
    """

    modulus: Array | float
    width: Array | float = 0.0

    def __call__(self, point: Array, example: Array) -> Array:
        """The loss of one record."""
        scale = 1.0 + self.modulus * self.width
        rounded = Distance(self.width / scale)
        return rounded(point / scale, example) + 0.5 * self.modulus * jnp.sum(point**2) / scale

    def smoothed(self, width: Array) -> RegularisedDistance:
        """The Moreau envelope; widths add."""
        return RegularisedDistance(self.modulus, self.width + width)


@pytree_dataclass
@dataclass(frozen=True)
class TwoKinks:
    """``loss(w; x) = s |w_1 - x_1| + sqrt(1 - s^2) |w_A - x_A|_2``, ``A`` all other coordinates.

    1-Lipschitz for slopes ``s`` from 0 to 1, and not smooth. The two parts share no coordinate, so
    the Moreau envelope of their sum is the sum of their envelopes, and that of ``a |.|`` is ``a``
    times the one of ``|.|`` of width ``a h``.
    """

    slope: Array | float
    width: Array | float = 0.0

    def __call__(self, point: Array, example: Array) -> Array:
        """The loss of one record."""
        along, across = self.slope, jnp.sqrt(1.0 - jnp.square(self.slope))
        first = along * Distance(along * self.width)(point[:1], example[:1])
        return first + across * Distance(across * self.width)(point[1:], example[1:])

    def smoothed(self, width: Array) -> TwoKinks:
        """The Moreau envelope; widths add."""
        return TwoKinks(self.slope, self.width + width)


@pytree_dataclass
@dataclass(frozen=True)
class Multinomial:
    """``loss(W; (x, y)) = log sum_k exp(<x, w_k>) - <x, w_y>``, labels ``0..classes-1``.

    ``W`` has shape ``(classes, features)``, and every record's loss

    - is ``sqrt(2) |x|``-Lipschitz in the Frobenius norm: the gradient is ``(p - e_y) x^T`` with the
      softmax probabilities ``p``, and ``|p - e_y|^2 <= 2``, reached as another class takes all;
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

    def prepare(
        self, data: Pytree, *, dim: int, smoothness: float | None
    ) -> tuple[FeaturesLike, Array]:
        """Return the records as floats, with ``|x|^2/2 <= smoothness``."""
        return prepare_pair(
            data, columns=dim // self.classes, curvature=self.curvature, smoothness=smoothness
        )


@pytree_dataclass
@dataclass(frozen=True)
class HalfSquare:
    """``r(w) = |w|_2^2 / 2``, a term of no record."""

    def __call__(self, point: Array) -> Array:
        """``|w|^2 / 2``."""
        return 0.5 * jnp.sum(jnp.square(point))

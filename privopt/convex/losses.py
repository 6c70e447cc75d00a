"""Losses with their constants.

A *scalar loss* ``phi(prediction, label)`` defines the loss of a generalised linear model with
``prediction = <x, w>``. Because of this structure, gradients are clipped without forming them. A
scalar loss has a value, a slope (a subgradient at kinks) and a Moreau envelope

    ``phi_h(z) = min_v phi(v) + (v - z)^2 / (2h)``,

which is convex, ``1/h``-smooth, at most ``phi`` and at least ``phi - slope_bound^2 h / 2``, with
the same slope bound. Widths are pytree leaves, either scalar or one per record.

The constants of a loss hold for every label, because guarantees depend on them. Labels of two
classes are clipped to ``[-1, 1]``, which increases neither slope nor curvature. 0 means -1, so
labels may be 0 and 1. ``admits`` returns True for the labels for which the loss is declared.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar, Protocol, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float

from privopt.arguments import checked, described
from privopt.convex.arrays import pytree_dataclass
from privopt.convex.features import FeaturesLike, as_features, floats, shortened
from privopt.release import Pytree


class Loss(Protocol):
    """Loss of a parameter and a record, written in JAX: a function, or a pytree with parameters.

    Optional methods:

    ``prepare(data, *, dim, smoothness)``
        Return records for which the constants of the loss hold. Each record is changed by itself.
    ``smoothed(width)``
        Return the Moreau envelope.
    ``admits(record)``, with a text ``domain``
        Return True for a record for which the loss is declared. Used by ``problem.check()``.
    """

    def __call__(self, point: Pytree, example: Pytree, /) -> Float[Array, ""]:
        """Compute ``loss(w; x)``, a scalar."""


class ScalarSlope(Protocol):
    """Derivative of a convex loss of a scalar prediction."""

    def slope(self, prediction: Array, label: Array) -> Array:
        """Compute ``d phi / d prediction`` (a subgradient at kinks)."""


class ScalarLoss(ScalarSlope, Protocol):
    """Convex loss of a scalar prediction, elementwise over arrays.

    Optional, for ``problem.check()``: ``admits(label)`` returns True for labels for which the loss
    is declared, and ``domain`` describes these labels.
    """

    @property
    def slope_bound(self) -> float:
        """Largest absolute slope, or ``inf``. Host only."""

    @property
    def curvature(self) -> float:
        """Largest second derivative in the prediction; ``inf`` for a kink. Host only."""

    def value(self, prediction: Array, label: Array) -> Array:
        """Compute ``phi(prediction, label)``."""

    def smoothed(self, width: Array) -> ScalarLoss:
        """Return the Moreau envelope of this width."""


class _TwoClasses:
    """Losses of labels -1 and 1, or 0 and 1."""

    domain: ClassVar[str] = "labels must be -1 or 1, or 0 or 1"

    def admits(self, label: Array) -> Array:
        """Return True if the label is -1, 0 or 1."""
        return (label == 0.0) | (jnp.abs(label) == 1.0)


@dataclass(frozen=True)
class _Rounded:
    """Losses of slope 1 with a kink rounded over ``width`` (Moreau envelopes)."""

    width: Array | float = 0.0

    slope_bound: ClassVar[float] = 1.0

    @property
    def curvature(self) -> float:
        smallest = float(np.min(self.width))  # on the host, also during tracing
        return 1.0 / smallest if smallest > 0.0 else math.inf

    def smoothed(self, width: Array) -> Self:
        return type(self)(self.width + width)


@pytree_dataclass
@dataclass(frozen=True)
class Linear:
    """Linear loss ``-label * prediction``, equal to its Moreau envelope up to a constant.

    Every label is valid. The slope bound assumes ``|label| <= 1``; for larger labels declare ``L``.

    Examples
    --------
    >>> Linear().value(jnp.array(0.5), jnp.array(-1.0)).item()
    0.5
    """

    slope_bound: ClassVar[float] = 1.0
    curvature: ClassVar[float] = 0.0

    def value(self, prediction: Array, label: Array) -> Array:
        return -label * prediction

    def slope(self, prediction: Array, label: Array) -> Array:
        return jnp.broadcast_to(-label, prediction.shape)

    def smoothed(self, width: Array) -> Self:
        del width
        return self


@pytree_dataclass
@dataclass(frozen=True)
class Logistic(_TwoClasses):
    """Logistic loss ``log(1 + exp(-label * prediction))``, labels -1 and 1.

    Examples
    --------
    >>> Logistic().slope(jnp.array(0.0), jnp.array(1.0)).item(), Logistic().curvature
    (-0.5, 0.25)
    """

    slope_bound: ClassVar[float] = 1.0
    curvature: ClassVar[float] = 0.25

    def value(self, prediction: Array, label: Array) -> Array:
        return jax.nn.softplus(-_sign(label) * prediction)

    def slope(self, prediction: Array, label: Array) -> Array:
        label = _sign(label)
        return -label * jax.nn.sigmoid(-label * prediction)

    def smoothed(self, width: Array) -> Self:
        del width
        return self


@pytree_dataclass
@dataclass(frozen=True)
class Squared:
    """Squared loss ``(prediction - label)^2 / (2 (1 + width))``; Lipschitz on bounded domains only.

    Examples
    --------
    >>> Squared().value(jnp.array(3.0), jnp.array(1.0)).item()
    2.0
    """

    width: Array | float = 0.0

    slope_bound: ClassVar[float] = math.inf

    @property
    def curvature(self) -> float:
        return 1.0 / (1.0 + float(np.min(self.width)))  # on the host, also during tracing

    def value(self, prediction: Array, label: Array) -> Array:
        return 0.5 * (prediction - label) ** 2 / (1.0 + self.width)

    def slope(self, prediction: Array, label: Array) -> Array:
        return (prediction - label) / (1.0 + self.width)

    def smoothed(self, width: Array) -> Squared:
        return Squared(self.width + width)


@pytree_dataclass
@dataclass(frozen=True)
class Huber(_Rounded):
    """Huber loss: the Moreau envelope of ``|prediction - label|``, which is the case ``width = 0``.

    Slopes are at most 1, the curvature is ``1/width``.

    Examples
    --------
    >>> loss = Huber(width=0.5)
    >>> loss.value(jnp.array([0.5, 2.0]), jnp.zeros(2)).tolist(), loss.curvature
    ([0.25, 1.75], 2.0)
    """

    def value(self, prediction: Array, label: Array) -> Array:
        return _rounded_absolute(jnp.abs(prediction - label), self.width)

    def slope(self, prediction: Array, label: Array) -> Array:
        residual = prediction - label
        return jnp.where(
            jnp.asarray(self.width) > 0.0,
            jnp.clip(residual / _safe(self.width), -1.0, 1.0),
            jnp.sign(residual),
        )


@pytree_dataclass
@dataclass(frozen=True)
class Quantile:
    """Quantile loss ``max(level r, (level - 1) r)`` of ``r = label - prediction``.

    The minimiser of its mean is the quantile of ``level`` in ``(0, 1)``. At 1/2 it is half of
    :class:`Huber`. Slopes are in ``[-level, 1 - level]``. The kink is rounded over ``width``.

    Examples
    --------
    >>> Quantile(0.75).value(jnp.array([0.0, 2.0]), jnp.ones(2)).tolist()
    [0.75, 0.25]
    """

    level: float = field(metadata={"static": True})
    width: Array | float = 0.0

    @property
    def slope_bound(self) -> float:
        return max(self.level, 1.0 - self.level)

    @property
    def curvature(self) -> float:
        return Huber(self.width).curvature

    def value(self, prediction: Array, label: Array) -> Array:
        residual = prediction - label
        slope = self.slope(prediction, label)
        return slope * residual - 0.5 * self.width * slope**2

    def slope(self, prediction: Array, label: Array) -> Array:
        residual = prediction - label
        rounded = jnp.clip(residual / _safe(self.width), -self.level, 1.0 - self.level)
        positive = jnp.where(residual > 0.0, 1.0 - self.level, 0.0)
        kinked = jnp.where(residual < 0.0, -self.level, positive)
        return jnp.where(jnp.asarray(self.width) > 0.0, rounded, kinked)

    def smoothed(self, width: Array) -> Quantile:
        return Quantile(self.level, self.width + width)


@pytree_dataclass
@dataclass(frozen=True)
class Hinge(_TwoClasses, _Rounded):
    """Hinge loss ``max(0, 1 - label * prediction)``, rounded over ``width``, labels -1 and 1.

    Examples
    --------
    >>> Hinge().value(jnp.array([0.5, 2.0]), jnp.ones(2)).tolist(), Hinge().curvature
    ([0.5, 0.0], inf)
    """

    def value(self, prediction: Array, label: Array) -> Array:
        return _rounded_absolute(jnp.maximum(0.0, 1.0 - _sign(label) * prediction), self.width)

    def slope(self, prediction: Array, label: Array) -> Array:
        label = _sign(label)
        violation = 1.0 - label * prediction
        fraction = jnp.where(
            jnp.asarray(self.width) > 0.0,
            jnp.clip(violation / _safe(self.width), 0.0, 1.0),
            (violation > 0.0).astype(violation.dtype),
        )
        return -label * fraction


@pytree_dataclass
@dataclass(frozen=True)
class GeneralisedLinear:
    """Loss ``phi(<x, w>, y)`` of a generalised linear model with a scalar loss ``phi``.

    Examples
    --------
    >>> loss = GeneralisedLinear(Squared())
    >>> loss(jnp.ones(2), (jnp.array([3.0, 4.0]), jnp.array(6.0))).item()
    0.5
    """

    scalar: ScalarLoss

    def __call__(
        self, point: Float[Array, " d"], example: tuple[FeaturesLike, Array]
    ) -> Float[Array, ""]:
        features, label = example
        value: Array = self.scalar.value(as_features(features).matvec(point), label)
        return value

    def prepare(
        self, data: Pytree, *, dim: int, smoothness: float | None
    ) -> tuple[FeaturesLike, Array]:
        """Return features and labels as floats; features are shortened to ``smoothness``."""
        curvature = getattr(self.scalar, "curvature", math.inf)
        return prepare_pair(data, columns=dim, curvature=curvature, smoothness=smoothness)


@checked
def prepare_pair(
    data: Pytree, *, columns: int, curvature: float, smoothness: float | None
) -> tuple[FeaturesLike, Array]:
    """Return ``(features, labels)`` as floats; features are :func:`shortened`.

    Features must have shape ``(records, columns)`` and labels one axis.
    """
    if not (isinstance(data, tuple | list) and len(data) == 2):
        raise ValueError(
            f"data must be (features, labels) for a linear model, got {described(data)}"
        )
    features, labels = data
    if np.shape(features)[1:] != (columns,):
        raise ValueError(
            f"features must have shape (records, {columns}) by problem_class.dim, got "
            f"{np.shape(features)}"
        )
    if np.ndim(labels) != 1:
        raise ValueError(f"labels must have shape (records,), got {np.shape(labels)}")
    if not jnp.issubdtype(features.dtype, jnp.floating):
        features = features.astype(floats(labels).dtype)
    if not jnp.issubdtype(labels.dtype, jnp.floating):
        labels = labels.astype(features.dtype)
    return shortened(features, curvature, smoothness), labels


@pytree_dataclass
@dataclass(frozen=True)
class Distance(_Rounded):
    """Distance ``|w - x|_2``, rounded over ``width`` (spatial median).

    The loss is 1-Lipschitz, and ``1/width``-smooth for positive width.

    Examples
    --------
    >>> Distance()(jnp.zeros(2), jnp.array([3.0, 4.0])).item()
    5.0
    """

    def __call__(self, point: Float[Array, " d"], example: Float[Array, " d"]) -> Float[Array, ""]:
        squared = jnp.sum((point - example) ** 2)
        norm = jnp.where(squared > 0.0, jnp.sqrt(jnp.where(squared > 0.0, squared, 1.0)), 0.0)
        near = squared / (2.0 * _safe(self.width))
        return jnp.where(norm <= self.width, near, norm - 0.5 * self.width)


def _sign(label: Array) -> Array:
    return jnp.where(label == 0.0, -1.0, jnp.clip(label, -1.0, 1.0))


def _rounded_absolute(size: Array, width: Array | float) -> Array:
    near = size**2 / (2.0 * _safe(width))
    return jnp.where(size <= width, near, size - 0.5 * width)


def _safe(width: Array | float) -> Array:
    """Return ``width`` if positive, else 1, for the unused branch of a ``where``."""
    width = jnp.asarray(width)
    return jnp.where(width > 0.0, width, 1.0)

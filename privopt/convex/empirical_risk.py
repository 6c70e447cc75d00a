"""The empirical risk as a pytree: what a problem is on the device."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import DTypeLike

from privopt.convex.constraint import ConstraintSet
from privopt.convex.features import Features, as_features
from privopt.convex.losses import GeneralisedLinear, Loss, ScalarLoss
from privopt.convex.pytree_dataclass import Pytree, node_classes, pytree_dataclass

__all__ = ["EmpiricalRisk", "LinearRecords"]


class LinearRecords(NamedTuple):
    """A generalised linear loss ``phi(<x_i, w>, y_i)`` and its records, apart.

    Attributes
    ----------
    scalar : ScalarLoss
        ``phi``.
    features : Features
        ``x``, shape ``(records, dim)``.
    labels : Array
        ``y``, shape ``(records,)``.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from privopt.convex import GeneralisedLinear, Logistic, WholeSpace
    >>> data = jnp.eye(2), jnp.ones(2)
    >>> EmpiricalRisk(GeneralisedLinear(Logistic()), data, None, WholeSpace()).linear.scalar
    Logistic()
    """

    scalar: ScalarLoss
    features: Features
    labels: Array


@pytree_dataclass
@dataclass(frozen=True)
class EmpiricalRisk:
    """``F(w) = (1/n) sum_i m_i loss(w; x_i)`` over a constraint set.

    Attributes
    ----------
    loss : callable pytree
        ``loss(w, x_i) -> scalar``.
    data : pytree of Array
        Leading axis the records; ``(features, labels)`` for a :class:`GeneralisedLinear` loss,
        ``features`` an array or :class:`Features`.
    counts : Array or None
        Multiplicities ``m_i``, shape ``(records,)``; ``None`` for ones.
    constraint : constraint set
    origin : pytree of Array or None
        A public point to start from, of the parameter's shape; ``None`` for the centre of the
        constraint set.
    classes : tuple
        Of the nodes of ``loss`` and ``constraint``, which may be of the user's making: programs
        are told apart by class, whatever their structures say of themselves.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from privopt.convex import Distance, WholeSpace
    >>> records = jnp.array([[3.0, 4.0], [0.0, 1.0]])
    >>> EmpiricalRisk(Distance(), records, None, WholeSpace()).value(jnp.zeros(2)).item()
    3.0
    """

    loss: Loss
    data: Pytree = field(repr=False)
    counts: Array | None = field(repr=False)
    constraint: ConstraintSet
    origin: Pytree = None
    classes: tuple[object, ...] | None = field(default=None, repr=False, metadata={"static": True})

    def __post_init__(self) -> None:
        if self.classes is None:
            object.__setattr__(self, "classes", node_classes((self.loss, self.constraint)))

    @property
    def dtype(self) -> jnp.dtype:
        """Of the floating data."""
        return next(leaf.dtype for leaf in jax.tree.leaves(self.data) if _is_floating(leaf))

    def astype(self, dtype: DTypeLike) -> EmpiricalRisk:
        """Every floating array cast; numbers stay what they are."""
        return jax.tree.map(lambda leaf: leaf.astype(dtype) if _is_floating(leaf) else leaf, self)

    def sample(self, key: Array) -> tuple[EmpiricalRisk, Array]:
        """What a run is given: these very records, and the whole of its key."""
        return self, key

    @property
    def linear(self) -> LinearRecords | None:
        """The loss and its records where it is one of a linear prediction; else ``None``."""
        if not isinstance(self.loss, GeneralisedLinear):
            return None
        features, labels = self.data
        return LinearRecords(self.loss.scalar, as_features(features), labels)

    def value(self, point: Array) -> Array:
        """``F(point)``, scalar."""
        if self.linear is None:
            losses = jax.vmap(self.loss, (None, 0))(point, self.data)
        else:
            scalar, features, labels = self.linear
            losses = scalar.value(features.matvec(point), labels)
        if self.counts is None:
            return losses.mean()
        return self.counts @ losses / self.counts.sum()

    def value_and_gradient(self, point: Array) -> tuple[Array, Array]:
        """``F`` and a subgradient, neither clipped nor noised."""
        if self.linear is None:
            return jax.value_and_grad(self.value)(point)
        scalar, features, labels = self.linear
        predictions = features.matvec(point)
        losses, slopes = scalar.value(predictions, labels), scalar.slope(predictions, labels)
        if self.counts is None:
            return losses.mean(), features.rmatvec(slopes) / losses.shape[0]
        total = self.counts.sum()
        return self.counts @ losses / total, features.rmatvec(self.counts * slopes) / total

    def start(self, dim: int) -> Pytree:
        """Where methods start: ``origin``, or the centre of the constraint set."""
        if self.origin is not None:
            return self.origin
        return self.constraint.centre_point(dim, self.dtype)

    @property
    def records(self) -> Array | int:
        """``n``, how many records there are; traced where multiplicities are."""
        if self.counts is None:
            return int(jax.tree.leaves(self.data)[0].shape[0])
        return jnp.round(self.counts.sum()).astype(jnp.int32)

    def smoothed(self, width: Array) -> EmpiricalRisk:
        """Every record's loss replaced by its Moreau envelope in ``w`` of this width.

        For a generalised linear loss that is the envelope in the prediction of width
        ``width |x_i|^2``.
        """
        if self.linear is None:
            return replace(self, loss=self.loss.smoothed(width))  # type: ignore[attr-defined]
        widths = width * jnp.square(self.linear.features.norms())
        return replace(self, loss=GeneralisedLinear(self.linear.scalar.smoothed(widths)))


def _is_floating(leaf: object) -> bool:
    return hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jnp.floating)

"""Empirical risk as a pytree: the device side of a problem."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import DTypeLike
from jaxtyping import Float, Int, Key

from privopt.convex.arrays import node_classes, pytree_dataclass
from privopt.convex.features import Features, as_features, floats, is_features, numpy_for
from privopt.convex.losses import GeneralisedLinear, Loss, ScalarLoss
from privopt.convex.record_losses import CoordinateLoss, MeanAndSpread, Separable, SquaredDistance
from privopt.convex.sets import ConstraintSet
from privopt.release import Pytree

PublicTerm: TypeAlias = Callable[[Pytree], Array]  # a pytree, on the device


class LinearRecords(NamedTuple):
    """Scalar loss and records of a generalised linear model ``phi(<x_i, w>, y_i)``.

    ``features`` are ``x``, shape ``(records, dim)``, and ``labels`` ``y``, shape ``(records,)``.
    ``norms`` are those of :class:`EmpiricalRisk`.
    """

    scalar: ScalarLoss
    features: Features
    labels: Array
    norms: Array | None = None

    def __repr__(self) -> str:
        return f"<LinearRecords: {type(self.scalar).__name__}, {self.features}>"


class SeparableRecords(NamedTuple):
    """Coordinate loss and records of a separable loss ``sum_j phi(w_j, x_ij)``.

    ``features`` are ``x``, shape ``(records, dim)``.
    """

    scalar: CoordinateLoss
    features: Features


@pytree_dataclass
@dataclass(frozen=True)
class EmpiricalRisk:
    """Risk ``F(w) = (1/n) sum_i m_i loss(w; x_i) + r(w)`` over a constraint set.

    Attributes
    ----------
    loss : callable pytree
        ``loss(w, x_i) -> scalar``.
    data : pytree of Array
        Records along the leading axis; ``(features, labels)`` for a :class:`GeneralisedLinear`
        loss, with ``features`` an array or :class:`Features`.
    counts : Array or None
        Multiplicities ``m_i``; ``None`` for ones.
    origin : pytree of Array or None
        Public starting point of the shape of the parameter; ``None`` for the centre of the
        constraint set.
    norms : Array or None
        Euclidean norms ``|x_i|`` of the features, shape ``(records,)``. A record that is not finite
        has the norm NaN and is stored as zeros. ``None`` if not computed, see :meth:`with_norms`.
    classes : tuple
        Classes of the nodes of ``loss`` and ``constraint``. They distinguish the programs of
        user-defined classes with pytree structures that compare equal.

    Examples
    --------
    >>> from privopt.convex import Distance, WholeSpace
    >>> records = jnp.array([[3.0, 4.0], [0.0, 1.0]])
    >>> EmpiricalRisk(Distance(), records, None, WholeSpace()).value(jnp.zeros(2)).item()
    3.0
    """

    loss: Loss
    data: Pytree = field(repr=False)
    counts: Float[Array, " n"] | None = field(repr=False)
    constraint: ConstraintSet
    origin: Pytree = None
    public: PublicTerm | None = None
    norms: Array | None = field(default=None, repr=False)
    classes: tuple[object, ...] | None = field(default=None, repr=False, metadata={"static": True})

    def __post_init__(self) -> None:
        if self.classes is None:
            object.__setattr__(
                self, "classes", node_classes((self.loss, self.constraint, self.public))
            )

    @property
    def dtype(self) -> jnp.dtype:
        """Data type of the floating-point data."""
        return next(leaf.dtype for leaf in jax.tree.leaves(self.data) if _is_floating(leaf))

    def astype(self, dtype: DTypeLike) -> EmpiricalRisk:
        """Cast every floating-point array to ``dtype``; Python numbers are unchanged.

        Norms of another type are dropped, because they are not accurate in ``dtype``.
        """
        risk = self
        if self.norms is not None and self.norms.dtype != dtype:
            risk = replace(self, norms=None)
        return jax.tree.map(lambda leaf: leaf.astype(dtype) if _is_floating(leaf) else leaf, risk)

    def with_norms(self) -> EmpiricalRisk:
        """Return the risk with its ``norms``, which runs then need not compute.

        Records that are not finite become zeros, as in a run. The arrays are shared if all records
        are finite. Inside a compiled function, and for losses without features, the result is the
        risk itself.
        """
        rows = self.points if self.linear is None else self.linear.features
        if rows is None or (self.linear is None and not is_features(self.data)):
            return self
        labels = None if self.linear is None else self.linear.labels
        # Norms in float32 of records in float64 would let clipped gradients exceed the clip norm.
        with jax.enable_x64(jax.enable_x64.value or self.dtype == jnp.float64):
            norms = rows.norms()
            if isinstance(norms, jax.core.Tracer) or isinstance(labels, jax.core.Tracer):
                return self
            numpy = numpy_for(norms)
            with np.errstate(over="ignore"):  # distances use the squared norms
                valid = numpy.isfinite(numpy.square(norms) if labels is None else norms)
            valid &= labels is None or numpy.isfinite(labels)
            if valid.all():
                return replace(self, norms=norms)
            norms = jnp.asarray(numpy.where(valid, norms, jnp.nan))
            rows, labels = _without_invalid(rows, labels, norms)
        return replace(self, data=rows if labels is None else (rows, labels), norms=norms)

    def keys(self, key: Key[Array, ""]) -> tuple[None, Key[Array, ""]]:
        """Return no key for the records, which are not sampled, and ``key`` for the noise."""
        return None, key

    def sample(self, key: Key[Array, ""] | None) -> EmpiricalRisk:
        """Return the risk itself, because a run uses all records."""
        del key
        return self

    @property
    def linear(self) -> LinearRecords | None:
        """Loss and records of a generalised linear model; ``None`` for other losses."""
        if not isinstance(self.loss, GeneralisedLinear):
            return None
        features, labels = self.data
        return LinearRecords(self.loss.scalar, as_features(features), floats(labels), self.norms)

    @property
    def separable(self) -> SeparableRecords | None:
        """Loss and records of a separable loss; ``None`` for other losses."""
        if not isinstance(self.loss, Separable):
            return None
        return SeparableRecords(self.loss.scalar, as_features(self.data))

    @property
    def points(self) -> Features | None:
        """Records of a squared distance; ``None`` for other losses."""
        if not isinstance(self.loss, SquaredDistance):
            return None
        return as_features(self.data)

    def value(self, point: Float[Array, "*shape"]) -> Float[Array, ""]:
        """Compute ``F(point)``, a scalar."""
        value = self._mean_loss(point)
        return value if self.public is None else value + self.public(point)

    def _mean_loss(self, point: Array) -> Array:
        if self.points is not None and is_features(self.data):
            square = MeanAndSpread.of(self.points, self.counts).value(point)
            return 0.5 * self.loss.modulus * square  # type: ignore[attr-defined]
        losses = self.losses(point)
        if self.counts is None:
            return losses.mean()
        return self.counts @ losses / self.counts.sum()

    def losses(
        self, point: Pytree, rows: Int[Array, " rows"] | None = None
    ) -> Float[Array, " records"]:
        """Compute ``loss(w; x_i)`` for every stored record, or for these rows."""
        if self.linear is not None:
            scalar, features, labels, _ = self.linear
            if rows is not None:
                features, labels = features.take(rows), labels[rows]
            return scalar.value(features.matvec(point), labels)
        data = self.data if rows is None else jax.tree.map(lambda leaf: leaf[rows], self.data)
        if isinstance(self.loss, Separable):
            return self.loss.each(point, as_features(data))
        return jax.vmap(self.loss, (None, 0))(point, data)

    def public_gradient(self, point: Pytree) -> Pytree:
        """Compute the gradient of the public term ``r``; ``None`` without ``r``."""
        return None if self.public is None else jax.grad(self.public)(point)

    def value_and_gradient(
        self, point: Float[Array, "*shape"]
    ) -> tuple[Float[Array, ""], Float[Array, "*shape"]]:
        """Compute ``F`` and a subgradient, without clipping and noise."""
        if self.linear is None:
            return jax.value_and_grad(self.value)(point)
        scalar, features, labels, _ = self.linear
        predictions = features.matvec(point)
        losses, slopes = scalar.value(predictions, labels), scalar.slope(predictions, labels)
        if self.counts is None:
            value, gradient = losses.mean(), features.rmatvec(slopes) / losses.shape[0]
        else:
            total = self.counts.sum()
            value = self.counts @ losses / total
            gradient = features.rmatvec(self.counts * slopes) / total
        if self.public is None:
            return value, gradient
        term, term_gradient = jax.value_and_grad(self.public)(point)
        return value + term, gradient + term_gradient

    def start(self, dim: int) -> Pytree:
        """Return the starting point: ``origin``, or the centre of the constraint set."""
        if self.origin is not None:
            return self.origin
        return self.constraint.centre_point(dim, self.dtype)

    @property
    def records(self) -> Array | int:
        """Number of records ``n``; traced if there are multiplicities."""
        if self.counts is None:
            return int(jax.tree.leaves(self.data)[0].shape[0])
        return jnp.round(self.counts.sum()).astype(jnp.int32)

    def rows_by_number(self) -> Callable[[Array], tuple[Array, Array]]:
        """Return the map from record numbers ``0..n-1`` to stored rows and a validity mask.

        A record of multiplicity ``m`` has ``m`` consecutive numbers; numbers from ``n`` on are
        invalid. Without multiplicities the rows are the numbers.

        Examples
        --------
        >>> from privopt.convex import Distance, WholeSpace
        >>> risk = EmpiricalRisk(Distance(), jnp.eye(2), jnp.array([2, 1]), WholeSpace())
        >>> rows, mask = risk.rows_by_number()(jnp.arange(4))
        >>> rows.tolist(), mask.tolist()
        ([0, 0, 1, 1], [True, True, True, False])
        """
        if self.counts is None:
            stored = self.records
            return lambda numbers: (numbers, numbers < stored)
        ends = jnp.cumsum(self.counts)

        def rows_of(numbers: Array) -> tuple[Array, Array]:
            rows = jnp.searchsorted(ends, numbers.astype(ends.dtype), side="right")
            last = ends.shape[0] - 1
            return jnp.minimum(rows, last).astype(numbers.dtype), rows <= last

        return rows_of

    def smoothed(self, width: Array) -> EmpiricalRisk:
        """Replace the loss of every record by its Moreau envelope of this width in ``w``.

        For a generalised linear loss this is the envelope in the prediction, of width ``width
        |x_i|^2``.
        """
        if self.linear is None:
            return replace(self, loss=self.loss.smoothed(width))  # type: ignore[attr-defined]
        widths = width * jnp.square(self.linear.features.norms())
        return replace(self, loss=GeneralisedLinear(self.linear.scalar.smoothed(widths)))


@pytree_dataclass
@dataclass(frozen=True)
class BatchRisk(EmpiricalRisk):
    """Risk of ``n`` records that stores only one batch, in the order of the batch."""

    n: int = field(default=0, metadata={"static": True})

    @classmethod
    def of(cls, like: EmpiricalRisk, batch: Pytree, n: int) -> BatchRisk:
        """Return the risk of a batch of ``n`` records with the loss of another risk."""
        return cls(like.loss, batch, None, like.constraint, like.origin, like.public, n=n)

    @property
    def records(self) -> int:
        """Number of records ``n``."""
        return self.n

    def rows_by_number(self) -> Callable[[Array], tuple[Array, Array]]:
        """Return the map from positions in the batch to stored rows, all valid."""
        return lambda numbers: (jnp.arange(numbers.shape[0]), jnp.ones(numbers.shape, bool))


@jax.jit
def _without_invalid(
    rows: Features, labels: Array | None, norms: Array
) -> tuple[Features, Array | None]:
    """Return the records with zeros where the norm is NaN."""
    valid = ~jnp.isnan(norms)
    labels = None if labels is None else jnp.where(valid, labels, 0.0)
    return rows.scaled(valid.astype(rows.dtype)), labels


def _is_floating(leaf: object) -> bool:
    return hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jnp.floating)

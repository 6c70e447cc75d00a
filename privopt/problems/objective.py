"""The empirical risk as a pytree: what a problem is on the device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from privopt.convex import RegularisedGLM, ValueAndGradient, node_classes, record
from privopt.mechanisms import (
    MICROBATCH,
    BatchSum,
    WholeSum,
    clipped_batch_sum,
    clipped_gradient_sum,
    clipped_linear_batch_sum,
    clipped_linear_gradient_sum,
    clipped_linear_model,
    moved_linear_loss_sum,
    moved_loss_sum,
    usable_linear_records,
    usable_records,
)
from privopt.problems.losses import GeneralisedLinear

__all__ = ["EmpiricalRisk"]


@record
@dataclass(frozen=True)
class EmpiricalRisk:
    """``F(w) = (1/n) sum_i m_i loss(w; x_i)`` over a constraint set.

    Attributes
    ----------
    loss : callable pytree
        ``loss(w, x_i) -> scalar``.
    data : pytree of Array
        Leading axis the records; ``(features, labels)`` for a :class:`GeneralisedLinear` loss.
    counts : Array or None
        Multiplicities ``m_i``, shape ``(records,)``; ``None`` for ones.
    constraint : constraint set
    origin : pytree of Array or None
        A public point to start from, of the parameter's shape; ``None`` for the centre of the
        constraint set.
    classes : tuple
        Of the nodes of ``loss`` and ``constraint``, which may be of the user's making: programs
        are told apart by class, whatever their structures say of themselves.
    """

    loss: Any
    data: Any = field(repr=False)
    counts: Array | None = field(repr=False)
    constraint: Any
    origin: Any = None
    classes: Any = field(default=None, repr=False, metadata={"static": True})

    def __post_init__(self) -> None:
        if self.classes is None:
            object.__setattr__(self, "classes", node_classes((self.loss, self.constraint)))

    @property
    def dtype(self) -> Any:
        """Of the floating data."""
        return next(leaf.dtype for leaf in jax.tree.leaves(self.data) if _is_floating(leaf))

    def astype(self, dtype: Any) -> EmpiricalRisk:
        """Every floating array cast; numbers stay what they are."""
        return jax.tree.map(lambda leaf: leaf.astype(dtype) if _is_floating(leaf) else leaf, self)

    def sample(self, key: Array) -> tuple[EmpiricalRisk, Array]:
        """What a run is given: these very records, and the whole of its key."""
        return self, key

    def value(self, point: Array) -> Array:
        """``F(point)``, scalar."""
        if isinstance(self.loss, GeneralisedLinear):
            features, labels = self.data
            losses = self.loss.scalar.value(features @ point, labels)
        else:
            losses = jax.vmap(self.loss, (None, 0))(point, self.data)
        if self.counts is None:
            return losses.mean()
        return self.counts @ losses / self.counts.sum()

    def value_and_gradient(self, point: Array) -> tuple[Array, Array]:
        """``F`` and a subgradient, neither clipped nor noised."""
        if not isinstance(self.loss, GeneralisedLinear):
            return jax.value_and_grad(self.value)(point)
        features, labels = self.data
        predictions = features @ point
        losses = self.loss.scalar.value(predictions, labels)
        slopes = self.loss.scalar.slope(predictions, labels)
        if self.counts is None:
            return losses.mean(), slopes @ features / losses.shape[0]
        total = self.counts.sum()
        return self.counts @ losses / total, (self.counts * slopes) @ features / total

    def start(self, dim: int) -> Any:
        """Where methods start: ``origin``, or the centre of the constraint set."""
        if self.origin is not None:
            return self.origin
        return self.constraint.centre_point(dim, self.dtype)

    def clipped_gradient_sum(
        self, clip: Array, gamma: Array | None = None, microbatch: int = MICROBATCH
    ) -> Callable[[Any], Any]:
        """``w -> sum_i m_i clip(grad loss(w; x_i))``; non-finite records contribute zero."""
        total = self._whole_sum(clip, gamma, microbatch)
        return lambda point: total(point, self.counts)

    def clipped_batch_sum(
        self, clip: Array, gamma: Array | None = None, microbatch: int = MICROBATCH
    ) -> BatchSum:
        """``(w, rows, weights, anchor) -> sum`` over a batch of records, numbered ``0..n-1``.

        One that occurs several times has as many consecutive numbers, and a number beyond all of
        them is nobody's. Where fewer rows are stored than a batch has, each is visited once, with
        its weight.
        """
        stored = jax.tree.leaves(self.data)[0].shape[0]
        ends = None if self.counts is None else jnp.cumsum(self.counts)
        over_rows: BatchSum
        if isinstance(self.loss, GeneralisedLinear):
            features, labels = self.data
            over_rows = clipped_linear_batch_sum(self.loss.scalar, features, labels, clip, gamma)
        else:
            over_rows = clipped_batch_sum(self.loss, self.data, clip, gamma, microbatch)

        def batch_sum(point: Any, rows: Array, weights: Array, anchor: Any = None) -> Any:
            if ends is not None:
                found = jnp.searchsorted(ends, rows.astype(ends.dtype), side="right")
                weights = jnp.where(found < stored, weights, 0.0)
                rows = jnp.minimum(found, stored - 1).astype(rows.dtype)
            if stored < rows.shape[0]:
                weights = jnp.zeros(stored, weights.dtype).at[rows].add(weights)
                rows = jnp.arange(stored)
            return over_rows(point, rows, weights, anchor)

        return batch_sum

    def without_nulls(self, clip: Array, point: Array) -> EmpiricalRisk:
        """The same without the records that contribute zero for not being finite at ``point``."""
        if isinstance(self.loss, GeneralisedLinear):
            features, labels = self.data
            usable = usable_linear_records(features, labels, clip)
        else:
            usable = usable_records(self.loss, self.data, clip, point)
        counts = usable.astype(self.dtype)
        return replace(self, counts=counts if self.counts is None else self.counts * counts)

    @property
    def records(self) -> Array | int:
        """``n``, how many records there are; traced where multiplicities are."""
        if self.counts is None:
            return int(jax.tree.leaves(self.data)[0].shape[0])
        return jnp.round(self.counts.sum()).astype(jnp.int32)

    def _whole_sum(self, clip: Array, gamma: Array | None, microbatch: int) -> WholeSum:
        if isinstance(self.loss, GeneralisedLinear):
            features, labels = self.data
            return clipped_linear_gradient_sum(self.loss.scalar, features, labels, clip, gamma)
        return clipped_gradient_sum(self.loss, self.data, clip, gamma, microbatch)

    def clipped_linear_model(self, clip: Array, size: Array) -> RegularisedGLM | None:
        """The same losses over ``size`` as a linear model; ``None`` where they are not one."""
        if not isinstance(self.loss, GeneralisedLinear):
            return None
        features, labels = self.data
        return clipped_linear_model(self.loss.scalar, features, labels, self.counts, clip, size)

    def moved_loss_sum(
        self, clip: Array, centre: Array, radius: Array, resolution: Array
    ) -> ValueAndGradient:
        """``w -> (value, gradient)`` of the sum of losses whose gradients are clipped at ``C``.

        Read from ``centre``, for ``|w - c| <= R``, and no record's value beyond ``C |w - c|``.
        Generalised linear losses are continued by lines where their slopes leave the bound; any
        other loss is taken to be ``C``-Lipschitz. Non-finite records contribute zero.
        """
        if isinstance(self.loss, GeneralisedLinear):
            features, labels = self.data
            given = self.loss.scalar, features, labels, self.counts
            return moved_linear_loss_sum(*given, clip, centre, radius, resolution)
        return moved_loss_sum(self.loss, self.data, self.counts, clip, centre, resolution)

    def smoothed(self, width: Array) -> EmpiricalRisk:
        """Every record's loss replaced by its Moreau envelope in ``w`` of this width.

        For a generalised linear loss that is the envelope in the prediction of width
        ``width |x_i|^2``.
        """
        if isinstance(self.loss, GeneralisedLinear):
            features, _ = self.data
            widths = width * jnp.sum(features**2, axis=-1)
            return replace(self, loss=GeneralisedLinear(self.loss.scalar.smoothed(widths)))
        return replace(self, loss=self.loss.smoothed(width))


def _is_floating(leaf: Any) -> bool:
    return hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jnp.floating)

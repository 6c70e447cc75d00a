"""What an algorithm sees of a problem on the device, and what comes out of its run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from jax import Array
from jax.typing import DTypeLike

from privopt.convex import Path

__all__ = ["Objective", "Run", "Source"]


class Run(NamedTuple):
    """What came out.

    Attributes
    ----------
    released : Array
        The parameter the guarantee covers, of shape ``(dim,)``, of the problem's ``shape``, or a
        pytree like its ``start``; leading axes ``(plans, keys)`` from :func:`run_many`.
    secret : NamedTuple of Array
        Diagnostics computed from the data without noise, for experiments; never to be published.
    path : privopt.convex.Path or None
        What would have been released after fewer steps, covered by the same guarantee; where the
        plan asked for it to be recorded.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> Run(released=jnp.zeros(2), secret=()).path is None
    True
    """

    released: Any
    secret: Any
    path: Path | None = None


class Objective(Protocol):
    """What an algorithm sees of a problem on the device; a pytree."""

    @property
    def constraint(self) -> Any:
        """The set of admitted parameters."""

    @property
    def dtype(self) -> Any:
        """The floating type of the data, which the run follows."""

    def astype(self, dtype: Any) -> Objective:
        """The same objective with every floating number cast."""

    @property
    def records(self) -> Array | int:
        """How many there are."""

    def start(self, dim: int) -> Any:
        """A public point to start from."""

    def clipped_gradient_sum(
        self, clip: Array, gamma: Array | None = None, microbatch: int = 512
    ) -> Callable[[Any], Any]:
        """``w -> sum_i clip(grad l(w; x_i))``."""

    def clipped_batch_sum(
        self, clip: Array, gamma: Array | None = None, microbatch: int = 512
    ) -> Callable[..., Any]:
        """``(w, records, weights, anchor) -> sum`` over a batch of records ``0..n-1``."""

    def clipped_linear_model(self, clip: Array, size: Array) -> Any:
        """The losses with these gradients over ``size`` as a linear model, if they are one."""

    def moved_loss_sum(
        self, clip: Array, centre: Array, radius: Array, resolution: Array
    ) -> Callable[[Array], tuple[Array, Array]]:
        """``w -> (value, gradient)`` of the losses with these gradients, read from ``centre``."""

    def without_nulls(self, clip: Array, point: Array) -> Objective:
        """The same without the records that contribute zero for not being finite at ``point``."""

    def smoothed(self, width: Array) -> Objective:
        """Every loss replaced by its Moreau envelope, ``(1/width)``-smooth."""


class Source(Protocol):
    """Where the records of a run come from: given ones, or a population; a pytree."""

    @property
    def dtype(self) -> Any:
        """The floating type of the data."""

    def astype(self, dtype: DTypeLike) -> Source:
        """The same with every floating number cast."""

    def sample(self, key: Array) -> tuple[Objective, Array]:
        """What the run sees, and what is left of its key: all of it where nothing is drawn."""

"""Where the records of a run come from, and what comes out of it."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from jax import Array
from jax.typing import DTypeLike

from privopt.convex import EmpiricalRisk, Path
from privopt.release import Pytree

__all__ = ["Run", "Source"]


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

    released: Pytree
    secret: Pytree
    path: Path | None = None


class Source(Protocol):
    """Where the records of a run come from: given ones, or a population; a pytree."""

    @property
    def dtype(self) -> np.dtype[np.floating]:
        """The floating type of the data."""

    def astype(self, dtype: DTypeLike) -> Source:
        """The same with every floating number cast."""

    def sample(self, key: Array) -> tuple[EmpiricalRisk, Array]:
        """What the run sees, and what is left of its key: all of it where nothing is drawn."""

"""Where the records of a run come from, and what comes out of it."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from jax import Array
from jax.typing import DTypeLike

from privopt.convex import EmpiricalRisk, Path
from privopt.release import Pytree


class Run(NamedTuple):
    """What a run returns.

    Attributes
    ----------
    released : Array or pytree
        The parameter that the guarantee covers: of shape ``(dim,)``, of the problem's ``shape``, or
        like its ``start``. :func:`run_many` puts the axes ``(plans, keys)`` before it.
    secret : NamedTuple of Array
        Diagnostics computed from the data without noise; never to be published.
    path : privopt.convex.Path or None
        What a shorter run would have released, covered by the same guarantee; where the plan asks.

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
    """Where the records of a run come from, data or a population; a pytree."""

    @property
    def dtype(self) -> np.dtype[np.floating]:
        """The floating type of the data."""

    def astype(self, dtype: DTypeLike) -> Source:
        """The same with every floating number cast."""

    def sample(self, key: Array) -> tuple[EmpiricalRisk, Array]:
        """The records of a run, and the key for all else: ``key`` itself where nothing is drawn."""

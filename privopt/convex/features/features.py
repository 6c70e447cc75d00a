"""What is asked of features: two products, norms, rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike


class Products(NamedTuple):
    """The two products with all rows, as functions to be called in a loop."""

    matvec: Callable[[Array], Array]
    rmatvec: Callable[[Array], Array]


class Features(Protocol):
    """``n`` rows ``x_i`` of ``d`` numbers; a pytree of arrays whose leading axis is the records."""

    @property
    def shape(self) -> tuple[int, ...]:
        """``(n, d)``; ``(d,)`` of a single row."""

    @property
    def dtype(self) -> jnp.dtype:
        """Of the numbers."""

    def matvec(self, point: Array) -> Array:
        """``<x_i, w>``, shape ``(n,)``; ``(k, n)`` for points of shape ``(k, d)``."""

    def paired(self, points: Array, which: Array) -> Array:
        """``<x_i, w_k>`` with ``k = which_i``, shape ``(n,)``; points of shape ``(k, d)``."""

    def rmatvec(self, shares: Array) -> Array:
        """``sum_i s_i x_i``, shape ``(d,)``; ``(k, d)`` for shares of shape ``(k, n)``."""

    def products(self) -> Products:
        """Both for one vector, with the work that calls have in common done beforehand."""

    def norms(self) -> Array:
        """``|x_i|_2``, shape ``(n,)``; neither squares that vanish nor ones that overflow count."""

    def l1_norms(self) -> Array:
        """``|x_i|_1``, shape ``(n,)``."""

    def take(self, rows: Array | slice) -> Features:
        """The rows of these numbers, in this order."""

    def scaled(self, factors: Array) -> Features:
        """``f_i x_i``: factor 0 gives zeros whatever a row holds, factor 1 keeps its bits."""

    def mapped(self, function: Callable[[Array, Array], Array], point: Array) -> Features:
        """``f(w_j, x_ij)`` in the place of every ``x_ij`` that is not 0; ``f`` is elementwise."""

    def block(self, start: ArrayLike, size: int) -> Array:
        """The ``size`` rows from row ``start`` on, zeros included; shape ``(size, d)``."""


def scaled_rows(rows: Array, factors: Array) -> Array:
    """``f_i`` times row ``i`` of an array, as :meth:`Features.scaled` says."""
    factors = factors[..., None]
    return jnp.where(factors == 0.0, 0.0, jnp.where(factors == 1.0, rows, factors * rows))


FeaturesLike = Features | ArrayLike  # or a matrix of scipy.sparse, which has no types

"""Basis pursuit: the solution of least l1 norm of an underdetermined linear system, certified."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.custom_batching import sequential_vmap
from jax.typing import ArrayLike

from privopt.convex.certificate import ROUND_OFF
from privopt.convex.l1_equations import Equations
from privopt.convex.l1_interior_point import least_l1, lower_product
from privopt.convex.vectors import norm

__all__ = ["BasisPursuit", "basis_pursuit"]

MIN_PIVOT = 1e-12  # square of a row's distance from the rows before it, in units of its norm


class BasisPursuit(NamedTuple):
    """Solutions of ``A x = b``, and what is known of them; a leading axis of ``k`` for several.

    Attributes
    ----------
    point : Array
        ``x``, shape ``(d,)`` or ``(k, d)``, float64.
    gap : Array
        Certified: ``||x||_1 - min ||.||_1 <= gap``. It has an allowance for round-off in ``A^T y``.
    bound : Array
        ``<b, y> <= min ||.||_1``.
    dual : Array
        ``y`` with ``|A^T y| <= 1`` by coordinate, shape ``(m,)`` or ``(k, m)``.
    residual : Array
        ``||A x - b||_2``.
    steps : Array
        Steps taken; each factorises an ``m`` by ``m`` matrix.
    """

    point: Array
    gap: Array
    bound: Array
    dual: Array
    residual: Array
    steps: Array


def basis_pursuit(matrix: ArrayLike, right_hand_sides: ArrayLike) -> BasisPursuit:
    """``argmin ||x||_1`` subject to ``A x = b``, for one ``b`` or several, each certified.

    Chen, Donoho and Saunders (1998), "Atomic decomposition by basis pursuit". A dual feasible
    ``y`` proves ``min ||x||_1 >= <b, y>``, since ``<b, y> = <x, A^T y> <= ||x||_1``. Pure: on NumPy
    or JAX arrays on the host, or inside ``jit`` and ``vmap``, where values are not checked.

    The method is :func:`privopt.convex.l1_interior_point.least_l1`: about ten steps, of at most
    ``m^2 d`` products each, to a gap of at most ``1e-11 ||x||_1`` where rows are far from
    dependent; ``gap`` always says what was reached. Rows of ``A`` and ``b`` are first scaled to
    norms about one, by powers of two, so units do not matter.

    Parameters
    ----------
    matrix : array
        ``A``, shape ``(m, d)`` with ``m <= d``, of full row rank.
    right_hand_sides : array
        ``b``, shape ``(m,)``, or ``(k, m)`` for ``k`` of them, which are solved one after another.

    Returns
    -------
    BasisPursuit

    Raises
    ------
    ValueError
        For shapes that do not fit; where values are known, for entries that are not finite and for
        rows that depend on each other (within ``1e-6`` of a row's norm); and when x64 is off.

    Examples
    --------
    >>> import jax, numpy as np
    >>> from privopt.convex import basis_pursuit
    >>> with jax.enable_x64(True):
    ...     found = basis_pursuit(np.array([[1.0, 2.0, 1.0], [0.0, 2.0, -1.0]]), np.ones(2))
    ...     print(abs(found.point).round(9), bool(found.gap < 1e-9))
    [0.  0.5 0. ] True
    """
    if not jax.enable_x64.value:
        raise ValueError("x64 must be on, got it off: wrap the call in `jax.enable_x64(True)`")
    matrix = _float64("matrix", matrix, 2)
    rows, columns = matrix.shape
    if rows > columns:
        raise ValueError(f"matrix must have at most as many rows as columns, got {matrix.shape}")
    several = jnp.ndim(right_hand_sides) != 1
    given = _float64("right_hand_sides", right_hand_sides, 2 if several else 1)
    if given.shape[-1] != rows:
        raise ValueError(
            f"right_hand_sides must have shape ({rows},) or (k, {rows}), got {given.shape}"
        )
    _require_finite("matrix", matrix)
    _require_finite("right_hand_sides", given)
    scales, factor, pivot = _factorised(matrix)
    if not isinstance(pivot, jax.core.Tracer) and not pivot >= MIN_PIVOT:
        raise ValueError(
            "matrix must have full row rank, got a row within "
            f"{np.sqrt(max(float(np.nan_to_num(pivot)), 0.0)):.1g} of its norm of the rows before"
        )
    return _solved(matrix, scales, factor, given)


def _float64(name: str, value: ArrayLike, ndim: int) -> Array:
    """In float64, on the host what is there."""
    array: Any = value if isinstance(value, Array) else np.asarray(value)
    array = array.astype(np.float64)
    if array.ndim != ndim or array.size == 0:
        raise ValueError(f"{name} must have {ndim} axes and some entries, got shape {array.shape}")
    return array


def _require_finite(name: str, array: Array) -> None:
    if isinstance(array, jax.core.Tracer):
        return
    if not np.all(finite := np.isfinite(array)):
        first = tuple(int(each) for each in np.argwhere(~finite)[0])
        raise ValueError(f"{name} must be finite, got {np.asarray(array)[first]} at {first}")


@jax.jit
@sequential_vmap  # type: ignore[untyped-decorator]
def _factorised(matrix: Array) -> tuple[Array, Array, Array]:
    """Scales of the rows, the factor of ``A A^T`` for the scaled rows, and its least pivot."""
    scales = _power_of_two(norm(matrix))
    scaled = matrix / scales[:, None]
    gram = lower_product(scaled, jnp.ones(scaled.shape[1]))
    factor = jax.lax.linalg.cholesky(gram, symmetrize_input=False)
    return scales, factor, jnp.min(jnp.square(jnp.diagonal(factor) / norm(scaled)))


@jax.jit
@sequential_vmap  # type: ignore[untyped-decorator]
def _solved(matrix: Array, scales: Array, factor: Array, right_hand_sides: Array) -> BasisPursuit:
    # One after another: on a CPU jaxlib's LU of a batch waits for threads of the very pool that it
    # runs in, for ever if as many programs do so at once as there are threads.
    scaled = matrix / scales[:, None]

    def alone(right_hand_side: Array) -> BasisPursuit:
        b = right_hand_side / scales
        shift = _power_of_two(jnp.max(jnp.abs(b)))
        b = b / shift
        nearest = jax.scipy.linalg.cho_solve((factor, True), b) @ scaled
        size = _power_of_two(jnp.sum(jnp.abs(nearest)))
        found = least_l1(Equations(scaled, factor, b / size))
        unit = size * shift
        summands = jnp.max(jnp.abs(found.dual) @ jnp.abs(scaled))
        error = ROUND_OFF * jnp.maximum(summands, 1.0) * found.value
        gap = jnp.maximum(found.value - found.bound, 0.0) + error
        point = unit * found.point
        return BasisPursuit(
            point,
            jnp.where(jnp.isnan(gap), jnp.inf, unit * gap),
            unit * found.bound,
            found.dual / scales,
            norm(matrix @ point - right_hand_side),
            found.steps,
        )

    if right_hand_sides.ndim == 1:
        return alone(right_hand_sides)
    return jax.lax.map(alone, right_hand_sides)


def _power_of_two(size: Array) -> Array:
    """The power of two next above ``size``; 1 where ``size`` is 0."""
    _, exponent = jnp.frexp(size)
    return jnp.where(size > 0.0, jnp.ldexp(jnp.ones_like(size), exponent), 1.0)

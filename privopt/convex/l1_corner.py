"""Corners of ``min ||x||_1`` subject to ``A x = b``: solutions of ``m`` numbers that are not 0."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.scipy.linalg import cho_solve, lu_factor, lu_solve

__all__ = ["Corner", "corner"]

MIN_NUMBER = 1e-10  # of ||x||_1; below it a number may be a rounding of 0


class Corner(NamedTuple):
    """A solution with at most ``m`` numbers that are not 0, and a dual point beside it.

    Attributes
    ----------
    point : Array
        ``x``, shape ``(d,)``.
    dual : Array
        ``y``, shape ``(m,)``; whether ``|A^T y| <= 1`` is not checked.
    """

    point: Array
    dual: Array


def corner(
    matrix: Array, right_hand_side: Array, point: Array, slack: Array, dual: Array
) -> Corner:
    """The corner that an interior point suggests.

    The ``m`` coordinates ``J`` with the largest quotients ``|x_j|/slack_j`` are a guess of the
    support: ``A_J x_J = b`` is solved. The dual point is the ``y`` nearest to that of the interior
    point with ``z_j = (A^T y)_j`` the sign of every ``x_j`` that is not 0. If the guess is right
    this is an optimal pair, of a solution with fewer than ``m`` such numbers too: elsewhere ``z``
    was well inside ``[-1, 1]``, and hardly moves.

    Parameters
    ----------
    matrix, right_hand_side : Array
        ``A``, shape ``(m, d)``, and ``b``, shape ``(m,)``.
    point, slack : Array
        ``x`` of the interior point and ``1 - |A^T y|``, positive; shape ``(d,)``.
    dual : Array
        ``y`` of the interior point, shape ``(m,)``.

    Examples
    --------
    >>> matrix, b = jnp.array([[1.0, 2.0, 1.0], [0.0, 2.0, -1.0]]), jnp.ones(2)
    >>> near = jnp.array([0.02, 0.49, 0.01]), jnp.array([0.75, 0.01, 1.0]), jnp.array([0.25, 0.25])
    >>> found = corner(matrix, b, *near)
    >>> abs(found.point).round(3).tolist(), found.dual.round(3).tolist()
    ([0.0, 0.5, 0.0], [0.25, 0.25])
    """
    _, support = jax.lax.top_k(jnp.abs(point) / slack, right_hand_side.size)
    basis = matrix[:, support]
    factor = lu_factor(basis)
    numbers = lu_solve(factor, right_hand_side)
    numbers = numbers + lu_solve(factor, right_hand_side - basis @ numbers)
    least = MIN_NUMBER * jnp.sum(jnp.abs(numbers))
    signs = jnp.where(jnp.abs(numbers) > least, jnp.sign(numbers), 0.0)
    vertex = jax.lax.cond(
        jnp.all(signs != 0.0),
        lambda: lu_solve(factor, signs, trans=1),
        lambda: _on_face(basis, signs, dual),
    )
    return Corner(jnp.zeros_like(point).at[support].set(numbers), vertex)


def _on_face(matrix: Array, signs: Array, dual: Array) -> Array:
    """The ``y`` nearest to ``dual`` whose ``z_j`` are the ``signs`` that are not 0."""
    columns = matrix * jnp.abs(signs)[None]
    gram = columns.T @ columns + jnp.diag(1.0 - jnp.abs(signs))
    factor = jax.lax.linalg.cholesky(gram, symmetrize_input=False)
    for _ in range(2):
        dual = dual + columns @ cho_solve((factor, True), signs - dual @ columns)
    return dual

"""An interior-point method for ``min ||x||_1`` subject to ``A x = b``, with polished corners."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.scipy.linalg import cho_solve, lu_factor, lu_solve

from privopt.convex.vectors import inner

__all__ = ["Certified", "Equations", "least_l1"]

MAX_STEPS = 60
MAX_CORRECTIONS = 2
TARGET_GAP = 1e-12  # relative to ||x||_1
MAX_RESIDUAL = 1e-12  # of rows of norm about one, relative to ||x||_1
MAX_POLISHED_GAP = 0.02  # above it too little is known of the support
FRACTION_TO_BOUNDARY = 0.995
START_DEPTH, START_DUAL = 0.1, 0.5  # of the largest coordinate; of the way to the boundary
REACH = (1.08, 0.1)  # a longer step that a correction aims at, relative and absolute
CENTRAL = (0.1, 10.0)  # products within these multiples of their target need no correction
REGULARISATION = 2.0**-47  # of the diagonal, where fewer than m columns carry weight


class Equations(NamedTuple):
    """``A`` of shape ``(m, d)`` with rows of norm about one, and the factor of ``A A^T``."""

    matrix: Array
    factor: Array

    def restored(self, point: Array, right_hand_side: Array) -> Array:
        """The solution nearest to ``point``: ``x + A^T (A A^T)^{-1} (b - A x)``, refined once."""
        for _ in range(2):
            residual = right_hand_side - self.matrix @ point
            point = point + cho_solve((self.factor, True), residual) @ self.matrix
        return point

    def residual(self, point: Array, right_hand_side: Array) -> Array:
        """``max_i |A x - b|_i``."""
        return jnp.max(jnp.abs(self.matrix @ point - right_hand_side))


class Certified(NamedTuple):
    """A point, a dual feasible ``y``, and what both prove.

    Attributes
    ----------
    point, dual : Array
        ``x`` of shape ``(d,)`` with ``A x = b``; ``y`` of shape ``(m,)`` with ``|A^T y| <= 1``.
    value, bound : Array
        ``||x||_1`` and ``<b, y> <= min ||x||_1``.
    steps : Array
        How many steps were taken; each is one factorisation.
    """

    point: Array
    dual: Array
    value: Array
    bound: Array
    steps: Array


class _Iterate(NamedTuple):
    """``x = positive - negative`` and ``y``; slacks ``1 - z`` and ``1 + z`` of ``z = A^T y``."""

    positive: Array
    negative: Array
    dual: Array
    below: Array
    above: Array

    @property
    def complementarity(self) -> Array:
        return inner(self.positive, self.below) + inner(self.negative, self.above)


class _Direction(NamedTuple):
    positive: Array
    negative: Array
    dual: Array
    predictions: Array


def least_l1(equations: Equations, right_hand_side: Array) -> Certified:
    """``argmin ||x||_1`` subject to ``A x = b``, for ``||A^+ b||_1`` about one."""
    matrix = equations.matrix

    def unfinished(carry: tuple[_Iterate, Certified]) -> Array:
        best = carry[1]
        return (best.value - best.bound > TARGET_GAP * best.value) & (best.steps < MAX_STEPS)

    def step(carry: tuple[_Iterate, Certified]) -> tuple[_Iterate, Certified]:
        at = _moved(matrix, right_hand_side, carry[0])
        near = at.complementarity <= MAX_POLISHED_GAP * carry[1].value
        best = jax.lax.cond(
            near, lambda: _polished(equations, right_hand_side, at, carry[1]), lambda: carry[1]
        )
        return at, best._replace(steps=best.steps + 1)

    first = _begun(equations, right_hand_side)
    x = first.positive - first.negative
    best = Certified(
        x, jnp.zeros_like(right_hand_side), jnp.sum(jnp.abs(x)), jnp.zeros(()), jnp.zeros((), int)
    )
    return jax.lax.while_loop(unfinished, step, (first, best))[1]


def _begun(equations: Equations, right_hand_side: Array) -> _Iterate:
    """The least-squares solution, moved off the axes, and the dual point along it."""
    weights = cho_solve((equations.factor, True), right_hand_side)
    point = weights @ equations.matrix
    largest = jnp.max(jnp.abs(point))
    unit = jnp.where(largest > 0.0, largest, 1.0)
    dual = START_DUAL * weights / unit
    predictions = START_DUAL * point / unit
    depth = START_DEPTH * unit
    return _Iterate(
        jnp.maximum(point, 0.0) + depth,
        jnp.maximum(-point, 0.0) + depth,
        dual,
        1.0 - predictions,
        1.0 + predictions,
    )


def _moved(matrix: Array, right_hand_side: Array, at: _Iterate) -> _Iterate:
    p, q, y, s, t = at
    weights = p / s + q / t
    normal = (matrix * weights) @ matrix.T
    normal = normal + jnp.diag(REGULARISATION * jnp.diagonal(normal))
    factor = jax.lax.linalg.cholesky(normal, symmetrize_input=False)
    residual = right_hand_side - matrix @ (p - q)

    def direction(first: Array, second: Array) -> _Direction:
        dual = cho_solve((factor, True), residual - matrix @ (first / s - second / t))
        z = dual @ matrix
        return _Direction((first + p * z) / s, (second - q * z) / t, dual, z)

    def lengths(towards: _Direction) -> tuple[Array, Array]:
        primal = jnp.minimum(_reach(p, towards.positive), _reach(q, towards.negative))
        return primal, jnp.minimum(_reach(s, -towards.predictions), _reach(t, towards.predictions))

    def products(towards: _Direction, primal: Array, dual: Array) -> tuple[Array, Array]:
        z = dual * towards.predictions
        return (p + primal * towards.positive) * (s - z), (q + primal * towards.negative) * (t + z)

    affine = direction(-p * s, -q * t)
    gap = at.complementarity
    left = sum(map(jnp.sum, products(affine, *lengths(affine))))
    target = gap / (2 * p.size) * (left / gap) ** 3
    z = affine.predictions
    rhs = (target - p * s + affine.positive * z, target - q * t - affine.negative * z)
    towards = direction(*rhs)
    reach = lengths(towards)
    low, high = (bound * target for bound in CENTRAL)
    for _ in range(MAX_CORRECTIONS):
        aimed = (jnp.minimum(1.0, REACH[0] * each + REACH[1]) for each in reach)
        wrong = [jnp.maximum(jnp.clip(v, low, high) - v, -high) for v in products(towards, *aimed)]
        rhs_new = (rhs[0] + wrong[0], rhs[1] + wrong[1])
        other = direction(*rhs_new)
        new = lengths(other)
        better = new[0] + new[1] > reach[0] + reach[1] + 0.01
        pick = lambda a, b: jax.tree.map(lambda u, v: jnp.where(better, u, v), a, b)
        towards, rhs, reach = pick(other, towards), pick(rhs_new, rhs), pick(new, reach)
    primal, dual = (jnp.minimum(1.0, FRACTION_TO_BOUNDARY * each) for each in reach)
    y = y + dual * towards.dual
    z = y @ matrix
    tiny = 2.0**-60
    return _Iterate(
        p + primal * towards.positive,
        q + primal * towards.negative,
        y,
        jnp.maximum(1.0 - z, tiny),
        jnp.maximum(1.0 + z, tiny),
    )


def _reach(value: Array, move: Array) -> Array:
    """The largest step of at most one that keeps ``value + step move`` non-negative."""
    return 1.0 / jnp.maximum(1.0, jnp.max(-move / value))


def _polished(equations: Equations, b: Array, at: _Iterate, best: Certified) -> Certified:
    """The better of what is known and of what the corner near ``at`` says."""
    matrix = equations.matrix
    x = at.positive - at.negative
    slack = jnp.minimum(at.below, at.above)
    _, columns = jax.lax.top_k(jnp.abs(x) / slack, b.size)
    factor = lu_factor(matrix[:, columns])
    corner = lu_solve(factor, b)
    corner = corner + lu_solve(factor, b - matrix[:, columns] @ corner)
    x_c = jnp.zeros_like(x).at[columns].set(corner)
    strong = jnp.abs(x) > slack
    z = 0.5 * (at.above - at.below)
    aims = jnp.where(strong, jnp.sign(x), z)[columns]
    y_c = lu_solve(factor, aims, trans=1)
    best = _better_point(equations, b, best, x_c)
    best = _better_point(equations, b, best, equations.restored(x, b))
    best = _better_dual(equations, b, best, y_c)
    return _better_dual(equations, b, best, at.dual)


def _better_point(equations, b, best, point):
    value = jnp.sum(jnp.abs(point))
    take = (value < best.value) & (equations.residual(point, b) <= MAX_RESIDUAL * value)
    return best._replace(
        point=jnp.where(take, point, best.point), value=jnp.where(take, value, best.value)
    )


def _better_dual(equations, b, best, dual):
    dual = dual / jnp.maximum(1.0, jnp.max(jnp.abs(dual @ equations.matrix)))
    bound = inner(b, dual)
    take = bound > best.bound
    return best._replace(
        dual=jnp.where(take, dual, best.dual), bound=jnp.where(take, bound, best.bound)
    )

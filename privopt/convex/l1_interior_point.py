"""An interior-point method for ``min ||x||_1`` subject to ``A x = b`` that ends in a corner."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.scipy.linalg import cho_solve

from privopt.convex.l1_corner import corner
from privopt.convex.l1_equations import Certified, Equations
from privopt.convex.vectors import inner

__all__ = ["least_l1", "lower_product"]

MAX_STEPS = 60
MAX_CORRECTIONS = 2
TARGET_GAP = 1e-11  # of ||x||_1
MIN_COMPLEMENTARITY = 1e-14  # of ||x||_1; below it steps are round-off
MAX_POLISHED_GAP = 0.1  # of ||x||_1; above it too little is known of the support
MIN_SLACK = 2.0**-60
FRACTION_TO_BOUNDARY = 0.995
START_DEPTH, START_DUAL = 0.1, 0.9  # of the largest coordinate; of the way to the boundary
LONGER, FURTHER = 1.08, 0.1  # what a correction makes of a step: times, and plus
MIN_LENGTHENED = 0.01  # by how much the sum of both steps must grow
CENTRAL = (0.1, 10.0)  # products within these multiples of their target are left alone

REGULARISATION = 2.0**-47  # of the diagonal, for less than m columns that carry weight
SINGLE_REGULARISATION = 2.0**-21  # where products are in float32
MIN_SINGLE_PIVOT = 2.0**-10  # of the diagonal; below it float32 does not do
KEPT, MIN_SPARE = 4, 8  # columns for every row: that late steps see; below it all of them do
MIN_ENTRIES = 2**17  # of A; below it that saves less than it takes to compile
MAX_SPARE_GAP = 0.06  # of ||x||_1; above it all columns may matter
MIN_FOLLOWED = 1e-4  # of the certified gap; below it columns are missing


def least_l1(equations: Equations) -> Certified:
    """``argmin ||x||_1`` subject to ``A x = b``, for a ``b`` with ``||A^+ b||_1`` about one.

    *Interior point.* With ``x = p - q`` and ``z = A^T y`` the conditions of optimality are
    ``A (p - q) = b``, ``p (1 - z) = 0`` and ``q (1 + z) = 0``, and nothing negative. Steps of
    Newton's method aim at products of one small common size instead of 0: the predictor and the
    corrector of Mehrotra (1992), "On the implementation of a primal-dual interior point method",
    then corrections of products that stay far from the common size, of Gondzio (1996), "Multiple
    centrality corrections in a primal-dual method for linear programming". All directions of a
    step share the factor of one matrix ``A D A^T``.

    *Corner.* Where the gap is small a step also tries the corner near its point, which may be
    optimal (:func:`privopt.convex.l1_corner.corner`). Where it is not, or where solutions are many,
    the interior point goes on to the same accuracy.

    *Fewer columns.* Where there are many more columns than rows, ``m`` of them soon carry nearly
    all the weight of ``D``. The first steps see all columns and sum ``A D A^T`` in float32, unless
    pivots of its factor are too small: little accuracy is needed yet. The later steps see only the
    ``4 m`` heaviest columns. Dual points are still checked against all columns, so nothing false is
    certified. If the gap does not close, steps with all columns continue where the first ones had
    stopped.
    """
    rows, size = equations.matrix.shape
    best = _nearest(equations)
    state = (_begun(equations), best)
    whole = _Columns(equations.matrix, jnp.arange(size))
    if size >= MIN_SPARE * rows and rows * size >= MIN_ENTRIES:
        state = jax.lax.while_loop(_far, _step(equations, whole, single=True), state)
        at, best = state
        heavy = whole.heaviest(at, KEPT * rows)
        kept = (at.among(heavy.indices), best)
        best = jax.lax.while_loop(_closing, _step(equations, heavy), kept)[1]
        state = (at, best)
    return jax.lax.while_loop(_unfinished, _step(equations, whole), state)[1]


def _unfinished(state: tuple[_Iterate, Certified]) -> Array:
    at, best = state
    more = at.complementarity > MIN_COMPLEMENTARITY * best.value
    return more & (best.value - best.bound > TARGET_GAP * best.value) & (best.steps < MAX_STEPS)


def _far(state: tuple[_Iterate, Certified]) -> Array:
    """All columns may still matter."""
    at, _ = state
    return _unfinished(state) & (at.complementarity > MAX_SPARE_GAP * at.size)


def _closing(state: tuple[_Iterate, Certified]) -> Array:
    """The certified gap, of all columns, falls with that of the columns seen."""
    at, best = state
    return _unfinished(state) & (at.complementarity > MIN_FOLLOWED * (best.value - best.bound))


def _step(
    equations: Equations, columns: _Columns, single: bool = False
) -> Callable[[tuple[_Iterate, Certified]], tuple[_Iterate, Certified]]:
    matrix, b = columns.matrix, equations.right_hand_side
    factorised = _rounded(matrix) if single else functools.partial(_factorised, matrix)

    def step(state: tuple[_Iterate, Certified]) -> tuple[_Iterate, Certified]:
        at, best = state
        at = _moved(matrix, b, at, factorised(at.weights))
        near = at.complementarity <= MAX_POLISHED_GAP * best.value

        def polished(at: _Iterate, best: Certified) -> Certified:
            return _polished(equations, columns, at, best)

        best = jax.lax.cond(near, polished, lambda _, best: best, at, best)
        return at, best._replace(steps=best.steps + 1)

    return step


def _nearest(equations: Equations) -> Certified:
    """The solution of least Euclidean norm, and no dual point."""
    none = jnp.zeros_like(equations.right_hand_side)
    solution = equations.restored(jnp.zeros(equations.matrix.shape[1]))
    value = jnp.sum(jnp.abs(solution))
    return Certified(solution, value, none, jnp.zeros_like(value), jnp.zeros((), int))


class _Iterate(NamedTuple):
    """``x = positive - negative``; ``y``; the slacks ``below = 1 - z`` and ``above = 1 + z``."""

    positive: Array
    negative: Array
    dual: Array
    below: Array
    above: Array

    @property
    def point(self) -> Array:
        return self.positive - self.negative

    @property
    def size(self) -> Array:
        """An upper bound of ``||x||_1``."""
        return jnp.sum(self.positive) + jnp.sum(self.negative)

    @property
    def weights(self) -> Array:
        """The diagonal of ``D``."""
        return self.positive / self.below + self.negative / self.above

    @property
    def complementarity(self) -> Array:
        return inner(self.positive, self.below) + inner(self.negative, self.above)

    def among(self, columns: Array) -> _Iterate:
        p, q, y, below, above = self
        return _Iterate(p[columns], q[columns], y, below[columns], above[columns])


class _Columns(NamedTuple):
    """Columns that steps see: their matrix and their places among all."""

    matrix: Array
    indices: Array

    def heaviest(self, at: _Iterate, count: int) -> _Columns:
        _, heavy = jax.lax.top_k(at.weights, count)
        return _Columns(self.matrix[:, heavy], self.indices[heavy])

    def lifted(self, point: Array, size: int) -> Array:
        """The same point among all columns."""
        return jnp.zeros(size).at[self.indices].set(point)


class _Direction(NamedTuple):
    """Moves of ``positive``, ``negative``, ``dual`` and of ``z = A^T y``."""

    positive: Array
    negative: Array
    dual: Array
    predictions: Array


def _begun(equations: Equations) -> _Iterate:
    """The least-squares solution, moved off the axes, and the dual point along it."""
    weights = cho_solve((equations.factor, True), equations.right_hand_side)
    point = weights @ equations.matrix
    largest = jnp.max(jnp.abs(point))
    unit = jnp.where(largest > 0.0, largest, 1.0)
    depth, z = START_DEPTH * unit, START_DUAL * point / unit
    dual = START_DUAL * weights / unit
    positive, negative = (jnp.maximum(each, 0.0) + depth for each in (point, -point))
    return _Iterate(positive, negative, dual, 1.0 - z, 1.0 + z)


def _factorised(matrix: Array, weights: Array) -> Array:
    """A factor of ``A D A^T``."""
    return _cholesky(lower_product(matrix, weights), REGULARISATION)


def _rounded(matrix: Array) -> Callable[[Array], Array]:
    """As :func:`_factorised`, from products in float32 where the rows are independent enough."""
    single = matrix.astype(jnp.float32)

    def factorised(weights: Array) -> Array:
        normal = lower_product(single, weights.astype(jnp.float32)).astype(weights.dtype)
        factor = _cholesky(normal, SINGLE_REGULARISATION)
        pivot = jnp.min(jnp.square(jnp.diagonal(factor)) / jnp.diagonal(normal))
        return jax.lax.cond(
            pivot > MIN_SINGLE_PIVOT, lambda: factor, lambda: _factorised(matrix, weights)
        )

    return factorised


def _cholesky(normal: Array, regularisation: float) -> Array:
    normal = normal + jnp.diag(regularisation * jnp.diagonal(normal))
    return jax.lax.linalg.cholesky(normal, symmetrize_input=False)


def _moved(matrix: Array, right_hand_side: Array, at: _Iterate, factor: Array) -> _Iterate:
    """One step: a predictor, a corrector and corrections, all with the factor of ``A D A^T``."""
    p, q, y, below, above = at
    residual = right_hand_side - matrix @ at.point

    def direction(first: Array, second: Array) -> _Direction:
        """Where ``p (1 - z)`` moves by ``first`` and ``q (1 + z)`` by ``second``."""
        dual = cho_solve((factor, True), residual - matrix @ (first / below - second / above))
        z = dual @ matrix
        return _Direction((first + p * z) / below, (second - q * z) / above, dual, z)

    def lengths(towards: _Direction) -> tuple[Array, Array]:
        """The largest primal and dual steps."""
        z = towards.predictions
        primal = jnp.minimum(_length(p, towards.positive), _length(q, towards.negative))
        return primal, jnp.minimum(_length(below, -z), _length(above, z))

    def products(towards: _Direction, primal: Array, dual: Array) -> tuple[Array, Array]:
        z = dual * towards.predictions
        return (
            (p + primal * towards.positive) * (below - z),
            (q + primal * towards.negative) * (above + z),
        )

    affine = direction(-p * below, -q * above)
    left = sum(map(jnp.sum, products(affine, *lengths(affine))), jnp.zeros(()))
    gap = at.complementarity
    target = gap / (2 * p.size) * (left / gap) ** 3
    z = affine.predictions
    aims = (target - p * below + affine.positive * z, target - q * above - affine.negative * z)
    towards = direction(*aims)
    reached = lengths(towards)
    low, high = (bound * target for bound in CENTRAL)
    for _ in range(MAX_CORRECTIONS):
        further = (jnp.minimum(1.0, LONGER * each + FURTHER) for each in reached)
        missing = (jnp.clip(each, low, high) - each for each in products(towards, *further))
        first, second = (a + jnp.maximum(b, -high) for a, b in zip(aims, missing, strict=True))
        other = direction(first, second)
        lengthened = lengths(other)
        better = sum(lengthened) > sum(reached) + MIN_LENGTHENED
        towards, aims, reached = jax.tree.map(
            lambda new, old, better=better: jnp.where(better, new, old),
            (other, (first, second), lengthened),
            (towards, aims, reached),
        )
    primal, dual = (jnp.minimum(1.0, FRACTION_TO_BOUNDARY * each) for each in reached)
    y = y + dual * towards.dual
    z = y @ matrix
    return _Iterate(
        p + primal * towards.positive,
        q + primal * towards.negative,
        y,
        jnp.maximum(1.0 - z, MIN_SLACK),
        jnp.maximum(1.0 + z, MIN_SLACK),
    )


def lower_product(matrix: Array, weights: Array) -> Array:
    """``A D A^T``; a quarter of it, above the diagonal, is left 0: no factorisation reads it."""
    rows = matrix.shape[0]
    half = rows // 2
    first = (matrix[:half] * weights[None]) @ matrix[:half].T
    second = (matrix[half:] * weights[None]) @ matrix.T
    return jnp.concatenate([jnp.pad(first, ((0, 0), (0, rows - half))), second])


def _length(value: Array, move: Array) -> Array:
    """The largest ``a <= 1`` with ``value + a move >= 0``."""
    return 1.0 / jnp.maximum(1.0, jnp.max(-move / value))


def _polished(equations: Equations, columns: _Columns, at: _Iterate, best: Certified) -> Certified:
    """What is best of all that is known, of the interior point and of the corner near it."""
    size, x = equations.matrix.shape[1], at.point
    slack = jnp.minimum(at.below, at.above)
    near = corner(columns.matrix, equations.right_hand_side, x, slack, at.dual)
    best = best.with_point(equations, columns.lifted(near.point, size))
    best = best.with_dual(equations, near.dual)
    restored = equations.restored(columns.lifted(x, size))
    return best.with_point(equations, restored).with_dual(equations, at.dual)

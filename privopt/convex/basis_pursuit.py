"""Basis pursuit: certified least l1 norm solutions of underdetermined linear systems."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.custom_batching import sequential_vmap
from jax.scipy.linalg import cho_solve, lu_factor, lu_solve
from jax.typing import ArrayLike
from jaxtyping import Float, Int

from privopt.arguments import checked, described
from privopt.convex.arrays import inner, norm, power_of_two
from privopt.convex.solver import ROUND_OFF

MIN_PIVOT = 1e-12  # squared relative distance of a row from the span of the previous rows
MAX_RESIDUAL = 1e-12  # relative to ||x||_1, for rows of norm about 1
MAX_STEPS = 60
TARGET_GAP = 1e-11  # relative to ||x||_1
MIN_COMPLEMENTARITY = 1e-14  # relative to ||x||_1; smaller values are round-off
MAX_POLISHED_GAP = 0.1  # relative to ||x||_1; above it the support is too uncertain
MIN_SLACK = 2.0**-60
FRACTION_TO_BOUNDARY = 0.995
START_DEPTH, START_DUAL = 0.1, 0.9  # relative to the largest coordinate and the boundary
REGULARISATION = 2.0**-47  # relative to the diagonal, if fewer than m columns have weight
MIN_NUMBER = 1e-10  # relative to ||x||_1; smaller numbers may be rounded zeros


class BasisPursuit(NamedTuple):
    """Solutions of ``A x = b`` with certificates; several have a leading axis of length ``k``."""

    point: Float[Array, "*k d"]  # x, float64
    gap: Float[Array, "*k"]  # certified: |x|_1 - min <= gap, including round-off in A^T y
    bound: Float[Array, "*k"]  # <b, y> <= min
    dual: Float[Array, "*k m"]  # y with |A^T y| <= 1 by coordinate
    residual: Float[Array, "*k"]  # |A x - b|_2
    steps: Int[Array, "*k"]  # each factorises an m x m matrix


@checked
def basis_pursuit(matrix: ArrayLike, right_hand_sides: ArrayLike) -> BasisPursuit:
    """Minimise ``||x||_1`` subject to ``A x = b``, for one ``b`` or several, with certificates.

    A dual feasible ``y`` proves ``min ||x||_1 >= <b, y>``. Steps of a predictor-corrector interior
    point method (Mehrotra 1992) are completed by the nearest vertex; see :ref:`Solvers, Theorem 6
    <theory-solvers-6>`. The function is pure. It accepts NumPy or JAX arrays, also inside ``jit``
    and ``vmap``, where values are not checked.

    About fifteen steps, of ``m^2 d`` products each, give a gap of at most ``1e-11 ||x||_1`` if the
    rows are far from dependent. ``gap`` reports the attained value. Rows of ``A`` and ``b`` are
    first scaled to norms about 1 by powers of two, so units do not matter.

    Source: Chen, Donoho and Saunders 1998, "Atomic decomposition by basis pursuit".

    Parameters
    ----------
    matrix : array
        ``A``, shape ``(m, d)`` with ``m <= d``, of full row rank.
    right_hand_sides : array
        ``b``, shape ``(m,)``, or ``(k, m)`` for ``k`` systems, which are solved sequentially.

    Examples
    --------
    >>> from privopt.convex import basis_pursuit
    >>> with jax.enable_x64(True):
    ...     solution = basis_pursuit(np.array([[1.0, 2.0, 1.0], [0.0, 2.0, -1.0]]), np.ones(2))
    ...     print(abs(solution.point).round(9), bool(solution.gap < 1e-9))
    [0.  0.5 0. ] True
    """
    if not jax.enable_x64.value:
        raise ValueError("x64 must be on, got it off: wrap the call in `jax.enable_x64(True)`")
    matrix = _float64("matrix", matrix, 2)
    rows, columns = matrix.shape
    if rows > columns:
        raise ValueError(f"matrix must have at most as many rows as columns, got {matrix.shape}")
    several = jnp.ndim(right_hand_sides) != 1
    targets = _float64("right_hand_sides", right_hand_sides, 2 if several else 1)
    if targets.shape[-1] != rows:
        raise ValueError(
            f"right_hand_sides must have shape ({rows},) or (k, {rows}), got {targets.shape}"
        )
    scales, factor, pivot = _factorise(matrix)
    if not isinstance(pivot, jax.core.Tracer) and not pivot >= MIN_PIVOT:
        raise ValueError(
            "matrix must have full row rank, got a row within "
            f"{np.sqrt(max(float(np.nan_to_num(pivot)), 0.0)):.1g} of its norm of the rows before"
        )
    return _solve(matrix, scales, factor, targets)


def _float64(name: str, value: ArrayLike, ndim: int) -> Array:
    """Convert to float64, on the host if possible, and check that all numbers are finite."""
    array: Any = value if isinstance(value, Array) else np.asarray(value)
    if array.dtype.kind not in "fiu":
        raise ValueError(f"{name} must be real numbers, got {described(value)}")
    array = array.astype(np.float64)
    if array.ndim != ndim or array.size == 0:
        raise ValueError(f"{name} must have {ndim} axes and some entries, got shape {array.shape}")
    if not isinstance(array, jax.core.Tracer) and not np.all(finite := np.isfinite(array)):
        first = tuple(int(each) for each in np.argwhere(~finite)[0])
        raise ValueError(f"{name} must be finite, got {np.asarray(array)[first]} at {first}")
    return array


@jax.jit
@sequential_vmap  # type: ignore[untyped-decorator]
def _factorise(matrix: Array) -> tuple[Array, Array, Array]:
    """Return the row scales, the factor of ``A A^T`` of the scaled rows and its least pivot."""
    scales = power_of_two(norm(matrix))
    scaled = matrix / scales[:, None]
    factor = _factor(scaled, jnp.ones(scaled.shape[1]), 0.0)
    return scales, factor, jnp.min(jnp.square(jnp.diagonal(factor) / norm(scaled)))


@jax.jit
@sequential_vmap  # type: ignore[untyped-decorator]
def _solve(matrix: Array, scales: Array, factor: Array, right_hand_sides: Array) -> BasisPursuit:
    # Sequential, because the batched LU decomposition of jaxlib waits for threads of its own pool.
    # It deadlocks on a CPU if as many programs wait as there are threads.
    scaled = matrix / scales[:, None]

    def solve(right_hand_side: Array) -> BasisPursuit:
        b = right_hand_side / scales
        shift = power_of_two(jnp.max(jnp.abs(b)))
        b = b / shift
        nearest = cho_solve((factor, True), b) @ scaled
        size = power_of_two(jnp.sum(jnp.abs(nearest)))
        best = _least_l1(_Equations(scaled, factor, b / size))
        unit = size * shift
        summands = jnp.max(jnp.abs(best.dual) @ jnp.abs(scaled))
        error = ROUND_OFF * jnp.maximum(summands, 1.0) * best.value
        gap = jnp.maximum(best.value - best.bound, 0.0) + error
        point = unit * best.point
        return BasisPursuit(
            point,
            jnp.where(jnp.isnan(gap), jnp.inf, unit * gap),
            unit * best.bound,
            best.dual / scales,
            norm(matrix @ point - right_hand_side),
            best.steps,
        )

    if right_hand_sides.ndim == 1:
        return solve(right_hand_sides)
    return jax.lax.map(solve, right_hand_sides)


class _Equations(NamedTuple):
    """System ``A x = b`` with rows of norm about 1, and a factor of ``A A^T``."""

    matrix: Array
    factor: Array
    right_hand_side: Array

    def project(self, point: Array) -> Array:
        """Compute the nearest solution ``x + A^T (A A^T)^{-1} (b - A x)``."""
        return point + cho_solve((self.factor, True), self.residual(point)) @ self.matrix

    def residual(self, point: Array) -> Array:
        """Compute ``b - A x``."""
        return self.right_hand_side - self.matrix @ point


class _Certified(NamedTuple):
    """Best ``x`` with ``||x||_1``, best feasible ``y`` with ``<b, y>``, and number of steps."""

    point: Array
    value: Array
    dual: Array
    bound: Array
    steps: Array

    def with_point(self, equations: _Equations, point: Array) -> _Certified:
        """Return the better of two points; a point with a large residual is rejected."""
        value = jnp.sum(jnp.abs(point))
        residual = jnp.max(jnp.abs(equations.residual(point)))
        better = (value < self.value) & (residual <= MAX_RESIDUAL * value)
        return self._replace(
            point=jnp.where(better, point, self.point), value=jnp.where(better, value, self.value)
        )

    def with_dual(self, equations: _Equations, dual: Array) -> _Certified:
        """Return the better of two dual points; the new one is scaled to be feasible."""
        dual = dual / jnp.maximum(1.0, jnp.max(jnp.abs(dual @ equations.matrix)))
        bound = inner(equations.right_hand_side, dual)
        better = bound > self.bound
        return self._replace(
            dual=jnp.where(better, dual, self.dual), bound=jnp.where(better, bound, self.bound)
        )


class _Iterate(NamedTuple):
    """Point ``x = positive - negative``, dual ``y``, slacks ``1 - z`` and ``1 + z``."""

    positive: Array
    negative: Array
    dual: Array
    upper: Array
    lower: Array

    @property
    def point(self) -> Array:
        return self.positive - self.negative

    @property
    def weights(self) -> Array:
        """Diagonal of ``D``."""
        return self.positive / self.upper + self.negative / self.lower

    @property
    def complementarity(self) -> Array:
        return inner(self.positive, self.upper) + inner(self.negative, self.lower)


def _least_l1(equations: _Equations) -> _Certified:
    """Minimise ``||x||_1`` subject to ``A x = b``, for ``||A^+ b||_1`` about 1."""

    def step(state: tuple[_Iterate, _Certified]) -> tuple[_Iterate, _Certified]:
        iterate, best = state
        iterate = _step(equations, iterate)
        near = iterate.complementarity <= MAX_POLISHED_GAP * best.value
        best = jax.lax.cond(
            near,
            lambda iterate, best: _polish(equations, iterate, best),
            lambda _, best: best,
            iterate,
            best,
        )
        return iterate, best._replace(steps=best.steps + 1)

    def unfinished(state: tuple[_Iterate, _Certified]) -> Array:
        iterate, best = state
        more = iterate.complementarity > MIN_COMPLEMENTARITY * best.value
        return more & (best.value - best.bound > TARGET_GAP * best.value) & (best.steps < MAX_STEPS)

    return jax.lax.while_loop(unfinished, step, (_init(equations), _least_squares(equations)))[1]


def _least_squares(equations: _Equations) -> _Certified:
    """Return the solution of least Euclidean norm, with the dual point 0."""
    none = jnp.zeros_like(equations.right_hand_side)
    solution = equations.project(jnp.zeros(equations.matrix.shape[1]))
    value = jnp.sum(jnp.abs(solution))
    return _Certified(solution, value, none, jnp.zeros_like(value), jnp.zeros((), int))


def _init(equations: _Equations) -> _Iterate:
    """Return the least-squares solution with positive parts, and a dual point along it."""
    weights = cho_solve((equations.factor, True), equations.right_hand_side)
    point = weights @ equations.matrix
    largest = jnp.max(jnp.abs(point))
    unit = jnp.where(largest > 0.0, largest, 1.0)
    depth, z = START_DEPTH * unit, START_DUAL * point / unit
    dual = START_DUAL * weights / unit
    positive, negative = (jnp.maximum(each, 0.0) + depth for each in (point, -point))
    return _Iterate(positive, negative, dual, 1.0 - z, 1.0 + z)


def _factor(matrix: Array, weights: Array, regularisation: float) -> Array:
    """Factorise ``A D A^T``; a quarter of it, above the diagonal, is not computed."""
    half, rest = matrix[: (rows := matrix.shape[0]) // 2], matrix[rows // 2 :]
    first = (half * weights[None]) @ half.T
    second = (rest * weights[None]) @ matrix.T
    normal = jnp.concatenate([jnp.pad(first, ((0, 0), (0, rows - rows // 2))), second])
    normal = normal + jnp.diag(regularisation * jnp.diagonal(normal))
    return jax.lax.linalg.cholesky(normal, symmetrize_input=False)


def _step(equations: _Equations, iterate: _Iterate) -> _Iterate:
    """Take one step: a predictor and a corrector, both with the factor of ``A D A^T``."""
    matrix, (p, q, y, upper, lower) = equations.matrix, iterate
    factor = _factor(matrix, iterate.weights, REGULARISATION)
    residual = equations.residual(iterate.point)

    def direction(first: Array, second: Array) -> tuple[Array, Array, Array, Array]:
        """Solve for changes of ``p, q, y, z`` with given changes of ``p (1-z)``, ``q (1+z)``."""
        dual = cho_solve((factor, True), residual - matrix @ (first / upper - second / lower))
        z = dual @ matrix
        return (first + p * z) / upper, (second - q * z) / lower, dual, z

    def lengths(positive: Array, negative: Array, z: Array) -> tuple[Array, Array]:
        """Compute the largest primal and dual step sizes."""
        primal = jnp.minimum(_length(p, positive), _length(q, negative))
        return primal, jnp.minimum(_length(upper, -z), _length(lower, z))

    positive, negative, _, z = direction(-p * upper, -q * lower)
    primal, dual = lengths(positive, negative, z)
    predicted = inner(p + primal * positive, upper - dual * z)
    predicted += inner(q + primal * negative, lower + dual * z)
    gap = iterate.complementarity
    target = gap / (2 * p.size) * (predicted / gap) ** 3
    positive, negative, move, z = direction(
        target - p * upper + positive * z, target - q * lower - negative * z
    )
    primal, dual = (
        jnp.minimum(1.0, FRACTION_TO_BOUNDARY * each) for each in lengths(positive, negative, z)
    )
    y = y + dual * move
    z = y @ matrix
    return _Iterate(
        p + primal * positive,
        q + primal * negative,
        y,
        jnp.maximum(1.0 - z, MIN_SLACK),
        jnp.maximum(1.0 + z, MIN_SLACK),
    )


def _length(value: Array, move: Array) -> Array:
    """Compute the largest ``a <= 1`` with ``value + a move >= 0``."""
    return 1.0 / jnp.maximum(1.0, jnp.max(-move / value))


def _polish(equations: _Equations, iterate: _Iterate, best: _Certified) -> _Certified:
    """Update the best points by the interior point and by a vertex near it."""
    point, dual = _vertex(equations, iterate)
    best = best.with_point(equations, point).with_dual(equations, dual)
    solution = equations.project(iterate.point)
    return best.with_point(equations, solution).with_dual(equations, iterate.dual)


def _vertex(equations: _Equations, iterate: _Iterate) -> tuple[Array, Array]:
    """Return a solution with at most ``m`` nonzero entries, and a dual point for it.

    The support is a guess from the interior point (:ref:`Solvers, Theorem 6 <theory-solvers-6>`).
    ``|A^T y| <= 1`` is not checked.
    """
    b, slack = equations.right_hand_side, jnp.minimum(iterate.upper, iterate.lower)
    _, support = jax.lax.top_k(jnp.abs(iterate.point) / slack, b.size)
    basis = equations.matrix[:, support]
    factor = lu_factor(basis)
    numbers = lu_solve(factor, b)
    numbers = numbers + lu_solve(factor, b - basis @ numbers)
    least = MIN_NUMBER * jnp.sum(jnp.abs(numbers))
    signs = jnp.where(jnp.abs(numbers) > least, jnp.sign(numbers), 0.0)
    dual = jax.lax.cond(
        jnp.all(signs != 0.0),
        lambda: lu_solve(factor, signs, trans=1),
        lambda: _project_on_face(basis, signs, iterate.dual),
    )
    return jnp.zeros_like(iterate.point).at[support].set(numbers), dual


def _project_on_face(matrix: Array, signs: Array, dual: Array) -> Array:
    """Return the ``y`` nearest to ``dual`` with ``z_j`` equal to the nonzero ``signs``."""
    columns = matrix * jnp.abs(signs)[None]
    gram = columns.T @ columns + jnp.diag(1.0 - jnp.abs(signs))
    factor = jax.lax.linalg.cholesky(gram, symmetrize_input=False)
    for _ in range(2):
        dual = dual + columns @ cho_solve((factor, True), signs - dual @ columns)
    return dual

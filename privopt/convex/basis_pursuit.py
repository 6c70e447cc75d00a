"""Basis pursuit: the solution of least l1 norm of an underdetermined linear system, certified."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.custom_batching import sequential_vmap
from jax.scipy.linalg import cho_solve, lu_factor, lu_solve
from jax.typing import ArrayLike

from privopt.arguments import checked, described
from privopt.convex.certificate import ROUND_OFF
from privopt.convex.vectors import inner, norm, power_of_two

MIN_PIVOT = 1e-12  # square of a row's distance from the rows before it, in units of its norm
MAX_RESIDUAL = 1e-12  # of ||x||_1, for rows of norm about one
MAX_STEPS = 60
TARGET_GAP = 1e-11  # of ||x||_1
MIN_COMPLEMENTARITY = 1e-14  # of ||x||_1; below it steps are round-off
MAX_POLISHED_GAP = 0.1  # of ||x||_1; above it too little is known of the support
MIN_SLACK = 2.0**-60
FRACTION_TO_BOUNDARY = 0.995
START_DEPTH, START_DUAL = 0.1, 0.9  # of the largest coordinate; of the way to the boundary
REGULARISATION = 2.0**-47  # of the diagonal, for less than m columns that carry weight
MIN_NUMBER = 1e-10  # of ||x||_1; below it a number may be a rounding of 0


class BasisPursuit(NamedTuple):
    """Solutions of ``A x = b``, and what is known of them; a leading axis of ``k`` for several."""

    point: Array  # x, shape (d,) or (k, d), float64
    gap: Array  # certified: |x|_1 - min <= gap, with an allowance for round-off in A^T y
    bound: Array  # <b, y> <= min
    dual: Array  # y with |A^T y| <= 1 by coordinate, shape (m,) or (k, m)
    residual: Array  # |A x - b|_2
    steps: Array  # each factorises an m by m matrix


@checked
def basis_pursuit(matrix: ArrayLike, right_hand_sides: ArrayLike) -> BasisPursuit:
    """``argmin ||x||_1`` subject to ``A x = b``, for one ``b`` or several, each certified.

    Chen, Donoho and Saunders (1998), "Atomic decomposition by basis pursuit". A dual feasible
    ``y`` proves ``min ||x||_1 >= <b, y>``, since ``<b, y> = <x, A^T y> <= ||x||_1``. Pure: on NumPy
    or JAX arrays on the host, or inside ``jit`` and ``vmap``, where values are not checked.

    *Interior point.* With ``x = p - q`` and ``z = A^T y`` the conditions of optimality are
    ``A (p - q) = b``, ``p (1 - z) = 0`` and ``q (1 + z) = 0``, and nothing negative. Steps of
    Newton's method aim at products of one small common size instead of 0: the predictor and the
    corrector of Mehrotra (1992), "On the implementation of a primal-dual interior point method".

    *Corner.* Where the gap is small a step also tries the corner near its point, which may be
    optimal. Where it is not, or where solutions are many, the interior point goes on to the same
    accuracy.

    About fifteen steps, of ``m^2 d`` products each, lead to a gap of at most ``1e-11 ||x||_1``
    where rows are far from dependent; ``gap`` always says what was reached. Rows of ``A`` and ``b``
    are first scaled to norms about one, by powers of two, so units do not matter.

    Parameters
    ----------
    matrix : array
        ``A``, shape ``(m, d)`` with ``m <= d``, of full row rank.
    right_hand_sides : array
        ``b``, shape ``(m,)``, or ``(k, m)`` for ``k`` of them, which are solved one after another.

    Examples
    --------
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
    if array.dtype.kind not in "fiu":
        raise ValueError(f"{name} must be real numbers, got {described(value)}")
    array = array.astype(np.float64)
    if array.ndim != ndim or array.size == 0:
        raise ValueError(f"{name} must have {ndim} axes and some entries, got shape {array.shape}")
    return array


def _require_finite(name: str, array: Array) -> None:
    traced = isinstance(array, jax.core.Tracer)
    if not traced and not np.all(finite := np.isfinite(array)):
        first = tuple(int(each) for each in np.argwhere(~finite)[0])
        raise ValueError(f"{name} must be finite, got {np.asarray(array)[first]} at {first}")


@jax.jit
@sequential_vmap  # type: ignore[untyped-decorator]
def _factorised(matrix: Array) -> tuple[Array, Array, Array]:
    """Scales of the rows, the factor of ``A A^T`` for the scaled rows, and its least pivot."""
    scales = power_of_two(norm(matrix))
    scaled = matrix / scales[:, None]
    factor = _factor(scaled, jnp.ones(scaled.shape[1]), 0.0)
    return scales, factor, jnp.min(jnp.square(jnp.diagonal(factor) / norm(scaled)))


@jax.jit
@sequential_vmap  # type: ignore[untyped-decorator]
def _solved(matrix: Array, scales: Array, factor: Array, right_hand_sides: Array) -> BasisPursuit:
    # One after another: on a CPU jaxlib's LU of a batch waits for threads of the very pool that it
    # runs in, for ever if as many programs do so at once as there are threads.
    scaled = matrix / scales[:, None]

    def alone(right_hand_side: Array) -> BasisPursuit:
        b = right_hand_side / scales
        shift = power_of_two(jnp.max(jnp.abs(b)))
        b = b / shift
        nearest = cho_solve((factor, True), b) @ scaled
        size = power_of_two(jnp.sum(jnp.abs(nearest)))
        found = _least_l1(_Equations(scaled, factor, b / size))
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


class _Equations(NamedTuple):
    """``A x = b``; ``A``, ``(m, d)``, has rows of norm about one. With a factor of ``A A^T``."""

    matrix: Array
    factor: Array
    right_hand_side: Array

    def restored(self, point: Array) -> Array:
        """The solution nearest to ``point``: ``x + A^T (A A^T)^{-1} (b - A x)``."""
        return point + cho_solve((self.factor, True), self.residual(point)) @ self.matrix

    def residual(self, point: Array) -> Array:
        """``b - A x``."""
        return self.right_hand_side - self.matrix @ point


class _Certified(NamedTuple):
    """The best seen: ``x`` and ``||x||_1``, a feasible ``y`` and ``<b, y>``; and steps taken."""

    point: Array
    value: Array
    dual: Array
    bound: Array
    steps: Array

    def with_point(self, equations: _Equations, point: Array) -> _Certified:
        """The better of two points; one that misses the equations is not taken."""
        value = jnp.sum(jnp.abs(point))
        missed = jnp.max(jnp.abs(equations.residual(point)))
        better = (value < self.value) & (missed <= MAX_RESIDUAL * value)
        return self._replace(
            point=jnp.where(better, point, self.point), value=jnp.where(better, value, self.value)
        )

    def with_dual(self, equations: _Equations, dual: Array) -> _Certified:
        """The better of two dual points, the new one scaled until it is feasible."""
        dual = dual / jnp.maximum(1.0, jnp.max(jnp.abs(dual @ equations.matrix)))
        bound = inner(equations.right_hand_side, dual)
        better = bound > self.bound
        return self._replace(
            dual=jnp.where(better, dual, self.dual), bound=jnp.where(better, bound, self.bound)
        )


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
    def weights(self) -> Array:
        """The diagonal of ``D``."""
        return self.positive / self.below + self.negative / self.above

    @property
    def complementarity(self) -> Array:
        return inner(self.positive, self.below) + inner(self.negative, self.above)


def _least_l1(equations: _Equations) -> _Certified:
    """``argmin ||x||_1`` subject to ``A x = b``, for a ``b`` with ``||A^+ b||_1`` about one."""

    def step(state: tuple[_Iterate, _Certified]) -> tuple[_Iterate, _Certified]:
        at, best = state
        at = _moved(equations, at)
        near = at.complementarity <= MAX_POLISHED_GAP * best.value
        best = jax.lax.cond(
            near, lambda at, best: _polished(equations, at, best), lambda _, best: best, at, best
        )
        return at, best._replace(steps=best.steps + 1)

    def unfinished(state: tuple[_Iterate, _Certified]) -> Array:
        at, best = state
        more = at.complementarity > MIN_COMPLEMENTARITY * best.value
        return more & (best.value - best.bound > TARGET_GAP * best.value) & (best.steps < MAX_STEPS)

    return jax.lax.while_loop(unfinished, step, (_begun(equations), _nearest(equations)))[1]


def _nearest(equations: _Equations) -> _Certified:
    """The solution of least Euclidean norm, and no dual point."""
    none = jnp.zeros_like(equations.right_hand_side)
    solution = equations.restored(jnp.zeros(equations.matrix.shape[1]))
    value = jnp.sum(jnp.abs(solution))
    return _Certified(solution, value, none, jnp.zeros_like(value), jnp.zeros((), int))


def _begun(equations: _Equations) -> _Iterate:
    """The least-squares solution, moved off the axes, and the dual point along it."""
    weights = cho_solve((equations.factor, True), equations.right_hand_side)
    point = weights @ equations.matrix
    largest = jnp.max(jnp.abs(point))
    unit = jnp.where(largest > 0.0, largest, 1.0)
    depth, z = START_DEPTH * unit, START_DUAL * point / unit
    dual = START_DUAL * weights / unit
    positive, negative = (jnp.maximum(each, 0.0) + depth for each in (point, -point))
    return _Iterate(positive, negative, dual, 1.0 - z, 1.0 + z)


def _factor(matrix: Array, weights: Array, regularisation: float) -> Array:
    """The factor of ``A D A^T``, of which a quarter above the diagonal is not computed."""
    half, rest = matrix[: (rows := matrix.shape[0]) // 2], matrix[rows // 2 :]
    first = (half * weights[None]) @ half.T
    second = (rest * weights[None]) @ matrix.T
    normal = jnp.concatenate([jnp.pad(first, ((0, 0), (0, rows - rows // 2))), second])
    normal = normal + jnp.diag(regularisation * jnp.diagonal(normal))
    return jax.lax.linalg.cholesky(normal, symmetrize_input=False)


def _moved(equations: _Equations, at: _Iterate) -> _Iterate:
    """One step: a predictor and a corrector, both with the factor of ``A D A^T``."""
    matrix, (p, q, y, below, above) = equations.matrix, at
    factor, residual = _factor(matrix, at.weights, REGULARISATION), equations.residual(at.point)

    def direction(first: Array, second: Array) -> tuple[Array, Array, Array, Array]:
        """Moves of ``p, q, y, z`` by which ``p (1 - z)`` and ``q (1 + z)`` move by these."""
        dual = cho_solve((factor, True), residual - matrix @ (first / below - second / above))
        z = dual @ matrix
        return (first + p * z) / below, (second - q * z) / above, dual, z

    def lengths(positive: Array, negative: Array, z: Array) -> tuple[Array, Array]:
        """The largest primal and dual steps."""
        primal = jnp.minimum(_length(p, positive), _length(q, negative))
        return primal, jnp.minimum(_length(below, -z), _length(above, z))

    positive, negative, _, z = direction(-p * below, -q * above)
    primal, dual = lengths(positive, negative, z)
    left = inner(p + primal * positive, below - dual * z)
    left += inner(q + primal * negative, above + dual * z)
    gap = at.complementarity
    target = gap / (2 * p.size) * (left / gap) ** 3
    positive, negative, move, z = direction(
        target - p * below + positive * z, target - q * above - negative * z
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
    """The largest ``a <= 1`` with ``value + a move >= 0``."""
    return 1.0 / jnp.maximum(1.0, jnp.max(-move / value))


def _polished(equations: _Equations, at: _Iterate, best: _Certified) -> _Certified:
    """What is best of all that is known, of the interior point and of the corner near it."""
    point, dual = _corner(equations, at)
    best = best.with_point(equations, point).with_dual(equations, dual)
    restored = equations.restored(at.point)
    return best.with_point(equations, restored).with_dual(equations, at.dual)


def _corner(equations: _Equations, at: _Iterate) -> tuple[Array, Array]:
    """A solution with at most ``m`` numbers that are not 0, and a dual point beside it.

    The ``m`` coordinates ``J`` with the largest quotients ``|x_j|/(1 - |z_j|)`` are a guess of the
    support: ``A_J x_J = b`` is solved. The dual point is the ``y`` nearest to that of the interior
    point with ``z_j = (A^T y)_j`` the sign of every ``x_j`` that is not 0. If the guess is right
    this is an optimal pair, of a solution with fewer than ``m`` such numbers too: elsewhere ``z``
    was well inside ``[-1, 1]``, and hardly moves. Whether ``|A^T y| <= 1`` is not checked.
    """
    b, slack = equations.right_hand_side, jnp.minimum(at.below, at.above)
    _, support = jax.lax.top_k(jnp.abs(at.point) / slack, b.size)
    basis = equations.matrix[:, support]
    factor = lu_factor(basis)
    numbers = lu_solve(factor, b)
    numbers = numbers + lu_solve(factor, b - basis @ numbers)
    least = MIN_NUMBER * jnp.sum(jnp.abs(numbers))
    signs = jnp.where(jnp.abs(numbers) > least, jnp.sign(numbers), 0.0)
    vertex = jax.lax.cond(
        jnp.all(signs != 0.0),
        lambda: lu_solve(factor, signs, trans=1),
        lambda: _on_face(basis, signs, at.dual),
    )
    return jnp.zeros_like(at.point).at[support].set(numbers), vertex


def _on_face(matrix: Array, signs: Array, dual: Array) -> Array:
    """The ``y`` nearest to ``dual`` whose ``z_j`` are the ``signs`` that are not 0."""
    columns = matrix * jnp.abs(signs)[None]
    gram = columns.T @ columns + jnp.diag(1.0 - jnp.abs(signs))
    factor = jax.lax.linalg.cholesky(gram, symmetrize_input=False)
    for _ in range(2):
        dual = dual + columns @ cho_solve((factor, True), signs - dual @ columns)
    return dual

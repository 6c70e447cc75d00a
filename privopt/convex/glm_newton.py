"""Newton's method for several regularised generalised linear models that share data, certified."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float, Int

from privopt.arguments import checked
from privopt.convex.arrays import Number, broadcast, inner, norm
from privopt.convex.features import Features
from privopt.convex.losses import ScalarSlope
from privopt.convex.sets import ConstraintSet, L2Ball

MAX_ROUNDS = 30
SAMPLE_STRIDE = 16
MIN_SAMPLE = 16  # records in a sampled Hessian
MIN_HESSIAN_PROBLEMS = 4  # for this many problems a Hessian costs less than a step
MAX_EIGENPROBLEM = 1024  # larger decompositions cost more than they save
MAX_BASIS = 2**26  # numbers in a basis
FLAT_STEPS, SAMPLED_STEPS = 15, 40
MAX_RESIDUAL_RATIO = 0.2  # per step; above it a better Hessian is needed
MAX_SLOPE_RATIO = 0.5  # of the slopes at the end and at the start of an accepted step
MAX_MEMORY, MIN_MEMORY = 10, 5  # steps of Anderson mixing
MIN_MEMORY_PROBLEMS = 4  # from this number on the memory is short, because its cost is higher
BLOCK = 80_000  # numbers of a block that stays in the cache of a core
MULTIPLIER_STEPS = 30


class RegularisedGLM(NamedTuple):
    """Objectives ``J_k(w) = sum_i v_i phi(<x_i, w>, y_i) + (lambda_k/2) |w - c|^2 + <b_k, w>``.

    The problems share the data and differ in ``lambda`` and in the linear term. Points, linear
    terms and gradients have shape ``(k, dim)``; predictions and slopes have shape ``(k, n)``.

    Attributes
    ----------
    loss : pytree
        Convex ``phi`` with ``slope(prediction, label)``, elementwise. Its parameters are scalars or
        have shape ``(n,)``.
    features : Features
        ``x`` of shape ``(n, d)``.
    labels, weights : Array
        ``y`` and ``v >= 0``.
    regularisation, linear_terms, centre : Array
        ``lambda``, ``b`` and ``c``.
    """

    loss: ScalarSlope
    features: Features
    labels: Float[Array, " n"]
    weights: Float[Array, " n"]
    regularisation: Float[Array, " k"]
    linear_terms: Float[Array, "k d"]
    centre: Float[Array, " d"]

    def every(self, stride: int) -> RegularisedGLM:
        """Return the problem of every ``stride``-th record with weights times ``stride``."""

        def subsample(leaf: Array | float) -> Array:
            leaf = jnp.asarray(leaf)
            return leaf[::stride] if leaf.shape == self.labels.shape else leaf

        return self._replace(
            loss=jax.tree.map(subsample, self.loss),
            features=self.features.take(slice(None, None, stride)),
            labels=self.labels[::stride],
            weights=stride * self.weights[::stride],
        )

    def predictions(self, points: Float[Array, "k d"]) -> Float[Array, "k n"]:
        """Compute ``<x_i, w_k>``."""
        return self.features.matvec(points)

    def slopes(self, predictions: Float[Array, "k n"]) -> Float[Array, "k n"]:
        """Compute ``v_i phi'(z_ki, y_i)``."""
        return jax.vmap(lambda z: self.weights * self.loss.slope(z, self.labels))(predictions)

    def gradients(
        self, points: Float[Array, "k d"], slopes: Float[Array, "k n"]
    ) -> Float[Array, "k d"]:
        """Compute ``sum_i s_ki x_i + lambda_k (w_k - c) + b_k`` from the slopes ``s``."""
        offsets = points - self.centre[None]
        penalties = self.regularisation[:, None] * offsets
        return self.features.rmatvec(slopes) + penalties + self.linear_terms

    def curvatures(
        self,
        points: Float[Array, "k d"],
        reach: Float[Array, " k"],
        order: Int[Array, " k"],
        number: Int[Array, ""],
    ) -> Float[Array, " n"]:
        """Compute ``v_i (phi'(z_i + r) - phi'(z_i - r))/(2 r)``.

        This is the mean curvature over a step of length ``r``. If the slope has kinks at a smaller
        distance, it is more informative than ``phi''``, its limit. For several problems, each
        record is evaluated at one of the first ``number`` of ``order`` in turn, so the cost is
        independent of their number.
        """
        if points.shape[0] == 1:
            predictions, radius = self.predictions(points)[0], reach[0]
        else:
            problem = order[jnp.arange(self.labels.size) % number]
            predictions, radius = self.features.paired(points, problem), reach[problem]
        upper, lower = (self.slopes((predictions + r)[None])[0] for r in (radius, -radius))
        return jnp.maximum(upper - lower, 0.0) / (2.0 * radius)


class GLMSolution(NamedTuple):
    """Points of the set with their :func:`projected_residuals`.

    On the whole space the residuals are ``|grad J_k|``.
    """

    points: Float[Array, "k d"]  # float64
    residuals: Float[Array, " k"]
    steps: Int[Array, ""]  # of each problem; a step costs two products with the data


@checked
def newton_glm(
    glm: RegularisedGLM,
    constraint: ConstraintSet,
    start: Float[Array, " d"],
    *,
    smoothness: Float[Array, " k"],
    tolerance: Float[Array, " k"],
) -> GLMSolution:
    """Compute ``argmin_{w in W} J_k(w)`` for all ``k`` at once, in bounded time.

    *Method.* A step minimises the model ``<g, s> + s^T (a H + lambda_k) s/2`` over ``W`` if it is a
    ball, and over the whole space otherwise. All problems share ``H`` in its eigenbasis. For few
    problems ``H`` is first a multiple of the identity, as long as progress is fast, then the
    Hessian of every 16th record. After that it is the Hessian at the unfinished points, updated
    repeatedly. Steps are combined by Anderson mixing. A step that is too long is rejected and
    increases the factor ``a`` of its problem.

    Convergence is not guaranteed. ``residuals`` reports the result, which is never worse than at
    the start, and the caller must compare it with its tolerance.

    ``constraint`` is ``W`` and contains ``start``. ``smoothness`` contains
    ``beta_k`` of the whole ``J_k``, and ``tolerance`` refers to ``residuals``.
    """
    problem = _Problem(glm, constraint, smoothness, tolerance)
    rounds = _rounds(problem)
    first = problem.init(start)

    def round_(carry: tuple[_Iterates, Array]) -> tuple[_Iterates, Array]:
        state, number = carry
        kind = jnp.minimum(number, len(rounds) - 1)
        hessian = jax.lax.switch(kind, [each.hessian for each in rounds], state, number)
        steps, pace = (jnp.asarray([each[i] for each in rounds])[kind] for i in (1, 2))
        state = state._replace(stretch=jnp.ones_like(state.stretch))
        return _descend(problem, state, hessian, steps, pace), number + 1

    def unfinished(carry: tuple[_Iterates, Array]) -> Array:
        return jnp.any(carry[0].residuals > tolerance) & (carry[1] < MAX_ROUNDS)

    last, _ = jax.lax.while_loop(unfinished, round_, (first, jnp.zeros((), int)))
    better = last.residuals <= first.residuals
    points = jnp.where(better[:, None], last.points, first.points)
    return GLMSolution(points, jnp.where(better, last.residuals, first.residuals), last.steps)


def projected_residuals(
    constraint: ConstraintSet,
    points: Float[Array, "k d"],
    gradients: Float[Array, "k d"],
    smoothness: Float[Array, " k"],
) -> Float[Array, " k"]:
    """Compute ``beta |w - Proj_W(w - grad J(w)/beta)|``, at least ``lambda |w - argmin_W J|``.

    ``points`` are in ``W``, and ``gradients`` are ``grad J_k``. Proof:
    :ref:`Solvers, Theorem 5 <theory-solvers-5>`.
    """
    targets = constraint.project(points - gradients / smoothness[:, None])
    return smoothness * norm(points - targets)


class _Iterates(NamedTuple):
    """Iterates of all problems; ``stretch`` is the factor ``a`` of the Hessian of each."""

    points: Array
    gradients: Array
    residuals: Array
    steps: Array
    stretch: Array
    length: Array  # of the last step


class _Problem(NamedTuple):
    """Constant data of the iteration."""

    glm: RegularisedGLM
    constraint: ConstraintSet
    smoothness: Array
    tolerance: Array

    def evaluate(self, points: Array, predictions: Array) -> tuple[Array, Array]:
        """Compute gradients and residuals at points of the set."""
        gradients = self.glm.gradients(points, self.glm.slopes(predictions))
        return gradients, projected_residuals(self.constraint, points, gradients, self.smoothness)

    def init(self, start: Array) -> _Iterates:
        points = jnp.broadcast_to(start, self.glm.linear_terms.shape)
        zeros = jnp.zeros((points.shape[0], self.glm.labels.size))
        predictions = jax.lax.cond(  # most runs start at the origin
            jnp.any(start != 0.0), self.glm.predictions, lambda _: zeros, points
        )
        ones = jnp.ones(points.shape[0])
        return _Iterates(
            points, *self.evaluate(points, predictions), jnp.zeros_like(ones, int), ones, ones
        )


class _Round(NamedTuple):
    """Round of ``steps`` steps, or until no step reduces a residual by the factor ``pace``."""

    hessian: Callable[[_Iterates, Array], SharedHessian]  # of iterates and round number
    steps: int
    pace: float


def _rounds(problem: _Problem) -> list[_Round]:
    """Return the sequence of rounds; the last one is repeated."""
    glm, count = problem.glm, problem.tolerance.size
    rows, dim = glm.features.shape
    stride = max(SAMPLE_STRIDE, -(-rows * dim // MAX_BASIS))
    if dim > MAX_EIGENPROBLEM:
        stride = max(stride, -(-rows // MAX_EIGENPROBLEM))
    whole = min(rows, dim) <= MAX_EIGENPROBLEM
    sampled = count < MIN_HESSIAN_PROBLEMS and rows >= MIN_SAMPLE * SAMPLE_STRIDE
    rank = min(rows, dim) if whole else min(-(-rows // stride), dim)

    def curvatures(sample: RegularisedGLM, state: _Iterates, number: Array) -> Array:
        reach = jnp.clip(state.length / math.sqrt(dim), 1e-7, 1.0)
        used = jnp.where(number < 6, jnp.sum(state.residuals > problem.tolerance), 1)
        order = jnp.argsort(-state.residuals)
        return sample.curvatures(state.points, reach, order, jnp.maximum(used, 1))

    def flat(state: _Iterates, number: Array) -> SharedHessian:
        sample = glm.every(stride) if sampled else glm
        gradient = state.gradients[jnp.argmax(state.residuals)]
        size = norm(gradient)
        along = sample.predictions((gradient / jnp.where(size > 0.0, size, 1.0))[None])[0]
        level = jnp.sum(curvatures(sample, state, number) * jnp.square(along))
        return SharedHessian(jnp.zeros(rank), jnp.zeros((dim, rank)), level, jnp.ones((), bool))

    def of_sample(state: _Iterates, number: Array) -> SharedHessian:
        sample = glm.every(stride)
        return _sampled_hessian(sample.features, curvatures(sample, state, number), rank)

    def of_all(state: _Iterates, number: Array) -> SharedHessian:
        return _whole_hessian(glm.features, curvatures(glm, state, number), rank)

    rounds = [_Round(flat, FLAT_STEPS, MAX_RESIDUAL_RATIO)] if count < MIN_HESSIAN_PROBLEMS else []
    if sampled or not whole:
        rounds.append(_Round(of_sample, SAMPLED_STEPS, math.inf))
    if whole:  # the steps cost about as much as the Hessian
        rounds.append(_Round(of_all, 8 + dim // (16 * count), math.inf))
    return rounds


def _descend(
    problem: _Problem, state: _Iterates, hessian: SharedHessian, steps: Array, pace: Array
) -> _Iterates:
    """Take at most ``steps`` steps for every unfinished problem."""
    _Carry = tuple[_Iterates, _Mixing, Array, Array]

    def unfinished(carry: _Carry) -> Array:
        state, _, previous, number = carry
        active = (state.residuals > problem.tolerance) & (state.residuals <= pace * previous)
        return jnp.any(active) & (number < steps)

    def step(carry: _Carry) -> _Carry:
        state, mixing, _, number = carry
        return *_step(problem, state, mixing, hessian), state.residuals, number + 1

    previous = jnp.full_like(state.residuals, jnp.inf)
    first = (state, _Mixing.init(state.points), previous, jnp.zeros((), int))
    return jax.lax.while_loop(unfinished, step, first)[0]


def _step(
    problem: _Problem, state: _Iterates, mixing: _Mixing, hessian: SharedHessian
) -> tuple[_Iterates, _Mixing]:
    """Take one step; if it is too long, reject it, increase the Hessian and clear the memory."""
    glm, active = problem.glm, state.residuals > problem.tolerance
    mixed, mixing = mixing.update(state.points, _newton_steps(problem, state, hessian))
    trial = problem.constraint.project(state.points + mixed)
    gradients, residuals = problem.evaluate(trial, glm.predictions(trial))
    move = trial - state.points
    slope, end_slope = inner(state.gradients, move), inner(gradients, move)
    short = (slope < 0.0) & (end_slope <= -MAX_SLOPE_RATIO * slope)
    good = short | (residuals <= state.residuals)
    accepted = active & good

    def stretched() -> Array:
        model = hessian.squared_norms(move)
        measured = end_slope - slope - glm.regularisation * inner(move, move)
        ratio = measured / jnp.where(model > 0.0, model, 1.0)
        longer = jnp.maximum(2.0 * state.stretch, jnp.where(jnp.isfinite(ratio), ratio, 0.0))
        return jnp.where(good | ~active, state.stretch, longer)

    stretch = jax.lax.cond(jnp.all(good | ~active), lambda: state.stretch, stretched)
    return _Iterates(
        jnp.where(accepted[:, None], trial, state.points),
        jnp.where(accepted[:, None], gradients, state.gradients),
        jnp.where(accepted, residuals, state.residuals),
        state.steps + active.astype(int),
        stretch,
        jnp.where(accepted, norm(move), state.length),
    ), mixing.cleared_unless(good)


class _Mixing(NamedTuple):
    """State of Anderson mixing for ``k`` problems: last point and step, and past differences.

    Shapes are ``(k, dim)`` and, for the differences, ``(k, memory, dim)``, latest last.
    """

    point: Array
    step: Array
    points: Array
    steps: Array

    @classmethod
    def init(cls, points: Array) -> _Mixing:
        memory = MAX_MEMORY if points.shape[0] < MIN_MEMORY_PROBLEMS else MIN_MEMORY
        none = jnp.zeros((points.shape[0], memory, points.shape[1]))
        return cls(points, jnp.zeros_like(points), none, none)

    def update(self, points: Array, steps: Array) -> tuple[Array, _Mixing]:
        """Compute ``s - (dW + dS) gamma`` with ``gamma`` the least squares of ``s - dS gamma``.

        Source: Walker and Ni 2011, "Anderson acceleration for fixed-point iterations", SIAM Journal
        on Numerical Analysis (doi:10.1137/10078356X).
        """
        move, change = points - self.point, steps - self.step
        valid = jnp.any(move != 0.0, axis=-1) & jnp.any(self.step != 0.0, axis=-1)
        move, change = (jnp.where(valid[:, None], each, 0.0) for each in (move, change))
        moves = jnp.concatenate([self.points[:, 1:], move[:, None]], axis=1)
        changes = jnp.concatenate([self.steps[:, 1:], change[:, None]], axis=1)
        sizes = jnp.sqrt(inner(changes, changes))
        sizes = jnp.where(sizes > 0.0, sizes, 1.0)
        units = changes / sizes[:, :, None]
        normal = units @ jnp.swapaxes(units, 1, 2) + 1e-12 * jnp.eye(units.shape[1])[None]
        right = jnp.einsum("kmd,kd->km", units, steps)
        weights = jnp.linalg.solve(normal, right[:, :, None])[:, :, 0]
        mixed = steps - jnp.einsum("km,kmd->kd", weights / sizes, moves + changes)
        mixed = jnp.where(jnp.isfinite(mixed).all(axis=-1, keepdims=True), mixed, steps)
        return mixed, _Mixing(points, steps, moves, changes)

    def cleared_unless(self, good: Array) -> _Mixing:
        """Clear the memory of the problems that are not ``good``, shape ``(k,)``."""
        factor = good[:, None, None].astype(self.points.dtype)
        return self._replace(points=factor * self.points, steps=factor * self.steps)


class SharedHessian(NamedTuple):
    """Approximate Hessian ``H = Q diag(h) Q^T + l (I - Q Q^T)``.

    ``vectors`` is ``Q``; its columns are orthonormal or zero.
    """

    values: Float[Array, " rank"]  # h
    vectors: Float[Array, "d rank"]
    level: Float[Array, ""]  # l >= 0, the curvature in all other directions
    flat: Bool[Array, ""]  # True if H = l I; products with Q are then omitted

    def coordinates(self, vectors: Float[Array, "k d"]) -> Float[Array, "k rank"]:
        """Compute ``v Q``."""
        zeros = jnp.zeros((vectors.shape[0], self.values.size))
        return jax.lax.cond(self.flat, lambda: zeros, lambda: vectors @ self.vectors)

    def combined(self, coordinates: Float[Array, "k rank"]) -> Float[Array, "k d"]:
        """Compute ``z Q^T``."""
        zeros = jnp.zeros((coordinates.shape[0], self.vectors.shape[0]))
        return jax.lax.cond(self.flat, lambda: zeros, lambda: coordinates @ self.vectors.T)

    def squared_norms(self, vectors: Float[Array, "k d"]) -> Float[Array, " k"]:
        """Compute ``v^T H v``."""
        squares = jnp.square(self.coordinates(vectors))
        rest = self.level * jnp.sum(jnp.square(vectors), axis=-1)
        return rest + squares @ (self.values - self.level)


def _whole_hessian(features: Features, curvatures: Array, rank: int) -> SharedHessian:
    """Decompose ``X^T diag(h) X`` by the smaller of two eigenproblems; ``rank >= min(n, dim)``."""
    products = gram(features, curvatures)
    products = jnp.where(jnp.isfinite(products).all(), products, 0.0)
    values, vectors = jnp.linalg.eigh(products)
    values = jnp.maximum(values, 0.0)
    level = values[-1]  # there are no other directions; 0 would lose digits
    if features.shape[0] < features.shape[1]:
        nonzero = values > 1e-12 * values[-1]
        inverse = jnp.where(nonzero, 1.0 / jnp.sqrt(jnp.where(nonzero, values, 1.0)), 0.0)
        weights = jnp.sqrt(curvatures)[:, None] * vectors * inverse[None]
        vectors = features.rmatvec(weights.T).T
        level = jnp.zeros(())
    missing = rank - values.size
    values, vectors = jnp.pad(values, (0, missing)), jnp.pad(vectors, ((0, 0), (0, missing)))
    return SharedHessian(values, vectors, level, jnp.zeros((), bool))


def _sampled_hessian(features: Features, curvatures: Array, rank: int) -> SharedHessian:
    """Decompose ``X^T diag(h) X`` of a sample, shrunk to ``(1 - rho) H + rho (tr H/d) I``.

    ``rho`` is optimal for Gaussian samples. Source: Chen, Wiesel, Eldar and Hero 2010, "Shrinkage
    algorithms for MMSE covariance estimation", equation 23 (arXiv:0907.4698).
    """
    size, dim = features.shape
    hessian = _whole_hessian(features, curvatures, rank)
    trace, square = jnp.sum(hessian.values), jnp.sum(jnp.square(hessian.values))
    spread = (size + 1.0 - 2.0 / dim) * (square - trace**2 / dim)
    noise = (1.0 - 2.0 / dim) * square + trace**2
    shrinkage = jnp.where(spread > noise, noise / jnp.where(spread > noise, spread, 1.0), 1.0)
    level = shrinkage * trace / dim
    return hessian._replace(values=(1.0 - shrinkage) * hessian.values + level, level=level)


def _newton_steps(problem: _Problem, state: _Iterates, hessian: SharedHessian) -> Array:
    """Minimise ``<g_k, s> + s^T (a_k H + lambda_k I) s/2``; in a ball with ``|y_k + s| <= R``.

    ``y`` is the offset from the centre. The multiplier ``nu`` of the ball solves ``|y + s(nu)| =
    R`` for ``(a H + (lambda + nu) I) s = -(g + nu y)``, by Newton's method on ``1/|y + s|``.
    """
    constraint, regularisation = problem.constraint, problem.glm.regularisation
    curvatures = state.stretch[:, None] * hessian.values[None] + regularisation[:, None]
    level = (state.stretch * hessian.level + regularisation)[:, None]
    gradients = state.gradients
    coordinates = hessian.coordinates(gradients)
    multiplier = jnp.zeros_like(level)
    if isinstance(constraint, L2Ball):
        offsets = state.points - broadcast(constraint.centre, state.points)
        inside = hessian.coordinates(offsets)
        aims = curvatures * inside - coordinates
        rest = jnp.sum(jnp.square(level * offsets - gradients), axis=-1, keepdims=True)
        rest -= jnp.sum(jnp.square(level * inside - coordinates), axis=-1, keepdims=True)
        rest = jnp.maximum(rest, 0.0)
        multiplier = _multiplier(curvatures, level, aims, rest, constraint.radius)
        gradients = gradients + multiplier * offsets
        coordinates = coordinates + multiplier * inside
    outside = 1.0 / (level + multiplier)
    corrections = coordinates * (1.0 / (curvatures + multiplier) - outside)
    return -outside * gradients - hessian.combined(corrections)


def _multiplier(curvatures: Array, level: Array, aims: Array, rest: Array, radius: Number) -> Array:
    """Solve ``|(A + nu)^{-1} p| <= R`` for ``nu >= 0``; ``rest`` is ``|p|^2`` outside ``Q``."""

    def squared(multiplier: Array, power: int) -> Array:
        inside = jnp.sum(jnp.square(aims) / (curvatures + multiplier) ** power, -1, keepdims=True)
        return inside + rest / (level + multiplier) ** power

    def improve(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        multiplier, square, count = carry
        derivative = squared(multiplier, 3)
        derivative = jnp.where(derivative > 0.0, derivative, 1.0)
        increment = (jnp.sqrt(square) / radius - 1.0) * square / derivative
        multiplier = jnp.maximum(multiplier + increment, 0.0)
        return multiplier, squared(multiplier, 2), count + 1

    def outside(carry: tuple[Array, Array, Array]) -> Array:
        far = jnp.sqrt(carry[1]) > radius * (1.0 + 1e-13)
        return jnp.any(far) & (carry[2] < MULTIPLIER_STEPS)

    none = jnp.zeros_like(level)
    first = (none, squared(none, 2), jnp.zeros((), int))
    return jax.lax.while_loop(outside, improve, first)[0]


def explicit_hessian(features: Features, curvatures: Float[Array, " n"]) -> Float[Array, "d d"]:
    """Compute ``X^T diag(h) X`` in blocks of rows; ``h X`` would be a second copy of the data."""
    rows, dim = features.shape
    size = min(rows, max(dim // 4, BLOCK // dim, 1))

    def add(i: Array, sums: Array) -> Array:
        start = jnp.minimum(i * size, rows - size)  # the last block overlaps the previous one
        x = features.block(start, size)
        new = start + jnp.arange(size) >= i * size
        h = jnp.where(new, jax.lax.dynamic_slice_in_dim(curvatures, start, size), 0.0)
        # The barrier fixes the memory layout; otherwise the product takes twice as long on a CPU.
        return sums + jax.lax.optimization_barrier((h[:, None] * x).T) @ x

    return jax.lax.fori_loop(0, -(-rows // size), add, jnp.zeros((dim, dim)))


def gram(features: Features, curvatures: Float[Array, " n"]) -> Float[Array, "d d"]:
    """Compute the smaller of ``A^T A`` and ``A A^T`` for ``A = diag(h)^{1/2} X``."""
    rows, dim = features.shape
    if dim <= rows:
        return explicit_hessian(features, curvatures)
    size, root = min(rows, max(BLOCK // dim, 1)), jnp.sqrt(curvatures)

    def put(i: Array, products: Array) -> Array:
        start = jnp.minimum(i * size, rows - size)
        new = features.matvec(features.block(start, size))
        return jax.lax.dynamic_update_slice_in_dim(products, new, start, 0)

    products = jax.lax.fori_loop(0, -(-rows // size), put, jnp.zeros((rows, rows)))
    return root[:, None] * products * root[None]

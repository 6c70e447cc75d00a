"""Regularised generalised linear models (GLMs), several at once, and a Hessian that they share."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from privopt.convex.features import Features
from privopt.convex.losses import ScalarSlope
from privopt.convex.vectors import Number


class RegularisedGLM(NamedTuple):
    """``J_k(w) = sum_i v_i phi(<x_i, w>, y_i) + (lambda_k/2) |w - c|^2 + <b_k, w>``, ``k`` of them.

    The problems share the data and differ in ``lambda`` and in the linear term. Points, linear
    terms and gradients have shape ``(k, dim)``; predictions and slopes ``(k, n)``.

    Attributes
    ----------
    loss : pytree
        Convex ``phi`` with ``slope(prediction, label)``, elementwise; its numbers are scalars
        or of shape ``(n,)``, one a record.
    features : Features
        ``x`` of shape ``(n, dim)``.
    labels, weights : Array
        ``y`` and ``v >= 0`` of shape ``(n,)``.
    regularisation, linear_terms, centre : Array
        ``lambda`` of shape ``(k,)``, ``b`` of shape ``(k, dim)``, ``c`` of shape ``(dim,)``.
    """

    loss: ScalarSlope
    features: Features
    labels: Array
    weights: Array
    regularisation: Array
    linear_terms: Array
    centre: Array

    def every(self, stride: int) -> RegularisedGLM:
        """Every ``stride``-th record, that many times; numbers of the loss go with theirs."""

        def some(leaf: Array | float) -> Array:
            leaf = jnp.asarray(leaf)
            return leaf[::stride] if leaf.shape == self.labels.shape else leaf

        return self._replace(
            loss=jax.tree.map(some, self.loss),
            features=self.features.take(slice(None, None, stride)),
            labels=self.labels[::stride],
            weights=stride * self.weights[::stride],
        )

    def predictions(self, points: Array) -> Array:
        """``<x_i, w_k>``."""
        return self.features.matvec(points)

    def slopes(self, predictions: Array) -> Array:
        """``v_i phi'(z_ki, y_i)``."""
        return jax.vmap(lambda z: self.weights * self.loss.slope(z, self.labels))(predictions)

    def gradients(self, points: Array, slopes: Array) -> Array:
        """``sum_i s_ki x_i + lambda_k (w_k - c) + b_k``, ``s`` the slopes at these points."""
        away = points - self.centre[None]
        return (
            self.features.rmatvec(slopes) + self.regularisation[:, None] * away + self.linear_terms
        )

    def curvatures(self, points: Array, reach: Array, order: Array, number: Array) -> Array:
        """``v_i (phi'(z_i + r) - phi'(z_i - r))/(2 r)``, shape ``(n,)``; the mean over problems.

        What a step of that reach meets on average: where the slope has kinks closer than that, it
        says more than ``phi''``, which it tends to. Of several problems each record looks at one
        in turn: slopes cost what those of a single problem do.

        Those looked at are the first ``number`` of ``order``; ``points`` and ``reach`` have shapes
        ``(k, dim)`` and ``(k,)``.
        """
        if points.shape[0] == 1:
            predictions, near = self.predictions(points)[0], reach[0]
        else:
            problem = order[jnp.arange(self.labels.size) % number]
            predictions, near = self.features.paired(points, problem), reach[problem]
        ahead, behind = (self.slopes((predictions + r)[None])[0] for r in (near, -near))
        return jnp.maximum(ahead - behind, 0.0) / (2.0 * near)


BLOCK = 80_000  # numbers, that a block stays in the cache of a core
MULTIPLIER_STEPS = 30


class SharedHessian(NamedTuple):
    """``H = Q diag(h) Q^T + l (I - Q Q^T)``.

    ``vectors`` are ``Q``, shape ``(dim, rank)``, with orthonormal columns or columns that are 0.
    """

    values: Array  # h, shape (rank,)
    vectors: Array
    level: Array  # l >= 0, the curvature in all other directions
    flat: Array  # whether H = l I: products with Q are then left out

    def coordinates(self, vectors: Array) -> Array:
        """``v Q``, shape ``(k, rank)``."""
        zeros = jnp.zeros((vectors.shape[0], self.values.size))
        return jax.lax.cond(self.flat, lambda: zeros, lambda: vectors @ self.vectors)

    def combined(self, coordinates: Array) -> Array:
        """``z Q^T``, shape ``(k, dim)``."""
        zeros = jnp.zeros((coordinates.shape[0], self.vectors.shape[0]))
        return jax.lax.cond(self.flat, lambda: zeros, lambda: coordinates @ self.vectors.T)

    def squared_norms(self, vectors: Array) -> Array:
        """``v^T H v``, shape ``(k,)``."""
        squares = jnp.square(self.coordinates(vectors))
        rest = self.level * jnp.sum(jnp.square(vectors), axis=-1)
        return rest + squares @ (self.values - self.level)


def flat_hessian(level: Array, dim: int, rank: int) -> SharedHessian:
    """``l I``."""
    return SharedHessian(jnp.zeros(rank), jnp.zeros((dim, rank)), level, jnp.ones((), bool))


def whole_hessian(features: Features, curvatures: Array, rank: int) -> SharedHessian:
    """``X^T diag(h) X``, of the smaller of two eigenproblems; ``rank >= min(n, dim)``.

    ``features`` are ``X``, shape ``(n, dim)``, ``curvatures`` ``h >= 0``, shape ``(n,)``.
    """
    products = gram(features, curvatures)
    products = jnp.where(jnp.isfinite(products).all(), products, 0.0)
    values, vectors = jnp.linalg.eigh(products)
    values = jnp.maximum(values, 0.0)
    level = values[-1]  # of no direction; 0 would only cost digits
    if features.shape[0] < features.shape[1]:
        real = values > 1e-12 * values[-1]
        inverse = jnp.where(real, 1.0 / jnp.sqrt(jnp.where(real, values, 1.0)), 0.0)
        shares = jnp.sqrt(curvatures)[:, None] * vectors * inverse[None]
        vectors = features.rmatvec(shares.T).T
        level = jnp.zeros(())
    missing = rank - values.size
    return SharedHessian(
        jnp.pad(values, (0, missing)),
        jnp.pad(vectors, ((0, 0), (0, missing))),
        level,
        jnp.zeros((), bool),
    )


def sampled_hessian(features: Features, curvatures: Array, rank: int) -> SharedHessian:
    """The same where the records stand for many more.

    Their Hessian is shrunk towards a multiple of the identity, ``(1 - rho) H + rho (tr H/d) I``,
    with what is best for a Gaussian sample. Source: Chen, Wiesel, Eldar and Hero 2010, "Shrinkage
    algorithms for MMSE covariance estimation", equation 23 (arXiv:0907.4698).
    """
    size, dim = features.shape
    found = whole_hessian(features, curvatures, rank)
    trace, square = jnp.sum(found.values), jnp.sum(jnp.square(found.values))
    spread = (size + 1.0 - 2.0 / dim) * (square - trace**2 / dim)
    noise = (1.0 - 2.0 / dim) * square + trace**2
    share = jnp.where(spread > noise, noise / jnp.where(spread > noise, spread, 1.0), 1.0)
    level = share * trace / dim
    return found._replace(values=(1.0 - share) * found.values + level, level=level)


def newton_steps(
    hessian: SharedHessian,
    stretch: Array,
    regularisation: Array,
    gradients: Array,
    offsets: Array | None,
    radius: Number,
) -> Array:
    """Minimisers ``s_k`` of ``<g_k, s> + s^T (a_k H + lambda_k I) s/2`` over a ball.

    The ball is ``|y_k + s| <= R``. Its multiplier ``nu`` solves one equation, ``|y + s(nu)| = R``
    for ``(a H + (lambda + nu) I) s = -(g + nu y)``, by Newton's method on ``1/|y + s|``.

    ``stretch`` and ``regularisation`` are ``a`` and ``lambda``, shape ``(k,)``; ``gradients`` and
    ``offsets`` are ``g`` and ``y``, shape ``(k, dim)``. Without ``y`` there is no ball.
    """
    curvatures = stretch[:, None] * hessian.values[None] + regularisation[:, None]
    level = (stretch * hessian.level + regularisation)[:, None]
    coordinates = hessian.coordinates(gradients)
    multiplier = jnp.zeros_like(level)
    if offsets is not None:
        inner = hessian.coordinates(offsets)
        aims = curvatures * inner - coordinates
        rest = jnp.sum(jnp.square(level * offsets - gradients), axis=-1, keepdims=True)
        rest -= jnp.sum(jnp.square(level * inner - coordinates), axis=-1, keepdims=True)
        multiplier = _multiplier(curvatures, level, aims, jnp.maximum(rest, 0.0), radius)
        gradients = gradients + multiplier * offsets
        coordinates = coordinates + multiplier * inner
    outside = 1.0 / (level + multiplier)
    inside = coordinates * (1.0 / (curvatures + multiplier) - outside)
    return -outside * gradients - hessian.combined(inside)


def _multiplier(curvatures: Array, level: Array, aims: Array, rest: Array, radius: Number) -> Array:
    """``nu >= 0`` with ``|(A + nu)^{-1} p| <= R``, ``(k, 1)``; ``rest`` is ``|p|^2`` outside Q."""

    def squared(multiplier: Array, power: int) -> Array:
        """``p^T (A + nu)^{-power} p``."""
        inside = jnp.sum(jnp.square(aims) / (curvatures + multiplier) ** power, -1, keepdims=True)
        return inside + rest / (level + multiplier) ** power

    def better(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        multiplier, square, count = carry
        bend = squared(multiplier, 3)
        bend = jnp.where(bend > 0.0, bend, 1.0)
        longer = (jnp.sqrt(square) / radius - 1.0) * square / bend
        multiplier = jnp.maximum(multiplier + longer, 0.0)
        return multiplier, squared(multiplier, 2), count + 1

    def outside(carry: tuple[Array, Array, Array]) -> Array:
        far = jnp.sqrt(carry[1]) > radius * (1.0 + 1e-13)
        return jnp.any(far) & (carry[2] < MULTIPLIER_STEPS)

    none = jnp.zeros_like(level)
    first = (none, squared(none, 2), jnp.zeros((), int))
    return jax.lax.while_loop(outside, better, first)[0]


def explicit_hessian(features: Features, curvatures: Array) -> Array:
    """``X^T diag(h) X``, shape ``(dim, dim)``, in blocks of rows.

    A whole ``h X`` would be a second copy of the data, whose memory alone costs many products.
    """
    rows, dim = features.shape
    size = min(rows, max(dim // 4, BLOCK // dim, 1))

    def add(i: Array, sums: Array) -> Array:
        start = jnp.minimum(i * size, rows - size)  # the last block overlaps the one before
        x = features.block(start, size)
        new = start + jnp.arange(size) >= i * size
        h = jnp.where(new, jax.lax.dynamic_slice_in_dim(curvatures, start, size), 0.0)
        # laid out as it is read: a product with rows apart takes twice as long on a CPU
        return sums + jax.lax.optimization_barrier((h[:, None] * x).T) @ x

    return jax.lax.fori_loop(0, -(-rows // size), add, jnp.zeros((dim, dim)))


def gram(features: Features, curvatures: Array) -> Array:
    """The smaller of ``A^T A`` and ``A A^T``."""
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

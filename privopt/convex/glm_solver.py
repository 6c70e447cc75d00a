"""Minimisers of regularised generalised linear models within a convex set, to a tolerance."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from privopt.convex.accelerated import accelerated_descent
from privopt.convex.certificate import ROUND_OFF
from privopt.convex.constraint import ConstraintSet
from privopt.convex.glm_newton import GLMSolution, newton_glm, projected_residuals
from privopt.convex.regularised_glm import RegularisedGLM, float64_array, positive_array
from privopt.convex.sets import WholeSpace
from privopt.convex.vectors import norm

__all__ = ["minimise_glm"]


def minimise_glm(
    glm: RegularisedGLM,
    constraint: ConstraintSet | None = None,
    start: ArrayLike | None = None,
    *,
    smoothness: float,
    feature_bound: ArrayLike = 1.0,
    tolerance: ArrayLike = 1e-10,
) -> GLMSolution:
    """``argmin_{w in W} J_k(w)`` for all ``k`` at once, to residuals of ``tolerance``.

    Pure: on NumPy or JAX arrays on the host, or inside ``jit`` and ``vmap``. :func:`newton_glm`,
    and accelerated descent where something remains; on the host that is a program of its own.

    Parameters
    ----------
    glm : RegularisedGLM
        ``J``, with ``lambda > 0``: see :meth:`RegularisedGLM.of`.
    constraint : ConstraintSet, optional
        ``W``; default the whole space.
    start : array, optional
        The first point, a member of ``W``, shape ``(dim,)``; default the projection of ``c``.
    smoothness : float
        ``H >= 0``: ``0 <= phi'' <= H`` at all predictions and labels. Declared.
    feature_bound : number
        ``X``: every ``|x_i| <= X``. Declared.
    tolerance : number
        Positive, in units of the gradient.

    Returns
    -------
    GLMSolution

    Rate
    ----
    The tolerance is reached for every data set. ``J`` is ``lambda``-strongly convex and
    ``beta``-smooth, ``beta = lambda + H X^2 sum_i v_i``. The steps of :func:`newton_glm` are at
    most a fixed number, and end at a residual ``m`` no larger than the first. With ``w^+`` the
    projected gradient step from there, ``J(w^+) - min J <= m^2/(2 lambda)`` and ``|w^+ - argmin|
    <= m/lambda``. ``T`` steps of :func:`accelerated_descent` from ``w^+`` leave ``J - min J <=
    (1 - kappa^{-1/2})^T m^2/lambda``, ``kappa = beta/lambda``. Since the square of a residual is at
    most ``2 beta (J - min J)``, it is then at most

        ``sqrt(2 kappa) m (1 - kappa^{-1/2})^{T/2} <= tolerance``

    for ``T = ceil(2 sqrt(kappa) log(sqrt(2 kappa) m/tolerance))``.

    Round-off: the gradient at a float64 point is known to a small multiple of ``2^-52 (L X +
    lambda |w - c| + |b| + H X^2 |w|)``. A tolerance below 64 times that, less ``L X``, may not be
    reached; nothing is then tried beyond it, and ``residuals`` says what was reached.

    Raises
    ------
    ValueError
        For shapes that do not fit, numbers that break their rule (where they are known when
        tracing), and a missing smoothness.

    Examples
    --------
    >>> import jax, numpy as np
    >>> from privopt.convex import RegularisedGLM, minimise_glm
    >>> from privopt.problems import Squared
    >>> with jax.enable_x64(True):
    ...     glm = RegularisedGLM.of(Squared(), np.eye(2), np.ones(2), regularisation=0.5)
    ...     print(minimise_glm(glm, smoothness=1.0).points.round(6))
    [[0.5 0.5]]
    """
    if smoothness is None or not 0.0 <= smoothness < math.inf:
        raise ValueError(f"smoothness must be non-negative and finite, got {smoothness!r}")
    tolerance = positive_array("tolerance", tolerance, 0)
    feature_bound = positive_array("feature_bound", feature_bound, 0)
    if start is not None:
        start = float64_array("start", start, 1, glm.centre.shape)
    constraint = WholeSpace() if constraint is None else constraint
    given = (glm, constraint, start, smoothness * feature_bound**2, tolerance)
    found, done = _quick(*given)
    if isinstance(done, jax.core.Tracer) or not done:
        return _thorough(found, *given)
    return found


@jax.jit
def _quick(
    glm: RegularisedGLM,
    constraint: ConstraintSet,
    start: Array | None,
    curvature: Array,
    tolerance: Array,
) -> tuple[GLMSolution, Array]:
    """Where the Newton steps end, and whether nothing is left to do."""
    start = constraint.project(glm.centre if start is None else start)
    smoothness = _smoothness(glm, curvature)
    targets = jnp.broadcast_to(tolerance, smoothness.shape)
    found = newton_glm(glm, constraint, start, smoothness=smoothness, tolerance=targets)
    return found, jnp.all(found.residuals <= targets)


@jax.jit
def _thorough(
    found: GLMSolution,
    glm: RegularisedGLM,
    constraint: ConstraintSet,
    start: Array | None,
    curvature: Array,
    tolerance: Array,
) -> GLMSolution:
    """Accelerated descent for as long as it may need, none where nothing is left to do."""
    smoothness = _smoothness(glm, curvature)
    condition = smoothness / glm.regularisation
    own = glm.regularisation * norm(found.points - glm.centre[None]) + norm(glm.linear_terms)
    size = 2.0 * own + (smoothness - glm.regularisation) * norm(found.points)
    reachable = jnp.maximum(tolerance, ROUND_OFF * size)
    wanted = jnp.log(jnp.sqrt(2.0 * condition) * found.residuals / reachable)
    steps = jnp.ceil(2.0 * jnp.sqrt(condition) * wanted)
    steps = jnp.where((found.residuals > reachable) & jnp.isfinite(steps), steps, 0.0).astype(int)

    def descended(term: Array, lambda_: Array, beta: Array, point: Array, steps: Array) -> Array:
        alone = glm._replace(linear_terms=term[None], regularisation=lambda_[None])

        def gradient(w: Array) -> Array:
            return alone.gradients(w[None], alone.slopes(alone.predictions(w[None])))[0]

        start = constraint.project(point - gradient(point) / beta)
        last = accelerated_descent(
            gradient,
            constraint.project,
            start,
            smoothness=beta,
            strong_convexity=lambda_,
            steps=steps,
        )
        return jnp.where(steps > 0, last, point)

    each = (glm.linear_terms, glm.regularisation, smoothness, found.points, steps)
    points = jax.vmap(descended)(*each)
    gradients = glm.gradients(points, glm.slopes(glm.predictions(points)))
    residuals = projected_residuals(constraint, points, gradients, smoothness)
    return GLMSolution(points, residuals, found.steps + steps)


def _smoothness(glm: RegularisedGLM, curvature: Array) -> Array:
    return glm.regularisation + curvature * jnp.sum(glm.weights)

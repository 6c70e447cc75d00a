"""Minimisers of regularised generalised linear models within a convex set, each certified."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from privopt.convex.accelerated import accelerated_descent
from privopt.convex.anderson import Mixing
from privopt.convex.certificate import ROUND_OFF
from privopt.convex.constraint import ConstraintSet
from privopt.convex.regularised_glm import RegularisedGLM, float64_array, positive_array
from privopt.convex.sets import L2Ball, WholeSpace
from privopt.convex.shared_hessian import (
    SharedHessian,
    flat_hessian,
    newton_steps,
    sampled_hessian,
    whole_hessian,
)
from privopt.convex.vectors import Number, broadcast, inner, norm

__all__ = ["GLMSolution", "minimise_glm", "newton_glm", "projected_residuals"]

MAX_ROUNDS = 30
SAMPLE_STRIDE = 16
MIN_SAMPLE = 16  # records; of fewer nothing is learnt
SEVERAL = 4  # problems: with so many, a Hessian costs less than a step
MAX_EIGENPROBLEM = 1024  # beyond it a decomposition costs more than it saves
MAX_BASIS = 2**26  # numbers in a basis
FLAT_STEPS, SAMPLED_STEPS = 15, 40
QUICK = 0.2  # what a step leaves of a residual, where no better Hessian is needed
SLOPE_RATIO = 0.5  # of the slope of a step at its beginning, what its end may have at most


class GLMSolution(NamedTuple):
    """Members of the set, and what is known of them.

    Attributes
    ----------
    points : Array
        ``w_k`` in ``W``, shape ``(k, dim)``, float64.
    residuals : Array
        ``beta_k |w_k - Proj_W(w_k - grad J_k(w_k)/beta_k)|``, shape ``(k,)``, evaluated at the
        points returned: at least ``lambda_k |w_k - argmin_W J_k|``, see
        :func:`projected_residuals`. On the whole space ``|grad J_k(w_k)|``.
    steps : Array
        Steps taken for each, shape ``(k,)``; a step is two products with the data.
    """

    points: Array
    residuals: Array
    steps: Array


def projected_residuals(
    constraint: ConstraintSet, points: Array, gradients: Array, smoothness: Array
) -> Array:
    """``beta |w - Proj_W(w - grad J(w)/beta)| >= lambda |w - argmin_W J|`` for ``w`` in ``W``.

    For ``J`` ``lambda``-strongly convex and ``beta``-smooth on ``W``: the map ``w -> Proj_W(w -
    grad J(w)/beta)`` contracts distances by ``1 - lambda/beta`` and keeps the minimiser, so that
    ``|w - w*| <= |w - w^+| + (1 - lambda/beta) |w - w*|``. In the interior it is ``|grad J|``.

    Parameters
    ----------
    points, gradients : Array
        ``(k, dim)``; members, and ``grad J_k`` there.
    smoothness : Array
        ``beta``, shape ``(k,)``.
    """
    moved = constraint.project(points - gradients / smoothness[:, None])
    return smoothness * norm(points - moved)


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


class _Iterates(NamedTuple):
    """Where the problems stand; ``stretch`` is by how much the Hessian is too small for each."""

    points: Array
    gradients: Array
    residuals: Array
    steps: Array
    stretch: Array
    length: Array  # of the last step


class _Problem(NamedTuple):
    """What does not change."""

    glm: RegularisedGLM
    constraint: ConstraintSet
    smoothness: Array
    tolerance: Array

    def evaluated(self, points: Array, predictions: Array) -> tuple[Array, Array]:
        """Gradients and residuals at members, afresh."""
        gradients = self.glm.gradients(points, self.glm.slopes(predictions))
        return gradients, projected_residuals(self.constraint, points, gradients, self.smoothness)

    def begin(self, start: Array) -> _Iterates:
        points = jnp.broadcast_to(start, self.glm.linear_terms.shape)
        zeros = jnp.zeros((points.shape[0], self.glm.labels.size))
        predictions = jax.lax.cond(  # the origin is where most begin
            jnp.any(start != 0.0), self.glm.predictions, lambda _: zeros, points
        )
        ones = jnp.ones(points.shape[0])
        none = jnp.zeros(points.shape[0], int)
        return _Iterates(points, *self.evaluated(points, predictions), none, ones, ones)


def newton_glm(
    glm: RegularisedGLM,
    constraint: ConstraintSet,
    start: Array,
    *,
    smoothness: Array,
    tolerance: Array,
) -> GLMSolution:
    """``argmin_{w in W} J_k(w)`` for all ``k`` at once, as far as it gets in bounded time.

    *Method.* The model ``<g, s> + s^T (a H + lambda_k) s/2`` is minimised over the ball that ``W``
    is (over the whole space for any other set). All problems share ``H``, in its eigenbasis: for
    few problems first a multiple of the identity, while that is quick, and the Hessian of every
    16th record; then the Hessian at what is unfinished, again and again. Steps are combined as by
    Anderson. A step that leads too far stretches the problem's Hessian by a factor ``a``, and is
    taken back.

    Nothing here is a promise: ``residuals`` says what was reached, which is no more than at the
    start, and whoever relies on it compares.

    Parameters
    ----------
    glm : RegularisedGLM
        ``J``.
    constraint : ConstraintSet
        ``W``.
    start : Array
        A member, shape ``(dim,)``.
    smoothness : Array
        ``beta_k``, of the whole of ``J_k``; shape ``(k,)``.
    tolerance : Array
        Of ``residuals``, shape ``(k,)``.
    """
    problem = _Problem(glm, constraint, smoothness, tolerance)
    rounds = _rounds(problem)
    first = problem.begin(start)

    def round_(carry: tuple[_Iterates, Array]) -> tuple[_Iterates, Array]:
        at, number = carry
        kind = jnp.minimum(number, len(rounds) - 1)
        hessian = jax.lax.switch(kind, [each.hessian for each in rounds], at, number)
        steps, pace = (jnp.asarray([each[i] for each in rounds])[kind] for i in (1, 2))
        at = at._replace(stretch=jnp.ones_like(at.stretch))
        return _descended(problem, at, hessian, steps, pace), number + 1

    def unfinished(carry: tuple[_Iterates, Array]) -> Array:
        return jnp.any(carry[0].residuals > tolerance) & (carry[1] < MAX_ROUNDS)

    last, _ = jax.lax.while_loop(unfinished, round_, (first, jnp.zeros((), int)))
    better = last.residuals <= first.residuals
    points = jnp.where(better[:, None], last.points, first.points)
    return GLMSolution(points, jnp.where(better, last.residuals, first.residuals), last.steps)


class _Round(NamedTuple):
    """A Hessian, from where the problems stand and the number of rounds before; steps in it.

    A round also ends where no step leaves less of a residual than ``pace``.
    """

    hessian: Callable[[_Iterates, Array], SharedHessian]
    steps: int
    pace: float


def _rounds(problem: _Problem) -> list[_Round]:
    """Rounds in turn, the last of them again and again."""
    glm, count = problem.glm, problem.tolerance.size
    rows, dim = glm.features.shape
    stride = max(SAMPLE_STRIDE, -(-rows * dim // MAX_BASIS))
    if dim > MAX_EIGENPROBLEM:
        stride = max(stride, -(-rows // MAX_EIGENPROBLEM))
    whole = min(rows, dim) <= MAX_EIGENPROBLEM
    sampled = count < SEVERAL and rows >= MIN_SAMPLE * SAMPLE_STRIDE
    rank = min(rows, dim) if whole else min(-(-rows // stride), dim)

    def curvatures(some: RegularisedGLM, at: _Iterates, number: Array) -> Array:
        reach = jnp.clip(at.length / math.sqrt(dim), 1e-7, 1.0)
        wanted = jnp.where(number < 6, jnp.sum(at.residuals > problem.tolerance), 1)
        return some.curvatures(at.points, reach, jnp.argsort(-at.residuals), jnp.maximum(wanted, 1))

    def flat(at: _Iterates, number: Array) -> SharedHessian:
        some = glm.every(stride) if sampled else glm
        gradient = at.gradients[jnp.argmax(at.residuals)]
        size = norm(gradient)
        along = some.predictions((gradient / jnp.where(size > 0.0, size, 1.0))[None])[0]
        level = jnp.sum(curvatures(some, at, number) * jnp.square(along))
        return flat_hessian(level, dim, rank)

    def of_some(at: _Iterates, number: Array) -> SharedHessian:
        some = glm.every(stride)
        return sampled_hessian(some.features, curvatures(some, at, number), rank)

    def of_all(at: _Iterates, number: Array) -> SharedHessian:
        return whole_hessian(glm.features, curvatures(glm, at, number), rank)

    rounds = [_Round(flat, FLAT_STEPS, QUICK)] if count < SEVERAL else []
    if sampled or not whole:
        rounds.append(_Round(of_some, SAMPLED_STEPS, math.inf))
    if whole:  # steps that cost about what a Hessian does
        rounds.append(_Round(of_all, 8 + dim // (16 * count), math.inf))
    return rounds


def _descended(
    problem: _Problem, at: _Iterates, hessian: SharedHessian, steps: Array, pace: Array
) -> _Iterates:
    """At most ``steps`` more of every problem that is not done."""

    def unfinished(carry: tuple[_Iterates, Mixing, Array, Array]) -> Array:
        at, _, before, number = carry
        going = (at.residuals > problem.tolerance) & (at.residuals <= pace * before)
        return jnp.any(going) & (number < steps)

    def step(
        carry: tuple[_Iterates, Mixing, Array, Array],
    ) -> tuple[_Iterates, Mixing, Array, Array]:
        at, mixing, _, number = carry
        return *_stepped(problem, at, mixing, hessian), at.residuals, number + 1

    before = jnp.full_like(at.residuals, jnp.inf)
    first = (at, Mixing.begin(at.points), before, jnp.zeros((), int))
    return jax.lax.while_loop(unfinished, step, first)[0]


def _stepped(
    problem: _Problem, at: _Iterates, mixing: Mixing, hessian: SharedHessian
) -> tuple[_Iterates, Mixing]:
    """One step; where it led too far a problem stays, with a larger Hessian and no memory."""
    glm, constraint = problem.glm, problem.constraint
    active = at.residuals > problem.tolerance
    offsets: Array | None = None
    radius: Number = jnp.inf
    if isinstance(constraint, L2Ball):
        offsets, radius = at.points - broadcast(constraint.centre, at.points), constraint.radius
    direct = newton_steps(hessian, at.stretch, glm.regularisation, at.gradients, offsets, radius)
    mixed, mixing = mixing.mixed(at.points, direct)
    trial = constraint.project(at.points + mixed)
    gradients, residuals = problem.evaluated(trial, glm.predictions(trial))
    way = trial - at.points
    before, after = inner(at.gradients, way), inner(gradients, way)
    short = (before < 0.0) & (after <= -SLOPE_RATIO * before)
    good = short | (residuals <= at.residuals)
    taken = active & good

    def stretched() -> Array:
        model = hessian.squared_norms(way)
        met = after - before - glm.regularisation * inner(way, way)
        ratio = met / jnp.where(model > 0.0, model, 1.0)
        longer = jnp.maximum(2.0 * at.stretch, jnp.where(jnp.isfinite(ratio), ratio, 0.0))
        return jnp.where(good | ~active, at.stretch, longer)

    stretch = jax.lax.cond(jnp.all(good | ~active), lambda: at.stretch, stretched)
    return _Iterates(
        jnp.where(taken[:, None], trial, at.points),
        jnp.where(taken[:, None], gradients, at.gradients),
        jnp.where(taken, residuals, at.residuals),
        at.steps + active.astype(int),
        stretch,
        jnp.where(taken, norm(way), at.length),
    ), mixing.kept(good)

"""Newton steps for regularised generalised linear models within a convex set, certified."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from privopt.arguments import checked
from privopt.convex.regularised_glm import (
    RegularisedGLM,
    SharedHessian,
    flat_hessian,
    newton_steps,
    sampled_hessian,
    whole_hessian,
)
from privopt.convex.sets import ConstraintSet, L2Ball
from privopt.convex.vectors import Number, broadcast, inner, norm

MAX_MEMORY, MIN_MEMORY = 10, 5  # steps
MIN_MEMORY_PROBLEMS = 4  # from so many on the memory is short, since each look costs more


class Mixing(NamedTuple):
    """The last point and proposed step of ``k`` problems, and the differences of those before.

    Shapes are ``(k, dim)`` and, of the differences, ``(k, memory, dim)``, latest last.
    """

    point: Array
    step: Array
    points: Array
    steps: Array

    @classmethod
    def begin(cls, points: Array) -> Mixing:
        """With no memory."""
        memory = MAX_MEMORY if points.shape[0] < MIN_MEMORY_PROBLEMS else MIN_MEMORY
        none = jnp.zeros((points.shape[0], memory, points.shape[1]))
        return cls(points, jnp.zeros_like(points), none, none)

    def mixed(self, points: Array, steps: Array) -> tuple[Array, Mixing]:
        """``s - (dW + dS) gamma`` with ``gamma`` the least squares of ``s - dS gamma``.

        Source: Walker and Ni 2011, "Anderson acceleration for fixed-point iterations", SIAM Journal
        on Numerical Analysis (doi:10.1137/10078356X).
        """
        moved, changed = points - self.point, steps - self.step
        known = jnp.any(moved != 0.0, axis=-1) & jnp.any(self.step != 0.0, axis=-1)
        moved, changed = (jnp.where(known[:, None], each, 0.0) for each in (moved, changed))
        moves = jnp.concatenate([self.points[:, 1:], moved[:, None]], axis=1)
        changes = jnp.concatenate([self.steps[:, 1:], changed[:, None]], axis=1)
        sizes = jnp.sqrt(inner(changes, changes))
        sizes = jnp.where(sizes > 0.0, sizes, 1.0)
        units = changes / sizes[:, :, None]
        normal = units @ jnp.swapaxes(units, 1, 2) + 1e-12 * jnp.eye(units.shape[1])[None]
        right = jnp.einsum("kmd,kd->km", units, steps)
        weights = jnp.linalg.solve(normal, right[:, :, None])[:, :, 0]
        mixed = steps - jnp.einsum("km,kmd->kd", weights / sizes, moves + changes)
        mixed = jnp.where(jnp.isfinite(mixed).all(axis=-1, keepdims=True), mixed, steps)
        return mixed, Mixing(points, steps, moves, changes)

    def kept(self, good: Array) -> Mixing:
        """Without memory for the problems that are not ``good``, shape ``(k,)``."""
        kept = good[:, None, None].astype(self.points.dtype)
        return self._replace(points=kept * self.points, steps=kept * self.steps)


MAX_ROUNDS = 30
SAMPLE_STRIDE = 16
MIN_SAMPLE = 16  # records; of fewer nothing is learnt
MIN_HESSIAN_PROBLEMS = 4  # from so many on a Hessian costs less than a step
MAX_EIGENPROBLEM = 1024  # beyond it a decomposition costs more than it saves
MAX_BASIS = 2**26  # numbers in a basis
FLAT_STEPS, SAMPLED_STEPS = 15, 40
MAX_RESIDUAL_RATIO = 0.2  # what a step leaves of a residual, where no better Hessian is needed
MAX_SLOPE_RATIO = 0.5  # of the slope of a step at its beginning, what its end may have at most


class GLMSolution(NamedTuple):
    """Members of the set, and what is known of them.

    ``residuals`` are ``beta_k |w_k - Proj_W(w_k - grad J_k(w_k)/beta_k)|``, evaluated at the points
    returned: at least ``lambda_k |w_k - argmin_W J_k|``, see :func:`projected_residuals`. On the
    whole space they are ``|grad J_k(w_k)|``.
    """

    points: Array  # shape (k, dim), float64
    residuals: Array  # shape (k,)
    steps: Array  # taken for each; a step is two products with the data


def projected_residuals(
    constraint: ConstraintSet, points: Array, gradients: Array, smoothness: Array
) -> Array:
    """``beta |w - Proj_W(w - grad J(w)/beta)| >= lambda |w - argmin_W J|`` for ``w`` in ``W``.

    For ``J`` ``lambda``-strongly convex and ``beta``-smooth on ``W``: the map ``w -> Proj_W(w -
    grad J(w)/beta)`` contracts distances by ``1 - lambda/beta`` and keeps the minimiser, so that
    ``|w - w*| <= |w - w^+| + (1 - lambda/beta) |w - w*|``. In the interior it is ``|grad J|``.

    ``points``, members, and ``gradients``, ``grad J_k`` there, have shape ``(k, dim)``.
    """
    moved = constraint.project(points - gradients / smoothness[:, None])
    return smoothness * norm(points - moved)


@checked
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

    ``glm`` is ``J``, ``constraint`` is ``W`` and holds ``start``, shape ``(dim,)``; ``smoothness``
    are ``beta_k`` of the whole of ``J_k``, ``tolerance`` is that of ``residuals``, shape ``(k,)``.
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
    sampled = count < MIN_HESSIAN_PROBLEMS and rows >= MIN_SAMPLE * SAMPLE_STRIDE
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

    rounds = [_Round(flat, FLAT_STEPS, MAX_RESIDUAL_RATIO)] if count < MIN_HESSIAN_PROBLEMS else []
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
    short = (before < 0.0) & (after <= -MAX_SLOPE_RATIO * before)
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

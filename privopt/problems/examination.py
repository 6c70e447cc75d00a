"""Is the declared class true of these data? For research data, where looking is allowed."""

from __future__ import annotations

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from privopt.problems.losses import GeneralisedLinear
from privopt.problems.objective import EmpiricalRisk
from privopt.spec import ProblemClass

__all__ = ["examine"]

_ROUND_OFF = 1e-6
_PROBES = 16
_UNBOUNDED_REACH = 10.0


def examine(risk: EmpiricalRisk, problem_class: ProblemClass) -> None:
    """Raise ValueError naming the first record found to contradict ``problem_class``.

    Parameters
    ----------
    risk : EmpiricalRisk
        In float64.
    problem_class : ProblemClass
    """
    for path, leaf in jax.tree_util.tree_leaves_with_path(risk.data):
        values = np.asarray(leaf)
        finite = np.isfinite(values).reshape(values.shape[0], -1).all(axis=1)
        if not finite.all():
            row = int(np.argmin(finite))
            raise ValueError(
                f"data must be finite, got {values[row]!r} in record {row}, "
                f"leaf {jax.tree_util.keystr(path) or 'data'}"
            )
    if isinstance(risk.loss, GeneralisedLinear):
        _examine_linear(risk, problem_class)
    else:
        _probe(risk, problem_class)


def _examine_linear(risk: EmpiricalRisk, problem_class: ProblemClass) -> None:
    """Exact: a convex scalar loss is steepest at an end of the predictions ``W`` allows."""
    scalar = risk.loss.scalar
    norms = np.linalg.norm(np.asarray(risk.data[0]), axis=-1)
    steepest = np.asarray(_steepest(risk))
    with np.errstate(invalid="ignore"):
        gradients = np.where(norms > 0.0, steepest * norms, 0.0)
        curvatures = np.where(norms > 0.0, scalar.curvature * norms**2, 0.0)
    _refuse_above("lipschitz", problem_class.lipschitz, gradients, "a gradient of norm")
    if problem_class.smoothness is not None:
        _refuse_above("smoothness", problem_class.smoothness, curvatures, "curvature")
    if problem_class.strong_convexity > 0.0 and problem_class.dim > 1:
        raise ValueError(
            f"strong_convexity {problem_class.strong_convexity!r} must hold for every record, "
            "but a generalised linear loss is flat across its features; add a regulariser to the "
            "method instead"
        )


def _probe(risk: EmpiricalRisk, problem_class: ProblemClass) -> None:
    """Look for a violation at random points: finding none proves nothing."""
    reach = problem_class.radius if math.isfinite(problem_class.radius) else _UNBOUNDED_REACH
    points, found = map(np.asarray, _gradients(risk, problem_class.dim, reach))
    found = np.where(np.isfinite(found), found, np.inf)
    norms = np.linalg.norm(found, axis=-1)
    _refuse_above("lipschitz", problem_class.lipschitz, norms.max(axis=0), "a gradient of norm")
    moves = np.linalg.norm(np.diff(points, axis=0), axis=-1)[:, None]
    differences = np.diff(found, axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        secants = np.where(moves > 0.0, np.linalg.norm(differences, axis=-1) / moves, 0.0)
        inner = np.sum(differences * np.diff(points, axis=0)[:, None], axis=-1)
        convexity = np.where(moves > 0.0, inner / moves**2, np.inf)
    if problem_class.smoothness is not None:
        _refuse_above("smoothness", problem_class.smoothness, secants.max(axis=0), "curvature")
    flattest = convexity.min(axis=0)
    declared = problem_class.strong_convexity
    row = int(np.argmin(flattest))
    if flattest[row] < declared - _ROUND_OFF * max(1.0, declared):
        raise ValueError(
            f"strong_convexity {declared!r} must hold for every record, "
            f"but record {row} has curvature {flattest[row]:.6g} between two points"
        )


@jax.jit
def _steepest(risk: EmpiricalRisk) -> Array:
    """Largest ``|phi'|`` of each record over the predictions ``W`` allows, shape ``(n,)``."""
    features, labels = risk.data
    scalar = risk.loss.scalar
    highest, lowest = risk.constraint.support(features), -risk.constraint.support(-features)
    ends = jnp.maximum(
        jnp.abs(scalar.slope(highest, labels)), jnp.abs(scalar.slope(lowest, labels))
    )
    bounded = jnp.isfinite(highest) & jnp.isfinite(lowest)
    anywhere = jnp.maximum(
        jnp.abs(scalar.slope(jnp.zeros_like(labels), labels)), scalar.slope_bound
    )
    return jnp.where(bounded, ends, anywhere)


@partial(jax.jit, static_argnames="dim")
def _gradients(risk: EmpiricalRisk, dim: int, reach: float) -> tuple[Array, Array]:
    """Points of ``W``, and every record's gradient at each: shapes ``(p, d)``, ``(p, n, d)``."""
    centre = risk.constraint.centre_point(dim, risk.dtype)
    directions = jax.random.normal(jax.random.key(0), (_PROBES, dim), risk.dtype)
    ends = risk.constraint.project(centre[None] + reach * directions)
    points = jnp.concatenate([centre[None], 0.5 * (centre[None] + ends), ends])

    def at(point: Array) -> Array:
        return jax.vmap(jax.grad(risk.loss), (None, 0))(point, risk.data)

    return points, jax.lax.map(at, points)


def _refuse_above(name: str, declared: float, found: np.ndarray, what: str) -> None:
    row = int(np.argmax(found))
    if found[row] > declared * (1.0 + _ROUND_OFF):
        raise ValueError(
            f"{name} {declared!r} must bound every record, "
            f"but record {row} has {what} {found[row]:.6g}"
        )

"""Is the declared class true of these data? For research data, where looking is allowed."""

from __future__ import annotations

import math

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
    features, labels = risk.data
    scalar = risk.loss.scalar
    norms = np.asarray(jnp.linalg.norm(features, axis=-1))
    steepest = np.full(norms.shape, scalar.slope_bound)
    highest, lowest = risk.constraint.support(features), -risk.constraint.support(-features)
    if np.all(np.isfinite(highest)) and np.all(np.isfinite(lowest)):
        steepest = np.maximum(
            np.abs(scalar.slope(highest, labels)), np.abs(scalar.slope(lowest, labels))
        )
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
    dim = problem_class.dim
    reach = problem_class.radius
    reach = reach if math.isfinite(reach) else _UNBOUNDED_REACH
    centre = risk.constraint.centre_point(dim, risk.dtype)
    directions = jax.random.normal(jax.random.key(0), (_PROBES, dim), risk.dtype)
    points = risk.constraint.project(centre[None] + reach * directions)
    points = jnp.concatenate([centre[None], 0.5 * (centre[None] + points), points])

    def gradients(point: Array) -> Array:
        return jax.vmap(jax.grad(risk.loss), (None, 0))(point, risk.data)

    found = np.asarray(jax.lax.map(gradients, points))
    found = np.where(np.isfinite(found), found, np.inf)
    norms = np.linalg.norm(found, axis=-1)
    _refuse_above("lipschitz", problem_class.lipschitz, norms.max(axis=0), "a gradient of norm")
    moves = np.linalg.norm(np.diff(np.asarray(points), axis=0), axis=-1)[:, None]
    differences = np.diff(found, axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        secants = np.where(moves > 0.0, np.linalg.norm(differences, axis=-1) / moves, 0.0)
        inner = np.sum(differences * np.diff(np.asarray(points), axis=0)[:, None], axis=-1)
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


def _refuse_above(name: str, declared: float, found: np.ndarray, what: str) -> None:
    row = int(np.argmax(found))
    if found[row] > declared * (1.0 + _ROUND_OFF):
        raise ValueError(
            f"{name} {declared!r} must bound every record, "
            f"but record {row} has {what} {found[row]:.6g}"
        )

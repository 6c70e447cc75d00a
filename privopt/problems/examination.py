"""Comparison of the declared problem class with the data, for data that may be inspected."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from privopt.arguments import shown
from privopt.convex import (
    ConstraintSet,
    DenseFeatures,
    EmpiricalRisk,
    Features,
    GeneralisedLinear,
    Hinge,
    L2Ball,
    LinearRecords,
    Logistic,
    difference,
)
from privopt.problems.declaration import Shaped
from privopt.spec import LIPSCHITZ, ProblemClass

_ROUND_OFF = 1e-6
_PROBES = 16
_UNBOUNDED_REACH = 10.0


def examine(risk: EmpiricalRisk, problem_class: ProblemClass) -> list[str]:
    """Return a message for each rule of ``problem_class`` or of the loss that the data break.

    ``risk`` is in float64 and contains the records before any correction.
    """
    broken, finite = [], np.ones(jax.tree.leaves(risk.data)[0].shape[0], bool)
    for path, leaf in jax.tree_util.tree_leaves_with_path(risk.data):
        values = np.asarray(leaf)
        rows = np.isfinite(values).reshape(values.shape[0], -1).all(axis=1)
        if not rows.all():
            first = int(np.argmin(rows))
            broken.append(
                f"data must be finite, got {shown(values[first])} in record {first}, "
                f"leaf {jax.tree_util.keystr(path) or 'data'} {_count(~rows)}"
            )
        finite &= rows
    broken += _examine_domain(risk, finite)
    if risk.linear is not None:
        constants = _examine_linear
    else:
        others = any(math.isfinite(getattr(problem_class, name)) for name in list(LIPSCHITZ)[1:])
        constants = _probe if risk.points is None or others else _examine_points
    return broken + [line for line in constants(risk, problem_class, finite) if line]


def examine_counts(counts: np.ndarray, n: int) -> list[str]:
    """Return a message if ``counts`` are not multiplicities of ``n`` records."""
    with np.errstate(invalid="ignore"):
        whole = (counts >= 0) & (counts == np.round(counts)) & np.isfinite(counts)
    if not whole.all():
        first = int(np.argmin(whole))
        return [
            f"counts must be non-negative integers, got {counts[first]} for record {first} "
            f"{_count(~whole)}"
        ]
    total = int(counts.sum())
    return [f"counts must sum to n = {n}, got {total}"] if total != n else []


def _examine_domain(risk: EmpiricalRisk, finite: np.ndarray) -> list[str]:
    loss: Any = risk.loss.loss if isinstance(risk.loss, Shaped) else risk.loss
    if isinstance(loss, GeneralisedLinear):
        loss, examples = loss.scalar, risk.data[1]
    else:
        examples = risk.data
    if not hasattr(loss, "admits"):
        return []
    invalid = finite & ~np.asarray(_admitted(loss, examples))
    if not invalid.any():
        both = isinstance(loss, Logistic | Hinge) and np.isin((-1.0, 0.0), examples).all()
        return [f"{loss.domain}, got -1, 0 and 1: 0 means -1"] if both else []
    first = int(np.argmax(invalid))
    label = np.asarray(jax.tree.leaves(examples)[-1])[first]
    return [f"{loss.domain}, got {label} in record {first} {_count(invalid)}"]


@jax.jit
def _admitted(loss: Any, examples: Any) -> Array:
    return jax.vmap(loss.admits)(examples)


def _examine_linear(
    risk: EmpiricalRisk, problem_class: ProblemClass, finite: np.ndarray
) -> Iterator[str]:
    """Check the constants exactly.

    A convex scalar loss is steepest at an end of the interval of predictions over ``W``.
    """
    assert risk.linear is not None
    scalar, features, *_ = risk.linear
    steepest = np.asarray(_steepest(risk.linear, risk.constraint))
    norms, nonzeros = map(np.asarray, _sizes(features))  # the l2 norm is first
    with np.errstate(invalid="ignore"):
        gradients = [np.where(finite & (each > 0.0), steepest * each, 0.0) for each in norms]
        squares = scalar.curvature * norms[0] ** 2
    curvatures = np.where(finite & (norms[0] > 0.0), squares, 0.0)
    yield from _above_class(problem_class, finite, gradients, nonzeros, curvatures)
    if problem_class.strong_convexity > 0.0 and problem_class.dim > 1:
        yield (
            f"strong_convexity {shown(problem_class.strong_convexity)} must hold for every record, "
            "but a generalised linear loss is flat across its features; add a regulariser to the "
            "method instead"
        )


def _examine_points(
    risk: EmpiricalRisk, problem_class: ProblemClass, finite: np.ndarray
) -> Iterator[str]:
    """Check the curvature exactly, and ``lipschitz`` exactly on a ball, else at random points."""
    assert risk.points is not None
    modulus = float(risk.loss.modulus)  # type: ignore[attr-defined]
    farthest = np.where(finite, np.asarray(_farthest(risk, problem_class)), 0.0)
    gradients, curvatures = [modulus * farthest], np.full(finite.shape, modulus)
    nonzeros = np.asarray(_sizes(risk.points)[1])
    yield from _above_class(problem_class, finite, gradients, nonzeros, curvatures)
    if modulus < problem_class.strong_convexity * (1.0 - _ROUND_OFF):
        yield (
            f"strong_convexity {shown(problem_class.strong_convexity)} must hold for every "
            f"record, but all have curvature {modulus:.6g}"
        )


def _farthest(risk: EmpiricalRisk, problem_class: ProblemClass) -> Array:
    """Compute the largest distance of each record to the tested points of ``W``, shape ``(n,)``."""
    return _distances(risk, _points(risk, problem_class))


@jax.jit
def _distances(risk: EmpiricalRisk, probes: Array) -> Array:
    assert risk.points is not None
    points, squares, reach = risk.points, jnp.square(risk.points.norms()), jnp.zeros(())
    if isinstance(risk.constraint, L2Ball):
        probes, reach = probes[:1], jnp.asarray(risk.constraint.radius)

    def distances(point: Array) -> Array:
        return jnp.sqrt(jnp.maximum(point @ point - 2.0 * points.matvec(point) + squares, 0.0))

    return jax.lax.map(distances, probes).max(axis=0) + reach


def _probe(risk: EmpiricalRisk, problem_class: ProblemClass, finite: np.ndarray) -> Iterator[str]:
    """Search for violations at random points; an empty result is no proof."""
    points = _points(risk, problem_class)
    norms, nonzeros, changes, inner = map(np.asarray, _measure(risk, points))
    norms = np.where(finite, np.where(np.isfinite(norms), norms, np.inf), 0.0).max(axis=0)
    moves = np.linalg.norm(np.diff(np.asarray(points), axis=0), axis=-1)[:, None]
    with np.errstate(invalid="ignore", divide="ignore"):
        secants = np.where((moves > 0.0) & finite, changes / moves, 0.0).max(axis=0)
        convexity = np.where((moves > 0.0) & finite, inner / moves**2, np.inf)
    yield from _above_class(problem_class, finite, list(norms), nonzeros.max(axis=0), secants)
    flattest, declared = convexity.min(axis=0), problem_class.strong_convexity
    broken = flattest < declared - _ROUND_OFF * max(1.0, declared)
    if problem_class.convex and broken.any():
        row = int(np.nanargmin(flattest))
        fact = f"strong_convexity {shown(declared)} must hold for every record"
        if declared == 0.0:
            fact = "loss must be convex, unless the problem class declares convex=False"
        yield (
            f"{fact}, but record {row} has curvature {flattest[row]:.6g} between two points "
            f"{_count(broken)}"
        )


@jax.jit
def _steepest(records: LinearRecords, constraint: ConstraintSet) -> Array:
    """Compute the largest ``|phi'|`` of each record over ``W``, shape ``(n,)``."""
    scalar, features, labels, _ = records
    lowest, highest = _predictions(constraint, features)
    ends = jnp.maximum(
        jnp.abs(scalar.slope(highest, labels)), jnp.abs(scalar.slope(lowest, labels))
    )
    bounded = jnp.isfinite(highest) & jnp.isfinite(lowest)
    anywhere = jnp.maximum(
        jnp.abs(scalar.slope(jnp.zeros_like(labels), labels)), scalar.slope_bound
    )
    return jnp.where(bounded, ends, anywhere)


def _predictions(constraint: ConstraintSet, features: Features) -> tuple[Array, Array]:
    """Compute the range of ``<x_i, w>`` over ``W``; few rows are dense in memory at a time."""
    if isinstance(constraint, L2Ball):
        centre = constraint.centre_point(features.shape[1], features.dtype)
        middle, reach = features.matvec(centre), constraint.radius * features.norms()
        return middle - reach, middle + reach

    def ends(row: Array) -> tuple[Array, Array]:
        (x,) = features.block(row, 1)
        return -constraint.support(-x), constraint.support(x)

    return jax.lax.map(ends, jnp.arange(features.shape[0]), batch_size=_PROBES)


def _points(risk: EmpiricalRisk, problem_class: ProblemClass) -> Array:
    """Sample test points in ``W``, shape ``(p, d)``; the first is the centre."""
    reach = problem_class.radius if math.isfinite(problem_class.radius) else _UNBOUNDED_REACH
    return _probes(risk.constraint, reach, problem_class.dim, risk.dtype)


@partial(jax.jit, static_argnames=("dim", "dtype"))
def _probes(constraint: Any, reach: float, dim: int, dtype: Any) -> Array:
    centre = constraint.centre_point(dim, dtype)
    directions = jax.random.normal(jax.random.key(0), (_PROBES, dim), dtype)
    ends = constraint.project(centre[None] + reach * directions)
    return jnp.concatenate([centre[None], 0.5 * (centre[None] + ends), ends])


@jax.jit
def _measure(risk: EmpiricalRisk, points: Array) -> tuple[Array, Array, Array, Array]:
    """Compute norms and nonzeros of all gradients, and ``|dg|``, ``<dg, dw>`` between points."""
    if risk.separable is None:

        def gradients(point: Array) -> Features:
            return DenseFeatures(jax.vmap(jax.grad(risk.loss), (None, 0))(point, risk.data))

    else:
        loss: Any = risk.loss
        gradients = partial(loss.gradients, records=risk.separable.features)

    def changes(pair: tuple[Array, Array]) -> tuple[Array, Array]:
        here, there = pair
        change = difference(gradients(there), gradients(here))
        return change.norms(), change.matvec(there - here)

    def sizes(point: Array) -> tuple[Array, Array]:
        return _sizes(gradients(point))

    return *jax.lax.map(sizes, points), *jax.lax.map(changes, (points[:-1], points[1:]))


@jax.jit
def _sizes(features: Features) -> tuple[Array, Array]:
    """Compute the norms, shape ``(3, n)``, and the number of nonzeros of each row."""
    norms = jnp.stack([features.norms(norm.order) for norm in LIPSCHITZ.values()])
    zero = jnp.zeros(features.shape[-1], features.dtype)
    return norms, features.mapped(lambda _, x: jnp.ones_like(x), zero).norms(1.0)


def _above_class(
    problem_class: ProblemClass,
    finite: np.ndarray,
    gradients: Sequence[np.ndarray],
    nonzeros: ArrayLike,
    curvatures: np.ndarray,
) -> Iterator[str]:
    """Compare gradient norms, numbers of nonzeros and curvatures with the declared class."""
    for fact, lengths in zip(LIPSCHITZ, gradients, strict=False):
        yield _above(fact, getattr(problem_class, fact), lengths, "a gradient of norm")
    if problem_class.sparsity is not None:
        values = np.where(finite, np.asarray(nonzeros), 0.0)
        yield _above("sparsity", problem_class.sparsity, values, "a number of nonzeros of")
    if problem_class.smoothness is not None:
        yield _above("smoothness", problem_class.smoothness, curvatures, "curvature")


def _above(name: str, declared: float, values: np.ndarray, quantity: str) -> str:
    broken = values > declared * (1.0 + _ROUND_OFF)
    if not broken.any():
        return ""
    row = int(np.argmax(values))
    return (
        f"{name} {shown(declared)} must bound every record, but record {row} has {quantity} "
        f"{values[row]:.6g} {_count(broken)}; scale the records by a public number, or declare a "
        f"larger {name} from public knowledge"
    )


def _count(broken: np.ndarray) -> str:
    return f"({int(broken.sum())} of {broken.size} records)"

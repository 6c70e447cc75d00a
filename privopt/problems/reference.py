"""Certified optimum of a problem and risks in float64."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike
from jaxtyping import Float64

from privopt.convex import (
    ConstraintSet,
    EmpiricalRisk,
    MeanAndSpread,
    Pytree,
    certify,
    minimise,
    minimise_nonsmooth,
)
from privopt.spec import ProblemClass

_MAX_BATCH = 32  # points per batch
_MAX_NUMBERS = 2**22  # numbers per batch, unless a single point has more


@dataclass(frozen=True)
class Reference:
    """Reference optimum of a problem, with the certificate ``value - min_W F <= gap``.

    ``minimiser`` is a float64 element of the constraint set with the shape of the parameter.
    ``value`` is ``F(minimiser)``.

    Examples
    --------
    >>> import numpy as np
    >>> from privopt.problems import logistic
    >>> from privopt.spec import ProblemClass
    >>> facts = ProblemClass(n=1, dim=2, lipschitz=1.0, radius=1.0, smoothness=0.25)
    >>> optimum = logistic([[1.0, 0.0]], [1.0], problem_class=facts).reference
    >>> print(optimum.minimiser.round(4), round(optimum.value, 4), optimum.gap < 1e-9)
    [1. 0.] 0.3133 True
    """

    minimiser: Float64[np.ndarray, "*shape"]
    value: float
    gap: float


def has_mean(risk: EmpiricalRisk) -> bool:
    """Return True if the minimiser is the projection of the mean record."""
    return risk.points is not None and risk.public is None


def projected_mean(risk: EmpiricalRisk) -> Reference:
    """Return the certified optimum of squared distances, the projection of the mean record.

    Completing the square gives ``F(w) = (m/2) |w - mean|^2`` up to a constant.
    """
    assert risk.points is not None
    point = _project(risk.constraint, MeanAndSpread.of(risk.points, risk.counts).mean)
    if not np.isfinite(point).all():
        _refuse(risk, jnp.zeros_like(point))
    modulus = float(risk.loss.modulus)  # type: ignore[attr-defined]
    value, gap = certify(
        _value_and_gradient, risk.constraint, point, arguments=(risk,), strong_convexity=modulus
    )
    return Reference(np.asarray(point), value, gap)


def certified(risk: EmpiricalRisk, minimiser: ArrayLike, tolerance: float) -> Reference | None:
    """Certify the projection of a known minimiser; return None if the gap exceeds ``tolerance``."""
    point = _project(risk.constraint, np.asarray(minimiser, np.float64).reshape(-1))
    value, gap = certify(_value_and_gradient, risk.constraint, point, arguments=(risk,))
    return Reference(np.asarray(point), value, gap) if gap <= tolerance else None


def solved(
    risk: EmpiricalRisk, problem_class: ProblemClass, tolerance: float, *, smoothed: bool
) -> Reference:
    """Compute the optimum with a solver, on Moreau envelopes if ``smoothed``."""
    start = risk.constraint.centre_point(problem_class.dim, jnp.float64)
    if smoothed:
        solution = minimise_nonsmooth(
            _smoothed_value_and_gradient,
            _value,
            risk.constraint,
            start,
            arguments=(risk,),
            tolerance=tolerance,
        )
    else:
        solution = minimise(
            _value_and_gradient,
            risk.constraint,
            start,
            arguments=(risk,),
            tolerance=tolerance,
            strong_convexity=problem_class.strong_convexity,
        )
    if not np.isfinite(solution.value):
        _refuse(risk, solution.point)
    return Reference(np.asarray(solution.point), solution.value, solution.gap)


def _refuse(risk: EmpiricalRisk, point: Array) -> None:
    broken = ~np.isfinite(np.asarray(risk.losses(point)))
    raise ValueError(
        f"data must have finite losses for a reference, got {int(broken.sum())} of {broken.size} "
        f"records without, the first of them record {int(np.argmax(broken))}; check() gives details"
    )


@jax.jit
def _project(constraint: ConstraintSet, point: Array) -> Array:
    return constraint.project(point)


def _value(point: Array, risk: EmpiricalRisk) -> Array:
    return risk.value(point)


def _value_and_gradient(point: Array, risk: EmpiricalRisk) -> tuple[Array, Array]:
    return risk.value_and_gradient(point)


def _smoothed_value_and_gradient(
    point: Array, width: Array, risk: EmpiricalRisk
) -> tuple[Array, Array]:
    return risk.smoothed(width).value_and_gradient(point)


def risks(
    risk: EmpiricalRisk, rows: Pytree, count: int, dim: int
) -> Float64[np.ndarray, " points"]:
    """Compute ``F`` for ``count`` points of ``dim`` numbers, stacked along the leading axis."""
    if count == 0:
        return np.zeros(0)
    size = min(_MAX_BATCH, max(1, _MAX_NUMBERS // dim))
    batches = range(-(-count // size))
    padded = jax.tree.map(lambda leaf: np.resize(leaf, (len(batches), size, *leaf.shape[1:])), rows)
    values = [
        np.asarray(_risks(risk, jax.tree.map(lambda leaf, i=i: leaf[i], padded))) for i in batches
    ]
    return np.concatenate(values)[:count]


def distance_rise(
    risk: EmpiricalRisk, optimum: Float64[np.ndarray, " d"], rows: Float64[np.ndarray, "points d"]
) -> Float64[np.ndarray, " points"]:
    """Compute ``F(w) - F(optimum)`` of squared distances for each row ``w``, on the host.

    The formula ``(m/2) |w - o|^2 + m <w - o, o - mean>`` avoids the cancellation in a difference of
    two risks. The second term is 0 if the mean is in the constraint set.
    """
    assert risk.points is not None
    mean = np.asarray(MeanAndSpread.of(risk.points, risk.counts).mean)
    modulus, pull = float(risk.loss.modulus), optimum - mean  # type: ignore[attr-defined]
    steps = (row - optimum for row in rows)
    return np.array([modulus * (0.5 * (step @ step) + step @ pull) for step in steps])


@jax.jit
def _risks(risk: EmpiricalRisk, points: Array) -> Array:
    return jax.vmap(risk.value)(points)

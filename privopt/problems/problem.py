"""A problem: a loss, data, and the class of problems they are declared to belong to."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike
from numpy.typing import NDArray

from privopt.convex import L2Ball, WholeSpace, certify, minimise, minimise_nonsmooth, record
from privopt.problems.examination import examine
from privopt.problems.losses import GeneralisedLinear
from privopt.problems.objective import EmpiricalRisk
from privopt.problems.population import Population
from privopt.spec import ProblemClass

__all__ = ["Problem", "Reference"]

_SMOOTH_TOLERANCE = 1e-9
_NONSMOOTH_TOLERANCE = 1e-6
_RISK_BATCH = 32


@dataclass(frozen=True)
class Reference:
    """The optimum against which risk is measured, with what is certain about it.

    Attributes
    ----------
    minimiser : numpy.ndarray
        Shape ``(dim,)``, float64, a member of the constraint set.
    value : float
        ``F(minimiser)``.
    gap : float
        Certified: ``value - min_W F <= gap``.
    """

    minimiser: NDArray[np.float64]
    value: float
    gap: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Problem:
    """``min_{w in W} F(w)``, ``F(w) = (1/n) sum_i loss(w; x_i)``, or that of a population.

    Parameters
    ----------
    loss : callable
        ``loss(w, x_i) -> scalar``, written in JAX, convex in ``w``. If it is itself a pytree, its
        numbers are arguments of the compiled run; otherwise it is a constant of the program. An
        optional method ``smoothed(width)`` gives its Moreau envelope.
    data : pytree of array
        Records along the leading axis of every leaf. Floating leaves share one dtype, which the
        run follows; ``(features, labels)`` of shapes ``(records, dim)`` and ``(records,)`` for a
        generalised linear loss.
    problem_class : ProblemClass
        Declared, never estimated; :meth:`check` compares it with the data.
    constraint : constraint set, optional
        Default: the Euclidean ball of ``problem_class.radius`` about 0, or the whole space.
    counts : array of int, optional
        How often each stored record occurs, summing to ``n``: a data set with few distinct
        records costs no more than those.
    probabilities : array, optional
        In the place of ``counts``, of the stored records: every run then draws ``n`` records of
        its own from this distribution, with its key, and risks are those of the population,
        ``F_P(w) = sum_j p_j loss(w; x_j)``.
    start : pytree of array, optional
        Where there is no constraint: a public point, independent of the data, from which methods
        start, and of the parameter's structure: any pytree of floating arrays of the data's
        dtype, ``dim`` numbers in all. Default: the centre of the constraint set.
    minimiser : array, optional
        Minimises ``F``, if one is known. Its projection is certified like any other, and solved
        for if the certificate does not bear it out.
    name : str
        For messages and tables.

    Raises
    ------
    ValueError
        If shapes, dtypes, counts, probabilities or constraint contradict ``problem_class``; if
        ``n`` is above ``2^24`` where float32 holds the counts, or a sample's (``2^53`` in float64).
    """

    loss: Callable[..., Array]
    data: Any
    problem_class: ProblemClass
    constraint: Any = None
    counts: ArrayLike | None = None
    probabilities: ArrayLike | None = None
    start: Any = None
    minimiser: ArrayLike | None = None
    name: str = "problem"
    objective: EmpiricalRisk = field(init=False, repr=False)
    source: EmpiricalRisk | Population = field(init=False, repr=False)

    def __post_init__(self) -> None:
        data = jax.tree.map(_array, self.data)
        counts, records = self.counts, _records(data)
        if self.probabilities is not None:
            if counts is not None:
                raise ValueError("counts must be left out where probabilities are given")
            shares = _distribution(np.asarray(self.probabilities, np.float64), records)
            counts = self.problem_class.n * shares
        elif counts is None and records != self.problem_class.n:
            raise ValueError(f"data must hold n = {self.problem_class.n} records, got {records}")
        elif counts is not None:
            counts = _multiplicities(np.asarray(counts), records, self.problem_class.n)
        constraint = self.constraint
        if constraint is None:
            bounded = math.isfinite(self.problem_class.radius)
            constraint = L2Ball(self.problem_class.radius) if bounded else WholeSpace()
        reach = constraint.radius_about_centre(self.problem_class.dim)
        if reach > self.problem_class.radius * (1.0 + 1e-12):
            raise ValueError(
                f"constraint must lie within radius {self.problem_class.radius} of its centre, "
                f"got {constraint!r}, which reaches {reach}"
            )
        loss = _Constant(self.loss) if jax.tree_util.all_leaves([self.loss]) else self.loss
        if isinstance(loss, GeneralisedLinear) and data[0].shape[1:] != (self.problem_class.dim,):
            raise ValueError(
                f"features must have shape (records, dim = {self.problem_class.dim}), "
                f"got {data[0].shape}"
            )
        risk = EmpiricalRisk(loss, data, None, constraint)
        if counts is not None:
            _require_countable(self.problem_class.n, risk.dtype)
            risk = replace(risk, counts=jnp.asarray(counts, risk.dtype))
        if self.start is not None:
            risk = replace(risk, origin=_origin(self.start, self.problem_class.dim, risk))
        object.__setattr__(self, "constraint", constraint)
        object.__setattr__(self, "objective", risk)
        drawn = self.probabilities is not None
        object.__setattr__(
            self, "source", Population(risk, self.problem_class.n) if drawn else risk
        )

    @property
    def measures(self) -> str:
        """Which risk ``risk`` and ``excess_risk`` are: ``"empirical"`` or ``"population"``."""
        return "empirical" if self.probabilities is None else "population"

    @property
    def provides(self) -> frozenset[str]:
        """What algorithms may require beyond gradients and projection.

        ``"smoothing"``: a Moreau envelope. ``"linear_model"``: a loss of one linear prediction
        without kinks.
        """
        loss = self.objective.loss
        linear = isinstance(loss, GeneralisedLinear)
        scalar = loss.scalar if linear else loss
        found = {"smoothing"} if hasattr(scalar, "smoothed") else set()
        if linear and math.isfinite(getattr(scalar, "curvature", math.inf)):
            found.add("linear_model")
        return frozenset(found)

    @cached_property
    def reference(self) -> Reference:
        """The minimiser, its value and its certified gap; solved once, in float64.

        The gap is 1e-9 L R for losses of bounded curvature and 1e-6 L R at kinks where the
        solver gets there; it is reported, never assumed.

        Raises
        ------
        ValueError
            If the problem is not convex, or its parameter is not a vector: no solver here
            certifies a minimum.
        """
        if not self.problem_class.convex or self.start is not None:
            raise ValueError(
                f"problem must be convex and without a start of its own to have a certified "
                f"optimum, got {self.name}"
            )
        with jax.enable_x64(True):
            risk = self.objective.astype(jnp.float64)
            return self._known(risk) or self._solved(risk)

    def _known(self, risk: EmpiricalRisk) -> Reference | None:
        if self.minimiser is None:
            return None
        point = self.constraint.project(jnp.asarray(self.minimiser, jnp.float64))
        value, gap = certify(_value_and_gradient, self.constraint, point, arguments=(risk,))
        return Reference(np.asarray(point), value, gap) if gap <= self._tolerance else None

    def _solved(self, risk: EmpiricalRisk) -> Reference:
        start = self.constraint.centre_point(self.problem_class.dim, jnp.float64)
        if self._has_kinks and "smoothing" in self.provides:
            solution = minimise_nonsmooth(
                _smoothed_value_and_gradient,
                _value,
                self.constraint,
                start,
                arguments=(risk,),
                tolerance=self._tolerance,
            )
        else:
            solution = minimise(
                _value_and_gradient,
                self.constraint,
                start,
                arguments=(risk,),
                tolerance=self._tolerance,
                strong_convexity=self.problem_class.strong_convexity,
            )
        return Reference(np.asarray(solution.point), solution.value, solution.gap)

    @property
    def _tolerance(self) -> float:
        radius = self.problem_class.radius
        scale = self.problem_class.lipschitz * (radius if math.isfinite(radius) else 1.0)
        return scale * (_NONSMOOTH_TOLERANCE if self._has_kinks else _SMOOTH_TOLERANCE)

    @property
    def _has_kinks(self) -> bool:
        loss = self.objective.loss
        if isinstance(loss, GeneralisedLinear):
            return math.isinf(loss.scalar.curvature)
        return self.problem_class.smoothness is None

    def risk(self, point: Any) -> NDArray[np.float64] | float:
        """``F(point)`` in float64 on the host; shape ``(..., dim)`` gives shape ``(...)``.

        Where the parameter is a pytree, ``point`` is one, with the same leading axes on all leaves.
        """
        with jax.enable_x64(True):
            risk = self.objective.astype(jnp.float64)
            shapes = jax.tree.map(jnp.shape, risk.start(self.problem_class.dim))
            axes, rows = _rows(point, shapes, self.problem_class.dim)
            count = math.prod(axes)
            if count == 0:
                return np.zeros(axes)
            batches = range(-(-count // _RISK_BATCH))
            padded = jax.tree.map(
                lambda leaf: np.resize(leaf, (len(batches), _RISK_BATCH, *leaf.shape[1:])), rows
            )
            values = [
                np.asarray(_risks(risk, jax.tree.map(lambda leaf, i=i: leaf[i], padded)))
                for i in batches
            ]
        found = np.concatenate(values)[:count]
        return found.reshape(axes) if axes else float(found[0])

    def excess_risk(self, point: ArrayLike) -> NDArray[np.float64] | float:
        """``F(point) - reference.value`` in float64; shape ``(..., dim)`` gives shape ``(...)``.

        The true excess over ``min_W F`` lies between this and this plus ``reference.gap``.
        """
        return self.risk(point) - self.reference.value

    def check(self) -> None:
        """Compare the declared class with the data, for research data that may be looked at.

        Algorithms never do this: an error that depends on data is a release.

        Raises
        ------
        ValueError
            Naming the first record that is not finite, or that breaks the declared ``lipschitz``,
            ``smoothness`` or ``strong_convexity``. Exact for generalised linear losses; for any
            other loss a search for a violation, at random points of the constraint set.
        """
        with jax.enable_x64(True):
            examine(self.objective.astype(jnp.float64), self.problem_class)


@record
@dataclass(frozen=True)
class _Constant:
    """A plain function as a pytree without leaves."""

    function: Callable[..., Array] = field(metadata={"static": True})

    def __call__(self, point: Array, example: Any) -> Array:
        return self.function(point, example)


def _rows(point: Any, shapes: Any, dim: int) -> tuple[tuple[int, ...], Any]:
    """The leading axes of a parameter, and the same with one leading axis."""
    if isinstance(shapes, tuple):
        point = np.asarray(point, np.float64)
        if point.shape[-1:] != shapes:
            raise ValueError(f"point must have shape (..., dim = {dim}), got {point.shape}")
    points = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), point)
    wanted = jax.tree.leaves(shapes, is_leaf=lambda shape: isinstance(shape, tuple))
    leaves = jax.tree.leaves(points)
    axes = leaves[0].shape[: leaves[0].ndim - len(wanted[0])]
    found, expected = [leaf.shape for leaf in leaves], [axes + shape for shape in wanted]
    if found != expected:
        raise ValueError(f"point must have leaves of shapes {expected}, got {found}")
    return axes, jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[len(axes) :]), points)


def _require_countable(n: int, dtype: Any) -> None:
    """ValueError unless ``dtype`` tells every number of records up to ``n`` from the next."""
    most = int(2.0 / float(np.finfo(dtype).eps))
    if n > most:
        raise ValueError(f"n must be at most {most} where records are counted in {dtype}, got {n}")


def _origin(start: Any, dim: int, risk: EmpiricalRisk) -> Any:
    """``start`` as arrays, if it can be a parameter of the problem."""
    origin = jax.tree.map(jnp.asarray, start)
    leaves = jax.tree.leaves(origin)
    if any(leaf.dtype != risk.dtype for leaf in leaves):
        raise ValueError(
            f"start must be of the data's dtype {risk.dtype}, got "
            f"{sorted({str(leaf.dtype) for leaf in leaves})}"
        )
    size = sum(leaf.size for leaf in leaves)
    if size != dim:
        raise ValueError(f"start must hold dim = {dim} numbers, got {size}")
    if not isinstance(risk.constraint, WholeSpace):
        raise ValueError(
            "start must be left out where there is a constraint, whose centre it is, got "
            f"{risk.constraint!r}"
        )
    return origin


def _value(point: Array, risk: EmpiricalRisk) -> Array:
    return risk.value(point)


def _value_and_gradient(point: Array, risk: EmpiricalRisk) -> tuple[Array, Array]:
    return risk.value_and_gradient(point)


def _smoothed_value_and_gradient(
    point: Array, width: Array, risk: EmpiricalRisk
) -> tuple[Array, Array]:
    return risk.smoothed(width).value_and_gradient(point)


@jax.jit
def _risks(risk: EmpiricalRisk, points: Array) -> Array:
    return jax.vmap(risk.value)(points)


def _array(leaf: ArrayLike) -> Array:
    array = jnp.asarray(leaf)
    if not jnp.issubdtype(array.dtype, jnp.number) and array.dtype != bool:
        raise ValueError(f"data must be numeric, got dtype {array.dtype}")
    return array


def _records(data: Any) -> int:
    leaves = jax.tree.leaves(data)
    floating = {leaf.dtype for leaf in leaves if jnp.issubdtype(leaf.dtype, jnp.floating)}
    if len(floating) != 1:
        raise ValueError(
            f"data must have floating leaves of one dtype, got {sorted(map(str, floating))}"
        )
    dtype = next(iter(floating))
    if dtype not in (np.float32, np.float64):  # the round-off of others is not accounted
        raise ValueError(f"data must be float32 or float64, got {dtype}")
    lengths = {leaf.shape[0] if leaf.ndim else None for leaf in leaves}
    if len(lengths) != 1 or None in lengths:
        raise ValueError(
            f"data must have one leading axis of records, got shapes {[x.shape for x in leaves]}"
        )
    return int(leaves[0].shape[0])


def _distribution(probabilities: NDArray[np.float64], records: int) -> NDArray[np.float64]:
    if probabilities.shape != (records,):
        raise ValueError(f"probabilities must have shape ({records},), got {probabilities.shape}")
    if not np.all(probabilities >= 0.0):
        raise ValueError(f"probabilities must be non-negative, got {probabilities!r}")
    if not abs(probabilities.sum() - 1.0) <= 1e-6:
        raise ValueError(f"probabilities must sum to 1, got {float(probabilities.sum())!r}")
    return probabilities / probabilities.sum()


def _multiplicities(counts: NDArray[Any], records: int, n: int) -> NDArray[Any]:
    if counts.shape != (records,):
        raise ValueError(f"counts must have shape ({records},), got {counts.shape}")
    if not np.all((counts >= 0) & (counts == np.round(counts))):
        raise ValueError(f"counts must be non-negative integers, got {counts!r}")
    if counts.sum() != n:
        raise ValueError(f"counts must sum to n = {n}, got {counts.sum()}")
    return counts

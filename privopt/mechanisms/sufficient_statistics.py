"""Sufficient statistics of least squares, with every record clipped, as one vector."""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float
from numpy.typing import NDArray

from privopt.arguments import instance, positive_number, shown
from privopt.convex import EmpiricalRisk, Features
from privopt.convex.arrays import scaled_rows
from privopt.mechanisms.calibration import UNIT64
from privopt.mechanisms.clipping import is_exact
from privopt.spec import Assumptions, ProblemClass, Relation

_ROUND_OFF = 1e-6  # relative, of a clip
_CLIPPED = 1.0 - 2.0**-20  # a smaller factor is not due to rounding
_BLOCK = 1024  # dense rows in memory at once
_EXTREME = 1e30  # largest clip, with square and round-off finite in float32


class ClippedMoments(NamedTuple):
    """Clipped second moments ``(1/n) (sum_i vec(x_i x_i^T), w sum_i r_i x_i)``.

    Features and residuals are clipped: ``|x_i| <= X``, ``|r_i| <= Y``.

    ``vec`` is the upper triangle with its off-diagonal part times ``sqrt(2)``, so that norms are
    Frobenius norms. The residual ``r_i = y_i - <x_i, c>`` is taken at a public centre ``c``. Each
    record is clipped by itself: features are shortened to ``X``, then the residual is clipped at
    ``Y``; a record that is not finite counts as 0. All arithmetic is float64, and ``n`` is the
    public design size.

    The distance of two records is at most ``sqrt(2) (X^2 + w^2 Y^2/2)``, or ``2 w X Y`` if ``w Y >
    sqrt(2) X``. Proof: :ref:`Perturbation, Theorem 9 <theory-perturbation-9>`.

    ``feature_clip`` and ``label_clip`` are ``X`` and ``Y``, ``weight`` is ``w``, public, in units
    of ``x`` over ``y``; ``size`` is ``n``; ``dim`` enters the round-off.

    Examples
    --------
    >>> query = ClippedMoments(1.0, 1.0, weight=1.0, size=1000.0, dim=5)
    >>> [round(query.sensitivity(each), 6) for each in (Relation.ZERO_OUT, Relation.REPLACE_ONE)]
    [0.001414, 0.002121]
    """

    feature_clip: float
    label_clip: float
    weight: float
    size: float
    dim: int

    @classmethod
    def of(
        cls, problem_class: ProblemClass, *, label_clip: float | None = None, weight: float = 1.0
    ) -> ClippedMoments:
        """Return the query for squared losses; ``X`` and ``Y`` are from :func:`largest_record`."""
        instance("problem_class", problem_class, ProblemClass)
        if not problem_class.smoothness:
            raise ValueError(
                "smoothness must be positive for second moments, as its root bounds the features, "
                f"got {shown(problem_class.smoothness)}"
            )
        features, labels = largest_record(problem_class)
        if label_clip is None and math.isinf(labels):
            raise ValueError("label_clip must be given where lipschitz is not declared, got None")
        if label_clip is None and not labels > 0.0:
            raise ValueError(
                "label_clip must be given where lipschitz is at most radius times smoothness, "
                f"{problem_class.radius * problem_class.smoothness:g}, at which "
                "labels would have the bound 0, got None"
            )
        labels = labels if label_clip is None else positive_number("label_clip", label_clip)
        for name, value in (("feature_clip", features), ("label_clip", labels)):
            if not 1.0 / _EXTREME <= value <= _EXTREME:
                raise ValueError(f"{name} must lie in [1e-30, 1e30], got {shown(value)}")
        weight = positive_number("weight", weight)
        return cls(features, labels, weight, float(problem_class.n), problem_class.dim)

    @property
    def numbers(self) -> int:
        """Length of the vector: ``d (d + 3)/2``."""
        return self.dim * (self.dim + 3) // 2

    def sensitivity(self, relation: Relation) -> float:
        """Return the distance over ``n``, or ``X sqrt(X^2 + w^2 Y^2)/n`` without ``replace_one``.

        Float64 round-off is charged: of norms, and of a sum in any order, which is within ``n^2
        2^-53`` contributions of the exact one for either neighbour.
        """
        numbers = {name: positive_number(name, getattr(self, name)) for name in self._fields}
        features, labels, weight, size, dim = numbers.values()
        relation, weighted = Relation(relation), weight * labels
        norm = features * math.hypot(features, weighted)
        distance = norm
        if relation is Relation.REPLACE_ONE:
            is_near = weighted <= math.sqrt(2.0) * features
            balanced = math.sqrt(2.0) * (features**2 + 0.5 * weighted**2)
            distance = balanced if is_near else 2.0 * features * weighted
        norm_error, order_error = 8.0 * (dim + 16.0) * UNIT64, 2.0 * size * (size + 16.0) * UNIT64
        charged = distance * (1.0 + norm_error) + relation.multiple * norm * order_error
        return charged / size * (1.0 + 8.0 * UNIT64)

    def assumptions(self, relation: Relation) -> Assumptions:
        """Return the assumptions: none on the records. Round-off depends on dimension and size."""
        del relation
        return Assumptions(dim=self.dim, n=self.size, requires=frozenset({"squares"}))

    def changes(self, problem_class: ProblemClass) -> bool:
        """Return True if the answer can differ from the moments of declared records."""
        features, labels = (each * (1.0 - _ROUND_OFF) for each in largest_record(problem_class))
        clips = self.feature_clip < features or self.label_clip < labels
        return clips or self.size != problem_class.n

    def answer(
        self, objective: EmpiricalRisk, centre: Float[Array, " d"]
    ) -> tuple[Float[Array, " moments"], Float[Array, ""]]:
        """Return the vector, shape ``(d (d + 3)/2,)``, and the secret number of changed records."""
        records = objective.linear
        assert records is not None
        features, labels = records.features, records.labels
        if features.dtype != jnp.float64:
            raise ValueError(f"objective must be float64 for second moments, got {features.dtype}")
        sizes = features.norms()
        factors = self.feature_clip / jnp.maximum(sizes, self.feature_clip)
        raw = labels - features.scaled(factors).matvec(centre)
        usable = is_exact(sizes, factors) & jnp.isfinite(raw)
        residuals = jnp.where(usable, jnp.clip(raw, -self.label_clip, self.label_clip), 0.0)
        factors = jnp.where(usable, factors, 0.0)
        ones = jnp.ones_like(labels)
        counts = ones if objective.counts is None else objective.counts
        moments = _sums(features, factors, residuals, counts) / self.size
        upper, scales = triangle(features.shape[1])
        vector = [moments[:, :-1][upper] * scales, self.weight * moments[:, -1]]
        unchanged = (factors >= _CLIPPED) & (jnp.abs(raw) * _CLIPPED <= self.label_clip)
        return jnp.concatenate(vector), counts @ jnp.where(unchanged, 0.0, 1.0)

    def parts(
        self, vector: Float[Array, " moments"], dim: int
    ) -> tuple[Float[Array, "d d"], Float[Array, " d"]]:
        """Return the symmetric matrix and the moments with residuals of a vector."""
        upper, scales = triangle(dim)
        half = jnp.zeros((dim, dim), vector.dtype).at[upper].set(vector[:-dim] / scales)
        return half + jnp.triu(half, 1).T, vector[-dim:] / self.weight


def triangle(dim: int) -> tuple[tuple[NDArray[np.int64], ...], NDArray[np.float64]]:
    """Return the indices of the upper triangle, and the weights of its numbers in a norm."""
    rows, columns = np.triu_indices(dim)
    return (rows, columns), np.where(rows == columns, 1.0, math.sqrt(2.0))


def largest_record(problem_class: ProblemClass) -> tuple[float, float]:
    """Return ``X`` and ``Y``: bounds on features and on the residual at the centre.

    A loss ``(<x, w> - y)^2/2`` is ``|x|^2``-smooth, and over the ball of radius ``R`` about the
    centre its largest gradient norm is ``|x| (R |x| + |r|)``. So ``X = sqrt(H)``, and ``L = X (R X
    + Y)`` is taken as the bound of a class with ``|r| <= Y``. (Shorter features would allow larger
    residuals under the same ``L``.) ``Y`` is infinite if ``L`` or ``H`` is not declared, and not
    positive if ``L <= R H``.

    Examples
    --------
    >>> largest_record(ProblemClass(n=9, dim=2, lipschitz=3.0, radius=2.0, smoothness=1.0))
    (1.0, 1.0)
    """
    if not problem_class.smoothness:
        return math.inf, math.inf
    features = math.sqrt(problem_class.smoothness)
    if math.isinf(problem_class.lipschitz):
        return features, math.inf
    return features, problem_class.lipschitz / features - problem_class.radius * features


def _sums(features: Features, factors: Array, residuals: Array, counts: Array) -> Array:
    """Return ``sum_i m_i x_i (x_i, r_i)^T`` with ``x_i`` times its factor, shape ``(d, d + 1)``."""
    n, dim = features.shape
    size = min(n, _BLOCK)

    def add(block: Array | int, total: Array) -> Array:
        start = jnp.minimum(block * size, n - size)

        def part(numbers: Array) -> Array:
            return jax.lax.dynamic_slice_in_dim(numbers, start, size)

        is_new = start + jnp.arange(size) >= block * size  # the last block overlaps
        rows = scaled_rows(features.block(start, size), part(factors))
        weights = jnp.where(is_new, part(counts), 0.0)
        both = jnp.concatenate([rows, part(residuals)[:, None]], axis=1)
        weighted = scaled_rows(rows, weights)
        return total + jnp.matmul(weighted.T, both, precision=jax.lax.Precision.HIGHEST)

    return jax.lax.fori_loop(0, -(-n // size), add, jnp.zeros((dim, dim + 1), features.dtype))

"""Bounded queries: functions of the data with a sensitivity.

Each query is a NamedTuple of numbers. It is evaluated on the device, and ``sensitivity(relation)``
is computed on the host from the same numbers. Mechanisms read the sensitivity from the query. It
is defined once.

The sensitivity covers the computed answer, round-off included:

- Rounding after the noise is post-processing. A public centre is therefore added last
  (``restore``), and the answer before it is small.
- Rounding before the noise separates the answers of two neighbours by up to twice its error. The
  sensitivity includes this error for float32, even if the records are float64. The error of the
  contribution of a record is a few ``2^-24`` of it. The error of a sum is ``2^-24`` of the *sum*,
  which is ``2^-24 n`` contributions. Sums are compensated, so that they are rounded once, and are
  charged for a public ``n``, with room for 512 times as many records. If the number of records is
  private, at most 131,072 records in float32 and ``2^46`` in float64 are allowed, and ``2^-7`` of
  a contribution is charged.
- Counts are integers, medians and modes are selected: they are exact.
- A sum of gradients is a product of matrices in an unspecified order. The worst case of float64,
  ``2 n^2 2^-53`` contributions, is charged. **The worst case of float32 is not**: it would equal
  the contribution from ``n = 2900`` on (the observed error is nearer ``2^-24 n``).
- Minimisers are meant for float64, with half of the distance ``error`` reserved for round-off.

Not modelled: the grid of the noise, and the time and memory of a computation.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp

from privopt.arguments import instance, positive_number, real, shown
from privopt.convex import EmpiricalRisk, RegularisedGLM
from privopt.mechanisms.calibration import UNIT, UNIT64
from privopt.mechanisms.clipping import (
    MICROBATCH,
    BatchSum,
    clipped_batch_sum,
    clipped_gradient_sum,
    clipped_linear_model,
)
from privopt.privacy import round_down, round_up
from privopt.release import Pytree
from privopt.spec import Assumptions, Norm, ProblemClass, Relation

jax.tree_util.register_static(Norm)  # the norm is static, the numbers are traced

_MIN_SHARE = 1e-25  # contribution to a mean; it and its noise are normal numbers of float32
_MAX_SUM = 1e36  # of contributions; eight times that, plus noise, is finite in float32
_CLIPPED = 1e-6  # relative; a clip norm closer to ``L`` only changes round-off


class BoundedQuery(Protocol):
    """Query with a Euclidean sensitivity."""

    def sensitivity(self, relation: Relation) -> float:
        """Return the largest Euclidean distance between the answers of neighbours."""


class L1BoundedQuery(Protocol):
    """Query with an l1 sensitivity, for noise that is independent in every coordinate."""

    def l1_sensitivity(self, relation: Relation) -> float:
        """Return the largest l1 distance between the answers of neighbours."""


class ClippedGradient(NamedTuple):
    """Mean of clipped per-record gradients: ``(1/n) sum_i clip_C(g_i(w))``.

    ``n`` is the public design size and the divisor for every data set. ``clip_norm`` is ``C`` and
    ``size`` is ``n``, both representable in float32: the device uses the accounted numbers.
    ``dim`` enters the round-off of norms. A positive ``gamma`` selects automatic clipping, ``g
    C/(|g| + gamma)``; None selects ``g min(1, C/|g|)``. ``norm`` is the norm ``|g|``.

    Examples
    --------
    >>> query = ClippedGradient.of(ProblemClass(n=1000, dim=5, lipschitz=1.0, radius=1.0))
    >>> round(query.sensitivity(Relation.REPLACE_ONE), 6)
    0.002
    """

    clip_norm: float
    size: float
    dim: int
    gamma: float | None = None
    norm: Norm = Norm.L2

    @classmethod
    def of(
        cls,
        problem_class: ProblemClass,
        clip_norm: float | None = None,
        *,
        gamma: float | None = None,
        norm: Norm | str = Norm.L2,
    ) -> ClippedGradient:
        """Return the query for a problem class; ``clip_norm`` defaults to its ``L`` in ``norm``."""
        instance("problem_class", problem_class, ProblemClass)
        norm = Norm.named("norm", norm)
        lipschitz = problem_class.lipschitz_in(norm)
        if clip_norm is None and math.isinf(lipschitz):
            raise ValueError("clip_norm must be given where lipschitz is not declared, got None")
        clip_norm = lipschitz if clip_norm is None else real("clip_norm", clip_norm)
        if not clip_norm > 0.0:
            raise ValueError(f"clip_norm must be positive (inf: none), got {shown(clip_norm)}")
        if clip_norm * problem_class.n > _MAX_SUM and math.isfinite(clip_norm):
            raise ValueError(
                f"clip_norm must be at most {_MAX_SUM / problem_class.n:g} for {problem_class.n} "
                f"records with a finite sum, got {shown(clip_norm)}"
            )
        if clip_norm < _MIN_SHARE * problem_class.n:
            raise ValueError(
                f"clip_norm must be at least {_MIN_SHARE * problem_class.n:g} for "
                f"{problem_class.n} records, the limit of float32, got {shown(clip_norm)}"
            )
        gamma = None if gamma is None else positive_number("gamma", gamma)
        size = round_up(float(problem_class.n))
        return cls(round_up(clip_norm), size, problem_class.dim, gamma, norm)

    @property
    def record_sensitivity(self) -> float:
        """Upper bound on the Euclidean norm of the contribution of one record to the sum.

        ``C`` plus round-off: of float32 in norms, and of float64 in the order of the sum. If ``C``
        bounds the linf norm, ``sqrt(d)`` times as much.
        """
        return Norm.L2.bound(self._record_bound, self.norm, self.dim)

    @property
    def _record_bound(self) -> float:
        """Contribution of one record in the norm of the clip."""
        for name, value in (
            ("clip_norm", self.clip_norm),
            ("size", self.size),
            ("gamma", self.gamma),
        ):
            if value is not None and not value > 0.0:
                raise ValueError(f"{name} must be positive, got {shown(value)}")
        norms, order = 2.0 * (self.dim + 8) * UNIT, 2.0 * self.size**2 * UNIT64
        return round_up(self.clip_norm) * (1.0 + norms + order)

    def sensitivity(self, relation: Relation) -> float:
        """Return ``C/n``, twice that under ``replace_one``; plus round-off.

        It holds for every data set and loss, convex or not. Float32 sums are assumed exact.
        """
        return self._sensitivity(relation, Norm.L2)

    def l1_sensitivity(self, relation: Relation) -> float:
        """Return the l1 sensitivity ``sqrt(d) C/n``, attained by a gradient along a diagonal."""
        return self._sensitivity(relation, Norm.L1)

    def linf_sensitivity(self, relation: Relation) -> float:
        """Return the largest change of one coordinate: ``C/n`` for every norm of the clip."""
        return self._sensitivity(relation, Norm.LINF)

    def _sensitivity(self, relation: Relation, norm: Norm) -> float:
        bound = Relation(relation).multiple * self._record_bound / round_down(self.size)
        return norm.bound(bound, self.norm, self.dim)

    def assumptions(self, relation: Relation) -> Assumptions:
        """Return the assumptions: none on the losses. Round-off depends on the dimension."""
        del relation
        return Assumptions(dim=self.dim)

    @property
    def preserves_convexity(self) -> bool:
        """True if a clipped convex loss of a linear prediction is again convex.

        Automatic clipping (``gamma``) scales slopes by a factor that depends on them. The declared
        ``L`` excludes clipping of other losses only in the norm l2.
        """
        return self.gamma is None and self.norm is Norm.L2

    def changes(self, problem_class: ProblemClass) -> bool:
        """Return True if the answer can differ from the mean gradient of the class."""
        lipschitz = problem_class.lipschitz_in(self.norm)
        clipped = self.gamma is not None or self.clip_norm < lipschitz * (1.0 - _CLIPPED)
        return clipped or self.size != round_up(float(problem_class.n))

    def gradient_of(
        self, objective: EmpiricalRisk, microbatch: int = MICROBATCH
    ) -> Callable[[Pytree], Pytree]:
        """Return ``w -> gradient`` on the device; terms independent of ``w`` are precomputed."""
        total = clipped_gradient_sum(objective, self.clip_norm, self.gamma, microbatch, self.norm)
        return lambda point: jax.tree.map(lambda leaf: leaf / self.size, total(point))

    def batch_sums_of(self, objective: EmpiricalRisk, microbatch: int = MICROBATCH) -> BatchSum:
        """Return ``(w, rows, weights, anchor) -> sum`` over a batch; the caller divides."""
        return clipped_batch_sum(objective, self.clip_norm, self.gamma, microbatch, self.norm)

    def linear_model(self, objective: EmpiricalRisk) -> RegularisedGLM | None:
        """Return the risk with this gradient for a linear model in float64, else None."""
        if objective.dtype != jnp.float64:
            return None
        return clipped_linear_model(objective, self.clip_norm, self.size, self.norm)

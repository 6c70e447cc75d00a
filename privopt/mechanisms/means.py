"""Private means of vectors clipped in two norms: projected, or compressed and recovered."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from dp_accounting import DpEvent, GaussianDpEvent, NoOpDpEvent
from jax import Array
from jaxtyping import Float, Float64, Key

from privopt import random
from privopt.arguments import count, instance, member, positive_number, shown
from privopt.convex import (
    ConstraintSet,
    EmpiricalRisk,
    Features,
    L1Ball,
    L1L2Ball,
    L2Ball,
    WholeSpace,
    basis_pursuit,
    pytree_dataclass,
)
from privopt.mechanisms.additive import GaussianMechanism, LaplaceMechanism, classic_gaussian_scale
from privopt.mechanisms.calibration import UNIT64, check_calibration, drawable, noise_multiplier
from privopt.mechanisms.clipping import is_exact
from privopt.privacy import (
    CompressedGaussianDpEvent,
    compressed_noise_multiplier,
    gaussian_noise_multiplier,
    round_up,
)
from privopt.spec import Assumptions, Budget, ProblemClass, Relation

_ROUND_OFF = 1e-6  # relative, of a clip norm
_CLIPPED = 1.0 - 2.0**-20  # a smaller factor is not due to rounding
_BLOCK = 1024  # columns in memory at once


class ClippedMean(NamedTuple):
    """Mean of clipped records ``(1/n) sum_i z_i min(1, L/|z_i|_2, R/|z_i|_1)``, in float64.

    ``n`` is the public design size and the divisor for every data set. Clipping is total: a record
    counts as 0 if it or its norms are not finite. A clipped record is in both balls, so nothing is
    assumed of the records: neither a sparsity nor a norm. With ``R = L sqrt(s)`` a record of norm
    at most ``L`` with at most ``s`` nonzero numbers is unchanged, since then ``|z|_1 <= sqrt(s)
    |z|_2``.

    ``l2_clip`` and ``l1_clip`` are ``L`` and ``R``, ``size`` is ``n``; ``dim`` enters the
    round-off.

    Examples
    --------
    >>> facts = ProblemClass(n=1000, dim=50, lipschitz=1.0, radius=1.0, sparsity=4)
    >>> query = ClippedMean.of(facts)
    >>> round(query.sensitivity(Relation.REPLACE_ONE), 9)
    0.002
    >>> round(query.l1_sensitivity(Relation.REPLACE_ONE), 9)
    0.004
    """

    l2_clip: float
    l1_clip: float
    size: float
    dim: int

    @classmethod
    def of(cls, problem_class: ProblemClass, clip_norm: float | None = None) -> ClippedMean:
        """Return the query for a problem class; ``R = L sqrt(s)``, ``s = d`` if not declared.

        ``clip_norm`` is ``L``, by default :func:`largest_record`.
        """
        instance("problem_class", problem_class, ProblemClass)
        if problem_class.smoothness == 0.0:
            raise ValueError(
                "smoothness must be positive or undeclared for squared distances, got 0.0: "
                "losses of this class are linear"
            )
        clip_norm = (
            largest_record(problem_class)
            if clip_norm is None
            else positive_number("clip_norm", clip_norm)
        )
        if not math.isfinite(clip_norm):
            raise ValueError("clip_norm must be given where lipschitz is not declared, got None")
        l1_clip = clip_norm * math.sqrt(problem_class.sparsity or problem_class.dim)
        return cls(clip_norm, l1_clip, float(problem_class.n), problem_class.dim)

    def sensitivity(self, relation: Relation) -> float:
        """Return ``L/n``, twice that under ``replace_one``, plus round-off of a few ``n^2 2^-53``.

        Attained by a flat record of ``s`` numbers and, under ``replace_one``, its negative.
        """
        return self._sensitivity(min(self.l2_clip, self.l1_clip), relation)

    def l1_sensitivity(self, relation: Relation) -> float:
        """Return ``R/n``, twice that under ``replace_one``; plus round-off."""
        return self._sensitivity(min(self.l1_clip, self.l2_clip * math.sqrt(self.dim)), relation)

    def _sensitivity(self, clip_norm: float, relation: Relation) -> float:
        """Return the sensitivity with float64 round-off: of norms, of records, and of the sum.

        A computed sum of ``n`` vectors of norm ``C`` is within ``n^2 2^-53 C`` of the exact one in
        either norm, for any order of summation. For two neighbours the error is twice that.
        """
        positive_number("clip_norm", clip_norm)
        positive_number("size", self.size)
        norms, order = 2.0 * (self.dim + 16) * UNIT64, 2.0 * self.size**2 * UNIT64
        record_sensitivity = clip_norm * (1.0 + norms + order)
        return Relation(relation).multiple * record_sensitivity / self.size * (1.0 + 4.0 * UNIT64)

    def assumptions(self, relation: Relation) -> Assumptions:
        """Return the assumptions: none on the records. Round-off depends on dimension and size."""
        del relation
        requires = frozenset({"mean"})
        return Assumptions(dim=self.dim, n=self.size, requires=requires)

    def changes(self, problem_class: ProblemClass) -> bool:
        """Return True if the answer can differ from the mean of declared records."""
        declared = largest_record(problem_class) * (1.0 - _ROUND_OFF)
        spread = math.sqrt(problem_class.sparsity or problem_class.dim)
        clips = self.l2_clip < declared or self.l1_clip < spread * self.l2_clip * (1.0 - _ROUND_OFF)
        return clips or self.size != problem_class.n

    def mean_of(self, objective: EmpiricalRisk) -> Float[Array, " d"]:
        """Return the mean on the device."""
        points = _points(objective)
        factors = self._factors(points)
        finite = points.scaled((factors > 0.0).astype(points.dtype))
        weights = factors if objective.counts is None else objective.counts * factors
        return finite.rmatvec(weights) / self.size

    def clipped(self, objective: EmpiricalRisk) -> Float[Array, ""]:
        """Return the secret number of changed records. If positive, no risk bound holds."""
        points = _points(objective)
        changed = (self._factors(points) < _CLIPPED).astype(points.dtype)
        return changed.sum() if objective.counts is None else objective.counts @ changed

    def _factors(self, points: Features) -> Array:
        """Return ``min(1, L/|z|_2, R/|z|_1)``, shape ``(n,)``; 0 for non-finite records."""
        factors = jnp.ones(points.shape[0], points.dtype)
        for size, clip_norm in (
            (points.norms(), self.l2_clip),
            (points.norms(1.0), self.l1_clip),
        ):
            factor = clip_norm / jnp.where(size == 0.0, 1.0, size)
            factor = jnp.where(size == 0.0, 1.0, jnp.minimum(factor, 1.0))
            factors = jnp.where(is_exact(size, factor), jnp.minimum(factors, factor), 0.0)
        return factors


def largest_record(problem_class: ProblemClass) -> float:
    """Return ``L/m - R`` if it is positive and ``m`` is declared, else ``L``.

    It bounds ``|z|`` for losses ``(m/2) |w - z|^2`` with gradients of norm at most ``L`` on a ball
    of radius ``R`` about the centre, since the gradient norm attains ``m (R + |z|)`` there.

    Examples
    --------
    >>> facts = ProblemClass(
    ...     n=9, dim=2, lipschitz=2.0, radius=1.0, smoothness=1.0, strong_convexity=1.0
    ... )
    >>> largest_record(facts)
    1.0
    """
    lipschitz, convexity = problem_class.lipschitz, problem_class.strong_convexity
    reach = lipschitz / convexity - problem_class.radius if convexity > 0.0 else lipschitz
    return reach if reach > 0.0 else lipschitz


def _points(objective: EmpiricalRisk) -> Features:
    points = objective.points
    if points is None:
        raise ValueError(
            f"objective must have points, as a squared distance, got {shown(objective)}"
        )
    if points.dtype != jnp.float64:
        raise ValueError(f"objective must be float64 for a private mean, got {points.dtype}")
    return points


class ProjectedMean(NamedTuple):
    """Projection of a noisy mean: ``argmin_{v in B} |v - (zbar + xi)|_2``.

    The projection is post-processing. The mean squared error is at most ``min(E h_B(xi), E
    |xi|^2)`` with ``h_B(xi) = max_{v in B} <v, xi>``. Proof: :ref:`Sparse gradients, Theorem 1
    <theory-sparse-1>`. Source: Nikolov, Talwar and Zhang 2013; Ghazi et al. 2024, lemma 3.1.

    ``noisy`` is the mechanism of a :class:`ClippedMean`; ``body`` is ``B``, public.

    Formal guarantee
    ----------------
    The guarantee of ``noisy``. Gaussian noise depends on the Euclidean clip alone, and Laplace
    noise on the l1 clip alone.

    Examples
    --------
    >>> from privopt.spec import ProblemClass
    >>> facts = ProblemClass(n=1000, dim=50, lipschitz=1.0, radius=1.0, sparsity=4)
    >>> budget = Budget(epsilon=1.0, delta=0.0, relation="replace_one")
    >>> mechanism = ProjectedMean.calibrated(ClippedMean.of(facts), budget, noise="laplace")
    >>> round(mechanism.scale, 6), type(mechanism.body).__name__
    (0.004, 'L1L2Ball')
    """

    noisy: GaussianMechanism[ClippedMean] | LaplaceMechanism[ClippedMean]
    body: ConstraintSet

    @classmethod
    def calibrated(
        cls,
        query: ClippedMean,
        budget: Budget,
        *,
        noise: str = "gaussian",
        body: str = "l1_l2",
        classic: bool = False,
    ) -> ProjectedMean:
        """Return the mechanism with the least noise within ``budget``.

        ``noise`` is ``"gaussian"`` or ``"laplace"``; ``body`` is an argument of :func:`body_of`.
        If ``classic``, the scale is :func:`classic_gaussian_scale`, for ``epsilon <= 1``.
        """
        instance("query", query, ClippedMean)
        member("noise", noise, ("gaussian", "laplace"))
        convex_set = body_of(body, query.l1_clip, query.l2_clip)
        if noise == "laplace":
            return cls(LaplaceMechanism.calibrated(query, budget), convex_set)
        if classic:
            return cls(GaussianMechanism(query, classic_gaussian_scale(query, budget)), convex_set)
        return cls(GaussianMechanism.calibrated(query, budget), convex_set)

    @property
    def query(self) -> ClippedMean:
        """Clipped mean without noise."""
        return self.noisy.query

    @property
    def scale(self) -> float:
        """``sigma`` of Gaussian noise, ``b`` of Laplace noise."""
        return self.noisy.scale

    def event(self, relation: Relation) -> DpEvent:
        """Return the event of one release."""
        return self.noisy.event(relation)

    def release(self, key: Key[Array, ""], mean: Float[Array, " d"]) -> Float[Array, " d"]:
        """Return the projected noisy mean; ``mean`` is the answer of ``query``."""
        return self.body.project(self.noisy.add_noise(key, mean))


def body_of(name: str, l1_clip: float, l2_clip: float) -> ConstraintSet:
    """Return a convex set that contains every mean of records clipped in two norms.

    ``name`` is ``"l1_l2"``, the intersection of the balls of the two clips, ``"l1"`` or ``"l2"``,
    one of them, or ``"none"``, the whole space.
    """
    sets: dict[str, ConstraintSet] = {
        "l1_l2": L1L2Ball(l1_clip, l2_clip),
        "l1": L1Ball(l1_clip),
        "l2": L2Ball(l2_clip),
        "none": WholeSpace(),
    }
    member("body", name, sets)
    return sets[name]


@pytree_dataclass
@dataclass(frozen=True, kw_only=True)
class CompressedMean:
    """Compressed mean ``argmin {|z|_1 : A z = A zbar + N(0, sigma^2 I_m)}``, projected.

    The matrix ``A`` is ``m`` by ``d`` and released too. It is either sampled, with independent
    ``N(0, 1/m)`` from the public randomness of a run, or given and fixed before the data. The
    projection is onto the set of means.

    Given ``A`` the release is a Gaussian mechanism, and the pair is their mixture. No isometry, no
    sparsity and no condition on ``m`` is needed. For a given matrix its largest gain
    (:func:`largest_gain`) is charged. Proof: :ref:`Sparse gradients, Theorem 12
    <theory-sparse-12>`.

    The float64 round-off of ``A zbar`` is charged for a given matrix. It is not charged for a
    random one: there it is below ``n d^{3/2} 2^-53`` of the sensitivity.

    Source: Ghazi, Guzman, Kamath, Kumar and Manurangsi, "Differentially private optimization with
    sparse gradients", NeurIPS 2024 (arXiv:2404.10881), theorem 3.4, with a restricted isometry and
    a factor 3/2 for it.

    ``scale`` is ``sigma``, of one measurement, ``measurements`` is ``m``, and ``matrix`` is a
    given ``A``, shape ``(m, d)``.

    Formal guarantee
    ----------------
    The event is :class:`privopt.privacy.CompressedGaussianDpEvent`, or ``GaussianDpEvent`` for a
    given matrix, under each relation.

    Examples
    --------
    >>> from privopt.spec import ProblemClass
    >>> facts = ProblemClass(n=1000, dim=50, lipschitz=1.0, radius=1.0, sparsity=4)
    >>> budget = Budget(epsilon=1.0, delta=1e-6, relation="replace_one")
    >>> mechanism = CompressedMean.calibrated(ClippedMean.of(facts), budget, measurements=20)
    >>> round(mechanism.scale * 1000 / 2 / 4.2247, 2)
    1.16
    """

    query: ClippedMean
    scale: float
    matrix: Float64[np.ndarray, "m d"] | None = None
    measurements: int = field(metadata={"static": True})

    @classmethod
    def calibrated(
        cls,
        query: ClippedMean,
        budget: Budget,
        *,
        measurements: int,
        calibration: str = "mixture",
        matrix: Float64[np.ndarray, "m d"] | None = None,
    ) -> CompressedMean:
        """Return the mechanism with noise within ``budget``, by one of four proofs.

        ``calibration`` is an argument of :func:`privopt.privacy.compressed_noise_multiplier`:
        ``"mixture"`` is the least noise, by the exact law; ``"renyi"``, ``"split"`` and
        ``"published"`` are simpler proofs. A given ``matrix``, fixed before the data, has one
        proof.
        """
        check_calibration(query, budget, "sensitivity")
        unit = cls(query=query, scale=1.0, matrix=matrix, measurements=measurements)
        if matrix is not None:
            noise = gaussian_noise_multiplier(drawable(budget))
        else:
            noise = compressed_noise_multiplier(drawable(budget), measurements, calibration)
        return replace(unit, scale=round_up(noise * unit.record_sensitivity(budget.relation)))

    def record_sensitivity(self, relation: Relation) -> float:
        """Return the per-record sensitivity of the mean, or of ``A zbar`` for a given matrix."""
        multiple = Relation(relation).multiple
        sensitivity = self.query.sensitivity(relation) / multiple
        if self.matrix is None:
            return sensitivity
        sparsity = (self.query.l1_clip / self.query.l2_clip) ** 2
        error = 2.0 * (self.query.dim + 8) * UNIT64 * float(np.linalg.norm(self.matrix))
        gain = largest_gain(self.matrix, sparsity) * sensitivity
        return (gain + 2.0 * error * self.query.l2_clip) * (1.0 + 2.0**-50)

    def event(self, relation: Relation) -> DpEvent:
        """Return the event of one release, which includes the matrix."""
        noise = noise_multiplier(self.scale, self.record_sensitivity(relation))
        if self.matrix is not None:
            return GaussianDpEvent(noise) if noise < math.inf else NoOpDpEvent()
        return CompressedGaussianDpEvent(noise, count("measurements", self.measurements))

    def draw(self, key: Key[Array, ""], dim: int) -> Float[Array, "m d"]:
        """Return ``A`` of a run, ``d = dim``: sampled, or given."""
        if self.matrix is not None:
            return jnp.asarray(self.matrix)
        sample = random.normal(key, (self.measurements, dim), jnp.float64)
        return sample / math.sqrt(self.measurements)

    def measure(
        self, key: Key[Array, ""], matrix: Float[Array, "m d"], mean: Float[Array, " d"]
    ) -> Float[Array, " m"]:
        """Return ``A zbar`` with noise; ``mean`` is the answer of ``query``."""
        measured = jnp.matmul(matrix, mean, precision="highest")
        return GaussianMechanism(self.query, self.scale).add_noise(key, measured)

    def recover(
        self, matrix: Float[Array, "m d"], measured: Float[Array, " m"]
    ) -> Float[Array, " d"]:
        """Return the projected mean of least l1 norm; 0 if the recovery fails."""
        recovered = basis_pursuit(matrix, measured).point
        recovered = jnp.where(jnp.isfinite(recovered).all(), recovered, 0.0)
        return L1L2Ball(self.query.l1_clip, self.query.l2_clip).project(recovered)


def largest_gain(matrix: Float64[np.ndarray, "m d"], sparsity: float) -> float:
    """Return a certified bound on ``|A v|_2`` over ``|v|_2 <= 1``, ``|v|_1 <= sqrt(s)``.

    The smaller of two bounds, with a margin for round-off: the operator norm, and ``kappa^2 <=
    max_i |a_i|^2 + (s - 1) max_{i != j} |<a_i, a_j>|`` for the columns ``a_i``, exact for ``s =
    1``. Proof: :ref:`Sparse gradients, Theorem 12 <theory-sparse-12>`.

    ``matrix`` is ``A``, finite, and ``sparsity`` is ``s >= 1``.

    Examples
    --------
    >>> round(largest_gain(np.array([[3.0, 0.0], [4.0, 1.0]]), 1.0), 12)
    5.0
    """
    rows, columns = matrix.shape
    lengths, coherence = np.einsum("ij,ij->j", matrix, matrix), 0.0
    for start in range(0, columns, _BLOCK):
        products = np.abs(matrix[:, start : start + _BLOCK].T @ matrix)
        diagonal = np.arange(products.shape[0])
        products[diagonal, start + diagonal] = 0.0
        coherence = max(coherence, float(products.max()))
    largest = float(lengths.max())
    margin = 1.0 + 8.0 * (rows + columns) * UNIT64
    by_coherence = (
        largest + max(0.0, sparsity - 1.0) * (coherence + rows * UNIT64 * largest)
    ) * margin
    trace = float(lengths.sum())
    by_norm = float(np.linalg.eigvalsh(matrix @ matrix.T)[-1]) + (rows + columns) * UNIT64 * trace
    return math.sqrt(min(by_coherence, by_norm * margin))

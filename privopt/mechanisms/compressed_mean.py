"""Compressed means: random projection, noise, and recovery by l1 minimisation."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import jax.numpy as jnp
import numpy as np
from dp_accounting import DpEvent, GaussianDpEvent, NoOpDpEvent
from jax import Array
from numpy.typing import NDArray

from privopt import draws
from privopt.arguments import count
from privopt.convex import L1L2Ball, basis_pursuit, pytree_dataclass
from privopt.mechanisms.additive import GaussianMechanism
from privopt.mechanisms.calibration import check_calibration, drawable, noise_multiplier
from privopt.mechanisms.means import ClippedMean
from privopt.mechanisms.round_off import UNIT64
from privopt.privacy import (
    CompressedGaussianDpEvent,
    compressed_noise_multiplier,
    gaussian_noise_multiplier,
    round_up,
)
from privopt.spec import Budget, Relation

_BLOCK = 1024  # columns in memory at once


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
    matrix: NDArray[np.float64] | None = None
    measurements: int = field(metadata={"static": True})

    @classmethod
    def calibrated(
        cls,
        query: ClippedMean,
        budget: Budget,
        *,
        measurements: int,
        calibration: str = "mixture",
        matrix: NDArray[np.float64] | None = None,
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
        return replace(unit, scale=round_up(noise * unit.contribution(budget.relation)))

    def contribution(self, relation: Relation) -> float:
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
        noise = noise_multiplier(self.scale, self.contribution(relation))
        if self.matrix is not None:
            return GaussianDpEvent(noise) if noise < math.inf else NoOpDpEvent()
        return CompressedGaussianDpEvent(noise, count("measurements", self.measurements))

    def draw(self, key: Array, dim: int) -> Array:
        """Return ``A`` of a run, ``d = dim``: sampled, or given."""
        if self.matrix is not None:
            return jnp.asarray(self.matrix)
        sample = draws.normal(key, (self.measurements, dim), jnp.float64)
        return sample / math.sqrt(self.measurements)

    def measure(self, key: Array, matrix: Array, mean: Array) -> Array:
        """Return ``A zbar`` with noise, shape ``(m,)``; ``mean`` is the answer of ``query``."""
        measured = jnp.matmul(matrix, mean, precision="highest")
        return GaussianMechanism(self.query, self.scale).add_noise(key, measured)

    def recover(self, matrix: Array, measured: Array) -> Array:
        """Return the projected mean of least l1 norm; 0 if the recovery fails."""
        recovered = basis_pursuit(matrix, measured).point
        recovered = jnp.where(jnp.isfinite(recovered).all(), recovered, 0.0)
        return L1L2Ball(self.query.l1_clip, self.query.l2_clip).project(recovered)


def largest_gain(matrix: NDArray[np.float64], sparsity: float) -> float:
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

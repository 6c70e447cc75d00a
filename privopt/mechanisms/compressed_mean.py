"""A mean that is compressed, made private, and recovered as the vector of least l1 norm."""

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
from privopt.privacy import (
    CompressedGaussianDpEvent,
    compressed_noise_multiplier,
    gaussian_noise_multiplier,
    round_up,
)
from privopt.spec import Budget, Relation

_BLOCK = 1024  # columns whose products are in memory at once
_UNIT = 2.0**-53  # of float64: the relative error of one operation


@pytree_dataclass
@dataclass(frozen=True, kw_only=True)
class CompressedMean:
    """``argmin {|z|_1 : A z = A zbar + N(0, sigma^2 I_m)}``, projected onto the body of means.

    The matrix ``A`` is ``m`` by ``d`` and released too: fresh, of independent ``N(0, 1/m)``, drawn
    from the public coins of a run; or given, fixed before any data.

    For two neighbours ``v = zbar - zbar'`` is fixed before a fresh ``A`` is drawn, so ``m |A v|^2
    / |v|^2`` is chi-squared with ``m`` degrees of freedom, exactly: given ``A`` the release is a
    Gaussian mechanism of that shift, and the pair is their mixture. No isometry is needed, no
    sparsity, and no condition on ``m``. What comes after the noisy ``A zbar`` is post-processing.
    A given matrix counts by how much it can lengthen ``v`` (:func:`largest_gain`), and ``v`` may
    depend on it.

    The float64 round-off of ``A zbar`` is charged for a given matrix. It is not for a fresh one,
    where it is below ``n d^{3/2} 2^-53`` of the sensitivity.

    Source: Ghazi, Guzman, Kamath, Kumar and Manurangsi, "Differentially private optimization with
    sparse gradients", NeurIPS 2024 (arXiv:2404.10881), theorem 3.4, where privacy rests on a
    restricted isometry and a factor 3/2 for it.

    ``scale`` is ``sigma``, of one measurement, ``measurements`` is ``m``, and ``matrix`` is ``A``,
    shape ``(m, d)``, where it is given.

    Formal guarantee
    ----------------
    The event is :class:`privopt.privacy.CompressedGaussianDpEvent`, of a given matrix
    ``GaussianDpEvent``, under each relation.

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
        """The noise that stays within ``budget``, by one of four proofs.

        ``calibration`` is as for :func:`privopt.privacy.compressed_noise_multiplier`:
        ``"mixture"`` is the least noise, by the exact law; ``"renyi"``, ``"split"`` and
        ``"published"`` are what simpler proofs ask for. A given ``matrix``, fixed before the data
        are seen, has one proof.
        """
        check_calibration(query, budget, "sensitivity")
        unit = cls(query=query, scale=1.0, matrix=matrix, measurements=measurements)
        if matrix is not None:
            noise = gaussian_noise_multiplier(drawable(budget))
        else:
            noise = compressed_noise_multiplier(drawable(budget), measurements, calibration)
        return replace(unit, scale=round_up(noise * unit.contribution(budget.relation)))

    def contribution(self, relation: Relation) -> float:
        """One record's share of the mean; of ``A zbar`` where the matrix is given."""
        multiple = Relation(relation).multiple
        share = self.query.sensitivity(relation) / multiple
        if self.matrix is None:
            return share
        sparsity = (self.query.l1_clip / self.query.l2_clip) ** 2
        error = 2.0 * (self.query.dim + 8) * 2.0**-53 * float(np.linalg.norm(self.matrix))
        moved = largest_gain(self.matrix, sparsity) * share
        return (moved + 2.0 * error * self.query.l2_clip) * (1.0 + 2.0**-50)

    def event(self, relation: Relation) -> DpEvent:
        """What one release, of the matrix too, does to privacy."""
        noise = noise_multiplier(self.scale, self.contribution(relation))
        if self.matrix is not None:
            return GaussianDpEvent(noise) if noise < math.inf else NoOpDpEvent()
        return CompressedGaussianDpEvent(noise, count("measurements", self.measurements))

    def draw(self, key: Array, dim: int) -> Array:
        """``A`` of a run, ``d = dim``: fresh, or the given one."""
        if self.matrix is not None:
            return jnp.asarray(self.matrix)
        drawn = draws.normal(key, (self.measurements, dim), jnp.float64)
        return drawn / math.sqrt(self.measurements)

    def measure(self, key: Array, matrix: Array, mean: Array) -> Array:
        """``A zbar`` with its noise, shape ``(m,)``; ``mean`` is what ``query`` gave."""
        measured = jnp.matmul(matrix, mean, precision="highest")
        return GaussianMechanism(self.query, self.scale).add_noise(key, measured)

    def recover(self, matrix: Array, measured: Array) -> Array:
        """The mean that has the least l1 norm, projected; 0 where nothing is recovered."""
        found = basis_pursuit(matrix, measured).point
        found = jnp.where(jnp.isfinite(found).all(), found, 0.0)
        return L1L2Ball(self.query.l1_clip, self.query.l2_clip).project(found)


def largest_gain(matrix: NDArray[np.float64], sparsity: float) -> float:
    """A certified bound on ``|A v|_2`` over ``|v|_2 <= 1``, ``|v|_1 <= sqrt(s)``.

    The smaller of two bounds, with room for round-off:

    - ``kappa^2 <= max_i |a_i|^2 + (s - 1) max_{i != j} |<a_i, a_j>|``. Proof: with ``M`` and ``c``
      the two maxima, ``|A v|^2 <= M |v|_2^2 + c (|v|_1^2 - |v|_2^2)``, and ``M >= c``.
    - the operator norm, about ``1 + sqrt(d/m)`` for ``m`` rows of variance ``1/m``.

    Exact for ``s = 1``: the longest column. Both hold for records that are clipped in both norms,
    not only for sparse ones; the largest gain over *sparse* vectors would not.

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
        own = np.arange(products.shape[0])
        products[own, start + own] = 0.0
        coherence = max(coherence, float(products.max()))
    largest = float(lengths.max())
    room = 1.0 + 8.0 * (rows + columns) * _UNIT
    by_coherence = (
        largest + max(0.0, sparsity - 1.0) * (coherence + rows * _UNIT * largest)
    ) * room
    trace = float(lengths.sum())
    by_norm = float(np.linalg.eigvalsh(matrix @ matrix.T)[-1]) + (rows + columns) * _UNIT * trace
    return math.sqrt(min(by_coherence, by_norm * room))

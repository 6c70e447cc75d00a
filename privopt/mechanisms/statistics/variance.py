"""The variance of bounded records of a private number."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from dp_accounting import DpEvent
from jax import Array

from privopt.mechanisms.laplace import LaplaceMechanism
from privopt.mechanisms.statistics.bounds import Bounds
from privopt.mechanisms.statistics.records import present_sum
from privopt.spec import Budget, Relation

__all__ = ["CentredMoments", "VarianceMechanism"]

_ROUNDOFF = 1.0 + 2.0**-20  # of the moments of one record, computed in float32


class CentredMoments(NamedTuple):
    """``sum_i (t_i, 2 t_i^2 - 1, 1)`` with ``t_i = (x_i - m)/h`` clamped into ``[-1, 1]``.

    The square is centred as the record is, so that both have absolute value 1 at most.

    Attributes
    ----------
    bounds : Bounds
        No sensitivity depends on it, so it may itself be a private release.
    """

    bounds: Bounds

    def l1_sensitivity(self, relation: Relation) -> float:
        """``25/8`` under ``replace_one``, 3 else.

        A replacement moves by ``|t - t'| (1 + 2 |t + t'|)``, most at ``t = 1``, ``t' = -1/4``. (The
        sums alone move by 2 each, but not at once.)
        """
        return 25.0 / 8.0 * _ROUNDOFF if relation is Relation.REPLACE_ONE else 3.0

    def answer(self, records: Array, present: Array | None = None) -> Array:
        """The three sums, shape ``(3,)``, in the dtype of ``records``, of shape ``(n,)``."""
        position = self.bounds.standardise(records)
        moments = (position, 2.0 * position**2 - 1.0, jnp.ones_like(position))
        return present_sum(jnp.stack(moments, axis=-1), present)


class VarianceMechanism(NamedTuple):
    """The variance of a private number of records, from three sums that share one noisy count.

    With ``a = A/N`` and ``b = B/N``, ``N`` at least 1, of the noisy sums ``A``, ``B`` and count:
    ``h^2 clamp((1 + b)/2 - a^2, 0, 1)``, since ``(1 + b)/2`` is the mean of ``t^2``. Divides by the
    number of records, not by one less. In the units of the records the noise is
    ``Lap(3h/epsilon)`` on the sum, ``Lap(3h^2/(2 epsilon))`` on that of squares, ``Lap(3/epsilon)``
    on the count.

    Attributes
    ----------
    laplace : LaplaceMechanism
        Of ``CentredMoments``, with scale ``3/epsilon``; ``(25/8)/epsilon`` under ``replace_one``.

    Formal guarantee
    ----------------
    ``epsilon``-DP under the relation it was calibrated for; ``event`` knows the others.
    """

    laplace: LaplaceMechanism

    @classmethod
    def calibrated(cls, lower: float, upper: float, budget: Budget) -> VarianceMechanism:
        """The least noise with which one variance stays within ``budget.epsilon``.

        Raises
        ------
        ValueError
            If a bound is not finite or beyond 1e30, or ``lower`` exceeds ``upper``.
        """
        return cls(LaplaceMechanism.calibrated(CentredMoments(Bounds.of(lower, upper)), budget))

    def event(self, relation: Relation) -> DpEvent:
        """What one release does to privacy."""
        return self.laplace.event(relation)

    def release(self, key: Array, records: Array, present: Array | None = None) -> Array:
        """The noisy variance in ``[0, h^2]``, shape ``()``, in the dtype of ``records``."""
        query: CentredMoments = self.laplace.query
        first, second, count = self.laplace.add_noise(key, query.answer(records, present))
        count = jnp.maximum(count, 1.0)
        share = 0.5 * (1.0 + second / count) - (first / count) ** 2
        return query.bounds.half_width**2 * jnp.clip(share, 0.0, 1.0)

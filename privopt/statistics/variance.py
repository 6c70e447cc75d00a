"""The variance of bounded records, of a public or a private number."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from dp_accounting import DpEvent
from jax import Array

from privopt.mechanisms.additive import LaplaceMechanism
from privopt.mechanisms.round_off import MAX_TERMS, UNIT, sum_error
from privopt.spec import Budget, Relation
from privopt.statistics.bounds import Bounds
from privopt.statistics.mean import BoundedMean
from privopt.statistics.records import few_enough, present_sum

__all__ = ["BoundedVariance", "CentredMoments", "VarianceMechanism"]

_ROUNDOFF = 1.0 + 2.0**-20  # of the moments of one record, computed in float32


class BoundedVariance(NamedTuple):
    """``h^2 (min(1, Q/n) - clamp(S/n, -1, 1)^2)`` with a public ``n``: the variance, over ``n``.

    ``S`` and ``Q`` are the sums of ``t_i`` and ``t_i^2`` for ``t_i = (x_i - m)/h`` clamped into
    ``[-1, 1]``. For Laplace or Gaussian noise. ``n`` stays the divisor whatever the data, and a
    record that is absent counts as ``m``. With ``n`` records nothing is cut off.

    The noise is the same for all data. That on ``CentredMoments`` is smaller where their mean is
    near the centre, and larger near the bounds.

    Attributes
    ----------
    bounds : Bounds
        With a half-width ``h`` representable in float32.
    size : float
        ``n``, representable in float32.

    Examples
    --------
    >>> query = BoundedVariance.of(0.0, 2.0, 4)
    >>> float(query.answer(jnp.array([0.0, 0.0, 2.0, 2.0])))
    1.0
    """

    bounds: Bounds
    size: float

    @classmethod
    def of(cls, lower: float, upper: float, size: int) -> BoundedVariance:
        """The variance of ``size`` records in ``[lower, upper]``.

        Raises
        ------
        ValueError
            If ``size`` is not a positive integer, a bound is not finite or beyond 1e30, or
            ``lower`` exceeds ``upper``.
        """
        return cls(*BoundedMean.of(lower, upper, size))

    def sensitivity(self, relation: Relation) -> float:
        """``(u - l)^2 (n - 1)/n^2`` under ``replace_one``; for every data set.

        With ``S`` the sum of the others, a record at ``t`` has the part ``(t^2 (n - 1) - 2 t S)
        h^2/n^2``. Replaced, it moves by ``|t - t'| (|t + t'| (n - 1) + 2 |S|) h^2/n^2``, most from
        one bound to the other, all others at a bound: ``|S| = n - 1``. From nothing to a bound it
        moves by ``3 (n - 1) h^2/n^2`` at most, which is that of ``zero_out``; where
        ``add_or_remove_one`` allows more than ``n`` records, by less than ``(3 n - 1) h^2/n^2``.

        Round-off adds ``21 2^-24 h^2``: at ``n = 1000`` less than a thousandth.
        """
        n, square = self.size, self.bounds.half_width**2
        match Relation(relation):
            case Relation.REPLACE_ONE:
                moved = 4.0 * (n - 1.0)
            case Relation.ZERO_OUT:
                moved = 3.0 * (n - 1.0)
            case Relation.ADD_OR_REMOVE_ONE:
                moved = 3.0 * n - 1.0
        if moved * square == 0.0:
            return 0.0
        # Of three sums (the first enters twice), seven operations on numbers of at most 1.
        error = square * (3.0 * sum_error(n) / n + 7.0 * UNIT)
        return (moved * square / n / n + 2.0 * error) * (1.0 + 4.0 * UNIT) + 2.0**-124

    def l1_sensitivity(self, relation: Relation) -> float:
        """That of a number, in every norm."""
        return self.sensitivity(relation)

    def answer(self, records: Array, present: Array | None = None) -> Array:
        """The variance, shape ``()``, in the dtype of ``records``, which have shape ``(n,)``."""
        position = self.bounds.standardise(records)
        first = jnp.clip(present_sum(position, present) / self.size, -1.0, 1.0)
        second = jnp.minimum(present_sum(position**2, present) / self.size, 1.0)
        spread = jnp.maximum(second - first**2, 0.0)
        spread = jnp.where(self.size > 1.0, spread, 0.0)  # one record gets no noise for round-off
        return self.bounds.half_width**2 * spread


class CentredMoments(NamedTuple):
    """``sum_i (t_i, 2 t_i^2 - 1, 1)`` with ``t_i = (x_i - m)/h`` clamped into ``[-1, 1]``.

    The square is centred as the record is, so that both have absolute value 1 at most.

    Attributes
    ----------
    bounds : Bounds
        No sensitivity depends on it, so it may itself be a private release.

    Examples
    --------
    >>> CentredMoments(Bounds.of(0.0, 2.0)).answer(jnp.array([0.0, 1.0, 9.0])).tolist()
    [0.0, 1.0, 3.0]
    """

    bounds: Bounds

    def l1_sensitivity(self, relation: Relation) -> float:
        """``25/8`` under ``replace_one``, 3 else.

        A replacement moves by ``|t - t'| (1 + 2 |t + t'|)``, most at ``t = 1``, ``t' = -1/4``. (The
        sums alone move by 2 each, but not at once.) Round-off adds 1/30.
        """
        moved = 25.0 / 8.0 * _ROUNDOFF if Relation(relation) is Relation.REPLACE_ONE else 3.0
        return moved + 4.0 * sum_error(MAX_TERMS)

    def answer(self, records: Array, present: Array | None = None) -> Array:
        """The three sums, shape ``(3,)``, in the dtype of ``records``, of shape ``(n,)``.

        Raises
        ------
        ValueError
            If ``records`` are more than 131,072 in float32.
        """
        position = self.bounds.standardise(few_enough(records))
        moments = (position, 2.0 * position**2 - 1.0, jnp.ones_like(position))
        return present_sum(jnp.stack(moments, axis=-1), present)


class VarianceMechanism(NamedTuple):
    """The variance of a private number of records, from three sums that share one noisy count.

    With ``a = A/N`` and ``b = B/N``, ``N`` at least 1, of the noisy sums ``A``, ``B`` and count:
    ``h^2 clamp((1 + b)/2 - a^2, 0, 1)``, since ``(1 + b)/2`` is the mean of ``t^2``. Divides by the
    number of records, not by one less. In the units of the records the noise is
    ``Lap(3h/epsilon)`` on the sum, ``Lap(3h^2/(2 epsilon))`` on that of squares, ``Lap(3/epsilon)``
    on the count. Where ``n`` is public, ``BoundedVariance`` has no bias and needs no count.

    Attributes
    ----------
    laplace : LaplaceMechanism
        Of ``CentredMoments``, with scale ``3/epsilon``, ``(25/8)/epsilon`` under ``replace_one``,
        and 1.1 per cent for round-off.

    Formal guarantee
    ----------------
    ``epsilon``-DP under the relation it was calibrated for; ``event`` knows the others.

    Examples
    --------
    >>> import jax
    >>> budget = Budget(epsilon=1e3, delta=0.0, relation="add_or_remove_one")
    >>> mechanism = VarianceMechanism.calibrated(0.0, 2.0, budget)
    >>> round(float(mechanism.release(jax.random.key(0), jnp.array([0.0, 0.0, 2.0, 2.0]))), 1)
    1.0
    """

    laplace: LaplaceMechanism[CentredMoments]

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
        query = self.laplace.query
        first, second, count = self.laplace.add_noise(key, query.answer(records, present))
        count = jnp.maximum(count, 1.0)
        share = 0.5 * (1.0 + second / count) - (first / count) ** 2
        return query.bounds.half_width**2 * jnp.clip(share, 0.0, 1.0)

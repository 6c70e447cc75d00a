"""The mean of bounded records, of a public or a private number."""

from __future__ import annotations

import math
from typing import NamedTuple

import jax.numpy as jnp
from dp_accounting import DpEvent
from jax import Array

from privopt.mechanisms.additive import LaplaceMechanism
from privopt.mechanisms.round_off import MAX_TERMS, UNIT, sum_error
from privopt.privacy import round_up
from privopt.spec import Budget, Relation
from privopt.statistics.bounds import Bounds
from privopt.statistics.records import few_enough, present_sum

__all__ = ["BoundedMean", "CentredSum", "MeanMechanism"]


class BoundedMean(NamedTuple):
    """``(1/n) sum_i (clamp(x_i, l, u) - m)`` with a public ``n``: the mean from ``m = (l + u)/2``.

    For Laplace or Gaussian noise, after which ``restore`` adds ``m``. ``n`` stays the divisor
    whatever the data, and a record that is absent counts as ``m``. The answer stays in ``[-h, h]``
    even where there are more records than ``n``.

    Attributes
    ----------
    bounds : Bounds
        With a half-width ``h`` representable in float32.
    size : float
        ``n``, representable in float32.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from privopt.statistics import BoundedMean
    >>> query = BoundedMean.of(0.0, 2.0, size=4)
    >>> float(query.restore(query.answer(jnp.array([0.5, 1.0, 1.5, 9.0]))))
    1.25
    >>> round(query.sensitivity("replace_one"), 3)
    0.5
    """

    bounds: Bounds
    size: float

    @classmethod
    def of(cls, lower: float, upper: float, size: int) -> BoundedMean:
        """The mean of ``size`` records in ``[lower, upper]``.

        Raises
        ------
        ValueError
            If ``size`` is not a positive integer, a bound is not finite or beyond 1e30, or
            ``lower`` exceeds ``upper``.
        """
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise ValueError(f"size must be a positive integer, got {size!r}")
        bounds = Bounds.of(lower, upper)
        bounds = bounds._replace(half_width=round_up(bounds.half_width))
        return cls(bounds, round_up(float(size)))

    def sensitivity(self, relation: Relation) -> float:
        """``(u - l)/n`` under ``replace_one``, half that else; for every data set.

        Round-off adds ``2.1 2^-23 h``: 12 per cent at ``n = 10^6``.
        """
        multiple, share = Relation(relation).multiple, self.bounds.half_width / self.size
        if share == 0.0:
            return 0.0
        error = share * (sum_error(self.size) + self.size * UNIT)  # of the sum, of its product
        return math.nextafter(
            (multiple * share + 2.0 * error) * (1.0 + 4.0 * UNIT) + 2.0**-124, math.inf
        )

    def l1_sensitivity(self, relation: Relation) -> float:
        """That of a number, in every norm."""
        return self.sensitivity(relation)

    def answer(self, records: Array, present: Array | None = None) -> Array:
        """The mean's distance from ``m``, shape ``()``, in the dtype of ``records``, ``(n,)``."""
        total = present_sum(self.bounds.standardise(records), present)
        total = jnp.clip(total, -self.size, self.size)
        return total * (self.bounds.half_width / jnp.asarray(self.size, total.dtype))

    def restore(self, answer: Array) -> Array:
        """``m`` plus an answer with its noise: the mean that is released, in the same dtype."""
        return self.bounds.centre + answer


class CentredSum(NamedTuple):
    """``sum_i (t_i, 1)`` with ``t_i = (x_i - m)/h`` clamped into ``[-1, 1]``: all a mean needs.

    Attributes
    ----------
    bounds : Bounds
        No sensitivity depends on it, so it may itself be a private release.

    Examples
    --------
    >>> CentredSum(Bounds.of(0.0, 2.0)).answer(jnp.array([0.5, 1.0, 9.0])).tolist()
    [0.5, 3.0]
    """

    bounds: Bounds

    def l1_sensitivity(self, relation: Relation) -> float:
        """2 under every relation: twice the sum's 1 under ``replace_one``, sum and count else.

        Round-off adds 1/60.
        """
        return 2.0 + 2.0 * sum_error(MAX_TERMS)

    def answer(self, records: Array, present: Array | None = None) -> Array:
        """The two sums, shape ``(2,)``, in the dtype of ``records``, which have shape ``(n,)``.

        Raises
        ------
        ValueError
            If ``records`` are more than 131,072 in float32.
        """
        position = self.bounds.standardise(few_enough(records))
        return present_sum(jnp.stack([position, jnp.ones_like(position)], axis=-1), present)


class MeanMechanism(NamedTuple):
    """The mean of a private number of records: a noisy centred sum over a noisy count.

    ``clamp(m + S/max(1, N), l, u)`` with ``S = sum_i (x_i - m) + Lap((u - l)/epsilon)`` and
    ``N = n + Lap(2/epsilon)``. Centred at ``m``, a record moves the sum by half the width at
    most, wherever the bounds lie. The ratio is biased; sum and count are not. Without records it
    is noise about ``m``. Where ``n`` is public, noise on ``BoundedMean`` is smaller.

    Attributes
    ----------
    laplace : LaplaceMechanism
        Of a ``CentredSum``, with scale ``2/epsilon`` and 0.8 per cent for round-off.

    Formal guarantee
    ----------------
    ``epsilon``-DP under every relation, for all data.

    Examples
    --------
    >>> import jax, jax.numpy as jnp
    >>> from privopt import Budget
    >>> from privopt.statistics import MeanMechanism
    >>> budget = Budget(epsilon=1e3, delta=0.0, relation="add_or_remove_one")
    >>> mechanism = MeanMechanism.calibrated(0.0, 2.0, budget)
    >>> round(float(mechanism.release(jax.random.key(0), jnp.array([0.5, 1.0, 1.5]))), 1)
    1.0
    """

    laplace: LaplaceMechanism[CentredSum]

    @classmethod
    def calibrated(cls, lower: float, upper: float, budget: Budget) -> MeanMechanism:
        """The least noise with which one mean stays within ``budget.epsilon``.

        Raises
        ------
        ValueError
            If a bound is not finite or beyond 1e30, or ``lower`` exceeds ``upper``.
        """
        return cls(LaplaceMechanism.calibrated(CentredSum(Bounds.of(lower, upper)), budget))

    def event(self, relation: Relation) -> DpEvent:
        """What one release does to privacy."""
        return self.laplace.event(relation)

    def release(self, key: Array, records: Array, present: Array | None = None) -> Array:
        """The noisy mean, shape ``()``, in the dtype of ``records``, which have shape ``(n,)``."""
        query = self.laplace.query
        total, count = self.laplace.add_noise(key, query.answer(records, present))
        return query.bounds.restore(total / jnp.maximum(count, 1.0))

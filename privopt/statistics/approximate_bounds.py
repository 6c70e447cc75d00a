"""Where most of the data lies, from a noisy histogram with bins of growing width."""

from __future__ import annotations

import math
from typing import NamedTuple

import jax.numpy as jnp
from dp_accounting import DpEvent
from jax import Array

from privopt.mechanisms.additive import LaplaceMechanism
from privopt.spec import Budget, Relation
from privopt.statistics.bounds import Bounds
from privopt.statistics.histogram import Histogram

__all__ = ["ApproximateBounds", "FoundBounds"]


class FoundBounds(NamedTuple):
    """What came out; all of it may be published.

    Attributes
    ----------
    determined : Array
        Whether any bin passed the threshold; shape ``()``, boolean.
    lower, upper : Array
        Outer edges of the extreme bins that did; NaN where nothing is determined. Shape ``()``.
    """

    determined: Array
    lower: Array
    upper: Array

    @property
    def bounds(self) -> Bounds:
        """The interval for a ``CentredSum``, whose sensitivity does not depend on it."""
        return Bounds(0.5 * (self.lower + self.upper), 0.5 * (self.upper - self.lower))


class ApproximateBounds(NamedTuple):
    """The outer edges of the extreme bins whose noisy count exceeds a public threshold ``t``.

    An empty bin exceeds ``t >= 0`` with probability ``e^(-t/b)/2``, so with ``K`` bins

        t = -b ln(2 - 2 c^(1/(K-1)))

    keeps ``K - 1`` empty bins below it with probability ``c``. (On no data at all ``K`` bins are
    empty, and stay below with ``c^(K/(K-1))``.)

    Attributes
    ----------
    laplace : LaplaceMechanism
        Of a ``Histogram``, with scale ``b = 1/epsilon``; ``2/epsilon`` under ``replace_one``.
    threshold : float
        ``t``; another one on the *same* noisy counts is free, new noise is not.

    Formal guarantee
    ----------------
    ``epsilon``-DP: all but the noisy histogram is post-processing.
    Source: Wilson, Zhang, Lam, Desfontaines, Simmons-Marengo and Gipson, "Differentially private
    SQL with bounded user contribution", PoPETs 2020 (the method); the threshold is derived here.

    Examples
    --------
    >>> import jax
    >>> budget = Budget(epsilon=1.0, delta=0.0, relation="replace_one")
    >>> histogram = Histogram.logarithmic(1.0, 2.0, 4, mirrored=False)
    >>> mechanism = ApproximateBounds.calibrated(histogram, budget, confidence=0.999)
    >>> found = mechanism.release(jax.random.key(0), jnp.full(200, 3.0))
    >>> float(found.lower), float(found.upper)
    (2.0, 4.0)
    """

    laplace: LaplaceMechanism[Histogram]
    threshold: float

    @classmethod
    def calibrated(
        cls, histogram: Histogram, budget: Budget, *, confidence: float = 0.9
    ) -> ApproximateBounds:
        """The least noise within ``budget.epsilon``, and the threshold for ``c = confidence``.

        Raises
        ------
        ValueError
            If ``histogram`` has fewer than two bins, or ``confidence`` is not in
            ``[2^-(K-1), 1)``, below which the threshold would be negative.
        """
        laplace = LaplaceMechanism.calibrated(histogram, budget)
        return cls(laplace, laplace.scale * _quantile(histogram.bins, confidence))

    def event(self, relation: Relation) -> DpEvent:
        """What one release does to privacy."""
        return self.laplace.event(relation)

    def release(self, key: Array, records: Array, present: Array | None = None) -> FoundBounds:
        """The bounds in the dtype of ``records``, which have shape ``(n,)``."""
        return self.read(self.counts(key, records, present))

    def counts(self, key: Array, records: Array, present: Array | None = None) -> Array:
        """The noisy histogram, shape ``(K,)``: the release that costs."""
        return self.laplace.add_noise(key, self.laplace.query.answer(records, present))

    def read(self, counts: Array) -> FoundBounds:
        """The bounds that a noisy histogram shows."""
        edges = jnp.asarray(self.laplace.query.edges, counts.dtype)
        passed = counts > self.threshold
        determined = passed.any()
        lower = edges[jnp.argmax(passed)]
        upper = edges[passed.size - jnp.argmax(passed[::-1])]
        unknown = jnp.asarray(jnp.nan, counts.dtype)
        return FoundBounds(
            determined,
            jnp.where(determined, lower, unknown),
            jnp.where(determined, upper, unknown),
        )


def _quantile(bins: int, confidence: float) -> float:
    """``t/b``."""
    if bins < 2:
        raise ValueError(f"histogram must have at least two bins, got {bins!r}")
    if not 2.0 ** -(bins - 1) <= confidence < 1.0:
        raise ValueError(
            f"confidence must lie in [2^-{bins - 1}, 1) for {bins} bins, got {confidence!r}"
        )
    return max(0.0, -math.log(-2.0 * math.expm1(math.log(confidence) / (bins - 1))))

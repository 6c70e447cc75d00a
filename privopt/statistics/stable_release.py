"""Release an answer as it is, where a private test says that no neighbour has another."""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import jax.numpy as jnp
from dp_accounting import DpEvent
from jax import Array

from privopt import draws
from privopt.mechanisms.calibration import check_calibration, drawable, require_public_size
from privopt.privacy import round_up
from privopt.release import release
from privopt.spec import Budget, Relation
from privopt.statistics.events import approximate_release, pure_release, resolvable
from privopt.statistics.propose_test_release import Proposal

__all__ = ["ChangeableQuery", "StableRelease"]

_MARGIN = 1.0 + 2.0**-40  # relative; of a handful of elementary functions


class ChangeableQuery(Protocol):
    """A query on data sets of a public size that knows how far each is from another answer."""

    def answer(self, records: Array) -> Array:
        """The answer on ``records``, of shape ``()``."""

    def distance_to_change(self, records: Array) -> Array:
        """Fewest records to replace until some neighbour has another answer.

        Moves by at most one when a record is replaced. Secret; shape ``()``.
        """


class StableRelease(NamedTuple):
    """Release ``query(data)`` without noise if ``gamma(data) + Lap(1/epsilon)`` is large.

    Propose-test-release with a proposed sensitivity of zero: ``gamma`` is the distance to change,
    and large means above ``ln(1/(2 delta))/epsilon``.

    Attributes
    ----------
    query : ChangeableQuery
    distance_scale : float
        ``1/epsilon``; like the threshold representable in float32.
    threshold : float
        ``ln(1/(2 delta))/epsilon``.

    Formal guarantee
    ----------------
    ``(epsilon, delta)``-DP under ``replace_one``, ``delta < 1/2``. If the answers of two
    neighbours differ, both have ``gamma = 0`` and pass with probability
    ``P(Lap(1/epsilon) > threshold) = delta``; else only the test tells them apart.
    Source: Dwork and Lei, "Differential privacy and robust statistics", STOC 2009; Smith and
    Thakurta, "Differentially private feature selection via stability arguments", COLT 2013;
    constants as derived here.

    Examples
    --------
    >>> import jax, jax.numpy as jnp
    >>> from privopt import Budget
    >>> from privopt.statistics import Histogram, Mode, StableRelease
    >>> budget = Budget(epsilon=1.0, delta=1e-6, relation="replace_one")
    >>> query = Mode(Histogram.logarithmic(1.0, 2.0, 2, mirrored=False))
    >>> mechanism = StableRelease.calibrated(query, budget)
    >>> bool(mechanism.release(jax.random.key(0), jnp.full(200, 1.5))[0])
    True
    """

    query: ChangeableQuery
    distance_scale: float
    threshold: float

    @classmethod
    def calibrated(cls, query: ChangeableQuery, budget: Budget) -> StableRelease:
        """The least noise and threshold with which one release stays within ``budget``.

        Raises
        ------
        ValueError
            If ``budget.relation`` is not ``replace_one``, or ``budget.delta`` is not in
            ``(0, 1/2)``.
        """
        check_calibration(query, budget, "distance_to_change")
        require_public_size(budget.relation, "a stable release")
        if not 0.0 < budget.delta < 0.5:
            raise ValueError(f"delta must lie in (0, 1/2), got {budget.delta!r}")
        left = drawable(budget, 1)
        scale = round_up(1.0 / resolvable(left.epsilon))
        threshold = scale * -math.log(2.0 * left.delta / _MARGIN) * _MARGIN
        return cls(query, scale, round_up(threshold))

    def event(self, relation: Relation) -> DpEvent:
        """What one release does to privacy.

        Raises
        ------
        ValueError
            If ``relation`` is not ``replace_one``.
        """
        require_public_size(relation, "a stable release")
        if not self.distance_scale > 0.0:
            return pure_release(math.inf)
        epsilon = 1.0 / self.distance_scale
        passed = 0.5 * math.exp(-self.threshold / self.distance_scale)
        return approximate_release(epsilon * (1.0 + 2.0**-50), passed * (1.0 + 2.0**-50))

    def release(self, key: Array, records: Array) -> Proposal:
        """Test and release; the refusal is data, and its value NaN."""
        distance = self.query.distance_to_change(records)
        distance += release("noise", self.distance_scale * draws.laplace(key, (), records.dtype))
        accepted = distance > self.threshold
        shown = jnp.where(accepted, self.query.answer(records), jnp.nan)
        return release("answer", Proposal(accepted, shown))

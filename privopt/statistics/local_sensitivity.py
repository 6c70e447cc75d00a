"""Mechanisms that use the local sensitivity: smooth sensitivity and propose-test-release.

The local sensitivity depends on the data, and noise scaled to it would reveal it. Its smooth bound

    S_beta(D) = max_k e^(-beta k) max_{d(D, D') <= k} LS(D')

changes by a factor of at most ``e^beta`` between neighbours, so noise of scale ``c S_beta``
protects the answer and its own scale. A query never returns less than a public floor: a constant is
a smooth bound too, and a scale of zero would reveal the answer.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp
from dp_accounting import DpEvent
from jax import Array

from privopt import draws
from privopt.arguments import check_fields, positive_number, shown
from privopt.mechanisms.calibration import check_calibration, drawable, require_public_size
from privopt.privacy import approximate_event, round_down, round_up
from privopt.release import release
from privopt.spec import Budget, Relation
from privopt.statistics.events import pure_release, resolvable
from privopt.streams import as_key

_MARGIN = 1.0 + 2.0**-40  # relative error of a few elementary functions
_SLACK = 2.0**-18  # change of ``ln S_beta`` beyond ``beta`` due to round-off
_ROUND_OFF = 1.0 + 2.0**-21  # relative error of ``c S_beta`` in float32


class SmoothQuery(Protocol):
    """A query on data sets of a public size with a smooth sensitivity."""

    def answer(self, records: Array) -> Array:
        """Return the answer on ``records``, of shape ``()``."""

    def smooth_sensitivity(self, records: Array, smoothness: float | Array) -> Array:
        """Return ``S_beta`` with ``beta = smoothness`` under ``replace_one``; secret, shape ``()``.

        It is at least a positive number that does not depend on the data, unless the answer is
        constant. Its logarithm changes by at most ``beta + 2^-18``, round-off included.
        """


class SmoothLaplaceMechanism(NamedTuple):
    """Release of ``query(data) + c S_beta(data) Laplace`` with approximate differential privacy.

    ``smoothness`` is ``beta`` and ``scale`` is ``c >= 2``, both representable in float32.

    Formal guarantee
    ----------------
    ``(2/c, 2 e^(-1/(c beta)))``-DP under ``replace_one``: ``c = 2/epsilon`` and
    ``beta = epsilon/(2 ln(2/delta))``, minus ``2^-18`` for round-off. Proved for ``epsilon <= 1``
    and false for some larger ones, which are rejected. Statement:
    :ref:`Mechanisms, Theorem 11 <theory-mechanisms-11>`.

    References
    ----------
    Nissim, Raskhodnikova and Smith, "Smooth sensitivity and sampling in private data analysis",
    STOC 2007.

    Examples
    --------
    >>> from privopt.statistics import Median
    >>> budget = Budget(epsilon=1.0, delta=1e-6, relation="replace_one")
    >>> mechanism = SmoothLaplaceMechanism.calibrated(Median.of(0.0, 2.0), budget)
    >>> round(mechanism.smoothness, 3), round(mechanism.scale, 3)
    (0.034, 2.0)
    """

    query: SmoothQuery
    smoothness: float
    scale: float

    @classmethod
    def calibrated(cls, query: SmoothQuery, budget: Budget) -> SmoothLaplaceMechanism:
        """Return the mechanism with a single release within ``budget``.

        The relation must be ``replace_one``, delta positive, and epsilon at most 1 and large enough
        that ``beta`` exceeds round-off.
        """
        check_calibration(query, budget, "smooth_sensitivity")
        require_public_size(budget.relation, "smooth sensitivity")
        if budget.epsilon > 1.0:
            raise ValueError(
                f"epsilon must not exceed 1 for smooth Laplace noise, got {shown(budget.epsilon)}"
            )
        if budget.delta == 0.0:
            raise ValueError(
                f"delta must be positive for smooth Laplace noise, got {shown(budget.delta)}"
            )
        scale = round_up(2.0 / resolvable(budget.epsilon) * _ROUND_OFF)
        delta = drawable(budget, 1).delta
        smoothness = 1.0 / (scale * math.log(2.0 / delta)) / _MARGIN - _SLACK
        if not smoothness > 0.0:
            raise ValueError(
                "epsilon must be above 2^-17 ln(2/delta) for smooth Laplace noise, "
                f"got {shown(budget.epsilon)} with delta {shown(budget.delta)}"
            )
        return cls(query, round_down(smoothness), scale)

    def event(self, relation: Relation) -> DpEvent:
        """Return the privacy event of one release; non-private if ``c < 2``."""
        check_fields("mechanism", self)
        require_public_size(relation, "smooth sensitivity")
        if self.scale < 2.0 * _ROUND_OFF:
            return pure_release(math.inf)
        delta = 2.0 * math.exp(-1.0 / (self.scale * (self.smoothness + _SLACK))) * _MARGIN
        if delta >= 1.0:
            return pure_release(math.inf)
        return approximate_event(2.0 * _ROUND_OFF / self.scale, delta)

    def release(self, key: Array, records: Array) -> Array:
        """Return the noisy answer, shape ``()``, in the floating dtype of ``records``."""
        spread = self.query.smooth_sensitivity(records, self.smoothness)
        answer = self.query.answer(records)
        noise = release("noise", draws.laplace(key, (), answer.dtype))
        return release("answer", answer + self.scale * spread * noise)


class StableQuery(Protocol):
    """A query on data sets of a public size with a distance to unstable data sets."""

    def answer(self, records: Array) -> Array:
        """Return the answer on ``records``, of shape ``()``."""

    def distance_to_instability(self, records: Array, bound: float | Array) -> Array:
        """Return the smallest number of replacements that leads to an unstable data set.

        A data set is unstable if the answer of a neighbour differs by more than ``bound``. The
        distance has sensitivity one under ``replace_one``. It is secret and has shape ``()``.
        """


class Proposal(NamedTuple):
    """Result of the test, and the noisy answer, or NaN if the test failed.

    Both have shape ``()`` and may be published: a refusal is a released value.
    """

    accepted: Array
    value: Array


class ProposeTestRelease(NamedTuple):
    """Release of ``query(data) + Lap(b/epsilon_0)`` if ``gamma(data) + Lap(1/epsilon_0)`` is large.

    ``gamma`` is the distance to instability and ``b`` is the ``bound``, the proposed local
    sensitivity. The test passes above the ``threshold`` ``ln(1/(2 delta))/epsilon_0``.
    ``distance_scale`` and ``answer_scale`` are the scales of the two noises, which are always
    drawn. All are representable in float32.

    Formal guarantee
    ----------------
    ``(2 epsilon_0, delta)``-DP under ``replace_one``, ``delta < 1/2``. If the answers of two
    neighbours differ by more than ``b``, both have ``gamma = 0`` and pass with probability
    ``P(Lap(1/epsilon_0) > threshold) = delta``; otherwise test and release cost ``epsilon_0`` each.
    Statement: :ref:`Mechanisms, Theorem 10 <theory-mechanisms-10>`.

    References
    ----------
    Dwork and Lei, "Differential privacy and robust statistics", STOC 2009; constants derived here.

    Examples
    --------
    >>> from privopt.statistics import Median
    >>> budget = Budget(epsilon=1.0, delta=1e-6, relation="replace_one")
    >>> mechanism = ProposeTestRelease.calibrated(Median.of(0.0, 2.0), 0.1, budget)
    >>> bool(mechanism.release(jax.random.key(0), jnp.ones(200)).accepted)
    True
    """

    query: StableQuery
    bound: float
    distance_scale: float
    answer_scale: float
    threshold: float

    @classmethod
    def calibrated(cls, query: StableQuery, bound: float, budget: Budget) -> ProposeTestRelease:
        """Return the mechanism with test and release together within ``budget``.

        The relation must be ``replace_one`` and delta in ``(0, 1/2)``.
        """
        check_calibration(query, budget, "distance_to_instability")
        require_public_size(budget.relation, "propose-test-release")
        bound = positive_number("bound", bound)
        if not 0.0 < budget.delta < 0.5:
            raise ValueError(f"delta must lie in (0, 1/2), got {shown(budget.delta)}")
        bound = round_up(bound)
        remaining = drawable(budget, 2)
        scale = round_up(2.0 / resolvable(remaining.epsilon))
        threshold = scale * -math.log(2.0 * remaining.delta / _MARGIN) * _MARGIN
        return cls(query, bound, scale, round_up(bound * scale), round_up(threshold))

    def event(self, relation: Relation) -> DpEvent:
        """Return the privacy event of test and release together."""
        check_fields("mechanism", self)
        require_public_size(relation, "propose-test-release")
        if not (self.distance_scale > 0.0 and self.answer_scale > 0.0):
            return pure_release(math.inf)
        epsilon = (1.0 / self.distance_scale + self.bound / self.answer_scale) * (1.0 + 2.0**-50)
        passed = 0.5 * math.exp(-self.threshold / self.distance_scale) * (1.0 + 2.0**-50)
        if epsilon == math.inf or passed >= 1.0:
            return pure_release(math.inf)
        return approximate_event(epsilon, passed)

    def release(self, key: Array, records: Array) -> Proposal:
        """Return the outcome of the test and the release; a refusal is part of the release."""
        distance_key, answer_key = jax.random.split(as_key(key))
        distance = self.query.distance_to_instability(records, self.bound)
        answer = self.query.answer(records)
        dtype = answer.dtype
        distance += release("noise", self.distance_scale * draws.laplace(distance_key, (), dtype))
        answer += release("noise", self.answer_scale * draws.laplace(answer_key, (), dtype))
        accepted = distance > self.threshold
        return release("answer", Proposal(accepted, jnp.where(accepted, answer, jnp.nan)))

"""Mechanisms that use the local sensitivity: smooth sensitivity and propose-test-release.

The local sensitivity depends on the data, and noise scaled to it would reveal it. Its smooth bound
``S_beta`` changes by a factor of at most ``e^beta`` between neighbours, so noise of scale ``c
S_beta`` protects the answer and its own scale. A query never returns less than a public floor: a
constant is a smooth bound too, and a scale of zero would reveal the answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp
from dp_accounting import DpEvent
from jax import Array
from jax.typing import DTypeLike

from privopt import random
from privopt.arguments import check_fields, positive_number, shown
from privopt.mechanisms.calibration import check_calibration, drawable, require_public_size, two_sum
from privopt.privacy import approximate_event, round_down, round_up
from privopt.random import as_key
from privopt.release import release
from privopt.spec import Budget, Relation
from privopt.statistics.queries import Bounds, countable, numbers
from privopt.statistics.selection import pure_release, resolvable

_MARGIN = 1.0 + 2.0**-40  # relative error of a few elementary functions
_SLACK = 2.0**-18  # change of ``ln S_beta`` beyond ``beta`` due to round-off
_ROUND_OFF = 1.0 + 2.0**-21  # relative error of ``c S_beta`` in float32
_ROWS_AT_ONCE = 64  # rows of the table of pairs in one batch
_FLOOR = 2.0**-80  # noise times 2^-23 of it does not underflow


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
        return _add_smooth_noise(self, random.laplace, key, records)


class SmoothCauchyMechanism(NamedTuple):
    """Release of ``query(data) + c S_beta(data) Cauchy`` with pure differential privacy.

    ``smoothness`` is ``beta`` and ``scale`` is ``c``, both representable in float32. The noise has
    no mean: report medians of its error.

    Formal guarantee
    ----------------
    ``epsilon``-DP under ``replace_one``, and for no smaller epsilon if ``S_beta`` is attained::

        sinh(epsilon/2)^2 = max_{b in {0, beta}} sinh(b/2)^2 + e^-b / (4 c^2).

    The published constants ``beta = epsilon/6``, ``c = 6/epsilon`` spend about ``epsilon/4``.
    Proof: :ref:`Mechanisms, Theorem 17 <theory-mechanisms-17>`.

    References
    ----------
    Nissim, Raskhodnikova and Smith, "Smooth sensitivity and sampling in private data analysis",
    STOC 2007, for the mechanism; constants derived here.

    Examples
    --------
    >>> budget = Budget(epsilon=1.0, delta=0.0, relation="replace_one")
    >>> mechanism = SmoothCauchyMechanism.calibrated(Median.of(0.0, 2.0), budget)
    >>> round(mechanism.smoothness, 3), round(mechanism.scale, 3)
    (0.5, 0.96)
    """

    query: SmoothQuery
    smoothness: float
    scale: float

    @classmethod
    def calibrated(cls, query: SmoothQuery, budget: Budget) -> SmoothCauchyMechanism:
        """Return the mechanism with a single release within ``budget.epsilon``.

        ``beta = epsilon/2``, and ``c`` is the least for it. The relation must be ``replace_one``;
        ``budget.delta`` is not used. ValueError if ``epsilon`` is so small that ``beta`` does not
        exceed round-off.
        """
        check_calibration(query, budget, "smooth_sensitivity")
        require_public_size(budget.relation, "smooth sensitivity")
        epsilon = resolvable(budget.epsilon) / _MARGIN
        smoothness = 0.5 * epsilon - _SLACK
        if not smoothness > 0.0:
            raise ValueError(
                f"epsilon must be above 2^-17 for smooth Cauchy noise, got {shown(budget.epsilon)}"
            )
        beta = smoothness + _SLACK
        product = math.sinh(0.5 * (epsilon + beta)) * math.sinh(0.5 * (epsilon - beta))
        scale = 0.5 * max(1.0 / math.sinh(0.5 * epsilon), math.exp(-0.5 * beta) / product**0.5)
        return cls(query, round_down(smoothness), round_up(scale * _ROUND_OFF * _MARGIN))

    def loss(self, relation: Relation) -> float:
        """Return ``epsilon`` of one release, rounded up."""
        check_fields("mechanism", self)
        require_public_size(relation, "smooth sensitivity")
        if not self.scale > 0.0:
            return math.inf
        shift = 0.5 * _ROUND_OFF / self.scale
        changes = (0.0, self.smoothness + _SLACK)  # of ``ln S_beta``; the loss is convex in it
        sines = (math.hypot(math.sinh(0.5 * b), math.exp(-0.5 * b) * shift) for b in changes)
        return 2.0 * math.asinh(max(sines)) * _MARGIN

    def event(self, relation: Relation) -> DpEvent:
        """Return the privacy event of one release."""
        return pure_release(self.loss(relation))

    def release(self, key: Array, records: Array) -> Array:
        """Return the noisy answer, shape ``()``, in the floating dtype of ``records``."""
        return _add_smooth_noise(self, random.cauchy, key, records)


def _add_smooth_noise(
    mechanism: SmoothLaplaceMechanism | SmoothCauchyMechanism,
    sample: Callable[[Array, tuple[int, ...], DTypeLike], Array],
    key: Array,
    records: Array,
) -> Array:
    """Release the answer plus ``c S_beta`` times a sample."""
    spread = mechanism.query.smooth_sensitivity(records, mechanism.smoothness)
    answer = mechanism.query.answer(records)
    noise = release("noise", sample(key, (), answer.dtype))
    return release("answer", answer + mechanism.scale * spread * noise)


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

    With the bound 0 a *stable value* is released: an answer that no replacement changes. It is
    released without noise, and the whole ``epsilon`` is spent on the test.

    Formal guarantee
    ----------------
    ``(2 epsilon_0, delta)``-DP under ``replace_one``, ``delta < 1/2``; ``(epsilon_0, delta)``-DP
    for the bound 0. Proof: :ref:`Mechanisms, Theorem 10 <theory-mechanisms-10>`.

    References
    ----------
    Dwork and Lei, "Differential privacy and robust statistics", STOC 2009; constants derived here.

    Examples
    --------
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
        bound = 0.0 if bound == 0.0 else positive_number("bound", bound)
        if not 0.0 < budget.delta < 0.5:
            raise ValueError(f"delta must lie in (0, 1/2), got {shown(budget.delta)}")
        bound = round_up(bound)
        remaining = drawable(budget, 2)
        scale = round_up((2.0 if bound else 1.0) / resolvable(remaining.epsilon))
        threshold = scale * -math.log(2.0 * remaining.delta / _MARGIN) * _MARGIN
        return cls(query, bound, scale, round_up(bound * scale), round_up(threshold))

    def event(self, relation: Relation) -> DpEvent:
        """Return the privacy event of test and release together."""
        check_fields("mechanism", self)
        require_public_size(relation, "propose-test-release")
        if not (self.distance_scale > 0.0 and (self.answer_scale > 0.0 or self.bound == 0.0)):
            return pure_release(math.inf)
        answer = self.bound / self.answer_scale if self.bound else 0.0
        epsilon = (1.0 / self.distance_scale + answer) * (1.0 + 2.0**-50)
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
        # A stable value is released without noise, which would show the sign of zero.
        answer = jnp.where(jnp.abs(answer) < jnp.finfo(dtype).tiny, 0.0, answer)
        distance += release("noise", self.distance_scale * random.laplace(distance_key, (), dtype))
        answer += release("noise", self.answer_scale * random.laplace(answer_key, (), dtype))
        accepted = distance > self.threshold
        return release("answer", Proposal(accepted, jnp.where(accepted, answer, jnp.nan)))


class Median(NamedTuple):
    """The ``ceil(n/2)``-th smallest record, clamped into ``[l, u]``; ``n >= 1`` is public.

    For an even number of records it is the lower of the two middle ones. NaN counts as zero and is
    clamped. With sorted records, ``x_i = l`` before the first, ``x_i = u`` after the last and ``m``
    the index of the median, the largest local sensitivity after replacing ``k`` records is

        A_k = max_{0 <= t <= k+1} x_{m+t} - x_{m+t-k-1},

    a maximum over pairs ``i <= m <= j`` with ``k = j - i - 1``.

    Examples
    --------
    >>> float(Median.of(0.0, 2.0).answer(jnp.array([0.5, 1.0, 9.0])))
    1.0
    """

    lower: float
    upper: float

    @classmethod
    def of(cls, lower: float, upper: float) -> Median:
        """Return the median of records in ``[lower, upper]``."""
        Bounds.of(lower, upper)
        return cls(float(lower), float(upper))

    def answer(self, records: Array) -> Array:
        """Return the median, shape ``()``, in the dtype of ``records`` of shape ``(n,)``."""
        return self._sides(records)[0][0]

    def smooth_sensitivity(self, records: Array, smoothness: float | Array) -> Array:
        """Return ``max(S_0, max_{0 <= k <= n} e^(-beta k) A_k)`` under ``replace_one``. Secret.

        ``|ln S_beta(D) - ln S_beta(D')| <= beta + 2^-18`` between neighbours, round-off included.
        Shape ``()``, in the dtype of ``records``; ``n^2/4`` operations in memory ``O(n)``. (An
        algorithm with ``O(n log n)`` operations has round-off relative to ``u - l`` and violates
        the bound above.)

        The floor ``S_0`` is ``u - l`` times the machine epsilon of the dtype, at least ``2^-80`` (0
        if ``l = u``). Without it ``e^(-beta k)`` underflows to 0 from ``beta k = 88`` on in float32
        and 709 in float64, and stable data would get no noise while their neighbours get some.

        Source: Nissim, Raskhodnikova and Smith 2007; :ref:`Mechanisms, Theorem 11
        <theory-mechanisms-11>`.
        """
        lower_side, upper_side = self._sides(records)
        median, upper_side = upper_side[0], upper_side[1:]
        steps = jnp.arange(lower_side.size, dtype=lower_side.dtype)
        decay = jnp.exp(-smoothness * jnp.arange(upper_side.size, dtype=upper_side.dtype))

        def widest(lower: Array) -> Array:
            return jnp.max((upper_side - lower) * decay)

        across = jax.lax.map(widest, lower_side, batch_size=_ROWS_AT_ONCE) * jnp.exp(
            -smoothness * steps
        )
        to_median = (median - lower_side) * jnp.exp(-smoothness * jnp.maximum(steps - 1.0, 0.0))
        return jnp.maximum(jnp.max(jnp.maximum(across, to_median)), self._floor(lower_side.dtype))

    def distance_to_instability(self, records: Array, bound: float | Array) -> Array:
        """Return the smallest ``k`` with ``A_k > bound``, ``n + 1`` if ``u - l <= bound``. Secret.

        Its sensitivity is one under ``replace_one``. Shape ``()``, in the dtype of ``records``.
        Differences are compared exactly, for all bounds.
        """
        lower_side, upper_side = self._sides(records)
        furthest, missing = two_sum(lower_side, jnp.full_like(lower_side, bound))
        furthest = jnp.where(missing < 0.0, jnp.nextafter(furthest, -jnp.inf), furthest)
        reach = jnp.searchsorted(upper_side, furthest, side="right")
        distance = jnp.arange(lower_side.size, dtype=reach.dtype) + reach - 1
        records_and_one = lower_side.size + upper_side.size - 2
        unstable = jnp.where(reach < upper_side.size, distance, records_and_one)
        return unstable.min().astype(lower_side.dtype)

    def _floor(self, dtype: DTypeLike) -> Array:
        width = jnp.asarray(self.upper, dtype) - jnp.asarray(self.lower, dtype)
        resolved = jnp.maximum(width * jnp.finfo(dtype).eps, _FLOOR)
        return jnp.where(width > 0.0, resolved, 0.0)

    def _sides(self, records: Array) -> tuple[Array, Array]:
        """Return the median and records below it down to ``l``, and the same up to ``u``."""
        records = countable(numbers(records))
        if records.size == 0:
            raise ValueError(f"records must hold at least one, got shape {records.shape}")
        ordered = jnp.sort(jnp.clip(records, self.lower, self.upper))
        middle = (records.size - 1) // 2
        lower = jnp.full(1, self.lower, records.dtype)
        upper = jnp.full(1, self.upper, records.dtype)
        lower_side = jnp.concatenate([ordered[middle::-1], lower])
        return lower_side, jnp.concatenate([ordered[middle:], upper])

"""Queries of bounded records: count, sum, mean, variance and histogram, with sensitivities."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from privopt.arguments import described, positive_integer, positive_number, real, shown
from privopt.mechanisms.calibration import MAX_TERMS, UNIT, compensated_sum, max_terms, sum_error
from privopt.privacy import round_down, round_up
from privopt.records import as_floats
from privopt.spec import Relation


def numbers(records: Array) -> Array:
    """Return the vector ``records`` as floats with zero for NaN; infinities are clamped later.

    The types are those of :func:`privopt.records.as_floats`.
    """
    records = as_floats(records, "records", ndim=1)
    return jnp.where(jnp.isnan(records), 0.0, records)


def summable(records: Array) -> Array:
    """Return ``records`` if the round-off of their sum in their dtype is within the charged one.

    At most 131,072 in float32, ``2^46`` in float64; else ``ValueError``. The length of the array is
    public, like every shape. A private number of records is expressed by ``present``.
    """
    return _at_most(max_terms(records.dtype), records, "a sum")


def countable(records: Array) -> Array:
    """Return ``records`` if their dtype represents all counts up to their number exactly.

    Fewer than ``2^24`` in float32, ``2^53`` in float64; else ``ValueError``. Rounded counts of
    neighbours could differ by two.
    """
    return _at_most(int(2.0 / float(jnp.finfo(records.dtype).eps)) - 1, records, "counts")


def _at_most(limit: int, records: Array, use: str) -> Array:
    if records.shape[0] > limit:
        raise ValueError(
            f"records must number at most {limit} for {use} in {records.dtype}, "
            f"got {records.shape[0]}"
        )
    return records


def mask_of(records: Array, present: Array | None) -> Array:
    """Return the mask of the present records, by default all of them."""
    if present is None:
        return jnp.ones(records.shape[:1], bool)
    boolean = getattr(present, "dtype", None) == jnp.bool_
    if not boolean or present.shape != records.shape[:1]:
        raise ValueError(
            f"present must be booleans of shape {records.shape[:1]}, as the records, got "
            f"{described(present)}"
        )
    return jnp.asarray(present)


def present_sum(terms: Array, present: Array | None) -> Array:
    """Return ``sum_i p_i t_i`` over the first axis, with the round-off of a single rounding.

    ``terms`` have shape ``(n, ...)``; an empty sum is zero. Records with ``present`` False are
    excluded, so that data sets of different sizes share one program.
    """
    if present is not None:
        mask = mask_of(terms, present).reshape(-1, *(1,) * (terms.ndim - 1))
        terms = jnp.where(mask, terms, 0.0)
    return compensated_sum(terms)


class Bounds(NamedTuple):
    """Public interval ``[m - h, m + h]`` to which records are clamped.

    ``m = (l + u)/2`` and ``h = (u - l)/2 >= 0``.

    Examples
    --------
    >>> Bounds.of(0.0, 4.0)
    Bounds(centre=2.0, half_width=2.0)
    """

    centre: Any
    half_width: Any

    @classmethod
    def of(cls, lower: float, upper: float) -> Bounds:
        """Return the interval ``[lower, upper]`` of finite numbers, at most 1e30 in size."""
        for name, value in (("lower", lower), ("upper", upper)):
            if not abs(real(name, value)) <= 1e30:
                raise ValueError(f"{name} must be finite and at most 1e30, got {shown(value)}")
        if lower > upper:
            raise ValueError(f"lower must not exceed upper, got {shown(lower)} and {shown(upper)}")
        half_width = 0.5 * (upper - lower)
        return cls(math.fsum((0.5 * lower, 0.5 * upper)), half_width)

    def standardise(self, records: Array) -> Array:
        """Return ``(x - m)/h`` clamped to ``[-1, 1]``; zero for NaN, and everywhere if ``h = 0``.

        The result is in the interval for every record, rounding included.
        """
        records = as_floats(records, "records", ndim=1)
        width = jnp.where(self.half_width > 0.0, self.half_width, jnp.inf)
        offset = (records - self.centre) / width.astype(records.dtype)
        unknown = jnp.isnan(records) | jnp.isnan(offset)
        return jnp.clip(jnp.where(unknown, 0.0, offset), -1.0, 1.0)


class Count(NamedTuple):
    """Number of present records, fewer than ``2^24`` in float32.

    Examples
    --------
    >>> int(Count().answer(jnp.zeros(5)))
    5
    """

    def sensitivity(self, relation: Relation) -> float:
        return 0.0 if Relation(relation) is Relation.REPLACE_ONE else 1.0

    def l1_sensitivity(self, relation: Relation) -> float:
        return self.sensitivity(relation)

    def answer(self, records: Array, present: Array | None = None) -> Array:
        """Return the count, shape ``()``, in the dtype of ``records``."""
        records = countable(numbers(records))
        return jnp.count_nonzero(mask_of(records, present)).astype(records.dtype)


class BoundedSum(NamedTuple):
    """The sum ``sum_i clamp(x_i, l, u)``; NaN counts as zero and is clamped.

    If the number of records is public, ``n`` times a ``BoundedMean`` needs less noise: it is
    centred, so its sensitivity does not depend on the distance of the bounds from zero. ``l`` and
    ``u`` are representable in float32, so that the device clamps to the bounds of the accounting.

    Examples
    --------
    >>> float(BoundedSum.of(0.0, 2.0).answer(jnp.array([0.5, 1.0, 9.0])))
    3.5
    """

    lower: float
    upper: float

    @classmethod
    def of(cls, lower: float, upper: float) -> BoundedSum:
        """Return the sum of records in ``[lower, upper]``, widened to float32 numbers."""
        Bounds.of(lower, upper)
        return cls(round_down(lower), round_up(upper))

    def sensitivity(self, relation: Relation) -> float:
        """Return ``u - l`` under ``replace_one``, else ``max(|l|, |u|)``; for every data set.

        Round-off adds ``max(|l|, |u|)/60``, unless the sum is constant.
        """
        largest = max(abs(self.lower), abs(self.upper))
        replaced = Relation(relation) is Relation.REPLACE_ONE
        exact = self.upper - self.lower if replaced else largest
        if exact <= 0.0:
            return 0.0
        return math.nextafter(exact + 2.0 * sum_error(MAX_TERMS, largest), math.inf)

    def l1_sensitivity(self, relation: Relation) -> float:
        return self.sensitivity(relation)

    def answer(self, records: Array, present: Array | None = None) -> Array:
        """Return the sum, shape ``()``, of at most 131,072 records in float32."""
        records = summable(numbers(records))
        return present_sum(jnp.clip(records, self.lower, self.upper), present)


class BoundedMean(NamedTuple):
    """The centred mean ``(1/n) sum_i (clamp(x_i, l, u) - m)``, with public ``n``.

    ``m = (l + u)/2``. Laplace or Gaussian noise is added to it, and ``restore`` adds ``m``. The
    divisor is always ``n``, and an absent record counts as ``m``. The answer is in ``[-h, h]`` even
    if there are more records than ``n = size``. ``h`` and ``n`` are representable in float32.

    Examples
    --------
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
        """Return the mean of ``size`` records in ``[lower, upper]``."""
        positive_integer("size", size)
        bounds = Bounds.of(lower, upper)
        bounds = bounds._replace(half_width=round_up(bounds.half_width))
        return cls(bounds, round_up(float(size)))

    def sensitivity(self, relation: Relation) -> float:
        """Return ``(u - l)/n`` under ``replace_one``, else half of it; for every data set.

        Round-off adds ``2.1 2^-23 h``: 12 per cent at ``n = 10^6``.
        """
        width = real("half_width", self.bounds.half_width)
        if not 0.0 <= width < math.inf:
            raise ValueError(f"half_width must be non-negative and finite, got {shown(width)}")
        share = width / positive_number("size", self.size)
        multiple = Relation(relation).multiple
        if share == 0.0:
            return 0.0
        error = share * (sum_error(self.size) + self.size * UNIT)  # of the sum, of its product
        return math.nextafter(
            (multiple * share + 2.0 * error) * (1.0 + 4.0 * UNIT) + 2.0**-124, math.inf
        )

    def l1_sensitivity(self, relation: Relation) -> float:
        return self.sensitivity(relation)

    def answer(self, records: Array, present: Array | None = None) -> Array:
        """Return the mean minus ``m``, shape ``()``, in the dtype of ``records``, ``(n,)``."""
        total = present_sum(self.bounds.standardise(records), present)
        total = jnp.clip(total, -self.size, self.size)
        return total * (self.bounds.half_width / jnp.asarray(self.size, total.dtype))

    def restore(self, answer: Array) -> Array:
        """Return ``m`` plus a noisy answer, in the same dtype."""
        return self.bounds.centre + answer


class BoundedVariance(NamedTuple):
    """The two centred moments ``(1/n) sum_i (y_i, y_i^2 - 1/2)`` of bounded records, public ``n``.

    ``y_i = (clamp(x_i, l, u) - m)/h`` is in ``[-1, 1]``. Noise is added to both moments together;
    ``variance`` and ``mean`` are functions of the noisy moments. The joint l1 sensitivity is
    ``9/(4n)`` under ``replace_one``. Two separate means have ``2/n`` and ``1/n``. An absent record
    contributes zero to both moments.

    Examples
    --------
    >>> query = BoundedVariance.of(0.0, 4.0, size=4)
    >>> moments = query.answer(jnp.array([0.0, 2.0, 2.0, 4.0]))
    >>> float(query.variance(moments)), float(query.mean(moments))
    (2.0, 2.0)
    >>> round(query.l1_sensitivity("replace_one"), 3)
    0.563
    """

    bounds: Bounds
    size: float

    @classmethod
    def of(cls, lower: float, upper: float, size: int) -> BoundedVariance:
        """Return the moments of ``size`` records in ``[lower, upper]``."""
        return cls(*BoundedMean.of(lower, upper, size))

    def sensitivity(self, relation: Relation) -> float:
        """Return ``2/n`` under ``replace_one``, else ``sqrt(5)/(2n)``, and round-off."""
        replaced = Relation(relation) is Relation.REPLACE_ONE
        return self._sensitivity(2.0 if replaced else math.sqrt(1.25))

    def l1_sensitivity(self, relation: Relation) -> float:
        """Return ``9/(4n)`` under ``replace_one``, else ``3/(2n)``, and round-off.

        With ``t = |y - y'|``, a replacement changes ``y`` and ``y^2`` by at most ``t + t (2 - t)``
        together, which is largest at ``t = 3/2``.
        """
        return self._sensitivity(2.25 if Relation(relation) is Relation.REPLACE_ONE else 1.5)

    def _sensitivity(self, change: float) -> float:
        size = positive_number("size", self.size)
        error = sum_error(size) / size + UNIT  # of a moment of terms up to 1
        return math.nextafter((change / size + 3.0 * error) * (1.0 + 4.0 * UNIT), math.inf)

    def answer(self, records: Array, present: Array | None = None) -> Array:
        """Return the moments, shape ``(2,)``, in the dtype of ``records``, of shape ``(n,)``."""
        offsets = self.bounds.standardise(records)
        totals = present_sum(jnp.stack([offsets, offsets**2 - 0.5], axis=1), present)
        limits = self.size * jnp.array([1.0, 0.5], totals.dtype)
        return jnp.clip(totals, -limits, limits) / jnp.asarray(self.size, totals.dtype)

    def variance(self, moments: Array) -> Array:
        """Return the variance of noisy moments, in ``[0, h^2]``: shape ``()``, squared units.

        Noise of variance ``v`` on the first moment decreases it by ``h^2 v`` on average.
        """
        first, second = moments
        return self.bounds.half_width**2 * jnp.clip(second + 0.5 - first**2, 0.0, 1.0)

    def mean(self, moments: Array) -> Array:
        """Return the mean of noisy moments, in ``[l, u]``, shape ``()``."""
        return self.bounds.centre + self.bounds.half_width * jnp.clip(moments[0], -1.0, 1.0)


class CountedMean(NamedTuple):
    """The sum ``sum_i (clamp(x_i, l, u) - m)/h`` and the number of records, for a private number.

    Noise is added to both; ``mean`` is a function of the noisy pair. :class:`BoundedMean` needs
    less noise if the number of records is public.

    Examples
    --------
    >>> query = CountedMean.of(0.0, 2.0)
    >>> totals = query.answer(jnp.array([0.5, 1.0, 9.0]))
    >>> totals.tolist(), round(float(query.mean(totals)), 4)
    ([0.5, 3.0], 1.1667)
    """

    bounds: Bounds

    @classmethod
    def of(cls, lower: float, upper: float) -> CountedMean:
        """Return the mean of records in ``[lower, upper]``."""
        return cls(Bounds.of(lower, upper))

    def sensitivity(self, relation: Relation) -> float:
        """Return 2 under ``replace_one``, else ``sqrt(2)``, and round-off of 1/60."""
        replaced = Relation(relation) is Relation.REPLACE_ONE
        exact = 2.0 if replaced else math.sqrt(2.0)
        return math.nextafter(exact + 2.0 * sum_error(MAX_TERMS), math.inf)

    def l1_sensitivity(self, relation: Relation) -> float:
        """Return 2 under each relation, and round-off of 1/60.

        A replacement changes the sum by 2; an added record changes sum and count by 1.
        """
        Relation(relation)
        return self.sensitivity(Relation.REPLACE_ONE)

    def answer(self, records: Array, present: Array | None = None) -> Array:
        """Return sum and count, shape ``(2,)``, of at most 131,072 records in float32."""
        offsets = summable(self.bounds.standardise(records))
        count = jnp.count_nonzero(mask_of(offsets, present)).astype(offsets.dtype)
        return jnp.stack([present_sum(offsets, present), count])

    def mean(self, totals: Array) -> Array:
        """Return the mean of noisy totals, in ``[l, u]``, shape ``()``; a count is at least 1."""
        offset = totals[0] / jnp.maximum(totals[1], 1.0)
        return self.bounds.centre + self.bounds.half_width * jnp.clip(offset, -1.0, 1.0)


class Histogram(NamedTuple):
    """Counts of records in bins with public edges; every record is in exactly one bin.

    Bins are closed at the end away from zero, and the bin that starts at zero is closed at both
    ends: ``[0, s], (s, sB], ...`` and ``[-s, 0), [-sB, -s), ...``. Records beyond the edges are in
    the outermost bins; NaN counts as zero. There are ``K + 1`` increasing ``edges`` for ``K`` bins.
    Their number is static, their values are not.

    Examples
    --------
    >>> bins = Histogram.logarithmic(1.0, 2.0, 3, mirrored=False)
    >>> int(bins.answer(jnp.array([0.5, 1.5, 3.0, 100.0])).sum())
    4
    """

    edges: tuple[float, ...]

    @classmethod
    def logarithmic(cls, scale: float, base: float, count: int, *, mirrored: bool) -> Histogram:
        """Return bins ``[0, s]``, ``(s B^(i-1), s B^i]``, ``i < count``; mirrored ones too."""
        positive_number("scale", scale)
        if not 1.0 < real("base", base) < math.inf:
            raise ValueError(f"base must be above 1 and finite, got {shown(base)}")
        positive_integer("count", count)
        if math.log(scale) + (count - 1) * math.log(base) > math.log(1e30):
            raise ValueError(f"count must keep the last edge below 1e30, got {shown(count)}")
        positive = tuple(scale * base**i for i in range(count))
        negative = tuple(-edge for edge in reversed(positive)) if mirrored else ()
        return cls((*negative, 0.0, *positive))

    @property
    def bins(self) -> int:
        """Number of bins ``K``."""
        return len(self.edges) - 1

    def sensitivity(self, relation: Relation) -> float:
        replaced = Relation(relation) is Relation.REPLACE_ONE
        return math.nextafter(math.sqrt(2.0), math.inf) if replaced else 1.0

    def l1_sensitivity(self, relation: Relation) -> float:
        return float(Relation(relation).multiple)

    def answer(self, records: Array, present: Array | None = None) -> Array:
        """Return the counts, shape ``(K,)``, in the dtype of ``records``, of shape ``(n,)``.

        In float32 ``n`` must be below ``2^24``, so that counts are exact.
        """
        records = countable(numbers(records))
        inner = jnp.asarray(self.edges[1:-1], records.dtype)
        upward = jnp.searchsorted(inner, records, side="left")
        downward = jnp.searchsorted(inner, records, side="right")
        bins = jnp.where(records > 0.0, upward, downward)
        counts = jnp.zeros(self.bins, int).at[bins].add(mask_of(records, present).astype(int))
        return counts.astype(records.dtype)

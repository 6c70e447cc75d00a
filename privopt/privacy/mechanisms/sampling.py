"""Random batches: Poisson sampling, batches of bounded size, and batches of fixed size.

Under Poisson sampling each record is included independently with a public probability. Several
Gaussian releases on the *same* sample are one release. A sample of a sample is a sample at the
product of the rates. In a batch of bounded size, a sampled record may be dropped if the batch is
full. For batches of fixed size, drawn without replacement, the theorem covers a replaced record.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

import dp_accounting as dp
import numpy as np
from dp_accounting.dp_event import MixtureOfGaussiansDpEvent
from scipy.special import betainc

from privopt.privacy.events import PublicMixtureDpEvent
from privopt.privacy.mechanisms.base import (
    UP,
    Curve,
    Release,
    Shift,
    compose_shifts,
    revealing_pair,
)
from privopt.privacy.mechanisms.gaussian import Gaussian, as_single_release
from privopt.privacy.numbers import SMALLEST, Array, U, is_batch, is_count, is_noise, is_rate
from privopt.privacy.pairs import EVERYTHING, NOTHING, Bins, Pair, Reversed
from privopt.privacy.renyi_moments import fixed_size_gaussian, poisson_gaussian
from privopt.spec import Relation

_BETA_ROUNDING = 1e-9  # relative; above the error of the incomplete beta function
_MAX_GROUP = 500  # records; the sample of a group is a mixture of as many normal laws
_MIN_RATE = 1e-12  # smaller losses are below the rounding of their exponentials


@dataclass(frozen=True)
class PoissonSampled(Release, event=dp.PoissonSampledDpEvent):
    """``inner`` on a sample that contains each record with probability ``rate``.

    Amplification applies to releases with a pair under ``add_or_remove_one`` and ``zero_out`` (a
    null record is equivalent to none), and to Gaussian noise under ``replace_one``.
    """

    rate: float
    inner: dp.DpEvent

    @classmethod
    def read(cls, event: dp.PoissonSampledDpEvent) -> PoissonSampled | None:
        rate = event.sampling_probability
        return cls(float(rate), event.event) if is_rate(rate) else None

    def shifts(self, relation: Relation) -> tuple[Shift, ...] | None:
        # Rate one means no sampling, and rate zero no release
        if self.rate not in (0.0, 1.0):
            return None
        shifts = compose_shifts(self.inner, relation)
        if shifts is None:
            return None
        return tuple(shifts) if self.rate == 1.0 else ()

    def pairs(self, relation: Relation) -> tuple[Pair, Pair] | None:
        inner = as_single_release(self.inner)
        return None if inner is None else sampled_pairs(self.rate, inner, relation)

    def renyi(self, relation: Relation) -> Curve | None:
        replace = relation is Relation.REPLACE_ONE
        return sampled_curve(self.rate, self.inner, partial(poisson_gaussian, replace=replace))

    def grouped(self, size: int, relation: Relation) -> dp.DpEvent | None:
        """Return the mixture for a group that is added, removed or zeroed.

        ``Binomial(size, rate)`` records of the group are sampled. Given these, the sum changes by
        as many norm bounds at most, and larger groups have more sampled records. The mixture in
        which all of them are equal dominates (the source of ``MixturePair``), and equal
        records attain it.
        """
        inner, same = as_single_release(self.inner), super().grouped(size, relation)
        if same is not None or relation is Relation.REPLACE_ONE or size > _MAX_GROUP:
            return same
        if not isinstance(inner, Gaussian):
            return None
        sizes = [float(i) for i in range(size + 1)]
        return MixtureOfGaussiansDpEvent(inner.noise, sizes, _binomial(size, self.rate))

    def zcdp(self, relation: Relation) -> None:
        # Divergences of a sample are not linear in the order
        return None

    def exported(self, relation: Relation) -> None:
        return None


def _binomial(count: int, rate: float) -> list[float]:
    """Return the law of ``Binomial(count, rate)``, each probability rounded once and positive."""
    p = Fraction(rate)
    exact = (math.comb(count, i) * p**i * (1 - p) ** (count - i) for i in range(count + 1))
    return [max(float(each), math.ulp(0.0)) for each in exact]


def sampled_pairs(rate: float, inner: Release, relation: Relation) -> tuple[Pair, Pair] | None:
    """Return the pairs of a release on a Poisson sample."""
    if isinstance(inner, PoissonSampled):
        product = rate * inner.rate
        least = math.ulp(0.0) if rate > 0.0 < inner.rate else 0.0
        return PoissonSampled(max(product, least), inner.inner).pairs(relation)
    whole = inner.pairs(relation) if inner.samples else None
    if whole is None or rate == 1.0 or whole[0] is NOTHING:
        return whole
    if rate == 0.0:
        return NOTHING, NOTHING
    if relation is Relation.REPLACE_ONE:
        revealed = whole[0] == EVERYTHING
        replaced = revealing_pair(rate, exact=True) if revealed else inner.replaced(rate)
        return None if replaced is None else (replaced, replaced)
    removed, added = whole
    return Sampled.of(removed, rate), Reversed(Sampled.of(added.reverse(), rate))


def sampled_curve(
    rate: float, event: dp.DpEvent, gaussian: Callable[[float, float, tuple[float, ...]], Array]
) -> Curve | None:
    """Return the Rényi divergences of Gaussian releases on one sample, as those of one release.

    ``gaussian(rate, shift, orders)`` takes the norm bound of one record divided by the noise.
    """
    inner = as_single_release(event)
    if not isinstance(inner, Gaussian):
        return None
    shift = 1.0 / inner.noise * UP if inner.noise > 0.0 else math.inf
    least = SMALLEST if rate > 0.0 and shift > 0.0 else 0.0
    return lambda orders: np.maximum(gaussian(rate, shift, tuple(orders.tolist())), least)


@dataclass(frozen=True)
class Sampled(Pair):
    """``(1 - rate) Q + rate P`` against ``Q``, for a pair ``(P, Q)`` and ``rate`` in ``(0, 1]``.

    If ``(P, Q)`` dominates a mechanism when a record is removed, this pair dominates the mechanism
    on a Poisson sample. Its reverse does so when a record is added. The loss ``l`` of the pair
    becomes ``ln(1 - rate + rate e^l)``, which is at least ``ln(1 - rate)``.

    Source: Zhu, Dong and Wang (arXiv:2106.08567), Theorem 11.
    """

    pair: Pair
    rate: float
    exact: bool = True

    @classmethod
    def of(cls, pair: Pair, rate: float) -> Sampled:
        """Return the pair at ``rate``, or at the smallest rate that floats resolve."""
        return cls(pair, max(rate, _MIN_RATE), exact=rate >= _MIN_RATE)

    @property
    def attained(self) -> Pair | None:
        attained = self.pair.attained
        return None if attained is None or not self.exact else Sampled(attained, self.rate)

    def infinite(self) -> tuple[float, float]:
        # Outcomes that are impossible under Q if the record is sampled; none are under P
        p, q = self.pair.infinite()
        return self.rate * p, q if self.rate == 1.0 else 0.0

    def range(self) -> tuple[float, float]:
        smallest, largest = self.pair.range()
        return float(self._sample(smallest)), float(self._sample(largest))

    def losses(self, tail: float, count: int) -> Array:
        losses = self._sample(self.pair.losses(tail, count))
        if self.pair.infinite()[1] > 0.0 and self.rate < 1.0:
            losses = np.append(losses, math.log1p(-self.rate))
        return np.unique(losses)

    def bins(self, edges: Array) -> Bins:
        # Mixtures of the bins of the pair at ln((e^edges - 1 + rate) / rate)
        if self.rate == 1.0:
            return self.pair.bins(edges)
        smallest, log_rate = math.log1p(-self.rate), math.log(self.rate)
        inside = int(np.searchsorted(edges, smallest, side="right"))
        inner = edges[inside:]
        base = self.pair.bins(inner + np.log(-np.expm1(smallest - inner)) - log_rate)
        q, q_error, of_p, p_error = (
            np.concatenate([np.zeros(inside), each])
            for each in (base.q, base.q_error, base.p, base.p_error)
        )
        p = self.rate * of_p + (1.0 - self.rate) * q
        p_error = self.rate * p_error + (1.0 - self.rate) * q_error
        # Outcomes that are impossible under P occur if the record is not sampled.
        at_smallest = int(np.searchsorted(edges, smallest, side="left"))
        certain = self.pair.infinite()[1]
        q[at_smallest] += certain
        p[at_smallest] += (1.0 - self.rate) * certain
        size = 1.0 + float(np.abs(edges[[0, -1]]).max()) - smallest - log_rate
        return Bins(p, q, p_error + 4 * U * p, q_error + 4 * U * q, blur=base.blur + 16 * U * size)

    def _sample(self, loss: Array | float) -> Array:
        """Return the loss on a sample, accurate relative to the loss for every size."""
        with np.errstate(over="ignore", divide="ignore"):
            gain = self.rate * np.expm1(loss)
            large = np.logaddexp(np.log1p(-self.rate), np.log(self.rate) + loss)
            return np.where(np.abs(gain) < 0.5, np.log1p(np.maximum(gain, -0.5)), large)


@dataclass(frozen=True)
class TruncatedGaussian(Release, event=dp.TruncatedSubsampledGaussianDpEvent):
    """Gaussian noise on a Poisson sample that is truncated at a capacity."""

    event: dp.TruncatedSubsampledGaussianDpEvent
    neutral = True

    @classmethod
    def read(cls, event: dp.TruncatedSubsampledGaussianDpEvent) -> TruncatedGaussian | None:
        counts = is_count(event.dataset_size) and is_count(event.truncated_batch_size)
        valid = counts and event.truncated_batch_size >= 1 and is_rate(event.sampling_probability)
        return cls(event) if valid and is_noise(event.noise_multiplier) else None

    def pairs(self, relation: Relation) -> tuple[Pair, Pair] | None:
        """Return the pairs of the sample, with everything revealed if the batch may be full.

        Truncation keeps at least a subset that contains a record with probability ``1 - lost``.
        """
        event, rate = self.event, float(self.event.sampling_probability)
        gaussian = Gaussian(float(event.noise_multiplier))
        pairs = sampled_pairs(rate, gaussian, relation)
        lost = chance_of_overflow(
            int(event.dataset_size) - 1, rate, int(event.truncated_batch_size)
        )
        if pairs is None or lost == 0.0:
            return pairs
        least = sampled_pairs(rate * (1.0 - lost), gaussian, relation)
        ends = (None, None) if least is None else (least[0].attained, least[1].attained)
        removed, added = (Truncated(pair, lost, end) for pair, end in zip(pairs, ends, strict=True))
        return removed, added

    def grouped(self, size: int, relation: Relation) -> dp.DpEvent | None:
        """Return the event without a limit, unless the other records may fill the batch."""
        event, rate = self.event, float(self.event.sampling_probability)
        room = int(event.truncated_batch_size) - size + 1
        whole = PoissonSampled(rate, dp.GaussianDpEvent(event.noise_multiplier))
        group = whole.grouped(size, relation) if room >= 1 else None
        if group is None:
            return None
        lost = chance_of_overflow(int(event.dataset_size) - 1, rate, room)
        return PublicMixtureDpEvent((dp.NonPrivateDpEvent(), group), (lost, 1.0 - lost))


@dataclass(frozen=True)
class Truncated(Pair):
    """``pair`` with probability ``1 - lost``, otherwise fully revealing outcomes.

    Draw the other records first. Their number does not depend on the record in question, nor on its
    presence. They fill the batch with the same probability ``lost`` on both data sets. If they do
    not, the record is sampled as without a limit. If they do, everything counts as revealed.
    """

    pair: Pair
    lost: float
    least: Pair | None

    @property
    def attained(self) -> Pair | None:
        # The pair of neighbours with other records of norm zero
        return self.least

    def infinite(self) -> tuple[float, float]:
        p, q = self.pair.infinite()
        return self.lost + (1.0 - self.lost) * p, self.lost + (1.0 - self.lost) * q

    def range(self) -> tuple[float, float]:
        return -math.inf, math.inf

    def losses(self, tail: float, count: int) -> Array:
        return self.pair.losses(tail, count)

    def bins(self, edges: Array) -> Bins:
        bins = self.pair.bins(edges)
        weight = 1.0 - self.lost
        return Bins(
            weight * bins.p,
            weight * bins.q,
            bins.p_error + 2.0**-52 * bins.p,
            bins.q_error + 2.0**-52 * bins.q,
            blur=bins.blur,
        )


def chance_of_overflow(others: int, rate: float, capacity: int) -> float:
    """Return ``P(Binomial(others, rate) >= capacity)``, rounded up."""
    if capacity > others:
        return 0.0
    return min(1.0, float(betainc(capacity, others - capacity + 1, rate)) * (1.0 + _BETA_ROUNDING))


@dataclass(frozen=True)
class FixedSize(Release, event=dp.SampledWithoutReplacementDpEvent):
    """``inner`` on ``batch`` of ``size`` records, under ``replace_one``.

    It supports every release with a pair, except samples. Lower bounds are known for additive noise
    only.
    """

    size: int
    batch: int
    inner: dp.DpEvent

    @classmethod
    def read(cls, event: dp.SampledWithoutReplacementDpEvent) -> FixedSize | None:
        size, batch = event.source_dataset_size, event.sample_size
        return cls(int(size), int(batch), event.event) if is_batch(size, batch) else None

    def pair(self, relation: Relation) -> Pair | None:
        inner = as_single_release(self.inner)
        if relation is not Relation.REPLACE_ONE or inner is None or not inner.samples:
            return None
        whole = inner.pair(relation)
        if whole is None or whole != whole.reverse():
            return None
        if whole is NOTHING or self.batch == self.size:
            return whole
        if self.batch == 0:
            return NOTHING
        sampled = Sampled.of(whole, self.batch / self.size)
        if not inner.additive:
            sampled = replace(sampled, exact=False)
        return SampledWithoutReplacement(sampled)

    def renyi(self, relation: Relation) -> Curve | None:
        if relation is not Relation.REPLACE_ONE:
            return None
        rate = math.nextafter(self.batch / self.size, 1.0) if self.batch else 0.0
        return sampled_curve(rate, self.inner, _replaced)


@dataclass(frozen=True)
class SampledWithoutReplacement(Pair):
    """The pair with the curve of ``sampled`` for positive losses, and its mirror image for others.

    ``sampled`` is ``((1 - rate) Q + rate P, Q)``, where ``(P, Q)`` dominates the mechanism on a
    batch when one record of the batch is *replaced*. Orders ``gamma >= 1`` are covered by
    ``sampled``, those below one by its mirror image. The remaining mass has loss zero. The pair is
    its own reverse.

    Source: Balle, Barthe and Gaboardi 2018 (arXiv:1807.01647), Theorem 9, for ``gamma >= 1``; Zhu,
    Dong and Wang (arXiv:2106.08567), Proposition 30, for the mirrored orders.
    """

    sampled: Sampled
    symmetric = True

    @property
    def attained(self) -> Pair | None:
        """``sampled``, without its mirror image.

        All other records contribute the full norm in one direction. One record changes from this
        direction to the opposite one.
        """
        return self.sampled.attained

    def infinite(self) -> tuple[float, float]:
        mass = self.sampled.infinite()[0]
        return mass, mass

    def range(self) -> tuple[float, float]:
        largest = self.sampled.range()[1]
        return -largest, largest

    def losses(self, tail: float, count: int) -> Array:
        losses = self.sampled.losses(tail, count)
        losses = losses[losses > 0.0]
        return np.concatenate([-losses[::-1], [0.0], losses])

    def bins(self, edges: Array) -> Bins:
        zero = int(np.searchsorted(edges, 0.0, side="left"))
        positive = self.sampled.bins(np.concatenate([[0.0], edges[zero:]]))
        negative = self.sampled.bins(np.concatenate([[0.0], -edges[:zero][::-1]]))

        def combine(up: Array, down: Array) -> Array:
            whole = np.zeros(edges.size + 1)
            whole[zero:] += up[1:]
            whole[: zero + 1] += down[:0:-1]
            return whole

        p, q = combine(positive.p, negative.q), combine(positive.q, negative.p)
        p_error = combine(positive.p_error, negative.q_error)
        q_error = combine(positive.q_error, negative.p_error)
        for mass, error in ((p, p_error), (q, q_error)):
            error[zero] += float(error.sum()) + 8 * U
            mass[zero] += max(0.0, 1.0 - float(mass.sum()))
        return Bins(p, q, p_error, q_error, blur=positive.blur + negative.blur)


def _replaced(rate: float, shift: float, orders: tuple[float, ...]) -> Array:
    """Return the divergence for neighbouring samples, with a distance of two norm bounds."""
    return fixed_size_gaussian(rate, 2.0 * shift, orders)

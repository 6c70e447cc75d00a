"""Mixtures: Gaussian noise for records of random norm, and public choices among releases.

The loss of a public mixture has the mixture of the laws of the losses: :ref:`Accountants, Theorem
16 <theory-accountants-16>`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import dp_accounting as dp
import numpy as np
from dp_accounting.dp_event import MixtureOfGaussiansDpEvent
from scipy.special import ndtri

from privopt.privacy.events import PublicMixtureDpEvent
from privopt.privacy.flatten import flatten
from privopt.privacy.mechanisms.base import (
    MAX_DISTANCE,
    MIN_DISTANCE,
    Concentration,
    Cost,
    Curve,
    LargestLoss,
    Release,
    all_or_none,
    collect,
    compose_losses,
    group_event,
    renyi_curve,
    renyi_orders,
    round_up_cost,
)
from privopt.privacy.mechanisms.gaussian import as_single_release
from privopt.privacy.mechanisms.sampling import Sampled
from privopt.privacy.numbers import (
    SMALLEST,
    SUM_TOLERANCE,
    Array,
    U,
    check_probabilities,
    is_noise,
    is_rate,
    weighted_sum,
)
from privopt.privacy.pairs import EVERYTHING, NOTHING, Bins, Pair, Reversed, normal_masses
from privopt.spec import Relation

_MAX_NEWTON_STEPS = 60  # usually below ten
_MAX_DEVIATIONS = 50.0  # standard deviations, beyond the range of float64 probabilities
_SUM_ROUNDING = 2.0**-51  # of a sum that is meant to be one
_ROWS = (list, tuple, np.ndarray)
_MIN_SHIFT = 1e-12  # smaller shifts are below the resolution of a mesh


@dataclass(frozen=True)
class GaussianMixture(Release, event=MixtureOfGaussiansDpEvent):
    """Gaussian noise for records with a norm of public law."""

    event: MixtureOfGaussiansDpEvent
    law: Norms

    @classmethod
    def read(cls, event: MixtureOfGaussiansDpEvent) -> GaussianMixture | None:
        law = norm_distribution(event.sensitivities, event.sampling_probs)
        return cls(event, law) if law is not None and is_noise(event.standard_deviation) else None

    def pairs(self, relation: Relation) -> tuple[Pair, Pair] | None:
        if relation is Relation.REPLACE_ONE:
            return None
        law, noise = self.law, float(self.event.standard_deviation)
        shifted = [
            (norm, share) for norm, share in law.weights.items() if norm > 0.0 and share > 0.0
        ]
        if not shifted or math.isinf(noise):
            return NOTHING, NOTHING
        largest = max(norm for norm, _ in shifted)
        if noise * MAX_DISTANCE < largest:
            share = min(1.0, math.fsum(weight for _, weight in shifted))
            revealing = Sampled.of(replace(EVERYTHING, exact=law.exact and noise == 0.0), share)
            return revealing, Reversed(revealing)
        if largest / noise < MIN_DISTANCE:
            return None
        shifts, weights = zip(*((norm / noise, weight) for norm, weight in shifted), strict=True)
        pair = MixturePair.of(shifts, weights, law.weights.get(0.0, 0.0), law.exact)
        return pair, Reversed(pair)

    def exported(self, relation: Relation) -> MixtureOfGaussiansDpEvent | None:
        return None if relation is Relation.REPLACE_ONE else self.event


class Norms(NamedTuple):
    """The law of the norm of a record; ``exact`` if it is the given one."""

    weights: dict[float, float]
    exact: bool


def norm_distribution(sizes: object, probabilities: object) -> Norms | None:
    """Return the law with these ``probabilities`` of ``sizes``, or None if it is invalid.

    Missing mass is added to the largest size, and excess mass is taken from the smallest: larger
    norms dominate (the source of ``MixturePair``).
    """
    if not (isinstance(sizes, _ROWS) and isinstance(probabilities, _ROWS)):
        return None
    if len(sizes) != len(probabilities) or not all(map(is_rate, probabilities)):
        return None
    if not all(is_noise(size) and size < math.inf for size in sizes):
        return None
    missing = 1.0 - math.fsum(map(float, probabilities))
    if abs(missing) > SUM_TOLERANCE:
        return None
    weights: dict[float, float] = {}
    for size, chance in sorted(zip(map(float, sizes), map(float, probabilities), strict=True)):
        weights[size] = weights.get(size, 0.0) + chance
    excess = max(0.0, -missing)
    for size, weight in weights.items():
        weights[size], excess = max(0.0, weight - excess), max(0.0, excess - weight)
    weights[max(weights)] += max(0.0, missing)
    return Norms(weights, abs(missing) <= _SUM_ROUNDING)


@dataclass(frozen=True)
class MixturePair(Pair):
    """``P = (1 - w) N(0, 1) + sum_i w_i N(c_i, 1)`` against ``Q = N(0, 1)``, ``w = sum_i w_i``.

    ``c_i = shifts > 0``, ``w_i = weights > 0`` and ``rest = 1 - w``. The loss at ``x``,

        ln [rest + e^g(x)],    g(x) = ln sum_i w_i e^(c_i x - c_i^2 / 2),

    increases with ``x``, and ``g`` is convex. Newton's method inverts it, from the point at which
    the largest summand alone has the value. The residual is included in the error.

    Formal guarantee
    ----------------
    Dominates Gaussian noise around vectors of norms ``c_i`` with these probabilities, too. Source:
    Choquette-Choo, Ganesh, Steinke and Thakurta 2024 (arXiv:2310.15526), Corollary 4.7.
    """

    shifts: tuple[float, ...]
    weights: tuple[float, ...]
    rest: float
    exact: bool = True

    @classmethod
    def of(
        cls, shifts: tuple[float, ...], weights: tuple[float, ...], rest: float, exact: bool
    ) -> MixturePair:
        """Return the pair, with shifts raised to the resolution of a mesh; larger ones dominate."""
        raised = tuple(max(shift, _MIN_SHIFT) for shift in shifts)
        return cls(raised, weights, rest, exact and raised == shifts)

    def range(self) -> tuple[float, float]:
        return math.log(self.rest) if self.rest > 0.0 else -math.inf, math.inf

    def losses(self, tail: float, count: int) -> Array:
        end = -float(ndtri(tail))
        values, _ = self._log_sum(np.linspace(-end, max(self.shifts) + end, count))
        return np.unique(np.logaddexp(self.range()[0], values))

    def bins(self, edges: Array) -> Bins:
        smallest = self.range()[0]
        inside = int(np.searchsorted(edges, smallest, side="right"))
        inner = edges[inside:]
        values = inner + np.log(-np.expm1(smallest - inner)) if self.rest > 0.0 else inner
        points, residual = self._inverse(values)
        largest = max(self.shifts)
        size = 1.0 + largest * (_MAX_DEVIATIONS + largest) - math.log(min(self.weights))
        size += float(np.abs(edges).max()) + (-smallest if self.rest > 0.0 else 0.0)
        point_error = 8 * U * np.abs(points)
        q, q_error = normal_masses(points, point_error)
        p, p_error = self.rest * q, self.rest * q_error
        for shift, weight in zip(self.shifts, self.weights, strict=True):
            mass, error = normal_masses(points - shift, point_error + 8 * U * shift)
            p, p_error = p + weight * mass, p_error + weight * error
        p_error = p_error + 4 * U * len(self.shifts) * p
        p, q, p_error, q_error = (np.pad(each, (inside, 0)) for each in (p, q, p_error, q_error))
        return Bins(p, q, p_error, q_error, blur=residual + 32 * U * size)

    def _log_sum(self, x: Array) -> tuple[Array, Array]:
        """Return ``g`` and its slope."""
        c, weights = np.array(self.shifts)[:, None], np.array(self.weights)[:, None]
        terms = np.log(weights) + c * x - 0.5 * c * c
        top = terms.max(axis=0)
        parts = np.exp(terms - top)
        total = parts.sum(axis=0)
        return top + np.log(total), (c * parts).sum(axis=0) / total

    def _inverse(self, values: Array) -> tuple[Array, float]:
        """Return the outcomes at which ``g`` has these values, and the largest residual."""
        if values.size == 0:
            return values, 0.0
        c, weights = np.array(self.shifts)[:, None], np.array(self.weights)[:, None]
        with np.errstate(over="ignore"):
            x = ((values - np.log(weights) + 0.5 * c * c) / c).min(axis=0)
        low, high = -_MAX_DEVIATIONS, max(self.shifts) + _MAX_DEVIATIONS
        for _ in range(_MAX_NEWTON_STEPS):
            x = np.clip(x, low, high)
            value, slope = self._log_sum(x)
            clipped = ((x <= low) & (value >= values)) | ((x >= high) & (value <= values))
            residual = np.where(clipped, 0.0, value - values)
            if float(np.abs(residual).max()) <= 1e-14 * (1.0 + float(np.abs(values).max())):
                break
            x = x - residual / slope
        return x, float(np.abs(residual).max())


_ROUNDING = 2.0**-49  # relative, for a handful of float operations
_MAX_EXPONENT = 500.0  # larger ones are summed in log space, where subtracting one has no effect
_REVEALED = dp.GaussianDpEvent(0.0)
_MIN_LOSSES = 40  # of each branch


@dataclass(frozen=True)
class PublicMixture(Release, event=PublicMixtureDpEvent):
    """``events[k]`` with probability ``weights[k] > 0``, and ``k`` itself.

    A branch is evaluated as a composition. It has a pair if it is one release. ``flatten`` has
    removed the events that all branches share. A sample of a mixture is not supported; write it as
    the mixture of the samples.
    """

    events: tuple[dp.DpEvent, ...]
    weights: tuple[float, ...]
    samples = False

    @classmethod
    def read(cls, event: PublicMixtureDpEvent) -> PublicMixture | None:
        events, checked = event.events, check_probabilities(event.probabilities)
        if checked is None or not isinstance(events, list | tuple):
            return None
        if len(events) != len(checked[0]) or not all(
            isinstance(each, dp.DpEvent) for each in events
        ):
            return None
        events_or_reveal = (_REVEALED if _reveals(each) else each for each in events)
        sides = zip((*events_or_reveal, _REVEALED), (*checked[0], checked[1]), strict=True)
        return cls(*zip(*((each, share) for each, share in sides if share > 0.0), strict=True))

    def pairs(self, relation: Relation) -> tuple[Pair, Pair] | None:
        releases = all_or_none(map(as_single_release, self.events)) or []
        pairs = all_or_none(release.pairs(relation) for release in releases)
        if not pairs:
            return None
        removed = MixedPair.of([pair for pair, _ in pairs], self.weights)
        if all(first is second for first, second in pairs):
            return removed, removed
        return removed, MixedPair.of([pair for _, pair in pairs], self.weights)

    def grouped(self, size: int, relation: Relation) -> PublicMixtureDpEvent | None:
        sides = all_or_none(group_event(each, size, relation) for each in self.events)
        return None if sides is None else PublicMixtureDpEvent(tuple(sides), self.weights)

    def orders(self) -> tuple[float, ...]:
        return tuple(order for each in self.events for order in renyi_orders(each))

    def renyi(self, relation: Relation) -> Curve | None:
        curves = all_or_none(renyi_curve(each, relation) for each in self.events)
        return None if curves is None else partial(mixed_divergence, curves, self.weights)

    def zcdp(self, relation: Relation) -> Concentration | None:
        # D_alpha of the mixture is at most the largest of its branches
        collect_zcdp = partial(collect, question=lambda release: release.zcdp(relation))
        sides = all_or_none(map(collect_zcdp, self.events))
        if sides is None:
            return None

        def largest(cost: Callable[[Concentration], Cost]) -> float:
            sums = [
                weighted_sum((round_up_cost(cost(each)), n) for each, n in side) for side in sides
            ]
            return max(sums) * (1.0 + _ROUNDING)

        return Concentration(largest(lambda each: each.rho), largest(lambda each: each.xi))

    def loss(self, relation: Relation) -> LargestLoss | None:
        sides = all_or_none(compose_losses(each, relation) for each in self.events)
        if sides is None:
            return None
        (worst, log_typical), share = max(
            zip(sides, self.weights, strict=True), key=lambda each: each[0][0].lower
        )
        typical = share * math.exp(log_typical) * (1.0 - _ROUNDING)
        return LargestLoss(max(side.upper for side, _ in sides), worst.lower, typical)


def _reveals(event: dp.DpEvent) -> bool:
    """Return True if a part of the event is not private."""
    return any(isinstance(leaf, dp.NonPrivateDpEvent) for leaf, _ in flatten(event))


def mixed_divergence(curves: Sequence[Curve], weights: Sequence[float], orders: Array) -> Array:
    """Return ``ln [sum_k p_k e^((alpha - 1) D_k)] / (alpha - 1)``, rounded up.

    The excess over one is summed, so that small divergences are accurate.
    """
    rate = orders - 1.0
    divergences = [curve(orders) for curve in curves]
    exponents = [rate * each for each in divergences]
    top = np.max(exponents, axis=0)
    near = top <= _MAX_EXPONENT
    reach = np.where(np.isfinite(top), top, 0.0)
    above_one, scaled = np.zeros_like(orders), np.zeros_like(orders)
    for exponent, share in zip(exponents, weights, strict=True):
        above_one += share * np.expm1(np.where(near, exponent, 0.0))
        scaled += share * np.exp(exponent - reach, where=np.isfinite(top), out=np.ones_like(top))
    slack = U * (16.0 + 2.0 * len(weights) + 4.0 * reach)
    moment = np.where(near, np.log1p(above_one * (1.0 + slack)), top + np.log(scaled) + 4.0 * slack)
    positive = np.max(divergences, axis=0) > 0.0
    return np.asarray(np.where(positive, np.maximum(moment * (1.0 + 8 * U) / rate, SMALLEST), 0.0))


@dataclass(frozen=True)
class MixedPair(Pair):
    """``P = sum_k w_k P_k`` against ``Q = sum_k w_k Q_k``, in disjoint copies.

    Formal guarantee
    ----------------
    ``H_gamma(P || Q) = sum_k w_k H_gamma(P_k || Q_k)``. It dominates a public choice among releases
    that the pairs ``(P_k, Q_k)`` dominate, and is attained if one pair of neighbours attains them
    all.
    """

    parts: tuple[Pair, ...]
    weights: tuple[float, ...]

    @classmethod
    def of(cls, pairs: Sequence[Pair], weights: Sequence[float]) -> Pair:
        """Return the mixture, with equal pairs merged."""
        shares: dict[Pair, float] = {}
        for pair, share in zip(pairs, weights, strict=True):
            shares[pair] = shares.get(pair, 0.0) + share
        if len(shares) == 1:
            return next(iter(shares))
        return cls(tuple(shares), tuple(shares.values()))

    @property
    def attained(self) -> Pair | None:
        parts = all_or_none(part.attained for part in self.parts)
        return None if parts is None else MixedPair.of(parts, self.weights)

    def infinite(self) -> tuple[float, float]:
        masses = [part.infinite() for part in self.parts]
        p, q = (
            math.fsum(share * mass for share, mass in zip(self.weights, of_one, strict=True))
            for of_one in zip(*masses, strict=True)
        )
        return min(p, 1.0), min(q, 1.0)

    def range(self) -> tuple[float, float]:
        smallest, largest = zip(*(part.range() for part in self.parts), strict=True)
        return min(smallest), max(largest)

    def losses(self, tail: float, count: int) -> Array:
        each = max(_MIN_LOSSES, count // len(self.parts))
        return np.unique(np.concatenate([part.losses(tail, each) for part in self.parts]))

    def bins(self, edges: Array) -> Bins:
        p, q, p_error, q_error = np.zeros((4, edges.size + 1))
        blur = 0.0
        for part, share in zip(self.parts, self.weights, strict=True):
            bins = part.bins(edges)
            p += share * bins.p
            q += share * bins.q
            p_error += share * bins.p_error
            q_error += share * bins.q_error
            blur = max(blur, bins.blur)
        unit = (len(self.parts) + 8) * U
        return Bins(p, q, p_error + unit * p, q_error + unit * q, blur)

    def reverse(self) -> Pair:
        reverses = tuple(part.reverse() for part in self.parts)
        return self if reverses == self.parts else MixedPair.of(reverses, self.weights)

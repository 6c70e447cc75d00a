"""Gaussian noise around a random contribution: mixtures of normal distributions."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from dp_accounting.dp_event import MixtureOfGaussiansDpEvent
from scipy.special import ndtri

from privopt.privacy.pairs import EVERYTHING, NOTHING, Array, Bins, Pair, Reversed
from privopt.privacy.pairs.gaussian import normal_masses
from privopt.privacy.parameters import SUM_TOLERANCE, is_noise, is_rate
from privopt.privacy.releases.poisson import Sampled
from privopt.privacy.releases.release import MAX_DISTANCE, MIN_DISTANCE, Release
from privopt.spec import Relation

_U = 2.0**-53  # unit roundoff of float64
_MAX_NEWTON_STEPS = 60  # a handful are enough
_MAX_DEVIATIONS = 50.0  # standard deviations, where float64 has no probabilities
_ROUNDING = 2.0**-51  # of a sum that is meant to be one
_ROWS = (list, tuple, np.ndarray)
_MIN_SHIFT = 1e-12  # shifts of less are no finer than a mesh can be


@dataclass(frozen=True)
class Mixture(Release, event=MixtureOfGaussiansDpEvent):
    """Gaussian noise around a contribution whose norm has a public law."""

    event: MixtureOfGaussiansDpEvent
    law: Norms

    @classmethod
    def read(cls, event: MixtureOfGaussiansDpEvent) -> Mixture | None:
        law = norms(event.sensitivities, event.sampling_probs)
        return cls(event, law) if law is not None and is_noise(event.standard_deviation) else None

    def pairs(self, relation: Relation) -> tuple[Pair, Pair] | None:
        if relation is Relation.REPLACE_ONE:
            return None
        law, noise = self.law, float(self.event.standard_deviation)
        told = [(norm, share) for norm, share in law.weights.items() if norm > 0.0 and share > 0.0]
        if not told or math.isinf(noise):
            return NOTHING, NOTHING
        largest = max(norm for norm, _ in told)
        if noise * MAX_DISTANCE < largest:
            share = min(1.0, math.fsum(weight for _, weight in told))
            seen = Sampled.of(replace(EVERYTHING, exact=law.exact and noise == 0.0), share)
            return seen, Reversed(seen)
        if largest / noise < MIN_DISTANCE:
            return None
        shifts, weights = zip(*((norm / noise, weight) for norm, weight in told), strict=True)
        pair = MixturePair.of(shifts, weights, law.weights.get(0.0, 0.0), law.exact)
        return pair, Reversed(pair)

    def exported(self, relation: Relation) -> MixtureOfGaussiansDpEvent | None:
        return None if relation is Relation.REPLACE_ONE else self.event


class Norms(NamedTuple):
    """The law of a contribution's norm, and whether it is the one that was given."""

    weights: dict[float, float]
    exact: bool


def norms(sizes: object, probabilities: object) -> Norms | None:
    """The law with these ``probabilities`` of ``sizes``; None if there is none.

    What lacks one hundred per cent goes to the largest size, what exceeds it is taken from the
    smallest: larger contributions dominate (the source of ``MixturePair``).
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
    return Norms(weights, abs(missing) <= _ROUNDING)


@dataclass(frozen=True)
class MixturePair(Pair):
    """``P = (1 - w) N(0, 1) + sum_i w_i N(c_i, 1)`` against ``Q = N(0, 1)``, ``w = sum_i w_i``.

    ``c_i = shifts > 0`` and ``w_i = weights > 0``; ``rest = 1 - w``. The loss at ``x``,

        ln [rest + e^g(x)],    g(x) = ln sum_i w_i e^(c_i x - c_i^2 / 2),

    increases with ``x``, and ``g`` is convex: Newton's method finds the ``x`` of a loss, from
    where the largest summand alone is enough. What it leaves is charged.

    Formal guarantee
    ----------------
    Dominates Gaussian noise around vectors of norms ``c_i``, drawn with these probabilities, too.
    Source: Choquette-Choo, Ganesh, Steinke and Thakurta, "Privacy amplification for matrix
    mechanisms", ICLR 2024 (arXiv:2310.15526), Corollary 4.7.
    """

    shifts: tuple[float, ...]
    weights: tuple[float, ...]
    rest: float
    exact: bool = True

    @classmethod
    def of(
        cls, shifts: tuple[float, ...], weights: tuple[float, ...], rest: float, exact: bool
    ) -> MixturePair:
        """At shifts that a mesh can tell from zero: larger ones dominate."""
        moved = tuple(max(shift, _MIN_SHIFT) for shift in shifts)
        return cls(moved, weights, rest, exact and moved == shifts)

    @property
    def attained(self) -> Pair | None:
        return self if self.exact else None

    def range(self) -> tuple[float, float]:
        return math.log(self.rest) if self.rest > 0.0 else -math.inf, math.inf

    def losses(self, tail: float, count: int) -> Array:
        end = -float(ndtri(tail))
        told, _ = self._told(np.linspace(-end, max(self.shifts) + end, count))
        return np.unique(np.logaddexp(self.range()[0], told))

    def bins(self, edges: Array) -> Bins:
        smallest = self.range()[0]
        inside = int(np.searchsorted(edges, smallest, side="right"))
        above = edges[inside:]
        told = above + np.log(-np.expm1(smallest - above)) if self.rest > 0.0 else above
        points, residual = self._inverse(told)
        largest = max(self.shifts)
        size = 1.0 + largest * (_MAX_DEVIATIONS + largest) - math.log(min(self.weights))
        size += float(np.abs(edges).max()) + (-smallest if self.rest > 0.0 else 0.0)
        moved = 8 * _U * np.abs(points)
        q, q_error = normal_masses(points, moved)
        p, p_error = self.rest * q, self.rest * q_error
        for shift, weight in zip(self.shifts, self.weights, strict=True):
            mass, error = normal_masses(points - shift, moved + 8 * _U * shift)
            p, p_error = p + weight * mass, p_error + weight * error
        p_error = p_error + 4 * _U * len(self.shifts) * p
        p, q, p_error, q_error = (np.pad(each, (inside, 0)) for each in (p, q, p_error, q_error))
        return Bins(p, q, p_error, q_error, blur=residual + 32 * _U * size)

    def _told(self, x: Array) -> tuple[Array, Array]:
        """``g`` and its slope."""
        c, weights = np.array(self.shifts)[:, None], np.array(self.weights)[:, None]
        terms = np.log(weights) + c * x - 0.5 * c * c
        top = terms.max(axis=0)
        parts = np.exp(terms - top)
        total = parts.sum(axis=0)
        return top + np.log(total), (c * parts).sum(axis=0) / total

    def _inverse(self, told: Array) -> tuple[Array, float]:
        """Outcomes at which ``g`` has these values, and the largest error of the values."""
        if told.size == 0:
            return told, 0.0
        c, weights = np.array(self.shifts)[:, None], np.array(self.weights)[:, None]
        with np.errstate(over="ignore"):
            x = ((told - np.log(weights) + 0.5 * c * c) / c).min(axis=0)
        low, high = -_MAX_DEVIATIONS, max(self.shifts) + _MAX_DEVIATIONS
        for _ in range(_MAX_NEWTON_STEPS):
            x = np.clip(x, low, high)
            value, slope = self._told(x)
            beyond = ((x <= low) & (value >= told)) | ((x >= high) & (value <= told))
            wrong = np.where(beyond, 0.0, value - told)
            if float(np.abs(wrong).max()) <= 1e-14 * (1.0 + float(np.abs(told).max())):
                break
            x = x - wrong / slope
        return x, float(np.abs(wrong).max())

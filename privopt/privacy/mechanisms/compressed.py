"""Gaussian noise on random measurements: pairs of a random distance ``S = mu sqrt(chi^2_m / m)``.

The tails of the loss are means over ``S``, computed by the trapezoid rule with a certified error:
:ref:`Accountants, Theorem 15 <theory-accountants-15>`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np
from scipy.special import gammainc, gammaincc, ndtr

from privopt.privacy.events import CompressedGaussianDpEvent
from privopt.privacy.mechanisms.base import MIN_DISTANCE, UP, Curve, Release
from privopt.privacy.numbers import SMALLEST, Array, U, bisect, is_count, is_noise
from privopt.privacy.pairs import EVERYTHING, NOTHING, Bins, Pair, masses_between
from privopt.privacy.renyi_moments import psi
from privopt.spec import Relation

_MAX_DISTANCE = 32.0  # standard deviations, beyond which everything counts as revealed
_MAX_MEASUREMENTS = 2**40
_LEFT, _RIGHT = 50.0, 720.0  # the mass of S beyond the nodes is e^-50 below and e^-720 above
_NEVER = math.exp(-_RIGHT)
_DIGITS = 46.0  # errors of the rule are e^-46 of the integral, if possible
_MAX_STEP = 0.08
_MAX_NODES = 4096
_MAX_REACH = 1400.0  # of x: tails of float64 end there
_CELLS = 500_000
_VANISHED = 40.0  # standard deviations at which masses underflow
_WIDEST = 0.77  # of a strip; below pi / 4
_SHARES = np.concatenate([np.geomspace(1e-6, 0.5, 120), 1.0 - np.geomspace(0.4, 1e-3, 40)])


@dataclass(frozen=True)
class Compressed(Release, event=CompressedGaussianDpEvent):
    """Noise of standard deviation ``noise``, divided by the per-record sensitivity."""

    noise: float
    measurements: int

    @classmethod
    def read(cls, event: CompressedGaussianDpEvent) -> Compressed | None:
        noise, count = event.noise_multiplier, event.measurements
        if not is_noise(noise) or not is_count(count) or not 1 <= count <= _MAX_MEASUREMENTS:
            return None
        return cls(float(noise), int(count))

    def grouped(self, size: int, relation: Relation) -> CompressedGaussianDpEvent:
        return CompressedGaussianDpEvent(self.noise / (size * UP), self.measurements)

    def _distance(self, relation: Relation) -> float:
        """Return ``mu``, rounded up."""
        return relation.multiple / self.noise * UP if self.noise > 0.0 else math.inf

    def pair(self, relation: Relation) -> Pair | None:
        mu = self._distance(relation)
        if mu == 0.0:
            return NOTHING
        if mu < MIN_DISTANCE:
            return None
        if mu > _MAX_DISTANCE:
            return replace(EVERYTHING, exact=self.noise == 0.0)
        return CompressedPair(relation.multiple / self.noise, self.measurements)

    def renyi(self, relation: Relation) -> Curve | None:
        return partial(compressed_divergence, self._distance(relation), self.measurements)

    def exported(self, relation: Relation) -> CompressedGaussianDpEvent:
        return CompressedGaussianDpEvent(self.noise / relation.multiple, self.measurements)


def compressed_divergence(mu: float, measurements: int, orders: Array) -> Array:
    """Return ``-(m / (2 (a - 1))) ln(1 - a (a - 1) mu^2 / m)``, infinite beyond its domain.

    ``E e^(a (a - 1) S^2 / 2)`` is the moment generating function of ``chi^2_m``.
    """
    rate = orders - 1.0
    with np.errstate(over="ignore", divide="ignore"):
        ratio = orders * rate * (mu / measurements) * mu * (1.0 + 16 * U)
        valid = ratio < 1.0
        moment = -0.5 * measurements * np.log1p(-np.where(valid, ratio, 0.0))
        divergence = np.where(valid, moment / rate * (1.0 + 16 * U), math.inf)
    return np.asarray(np.maximum(divergence, SMALLEST if mu > 0.0 else 0.0))


class Tails(NamedTuple):
    """Mass of losses beyond ``c`` under the likelier law and the other one, with errors."""

    likely: Array
    rare: Array
    likely_error: Array
    rare_error: Array


@dataclass(frozen=True)
class CompressedPair(Pair):
    """``N(S, 1)`` against ``N(0, 1)``, and ``S = mu sqrt(chi^2_m / m)`` itself; its own reverse.

    Formal guarantee
    ----------------
    Dominates Gaussian noise on independent Gaussian measurements (``CompressedGaussianDpEvent``),
    and is attained by differences of full length.
    """

    mu: float
    measurements: int
    symmetric = True

    def losses(self, tail: float, count: int) -> Array:
        # From -c to c, beyond which Chernoff's bound is tail; dense around zero
        rates, moments = self._moments()
        reach = float(((moments - math.log(tail)) / rates).min())
        bend = math.log1p(reach / (4.0 * self.mu))
        return np.asarray(reach * np.sinh(np.linspace(-bend, bend, count)) / math.sinh(bend))

    def bins(self, edges: Array) -> Bins:
        tails, positive = self.tails(np.abs(edges)), edges > 0.0

        def masses(far: Array, near: Array, wrong: Array, near_wrong: Array) -> tuple[Array, Array]:
            tail, error = np.where(positive, far, near), np.where(positive, wrong, near_wrong)
            return masses_between(tail, error, positive)

        p, p_error = masses(tails.likely, tails.rare, tails.likely_error, tails.rare_error)
        q, q_error = masses(tails.rare, tails.likely, tails.rare_error, tails.likely_error)
        return Bins(p, q, p_error, q_error)

    def tails(self, c: Array) -> Tails:
        """Return the two means at every ``c >= 0``."""
        rule = _rule(self.measurements, min(float(c.max()) * self._bend, _MAX_REACH))
        rows = max(1, _CELLS // rule.nodes.size)
        parts = [self._tails(rule, c[i : i + rows]) for i in range(0, c.size, rows)]
        return Tails(*map(np.concatenate, zip(*parts, strict=True)))

    @property
    def _bend(self) -> float:
        """``x / c``."""
        return math.hypot(math.sqrt(self.measurements) / self.mu, 0.5)

    def _moments(self) -> tuple[Array, Array]:
        """Return rates ``r`` and ``ln E_P e^(r L) = -(m/2) ln(1 - r (r + 1) mu^2 / m)``."""
        square = self.measurements / self.mu / self.mu
        rates = _SHARES * (square / (self._bend + 0.5))  # of the pole, x / c - 1/2
        return rates, -0.5 * self.measurements * np.log1p(-rates * (rates + 1.0) / square)

    def _tails(self, rule: _Rule, c: Array) -> Tails:
        s = self.mu * np.exp(rule.nodes)
        with np.errstate(over="ignore", under="ignore"):
            below_nodes = rule.mass_below * ndtr(0.5 * s[0] - c / s[0]) + _NEVER
            density_below = rule.mass_below * np.exp(-0.5 * (c / s[0]) ** 2) + _NEVER
            visible = slice(int(np.argmax(0.5 * s - float(c.min()) / s > -_VANISHED)), None)
            s, weights, rounding = s[visible], rule.weights[visible], rule.rounding[visible]
            ratio = c[:, None] / s
            shape = np.exp(-0.125 * s * s - 0.5 * ratio * ratio) @ weights + density_below
            log_rate, beyond = self._rates(rule, c)
            rate = np.exp(log_rate)
            # The relative error of the sum of R is this rate, too.
            shape = np.where(rate < 0.5, shape / (1.0 - np.minimum(rate, 0.5)), 1.0)
            log_half = 0.5 * c + np.log(0.5 * shape) + log_rate
            rates, moments = self._moments()
            most = np.exp((moments[:, None] - np.outer(rates, c)).min(axis=0)) + _NEVER
            means = []
            for sign, wrong, largest in (
                (1.0, np.exp(np.minimum(log_half, 0.0)) + beyond, most),
                (-1.0, np.exp(np.minimum(log_half - c, 0.0)), most * np.exp(-c) + _NEVER),
            ):
                z = 0.5 * sign * s - ratio
                size, mass = np.abs(z), weights * ndtr(z)
                point_error = 8 * U * (0.5 * s + ratio)
                slack = 16 * U * (2.0 + size * size) + 2.0 * (1.0 + size) * point_error + rounding
                error = np.einsum("ij,ij->i", mass, slack) + wrong + below_nodes
                value = mass.sum(axis=1)
                means.append((value, np.minimum(error, value + largest) * (1.0 + 1e-9)))
        (likely, likely_error), (rare, rare_error) = means
        return Tails(likely, rare, likely_error, rare_error)

    def _rates(self, rule: _Rule, c: Array) -> tuple[Array, Array]:
        """Return the logarithm of the factor of ``R`` in the error, and the second summand."""
        log_rates = rule.log_rates[:, None] + np.outer(rule.falls, self._bend * c)
        best = np.argmin(log_rates, axis=0)
        large = (1.0 - rule.falls[best]) * c * (self.measurements / self.mu / self.mu)
        share = gammaincc(0.5 * self.measurements, large)
        most = np.minimum(log_rates.min(axis=0), 300.0)
        return most, np.exp(np.minimum(rule.log_rates[best], 300.0)) * share


class _Rule(NamedTuple):
    """The trapezoid rule for ``w(v) dv``, and the terms of its error.

    Attributes
    ----------
    nodes, weights, rounding : ndarray
        ``v``; weights with sum one; the relative error of each weight.
    mass_below : float
        Mass below the first node.
    falls, log_rates : ndarray
        ``1 - theta`` and ``ln [2 theta^(-m/2) / (e^(2 pi b / h) - 1)]`` of every strip.
    """

    nodes: Array
    weights: Array
    rounding: Array
    mass_below: float
    falls: Array
    log_rates: Array


@lru_cache(maxsize=64)
def _rule(measurements: int, reach: float) -> _Rule:
    """Return a rule whose step has the accuracy ``_DIGITS`` for ``x`` up to ``reach``."""
    half = 0.5 * measurements

    def fall(v: Array | float) -> Array:
        return half * psi(np.asarray(2.0 * v))

    first = bisect(lambda v: bool(fall(v) <= _LEFT), 0.0, -0.5 * (_LEFT / half + 2.0))
    last = bisect(lambda v: bool(fall(v) <= _RIGHT), 0.0, 0.5 * math.log(_RIGHT / half + 60.0))
    step = min(_MAX_STEP, math.pi / math.sqrt(_DIGITS * (2.0 * reach + measurements)))
    step = max(step, (last - first) / _MAX_NODES)
    nodes: Array = step * np.arange(math.floor(first / step), math.ceil(last / step) + 1.0)
    best = min(0.5 * _WIDEST, math.pi / step / (2.0 * reach + measurements))
    strips = np.geomspace(0.25 * best, _WIDEST, 50)
    falls, exponent = 2.0 * np.sin(strips) ** 2, 2.0 * math.pi / step * strips
    decay = fall(nodes)
    weights: Array = np.exp(-decay)
    size = 4.0 * decay + nodes.size
    log_rates = math.log(2.0) - half * np.log1p(-falls) - exponent - np.log(-np.expm1(-exponent))
    mass_below = float(gammainc(half, half * math.exp(2.0 * nodes[0]))) * (1.0 + 1e-9)
    whole = math.fsum(weights)
    # The sum of the weights differs from one by the error of the rule for the density itself.
    error = math.exp(min(0.0, float(log_rates.min()))) + mass_below
    error += 4 * U * float(weights @ size) / whole
    return _Rule(nodes, weights / whole, 4 * U * size + 2.0 * error, mass_below, falls, log_rates)

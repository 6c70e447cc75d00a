"""Gaussian noise on random measurements: pairs of a random distance ``S = mu sqrt(chi^2_m / m)``.

Given ``S`` the loss is normal, of mean ``+-S^2 / 2`` and variance ``S^2``: beyond ``c >= 0``

    P(L > c) = Q(L < -c) = E Phi(S/2 - c/S),    Q(L > c) = P(L < -c) = E Phi(-S/2 - c/S).

The means are integrals over ``v = ln(S / mu)``, of density ``w(v) ~ e^(-(m/2)(e^2v - 1 - 2v))``, by
the trapezoid rule, whose error is a theorem: for ``f`` analytic in ``|Im v| < b`` with
``int |f(v + iy)| dv <= M`` there, step ``h`` errs by at most ``2M / (e^(2 pi b / h) - 1)``. With
``theta = cos 2b`` and ``|erfc z| <= |e^(-z^2)|`` for ``Re z >= 0`` (else 2 more), such ``M`` are

    theta^(-m/2) [e^(+-c/2) / 2  e^((1 - theta) x) R + P(S^2 > 2 theta c)],

``x = c sqrt(m/mu^2 + 1/4)``, for the first mean; the second mean has the first summand alone, with
``e^(-c/2)``. Here ``R = E e^(-S^2/8 - c^2/(2 S^2))``, up to powers a Bessel function ``K_(m/2)``
of ``x``, and ``K(theta x) <= theta^(-m/2) e^((1 - theta) x) K(x)``: for ``k >= 1/2`` the function
``x^k e^x K_k(x)`` increases. By the same rule ``R`` is known from its own sum.

Source: Trefethen and Weideman, "The exponentially convergent trapezoidal rule", SIAM Review 2014,
Theorem 5.1.
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
from privopt.privacy.numbers import SMALLEST, bisect, is_count, is_noise
from privopt.privacy.pairs import EVERYTHING, NOTHING, Array, Bins, Pair
from privopt.privacy.pairs.gaussian import masses_between
from privopt.privacy.renyi_moments import psi
from privopt.spec import Relation

_U = 2.0**-53  # unit roundoff of float64
_MAX_DISTANCE = 32.0  # standard deviations, beyond which everything is taken to be seen
_MAX_MEASUREMENTS = 2**40
_LEFT, _RIGHT = 50.0, 720.0  # beyond the nodes lies e^-50 of S, and e^-720
_NEVER = math.exp(-_RIGHT)
_DIGITS = 46.0  # errors of the rule are e^-46 of the integral, where that can be had
_MAX_STEP = 0.08
_MAX_NODES = 4096
_MAX_REACH = 1400.0  # of x: tails of float64 end there
_CELLS = 500_000
_VANISHED = 40.0  # standard deviations below which float64 knows no mass
_WIDEST = 0.77  # of a strip; below pi / 4
_SHARES = np.concatenate([np.geomspace(1e-6, 0.5, 120), 1.0 - np.geomspace(0.4, 1e-3, 40)])


@dataclass(frozen=True)
class Compressed(Release, event=CompressedGaussianDpEvent):
    """Noise of standard deviation ``noise``, over the bound of one contribution."""

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
        """``mu``, rounded up."""
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
    """``-(m / (2 (a - 1))) ln(1 - a (a - 1) mu^2 / m)``, and infinity from where that ends.

    ``E e^(a (a - 1) S^2 / 2)`` is the moment generating function of ``chi^2_m``.
    """
    rate = orders - 1.0
    with np.errstate(over="ignore", divide="ignore"):
        spent = orders * rate * (mu / measurements) * mu * (1.0 + 16 * _U)
        known = spent < 1.0
        moment = -0.5 * measurements * np.log1p(-np.where(known, spent, 0.0))
        divergence = np.where(known, moment / rate * (1.0 + 16 * _U), math.inf)
    return np.asarray(np.maximum(divergence, SMALLEST if mu > 0.0 else 0.0))


class Tails(NamedTuple):
    """Mass of losses beyond ``c`` under the likelier law and the other, with absolute errors."""

    likely: Array
    rare: Array
    likely_error: Array
    rare_error: Array


@dataclass(frozen=True)
class CompressedPair(Pair):
    """``N(S, 1)`` against ``N(0, 1)``, and ``S = mu sqrt(chi^2_m / m)`` itself; its own reverse.

    Formal guarantee
    ----------------
    Dominates Gaussian noise on fresh Gaussian measurements (``CompressedGaussianDpEvent``), and
    is attained by differences of full length.
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
        tails, above = self.tails(np.abs(edges)), edges > 0.0
        p, p_error = masses_between(
            np.where(above, tails.likely, tails.rare),
            np.where(above, tails.likely_error, tails.rare_error),
            above,
        )
        q, q_error = masses_between(
            np.where(above, tails.rare, tails.likely),
            np.where(above, tails.rare_error, tails.likely_error),
            above,
        )
        return Bins(p, q, p_error, q_error)

    def tails(self, c: Array) -> Tails:
        """The two means at every ``c >= 0``."""
        rule = _rule(self.measurements, min(float(c.max()) * self._bend, _MAX_REACH))
        rows = max(1, _CELLS // rule.nodes.size)
        parts = [self._tails(rule, c[i : i + rows]) for i in range(0, c.size, rows)]
        return Tails(*map(np.concatenate, zip(*parts, strict=True)))

    @property
    def _bend(self) -> float:
        """``x / c``."""
        return math.hypot(math.sqrt(self.measurements) / self.mu, 0.5)

    def _moments(self) -> tuple[Array, Array]:
        """Rates ``r`` and ``ln E_P e^(r L) = -(m/2) ln(1 - r (r + 1) mu^2 / m)``."""
        square = self.measurements / self.mu / self.mu
        rates = _SHARES * (square / (self._bend + 0.5))  # of the pole, x / c - 1/2
        return rates, -0.5 * self.measurements * np.log1p(-rates * (rates + 1.0) / square)

    def _tails(self, rule: _Rule, c: Array) -> Tails:
        s = self.mu * np.exp(rule.nodes)
        with np.errstate(over="ignore", under="ignore"):
            missed = rule.left * ndtr(0.5 * s[0] - c / s[0]) + _NEVER
            unseen = rule.left * np.exp(-0.5 * (c / s[0]) ** 2) + _NEVER
            seen = slice(int(np.argmax(0.5 * s - float(c.min()) / s > -_VANISHED)), None)
            s, weights, rounding = s[seen], rule.weights[seen], rule.rounding[seen]
            ratio = c[:, None] / s
            shape = np.exp(-0.125 * s * s - 0.5 * ratio * ratio) @ weights + unseen
            log_rate, beyond = self._rates(rule, c)
            rate = np.exp(log_rate)
            # The sum of R is itself off by this rate of R.
            shape = np.where(rate < 0.5, shape / (1.0 - np.minimum(rate, 0.5)), 1.0)
            log_half = 0.5 * c + np.log(0.5 * shape) + log_rate
            rates, moments = self._moments()
            most = np.exp((moments[:, None] - np.outer(rates, c)).min(axis=0)) + _NEVER
            found = []
            for sign, wrong, largest in (
                (1.0, np.exp(np.minimum(log_half, 0.0)) + beyond, most),
                (-1.0, np.exp(np.minimum(log_half - c, 0.0)), most * np.exp(-c) + _NEVER),
            ):
                z = 0.5 * sign * s - ratio
                size, mass = np.abs(z), weights * ndtr(z)
                moved = 8 * _U * (0.5 * s + ratio)
                slack = 16 * _U * (2.0 + size * size) + 2.0 * (1.0 + size) * moved + rounding
                error = np.einsum("ij,ij->i", mass, slack) + wrong + missed
                value = mass.sum(axis=1)
                found.append((value, np.minimum(error, value + largest) * (1.0 + 1e-9)))
        (likely, likely_error), (rare, rare_error) = found
        return Tails(likely, rare, likely_error, rare_error)

    def _rates(self, rule: _Rule, c: Array) -> tuple[Array, Array]:
        """``ln [2 theta^(-m/2) e^((1 - theta) x) / (e^(2 pi b / h) - 1)]``; the second summand."""
        log_rates = rule.log_rates[:, None] + np.outer(rule.falls, self._bend * c)
        best = np.argmin(log_rates, axis=0)
        large = (1.0 - rule.falls[best]) * c * (self.measurements / self.mu / self.mu)
        share = gammaincc(0.5 * self.measurements, large)
        most = np.minimum(log_rates.min(axis=0), 300.0)
        return most, np.exp(np.minimum(rule.log_rates[best], 300.0)) * share


class _Rule(NamedTuple):
    """The trapezoid rule for ``w(v) dv``, and what its errors are made of.

    Attributes
    ----------
    nodes, weights, rounding : ndarray
        ``v``; weights that add up to one; the relative error of each.
    left : float
        Mass below the first node.
    falls, log_rates : ndarray
        ``1 - theta`` and ``ln [2 theta^(-m/2) / (e^(2 pi b / h) - 1)]`` of every strip.
    """

    nodes: Array
    weights: Array
    rounding: Array
    left: float
    falls: Array
    log_rates: Array


@lru_cache(maxsize=64)
def _rule(measurements: int, reach: float) -> _Rule:
    """With a step such that ``x`` up to ``reach`` is good for ``_DIGITS``."""
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
    falls, grown = 2.0 * np.sin(strips) ** 2, 2.0 * math.pi / step * strips
    fallen = fall(nodes)
    weights: Array = np.exp(-fallen)
    size = 4.0 * fallen + nodes.size
    log_rates = math.log(2.0) - half * np.log1p(-falls) - grown - np.log(-np.expm1(-grown))
    left = float(gammainc(half, half * math.exp(2.0 * nodes[0]))) * (1.0 + 1e-9)
    whole = math.fsum(weights)
    # Their sum is not one by what the rule misses of the density itself.
    missed = math.exp(min(0.0, float(log_rates.min()))) + left
    missed += 4 * _U * float(weights @ size) / whole
    return _Rule(nodes, weights / whole, 4 * _U * size + 2.0 * missed, left, falls, log_rates)

"""The Edgeworth expansion of the privacy loss: an estimate one order beyond the limit theorem.

The loss ``L`` of a composition is a sum of independent losses, whose cumulants add. With ``S_P``
and ``S_Q`` the chances that it exceeds ``epsilon`` under the two distributions of a pair,

    delta(epsilon) = S_P(epsilon) - e^epsilon S_Q(epsilon),

and each is expanded around the normal one: with standardised ``x``, skewness ``s`` and excess
kurtosis ``k``,

    S = Phi(-x) + phi(x) [s He_2(x) / 6 + k He_3(x) / 24 + s^2 He_5(x) / 72].

Where the skewness is small the estimate is an order of magnitude better than the limit; at heavy
skewness it is a better guess, and nothing more. It errs to both sides.

Source: Wang, Gao, Zhang, Su and Shen, "Analytical composition of differential privacy via the
Edgeworth accountant", 2022 (arXiv:2206.04236), who also bound the error; we do not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import dp_accounting as dp
import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr

from privopt.privacy.accountants.clt import SampledGaussian, sampled_gaussians
from privopt.privacy.approximation import ApproximateCurve, Approximation
from privopt.privacy.boundary import boundary
from privopt.spec import Relation

__all__ = ["Edgeworth"]

Array = npt.NDArray[np.float64]

_NORMAL = np.linspace(-12.0, 12.0, 4001)
_WEIGHTS = np.exp(-0.5 * _NORMAL * _NORMAL)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
_NEGLIGIBLE, _HOPELESS = 1e-140, 1e60  # variances of the loss; beyond them powers leave float64
_CURVE = 400  # points from which a trade-off curve is interpolated


@dataclass(frozen=True)
class Edgeworth:
    """Estimates by the first four cumulants of the privacy loss, in the worse order of each pair.

    Supports compositions of what ``GaussianDP`` supports and of Poisson-sampled Gaussian
    releases, under every relation.
    """

    name = "Edgeworth"

    def supports(self, event: dp.DpEvent, relation: Relation) -> bool:
        """Whether every leaf is one of these, with parameters that make sense."""
        steps = sampled_gaussians(event, relation)
        return steps is not None and all(step.poisson for step in steps)

    def epsilon(self, event: dp.DpEvent, relation: Relation, delta: float) -> Approximation:
        """Where the estimated profile, coming down from infinity, reaches ``delta``."""
        orders = _orders(event, relation)
        return Approximation(_epsilon(orders, delta), self.name)

    def delta(self, event: dp.DpEvent, relation: Relation, epsilon: float) -> Approximation:
        """The estimated profile at ``epsilon``, within ``[0, 1]``."""
        return Approximation(_delta(_orders(event, relation), epsilon), self.name)

    def trade_off(
        self, event: dp.DpEvent, relation: Relation, alphas: npt.NDArray[np.float64]
    ) -> ApproximateCurve:
        """The curve dual to the estimated profile."""
        orders = _orders(event, relation)
        if orders is None:
            return ApproximateCurve(np.zeros_like(alphas), self.name)
        losses = np.linspace(0.0, max(1e-12, _epsilon(orders, 1e-12)), _CURVE)
        gammas = np.exp(np.minimum(losses, 700.0))
        deltas = np.array([_delta(orders, loss) for loss in losses.tolist()])
        lines = 1.0 - deltas - np.multiply.outer(alphas, gammas)
        mirrored = (1.0 - deltas - alphas[..., None]) / gammas
        curve = np.maximum(lines.max(axis=-1), mirrored.max(axis=-1))
        return ApproximateCurve(np.clip(curve, 0.0, 1.0), self.name)


def _orders(event: dp.DpEvent, relation: Relation) -> list[tuple[Array, Array]] | None:
    """Cumulants under ``P`` and ``Q``, for each order; None if there is hardly any noise."""
    steps = sampled_gaussians(event, relation) or []
    p, q = np.zeros(4), np.zeros(4)
    for step in steps:
        if step.times * step.mu * step.mu > _HOPELESS:
            return None
        under_p, under_q = _cumulants(step, relation)
        p, q = p + step.times * under_p, q + step.times * under_q
    sign = np.array([-1.0, 1.0, -1.0, 1.0])  # the loss in the other order is minus the loss
    return [(p, q), (sign * q, sign * p)]


def _cumulants(step: SampledGaussian, relation: Relation) -> tuple[Array, Array]:
    """The first four cumulants of the loss of one step, under ``P`` and under ``Q``."""
    if step.rate == 1.0:
        half = 0.5 * step.mu * step.mu
        return np.array([half, 2 * half, 0.0, 0.0]), np.array([-half, 2 * half, 0.0, 0.0])
    rate, z = step.rate, relation.multiple / step.mu
    none, plus, minus = (np.asarray(_NORMAL + shift / z) for shift in (0.0, 1.0, -1.0))
    if relation is Relation.REPLACE_ONE:
        left = [_log_ratio(x, z, rate) - _log_ratio(-x, z, rate) for x in (none, plus)]
        right = [left[0], _log_ratio(minus, z, rate) - _log_ratio(-minus, z, rate)]
        return _mixture(left, rate), _mixture(right, rate)
    left = [_log_ratio(x, z, rate) for x in (none, plus)]
    return _mixture(left, rate), _mixture(left[:1], 0.0)


def _log_ratio(x: Array, z: float, rate: float) -> Array:
    """``ln(1 - rate + rate e^u)`` with ``u = x / z - 1 / (2 z^2)``, ``x`` in units of ``z``."""
    u = (x - 0.5 / z) / z
    near = np.log1p(rate * np.expm1(np.minimum(u, 30.0)))
    return np.where(u < 30.0, near, u + math.log(rate))


def _mixture(losses: list[Array], rate: float) -> Array:
    """Cumulants of a loss that has the second form with probability ``rate``, or the first."""
    values = np.concatenate(losses)
    weights = np.concatenate([(1.0 - rate) * _WEIGHTS, rate * _WEIGHTS][: len(losses)])
    mean = float(weights @ values)
    deviations = values - mean
    second, third, fourth = (float(weights @ deviations**k) for k in (2, 3, 4))
    return np.array([mean, second, third, fourth - 3.0 * second * second])


def _delta(orders: list[tuple[Array, Array]] | None, epsilon: float) -> float:
    if orders is None:
        return 1.0
    worse = max(_tail(epsilon, p, 0.0) - _tail(epsilon, q, epsilon) for p, q in orders)
    return min(1.0, max(0.0, worse))


def _tail(epsilon: float, cumulants: Array, tilt: float) -> float:
    """``e^tilt S(epsilon)``."""
    mean, variance, third, fourth = cumulants.tolist()
    if variance < _NEGLIGIBLE or epsilon > 1e40 * math.sqrt(variance):
        return 0.0
    x = (epsilon - mean) / math.sqrt(variance)
    skewness, kurtosis = third / variance**1.5, fourth / variance**2
    he_2, he_3, he_5 = x * x - 1.0, x**3 - 3.0 * x, x**5 - 10.0 * x**3 + 15.0 * x
    series = skewness * he_2 / 6 + kurtosis * he_3 / 24 + skewness**2 * he_5 / 72
    bell = math.exp(min(tilt - 0.5 * x * x, 700.0)) / math.sqrt(2.0 * math.pi)
    normal = math.exp(min(tilt + float(log_ndtr(-x)), 700.0))
    return normal + bell * series


def _epsilon(orders: list[tuple[Array, Array]] | None, delta: float) -> float:
    if orders is None:
        return math.inf
    variance = min(float(p[1]) for p, _ in orders)
    if variance < _NEGLIGIBLE:
        return 0.0
    if delta == 0.0:
        return math.inf

    def enough(epsilon: float) -> bool:
        return _delta(orders, epsilon) <= delta

    largest = max(float(p[0]) for p, _ in orders) + math.sqrt(variance) * (
        8.0 + math.sqrt(-2.0 * math.log(delta))
    )
    while not enough(largest):
        largest *= 2.0
    return 0.0 if enough(0.0) else boundary(enough, largest, 0.0)

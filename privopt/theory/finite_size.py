"""Exact expected excess risk at finite size, for hard families with a radial risk.

The minimiser is at the centre of a ball and the risk is ``F(w) = a |w| + (b/2) |w|^2``, so the
expected excess risk is ``a E|w| + (b/2) E|w|^2``. Derivations: :ref:`Perturbation, Theorem 6
<theory-perturbation-6>`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import integrate, special

from privopt.arguments import checked, shown

_NEGLECTED = 1e-9  # probability of the neglected projections
_RESOLUTION = 1e-3  # largest relative uncertainty of a law

Moment = Callable[[int], float]


class RadialLoss(NamedTuple):
    """The loss ``F(w) = slope |w| + (curvature/2) |w|^2`` over ``|w| <= radius``, with minimum 0.

    The families ``distance``, ``regularised_distance`` of modulus ``m`` and ``squared_distance``
    have ``(1, 0)``, ``(1, m)`` and ``(0, 1)`` over the unit ball.
    """

    slope: float
    curvature: float
    radius: float = 1.0

    def expected(self, moment: Moment) -> float:
        """Return ``slope E|w| + (curvature/2) E|w|^2``, given ``power -> E|w|^power``."""
        return self.slope * moment(1) + 0.5 * self.curvature * moment(2)


@checked
def gaussian_perturbation(loss: RadialLoss, *, dim: int, scale: float) -> float:
    """Return ``E F(Proj(z))``, ``z ~ N(0, sigma^2 I)``: output perturbation with minimiser 0.

    With ``u = R^2/(2 sigma^2)`` and the regularised incomplete gamma functions ``P`` and ``Q``::

        E|w|^k = (2 sigma^2)^{k/2} (Gamma((d + k)/2)/Gamma(d/2)) P((d + k)/2, u) + R^k Q(d/2, u).
    """
    if scale == 0.0:
        return 0.0
    half = 0.5 * loss.radius**2 / scale**2
    return loss.expected(_capped(0.5 * dim, 0.5, math.sqrt(2.0) * scale, half, loss.radius))


@checked
def norm_laplace_perturbation(loss: RadialLoss, *, dim: int, scale: float) -> float:
    """Return ``E F(Proj(z))`` for ``z`` with density proportional to ``exp(-|z|/beta)``.

    ``E|w|^k = beta^k (Gamma(d + k)/Gamma(d)) P(d + k, R/beta) + R^k Q(d, R/beta)``.
    """
    if scale == 0.0:
        return 0.0
    return loss.expected(_capped(float(dim), 1.0, scale, loss.radius / scale, loss.radius))


def _capped(shape: float, root: float, unit: float, end: float, radius: float) -> Moment:
    """Return the moments of ``min(unit U^root, radius)``, ``U ~ Gamma(shape)``; cap at ``end``."""
    beyond = float(special.gammaincc(shape, end))

    def moment(power: int) -> float:
        other = shape + root * power
        ratio = math.exp(special.gammaln(other) - special.gammaln(shape))
        within = unit**power * ratio * float(special.gammainc(other, end))
        return within + (radius**power * beyond if beyond > 0.0 else 0.0)

    return moment


@checked
def gibbs_draw(
    loss: RadialLoss, *, dim: int, temperature: float, regularisation: float = 0.0
) -> float:
    """Return ``E F(w)`` of a sample of ``exp(-k (F(w) + (m/2)|w|^2))`` on the ball.

    ``k = 1/temperature``. The norm has a density proportional to ``r^{d-1} exp(-k a r - k (b + m)
    r^2/2)`` on ``[0, R]``, so the mean is a ratio of one-dimensional integrals.
    """
    slope = loss.slope / temperature
    curvature = (loss.curvature + regularisation) / temperature
    root = slope + math.sqrt(slope**2 + 4.0 * curvature * (dim - 1.0))
    mode = min(loss.radius, 2.0 * (dim - 1.0) / root) if root > 0.0 else loss.radius
    bend = curvature + ((dim - 1.0) / mode**2 if mode > 0.0 else slope**2)
    width = 1.0 / math.sqrt(bend) if bend > 0.0 else loss.radius

    def log_density(norm: float) -> float:
        return float(special.xlogy(dim - 1.0, norm)) - (slope + 0.5 * curvature * norm) * norm

    highest = log_density(mode)
    ends = [mode + side * width for side in (-8.0, -2.0, 0.0, 2.0, 8.0, 32.0)]
    ends = [0.0, *(end for end in ends if 0.0 < end < loss.radius), loss.radius]

    def integral(power: int) -> float:
        def integrand(norm: float) -> float:
            return float(norm**power * math.exp(log_density(norm) - highest))

        pieces = (integrate.quad(integrand, *piece, epsrel=1e-11)[0] for piece in pairwise(ends))
        return math.fsum(pieces)

    total = integral(0)
    return loss.expected(lambda power: integral(power) / total)


@checked
def noisy_descent_on_squares(
    loss: RadialLoss,
    *,
    dim: int,
    noise_std: float,
    step_sizes: npt.NDArray[np.float64],
    weights: npt.NDArray[np.float64],
) -> float | None:
    """Return ``E F(v)`` of an average ``v = sum_t a_t w_t`` of noisy descent on ``(b/2)|w|^2``.

    ``w_{t+1} = Proj(w_t - eta_t (b w_t + sigma z_t))``, ``z_t ~ N(0, I)``, ``w_1 = 0``. Without a
    projection ``E|v|^2 = d sigma^2 sum_s (eta_s c_s)^2`` with ``c_s = sum_{t > s} a_t p_{s+1} ..
    p_{t-1}``, ``p_t = 1 - b eta_t``. Projections in the first ``K`` steps change ``v`` by a term of
    bounded norm; later ones have probability below 1e-9 in total. Derivation: :ref:`Descent,
    Theorem 11 <theory-descent-11>`.

    The slope of the loss must be 0. ``noise_std`` is ``sigma``, ``step_sizes`` are ``eta_1 ..
    eta_T`` and ``weights`` are ``a_1 .. a_{T+1}``. The result is the exact part of the noise after
    step ``K`` plus half of the bound for the first ``K`` steps; None if this half exceeds a
    thousandth.

    Examples
    --------
    >>> sizes, last = np.array([0.5, 0.5]), np.array([0.0, 0.0, 1.0])
    >>> squares = RadialLoss(0.0, 1.0)
    >>> noisy_descent_on_squares(squares, dim=2, noise_std=0.08, step_sizes=sizes, weights=last)
    0.002
    """
    if loss.slope != 0.0:
        raise ValueError(f"slope must be 0 for a linear recursion, got {shown(loss.slope)}")
    if noise_std == 0.0:
        return 0.0
    decay = 1.0 - loss.curvature * step_sizes  # p_t
    steps = len(step_sizes)
    coefficients, variance = np.empty(steps), np.empty(steps)  # c_1 .. c_T, s_2^2 .. s_{T+1}^2
    coefficient, current = 0.0, 0.0
    for s in reversed(range(steps)):
        coefficient = weights[s + 1] + (decay[s + 1] * coefficient if s + 1 < steps else 0.0)
        coefficients[s] = coefficient
    for t in range(steps):
        variance[t] = current = decay[t] ** 2 * current + (step_sizes[t] * noise_std) ** 2
    projected = special.gammaincc(0.5 * dim, 0.5 * loss.radius**2 / np.maximum(variance, 1e-300))
    from_step = np.cumsum(projected[::-1])[::-1]  # bounds P(projection in step t or later)
    early = int(np.sum(from_step > _NEGLECTED))
    noise = dim * noise_std**2 * float(np.sum((step_sizes * coefficients)[early:] ** 2))
    norms = np.minimum(loss.radius, np.sqrt(dim * variance[:early]))  # r_2 .. r_{K+1}
    factors = np.append(np.abs(weights[1:early]), np.abs(coefficients[early - 1 : early]))
    unknown = 0.5 * float(factors @ norms) ** 2
    return 0.5 * loss.curvature * (noise + unknown) if unknown <= _RESOLUTION * noise else None

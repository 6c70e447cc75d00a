"""Laws at finite size: expected excess risks that are computed, where theorems only bound them.

Three hard families have all their records at the centre of a ball, and with them the minimiser.
Their risk is ``F(w) = a |w| + (b/2) |w|^2``, so a release whose norm has a known law has the
expected excess risk ``a E|w| + (b/2) E|w|^2``.
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

_LATE = 1e-9  # chance of a projection that is left out of account
_RESOLUTION = 1e-3  # of a law: what is not known of it is a smaller part

Moment = Callable[[int], float]


class RadialLoss(NamedTuple):
    """``F(w) = slope |w| + (curvature/2) |w|^2`` over ``|w| <= radius``, of minimum 0.

    The families ``distance``, ``regularised_distance`` of modulus ``m`` and ``squared_distance``
    have ``(1, 0)``, ``(1, m)`` and ``(0, 1)`` over the unit ball.
    """

    slope: float
    curvature: float
    radius: float = 1.0

    def expected(self, moment: Moment) -> float:
        """``slope E|w| + (curvature/2) E|w|^2``, given ``power -> E|w|^power``."""
        return self.slope * moment(1) + 0.5 * self.curvature * moment(2)


@checked
def gaussian_perturbation(loss: RadialLoss, *, dim: int, scale: float) -> float:
    """``E F(Proj(z))``, ``z ~ N(0, sigma^2 I)``: output perturbation, the minimiser at 0.

    The release is the projected noise, ``|w| = min(|z|, R)``. ``|z|^2/(2 sigma^2)`` has the law
    ``Gamma(d/2)``, and with ``u = R^2/(2 sigma^2)`` and the regularised incomplete gamma functions
    ``P`` and ``Q``::

        E|w|^k = (2 sigma^2)^{k/2} (Gamma((d + k)/2)/Gamma(d/2)) P((d + k)/2, u) + R^k Q(d/2, u).
    """
    if scale == 0.0:
        return 0.0
    half = 0.5 * loss.radius**2 / scale**2
    return loss.expected(_capped(0.5 * dim, 0.5, math.sqrt(2.0) * scale, half, loss.radius))


@checked
def norm_laplace_perturbation(loss: RadialLoss, *, dim: int, scale: float) -> float:
    """``E F(Proj(z))``, the density of ``z`` proportional to ``exp(-|z|/beta)``.

    As :func:`gaussian_perturbation`, where ``|z|/beta`` has the law ``Gamma(d)``::

        E|w|^k = beta^k (Gamma(d + k)/Gamma(d)) P(d + k, R/beta) + R^k Q(d, R/beta).
    """
    if scale == 0.0:
        return 0.0
    return loss.expected(_capped(float(dim), 1.0, scale, loss.radius / scale, loss.radius))


def _capped(shape: float, root: float, unit: float, end: float, radius: float) -> Moment:
    """Of ``min(unit U^root, radius)``, ``U ~ Gamma(shape)``; ``end`` is where ``U`` is cut."""
    beyond = float(special.gammaincc(shape, end))

    def moment(power: int) -> float:
        raised = shape + root * power
        growth = math.exp(special.gammaln(raised) - special.gammaln(shape))
        within = unit**power * growth * float(special.gammainc(raised, end))
        return within + (radius**power * beyond if beyond > 0.0 else 0.0)

    return moment


@checked
def gibbs_draw(
    loss: RadialLoss, *, dim: int, temperature: float, regularisation: float = 0.0
) -> float:
    """``E F(w)`` of a draw from ``exp(-k (F(w) + (m/2)|w|^2))`` on the ball, ``k = 1/temperature``.

    The norm has a density proportional to ``r^{d-1} exp(-k a r - k (b + m) r^2/2)`` on ``[0, R]``,
    and both integrals of the mean are of one dimension.
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
        def weighed(norm: float) -> float:
            return float(norm**power * math.exp(log_density(norm) - highest))

        pieces = (integrate.quad(weighed, *piece, epsrel=1e-11)[0] for piece in pairwise(ends))
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
    """``E F(v)``, ``v = sum_t a_t w_t`` of ``w_{t+1} = Proj(w_t - eta_t (b w_t + sigma z_t))``.

    From the minimiser, ``w_1 = 0``, with ``F(w) = (b/2)|w|^2`` and ``z_t ~ N(0, I)``, ``t = 1..T``.

    *Without a projection* it is a linear recursion of Gaussians. With ``p_t = 1 - b eta_t`` and
    ``c_s = sum_{t > s} a_t p_{s+1} .. p_{t-1}``, from behind ``c_s = a_{s+1} + p_{s+1} c_{s+1}``,
    the output is ``v = -sum_s eta_s c_s sigma z_s``, so ``E|v|^2 = d sigma^2 sum_s (eta_s c_s)^2``.

    *Projections that take place early* hardly matter. If none takes place after step ``K``, then
    ``v = A - sum_{s > K} eta_s c_s sigma z_s``, where ``A = sum_{t <= K} a_t w_t + c_K w_{K+1}``
    depends on the first ``K`` noises alone, and ``E|A|^2 <= (sum_{t <= K} |a_t| r_t + |c_K|
    r_{K+1})^2``, ``r_t^2 = min(R^2, d s_t^2)`` a bound of ``E|w_t|^2``. ``|w_t|`` has a law below
    ``s_t chi_d``, ``s_{t+1}^2 = p_t^2 s_t^2 + eta_t^2 sigma^2``, so step ``t`` is projected with a
    probability of ``Q(d/2, R^2/(2 s_{t+1}^2))`` at most; ``K`` is the first step after which these
    sum to less than 1e-9.

    The loss has slope 0; ``noise_std`` is ``sigma``, ``step_sizes`` are ``eta_1 .. eta_T`` and
    ``weights`` ``a_1 .. a_{T+1}``. Returned is what the noises after ``K`` cost, and half of what
    ``A`` may cost; None where that half is more than a thousandth.

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
    kept = 1.0 - loss.curvature * step_sizes
    steps = len(step_sizes)
    carried, variance = np.empty(steps), np.empty(steps)  # c_1 .. c_T and s_2^2 .. s_{T+1}^2
    later, spread = 0.0, 0.0
    for s in reversed(range(steps)):
        carried[s] = later = weights[s + 1] + (kept[s + 1] * later if s + 1 < steps else 0.0)
    for t in range(steps):
        variance[t] = spread = kept[t] ** 2 * spread + (step_sizes[t] * noise_std) ** 2
    chances = special.gammaincc(0.5 * dim, 0.5 * loss.radius**2 / np.maximum(variance, 1e-300))
    left_over = np.cumsum(chances[::-1])[::-1]  # of a projection in step t or later
    early = int(np.sum(left_over > _LATE))
    noise = dim * noise_std**2 * float(np.sum((step_sizes * carried)[early:] ** 2))
    norms = np.minimum(loss.radius, np.sqrt(dim * variance[:early]))  # r_2 .. r_{K+1}
    moved = np.append(np.abs(weights[1:early]), np.abs(carried[early - 1 : early])) @ norms
    unknown = 0.5 * float(moved) ** 2
    return 0.5 * loss.curvature * (noise + unknown) if unknown <= _RESOLUTION * noise else None

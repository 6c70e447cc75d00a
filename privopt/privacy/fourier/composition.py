"""Sums of independent lattice losses by the Fourier transform, with every error bounded.

The distribution of the sum is computed under an exponential tilt ``e^(lambda S)``, centred where
it is asked for, so that rounding is small beside the *answer* and not beside one: a delta of
1e-15 is as easy as one of 1e-5. Notation: ``S`` the summed loss, ``P_lambda`` its tilted law,
``K = ln E e^(lambda (S - centre))``; then

    delta(eps) = e^K sum_{s > eps} (1 - e^(eps - s)) e^(-lambda (s - centre)) P_lambda(S = s).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from privopt.privacy.fourier.lattice import LatticeLoss
from privopt.privacy.fourier.window import Window
from privopt.privacy.pairs.pair import Array

__all__ = ["Composition", "compose"]

Complex = npt.NDArray[np.complex128]

_U = 2.0**-53  # unit roundoff of float64
_STEEP = 30.0  # no sum is kept whose weight would exceed e^30
_FAR = 600.0  # exponentials of minus this are close to underflow
_HOPELESS = 1e200  # an error beside which nothing counts
_BLOCK = 300.0  # exponentials of differences this small neither overflow nor lose digits


@dataclass(frozen=True)
class Composition:
    """The curve ``delta(eps)`` of a composed lattice loss, in units of ``e^K``.

    Attributes
    ----------
    sums : ndarray
        Consecutive values of ``S``.
    mass, image : ndarray
        ``sum_{j >= k} v_j`` and ``sum_{j >= k} v_j e^(s_k - s_j)`` with
        ``v_j = e^(-lambda (s_j - centre)) P_lambda(S = s_j)``.
    error : float
        Of ``delta e^-K`` at ``eps = centre``; elsewhere ``e^(-lambda (eps - centre))`` times as
        much.
    log_scale : float
        ``K``.
    infinite : float
        Probability of infinite loss.
    """

    sums: Array
    mass: Array
    image: Array
    error: float
    log_scale: float
    infinite: float
    centre: float
    tilt: float

    def delta(self, epsilon: float, sign: float) -> float:
        """``delta(epsilon)``, with the error added (``sign = 1``) or taken away (``-1``).

        Below the sums nothing is known from above under a tilt: what was left out there weighs
        more than all that was kept.
        """
        if epsilon < self.sums[0] and self.tilt > 0.0 and sign > 0.0:
            return 1.0
        fall = min(-self.tilt * (epsilon - self.centre), _FAR)
        if fall < -_FAR:  # weights underflow, and K may be as large
            log_delta = self.log_scale + fall + math.log1p(self.error) if sign > 0.0 else -math.inf
            return self._with_infinite(log_delta, sign)
        k = np.searchsorted(self.sums, epsilon, side="right")
        finite = float(self._curve(np.array([k]), np.array([epsilon]))[0])
        scaled = max(0.0, finite + sign * self.error * math.exp(fall))
        log_delta = self.log_scale + math.log(scaled) if scaled > 0.0 else -math.inf
        return self._with_infinite(log_delta, sign)

    def _with_infinite(self, log_delta: float, sign: float) -> float:
        smallest = math.ulp(0.0) if sign > 0.0 else 0.0  # from above nothing underflows
        return min(1.0, max(math.exp(min(log_delta, 0.0)), smallest) + self.infinite)

    def epsilon(self, delta: float, sign: float) -> float:
        """Where the curve, error included, passes ``delta``; within the window, or an end of it.

        Between two sums the curve is ``mass - e^(eps - s_k) image``, ``s_k`` the upper one, and
        the error no larger than at the lower one.
        """
        if delta <= self.infinite:
            return math.inf
        log_target = math.log(delta - self.infinite) - self.log_scale
        if log_target < -_FAR:  # nothing can be compared with it
            return sign * math.inf
        target = math.exp(min(log_target, 700.0))
        error = sign * self.error * np.exp(-self.tilt * (self.sums - self.centre))
        curve = self._curve(np.arange(1, self.sums.size + 1), self.sums)
        enough = curve + error <= target
        # The curve decreases; the last sum that is not enough decides.
        failing = np.flatnonzero(~enough)
        if failing.size == 0:
            return float(self.sums[0]) if sign > 0.0 else self._near_the_centre(delta)
        k = int(failing[-1]) + 1
        if k >= self.sums.size:
            return math.inf if sign > 0.0 else float(self.sums[-1])
        ratio = (self.mass[k] + error[k - 1] - target) / max(self.image[k], 1e-300)
        if not ratio > 0.0:
            return float(self.sums[k - 1])
        between = self.sums[k] + math.log(ratio)
        return float(min(max(between, self.sums[k - 1]), self.sums[k]))

    def _near_the_centre(self, delta: float) -> float:
        """A lower bound where the sums are farther apart than the tilt reaches."""
        if self.tilt > 0.0:
            for steps in (0.1, 0.3, 1.0, 3.0, 10.0):
                epsilon = self.centre - steps / self.tilt
                if self.delta(epsilon, -1.0) > delta:
                    return epsilon
        return -math.inf

    def _curve(self, k: npt.NDArray[np.int64], epsilons: Array) -> Array:
        """``sum_{j >= k} v_j (1 - e^(eps - s_j))`` for ``eps <= s_k``."""
        mass, image = np.append(self.mass, 0.0)[k], np.append(self.image, 0.0)[k]
        sums = np.append(self.sums, math.inf)[k]
        return np.asarray(mass - np.exp(np.minimum(epsilons - sums, 0.0)) * image)


def compose(
    parts: Sequence[tuple[LatticeLoss, int]], window: Window, size: int, pessimistic: bool
) -> Composition:
    """The ``T_j``-fold compositions of lattice losses with one spacing, taken together.

    Errors charged (``pessimistic``: what raises the curve, else what lowers it), relative to
    ``e^K``:

    wrap-around
        ``P_lambda(S > top)`` and ``P_lambda(S < bottom)`` by Chernoff's inequality. From above,
        what left through the top is added with its largest weight; what came in through the
        bottom only raises the curve, which is read at sums that were kept, or without a tilt.
        From below, both may have been counted and are taken away.
    rounding of the transform
        With ``eta = 8 u log2 N`` for one transform and ``N`` points, the euclidean error of the
        composed law is at most ``T eta |p| e^(T eta sqrt(N) |p|) + (8 T u + eta) |p^T|``, felt
        through the euclidean norm of the weights.
    rounding of the tilt
        A relative error of every tilted probability, to the power ``T``.
    """
    spacing, tilt = parts[0][0].spacing, window.tilt
    log_scale, log_finite, growth, total = 0.0, 0.0, 0.0, 0
    transform_error = transform_growth = 0.0
    spectrum = np.ones(size // 2 + 1, dtype=np.complex128)
    offset = math.fsum(part.offset * count for part, count in parts)
    up = down = 0.0
    for part, count in parts:
        losses = part.losses
        with np.errstate(divide="ignore"):
            exponent = np.log(part.mass) + tilt * losses
        largest = float(exponent.max())
        weight = np.exp(exponent - largest)
        norm = float(weight.sum())
        weight /= norm
        log_norm = largest + math.log(norm)
        log_scale += count * log_norm
        log_finite += count * math.log1p(-min(part.infinite, 1.0 - _U))
        used = weight > 1e-18 / count
        steepest = float(np.abs(exponent[used]).max()) + abs(tilt) * float(
            np.abs(losses[used]).max()
        )
        growth += count * _U * (16.0 + 4.0 * steepest + abs(log_norm) + math.log2(losses.size))
        up += count * _log_moment(weight, losses, window.above_rate)
        down += count * _log_moment(weight, losses, -window.below_rate)
        folded = np.bincount(part.points % size, weight, size)
        eta = 8 * _U * math.log2(size)
        length = float(np.sqrt(folded @ folded))
        transform_error += count * eta * length
        transform_growth += count * eta * math.sqrt(size) * length
        total += count
        spectrum = spectrum * _power(np.fft.rfft(folded), count)
    law = np.fft.irfft(spectrum, size)
    start = math.ceil(window.bottom / spacing - offset)
    law = np.roll(law, -(start % size))
    sums: Array = np.asarray((offset + start + np.arange(size)) * spacing, dtype=np.float64)
    if pessimistic:
        law = np.maximum(law, 0.0)
    length = float(np.sqrt(law @ law))
    law_error = transform_error * math.exp(min(transform_growth, _BLOCK))
    law_error += (8 * total * _U + 8 * _U * math.log2(size)) * length

    # Far below the centre weights overflow, and nobody asks.
    reach = _STEEP / tilt if tilt > 0.0 else math.inf
    first = min(int(np.searchsorted(sums, window.centre - reach)), size - 1)
    sums, law = sums[first:], law[first:]
    weighted = law * np.exp(-tilt * (sums - window.centre))
    mass, image = np.cumsum(weighted[::-1])[::-1], _discounted(weighted, sums)

    # Weights at eps are at most e^(-tilt (eps - centre)), and probabilities sum to one.
    aliased = math.exp(min(0.0, up - window.above_rate * (offset + start + size) * spacing))
    if not pessimistic:
        aliased += math.exp(min(0.0, down + window.below_rate * (offset + start) * spacing))
    rounding = math.expm1(growth) if growth < 1.0 else _HOPELESS
    error = law_error * _weight_length(tilt, spacing, size) + aliased + rounding
    error += 8 * _U * (size + _BLOCK)
    return Composition(
        sums,
        mass,
        image,
        error,
        log_scale - tilt * window.centre,
        -math.expm1(log_finite) * (1.0 + (8.0 if pessimistic else -8.0) * _U),
        window.centre,
        tilt,
    )


def _discounted(weighted: Array, sums: Array) -> Array:
    """``sum_{j >= k} v_j e^(s_k - s_j)``, block by block from above."""
    image = np.empty_like(weighted)
    length = max(1, int(_BLOCK / max(float(sums[-1] - sums[0]), _BLOCK) * sums.size))
    carried, above = 0.0, math.inf
    for stop in range(sums.size, 0, -length):
        start = max(0, stop - length)
        factor = np.exp(sums[start:stop] - sums[start])
        inside = np.cumsum((weighted[start:stop] / factor)[::-1])[::-1]
        image[start:stop] = factor * (inside + carried * math.exp(sums[start] - above))
        carried, above = float(image[start]), float(sums[start])
    return image


def _log_moment(weight: Array, losses: Array, rate: float) -> float:
    """``ln E_lambda e^(rate L)``."""
    with np.errstate(divide="ignore"):
        exponent = np.log(weight) + rate * losses
    largest = float(exponent.max())
    return largest + math.log(float(np.exp(exponent - largest).sum()))


def _power(base: Complex, exponent: int) -> Complex:
    """By repeated squaring: ``2 log2(exponent)`` products."""
    result, square = np.ones_like(base), base
    while exponent:
        if exponent & 1:
            result = result * square
        exponent >>= 1
        if exponent:
            square = square * square
    return result


def _weight_length(tilt: float, spacing: float, size: int) -> float:
    """Euclidean norm of ``(1 - e^-y) e^(-tilt y)`` over lattice points ``y > 0``."""
    if tilt <= 0.0:
        return math.sqrt(size)
    integral = 1.0 / (tilt * (2.0 * tilt + 1.0) * (2.0 * tilt + 2.0))
    return math.sqrt(min(float(size), integral / spacing + 1.0))

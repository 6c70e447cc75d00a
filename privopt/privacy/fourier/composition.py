"""Sums of independent lattice losses by the Fourier transform, with certified errors.

The distribution of the sum is computed under an exponential tilt ``e^(lambda S)``, centred at the
requested point. Rounding errors are then small relative to the *result* and not to one: a delta of
1e-15 is as accurate as one of 1e-5. Let ``S`` be the summed loss, ``P_lambda`` its tilted law, and
``K = ln E e^(lambda (S - centre))``. Then

    delta(eps) = e^K sum_{s > eps} (1 - e^(eps - s)) e^(-lambda (s - centre)) P_lambda(S = s).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from privopt.privacy.fourier.lattice import LatticeLoss
from privopt.privacy.fourier.transform import (
    LEFT_OUT,
    Characteristic,
    DenseTails,
    Frequencies,
    Lattice,
    ModalTails,
    Points,
    Tails,
    characteristics,
    count_relevant,
    multiply_powers,
)
from privopt.privacy.fourier.window import Window
from privopt.privacy.numbers import Array, U, dot

_MAX_LOG_WEIGHT = 30.0  # sums with a weight above e^30 are omitted
_MAX_EXPONENT = 600.0  # exponentials of minus this are close to underflow
_MAX_ERROR = 1e200  # stands for an infinite error
_RATES = np.array([0.5, 0.7, 1.0, 1.4])  # candidates, relative to the rates of the window
_FEW_POINTS = 2**12  # up to this size all values are computed
_POINTS_PER_MODE = 64  # with fewer frequencies per point, tails are computed from frequencies


@dataclass(frozen=True)
class Composition:
    """The curve ``delta(eps)`` of a composed lattice loss, in units of ``e^K``.

    Attributes
    ----------
    tails : Tails
        The masses beyond each sum ``s_k``: ``delta = mass_k - e^(eps - s_k) image_k`` for ``eps``
        between ``s_(k-1)`` and ``s_k``.
    error : float
        The error of ``delta e^-K`` at ``eps = centre``, without the rounding of ``tails``.
        Elsewhere it is ``e^(-lambda (eps - centre))`` times as large.
    log_scale : float
        ``K``.
    infinite : float
        Probability of infinite loss.
    size : int
        Points of the transform.
    """

    tails: Tails
    error: float
    log_scale: float
    infinite: float
    centre: float
    tilt: float
    size: int

    def delta(self, epsilon: float, sign: float) -> float:
        """Return ``delta(epsilon)``, with the error added (``sign = 1``) or subtracted (``-1``).

        Below the sums there is no upper bound under a tilt, because the weight of the truncated
        part exceeds that of the computed part.
        """
        lattice = self.tails.lattice
        if epsilon < lattice.sum_at(0) and self.tilt > 0.0 and sign > 0.0:
            return 1.0
        fall = min(-self.tilt * (epsilon - self.centre), _MAX_EXPONENT)
        if fall < -_MAX_EXPONENT:  # weights underflow, and K may be as large
            log_delta = self.log_scale + fall + math.log1p(self.error) if sign > 0.0 else -math.inf
            return self._with_infinite(log_delta, sign)
        finite = self._curve(lattice.first_above(epsilon), epsilon, sign)
        scaled = max(0.0, finite + sign * self.error * math.exp(fall))
        log_delta = self.log_scale + math.log(scaled) if scaled > 0.0 else -math.inf
        return self._with_infinite(log_delta, sign)

    def _with_infinite(self, log_delta: float, sign: float) -> float:
        smallest = math.ulp(0.0) if sign > 0.0 else 0.0  # upper bounds do not underflow
        return min(1.0, max(math.exp(min(log_delta, 0.0)), smallest) + self.infinite)

    def epsilon(self, delta: float, sign: float) -> float:
        """Return the epsilon at which the curve, error included, crosses ``delta``.

        Any sum at which the curve is proved to be below ``delta`` bounds epsilon from above. Any
        sum at which it is proved to exceed ``delta`` bounds it from below. The two need not be the
        only neighbouring ones. Between them the error is no larger than at the lower one. The
        result is within the window, or an end of it.
        """
        if delta <= self.infinite:
            return math.inf
        log_target = math.log(delta - self.infinite) - self.log_scale
        if log_target < -_MAX_EXPONENT:  # below the range of comparisons
            return sign * math.inf
        target, lattice = math.exp(min(log_target, 700.0)), self.tails.lattice

        def exceeds(k: int) -> bool:
            return self._curve(k + 1, lattice.sum_at(k), sign) + sign * self._error_at(k) > target

        k = _last(exceeds, lattice.first_above(self.centre), lattice.count) + 1
        if k == 0:
            return lattice.sum_at(0) if sign > 0.0 else self._near_the_centre(delta)
        if k == lattice.count:
            return math.inf if sign > 0.0 else lattice.sum_at(k - 1)
        mass, image, slack = self.tails.at(k)
        ratio = (mass + sign * (self._error_at(k - 1) + slack) - target) / max(image, 1e-300)
        low, high = lattice.sum_at(k - 1), lattice.sum_at(k)
        return min(max(high + math.log(ratio), low), high) if ratio > 0.0 else low

    def fall(self, epsilon: float) -> float:
        """Return about ``-d ln delta / d eps``; zero if unknown."""
        lattice = self.tails.lattice
        k = lattice.first_above(epsilon)
        mass, image, _ = self.tails.at(k)
        part = math.exp(min(epsilon - lattice.sum_at(k), 0.0)) * image
        return part / (mass - part) if 0.0 < part < mass else 0.0

    def log_error(self, epsilon: float) -> float:
        """Return the log of the error of ``delta(epsilon)``, without that of the lattice losses."""
        lattice = self.tails.lattice
        slack = self.tails.at(lattice.first_above(epsilon))[2]
        fall = -self.tilt * (epsilon - self.centre)
        error = np.logaddexp(math.log(self.error) + fall, math.log(slack + 1e-300))
        return self.log_scale + float(error)

    def _error_at(self, k: int) -> float:
        fall = -self.tilt * (self.tails.lattice.sum_at(k) - self.centre)
        return self.error * math.exp(min(max(fall, -_MAX_EXPONENT), _MAX_EXPONENT))

    def _near_the_centre(self, delta: float) -> float:
        """Return a lower bound for sums that are farther apart than the range of the tilt."""
        if self.tilt > 0.0:
            for steps in (0.1, 0.3, 1.0, 3.0, 10.0):
                epsilon = self.centre - steps / self.tilt
                if self.delta(epsilon, -1.0) > delta:
                    return epsilon
        return -math.inf

    def _curve(self, k: int, epsilon: float, sign: float) -> float:
        """Return ``sum_{j >= k} v_j (1 - e^(eps - s_j))`` for ``eps <= s_k``, error included."""
        mass, image, slack = self.tails.at(k)
        part = math.exp(min(epsilon - self.tails.lattice.sum_at(k), 0.0)) * image
        return mass - part + sign * slack


def compose(
    parts: Sequence[tuple[LatticeLoss, int]], window: Window, limit: int, pessimistic: bool
) -> Composition:
    """Return the composition of lattice losses with one spacing, each repeated ``T_j`` times.

    The transform has up to ``limit`` points. The following errors are included, relative to
    ``e^K`` unless stated otherwise; ``pessimistic`` selects errors that raise the curve, otherwise
    those that lower it.

    wrap-around
        ``P_lambda(S > top)`` and ``P_lambda(S < bottom)`` by Chernoff's inequality. For an upper
        bound, mass that left through the top is added with its largest weight. Mass that entered
        through the bottom only raises the curve, which is evaluated at computed sums or without a
        tilt. For a lower bound, both are subtracted.
    rounding of the transform
        ``Characteristic`` bounds the error of ``phi_j`` at each frequency and in euclidean norm.
        With ``V`` the product of all factors except the smallest, the error of the composed law is
        at most ``sum_j T_j V |error_j|``, multiplied by the euclidean norm of the weights.
    rounding of the tilt
        A relative error of every tilted probability, to the power ``T``. It is a relative error of
        delta, because all terms are non-negative, and part of ``K``.
    """
    spacing, tilt = parts[0][0].spacing, window.tilt
    offset = math.fsum(part.offset * count for part, count in parts)
    log_scale = log_finite = growth = 0.0
    up, down = np.zeros((2, _RATES.size))
    rates = _RATES * window.above_rate, _RATES * window.below_rate
    shift = 0
    tilted: list[tuple[Array, Points, int]] = []
    for part, count in parts:
        losses = part.losses
        with np.errstate(divide="ignore"):
            log_weight = np.log(part.mass) + tilt * losses
        largest = float(log_weight.max())
        weight = np.exp(log_weight - largest)
        norm = float(weight.sum())
        weight /= norm
        log_norm = largest + math.log(norm)
        log_scale += count * log_norm
        log_finite += count * math.log1p(-min(part.infinite, 1.0 - U))
        used = weight > 1e-18 / count
        steepest = float(np.abs(log_weight[used]).max()) + abs(tilt) * float(
            np.abs(losses[used]).max()
        )
        growth += count * U * (24.0 + 4.0 * steepest + abs(log_norm) + 2.0 * math.log2(losses.size))
        up += count * _log_moments(weight, losses, rates[0])
        down += count * _log_moments(weight, losses, -rates[1])
        median = int(part.points[np.searchsorted(np.cumsum(weight), 0.5)])
        shift += count * median
        tilted.append((weight, part.points - median, count))
    top = float(((up + window.needed) / rates[0]).min())
    bottom = float((-(down + window.needed) / rates[1]).max())
    start = math.floor(bottom / spacing - offset) - 1  # there may be an atom at the bottom
    size = _transform_size((top - bottom) / spacing + 4.0, limit)
    modes = count_relevant(tilted, size)
    if modes > size // 2:
        laws, centre = characteristics(tilted, size)
        shift += centre
    else:
        laws = [
            (Characteristic.of_first(weight, points, size, modes), count)
            for weight, points, count in tilted
        ]
    law, law_error = multiply_powers(laws, size)

    # Sums far below the centre are not needed, and their weights overflow.
    depth = _MAX_LOG_WEIGHT / tilt if tilt > 0.0 else math.inf
    whole = Lattice(offset + start, spacing, size)
    first = min(whole.first_above(window.centre - depth), size - 1)
    lattice = Lattice(offset + start + first, spacing, size - first)
    tails, length = _tails(law, start + first - shift, lattice, window)
    law_error += (8 * U + 8 * U * math.log2(size)) * length

    # Weights at eps are at most e^(-tilt (eps - centre)), and probabilities sum to one.
    aliased = math.exp(min(0.0, float((up - rates[0] * (offset + start + size) * spacing).min())))
    if not pessimistic:
        aliased += math.exp(min(0.0, float((down + rates[1] * (offset + start) * spacing).min())))
    error = law_error * _weight_length(tilt, spacing, size) + aliased
    error += size**2 * LEFT_OUT
    if growth > 0.5 or tilt * (window.centre - lattice.sum_at(0)) > 2.0 * _MAX_LOG_WEIGHT:
        error, growth = _MAX_ERROR, 0.0
    # A relative error of non-negative terms; the factor 2 covers the second order.
    relative = math.log1p((2.0 if pessimistic else -2.0) * min(growth, 0.49))
    return Composition(
        tails,
        min(error, _MAX_ERROR),
        log_scale - tilt * window.centre + relative,
        -math.expm1(log_finite) * (1.0 + (8.0 if pessimistic else -8.0) * U),
        window.centre,
        tilt,
        size,
    )


def _transform_size(points: float, limit: int) -> int:
    """Return the smallest sufficient size of ``2^k``, ``5/8 2^k``, ``3/4 2^k``, at least 16."""
    points = min(points, limit)
    power = 2 ** max(4, math.ceil(math.log2(points)))
    return next(size for size in (power * 5 // 8, power * 3 // 4, power) if size >= points)


def _tails(law: Frequencies, start: int, lattice: Lattice, window: Window) -> tuple[Tails, float]:
    """Return the tails from the sum number ``start`` on, and the euclidean norm of the law."""
    if max(law.modes.size * _POINTS_PER_MODE, _FEW_POINTS) < law.size:
        return ModalTails(law, start, lattice, window.tilt, window.centre), law.length
    spectrum = np.zeros(law.size // 2 + 1, dtype=np.complex128)
    spectrum[law.modes] = law.values
    values = np.maximum(np.fft.irfft(spectrum, law.size), 0.0)  # probabilities, and so are closer
    selected = np.roll(values, -(start % law.size))[: lattice.count]
    tails = DenseTails.of(selected, lattice, window.tilt, window.centre)
    return tails, math.sqrt(dot(values, values))


def _last(holds: Callable[[int], bool], guess: int, count: int) -> int:
    """Return the last ``k`` in ``[0, count)`` with ``holds(k)``, or -1.

    ``holds`` must become false. The search gallops from a guess and then bisects. ``holds`` is
    false at the point after the result.
    """
    low, high, step = guess, min(guess + 1, count), 1
    if guess < count and holds(guess):
        while high < count and holds(high):
            low, step = high, 2 * step
            high = min(high + step, count)
    else:
        low, high = guess - 1, guess
        while low >= 0 and not holds(low):
            high, step = low, 2 * step
            low = max(low - step, -1)
    while high - low > 1:
        middle = (low + high) // 2
        if holds(middle):
            low = middle
        else:
            high = middle
    return low


def _log_moments(weight: Array, losses: Array, rates: Array) -> Array:
    """Return ``ln E_lambda e^(rate L)``."""
    with np.errstate(divide="ignore"):
        exponent = np.log(weight) + rates[:, None] * losses
    largest = exponent.max(axis=1)
    return np.asarray(largest + np.log(np.exp(exponent - largest[:, None]).sum(axis=1)))


def _weight_length(tilt: float, spacing: float, size: int) -> float:
    """Return the euclidean norm of ``(1 - e^-y) e^(-tilt y)`` over lattice points ``y > 0``."""
    if tilt <= 0.0:
        return math.sqrt(size)
    integral = 1.0 / (tilt * (2.0 * tilt + 1.0) * (2.0 * tilt + 2.0))
    return math.sqrt(min(float(size), integral / spacing + 1.0))

"""Discretisation of privacy losses on a lattice, from above and from below.

``discretise_above`` replaces a pair by one that dominates it, ``discretise_below`` by one that it
dominates. Both have losses on a lattice of spacing ``h``. Either one changes the variance of the
loss by order ``h^2`` and has no error of order ``h``, so that ``T`` compositions change epsilon by
order ``T h^2``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from privopt.privacy.numbers import Array, U
from privopt.privacy.pairs import Bins

_SNAP = 1e-6  # of a spacing: losses may be lowered by it
_SLACK = 1e-9  # relative, of shares: far above their rounding errors
_HALF = 0.499  # largest share of a bin that moves to either side
_SWEEPS = 30  # iterations of the remaining fractions
_MERGERS = 8
_NEGLIGIBLE = 1e-4  # tilted mass of an end, relative to the spacing and the tilt
_NEAR = 2.5  # spacings between losses that may be merged


@dataclass(frozen=True)
class LatticeLoss:
    """Mass under ``P`` of the losses ``(offset + points) spacing``, and of infinite loss.

    ``points`` are integers, ``offset`` is any number.
    """

    mass: Array
    points: npt.NDArray[np.int64]
    offset: float
    spacing: float
    infinite: float

    @property
    def losses(self) -> Array:
        """The losses, exact for a spacing with few significant bits."""
        return np.asarray((self.points + self.offset) * self.spacing, dtype=np.float64)


def discretise_above(
    bins: Bins, edges: npt.NDArray[np.int64], spacing: float, infinite: float = 0.0
) -> LatticeLoss:
    """Return a dominating loss: the mass of each bin is split between its two ends.

    The split preserves ``P`` and ``Q``. The curve ``gamma -> H_gamma`` becomes piecewise linear,
    with chords between lattice points. It is nowhere below the true curve, for any order. Mass
    above the lattice becomes infinite loss. Mass below it moves up to the first point.
    Probabilities are taken at the unfavourable end of their errors. Source: Doroshenko, Ghazi,
    Kamath, Kumar and Manurangsi 2022 (arXiv:2207.04380).

    The ``bins`` are between the increasing edges ``edges * spacing``. ``infinite`` is the mass of
    infinite loss.
    """
    loss, error = _bin_losses(bins, edges, spacing)
    width = np.diff(edges) * spacing
    mass = bins.p[1:-1] + bins.p_error[1:-1]
    rise = np.minimum(loss + error - edges[:-1] * spacing, width)
    upper_share = mass * (np.expm1(-rise) / np.expm1(-width))
    lattice = np.zeros(edges.size)
    lattice[1:] += upper_share
    lattice[:-1] += mass - upper_share
    lattice[0] += bins.p[0] + bins.p_error[0]
    above_all = float(bins.p[-1] + bins.p_error[-1])
    return LatticeLoss(lattice, edges, 0.0, spacing, (infinite + above_all) * (1.0 + 8 * U))


def discretise_below(
    bins: Bins,
    edges: Array,
    spacing: float,
    infinite: float = 0.0,
    tilt: float = 0.0,
    offset: float = 0.0,
) -> LatticeLoss:
    """Return a dominated loss: every bin moves to its lattice point, with a share of the next bin.

    Merging outcomes is post-processing, and so is splitting one at random first. If the loss of a
    bin is below its point, a share of the next bin above joins it so that
    ``sum P - e^point sum Q`` vanishes. If it is above, a share of the next bin below joins it. For
    bins of one spacing around the points these shares are small, and the loss keeps its mean. If
    the neighbour has too little mass, the bin joins it completely, or its point is lowered by one.
    Mass beyond the bins is dropped.

    Any ``tilt`` is valid; the tilt of the requested point is best. ``offset`` is the distance of
    the lattice points from the multiples of ``spacing``, in units of it. The other arguments are
    those of ``discretise_above``.
    """
    loss, error = _bin_losses(bins, edges, spacing)
    loss = np.maximum(loss - error, edges[:-1] * spacing) / spacing
    mass = np.maximum(bins.p[1:-1] - bins.p_error[1:-1], 0.0)
    loss, mass = loss[mass > 0.0], mass[mass > 0.0]
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        for _ in range(_MERGERS):
            offset = _choose_offset(offset, loss, mass, tilt, spacing)
            short = _select_merges(loss - offset, mass, tilt, spacing)
            if not short.any():
                break
            loss, mass = _merge_bins(loss, mass, short, spacing)
        loss -= offset
        points = _nearest_points(loss)
        lifted, _ = _balancing_shares(loss, mass, points, spacing)
        rate, distance = max(tilt, 1e-3) * spacing, np.append(loss[1:], math.inf) - points
        cost = lifted * np.append(mass[1:], 0.0) * np.expm1(rate * distance)
        fits = (lifted <= _HALF) & (cost <= -np.expm1(-rate) * mass)
        points = np.where((points > loss) & ~fits, np.floor(loss), points)
        lifted, pulled = _balancing_shares(loss, mass, points, spacing)
    return LatticeLoss(
        _balance(mass, lifted, np.minimum(pulled, _HALF)),
        points.astype(np.int64),
        offset,
        spacing,
        infinite * (1.0 - 8 * U),
    )


def _nearest_points(loss: Array) -> Array:
    """Return lattice points: the first balanced from above, the last balanced from below."""
    points = np.rint(loss)
    points[0] = math.ceil(loss[0] - _SNAP)
    points[-1] = math.floor(loss[-1])
    return points


def _choose_offset(offset: float, loss: Array, mass: Array, tilt: float, spacing: float) -> float:
    """Return the offset, moved so that the bin with the largest deficit has none.

    A bin slightly below its point with too little mass above would have to be lowered by one. A bin
    above its point with too little mass below would be lowered by its distance. For all others the
    move costs the square of the spacing.
    """
    weight = _tilted(loss, mass, tilt, spacing)

    def lost(place: float) -> tuple[Array, Array]:
        points = np.rint(loss - place)
        gap = loss - place - points
        lifted, pulled = _balancing_shares(loss - place, mass, points, spacing)
        fallen = np.where(lifted > _HALF, 1.0 + gap, np.where(pulled > _HALF, gap, 0.0))
        return weight * fallen, gap

    before, gap = lost(offset)
    move = float(gap[np.argmax(before)])
    price = 0.5 * abs(move) * spacing * (abs(tilt) + 1.0)
    gain = float(before.sum()) - price
    if gain > 0.0 and float(lost(offset + move)[0].sum()) < gain:
        offset += move
    offset -= 16 * U * (1.0 + float(np.abs(loss).max()))
    return offset - math.floor(offset)


def _tilted(loss: Array, mass: Array, tilt: float, spacing: float) -> Array:
    """Return the masses under a tilt, normalised."""
    exponent = np.log(mass) + tilt * spacing * loss
    weight = np.exp(exponent - exponent.max())
    return np.asarray(weight / weight.sum())


def _select_merges(loss: Array, mass: Array, tilt: float, spacing: float) -> npt.NDArray[np.bool_]:
    """Return a mask of the gaps between bins to be merged, because one cannot balance the other.

    Bins merge in pairs, but the first and the last bin, often atoms, with as many as necessary. If
    they have little tilted mass, they are not balanced: ``T`` times this mass times the spacing is
    small relative to the other cost of the lattice, about ``T h^2 (tilt + 1) / 8``.
    """
    lifted, pulled = _balancing_shares(loss, mass, _nearest_points(loss), spacing)
    least = _NEGLIGIBLE * spacing * (abs(tilt) + 1.0)
    matters = _tilted(loss, mass, tilt, spacing)[[0, -1]] > least
    lifted[0], pulled[-1] = np.where(matters, [lifted[0], pulled[-1]], 0.0)
    near = np.diff(loss) < min(_NEAR, 1.0 / spacing)
    short = near & ((lifted[:-1] > _HALF) | (pulled[1:] > _HALF))
    place, begins = np.arange(short.size), short & ~np.append(False, short[:-1])
    short &= (place - np.maximum.accumulate(np.where(begins, place, 0))) % 2 == 0
    if lifted[0] > _HALF:
        short[: _count_needed(loss, mass, spacing)] = True
    if pulled[-1] > _HALF:
        short[short.size - _count_needed(-loss[::-1], mass[::-1], -spacing) :] = True
    return short


def _count_needed(loss: Array, mass: Array, spacing: float) -> int:
    """Return the number of the next bins that are needed to balance the first."""
    close = np.abs(loss - loss[0]) <= 1.0 / abs(spacing)
    lack = np.expm1((math.ceil(loss[0] - _SNAP) - loss[close]) * spacing) * mass[close]
    return max(0, int(np.argmax(np.cumsum(lack) * spacing <= 0.0)) - 1)


def _balancing_shares(
    loss: Array, mass: Array, points: Array, spacing: float
) -> tuple[Array, Array]:
    """Return the share of the next bin above, and of the next below, that balances each bin.

    One of the two is zero. It is infinite if no share suffices.
    """
    own = -np.expm1((points - loss) * spacing) * mass  # P - e^point Q
    gain_above = -np.expm1((points[:-1] - loss[1:]) * spacing) * mass[1:]
    gain_below = np.expm1((points[1:] - loss[:-1]) * spacing) * mass[:-1]
    lifted = -own / np.append(np.maximum(gain_above, 0.0), 0.0)
    pulled = own / np.append(0.0, np.maximum(gain_below, 0.0))
    return np.where(own < 0.0, lifted, 0.0), np.where(own > 0.0, pulled, 0.0)


def _merge_bins(
    loss: Array, mass: Array, joined: npt.NDArray[np.bool_], spacing: float
) -> tuple[Array, Array]:
    """Return the losses and masses after merging the neighbouring bins selected by ``joined``."""
    first = np.flatnonzero(np.append(True, ~joined))
    base = np.repeat(loss[first], np.diff(first, append=loss.size))
    whole = np.add.reduceat(mass, first)
    gain = np.add.reduceat(mass * np.expm1((base - loss) * spacing), first) / whole
    other = np.add.reduceat(mass * np.exp((base - loss) * spacing), first) / whole
    log = np.where(gain > -0.5, np.log1p(np.maximum(gain, -0.5)), np.log(other))
    return loss[first] - log / spacing, whole


def _balance(mass: Array, lifted: Array, pulled: Array) -> Array:
    """Return the mass of the points, if bins exchange these shares of their remaining mass.

    Bounds ``low`` and ``high`` of the remaining fraction of a bin are iterated. Taking more from
    above than needed, and less from below, keeps the result valid.
    """
    lifted, pulled = lifted * (1.0 + _SLACK), pulled * (1.0 - _SLACK)

    def remaining(lifted: Array, pulled: Array) -> Array:
        return np.maximum(1.0 - np.append(0.0, lifted[:-1]) - np.append(pulled[1:], 0.0), 0.0)

    low, high = np.zeros_like(mass), np.ones_like(mass)
    for _ in range(_SWEEPS):
        low, high = remaining(lifted * high, pulled * high), remaining(lifted * low, pulled * low)
        if float((high - low).max()) < _SLACK:
            break
    lifted, pulled = lifted * high, pulled * low
    total = remaining(lifted, pulled) * mass
    total[:-1] += lifted[:-1] * mass[1:]
    total[1:] += pulled[1:] * mass[:-1]
    return total


def _bin_losses(bins: Bins, edges: npt.NDArray[Any], spacing: float) -> tuple[Array, Array]:
    """Return ``ln(P_i / Q_i)`` of each bin and its error.

    An unknown loss has the bin width as error. ``|ln(1 + x)| <= 2 |x|`` requires errors below one
    half. Outcomes in the wrong bin change the loss of the other outcomes by at most the blur.
    """
    p, q = bins.p[1:-1], bins.q[1:-1]
    ends = edges * spacing
    with np.errstate(divide="ignore", invalid="ignore"):
        log_p = np.log(p)
        loss = log_p - np.log(q)
        error = bins.p_error[1:-1] / p + bins.q_error[1:-1] / q
        error = 2.0 * error + 4 * U * (1.0 + np.abs(ends[:-1]) + np.abs(log_p)) + bins.blur
    width = np.diff(ends)
    accurate = error < np.minimum(width, 1.0)
    loss = np.where(accurate, np.clip(loss, ends[:-1], ends[1:]), ends[:-1])
    return loss, np.where(accurate, error, width)

"""Privacy losses on a lattice, from above and from below.

``above`` replaces a pair by one that dominates it, ``below`` by one that it dominates, both with
losses on a lattice of spacing ``h``. Either one changes the spread of the loss by order
``h^2`` and nothing by order ``h``, so that ``T`` compositions shift epsilon by order ``T h^2``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from privopt.privacy.pairs.pair import Array, Bins

_U = 2.0**-53  # unit roundoff of float64
_SNAP = 1e-6  # of a spacing: losses are lowered by so little without a thought
_SLACK = 1e-9  # relative, of shares: far more than they are rounded by
_HALF = 0.499  # of a bin, at most, goes to either side
_SWEEPS = 30  # of what bins keep
_MERGERS = 8
_NEAR = 2.5  # spacings between losses that may join


@dataclass(frozen=True)
class LatticeLoss:
    """Mass under ``P`` of the losses ``(offset + points) spacing``, and of infinite loss.

    ``points`` are integers, ``offset`` any number.
    """

    mass: Array
    points: npt.NDArray[np.int64]
    offset: float
    spacing: float
    infinite: float

    @property
    def losses(self) -> Array:
        """The losses themselves, exact for a spacing of few bits."""
        return np.asarray((self.points + self.offset) * self.spacing, dtype=np.float64)


def discretise_above(
    bins: Bins, edges: npt.NDArray[np.int64], spacing: float, infinite: float = 0.0
) -> LatticeLoss:
    """A dominating loss: the mass of each bin goes to its two ends, preserving ``P`` and ``Q``.

    The curve ``gamma -> H_gamma`` becomes piecewise linear, its chords between lattice points:
    nowhere below the true curve, for any order. Mass above the lattice becomes infinite loss,
    mass below it moves up to the first point. Probabilities are taken at the unfavourable end of
    their errors. Source: Doroshenko, Ghazi, Kamath, Kumar and Manurangsi, "Connect the dots:
    tighter discrete approximations of privacy loss distributions", PoPETs 2022
    (arXiv:2207.04380).

    The ``bins`` lie between the increasing edges ``edges * spacing``; ``infinite`` is the mass of
    infinite loss.
    """
    loss, error = _losses(bins, edges, spacing)
    width = np.diff(edges) * spacing
    mass = bins.p[1:-1] + bins.p_error[1:-1]
    rise = np.minimum(loss + error - edges[:-1] * spacing, width)
    moved = mass * (np.expm1(-rise) / np.expm1(-width))
    lattice = np.zeros(edges.size)
    lattice[1:] += moved
    lattice[:-1] += mass - moved
    lattice[0] += bins.p[0] + bins.p_error[0]
    above_all = float(bins.p[-1] + bins.p_error[-1])
    return LatticeLoss(lattice, edges, 0.0, spacing, (infinite + above_all) * (1.0 + 8 * _U))


def discretise_below(
    bins: Bins,
    edges: Array,
    spacing: float,
    infinite: float = 0.0,
    tilt: float = 0.0,
    offset: float = 0.0,
) -> LatticeLoss:
    """A dominated loss: every bin goes to the nearest lattice point, and a little of the next one.

    Taking outcomes together is post-processing, and so is splitting one at random first. Where the
    loss of a bin lies below its point, so much of the next bin above joins it that
    ``sum P - e^point sum Q`` vanishes; where it lies above, so much of the next bin below. With
    bins of one spacing around the points these shares are small, and the loss keeps its mean. A
    bin whose neighbour has too little joins that one altogether, or its point is lowered by one.
    Mass beyond the bins is dropped.

    Any ``tilt`` is valid, and best where the answer is wanted; so is any ``offset`` of the lattice
    points from the multiples of ``spacing``, in units of it. The rest is as for ``above``.
    """
    loss, error = _losses(bins, edges, spacing)
    loss = np.maximum(loss - error, edges[:-1] * spacing) / spacing
    mass = np.maximum(bins.p[1:-1] - bins.p_error[1:-1], 0.0)
    loss, mass = loss[mass > 0.0], mass[mass > 0.0]
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        for _ in range(_MERGERS):
            offset = _laid(offset, loss, mass, tilt, spacing)
            short = _short(loss - offset, mass, spacing)
            if not short.any():
                break
            loss, mass = _joined(loss, mass, short, spacing)
        loss -= offset
        points = _nearest(loss)
        lifted, _ = _shares(loss, mass, points, spacing)
        rate, distance = max(tilt, 1e-3) * spacing, np.append(loss[1:], math.inf) - points
        cost = lifted * np.append(mass[1:], 0.0) * np.expm1(rate * distance)
        fits = (lifted <= _HALF) & (cost <= -np.expm1(-rate) * mass)
        points = np.where((points > loss) & ~fits, np.floor(loss), points)
        lifted, pulled = _shares(loss, mass, points, spacing)
    return LatticeLoss(
        _balanced(mass, lifted, np.minimum(pulled, _HALF)),
        points.astype(np.int64),
        offset,
        spacing,
        infinite * (1.0 - 8 * _U),
    )


def _nearest(loss: Array) -> Array:
    """Lattice points: the first is balanced by what lies above, the last by what lies below."""
    points = np.rint(loss)
    points[0] = math.ceil(loss[0] - _SNAP)
    points[-1] = math.floor(loss[-1])
    return points


def _laid(offset: float, loss: Array, mass: Array, tilt: float, spacing: float) -> float:
    """The offset, moved to where the bin that loses most, for want of a neighbour, loses nothing.

    What lies a little below its point, and has too little above, would have to be lowered by one;
    what lies above it, and has too little below, by the rest. All others pay for the move with
    the square of the spacing.
    """
    exponent = np.log(mass) + tilt * spacing * loss
    weight = np.exp(exponent - exponent.max())

    def lost(place: float) -> tuple[Array, Array]:
        points = np.rint(loss - place)
        gap = loss - place - points
        lifted, pulled = _shares(loss - place, mass, points, spacing)
        fallen = np.where(lifted > _HALF, 1.0 + gap, np.where(pulled > _HALF, gap, 0.0))
        return weight * fallen, gap

    before, gap = lost(offset)
    move = float(gap[np.argmax(before)])
    price = 0.5 * abs(move) * spacing * (abs(tilt) + 1.0) * float(weight.sum())
    if float(lost(offset + move)[0].sum()) + price < float(before.sum()):
        offset += move
    offset -= 16 * _U * (1.0 + float(np.abs(loss).max()))
    return offset - math.floor(offset)


def _short(loss: Array, mass: Array, spacing: float) -> npt.NDArray[np.bool_]:
    """Between which neighbours one has too little to balance the other: they are to join.

    By twos, but for the first bin and the last, often atoms: with as many as it takes.
    """
    lifted, pulled = _shares(loss, mass, _nearest(loss), spacing)
    near = np.diff(loss) < min(_NEAR, 1.0 / spacing)
    short = near & ((lifted[:-1] > _HALF) | (pulled[1:] > _HALF))
    place, begins = np.arange(short.size), short & ~np.append(False, short[:-1])
    short &= (place - np.maximum.accumulate(np.where(begins, place, 0))) % 2 == 0
    if lifted[0] > _HALF:
        short[: _needed(loss, mass, spacing)] = True
    if pulled[-1] > _HALF:
        short[short.size - _needed(-loss[::-1], mass[::-1], -spacing) :] = True
    return short


def _needed(loss: Array, mass: Array, spacing: float) -> int:
    """How many of the next bins it takes to balance the first."""
    close = np.abs(loss - loss[0]) <= 1.0 / abs(spacing)
    lack = np.expm1((math.ceil(loss[0] - _SNAP) - loss[close]) * spacing) * mass[close]
    return max(0, int(np.argmax(np.cumsum(lack) * spacing <= 0.0)) - 1)


def _shares(loss: Array, mass: Array, points: Array, spacing: float) -> tuple[Array, Array]:
    """Of the next bin above, and of the next below, what balances each bin at its point.

    One of the two is zero; it is infinite where nothing can.
    """
    own = -np.expm1((points - loss) * spacing) * mass  # P - e^point Q
    above = -np.expm1((points[:-1] - loss[1:]) * spacing) * mass[1:]
    under = np.expm1((points[1:] - loss[:-1]) * spacing) * mass[:-1]
    lifted = -own / np.append(np.maximum(above, 0.0), 0.0)
    pulled = own / np.append(0.0, np.maximum(under, 0.0))
    return np.where(own < 0.0, lifted, 0.0), np.where(own > 0.0, pulled, 0.0)


def _joined(
    loss: Array, mass: Array, joined: npt.NDArray[np.bool_], spacing: float
) -> tuple[Array, Array]:
    """Neighbouring bins taken together, where ``joined`` says so of the gap between them."""
    first = np.flatnonzero(np.append(True, ~joined))
    base = np.repeat(loss[first], np.diff(first, append=loss.size))
    whole = np.add.reduceat(mass, first)
    gain = np.add.reduceat(mass * np.expm1((base - loss) * spacing), first) / whole
    other = np.add.reduceat(mass * np.exp((base - loss) * spacing), first) / whole
    log = np.where(gain > -0.5, np.log1p(np.maximum(gain, -0.5)), np.log(other))
    return loss[first] - log / spacing, whole


def _balanced(mass: Array, lifted: Array, pulled: Array) -> Array:
    """What the points hold, of bins that give and take these shares of what is kept.

    Bounds ``low`` and ``high`` of the part that a bin keeps are iterated. It is on the safe side
    to take more from above than is needed, and less from below.
    """
    lifted, pulled = lifted * (1.0 + _SLACK), pulled * (1.0 - _SLACK)

    def kept(lifted: Array, pulled: Array) -> Array:
        return np.maximum(1.0 - np.append(0.0, lifted[:-1]) - np.append(pulled[1:], 0.0), 0.0)

    low, high = np.zeros_like(mass), np.ones_like(mass)
    for _ in range(_SWEEPS):
        low, high = kept(lifted * high, pulled * high), kept(lifted * low, pulled * low)
        if float((high - low).max()) < _SLACK:
            break
    lifted, pulled = lifted * high, pulled * low
    taken = kept(lifted, pulled) * mass
    taken[:-1] += lifted[:-1] * mass[1:]
    taken[1:] += pulled[1:] * mass[:-1]
    return taken


def _losses(bins: Bins, edges: npt.NDArray[Any], spacing: float) -> tuple[Array, Array]:
    """``ln(P_i / Q_i)`` within each bin, and its error; unknown losses have a bin for error.

    ``|ln(1 + x)| <= 2 |x|`` asks for errors of less than a half. Outcomes that stand in the wrong
    bin move the loss of those beside them, by no more than the blur.
    """
    p, q = bins.p[1:-1], bins.q[1:-1]
    ends = edges * spacing
    with np.errstate(divide="ignore", invalid="ignore"):
        log_p = np.log(p)
        loss = log_p - np.log(q)
        error = bins.p_error[1:-1] / p + bins.q_error[1:-1] / q
        error = 2.0 * error + 4 * _U * (1.0 + np.abs(ends[:-1]) + np.abs(log_p)) + bins.blur
    width = np.diff(ends)
    known = error < np.minimum(width, 1.0)
    loss = np.where(known, np.clip(loss, ends[:-1], ends[1:]), ends[:-1])
    return loss, np.where(known, error, width)

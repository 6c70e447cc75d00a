"""Privacy losses on a lattice, from above and from below.

``above`` replaces a pair by one that dominates it, ``below`` by one that it dominates, both with
losses on a lattice of spacing ``h``. Either one changes the spread of the loss by order
``h^2`` and nothing by order ``h``, so that ``T`` compositions shift epsilon by order ``T h^2``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from privopt.privacy.pairs.pair import Array, Bins

__all__ = ["LatticeLoss", "above", "below"]

_U = 2.0**-53  # unit roundoff of float64
_MAX_EXPONENT = 600.0  # exponentials beyond this overflow
_SNAP = 1e-6  # of a spacing: losses are lowered by so little without a thought
_MAX_GROUPS = 1024  # groups that may settle the last


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


def above(
    bins: Bins, edges: npt.NDArray[np.int64], spacing: float, infinite: float = 0.0
) -> LatticeLoss:
    """A dominating loss: the mass of each bin goes to its two ends, preserving ``P`` and ``Q``.

    The curve ``gamma -> H_gamma`` becomes piecewise linear, its chords between lattice points:
    nowhere below the true curve, for any order. Mass above the lattice becomes infinite loss,
    mass below it moves up to the first point. Probabilities are taken at the unfavourable end of
    their errors. Source: Doroshenko, Ghazi, Kamath, Kumar and Manurangsi, "Connect the dots:
    tighter discrete approximations of privacy loss distributions", PoPETs 2022
    (arXiv:2207.04380).

    Parameters
    ----------
    bins : Bins
        Between the edges ``edges * spacing``.
    edges : ndarray of int
        Increasing.
    spacing : float
    infinite : float
        Mass of infinite loss.
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


def below(
    bins: Bins,
    edges: npt.NDArray[np.int64],
    spacing: float,
    infinite: float = 0.0,
    tilt: float = 0.0,
) -> LatticeLoss:
    """A dominated loss: bins are taken together until their common loss is a lattice point.

    Taking outcomes together is post-processing, and so is splitting one at random first. The
    lattice is laid through the loss of the bin that weighs most. From one end to the other, each
    lattice point takes what lies on its far side and then, from the near side, as much as makes
    ``sum P_i - e^c sum Q_i`` vanish, so that nothing is lost before the last; the end with less
    mass within a step of it is the last. Mass beyond the bins is dropped.

    Parameters
    ----------
    bins : Bins
        Between the edges ``edges * spacing``.
    edges : ndarray of int
        Increasing.
    spacing : float
    infinite : float
        Mass of infinite loss.
    tilt : float
        Where the answer is wanted; any value is valid.
    """
    loss, error = _losses(bins, edges, spacing)
    loss = np.maximum(loss - error, edges[:-1] * spacing) / spacing
    mass = np.maximum(bins.p[1:-1] - bins.p_error[1:-1], 0.0)
    loss, mass = loss[mass > 0.0], mass[mass > 0.0]
    exponent = np.log(mass) + tilt * spacing * loss
    heaviest = int(np.argmax(exponent))
    weight = np.exp(exponent - exponent[heaviest])
    away = loss - loss[heaviest]
    gap = away - np.rint(away)
    # What rounding has put just below a point would otherwise fall by a whole step.
    lowest = float(loss[heaviest] + gap[(gap >= -_SNAP) & (weight > _SNAP)].min())
    lowest -= 16 * _U * (1.0 + float(np.abs(loss).max()))
    offset = lowest - math.floor(lowest)
    loss -= offset
    rising = weight[loss <= loss[0] + 1.0].sum() >= weight[loss >= loss[-1] - 1.0].sum()
    order = slice(None) if rising else slice(None, None, -1)
    points, taken = _gather(mass[order].tolist(), loss[order].tolist(), spacing)
    return LatticeLoss(
        np.array(taken),
        np.array(points, dtype=np.int64),
        offset,
        spacing,
        infinite * (1.0 - 8 * _U),
    )


def _gather(mass: list[float], loss: list[float], spacing: float) -> tuple[list[int], list[float]]:
    """Lattice points and what they take; losses in units of the spacing, rising or falling.

    What lies far above pays dearly for lifting what lies below: across a gap a point is lowered,
    and so is a loss that rounding has put above its point.
    """
    points: list[int] = []
    taken: list[float] = []
    rising = loss[0] < loss[-1]
    i, left, excess = 0, mass[0], 0.0
    while i < len(mass):
        point = math.ceil(loss[i] - _SNAP) if rising else math.floor(loss[i])
        total = excess = 0.0
        while i < len(mass):
            fall = (point - loss[i]) * spacing
            if rising and fall < -1.0 - 2.0 * spacing and excess < 0.0:
                break
            if rising and -_SNAP * spacing <= fall < 0.0:
                fall = 0.0
            gain = -math.expm1(fall) * left if fall < _MAX_EXPONENT else -math.inf
            if (excess + gain > 0.0) if rising else (excess + gain < 0.0):
                share = -excess / gain
                share = min(1.0, share * (1.0 + 1e-12)) if rising else share * (1.0 - 1e-12)
                total += share * left
                left *= 1.0 - share
                excess = 0.0
                break
            total += left
            excess += gain
            i += 1
            left = mass[i] if i < len(mass) else 0.0
        points.append(point if excess >= 0.0 else point - 1)
        taken.append(total)
    if excess != 0.0 and math.isfinite(excess):
        _settle(points, taken, excess, spacing, rising)
    return points, taken


def _settle(
    points: list[int], taken: list[float], excess: float, spacing: float, rising: bool
) -> None:
    """Bring the last group to a lattice point by shares of those before, the nearest first.

    Its loss lies between two points, the wrong one of which the others can afford: losses below
    pull it down to the lower (rising), losses above lift it to the upper (falling). Their
    ``sum P - e^target sum Q`` vanishes together. Nothing is moved unless a few groups suffice.
    """
    if spacing > 1.0 or (not rising and excess <= _SNAP * spacing * taken[-1]):
        return  # it is where it should be
    # The last point is the lower neighbour; excess is with respect to where the group was sought.
    target = points[-1] if rising else points[-1] + 1
    total = taken[-1]
    needed = total - math.exp(-spacing if rising else spacing) * (total - excess)
    shares: list[tuple[int, float]] = []
    for k in range(len(points) - 2, max(-1, len(points) - 2 - _MAX_GROUPS), -1):
        distance = (target - points[k]) * spacing
        unit = -math.expm1(min(distance, 1.0)) * taken[k]
        if abs(distance) > 1.0 or unit * needed >= 0.0:
            continue
        shares.append((k, min(1.0, -needed / unit)))
        needed += shares[-1][1] * unit
        if shares[-1][1] < 1.0:
            break
    else:
        return
    for k, share in shares:
        # On the safe side of rounding: a little less of what pulls down, more of what lifts.
        share = share * (1.0 - 1e-12) if rising else min(1.0, share * (1.0 + 1e-12))
        taken[-1] += share * taken[k]
        taken[k] *= 1.0 - share
    points[-1] = target


def _losses(bins: Bins, edges: npt.NDArray[np.int64], spacing: float) -> tuple[Array, Array]:
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

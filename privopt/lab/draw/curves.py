"""Curves of methods along an axis: means, intervals, spreads and bounds, named at their ends."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes

from privopt.lab.draw import ticks
from privopt.lab.draw.notation import brief
from privopt.lab.draw.style import (
    AMBER,
    BLUE,
    BROWN,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PAPER,
    PURPLE,
    SKY,
    Style,
)
from privopt.lab.judge.results import grouped
from privopt.lab.judge.verdict import ORACLE_TUNED

_Array = npt.NDArray[np.float64]
_COLOURS = (BLUE, ORANGE, GREEN, PURPLE, AMBER, SKY, BROWN)
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_NEAR = 0.02  # lines nearer to each other than this share are one to the eye
_FEW = 3  # methods at most, where as many steps without noise are drawn for each
_REACH = 2.5  # times the least measured, or what that is of the highest: lower bounds leave below
_DEEPEST = 1e-4  # of the highest line: what is below it leaves the picture
_ZERO, _LOWER, _ELSEWHERE = "zero predictor", "lower bound (worst case)", "minimax, other problem"
_LETTER, _LABEL = 0.066, 0.177  # inches: across a letter of a name, and from a name to the next


class Curve(NamedTuple):
    """What one method measured along an axis, and what was promised; arrays along the axis."""

    method: str
    tuned: bool  # whether its numbers are the best of a grid
    values: _Array  # of the axis
    mean: _Array
    interval: _Array  # 95 % of the mean: two rows
    band: _Array  # 10 and 90 % of the runs: two rows
    upper: _Array  # infinite or NaN where no bound is known
    silent: _Array  # of gradient descent without noise, after as many steps

    @property
    def twin(self) -> str:
        """The method at theory's numbers, whose colour the best of a grid shares."""
        return self.method.removesuffix("_best") if self.tuned else self.method

    @property
    def is_bounded(self) -> bool:
        """Whether an upper bound is drawn: that of the best of a grid is its twin's."""
        return not self.tuned and bool(np.isfinite(self.upper).any())

    @property
    def level(self) -> float:
        """By which methods are ranked: the mean of the logarithms of their means."""
        return float(np.mean(np.log(np.maximum(self.mean, 1e-300))))


class Ground(NamedTuple):
    """Baseline and lower bound of a panel: a line where the bound holds, else a tick."""

    values: _Array
    zero: _Array  # of the zero predictor
    lower: _Array  # minimax over the problem class, for the budget; 0 where none is known
    is_minimax: bool = False  # whether the lower bound holds on this problem

    @property
    def has_line(self) -> bool:
        """Whether a lower bound is known everywhere and holds here."""
        return self.is_minimax and bool((self.lower > 0.0).all())

    @property
    def has_tick(self) -> bool:
        """Whether a lower bound is known at the right end, and holds on another problem."""
        return not self.is_minimax and bool(self.lower[-1] > 0.0)

    @property
    def floor(self) -> float:
        """The least value of the line or of the tick; infinite without either."""
        if self.has_line:
            return float(self.lower.min())
        return float(self.lower[-1]) if self.has_tick else math.inf


class Plane(NamedTuple):
    """What one panel shows."""

    curves: Sequence[Curve]
    ground: Ground


class Look(NamedTuple):
    """How a method is drawn."""

    colour: str
    marker: str
    thin: bool


class End(NamedTuple):
    """The right end of a line, and its name."""

    name: str  # the label of its line
    text: str
    value: float  # NaN where it lies in another panel, infinite at the right margin
    level: float
    colour: str


def looks(curves: Iterable[Curve]) -> dict[str, Look]:
    """By method, least first: a colour for each of the first seven, grey for the others."""
    found = grouped(curves, lambda curve: curve.method)
    level = {name: float(np.mean([each.level for each in same])) for name, same in found.items()}
    first = {name: found[name][0] for name in sorted(found, key=lambda name: level[name])}
    plain = [name for name, curve in first.items() if not curve.tuned]
    seen = dict(zip(plain, zip(_COLOURS, _MARKERS, strict=True), strict=False))
    return {
        name: Look(*seen.get(curve.twin, (GREY, ".")), curve.tuned or curve.twin not in seen)
        for name, curve in first.items()
    }


def key(planes: Sequence[Plane], over: str = "") -> str:
    """What the lines are, as it stands below a picture; ``over`` says what intervals are over."""
    several = [curve for plane in planes for curve in plane.curves]
    plain = {curve.method for curve in several if not curve.tuned}
    means = [[curve.mean for curve in plane.curves] for plane in planes]
    bounds = [[curve.upper for curve in plane.curves if curve.is_bounded] for plane in planes]
    told = {
        "Lines: mean": True,
        f"bars: 95 % of the mean{over}": True,
        "bands: 10-90 % of runs": True,
        "dashed: certified upper bound": any(curve.is_bounded for curve in several),
        "dotted: no method within the budget is below it on every problem of the class": any(
            plane.ground.has_line for plane in planes
        ),
        "tick at the right: lower bound over the class, which holds on other problems": any(
            plane.ground.has_tick for plane in planes
        ),
        "sparse dots: gradient descent without noise, as many steps": any(
            _silent(each) for each in planes
        ),
        f"thin: {ORACLE_TUNED}": any(curve.tuned for curve in several),
        "thin and grey: others": len(plain) > len(_COLOURS),
        "lines that coincide take turns, dash by dash": any(
            len(set(_leaders(lines))) < len(lines) for lines in means + bounds
        ),
    }
    return "; ".join(text for text, holds in told.items() if holds) + "."


def limits(planes: Sequence[Plane]) -> tuple[float, float]:
    """Of the vertical axis: what was measured, zero, and lower bounds not far below."""
    bands = np.concatenate([curve.band for plane in planes for curve in plane.curves], axis=1)
    top = float(max(np.nanmax(bands[1]), *(plane.ground.zero.max() for plane in planes)))
    low = max(float(np.nanmin(bands[0])), _DEEPEST * top)
    floor = min(plane.ground.floor for plane in planes)
    return 0.7 * max(min(low, floor), low / max(_REACH, top / low)), 1.6 * top


def lost(planes: Iterable[Plane], high: float) -> list[str]:
    """The methods whose upper bounds leave the picture altogether."""
    several = (curve for plane in planes for curve in plane.curves if curve.is_bounded)
    bounds = grouped(several, lambda curve: curve.method)
    least = {name: min(np.nanmin(each.upper) for each in same) for name, same in bounds.items()}
    return [name for name, bound in least.items() if high < bound < math.inf]


def width(curves: Iterable[Curve]) -> float:
    """Inches to the right of a panel that the names of the curves take."""
    names = [f"{c.twin} {ORACLE_TUNED}" if c.tuned else c.twin for c in curves]
    return 0.45 + _LETTER * max(len(_LOWER), *(len(name) + 7 for name in names))


def draw(place: Axes, plane: Plane, drawn: Mapping[str, Look]) -> list[End]:
    """Every curve in the way of its method, and the ground; the ends of all lines."""
    ends = []
    several = sorted(plane.curves, key=lambda curve: list(drawn).index(curve.method))
    means = _turns([curve.mean for curve in several], 6.0, 0.0)
    bounded = [curve for curve in several if not drawn[curve.method].thin]
    bounds = _turns([curve.upper for curve in bounded], 5.0, 2.0)
    for curve, dashes in zip(bounded, bounds, strict=True):
        colour = drawn[curve.method].colour
        low, high = np.maximum(curve.band, 1e-12)
        place.fill_between(curve.values, low, high, color=colour, alpha=0.1, lw=0)
        bound: Style = {"color": colour, "lw": 0.9, "ls": dashes}
        place.plot(curve.values, _shown(curve.upper), label=f"{curve.method}: upper bound", **bound)
    for rank, (curve, line) in enumerate(zip(several, means, strict=True)):
        colour, marker, thin = drawn[curve.method]
        mean = _shown(curve.mean)
        bars = np.abs(np.where(np.isfinite(curve.interval), curve.interval, mean) - mean)
        size: Style = {"lw": 0.9, "ms": 3.0} if thin else {"lw": 1.7, "ms": 4.2}
        above: Style = {"color": colour, "zorder": 3.0 - 0.01 * rank}
        place.plot(
            curve.values, mean, ls=line, marker=marker, mec=PAPER, label=curve.method,
            **size, **above,
        )  # fmt: skip
        bars = np.minimum(bars, [0.9 * mean, np.inf * mean])
        place.errorbar(curve.values, mean, bars, fmt="none", elinewidth=0.9, capsize=3.2, **above)
        best = f" {ORACLE_TUNED}" if curve.tuned else ""
        text = f"{curve.twin}{best} {brief(curve.mean[-1])}"
        ends.append(End(curve.method, text, curve.values[-1], curve.mean[-1], colour))
    for curve in _silent(plane):
        colour = drawn[curve.method].colour
        name = f"{curve.method}: as many steps without noise"
        place.plot(
            curve.values, _shown(curve.silent), color=colour, lw=1.0, ls=(0, (1, 4)), label=name
        )
    values, zero, lower, _ = plane.ground
    if (zero > 0.0).all():
        place.plot(values, zero, color=INK, lw=1.0, ls="-.", label=_ZERO)
        ends.append(End(_ZERO, f"{_ZERO} {brief(zero[-1])}", values[-1], zero[-1], INK))
    if plane.ground.has_line:
        place.plot(values, lower, color=INK, lw=1.0, ls=(0, (1, 1.5)), label=_LOWER)
        ends.append(End(_LOWER, _LOWER, values[-1], lower[-1], INK))
    if plane.ground.has_tick:
        ticks.at_margin(place, lower[-1], _ELSEWHERE, color=INK, mew=1.4)
        ends.append(End(_ELSEWHERE, _ELSEWHERE, math.inf, lower[-1], INK))
    return ends


def label(place: Axes, ends: Sequence[End], height: float) -> None:
    """Names at the right ends of lines, in their colours, moved apart; ``height`` in inches."""
    low, high = np.log(place.get_ylim())
    margin = place.get_xlim()[1]
    wanted = sorted(ends, key=lambda end: end.level)
    at = [float(np.clip((_log(end.level) - low) / (high - low), 0.0, 1.0)) for end in wanted]
    for _ in range(200):  # pushes neighbours apart until none overlap
        for i in range(len(at) - 1):
            short = _LABEL / height - (at[i + 1] - at[i])
            if short > 1e-6:
                at[i] -= short / 2.0
                at[i + 1] += short / 2.0
        shift = max(0.0, -at[0]) or min(0.0, 1.0 - at[-1])
        at = [each + shift for each in at]
    for end, where in zip(wanted, at, strict=True):
        begin = (min(end.value, margin), end.level)
        sign = "↓ " if _log(end.level) < low else "↑ " if _log(end.level) > high else ""
        arrow: Style = {"arrowstyle": "-", "lw": 0.5, "shrinkA": 1, "shrinkB": 3}
        place.annotate(
            sign + end.text, begin, (1.045, where), textcoords="axes fraction",
            color=end.colour, fontsize=8.0, va="center", annotation_clip=False,
            arrowprops=None if sign or math.isnan(end.value)
            else {**arrow, "color": end.colour, "relpos": (0.0, 0.5)},
        )  # fmt: skip


def _silent(plane: Plane) -> list[Curve]:
    """Whose number of steps gradient descent without noise takes: of few methods, each."""
    plain = [curve for curve in plane.curves if not curve.tuned]
    return [curve for curve in plain if (curve.silent > 0.0).any()] if len(plain) <= _FEW else []


def _turns(lines: Sequence[_Array], dash: float, gap: float) -> list[tuple[float, Any]]:
    """Dashes in which every line is seen: of ``m`` that coincide each has one dash in ``m``."""
    found, leaders = [], _leaders(lines)
    for i, first in enumerate(leaders):
        off = (dash + gap) * leaders.count(first) - dash
        turn = leaders[:i].count(first)
        found.append((turn * (dash + gap), (dash, off) if off > 0.0 else None))
    return found


def _leaders(lines: Sequence[_Array]) -> list[int]:
    """Of every line the number of the first that it coincides with."""
    return [
        next(j for j, other in enumerate(lines) if j == i or _coincide(other, line))
        for i, line in enumerate(lines)
    ]


def _coincide(line: _Array, other: _Array) -> bool:
    return line.shape == other.shape and bool(np.allclose(line, other, rtol=_NEAR, atol=0.0))


def _shown(values: _Array) -> _Array:
    """What a logarithmic scale can show; NaN for the others."""
    return np.where(np.isfinite(values) & (values > 0.0), values, np.nan)


def _log(value: float) -> float:
    return math.log(max(value, 1e-300))

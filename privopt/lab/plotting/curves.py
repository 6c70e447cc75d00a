"""Curves of methods along an axis: means, intervals, bounds and baselines."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes

from privopt.lab.evaluation.cells import grouped
from privopt.lab.evaluation.verdict import ORACLE_TUNED
from privopt.lab.plotting.notation import (
    brief,
    paper_name,
)
from privopt.lab.plotting.style import COLOURS, GREY, INK, METHOD_COLOURS, PAPER, Style, at_margin

_Array = npt.NDArray[np.float64]
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_NEAR = 0.02  # relative difference up to which lines coincide
_FEW = 3  # largest number of methods for which the risk without noise is drawn
_REACH = 2.5  # smallest factor below the least mean at which lower bounds are hidden
_DEEPEST = 1e-4  # share of the highest line below which lines are hidden
_ZERO, _LOWER, _ELSEWHERE = "zero predictor", "lower bound (worst case)", "minimax, other problem"
_STRONGER = {True: "lower bound, {}", False: "minimax, other problem: {}"}
_LETTER, _LABEL = 0.066, 0.177  # inches: width of a letter, distance between two labels


class Curve(NamedTuple):
    """The measurements of one method along an axis, with its upper bound."""

    method: str
    tuned: bool  # whether the hyperparameters are the best of a grid
    values: _Array  # of the axis
    mean: _Array
    interval: _Array  # 95 % of the mean: two rows
    band: _Array  # 10 % and 90 % quantiles of the runs: two rows
    upper: _Array  # infinite or NaN if no bound is known
    nonprivate: _Array  # gradient descent without noise, after the same number of steps

    @property
    def twin(self) -> str:
        """The method at the hyperparameters of the theory, which has the same colour."""
        return self.method.removesuffix("_best") if self.tuned else self.method

    @property
    def label(self) -> str:
        """The paper name of the method, with a note if it is oracle-tuned."""
        return f"{paper_name(self.twin)} {ORACLE_TUNED}" if self.tuned else paper_name(self.twin)

    @property
    def is_bounded(self) -> bool:
        """True if an upper bound is drawn; an oracle-tuned method shares the bound of its twin."""
        return not self.tuned and bool(np.isfinite(self.upper).any())

    @property
    def level(self) -> float:
        """Mean of the logarithms of the means, by which methods are ranked."""
        return float(np.mean(np.log(np.maximum(self.mean, 1e-300))))


class Baselines(NamedTuple):
    """The zero predictor and the lower bounds of a panel.

    A lower bound is a line if it holds on this problem, and otherwise a tick at the right margin.
    """

    values: _Array
    zero: _Array
    lower: _Array  # minimax over the problem class for the budget; 0 if unknown
    is_minimax: bool = False  # whether the lower bounds hold on this problem
    stronger: Mapping[str, _Array] = {}  # lower bounds for stronger guarantees, by guarantee

    @property
    def bounds(self) -> dict[str, _Array]:
        """Known lower bounds by label."""
        name = _LOWER if self.is_minimax else _ELSEWHERE
        labels = {name: self.lower}
        stronger = _STRONGER[self.is_minimax]
        labels |= {stronger.format(name): bound for name, bound in self.stronger.items()}
        if self.is_minimax:
            return {label: bound for label, bound in labels.items() if (bound > 0.0).all()}
        return {label: bound for label, bound in labels.items() if bound[-1] > 0.0}

    @property
    def least(self) -> float:
        """Least value of the lines or ticks; infinite if there are none."""
        bounds = self.bounds.values()
        return min((float(b.min() if self.is_minimax else b[-1]) for b in bounds), default=math.inf)


class PanelData(NamedTuple):
    """The content of one panel."""

    curves: Sequence[Curve]
    baselines: Baselines


class Look(NamedTuple):
    """Colour, marker and line width of a method."""

    colour: str
    marker: str
    thin: bool


class LineEnd(NamedTuple):
    """The right end of a line with its label."""

    name: str  # label of the line
    text: str
    value: float  # NaN if it is in another panel, infinite at the right margin
    level: float
    colour: str


def assign_looks(curves: Iterable[Curve]) -> dict[str, Look]:
    """Return the look of every method, least mean first.

    A known method has its own colour. Other methods take the remaining colours of the palette, and
    grey if there are more than seven.
    """
    groups = grouped(curves, lambda curve: curve.method)
    level = {name: float(np.mean([each.level for each in same])) for name, same in groups.items()}
    first = {name: groups[name][0] for name in sorted(groups, key=lambda name: level[name])}
    plain = [name for name, curve in first.items() if not curve.tuned]
    used = {METHOD_COLOURS[name] for name in plain if name in METHOD_COLOURS}
    spare = [colour for colour in COLOURS if colour not in used]
    looks: dict[str, tuple[str, str]] = {}
    for k, name in enumerate(plain):
        colour = METHOD_COLOURS.get(name) or (spare.pop(0) if spare else GREY)
        looks[name] = colour, "." if colour == GREY else _MARKERS[k % len(_MARKERS)]
    return {
        name: Look(*(look := looks.get(c.twin, (GREY, "."))), c.tuned or look[0] == GREY)
        for name, c in first.items()
    }


def legend_text(panels: Sequence[PanelData], over: str = "") -> str:
    """Describe the lines of a figure; ``over`` names the randomness covered by the intervals."""
    curves = [curve for panel in panels for curve in panel.curves]
    looks = assign_looks(curves)
    lines = [[curve.mean for curve in panel.curves] for panel in panels]
    lines += [[curve.upper for curve in panel.curves if curve.is_bounded] for panel in panels]
    bounds = [(panel.baselines.is_minimax, bool(panel.baselines.bounds)) for panel in panels]
    texts = {
        "Lines: mean": True,
        f"bars: 95 % of the mean{over}": True,
        "bands: 10-90 % of runs": True,
        "dashed: certified upper bound": any(curve.is_bounded for curve in curves),
        "dotted: no method within the budget is below it on every problem of the class": (
            (True, True) in bounds
        ),
        "tick at the right: lower bound over the class, which holds on other problems": (
            (False, True) in bounds
        ),
        "sparse dots: gradient descent without noise, as many steps": any(
            _with_nonprivate(panel) for panel in panels
        ),
        f"thin: {ORACLE_TUNED}": any(curve.tuned for curve in curves),
        "thin and grey: others": any(look.colour == GREY for look in looks.values()),
        "lines that coincide alternate, dash by dash": any(
            len(set(_representatives(each))) < len(each) for each in lines
        ),
    }
    return "; ".join(text for text, applies in texts.items() if applies) + "."


def y_limits(panels: Sequence[PanelData]) -> tuple[float, float]:
    """Return limits that contain the runs, the zero predictor and lower bounds not far below."""
    highs = [curve.band[1] for panel in panels for curve in panel.curves]
    lows = [curve.band[0] for panel in panels for curve in panel.curves]
    levels = np.concatenate([*highs, *(panel.baselines.zero for panel in panels)])
    top = float(np.max(levels, initial=0.0, where=np.isfinite(levels)))
    if not 0.0 < top < math.inf:
        return 0.1, 1.0
    band = np.concatenate(lows)
    least = float(np.min(band, initial=top, where=np.isfinite(band)))
    low = max(least, _DEEPEST * top)
    floor = min(panel.baselines.least for panel in panels)
    is_near = floor >= low / max(_REACH, top / low)
    return 0.7 * (min(low, floor) if is_near else low), 1.6 * top


def hidden_bounds(panels: Iterable[PanelData], high: float) -> list[str]:
    """Return the methods with upper bounds entirely above the limit ``high``."""
    curves = (curve for panel in panels for curve in panel.curves if curve.is_bounded)
    bounds = grouped(curves, lambda curve: curve.method)
    least = {name: min(np.nanmin(each.upper) for each in same) for name, same in bounds.items()}
    return [paper_name(name) for name, bound in least.items() if high < bound < math.inf]


def label_width(curves: Iterable[Curve]) -> float:
    """Return the inches that the labels of the curves need to the right of a panel."""
    names = [curve.label for curve in curves]
    longest = len(_STRONGER[True]) + len("μ-Gaussian DP")
    return 0.45 + _LETTER * max(longest, *(len(name) + 7 for name in names))


def draw_panel(axes: Axes, panel: PanelData, looks: Mapping[str, Look]) -> list[LineEnd]:
    """Draw the curves and the baselines of a panel and return the ends of all lines."""
    ends = []
    curves = sorted(panel.curves, key=lambda curve: list(looks).index(curve.method))
    means = _dashes([curve.mean for curve in curves], 6.0, 0.0)
    bounded = [curve for curve in curves if not looks[curve.method].thin]
    bounds = _dashes([curve.upper for curve in bounded], 5.0, 2.0)
    for curve, dashes in zip(bounded, bounds, strict=True):
        colour = looks[curve.method].colour
        low, high = np.maximum(curve.band, 1e-12)
        axes.fill_between(curve.values, low, high, color=colour, alpha=0.1, lw=0)
        line: Style = {"color": colour, "lw": 0.9, "ls": dashes}
        label = f"{curve.label}: upper bound"
        axes.plot(curve.values, positive(curve.upper), label=label, **line)
    for rank, (curve, dashes) in enumerate(zip(curves, means, strict=True)):
        colour, marker, thin = looks[curve.method]
        mean = positive(curve.mean)
        size: Style = {"lw": 0.9, "ms": 3.0} if thin else {"lw": 1.7, "ms": 4.2}
        over: Style = {"color": colour, "zorder": 3.0 - 0.01 * rank}
        axes.plot(
            curve.values, mean, ls=dashes, marker=marker, mec=PAPER, label=curve.label,
            **size, **over,
        )  # fmt: skip
        bars = error_bars(curve)
        axes.errorbar(curve.values, mean, bars, fmt="none", elinewidth=0.9, capsize=3.2, **over)
        text = f"{curve.label} {brief(curve.mean[-1])}"
        ends.append(LineEnd(curve.label, text, curve.values[-1], curve.mean[-1], colour))
    for curve in _with_nonprivate(panel):
        look: Style = {"color": looks[curve.method].colour, "lw": 1.0, "ls": (0, (1, 4))}
        label = f"{curve.label}: as many steps without noise"
        axes.plot(curve.values, positive(curve.nonprivate), label=label, **look)
    return ends + _draw_baselines(axes, panel.baselines)


def _draw_baselines(axes: Axes, baselines: Baselines) -> list[LineEnd]:
    ends, values, zero = [], baselines.values, baselines.zero
    if (zero > 0.0).all():
        axes.plot(values, zero, color=INK, lw=1.0, ls="-.", label=_ZERO)
        ends.append(LineEnd(_ZERO, f"{_ZERO} {brief(zero[-1])}", values[-1], zero[-1], INK))
    for k, (label, bound) in enumerate(baselines.bounds.items()):
        if baselines.is_minimax:
            dots = (0, (1, 1.5)) if k == 0 else (0, (3, 1.5, 1, 1.5))
            axes.plot(values, bound, color=INK, lw=1.0, ls=dots, label=label)
            ends.append(LineEnd(label, label, values[-1], bound[-1], INK))
        else:
            at_margin(axes, bound[-1], label, color=INK, mew=1.4)
            ends.append(LineEnd(label, label, math.inf, bound[-1], INK))
    return ends


def label_ends(axes: Axes, ends: Sequence[LineEnd], height: float) -> None:
    """Write labels at the right ends of lines without overlap; ``height`` is in inches."""
    low, high = np.log(axes.get_ylim())
    margin = axes.get_xlim()[1]
    ends = sorted((end for end in ends if not math.isnan(end.level)), key=lambda end: end.level)
    if not ends:
        return
    at = [float(np.clip((_log(end.level) - low) / (high - low), 0.0, 1.0)) for end in ends]
    for _ in range(200):  # pushes neighbours away from each other until none overlap
        for i in range(len(at) - 1):
            short = _LABEL / height - (at[i + 1] - at[i])
            if short > 1e-6:
                at[i] -= short / 2.0
                at[i + 1] += short / 2.0
        shift = max(0.0, -at[0]) or min(0.0, 1.0 - at[-1])
        at = [each + shift for each in at]
    for end, y in zip(ends, at, strict=True):
        start = (min(end.value, margin), end.level)
        sign = "↓ " if _log(end.level) < low else "↑ " if _log(end.level) > high else ""
        arrow: Style = {"arrowstyle": "-", "lw": 0.5, "shrinkA": 1, "shrinkB": 3}
        axes.annotate(
            sign + end.text, start, (1.045, y), textcoords="axes fraction",
            color=end.colour, fontsize=8.0, va="center", annotation_clip=False,
            arrowprops=None if sign or math.isnan(end.value)
            else {**arrow, "color": end.colour, "relpos": (0.0, 0.5)},
        )  # fmt: skip


def _with_nonprivate(panel: PanelData) -> list[Curve]:
    """Return the curves of few methods for which the risk without noise is drawn."""
    plain = [curve for curve in panel.curves if not curve.tuned]
    return [c for c in plain if (c.nonprivate > 0.0).any()] if len(plain) <= _FEW else []


def _dashes(lines: Sequence[_Array], dash: float, gap: float) -> list[tuple[float, Any]]:
    """Return dash patterns in which each of ``m`` coinciding lines shows one dash in ``m``."""
    patterns, representatives = [], _representatives(lines)
    for i, first in enumerate(representatives):
        off = (dash + gap) * representatives.count(first) - dash
        turn = representatives[:i].count(first)
        patterns.append((turn * (dash + gap), (dash, off) if off > 0.0 else None))
    return patterns


def _representatives(lines: Sequence[_Array]) -> list[int]:
    """Return for each line the index of the first line that coincides with it."""
    return [
        next(
            j
            for j, other in enumerate(lines)
            if j == i
            or (other.shape == line.shape and np.allclose(other, line, rtol=_NEAR, atol=0.0))
        )
        for i, line in enumerate(lines)
    ]


def error_bars(curve: Curve) -> _Array:
    """Return the distances from the means to the ends of their intervals, above zero."""
    mean = positive(curve.mean)
    ends = np.where(np.isfinite(curve.interval), curve.interval, mean)
    return np.minimum(np.abs(ends - mean), [0.9 * mean, np.inf * mean])


def positive(values: _Array) -> _Array:
    """Replace values that a logarithmic scale cannot show by NaN."""
    return np.where(np.isfinite(values) & (values > 0.0), values, np.nan)


def _log(value: float) -> float:
    return math.log(max(value, 1e-300))

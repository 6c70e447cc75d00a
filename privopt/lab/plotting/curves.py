"""Figures of a sweep: the curves of every method between its bounds, with the verdicts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from privopt.lab.evaluation.cells import CellResult, cells_along, grouped, swept_axes, worst
from privopt.lab.evaluation.estimates import mean_interval
from privopt.lab.evaluation.verdict import ORACLE_TUNED, Verdict, flatten_twins, twin_name
from privopt.lab.plotting import style
from privopt.lab.plotting.notation import (
    axis_label,
    brief,
    estimate,
    method_label,
    number,
    paper_name,
    signed,
    small,
    symbol,
)
from privopt.lab.plotting.style import COLOURS, GREY, INK, METHOD_COLOURS, PAPER, STYLE, Style

_Array = npt.NDArray[np.float64]
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_NEAR = 0.02  # relative difference up to which lines coincide
_FEW = 3  # largest number of methods for which the risk without noise is drawn
_REACH = 2.5  # smallest factor below the least mean at which lower bounds are hidden
_DEEPEST = 1e-4  # share of the highest line below which lines are hidden
_ZERO, _LOWER = "zero predictor", "lower bound (worst case)"
_ELSEWHERE = "lower bound, worst problem"
_STRONGER = {True: "lower bound, {}", False: "lower bound, worst problem: {}"}
_LETTER, _LABEL = 0.066, 0.177  # inches: width of a letter, distance between two labels
_CAPTION, _LEFT = 0.058, 0.76  # inches: width of a letter below a panel, space left of the panels
_HEIGHT, _MAX_COLUMNS = 2.3, 3  # inches of a panel; panels in a row
_ALPHA = 0.025  # of each end of an interval
_LISTED = 3  # largest number of methods that a title names


@mpl.rc_context(STYLE)
def curve_figure(
    cells: Sequence[CellResult],
    axis: str | None = None,
    verdicts: Sequence[Verdict] = (),
) -> Figure:
    """Plot the mean of every method: rows for families, panels for swept axes.

    A mean is the mean at the worst strength of a family for that method.

    Parameters
    ----------
    cells : sequence of CellResult
        Measured cells of one experiment.
    axis : str, optional
        The only axis; default all.
    verdicts : sequence of Verdict
        Verdicts on slopes and bounds, which are printed below the panels.
    """
    families = grouped(cells, lambda cell: cell.family)
    axes = swept_axes(cells) if axis is None else [axis]
    rows: dict[str, dict[str, PanelData]] = {}
    for name, members in families.items():
        groups = {a: cells_along(members, a) for a in axes}
        rows[name] = {a: panel_data(group) for a, group in groups.items() if group}
    data = [panel for row in rows.values() for panel in row.values()]
    looks = assign_looks(curve for panel in data for curve in panel.curves)
    ranges = {name: y_limits(list(row.values())) for name, row in rows.items()}
    hidden = {name: hidden_bounds(row.values(), ranges[name][1]) for name, row in rows.items()}
    texts = [
        f"{name}: {', '.join(methods)}" if len(families) > 1 else ", ".join(methods)
        for name, methods in hidden.items()
        if methods
    ]
    notes = [*_verdict_notes(verdicts), legend_text(data)]
    notes += [f"Above the panels, not drawn: upper bounds of {'; '.join(texts)}."] if texts else []
    captions = {
        (name, a): axis_label(a, next(cell.setting for cell in families[name] if a in cell.axes))
        for name, row in rows.items()
        for a in row
    }
    right, columns = label_width(data), min(_MAX_COLUMNS, len(axes))
    widest = _CAPTION * max(map(len, captions.values()))
    if len(axes) == 4 or (columns == 3 and widest > style.panel_width(columns, _LEFT, right)):
        columns = 2
    lines = [
        (name, list(row)[k : k + columns])
        for name, row in rows.items()
        for k in range(0, len(row), columns)
    ]
    figure, grid = style.sheet(
        _title(cells, axes), [_conditions(cells)], notes,
        panels=(len(lines), columns), height=_HEIGHT, left=_LEFT, right=right, top=0.22,
    )  # fmt: skip
    for places, (name, names) in zip(grid, lines, strict=True):
        first = places[0]
        first.set_yscale("log")
        first.set_ylim(*ranges[name])
        style.at_round_numbers(first.yaxis)
        first.set_ylabel(families[name][0].label)
        if len(families) > 1:
            style.write_above(first, [(name, {"fontweight": "bold"})])
        ends = dict[str, LineEnd]()
        for place, a in zip(places, names, strict=False):
            new = draw_panel(place, rows[name][a], looks)
            ends = {key: end._replace(value=np.nan) for key, end in ends.items()}
            ends |= {end.name: end for end in new}
            place.set_xscale("log")
            style.at_values(place.xaxis, rows[name][a].baselines.values.tolist())
            place.set_xlabel(captions[name, a])
        for place in places[len(names) :]:
            figure.delaxes(place)
        label_ends(places[len(names) - 1], list(ends.values()), _HEIGHT)
    return figure


def _title(cells: Sequence[CellResult], axes: Sequence[str]) -> str:
    """Return the answer if one method is best at every value of one axis, else the content."""
    methods = list(dict.fromkeys(paper_name(twin_name(cell.method)) for cell in cells))
    families = list(dict.fromkeys(cell.family for cell in cells))
    family = families[0] if len(families) == 1 else f"{len(families)} problems"
    labels = " or ".join(sorted({cell.label for cell in cells}))
    if len(methods) > 1 and len(axes) == len(families) == 1:
        plain = [cell for cell in cells if not cell.untuned]  # without oracle-tuned twins
        best = set()
        for group in cells_along(plain, axes[0]).values():
            worsts = [worst(same) for same in grouped(group, lambda cell: cell.method).values()]
            best.add(min(worsts, key=lambda cell: cell.mean).method)
        if len(best) == 1:
            name, axis = paper_name(best.pop()), symbol(axes[0])
            return f"{name} has the least mean {labels} on {family} at every {axis}"
    *others, end = methods
    listed = f"{', '.join(others)} and {end}" if others else end
    name = listed if len(methods) <= _LISTED else f"{len(methods)} methods"
    *head, last = map(symbol, axes)
    against = f"{', '.join(head)} and {last}" if head else last
    return f"{name[:1].upper()}{name[1:]} on {family}: {labels} against {against}"


def _conditions(cells: Sequence[CellResult]) -> str:
    """Return the number of runs, the number of strengths, delta and the relation."""
    runs = sorted({cell.values.size for cell in cells})
    deltas = sorted({cell.delta for cell in cells})
    groups = grouped(cells, lambda cell: (cell.method, cell.family, cell.setting_key))
    strengths = max(len(same) for same in groups.values())
    parts = [f"{' to '.join(map(number, dict.fromkeys((runs[0], runs[-1]))))} runs per point"]
    parts += [f"worst of {strengths} strengths"] if strengths > 1 else []
    parts += [f"δ = {small(deltas[0])}"] if len(deltas) == 1 else []
    parts.append(" or ".join(sorted({cell.relation.replace("_", "-") for cell in cells})))
    return ", ".join(parts)


def _verdict_notes(verdicts: Sequence[Verdict]) -> list[str]:
    """Return a line per axis and family with the slopes, or the bound if there are no slopes."""
    notes: dict[tuple[str, str], list[str]] = {}
    every = flatten_twins(verdicts)
    several = len({v.family for v in every}) > 1
    for v in sorted(every, key=lambda v: v.untuned):
        if v.check == "slope" and v.axis is not None:
            tuned = f"{ORACLE_TUNED} " if v.untuned else ""
            slope = "slope of mean/bound" if v.of_ratio else "slope"
            text = (
                f"{tuned}{slope} {' '.join(estimate(v))}, theorem {signed(v.target)}: {v.outcome}"
            )
            notes.setdefault((v.family, f"along {symbol(v.axis)}"), []).append(text)
    sloped = {family for family, _ in notes}
    for v in every:
        if v.check == "bound" and v.family not in sloped:
            text = f"{method_label(v.method, v.untuned)} {estimate(v)[0]}, {v.outcome}"
            notes.setdefault((v.family, "largest mean / bound"), []).append(text)
    return [
        f"{family + ', ' if several else ''}{head}: {'; '.join(texts)}."
        for (family, head), texts in notes.items()
    ]


# --- content of panels ----------------------------------------------------------------------------


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
        return twin_name(self.method) if self.tuned else self.method

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


def panel_data(groups: Mapping[float, Sequence[CellResult]]) -> PanelData:
    """Return the content of a panel from the cells at each value of its axis."""
    lines: dict[str, dict[float, CellResult]] = {}
    for value, cells in groups.items():
        for name, same in grouped(cells, lambda cell: cell.method).items():
            silent = max(cell.nonprivate for cell in same)
            lines.setdefault(name, {})[value] = replace(worst(same), nonprivate=silent)
    zero = [max(cell.start for cell in cells) for cells in groups.values()]
    lower = [max(cell.lower for cell in cells) for cells in groups.values()]
    first = list(next(iter(lines.values())).values())
    stronger: dict[str, _Array] = {}
    # With one method the baselines are those at its worst strength and for its own guarantee.
    if len({twin_name(name) for name in lines}) == 1 and len(first) == len(groups):
        zero = [cell.start for cell in first]
        for guarantee in list(first[0].lower_bounds)[1:]:
            bounds = [cell.lower_bounds.get(guarantee, 0.0) for cell in first]
            stronger[guarantee] = np.array(bounds, np.float64)
    is_minimax = all(cell.is_minimax for cells in groups.values() for cell in cells)
    values, *levels = (np.array(each, np.float64) for each in (list(groups), zero, lower))
    baselines = Baselines(values, levels[0], levels[1], is_minimax, stronger)
    return PanelData([_curve(line) for line in lines.values()], baselines)


def _curve(line: Mapping[float, CellResult]) -> Curve:
    cells = list(line.values())
    intervals = [mean_interval(cell.values, _ALPHA) for cell in cells]
    return Curve(
        cells[0].method,
        cells[0].untuned,
        values=np.array(list(line), np.float64),
        mean=np.array([cell.mean for cell in cells]),
        interval=np.array([(each.lower, each.upper) for each in intervals]).T,
        band=np.array([np.quantile(cell.values, (0.1, 0.9)) for cell in cells]).T,
        upper=np.array([cell.upper for cell in cells]),
        nonprivate=np.array([cell.nonprivate for cell in cells]),
    )


# --- drawing --------------------------------------------------------------------------------------


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
        "tick at the right: lower bound of the worst problem of the class": (
            (False, True) in bounds
        ),
        "sparse dots: gradient descent with as many steps and no noise": any(
            _with_nonprivate(panel) for panel in panels
        ),
        f"thin: {ORACLE_TUNED}": any(curve.tuned for curve in curves),
        "thin and grey: others": any(look.colour == GREY for look in looks.values()),
        "dashes of two colours: both methods have this line": any(
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


def label_width(panels: Sequence[PanelData]) -> float:
    """Return the inches that the labels of the lines need to the right of the panels."""
    least = len(_STRONGER[True]) + len("μ-Gaussian DP")
    curves = (len(curve.label) + 7 for panel in panels for curve in panel.curves)
    bounds = (len(label) + 2 for panel in panels for label in panel.baselines.bounds)
    return 0.45 + _LETTER * max(least, *curves, *bounds)


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
            style.at_margin(axes, bound[-1], label, color=INK, mew=1.4)
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

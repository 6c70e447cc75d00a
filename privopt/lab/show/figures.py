"""Figures of an experiment: what was measured, between the bounds, against every swept axis."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

from privopt.lab.show.results import CellResult, along, grouped, swept_axes, worst
from privopt.lab.show.style import (
    BLUE,
    GREEN,
    GREY,
    INK,
    NOWHERE,
    ORANGE,
    PAPER,
    PURPLE,
    STYLE,
    Origin,
    Style,
    axis_label,
    entries,
    estimate,
    headline,
    number,
    power,
    save,
    signed,
)
from privopt.lab.show.verdict import Outcome, Verdict

__all__ = ["COMPARED", "figures"]

COMPARED = "compared"
"""The figure of all methods in one."""

_COLUMNS = 3
_QUANTILES = (0.1, 0.5, 0.9)
_MAX_TICKS = 6
_REACH = 30.0
_LINES: dict[str, Style] = {
    "start": {"label": "zero predictor", "color": GREY, "lw": 1.0, "ls": (0, (5, 2))},
    "upper": {"label": "upper bound", "color": ORANGE, "lw": 1.0},
    "lower": {"label": "lower bound", "color": GREEN, "lw": 1.0},
    "nonprivate": {"label": "non-private", "color": PURPLE, "lw": 1.1, "ls": (0, (1, 1.5))},
}
_BASELINES = ("start", "nonprivate")
_STRENGTH: Style = {"label": "mean, each strength", "color": BLUE, "lw": 0.7, "alpha": 0.5}
_MEDIAN: Style = {"label": "median", "color": BLUE, "lw": 0.9, "ls": (0, (4, 2))}
_BAND: Style = {"label": "10–90% of runs", "color": BLUE, "alpha": 0.18, "lw": 0}
_MEAN: Style = {"color": BLUE, "lw": 1.6, "marker": "o", "ms": 4.5, "mec": PAPER}
_METHOD_COLOURS = (BLUE, ORANGE, GREEN, PURPLE)
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_HEADROOM = 1.25  # of what doing nothing costs; what is worse leaves the picture
_OPTIMUM: Style = {"label": "non-private optimum", "color": INK, "lw": 1.0}
_COLOURS = {Outcome.HOLDS: GREEN, Outcome.REFUTED: ORANGE, Outcome.UNDECIDED: GREY}


def figures(
    everything: Sequence[CellResult],
    folder: Path | str,
    judged: Sequence[Verdict],
    origin: Origin = NOWHERE,
) -> list[Path]:
    """Draw every algorithm of a table against every axis it was swept along.

    One figure an algorithm, ``<algorithm>.svg`` and ``.png``: a row for each family and a panel
    for each axis, on logarithmic scales, with the mean of the worst strength, the 10-90% band and
    the median of its replicates, the rate's bounds, the risk of the public start (the zero
    predictor) and that of the non-private twin. The SVG follows the reader's light or dark scheme.

    Parameters
    ----------
    everything : sequence of CellResult
        Of one experiment.
    folder : path
        Made if absent.
    judged : sequence of Verdict
        On the same cells.
    origin : Origin, optional
        Names the table, so that what was drawn from it already need not be drawn again.

    Returns
    -------
    list of Path
        The files, the same to the byte whenever they are drawn from the same table.
    """
    written = _compared(everything, folder, origin)
    with mpl.rc_context(STYLE):
        for method, cells in grouped(everything, lambda cell: cell.method).items():
            if any(cell.axes for cell in cells):
                said = [v for v in judged if v.method == method]
                written += save(partial(_figure, cells, said), Path(folder) / method, origin)
    return written


def _figure(cells: Sequence[CellResult], judged: Sequence[Verdict]) -> Figure:
    families = grouped(cells, lambda cell: cell.family)
    axes = swept_axes(cells)
    panels = [(family, axis) for family in families for axis in axes]
    columns = len(axes) if len(axes) > 1 else min(_COLUMNS, len(panels))
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(8.2, 1.2 + 2.1 * rows), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False, sharey="row")
    shown: dict[Axes, list[CellResult]] = {}
    for place, (family, axis) in zip(grid.flat, panels, strict=False):
        groups = along(families[family], axis)
        if groups:
            shown[place] = _panel(place, groups, axis)
            said = [verdict for verdict in judged if verdict.family == family]
            _headline(place, said, axis, family if len(families) > 1 and axis == axes[0] else "")
    for row in grid:
        row[0].set_ylabel(_label([cell for place in row for cell in shown.get(place, ())]))
        _scale({place: shown[place] for place in row if place in shown})
    for place in grid.flat:
        if place not in shown:
            place.set_axis_off()
    _frame(figure, cells)
    return figure


def _label(cells: Sequence[CellResult]) -> str:
    """Of the vertical axis: what was measured."""
    return " or ".join(sorted({cell.label for cell in cells}))


def _panel(
    place: Axes, groups: Mapping[float, Sequence[CellResult]], axis: str
) -> list[CellResult]:
    """Draw one family along one axis; returns the worst cell at every value."""
    values = list(groups)
    top = [worst(group) for group in groups.values()]
    by_strength = grouped((c for g in groups.values() for c in g), lambda cell: cell.strength)
    several = len(by_strength) > 1
    for same in by_strength.values() if several else ():
        place.plot([c.setting[axis] for c in same], _positive(c.mean for c in same), **_STRENGTH)
    for name, style in _LINES.items():
        place.plot(values, _positive(getattr(cell, name) for cell in top), **style)
    low, median, high = (
        _positive(np.quantile(cell.values, share) for cell in top) for share in _QUANTILES
    )
    place.fill_between(values, low, high, **_BAND)
    place.plot(values, median, **_MEDIAN)
    label = "mean, worst strength" if several else "mean"
    place.plot(values, _positive(cell.mean for cell in top), label=label, **_MEAN)
    place.set_yscale("log")
    _tick(place, axis, values, top[0])
    return top


def _tick(place: Axes, axis: str, values: Sequence[float], cell: CellResult) -> None:
    """The logarithmic horizontal axis, with ticks at the values that were swept."""
    place.set_xscale("log")
    place.xaxis.set_major_locator(FixedLocator(values[:: -(-len(values) // _MAX_TICKS)]))
    place.xaxis.set_minor_locator(NullLocator())
    place.xaxis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))
    place.set_xlabel(axis_label(axis, cell.setting))


def _headline(place: Axes, judged: Sequence[Verdict], axis: str, family: str) -> None:
    """What is concluded: a slope from this panel, else at its family's name how the bound fares."""
    slope = next((v for v in judged if v.axis == axis), None)
    bound = next((v for v in judged if v.check == "bound"), None)
    lines: list[tuple[str, Style]] = []
    if family:
        lines.append((family, {"fontweight": "bold"}))
    if slope is not None:
        lines.append((f"slope {'  '.join(estimate(slope))}", {}))
        text = f"theorem {signed(slope.target)}: {slope.outcome}"
        lines.append((text, {"color": _COLOURS[slope.outcome]}))
    elif family and bound is not None:
        text = f"largest mean / bound {estimate(bound)[0]}: {bound.outcome}"
        lines.append((text, {"color": _COLOURS[bound.outcome]}))
    for height, (text, style) in enumerate(reversed(lines)):
        style |= {"xycoords": "axes fraction", "textcoords": "offset points"}
        place.annotate(text, (0.0, 1.0), (0.0, 4.0 + 11.0 * height), **style)


def _scale(row: Mapping[Axes, Sequence[CellResult]]) -> None:
    """One vertical scale a row. Baselines far below the rest are told, not drawn."""
    cells = [cell for top in row.values() for cell in top]
    spread = (np.quantile(cell.values, share) for cell in cells for share in _QUANTILES)
    drawn = _positive((*spread, *(v for c in cells for v in (c.mean, c.upper, c.lower))))
    if np.isnan(drawn).all():
        return
    low, high = float(np.nanmin(drawn)), float(np.nanmax(drawn))
    baselines = _positive(getattr(cell, name) for cell in cells for name in _BASELINES)
    low = float(np.min(baselines, initial=low, where=baselines > low / _REACH))
    high = float(np.max(baselines, initial=high, where=np.isfinite(baselines)))
    for place, top in row.items():
        _tell_below(place, top, low)
    first = next(iter(row))
    first.set_ylim(low / 1.5, high * 1.5)
    subs = (1.0, 2.0, 5.0) if high < 30.0 * low else (1.0,)
    first.yaxis.set_major_locator(LogLocator(subs=subs, numticks=12))
    text = number if low >= 1e-6 else power
    first.yaxis.set_major_formatter(FuncFormatter(lambda value, _: text(value)))
    first.yaxis.set_minor_formatter(NullFormatter())


def _tell_below(place: Axes, top: Sequence[CellResult], low: float) -> None:
    """Name the baselines that lie below the scale all along, with their largest value."""
    told = []
    for name in _BASELINES:
        largest = max(getattr(cell, name) for cell in top)
        if largest < low:
            label = _LINES[name]["label"]
            told.append(f"{label} 0" if largest <= 0.0 else f"{label} ≤ {largest:.0e}")
            for line in place.get_lines():
                if line.get_label() == label:
                    line.remove()
    if told:
        text = f"↓ {', '.join(told)}"
        place.text(0.03, 0.03, text, transform=place.transAxes, color=GREY, fontsize=7.0)


def _frame(figure: Figure, cells: Sequence[CellResult]) -> None:
    first, families = cells[0], sorted({cell.family for cell in cells})
    where = f" on {families[0]}" if len(families) == 1 else ""
    sizes = {cell.values.size for cell in cells}
    runs = f"{min(sizes)}" if len(sizes) == 1 else f"{min(sizes)} to {max(sizes)}"
    headline(figure, f"Excess risk of {first.method}{where}, {runs} runs a point")
    drawn = {
        label: handle
        for label, handle in entries(figure).items()
        if not (isinstance(handle, Line2D) and np.isnan(handle.get_ydata(orig=True)).all())
    }
    order = (_MEAN, _BAND, _MEDIAN, _STRENGTH, *_LINES.values())
    labels = [lab for lab in drawn if lab.startswith("mean") and lab != _STRENGTH["label"]]
    labels += [style["label"] for style in order if style.get("label") in drawn]
    figure.legend(
        [drawn[label] for label in labels],
        labels,
        loc="outside lower left",
        ncols=len(labels) if len(labels) <= 5 else 4,
    )


def _positive(values: Iterable[float]) -> npt.NDArray[np.float64]:
    """The values a logarithmic scale can show; NaN for the others."""
    found = np.array(list(values), dtype=np.float64)
    return np.where(np.isfinite(found) & (found > 0.0), found, np.nan)


# --- all methods in one picture -------------------------------------------------------------------


def _compared(
    cells: Sequence[CellResult], folder: Path | str, origin: Origin = NOWHERE
) -> list[Path]:
    """Draw the mean risk ``F`` of every algorithm, ``compared.svg`` and ``.png``.

    A row for each family, a panel for each swept axis. Between the optimum, which no algorithm
    beats, and the public start, which costs no privacy, lies all that there is to gain. Risks are
    those of the worst strength of a family.

    Returns
    -------
    list of Path
        The files; none if there is nothing to compare.
    """
    swept = [cell for cell in cells if cell.axes]
    if len({cell.method for cell in swept}) < 2:
        return []
    with mpl.rc_context(STYLE):
        return save(partial(_compared_figure, swept), Path(folder) / COMPARED, origin)


def _compared_figure(cells: Sequence[CellResult]) -> Figure:
    families = grouped(cells, lambda cell: cell.family)
    axes = swept_axes(cells)
    figure = Figure(figsize=(8.2, 1.2 + 2.1 * len(families)), layout="constrained")
    grid = figure.subplots(len(families), len(axes), squeeze=False, sharey="row")
    names = sorted({cell.method for cell in cells})
    for row, (family, members) in zip(grid, families.items(), strict=True):
        for place, axis in zip(row, axes, strict=True):
            _compared_panel(place, members, axis, names)
        of_population = {cell.quantity for cell in members} == {"population risk"}
        row[0].set_ylabel("population risk" if of_population else "risk F")
        style: Style = {"xycoords": "axes fraction", "textcoords": "offset points"}
        row[0].annotate(family, (0.0, 1.0), (0.0, 4.0), fontweight="bold", **style)
        _compared_scale(row[0], members)
    runs = sorted({cell.values.size for cell in cells})
    budgets = sorted({(cell.delta, cell.relation) for cell in cells})
    spent = f"δ = {number(budgets[0][0])}, " if len({delta for delta, _ in budgets}) == 1 else ""
    headline(figure, f"Mean risk of {' to '.join(map(str, runs))} runs, {spent}{budgets[0][1]}")
    shown = entries(figure)
    figure.legend(list(shown.values()), list(shown), loc="outside lower left", ncols=3)
    return figure


def _compared_panel(
    place: Axes, cells: Sequence[CellResult], axis: str, names: Sequence[str]
) -> None:
    by_method = grouped(cells, lambda cell: cell.method)
    some: list[CellResult] = []
    for name, members in by_method.items():
        top = [worst(group) for group in along(members, axis).values()]
        k = names.index(name)
        style: Style = {
            "color": _METHOD_COLOURS[k % len(_METHOD_COLOURS)],
            "marker": _MARKERS[k % len(_MARKERS)],
        }
        values = [cell.setting[axis] for cell in top]
        risks = [cell.optimum + cell.mean for cell in top]
        place.plot(values, risks, label=name, lw=1.5, ms=4.5, mec=PAPER, **style)
        some = top or some
    if not some:
        place.set_axis_off()
        return
    values = [cell.setting[axis] for cell in some]
    place.plot(values, [cell.optimum + cell.start for cell in some], **_LINES["start"])
    place.plot(values, [cell.optimum for cell in some], **_OPTIMUM)
    _tick(place, axis, values, some[0])


def _compared_scale(place: Axes, cells: Sequence[CellResult]) -> None:
    """From the lowest optimum to somewhat above what doing nothing costs."""
    low = min(cell.optimum for cell in cells)
    high = float(np.nanmax([cell.optimum + cell.start for cell in cells]))
    span = high - low
    if span > 0.0:
        place.set_ylim(low - 0.05 * span, low + _HEADROOM * span)

"""Figures of an experiment: what was measured, between the bounds, against every swept axis."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from privopt.lab.draw import style
from privopt.lab.draw.comparison import COMPARED, comparison
from privopt.lab.draw.grids import grid_cells, grid_figure
from privopt.lab.draw.notation import estimate, signed
from privopt.lab.draw.panel import ORDER, panel, scale
from privopt.lab.draw.style import GREEN, GREY, ORANGE, PURPLE, Origin, Style
from privopt.lab.judge.results import CellResult, along, grouped, swept_axes
from privopt.lab.judge.verdict import GRADES, ORACLE_TUNED, Verdict, twins, unfolded

_COLUMNS = 3
_COLOURS = {"good": GREEN, "bad": ORANGE, "odd": PURPLE, "open": GREY, "idle": GREY}


def figures(
    everything: Sequence[CellResult],
    folder: Path | str,
    judged: Sequence[Verdict],
    origin: Origin = style.NOWHERE,
) -> list[Path]:
    """Draw what a table says, each thing once, as ``.svg`` and ``.png``.

    A method whose slopes are judged has a figure of its own, ``<method>.svg``: a row for each
    family and a panel for each axis, on logarithmic scales, with the mean of the worst strength,
    the 10-90% band of its replicates, the rate's bounds, the risk of the public start (the zero
    predictor) and that of gradient descent without noise. The mean with the best numbers of a grid
    is drawn into the figure of its twin at theory's numbers. All other methods are compared in
    one figure, ``compared.svg``; where there is one only, it too has its own. A grid of two axes
    has a figure ``grid_<axis>_<axis>.svg``. The SVG follows the reader's light or dark scheme.
    """
    cells = [cell for cell in everything if swept_axes([cell])]
    methods = grouped(cells, lambda cell: cell.method)
    tuned = {theory: methods[method] for method, theory in twins(judged).items()}
    sloped = {verdict.method for verdict in unfolded(judged) if verdict.check == "slope"}
    guests = {group[0].method for group in tuned.values()}
    others = [name for name in methods if name not in sloped | guests]
    alone = [name for name in methods if name in sloped - guests or [name] == others]
    written, folder = list[Path](), Path(folder)
    with mpl.rc_context(style.STYLE):
        if len(others) > 1:
            shown = [cell for cell in cells if cell.method in others]
            written += style.save(partial(comparison, shown), folder / COMPARED, origin)
        for name in alone:
            draw = partial(_figure, methods[name], tuned.get(name, ()), judged)
            written += style.save(draw, folder / name, origin)
        for name, grid in grid_cells(everything).items():
            written += style.save(partial(grid_figure, grid), folder / name, origin)
    return written


def narrow(
    everything: Sequence[CellResult],
    method: str,
    folder: Path,
    judged: Sequence[Verdict],
    origin: Origin = style.NOWHERE,
) -> Path:
    """Draw the first axis of a method's figure, for a narrow screen: ``<method>_narrow.svg``."""
    cells = [cell for cell in everything if cell.axes]
    best = [name for name, theory in twins(judged).items() if theory == method]
    own, tuned = ([c for c in cells if c.method in names] for names in ([method], best))
    draw = partial(_figure, own, tuned, judged, is_narrow=True)
    with mpl.rc_context(style.STYLE):
        (path,) = style.save(draw, folder / f"{method}_narrow", origin, formats=(".svg",))
    return path


def _figure(
    cells: Sequence[CellResult],
    tuned: Sequence[CellResult],
    judged: Sequence[Verdict],
    *,
    is_narrow: bool = False,
) -> Figure:
    families = grouped(cells, lambda cell: cell.family)
    axes = swept_axes(cells)
    panels = [(family, axis) for family in families for axis in axes]
    columns = len(axes) if len(axes) > 1 else min(_COLUMNS, len(panels))
    if len(axes) == 4:  # what a panel holds fixed does not fit beside three others
        columns = 2
    rows = -(-len(panels) // columns)
    size = (8.2, 1.2 + 2.1 * rows)
    if is_narrow:
        panels, rows, columns, size = panels[:1], 1, 1, (3.7, 4.3)
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False, sharey="row")
    shown: dict[Axes, list[CellResult]] = {}
    for place, (family, axis) in zip(grid.flat, panels, strict=False):
        groups = along(families[family], axis)
        if groups:
            guests = along((cell for cell in tuned if cell.family == family), axis)
            shown[place] = panel(place, groups, guests, axis)
            said = [v for v in unfolded(judged) if v.family == family]
            methods = [members[0].method for members in (cells, tuned) if members]
            name = family if len(families) > 1 and axis == axes[0] else ""
            _conclude(place, said, methods, axis, name)
    for row in grid:
        row[0].set_ylabel(_label([cell for place in row for cell in shown.get(place, ())]))
        scale({place: shown[place] for place in row if place in shown})
    for place in grid.flat:
        if place not in shown:
            place.set_axis_off()
    _frame(figure, cells, columns=1 if is_narrow else 4)
    return figure


def _label(cells: Sequence[CellResult]) -> str:
    """Of the vertical axis: what was measured."""
    return " or ".join(sorted({cell.label for cell in cells}))


def _conclude(
    place: Axes, judged: Sequence[Verdict], methods: Sequence[str], axis: str, family: str
) -> None:
    """What is concluded: slopes from this panel, else at its family's name how the bound fares."""
    found = {(v.method, v.axis or v.check): v for v in judged}
    slopes = [found[method, axis] for method in methods if (method, axis) in found]
    bound = found.get((methods[0], "bound"))
    lines: list[tuple[str, Style]] = []
    if family:
        lines.append((family, {"fontweight": "bold"}))
    for slope in slopes:
        tuned = f"{ORACLE_TUNED}: " if slope.untuned else ""
        lines.append((f"{tuned}slope {'  '.join(estimate(slope))}", {}))
        text = f"theorem {signed(slope.target)}: {slope.outcome}"
        lines.append((text, {"color": _COLOURS[GRADES[slope.outcome]]}))
    if family and bound is not None and not slopes:
        text = f"largest mean / bound {estimate(bound)[0]}: {bound.outcome}"
        lines.append((text, {"color": _COLOURS[GRADES[bound.outcome]]}))
    style.above(place, lines)


def _frame(figure: Figure, cells: Sequence[CellResult], columns: int) -> None:
    first, families = cells[0], sorted({cell.family for cell in cells})
    where = f" on {families[0]}" if len(families) == 1 else ""
    sizes = {cell.values.size for cell in cells}
    runs = f"{min(sizes)}" if len(sizes) == 1 else f"{min(sizes)} to {max(sizes)}"
    style.headline(
        figure, f"{_label(cells).capitalize()} of {first.named}{where}, {runs} runs a point"
    )
    drawn = {
        name: handle
        for name, handle in style.entries(figure).items()
        if not (isinstance(handle, Line2D) and np.isnan(handle.get_ydata(orig=True)).all())
    }
    style.legend(figure, {name: drawn[name] for name in ORDER if name in drawn}, columns)

"""Recorded experiments with a data frame, and the figures of sweeps and analyses."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import matplotlib as mpl
import pandas as pd
from matplotlib.figure import Figure

from privopt.arguments import member
from privopt.lab.evaluation.cells import CellResult, cell_results, grouped, swept_axes
from privopt.lab.evaluation.verdict import Verdict, flatten_twins, twins
from privopt.lab.plotting import style
from privopt.lab.plotting.curves import curve_figure
from privopt.lab.plotting.heatmaps import grid_cells, grid_figure
from privopt.lab.plotting.panels import describe, draw
from privopt.lab.plotting.paper import fit_to_paper, paper_figure, save_for_paper
from privopt.lab.plotting.style import STYLE
from privopt.lab.runner import store
from privopt.lab.runner.analysis import Analysis, MissingPartError, frames, required
from privopt.lab.runner.catalogue import Declarations, experiments_of
from privopt.lab.runner.cells import Trial
from privopt.lab.runner.experiment import Experiment

COMPARED = "compared"
"""Name of the figure of the methods without a separate figure."""

_NAMES = {
    "reference_value": "optimum", "reference_gap": "gap", "start_value": "zero",
    "nonprivate_value": "nonprivate",
}  # fmt: skip
_HIDDEN = ["cell", "choices", "exponents", "noise_factor", "plan", "refused", "searched", "trial"]


class Recorded(store.Recorded):
    """The recorded tables of an experiment.

    Attributes
    ----------
    about : mapping
        Name, title, profile, root seed and other metadata.
    cells, runs : pyarrow.Table
        A row for each cell and for each run; for an analysis, a row for each part and for each of
        its rows.
    """

    def frame(self) -> pd.DataFrame:
        """Return a data frame with a row per run and the columns of its cell.

        ``value`` is the measured value of ``quantity``; ``upper`` and ``lower`` bound its mean;
        ``zero`` is the risk of the zero predictor, and ``nonprivate`` the risk of gradient descent
        without noise after the same number of steps. Every choice of a plan has a column. Control
        runs are only in ``table()``. An analysis has a row per row of its parts.
        """
        frame = self.table().to_pandas()
        if self.is_analysis:
            return frame
        frame = frame[frame["trial"] == Trial.MEASURED.value].reset_index(drop=True)
        choices = [json.loads(text) for text in frame["choices"]]
        for name in dict.fromkeys(name for each in choices for name in each):
            if name not in frame:
                frame[name] = [each.get(name) for each in choices]
        return frame.drop(columns=_HIDDEN).rename(columns=_NAMES)

    def plot(
        self, name: str | None = None, *, paper: bool = False, path: Path | str | None = None
    ) -> Figure:
        """Plot every method along the swept axes, with a row of panels for each family.

        Means at the worst strength of a family with 95 % intervals, 10-90 % of the runs, upper and
        lower bounds, and the zero predictor. For an analysis, one of its figures.

        Parameters
        ----------
        name : str, optional
            The only axis, for example ``"epsilon"``; for an analysis the name of a figure (default:
            the first one).
        paper : bool
            True for a figure of 3.25 or 6.75 inches with data, theory lines and fitted slopes only.
        path : path, optional
            A file to write: PNG, and with ``paper`` also PDF.
        """
        figure = self._figure(name, paper)
        if path is not None and paper:
            save_for_paper(figure, Path(path))
        elif path is not None:
            style.save(lambda: figure, Path(path).with_suffix(""))
        return figure

    def _figure(self, name: str | None, paper: bool) -> Figure:
        if self.is_analysis:
            figure = analysis_figure(self, name)
            return fit_to_paper(figure) if paper else figure
        cells = [cell for cell in cell_results(self) if swept_axes([cell])]
        if not cells:
            raise ValueError(f"recorded must have an axis with runs, got {self.about['name']}")
        if name is not None:
            member("axis", name, swept_axes(cells))
            cells = [cell for cell in cells if name in cell.axes]
        return paper_figure(cells, name) if paper else curve_figure(cells, name)


def read(
    folder: Path | str, experiments: Path | str | Iterable[Experiment | Analysis] | None = None
) -> Recorded:
    """Read the tables of an experiment from its folder, for example ``results/dp_gd``.

    ``experiments`` contains the declaration, which has the claims and figures of an analysis: a
    folder (default: ``experiments`` beside the results or in the working directory) or a sequence.
    """
    folder = Path(folder)
    declared = Declarations(experiments or experiments_of(folder.parent))
    return Recorded(*declared.read(folder))


# --- figures of a results folder ------------------------------------------------------------------


def sweep_figures(
    cells: Sequence[CellResult],
    folder: Path,
    verdicts: Sequence[Verdict],
    source: str = "",
    *,
    redraw: bool = True,
) -> list[Path]:
    """Draw the figures of a sweep as PNG files and return their paths.

    A method with slope verdicts has the figure ``<method>.png``, which also shows the
    oracle-tuned twin. The other methods are in ``compared.png``; a single one has its own figure. A
    grid of two axes has the figure ``grid_<axis>_<axis>.png``.
    """
    figures = {
        name: partial(
            curve_figure,
            members,
            verdicts=[v for v in verdicts if v.method in {cell.method for cell in members}],
        )
        for name, members in figure_cells(cells, verdicts).items()
    }
    draw = figures | {name: partial(grid_figure, grid) for name, grid in grid_cells(cells).items()}
    with mpl.rc_context(STYLE):
        return [
            style.save(each, folder / name, source, redraw=redraw) for name, each in draw.items()
        ]


def figure_cells(
    cells: Sequence[CellResult], verdicts: Sequence[Verdict]
) -> dict[str, list[CellResult]]:
    """Return the cells of every figure of curves by the name of the figure."""
    cells = [cell for cell in cells if swept_axes([cell])]
    methods = grouped(cells, lambda cell: cell.method)
    tuned = {twin: methods[name] for name, twin in twins(verdicts).items() if name in methods}
    sloped = {verdict.method for verdict in flatten_twins(verdicts) if verdict.check == "slope"}
    guests = {group[0].method for group in tuned.values()}
    others = [name for name in methods if name not in sloped | guests]
    single = [name for name in methods if name in sloped - guests or [name] == others]
    result = {COMPARED: [cell for cell in cells if cell.method in others]} if others[1:] else {}
    return result | {name: [*methods[name], *tuned.get(name, ())] for name in single}


def analysis_figures(
    recorded: store.Recorded, folder: Path, source: str = "", *, redraw: bool = True
) -> list[Path]:
    """Draw the figures of an analysis as PNG files with a description; return their paths.

    Figures of parts that are not recorded are omitted.
    """
    paths = []
    for name in required(recorded).figures:
        make = partial(analysis_figure, recorded, name)
        with suppress(MissingPartError):
            paths.append(
                style.save(make, folder / name, source, redraw=redraw, description=describe)
            )
    return paths


def analysis_figure(recorded: store.Recorded, name: str | None = None) -> Figure:
    """Return the figure of an analysis with this name, or its first figure."""
    functions = required(recorded).figures
    if not functions:
        raise ValueError(f"recorded must have a figure, got {recorded.about['name']}")
    name = next(iter(functions)) if name is None else name
    member("name of a figure", name, functions)
    return draw(partial(functions[name], frames(recorded)))

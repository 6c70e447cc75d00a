"""Recorded experiments with a data frame and a figure."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from privopt.arguments import member
from privopt.lab.evaluation.cells import cell_results, swept_axes
from privopt.lab.plotting.curve_figures import curve_figure
from privopt.lab.plotting.plots import analysis_figure
from privopt.lab.plotting.style import save, save_for_paper
from privopt.lab.runner import store
from privopt.lab.runner.catalogue import Declarations, experiments_of
from privopt.lab.runner.cells import Trial

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pandas
    from matplotlib.figure import Figure

    from privopt.lab.runner.analysis import Analysis
    from privopt.lab.runner.experiment import Experiment

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

    def frame(self) -> pandas.DataFrame:
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
            The only axis, for example ``"epsilon"``; for an analysis the name of a
            figure (default: the first one).
        paper : bool
            True for a figure of 3.25 or 6.75 inches with data, theory lines and fitted slopes only.
        path : path, optional
            A PNG file to write. With ``paper`` a PDF is written as well, and the PNG has 300 dots
            per inch.
        """
        make = partial(analysis_figure, self) if self.is_analysis else self._curves
        figure = make(name, paper=paper)
        if path is not None:
            stem = Path(path).with_suffix("")
            if paper:
                save_for_paper(figure, stem)
            else:
                save(lambda: figure, stem)
        return figure

    def _curves(self, axis: str | None, *, paper: bool) -> Figure:
        cells = [cell for cell in cell_results(self) if swept_axes([cell])]
        if not cells:
            raise ValueError(f"recorded must have an axis with runs, got {self.about['name']}")
        if axis is not None:
            member("axis", axis, swept_axes(cells))
            cells = [cell for cell in cells if axis in cell.axes]
        return curve_figure(cells, axis, paper=paper)


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

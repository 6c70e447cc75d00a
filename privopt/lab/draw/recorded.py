"""What is recorded of an experiment, for people: as a data frame and as a picture."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from privopt.arguments import member
from privopt.lab.draw.comparison import comparison
from privopt.lab.draw.plots import plot_of
from privopt.lab.judge.results import cell_results, swept_axes
from privopt.lab.make import store
from privopt.lab.make.cells import Trial

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

_NAMES = {
    "reference_value": "optimum", "reference_gap": "gap", "start_value": "zero",
    "nonprivate_value": "nonprivate",
}  # fmt: skip
_HIDDEN = ["cell", "choices", "exponents", "noise_factor", "plan", "refused", "searched", "trial"]


class Recorded(store.Recorded):
    """What is recorded of an experiment: its tables, as a data frame and as a picture.

    Attributes
    ----------
    about : mapping
        Name, title, profile, root seed and what else the tables say of themselves.
    cells, runs : pyarrow.Table
        A row for each cell and for each run; of a study, for each part and for each of its rows.
    """

    def frame(self) -> pandas.DataFrame:
        """A row a run, with the columns of its cell; of a study, a row a row.

        ``value`` is what was measured, of the kind that ``quantity`` names; ``upper`` and ``lower``
        are the bounds of its mean, ``zero`` what the zero predictor has and ``nonprivate`` what
        gradient descent without noise has after as many steps. Every choice of a plan has a column.
        Runs of controls are left to ``table()``.
        """
        table = self.table()
        if self.is_study:
            return table.to_pandas()
        found = table.to_pandas()
        found = found[found["trial"] == Trial.MEASURED.value].reset_index(drop=True)
        choices = [json.loads(told) for told in found["choices"]]
        for name in dict.fromkeys(name for told in choices for name in told):
            if name not in found:
                found[name] = [told.get(name) for told in choices]
        return found.drop(columns=_HIDDEN).rename(columns=_NAMES)

    def plot(self, name: str | None = None) -> Figure:
        """Every method along the swept axes, or along one, a row of panels for each family.

        Means at the worst strength of a family with 95 % intervals, 10-90 % of the runs, upper and
        lower bounds, and the zero predictor. Of a study, the first of its plots.

        Parameters
        ----------
        name : str, optional
            Of the axis, as ``"epsilon"``; of a study, of the plot, which is that of its file.
        """
        if self.is_study:
            return plot_of(self, name)
        cells = [cell for cell in cell_results(self) if swept_axes([cell])]
        if not cells:
            raise ValueError(f"recorded must have an axis with runs, got {self._name}")
        if name is not None:
            member("axis", name, swept_axes(cells))
            cells = [cell for cell in cells if name in cell.axes]
        return comparison(cells, name)

    @property
    def _name(self) -> str:
        return self.about["name"]


def read(folder: Path | str) -> Recorded:
    """What is recorded of an experiment in its folder, as ``results/dp_gd``."""
    return Recorded(*store.read(folder))

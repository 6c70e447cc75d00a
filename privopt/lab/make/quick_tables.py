"""Committed tables of the quick profile: a row for each cell, small enough for a repository.

A table lies at ``results/quick/<experiment>.parquet``. It has the mean and the standard deviation
of the runs of each cell beside the bounds of its plan; of a study it has the rows of its parts.

Real numbers are equal up to the round-off of other processors: within a relative 1e-6 in cells, as
in :mod:`privopt.lab.make.equality`, and within ``STUDY`` in the rows of studies, some of which
follow single long runs, where 4e-5 was seen. Rarely a rounded number decides which way all runs of
a cell take. These are other samples of the same law, so few cells may differ by sampling errors.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from privopt.lab.make.equality import RELATIVE, differing
from privopt.lab.make.experiment import Experiment
from privopt.lab.make.folder import write_file
from privopt.lab.make.overwrite import OverwriteError, missing_data
from privopt.lab.make.records import Recorded, decoded, encoded, read, rounded
from privopt.lab.make.study import Study

_NAMES = ("method", "family", "n", "dim", "sparsity", "epsilon", "strength", "trial", "choices")
_COLUMNS = (
    *_NAMES,
    *("delta", "relation", "replicates", "refused", "quantity", "steps", "upper", "lower", "law"),
    *("spent_epsilon_upper", "reference_value", "start_value", "nonprivate_value"),
)
_MEASURED = ("mean", "deviation")
_ABOUT = ("name", "profile", "root_seed")

STUDY = 2e-4  # relative
FEW = 0.1  # of the cells of an experiment
ERRORS = 5.0  # standard errors of the difference of two means


def write_quick_table(results: Path, experiment: Experiment | Study, folder: Path) -> None:
    """Write the table of a recorded experiment to ``folder``, unless an equal one is there.

    ``OverwriteError`` if that table has families whose data are missing now.
    """
    path = folder / f"{experiment.name}.parquet"
    if path.is_file() and _comparable(before := _read(path), experiment).num_rows < before.num_rows:
        absent = missing_data(experiment, "quick")
        why = "; ".join(dict.fromkeys(absent.values()))
        raise OverwriteError(f"{path} was recorded with {', '.join(absent)}: left as it is ({why})")
    if quick_difference(results, experiment, folder) != "":
        recorded = read(results / experiment.name)
        about = {name: recorded.about.get(name) for name in _ABOUT}
        write_file(path, encoded(_summary(recorded), about))


def quick_difference(results: Path, experiment: Experiment | Study, folder: Path) -> str | None:
    """Say how a recorded experiment differs from its committed table; empty if it does not.

    ``None`` if there is no committed table of this seed. Rows of families whose data are missing
    are not compared.
    """
    path = folder / f"{experiment.name}.parquet"
    recorded = read(results / experiment.name)
    if not path.is_file():
        return None
    theirs = _read(path)
    about = {name: recorded.about.get(name) for name in _ABOUT}
    if json.loads(theirs.schema.metadata[b"privopt"]) != about:
        return None
    return _difference(_summary(recorded), _comparable(theirs, experiment))


def _read(path: Path) -> pa.Table:
    return decoded(path.read_bytes())


def _summary(recorded: Recorded) -> pa.Table:
    """Return a row for each cell of a sweep, or the rows of a study with their part."""
    if recorded.is_study:
        parts = recorded.cells["part"].take(recorded.runs["cell"])
        return rounded(recorded.runs.drop_columns(["cell"]).add_column(0, "part", parts))
    cells, count = recorded.runs["cell"].to_numpy(), recorded.cells.num_rows
    values = recorded.runs["value"].to_numpy()
    runs = np.bincount(cells, minlength=count)
    measured = runs > 0
    with np.errstate(invalid="ignore"):  # no run, or one that is not finite
        mean = np.bincount(cells, values, count) / runs
        deviation = np.sqrt(np.bincount(cells, (values - mean[cells]) ** 2, count) / runs)
    table = recorded.cells.select(_COLUMNS)
    for name, numbers in zip(_MEASURED, (mean, deviation), strict=True):
        table = table.append_column(name, pa.array(numbers, mask=~measured))
    return rounded(table)


def _comparable(table: pa.Table, experiment: Experiment | Study) -> pa.Table:
    """Return the rows of the families whose data are there; all rows of a study."""
    if isinstance(experiment, Study):
        return table
    absent = pa.array(list(missing_data(experiment, "quick")), pa.string())
    return table.filter(pc.invert(pc.is_in(table["family"], absent)))


def _difference(ours: pa.Table, theirs: pa.Table) -> str:
    if ours.schema.names != theirs.schema.names or ours.schema.types != theirs.schema.types:
        return f"columns {', '.join(ours.column_names)}, committed {', '.join(theirs.column_names)}"
    if ours.num_rows != theirs.num_rows:
        return f"{ours.num_rows} rows, committed {theirs.num_rows}"
    is_study = "part" in ours.column_names
    relative = STUDY if is_study else RELATIVE
    excused = np.zeros(ours.num_rows, bool) if is_study else _other_samples(ours, theirs)
    for name in ours.column_names:
        differs = differing(ours[name], theirs[name], relative)
        rows = np.flatnonzero(differs & ~excused if name in _MEASURED else differs)
        if rows.size:
            first = int(rows[0])
            values = (f"{table[name][first].as_py()}" for table in (ours, theirs))
            return (
                f"{name} differs in {rows.size} of {ours.num_rows} rows, first of "
                f"{_label(ours, first)}: {', committed '.join(values)}"
            )
    return ""


def _other_samples(ours: pa.Table, theirs: pa.Table) -> npt.NDArray[np.bool_]:
    """Return a mask of the cells whose mean differs by sampling errors; empty if they are many."""
    differs = differing(ours["mean"], theirs["mean"])
    means, deviations = ([t[name].to_numpy() for t in (ours, theirs)] for name in _MEASURED)
    error = np.hypot(*deviations) / np.sqrt(ours["replicates"].to_numpy())
    within = differs & (np.abs(np.subtract(*means)) <= ERRORS * error)
    return within if within.mean() <= FEW else np.zeros_like(within)


def _label(table: pa.Table, row: int) -> str:
    """Return what names a row, for people."""
    names = ("part", "label") if "part" in table.column_names else _NAMES
    told = {name: table[name][row].as_py() for name in names if name in table.column_names}
    return ", ".join(f"{name}={value}" for name, value in told.items() if value is not None)

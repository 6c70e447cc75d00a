"""Committed tables of the quick profile, and protection of recorded tables.

A table is at ``results/quick/<experiment>.parquet``. For a sweep it has the mean and the standard
deviation of each cell beside the bounds of its plan; for an analysis it has the rows of its parts.

Real numbers are equal up to rounding on other processors: within ``RELATIVE`` in cells, and
within ``ANALYSIS`` in rows of analyses, some of which follow single long runs (largest observed
difference 4e-5). Rarely a rounded number changes the path of all runs of a cell. These are other
samples of the same law, so a few cells may differ by sampling errors. For the same reason one row
in fifty of an analysis may differ, by a twentieth of the range of its column: a network that was
trained on another processor classifies one image of thirty differently.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from privopt.lab.runner.analysis import Analysis
from privopt.lab.runner.cells import absent_families
from privopt.lab.runner.experiment import Experiment
from privopt.lab.runner.store import (
    Recorded,
    ResultsError,
    decoded,
    encoded,
    read,
    rounded,
    write_file,
)
from privopt.problems.datasets import missing

_NAMES = ("method", "family", "n", "dim", "sparsity", "epsilon", "strength", "trial", "choices")
_COLUMNS = (
    *_NAMES,
    *("delta", "relation", "replicates", "refused", "quantity", "steps", "upper", "lower", "law"),
    *("spent_epsilon_upper", "reference_value", "start_value", "nonprivate_value"),
)
_MEASURED = ("mean", "deviation")
_ABOUT = ("name", "profile", "root_seed")

RELATIVE, ABSOLUTE = 1e-6, 1e-12
"""Tolerances of equal numbers: processors round differently, and a risk that is zero except for
rounding has no common digits."""

ANALYSIS = 2e-4  # relative
FEW = 0.1  # of the cells of an experiment
RARE = 0.02  # of the rows of an analysis
NEAR = 0.05  # of the range of a column of an analysis
ERRORS = 5.0  # standard errors of the difference of two means


class OverwriteError(ResultsError):
    """An attempt to replace a recorded table by a smaller one; the message gives the reason."""


def keep_recorded(folder: Path, experiment: Experiment | Analysis, profile: str) -> None:
    """Raise ``OverwriteError`` if a run would replace a larger table in its folder.

    Examples are a table of the full profile before a quick run, and a table with data sets that
    are missing now.
    """
    try:
        recorded = read(folder)
    except ResultsError:  # no readable table
        return
    if recorded.about["profile"] == "full" and profile == "quick":
        raise OverwriteError(
            f"{folder} holds the table of the full profile, which the quick one would replace: "
            "left as it is; name another folder"
        )
    absent = missing_data(experiment, profile)
    if isinstance(experiment, Analysis):
        names = list(recorded.about.get("data", experiment.data(recorded.about["profile"])))
    else:
        names = [] if recorded.is_analysis else sorted(set(recorded.cells["family"].to_pylist()))
    if lost := {name: absent[name] for name in names if name in absent}:
        raise _lost_data(folder, lost)


def _lost_data(path: Path, absent: Mapping[str, str]) -> OverwriteError:
    reasons = "; ".join(dict.fromkeys(absent.values()))
    return OverwriteError(
        f"{path} was recorded with {', '.join(absent)}: left as it is ({reasons})"
    )


def missing_data(experiment: Experiment | Analysis, profile: str) -> Mapping[str, str]:
    """Return the families or data sets that are missing, each with the reason."""
    if isinstance(experiment, Experiment):
        return absent_families(experiment)
    return {name: reason for name in experiment.data(profile) if (reason := missing(name))}


def write_quick_table(results: Path, experiment: Experiment | Analysis, folder: Path) -> None:
    """Write the table of a recorded experiment to ``folder``, unless it has an equal one.

    ``OverwriteError`` if that table has families without data on this machine.
    """
    path = folder / f"{experiment.name}.parquet"
    if path.is_file():
        committed = decoded(path.read_bytes())
        if _comparable(committed, experiment).num_rows < committed.num_rows:
            raise _lost_data(path, missing_data(experiment, "quick"))
    if quick_difference(results, experiment, folder) != "":
        recorded = read(results / experiment.name)
        about = {name: recorded.about.get(name) for name in _ABOUT}
        write_file(path, encoded(_summary(recorded), about))


def quick_difference(results: Path, experiment: Experiment | Analysis, folder: Path) -> str | None:
    """Describe the first difference of a recorded experiment from its committed table.

    An empty string if they are equal, and ``None`` if no table of this seed is committed. Rows of
    families without data are not compared.
    """
    path = folder / f"{experiment.name}.parquet"
    recorded = read(results / experiment.name)
    if not path.is_file():
        return None
    committed = decoded(path.read_bytes())
    about = {name: recorded.about.get(name) for name in _ABOUT}
    if json.loads(committed.schema.metadata[b"privopt"]) != about:
        return None
    return _difference(_summary(recorded), _comparable(committed, experiment))


def _summary(recorded: Recorded) -> pa.Table:
    """Return a row for each cell of a sweep, or the rows of an analysis with their part."""
    if recorded.is_analysis:
        parts = recorded.cells["part"].take(recorded.runs["cell"])
        return rounded(recorded.runs.drop_columns(["cell"]).add_column(0, "part", parts))
    table, values = (
        recorded.cells.select(_COLUMNS),
        recorded.runs.to_pandas().groupby("cell")["value"],
    )
    for name, numbers in zip(_MEASURED, (values.mean(), values.std(ddof=0)), strict=True):
        by_cell = numbers.reindex(range(table.num_rows))
        measured = by_cell.index.isin(numbers.index)
        table = table.append_column(name, pa.array(by_cell, mask=~measured, from_pandas=False))
    return rounded(table)


def _comparable(table: pa.Table, experiment: Experiment | Analysis) -> pa.Table:
    """Return the rows of families with data; all rows of an analysis."""
    if isinstance(experiment, Analysis):
        return table
    absent = pa.array(list(missing_data(experiment, "quick")), pa.string())
    return table.filter(pc.invert(pc.is_in(table["family"], absent)))


def _difference(table: pa.Table, committed: pa.Table) -> str:
    names = table.column_names
    if names != committed.column_names or table.schema.types != committed.schema.types:
        return f"columns {', '.join(names)}, committed {', '.join(committed.column_names)}"
    if table.num_rows != committed.num_rows:
        return f"{table.num_rows} rows, committed {committed.num_rows}"
    is_analysis = "part" in names
    relative = ANALYSIS if is_analysis else RELATIVE
    excused = np.zeros(table.num_rows, bool) if is_analysis else _other_samples(table, committed)
    for name in names:
        differs = _differing(table[name], committed[name], relative)
        if is_analysis:
            differs &= ~_rare(table[name], committed[name], differs)
        rows = np.flatnonzero(differs & ~excused if name in _MEASURED else differs)
        if rows.size:
            first = int(rows[0])
            values = (f"{each[name][first].as_py()}" for each in (table, committed))
            return (
                f"{name} differs in {rows.size} of {table.num_rows} rows, first of "
                f"{_label(table, first)}: {', committed '.join(values)}"
            )
    return ""


def _other_samples(table: pa.Table, committed: pa.Table) -> npt.NDArray[np.bool_]:
    """Return a mask of the cells whose mean differs by sampling errors; empty if they are many."""
    tables = table, committed
    differs = _differing(*(each["mean"] for each in tables))
    means, deviations = ([each[name].to_numpy() for each in tables] for name in _MEASURED)
    error = np.hypot(*deviations) / np.sqrt(table["replicates"].to_numpy())
    within = differs & (np.abs(np.subtract(*means)) <= ERRORS * error)
    return within if within.mean() <= FEW else np.zeros_like(within)


def _rare(
    column: pa.ChunkedArray, committed: pa.ChunkedArray, differs: npt.NDArray[np.bool_]
) -> npt.NDArray[np.bool_]:
    """Return a mask of the rows that differ by little; empty if many rows differ."""
    if not pa.types.is_floating(column.type) or not 0.0 < differs.mean() <= RARE:
        return np.zeros_like(differs)
    ours, theirs = (each.to_numpy().astype(np.float64) for each in (column, committed))
    finite = theirs[np.isfinite(theirs)]
    width = np.ptp(finite) if finite.size else 0.0
    near: npt.NDArray[np.bool_] = np.abs(ours - theirs) <= NEAR * width
    return differs & near


def _label(table: pa.Table, row: int) -> str:
    names = ("part", "label") if "part" in table.column_names else _NAMES
    values = {name: table[name][row].as_py() for name in names if name in table.column_names}
    return ", ".join(f"{name}={value}" for name, value in values.items() if value is not None)


def _differing(
    column: pa.ChunkedArray, other: pa.ChunkedArray, relative: float = RELATIVE
) -> npt.NDArray[np.bool_]:
    """Return a mask of the rows in which two columns of one type and length differ."""
    if not pa.types.is_floating(column.type):
        pairs = zip(column.to_pylist(), other.to_pylist(), strict=True)
        return np.array([one != two for one, two in pairs], bool)
    nulls = column.is_null().to_numpy() != other.is_null().to_numpy()  # NaN in the numbers
    ours, theirs = (each.to_numpy().astype(np.float64) for each in (column, other))
    return nulls | ~np.isclose(ours, theirs, rtol=relative, atol=ABSOLUTE, equal_nan=True)

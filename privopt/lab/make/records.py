"""Records: one Parquet file a finished cell, and two tables an experiment.

``cells.parquet`` has a row for each cell: what it is, its plan and what was promised, or why its
plan was refused. ``runs.parquet`` has a row for each run: its cell and what was measured. They
carry neither timings nor the machine and the code that made them, so they are the same to the bit
however often the experiment was interrupted, and wherever it is run again with the same outcome.
Those are kept beside them, in ``provenance.json``, and in the files of the cells.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from privopt.lab.make.committed import committed, equal
from privopt.lab.make.folder import ResultsError, write_file

__all__ = [
    "CELLS", "RUNS", "DamagedCellError", "Kept", "Recorded", "cell_path", "read", "read_cell",
    "read_provenance", "recorded_names", "set_aside", "write_cell", "write_provenance",
    "write_recorded",
]  # fmt: skip

_METADATA = b"privopt"
_TEXT = pa.string()

CELLS = pa.schema(
    [
        pa.field("cell", pa.int64(), nullable=False),
        pa.field("experiment", _TEXT, nullable=False),
        pa.field("method", _TEXT, nullable=False),
        pa.field("algorithm", _TEXT, nullable=False),
        pa.field("family", _TEXT, nullable=False),
        pa.field("n", pa.int64(), nullable=False),
        pa.field("dim", pa.int64(), nullable=False),
        pa.field("sparsity", pa.int64()),
        pa.field("epsilon", pa.float64(), nullable=False),
        pa.field("delta", pa.float64(), nullable=False),
        pa.field("relation", _TEXT, nullable=False),
        pa.field("mu", pa.float64()),  # of the budget; null for pure differential privacy
        pa.field("strength", pa.float64(), nullable=False),
        pa.field("choices", _TEXT, nullable=False),  # JSON: of the plan, swept ones included
        pa.field("axes", _TEXT, nullable=False),  # comma-joined axes and grids that the cell serves
        pa.field("replicates", pa.int64(), nullable=False),
        pa.field("root_seed", pa.int64(), nullable=False),
        pa.field("profile", _TEXT, nullable=False),
        pa.field("refused", _TEXT),  # why there is no plan; what follows is then null
        pa.field("quantity", _TEXT),  # what the runs were measured by
        pa.field("upper", pa.float64()),
        pa.field("lower", pa.float64()),
        pa.field("exponents", _TEXT),  # JSON
        pa.field("tight_on", _TEXT),
        pa.field("steps", pa.int64()),  # null where an algorithm takes none
        pa.field("spent_epsilon_upper", pa.float64()),
        pa.field("plan", _TEXT),  # JSON
        pa.field("reference_value", pa.float64()),
        pa.field("reference_gap", pa.float64()),
        pa.field("start_value", pa.float64()),
        pa.field("nonprivate_value", pa.float64()),
    ]
)
"""The table of the cells of a sweep."""

RUNS = pa.schema(
    [
        pa.field("cell", pa.int64(), nullable=False),
        pa.field("replicate", pa.int64(), nullable=False),
        pa.field("value", pa.float64(), nullable=False),
    ]
)
"""The table of its runs."""


class DamagedCellError(Exception):
    """A cell's file is not what was written."""


class Kept(NamedTuple):
    """What is kept of a finished cell.

    Attributes
    ----------
    values : pyarrow.Table
        A row for each run.
    facts : dict
        What was measured of the cell as a whole.
    run_seconds, compile_seconds : float
    """

    values: pa.Table
    facts: dict[str, Any]
    run_seconds: float
    compile_seconds: float


class Recorded(NamedTuple):
    """What is recorded of an experiment.

    Attributes
    ----------
    about : dict
        Name, title, description, profile, and what the report must know.
    cells, runs : pyarrow.Table
        Columns as in ``CELLS`` and ``RUNS``, or a study's: its parts and their rows.
    """

    about: dict[str, Any]
    cells: pa.Table
    runs: pa.Table

    @property
    def is_study(self) -> bool:
        """Whether it is a study's, whose tables have columns of their own."""
        return "study" in self.about

    def table(self) -> pa.Table:
        """Both tables in one: every run, with the columns of its cell."""
        rows = self.cells.take(self.runs["cell"])
        for name in self.runs.column_names[1:]:
            rows = rows.append_column(name, self.runs[name])
        return rows.combine_chunks()


# --- cells ----------------------------------------------------------------------------------------


def cell_path(folder: Path, key: str) -> Path:
    """Where the cell of that key is kept."""
    return folder / "cells" / f"{key}.parquet"


def write_cell(path: Path, kept: Kept) -> None:
    """Keep one finished cell, whole or not at all."""
    seconds = {"run_seconds": kept.run_seconds, "compile_seconds": kept.compile_seconds}
    write_file(path, _encode(kept.values, {"key": path.stem, "facts": kept.facts, **seconds}))


def read_cell(path: Path, fits: Callable[[pa.Table], bool]) -> Kept:
    """One finished cell, which must be the one that its file's name says.

    Raises
    ------
    FileNotFoundError
        If the cell is not finished.
    DamagedCellError
        If the file is not whole, fails its checksums, is another cell's or does not ``fit``.
    """
    try:
        values = _parse(path.read_bytes())
        told = _about(values)
        kept = Kept(values, told["facts"], told["run_seconds"], told["compile_seconds"])
        sound = fits(values) and told["key"] == path.stem
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError, ValueError, LookupError, TypeError) as error:
        raise DamagedCellError(f"{path}: {error}") from error
    if not sound:
        raise DamagedCellError(f"{path}: not the cell that its name says")
    return kept


def set_aside(path: Path) -> Path:
    """Rename a damaged cell to ``<name>.corrupt``, out of the way and not lost."""
    aside = path.with_name(path.name + ".corrupt")
    try:
        with suppress(FileNotFoundError):  # another process did
            path.replace(aside)
    except OSError as error:
        raise ResultsError(f"{path} is damaged and cannot be moved aside: {error}") from error
    return aside


# --- tables ---------------------------------------------------------------------------------------


def recorded_names(results: Path) -> list[str]:
    """Every experiment whose tables are there, in the order of their names."""
    return sorted(path.parent.name for path in results.glob("*/cells.parquet"))


def write_recorded(folder: Path, recorded: Recorded) -> bool | None:
    """Keep the two tables of an experiment; whether they equal the committed ones.

    Where a committed table says the same it is kept, digits that another machine rounds otherwise
    included. The table of cells is written last and names the table of runs that it belongs to.

    Returns
    -------
    bool or None
        ``None`` where none is committed.
    """
    known: dict[str, bool | None] = {}
    about, digest = recorded.about, ""
    for name, table in (("runs", recorded.runs), ("cells", recorded.cells)):
        path = folder / f"{name}.parquet"
        told = {"name": about["name"]} if name == "runs" else {**about, "runs": digest}
        data, before = _encode(table, told), committed(path)
        known[name] = None if before is None else _say_the_same(data, before)
        if before is not None and known[name]:
            data = before
        write_file(path, data)
        digest = hashlib.sha256(data).hexdigest()
    return None if None in known.values() else all(known.values())


def read(folder: Path | str) -> Recorded:
    """What is recorded of an experiment in its folder.

    Raises
    ------
    ResultsError
        If it is not there, damaged, or has other columns.
    """
    folder = Path(folder)
    try:
        data = {name: (folder / f"{name}.parquet").read_bytes() for name in ("cells", "runs")}
        cells, runs = _parse(data["cells"]), _parse(data["runs"])
        recorded = Recorded(_about(cells), cells, runs)
        belongs = recorded.about["runs"] == hashlib.sha256(data["runs"]).hexdigest()
    except FileNotFoundError:
        raise ResultsError(f"{folder} holds no tables: run its experiment first") from None
    except (pa.ArrowException, OSError, ValueError, LookupError, TypeError) as error:
        raise ResultsError(
            f"the tables in {folder} cannot be read ({error}): run its experiment again, which "
            "makes them anew from the finished cells"
        ) from error
    if not belongs:
        raise ResultsError(f"the two tables in {folder} are of two runs: run its experiment again")
    if not recorded.is_study and not (cells.schema.equals(CELLS) and runs.schema.equals(RUNS)):
        raise ResultsError(f"{folder} has tables of other columns than this version writes")
    return recorded


def write_provenance(folder: Path, provenance: Mapping[str, Any]) -> None:
    """Keep what made the tables beside them, with timings, in ``provenance.json``."""
    write_file(folder / "provenance.json", (json.dumps(provenance, indent=1) + "\n").encode())


def read_provenance(folder: Path) -> dict[str, Any]:
    """What made the tables of a folder; empty where that is not kept."""
    try:
        found = json.loads((folder / "provenance.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


# --- files ----------------------------------------------------------------------------------------


def _encode(table: pa.Table, about: Mapping[str, Any]) -> bytes:
    """A Parquet file with checksums: the same bytes for the same table and ``about``."""
    metadata = {_METADATA: json.dumps(dict(about), sort_keys=True).encode()}
    sink = pa.BufferOutputStream()
    pq.write_table(
        table.replace_schema_metadata(metadata), sink, compression="zstd", write_page_checksum=True
    )
    return sink.getvalue().to_pybytes()


def _parse(data: bytes) -> pa.Table:
    """The table that was encoded; pyarrow's own errors if it is not whole."""
    return pq.read_table(pa.BufferReader(data), page_checksum_verification=True)


def _about(table: pa.Table) -> dict[str, Any]:
    """What a table says about itself, as it was told to ``_encode``."""
    found: dict[str, Any] = json.loads((table.schema.metadata or {})[_METADATA])
    return found


def _say_the_same(ours: bytes, theirs: bytes) -> bool:
    try:
        return equal(_parse(ours), _parse(theirs))
    except (pa.ArrowException, ValueError):  # of another version
        return False

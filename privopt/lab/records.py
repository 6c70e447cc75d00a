"""Records: one Parquet file a finished cell, and one table an experiment.

A cell's file carries its timing in the file's metadata; the table carries none, nor the machine and
the code that made it, so it is the same to the bit however often the sweep was interrupted, and
wherever it is run again with the same outcome. Those are kept beside it, in ``provenance.json``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from privopt.lab.folder import ResultsError, write_file
from privopt.lab.parquet import about, decode, encode, read_kept

__all__ = [
    "CELL_COLUMNS",
    "COLUMNS",
    "assemble",
    "cell_path",
    "is_study",
    "read_cell",
    "read_provenance",
    "read_table",
    "table_path",
    "table_paths",
    "write_provenance",
    "write_table",
]

_TEXT = pa.string()
_LONG_TEXT = pa.dictionary(pa.int32(), pa.string())

COLUMNS = pa.schema(
    [
        pa.field("experiment", _TEXT, nullable=False),
        pa.field("algorithm", _TEXT, nullable=False),
        pa.field("family", _TEXT, nullable=False),
        pa.field("n", pa.int64(), nullable=False),
        pa.field("dim", pa.int64(), nullable=False),
        pa.field("epsilon", pa.float64(), nullable=False),
        pa.field("delta", pa.float64(), nullable=False),
        pa.field("relation", _TEXT, nullable=False),
        pa.field("mu", pa.float64()),  # of the budget; null for pure differential privacy
        pa.field("strength", pa.float64(), nullable=False),
        pa.field("replicate", pa.int64(), nullable=False),
        pa.field("excess_risk", pa.float64(), nullable=False),
        pa.field("reference_gap", pa.float64(), nullable=False),
        pa.field("reference_value", pa.float64(), nullable=False),
        pa.field("upper", pa.float64(), nullable=False),
        pa.field("lower", pa.float64(), nullable=False),
        pa.field("start_risk", pa.float64(), nullable=False),
        pa.field("nonprivate_risk", pa.float64(), nullable=False),
        pa.field("spent_epsilon_upper", pa.float64(), nullable=False),
        pa.field("steps", pa.int64()),  # null where an algorithm takes none
        pa.field("axes", _TEXT, nullable=False),  # comma-joined axes that the cell serves
        pa.field("tight_on", _TEXT),
        pa.field("exponents", _TEXT, nullable=False),
        pa.field("root_seed", pa.int64(), nullable=False),
        pa.field("profile", _TEXT, nullable=False),
        pa.field("plan", _LONG_TEXT, nullable=False),
    ]
)

# What depends on the sweep around a cell, and not on the cell, is added when the table is made.
_OF_THE_SWEEP = ("axes", "profile")
CELL_COLUMNS = pa.schema([column for column in COLUMNS if column.name not in _OF_THE_SWEEP])


def cell_path(results: Path, experiment: str, key: str) -> Path:
    """Where the cell of that key is kept."""
    return results / experiment / "cells" / f"{key}.parquet"


def table_path(results: Path, experiment: str) -> Path:
    """Where the experiment's table is kept."""
    return results / experiment / "table.parquet"


def table_paths(results: Path) -> list[Path]:
    """Every experiment's table, in the order of their names."""
    return sorted(results.glob("*/table.parquet"))


def read_cell(path: Path, replicates: int) -> pa.Table:
    """The rows of one finished cell of a sweep; raises as :func:`privopt.lab.parquet.read_kept`."""
    return read_kept(
        path, lambda rows: rows.schema.equals(CELL_COLUMNS) and rows.num_rows == replicates
    )


def assemble(cells: Iterable[tuple[pa.Table, Sequence[str]]], profile: str) -> pa.Table:
    """The table of an experiment: its cells' rows one after another.

    Parameters
    ----------
    cells : iterable of (rows, axes)
        Rows of a cell and the axes of the sweep that it serves, in the order of the sweep.
    profile : str
    """
    parts = []
    for rows, axes in cells:
        added = {"axes": ",".join(axes), "profile": profile}
        for name, value in added.items():
            rows = rows.append_column(name, pa.array([value] * rows.num_rows, _TEXT))
        parts.append(rows.select(COLUMNS.names).cast(COLUMNS))
    table = pa.concat_tables(parts) if parts else COLUMNS.empty_table()
    return table.unify_dictionaries().combine_chunks()


def write_table(path: Path, table: pa.Table, about: Mapping[str, Any]) -> None:
    """Keep an experiment's table, with what the report must know ``about`` the experiment."""
    write_file(path, encode(table, about))


def read_table(path: Path | str) -> pa.Table:
    """The table of an experiment: columns as in ``COLUMNS``, unless it is a study's.

    Raises
    ------
    ResultsError
        If it is not there, damaged, or has other columns.
    """
    try:
        table = decode(Path(path))
    except FileNotFoundError:
        raise ResultsError(f"{path} is not there: run its experiment first") from None
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ResultsError(
            f"{path} cannot be read ({error}): run its experiment again, which makes it anew "
            "from the finished cells"
        ) from error
    if not is_study(table) and not table.schema.equals(COLUMNS):
        raise ResultsError(f"{path} has other columns than this version of privopt writes")
    return table


def is_study(table: pa.Table) -> bool:
    """Whether the table is that of a study, which has columns of its own."""
    return bool(table.schema.metadata) and "study" in about(table)


def write_provenance(folder: Path, provenance: Mapping[str, Any]) -> None:
    """Keep what made a table beside it, with timings, in ``provenance.json``."""
    write_file(folder / "provenance.json", (json.dumps(provenance, indent=1) + "\n").encode())


def read_provenance(folder: Path) -> dict[str, Any]:
    """What made the table of a folder; empty where that is not kept."""
    try:
        found = json.loads((folder / "provenance.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}

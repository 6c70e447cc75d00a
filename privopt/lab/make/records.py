"""Tables as Parquet files that say what they are about, damage to which is seen."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from privopt.lab.make.folder import ResultsError, write_file

__all__ = [
    "ABSOLUTE", "CELL_COLUMNS", "COLUMNS", "RELATIVE", "DamagedCellError", "about", "assemble",
    "cell_path", "committed", "decode", "encode", "equal", "is_study", "parse", "read_cell",
    "read_kept", "read_provenance", "read_table", "set_aside", "table_path", "table_paths",
    "timing", "write_cell", "write_provenance", "write_table",
]  # fmt: skip

_METADATA = b"privopt"


class DamagedCellError(Exception):
    """A cell's file is not what was written."""


def encode(table: pa.Table, about: Mapping[str, Any]) -> bytes:
    """A Parquet file with checksums: the same bytes for the same table and ``about``."""
    metadata = {_METADATA: json.dumps(dict(about), sort_keys=True).encode()}
    sink = pa.BufferOutputStream()
    pq.write_table(
        table.replace_schema_metadata(metadata),
        sink,
        compression="zstd",
        write_page_checksum=True,
    )
    return sink.getvalue().to_pybytes()


def decode(path: Path) -> pa.Table:
    """The table in a file; pyarrow's own errors if it is not whole."""
    return parse(path.read_bytes())


def parse(data: bytes) -> pa.Table:
    """The table that was encoded; pyarrow's own errors if it is not whole."""
    return pq.read_table(pa.BufferReader(data), page_checksum_verification=True)


def about(table: pa.Table) -> dict[str, Any]:
    """What a table says about its experiment, as it was told to ``encode``."""
    found: dict[str, Any] = json.loads((table.schema.metadata or {})[_METADATA])
    return found


def write_cell(path: Path, rows: pa.Table, *, run_seconds: float, compile_seconds: float) -> None:
    """Keep the rows of one finished cell, whole or not at all."""
    seconds = {"run_seconds": run_seconds, "compile_seconds": compile_seconds}
    write_file(path, encode(rows, {"key": path.stem, **seconds}))


def read_kept(path: Path, fits: Callable[[pa.Table], bool]) -> pa.Table:
    """The rows of one finished cell, which must be the one that its file's name says.

    Raises
    ------
    FileNotFoundError
        If the cell is not finished.
    DamagedCellError
        If the file is not whole, fails its checksums, is another cell's or does not ``fit``.
    """
    try:
        rows = decode(path)
        sound = fits(rows) and about(rows)["key"] == path.stem
        timing(rows)
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError, ValueError, LookupError, TypeError) as error:
        raise DamagedCellError(f"{path}: {error}") from error
    if not sound:
        raise DamagedCellError(f"{path}: not the cell that its name says")
    return rows


def set_aside(path: Path) -> Path:
    """Rename a damaged cell to ``<name>.corrupt``, out of the way and not lost."""
    aside = path.with_name(path.name + ".corrupt")
    try:
        with suppress(FileNotFoundError):  # another process did
            path.replace(aside)
    except OSError as error:
        raise ResultsError(f"{path} is damaged and cannot be moved aside: {error}") from error
    return aside


def timing(rows: pa.Table) -> tuple[float, float]:
    """Seconds that a cell ran, and that it was compiled for."""
    found = about(rows)
    return float(found["run_seconds"]), float(found["compile_seconds"])


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
    """The rows of one finished cell of a sweep; raises as :func:`read_kept`."""
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


RELATIVE, ABSOLUTE = 1e-6, 1e-12
"""How far equal numbers may be apart: machines round differently in their last digits, and a risk
that is zero but for rounding has no digits in common."""

_SECONDS = 60.0


def committed(path: Path) -> bytes | None:
    """The file at ``path`` as the last commit of its repository has it; ``None`` if none does."""
    command = ["git", "-C", str(path.parent), "show", f"HEAD:./{path.name}"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def equal(ours: pa.Table, theirs: pa.Table) -> bool:
    """Whether two tables say the same of the same experiment.

    Rows, columns, texts and integers must be the same, and real numbers within ``RELATIVE`` of the
    larger or ``ABSOLUTE`` of each other; so must those within texts that are JSON, as of plans.
    """
    same_shape = ours.num_rows == theirs.num_rows and ours.schema.equals(theirs.schema)
    if not same_shape or about(ours) != about(theirs):
        return False
    return all(map(_equal_columns, ours.columns, theirs.columns))


def _equal_columns(ours: pa.ChunkedArray, theirs: pa.ChunkedArray) -> bool:
    if ours.equals(theirs):
        return True
    if pa.types.is_floating(ours.type):
        return ours.is_null().equals(theirs.is_null()) and _close(
            ours.drop_null().to_numpy(), theirs.drop_null().to_numpy()
        )
    if pa.types.is_dictionary(ours.type) or pa.types.is_string(ours.type):
        pairs = set(zip(ours.to_pylist(), theirs.to_pylist(), strict=True))
        return all(_equal_texts(*pair) for pair in pairs)
    return False


def _equal_texts(ours: str | None, theirs: str | None) -> bool:
    if ours is None or theirs is None or ours == theirs:
        return ours == theirs
    try:
        return _equal_values(json.loads(ours), json.loads(theirs))
    except ValueError:
        return False


def _equal_values(ours: Any, theirs: Any) -> bool:
    match ours, theirs:
        case dict(), dict():
            return ours.keys() == theirs.keys() and all(
                _equal_values(value, theirs[name]) for name, value in ours.items()
            )
        case list(), list():
            absent = object()
            pairs = zip_longest(ours, theirs, fillvalue=absent)
            return all(_equal_values(*pair) for pair in pairs)
        case float(), float():
            return _close(np.array([ours]), np.array([theirs]))
        case _:
            return bool(ours == theirs)


def _close(ours: npt.NDArray[np.float64], theirs: npt.NDArray[np.float64]) -> bool:
    larger = np.maximum(np.abs(ours), np.abs(theirs))
    with np.errstate(invalid="ignore"):  # of infinities that are equal
        near = np.abs(ours - theirs) <= np.maximum(RELATIVE * larger, ABSOLUTE)
    finite = np.isfinite(larger)
    same = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
    return bool(np.where(finite, near, same).all())

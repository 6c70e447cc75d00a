"""Tables as Parquet files that say what they are about, damage to which is seen."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from privopt.lab.folder import ResultsError, write_file

__all__ = [
    "DamagedCellError", "about", "decode", "encode", "parse", "read_kept", "set_aside", "timing",
    "write_cell",
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

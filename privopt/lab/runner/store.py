"""Results folder: cached cells, tables and provenance of experiments, written atomically.

Each finished cell has one Parquet file. An experiment has two tables: ``cells.parquet`` describes
each cell (its plan and the bounds of the plan, or the reason why there is none), and
``runs.parquet`` has one row per run. The tables contain neither timings nor machine nor code:
equal outcomes give equal bytes. Timings are in ``provenance.json`` and in the files of the cells.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from privopt.arguments import shown

FORMAT = 1
MARKER = ".privopt"
_ABANDONED = 3600.0  # seconds after which a partial file belongs to a killed process
_METADATA = b"privopt"
_FAST, _SMALLEST = ("zstd", 19), ("brotli", 11)  # codecs of cached cells and recorded tables
_UNREADABLE = (pa.ArrowException, OSError, ValueError, LookupError, TypeError)

_TEXT, _INT, _REAL, _FLAG = pa.string(), pa.int64(), pa.float64(), pa.bool_()
_CELL_COLUMNS = {
    "cell": _INT, "experiment": _TEXT, "method": _TEXT, "algorithm": _TEXT, "family": _TEXT,
    "n": _INT, "dim": _INT, "sparsity": _INT, "epsilon": _REAL, "delta": _REAL, "relation": _TEXT,
    "mu": _REAL,  # of the budget; null for pure differential privacy
    "strength": _REAL, "trial": _TEXT,
    "noise_factor": _REAL,  # multiplies the noise of the mechanism
    "choices": _TEXT,  # JSON: arguments of the plan, including swept ones
    "axes": _TEXT,  # axes and grids of the cell, joined by commas
    "replicates": _INT, "root_seed": _INT, "profile": _TEXT,
    # The reason why there is no plan, or "failed: ..." with an error. Later columns are then null.
    "refused": _TEXT,
    "quantity": _TEXT,  # measured quantity
    # Facts of the plan; with a search, of the plan with the default hyperparameters.
    "upper": _REAL, "lower": _REAL,
    "in_regime": _FLAG,  # true if the term with these exponents is the largest
    "exponents": _TEXT,  # JSON
    "tight_on": _TEXT,
    "steps": _INT,  # null if an algorithm has no steps
    "spent_epsilon_upper": _REAL,  # null for controls
    "plan": _TEXT,  # JSON
    "law": _REAL,  # exact expected value; null if unknown
    "searched": _TEXT,  # JSON: result of a search, oracle-tuned
    "reference_value": _REAL, "reference_gap": _REAL, "start_value": _REAL,
    "nonprivate_value": _REAL,
}  # fmt: skip
_NULLABLE = {"sparsity", "mu", *list(_CELL_COLUMNS)[list(_CELL_COLUMNS).index("refused") :]}

CELLS = pa.schema(
    [pa.field(name, kind, nullable=name in _NULLABLE) for name, kind in _CELL_COLUMNS.items()]
)
"""Columns of the table of cells of a sweep."""

RUNS = pa.schema(
    [
        pa.field(name, kind, nullable=False)
        for name, kind in {"cell": _INT, "replicate": _INT, "value": _REAL}.items()
    ]
)
"""Columns of the table of runs of a sweep."""


class ResultsError(Exception):
    """An unusable or read-only results folder; the message says how to continue."""


class DamagedCellError(Exception):
    """A damaged file of a cell."""


Value = str | int | float | None
"""An entry of a table."""

Row = Mapping[str, Any]
"""A row of the table of cells."""


About = Mapping[str, Any]
"""Metadata of the tables of an experiment: ``name``, ``title``, ``description``, ``profile`` and
``runs`` (a digest). A sweep also has ``root_seed``, ``checks``, ``swept``, ``replicates`` and
``groups``; an analysis may have ``data`` (the available data sets)."""

Provenance = Mapping[str, Any]
"""Version, profile, date and environment of a run, its counts, and the seconds of every cell."""


class CachedResult(NamedTuple):
    """Runs and facts of a finished cell, with its timings."""

    values: pa.Table
    facts: Mapping[str, Value]
    run_seconds: float
    compile_seconds: float


class Recorded(NamedTuple):
    """Recorded tables of an experiment."""

    about: About
    cells: pa.Table  # one row per cell, or per part of an analysis
    runs: pa.Table  # one row per run, or per row of a part
    analysis: Any = None  # declaration of an analysis, if it is known

    @property
    def is_analysis(self) -> bool:
        """True for an analysis; its tables have other columns."""
        return "part" in self.cells.column_names

    def table(self) -> pa.Table:
        """Return one table with a row per run and the columns of its cell."""
        rows = self.cells.take(self.runs["cell"])
        for name in self.runs.column_names[1:]:
            rows = rows.append_column(name, self.runs[name])
        return rows.combine_chunks()


# --- folder and files -----------------------------------------------------------------------------


def open_results(path: Path | str) -> Path:
    """Return the results folder at ``path``; create and mark it if it does not exist.

    ``ResultsError``, without any change, if a folder has files but no marker, or a newer format.
    """
    path = Path(path)
    try:
        if path.exists() and not path.is_dir():
            raise ResultsError(f"results must be a folder, got the file {path}")
        if (path / MARKER).exists():
            return existing_results(path)
        # Another process may have created the marker since.
        if path.is_dir() and any(p.suffix != ".tmp" and p.name != MARKER for p in path.iterdir()):
            raise ResultsError(
                f"results must be an empty folder or one that privopt made: {path} holds other "
                f"files and no {MARKER}. Nothing was touched; name another folder"
            )
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ResultsError(f"results folder {path} cannot be used: {error}") from error
    write_file(path / MARKER, json.dumps({"format": FORMAT}).encode() + b"\n")
    return path


def existing_results(path: Path | str) -> Path:
    """Return the results folder at ``path``, which must exist; see :func:`open_results`."""
    path = Path(path)
    try:
        version = json.loads((path / MARKER).read_text(encoding="utf-8"))["format"]
    except FileNotFoundError:
        raise ResultsError(f"{path} is no results folder of privopt: no {MARKER} in it") from None
    except (OSError, ValueError, LookupError, TypeError) as error:
        text = f'is damaged or cannot be read; it should contain {{"format": {FORMAT}}}'
        raise ResultsError(f"{path / MARKER} {text}: {error}") from error
    if version != FORMAT:
        raise ResultsError(
            f"{path} must be of results format {FORMAT}, got {shown(version)}: "
            "use the version of privopt that wrote it, or another folder"
        )
    return path


def write_file(path: Path, data: bytes) -> None:
    """Write ``data`` to ``path`` atomically.

    An equal file is not written again, so that finished results can be read-only.
    """
    partial = path.with_name(f"{path.name}.{platform.node()}.{uuid.uuid4().hex}.tmp")
    try:
        if path.is_file() and path.read_bytes() == data:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(partial, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except OSError as error:
        raise ResultsError(
            f"{path} cannot be written: {error.strerror or error}. Every finished cell is safe; "
            "make room (or leave to write) and repeat the same command to continue"
        ) from error
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def clear_partial(folder: Path) -> None:
    """Remove partial files of killed processes."""
    for path in folder.rglob("*.tmp"):
        with suppress(OSError):  # removed by another process, or a read-only disk
            if time.time() - path.stat().st_mtime > _ABANDONED:
                path.unlink()


# --- cells ----------------------------------------------------------------------------------------


def cell_path(folder: Path, key: str) -> Path:
    """Return the path of the cell with a key."""
    return folder / "cells" / f"{key}.parquet"


def write_cell(path: Path, result: CachedResult) -> None:
    """Write a finished cell atomically."""
    seconds = {"run_seconds": result.run_seconds, "compile_seconds": result.compile_seconds}
    metadata = {"key": path.stem, "facts": result.facts, **seconds}
    checksum = _checksum(result.values, metadata)
    write_file(path, encoded(result.values, {**metadata, "checksum": checksum}))


def read_cell(path: Path) -> CachedResult:
    """Read a finished cell; ``FileNotFoundError`` if it is not finished.

    ``DamagedCellError`` if the file is incomplete, fails its checksums or has the key of another
    cell.
    """
    try:
        values = decoded(path.read_bytes())
        metadata = _metadata(values)
        seconds = metadata["run_seconds"], metadata["compile_seconds"]
        result = CachedResult(values, metadata["facts"], *seconds)
        whole = metadata.pop("checksum") == _checksum(values, metadata)
        sound = metadata["key"] == path.stem and whole
    except FileNotFoundError:
        raise
    except _UNREADABLE as error:
        raise DamagedCellError(f"{path}: {error}") from error
    if not sound:
        raise DamagedCellError(f"{path}: damaged, or not the cell that its name says")
    return result


def set_aside(path: Path) -> Path:
    """Rename the file of a damaged cell to ``<name>.corrupt``."""
    aside = path.with_name(path.name + ".corrupt")
    try:
        with suppress(FileNotFoundError):  # renamed by another process
            path.replace(aside)
    except OSError as error:
        raise ResultsError(f"{path} is damaged and cannot be moved aside: {error}") from error
    return aside


def _checksum(table: pa.Table, metadata: Mapping[str, object]) -> str:
    """Return a digest of the parts without a checksum in Parquet: schema and metadata."""
    columns = table.schema.remove_metadata().to_string()
    return hashlib.sha256(f"{columns} {json.dumps(metadata, sort_keys=True)}".encode()).hexdigest()


# --- tables ---------------------------------------------------------------------------------------


def recorded_names(results: Path) -> list[str]:
    """Return the sorted names of the experiments with tables; at least one."""
    names = sorted(path.parent.name for path in results.glob("*/cells.parquet"))
    if not names:
        raise ResultsError(f"{results} holds no table yet: run an experiment first")
    return names


def write_recorded(folder: Path, recorded: Recorded) -> None:
    """Write the two tables of an experiment.

    The table of cells is written last and contains the digest of the table of runs.
    """
    name, runs = recorded.about["name"], recorded.runs
    data = encoded(runs if recorded.is_analysis else rounded(runs), {"name": name}, _SMALLEST)
    write_file(folder / "runs.parquet", data)
    about = {**recorded.about, "runs": hashlib.sha256(data).hexdigest()}
    write_file(folder / "cells.parquet", encoded(recorded.cells, about, _SMALLEST))


def rounded(table: pa.Table) -> pa.Table:
    """Round real numbers to 24 bits, which halves the size of a table of measured runs.

    The relative error is at most 6e-8. Tables of analyses are not rounded: the ends of
    certified intervals must not move inwards.
    """
    for place, field in enumerate(table.schema):
        if field.type == _REAL:
            column = table.column(place)
            bits = column.to_numpy().astype(np.float64).view(np.int64)  # null as NaN
            near = (bits + 2**28 & -(2**29)).view(np.float64)
            nulls = column.is_null().to_numpy()
            table = table.set_column(place, field, pa.array(near, mask=nulls, from_pandas=False))
    return table


def read(folder: Path | str) -> Recorded:
    """Read the recorded tables of an experiment from its folder, such as ``results/dp_gd``."""
    folder = Path(folder)
    try:
        data = {name: (folder / f"{name}.parquet").read_bytes() for name in ("cells", "runs")}
        cells, runs = decoded(data["cells"]), decoded(data["runs"])
        recorded = Recorded(_metadata(cells), cells, runs)
        belongs = recorded.about["runs"] == hashlib.sha256(data["runs"]).hexdigest()
    except FileNotFoundError:
        raise ResultsError(f"{folder} holds no tables: run its experiment first") from None
    except _UNREADABLE as error:
        raise ResultsError(
            f"the tables in {folder} cannot be read ({error}): run its experiment again, which "
            "makes them anew from the finished cells"
        ) from error
    if not belongs:
        raise ResultsError(f"the two tables in {folder} are of two runs: run its experiment again")
    if not recorded.is_analysis and not (cells.schema.equals(CELLS) and runs.schema.equals(RUNS)):
        raise ResultsError(f"{folder} has tables of other columns than this version writes")
    return recorded


def write_provenance(folder: Path, provenance: Provenance) -> None:
    """Write ``provenance.json`` next to the tables."""
    write_file(folder / "provenance.json", (json.dumps(provenance, indent=1) + "\n").encode())


def read_provenance(folder: Path) -> Provenance:
    """Read the provenance of a folder; empty if there is none."""
    with suppress(OSError, ValueError):
        provenance = json.loads((folder / "provenance.json").read_text(encoding="utf-8"))
        return provenance if isinstance(provenance, dict) else {}
    return {}


def encoded(
    table: pa.Table, about: Mapping[str, object], compression: tuple[str, int] = _FAST
) -> bytes:
    """Return a Parquet file with checksums; equal tables give equal bytes.

    ``compression`` is a codec and its level.
    """
    metadata = {_METADATA: json.dumps(dict(about), sort_keys=True).encode()}
    sink = pa.BufferOutputStream()
    # Measured numbers hardly repeat: a dictionary of them would take a third more.
    reals = {field.name for field in table.schema if pa.types.is_floating(field.type)}
    with pq.ParquetWriter(
        sink,
        table.schema.remove_metadata(),
        compression=compression[0],
        compression_level=compression[1],
        write_page_checksum=True,
        write_statistics=False,
        store_schema=False,  # it would contain the metadata a second time
        use_dictionary=[name for name in table.column_names if name not in reals],
        use_byte_stream_split=sorted(reals),
    ) as writer:
        writer.write_table(table.replace_schema_metadata(None))
        writer.add_key_value_metadata(metadata)
    return sink.getvalue().to_pybytes()


def decoded(data: bytes) -> pa.Table:
    """Return the table of a Parquet file; errors of pyarrow if it is damaged."""
    # Threads of Arrow may outlive the interpreter: the process then aborts.
    file = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True, pre_buffer=False)
    return file.read(use_threads=False)


def _metadata(table: pa.Table) -> Any:
    return json.loads((table.schema.metadata or {})[_METADATA])

"""Records: one Parquet file a finished cell, and two tables an experiment.

``cells.parquet`` says of each cell what it is, its plan and what was promised, or why its plan was
refused; ``runs.parquet`` what each run measured. They carry neither timings nor machine nor code,
so they are the same to the bit however often the experiment was interrupted, and wherever it is
run again with the same outcome. Those are kept in ``provenance.json``, and with the cells.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from privopt.lab.make.equality import equal
from privopt.lab.make.folder import ResultsError, write_file

_METADATA = b"privopt"
_SECONDS = 60.0
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
        pa.field("trial", _TEXT, nullable=False),
        pa.field("noise_factor", pa.float64(), nullable=False),  # of the mechanism's noise
        pa.field("choices", _TEXT, nullable=False),  # JSON: of the plan, swept ones included
        pa.field("axes", _TEXT, nullable=False),  # comma-joined axes and grids that the cell serves
        pa.field("replicates", pa.int64(), nullable=False),
        pa.field("root_seed", pa.int64(), nullable=False),
        pa.field("profile", _TEXT, nullable=False),
        pa.field("refused", _TEXT),  # why there is no plan; what follows is then null
        pa.field("quantity", _TEXT),  # what the runs were measured by
        # Of the plan; where it is searched for, of the one at theory's numbers.
        pa.field("upper", pa.float64()),
        pa.field("lower", pa.float64()),
        pa.field("in_regime", pa.bool_()),  # whether the term with these exponents leads
        pa.field("exponents", _TEXT),  # JSON
        pa.field("tight_on", _TEXT),
        pa.field("steps", pa.int64()),  # null where an algorithm takes none
        pa.field("spent_epsilon_upper", pa.float64()),  # null where noise is not the plan's
        pa.field("plan", _TEXT),  # JSON
        pa.field("law", pa.float64()),  # the exact expected value; null where no law is known
        pa.field("searched", _TEXT),  # JSON: what a search has chosen, oracle-tuned
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


Value = str | int | float | None
"""What an entry of a table is."""


class About(TypedDict, total=False):
    """What the tables of an experiment carry beside their rows; a study has no seed."""

    name: str
    title: str
    description: str
    profile: str
    root_seed: int
    checks: Sequence[str]
    swept: Sequence[str]
    replicates: int
    groups: Mapping[str, int]
    study: Mapping[str, object]
    data: Sequence[str]  # data sets that a study has read
    runs: str


class Provenance(TypedDict, total=False):
    """What made the tables of an experiment, and the seconds that every cell took."""

    privopt: str
    profile: str
    date: str
    environment: Mapping[str, str]
    code: str
    cells: int
    reused: int
    run_seconds: float
    compile_seconds: float
    programs_read: int
    per_cell: Sequence[Mapping[str, Value]]


class Kept(NamedTuple):
    """What is kept of a finished cell: its runs, and what was measured of it as a whole."""

    values: pa.Table
    facts: Mapping[str, Value]
    run_seconds: float
    compile_seconds: float


class Recorded(NamedTuple):
    """What is recorded of an experiment."""

    about: About
    cells: pa.Table  # a row for each cell, or for each part of a study
    runs: pa.Table  # a row for each run, or for each row of a part

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


def cell_path(folder: Path, key: str) -> Path:
    """Where the cell of that key is kept."""
    return folder / "cells" / f"{key}.parquet"


def write_cell(path: Path, kept: Kept) -> None:
    """Keep one finished cell, whole or not at all."""
    seconds = {"run_seconds": kept.run_seconds, "compile_seconds": kept.compile_seconds}
    told = {"key": path.stem, "facts": kept.facts, **seconds}
    checksum = _checksum(kept.values, told)
    write_file(path, encoded(kept.values, {**told, "checksum": checksum}))


def read_cell(path: Path, fits: Callable[[pa.Table], bool]) -> Kept:
    """One finished cell; ``FileNotFoundError`` if it is not finished.

    A file that is not whole, fails its checksums, is not of the cell that its name says or does
    not ``fit`` is a ``DamagedCellError``.
    """
    try:
        values = decoded(path.read_bytes())
        told = _about(values)
        kept = Kept(values, told["facts"], told["run_seconds"], told["compile_seconds"])
        whole = told.pop("checksum") == _checksum(values, told)
        sound = fits(values) and told["key"] == path.stem and whole
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError, ValueError, LookupError, TypeError) as error:
        raise DamagedCellError(f"{path}: {error}") from error
    if not sound:
        raise DamagedCellError(f"{path}: damaged, or not the cell that its name says")
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


def recorded_names(results: Path) -> list[str]:
    """Every experiment whose tables are there, in the order of their names."""
    return sorted(path.parent.name for path in results.glob("*/cells.parquet"))


def write_recorded(folder: Path, recorded: Recorded) -> bool | None:
    """Keep the two tables of an experiment; whether they equal the committed ones.

    ``None`` where none is committed. A committed table that says the same is kept, digits that
    another machine rounds otherwise included. The table of cells is written last and names the
    table of runs that it belongs to.
    """
    known, about, digest = dict[str, bool | None](), recorded.about, ""
    runs = recorded.runs if recorded.is_study else rounded(recorded.runs)
    for name, table in (("runs", runs), ("cells", recorded.cells)):
        path = folder / f"{name}.parquet"
        told: About = {"name": about["name"]} if name == "runs" else {**about, "runs": digest}
        data, before = encoded(table, told), _committed(path)
        known[name] = None if before is None else _say_the_same(data, before)
        if before is not None and known[name]:
            data = before
        write_file(path, data)
        digest = hashlib.sha256(data).hexdigest()
    return None if None in known.values() else all(known.values())


def rounded(table: pa.Table) -> pa.Table:
    """Its real numbers to 24 bits, which take half of the bytes: of measured runs.

    That is a sixteenth of what two equal tables may be apart. Rows of studies stay as they are:
    they hold certified intervals, whose ends must not move inwards.
    """
    for place, field in enumerate(table.schema):
        if field.type == pa.float64():
            column = table.column(place)
            bits = column.to_numpy().astype(np.float64).view(np.int64)  # null as NaN
            near = (bits + 2**28 & -(2**29)).view(np.float64)
            nulls = column.is_null().to_numpy()
            table = table.set_column(place, field, pa.array(near, mask=nulls, from_pandas=False))
    return table


def read(folder: Path | str) -> Recorded:
    """What is recorded of an experiment in its folder, as ``results/dp_gd``."""
    folder = Path(folder)
    try:
        data = {name: (folder / f"{name}.parquet").read_bytes() for name in ("cells", "runs")}
        cells, runs = decoded(data["cells"]), decoded(data["runs"])
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


def write_provenance(folder: Path, provenance: Provenance) -> None:
    """Keep what made the tables beside them, with timings, in ``provenance.json``."""
    write_file(folder / "provenance.json", (json.dumps(provenance, indent=1) + "\n").encode())


def read_provenance(folder: Path) -> Provenance:
    """What made the tables of a folder; empty where that is not kept."""
    with suppress(OSError, ValueError):
        found: Provenance = json.loads((folder / "provenance.json").read_text(encoding="utf-8"))
        return found if isinstance(found, dict) else {}
    return {}


def encoded(table: pa.Table, about: Mapping[str, object]) -> bytes:
    """Return a Parquet file with checksums: the same bytes for the same table and ``about``.

    Measured numbers hardly repeat: a dictionary of them would take a third more.
    """
    metadata = {_METADATA: json.dumps(dict(about), sort_keys=True).encode()}
    sink = pa.BufferOutputStream()
    ours = table.replace_schema_metadata(metadata)
    reals = {field.name for field in ours.schema if pa.types.is_floating(field.type)}
    pq.write_table(
        ours,
        sink,
        compression="zstd",
        write_page_checksum=True,
        use_dictionary=[name for name in ours.column_names if name not in reals],
        use_byte_stream_split=sorted(reals),
    )
    return sink.getvalue().to_pybytes()


def _checksum(table: pa.Table, told: Mapping[str, object]) -> str:
    """Of what Parquet has no checksum for: the columns' names and kinds, and what is told."""
    columns = table.schema.remove_metadata().to_string()
    return hashlib.sha256(f"{columns} {json.dumps(told, sort_keys=True)}".encode()).hexdigest()


def decoded(data: bytes) -> pa.Table:
    """Return the table that was encoded; pyarrow's own errors if it is not whole."""
    # Without Arrow's threads, which may outlive the interpreter: the process then aborts.
    file = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True, pre_buffer=False)
    return file.read(use_threads=False)


def _about(table: pa.Table) -> Any:
    """What a table says about itself, as it was told to ``encoded``."""
    return json.loads((table.schema.metadata or {})[_METADATA])


def _say_the_same(ours: bytes, theirs: bytes) -> bool:
    try:
        return equal(decoded(ours), decoded(theirs))
    except (pa.ArrowException, ValueError):  # of another version
        return False


def _committed(path: Path) -> bytes | None:
    """The file at ``path`` as the last commit of its repository has it; ``None`` if none does."""
    command = ["git", "-C", str(path.parent), "show", f"HEAD:./{path.name}"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None

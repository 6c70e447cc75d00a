"""Pieces of an experiment, each kept as soon as it is finished, and what they left behind."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import jax
import pyarrow as pa

from privopt.lab.make.folder import claimed, write_file
from privopt.lab.make.records import (
    DamagedCellError,
    committed,
    encode,
    equal,
    parse,
    set_aside,
    timing,
    write_cell,
    write_provenance,
)

__all__ = [
    "CompileClock", "Drawing", "Event", "Finished", "Named", "Note", "Piece", "Progress",
    "Shared", "Started", "SweepResult", "compile_clock", "conclude", "resume",
]  # fmt: skip

_PATIENCE = 0.2
"""Seconds between looks at pieces that other processes make."""


class Named(Protocol):
    """What a piece is of: a cell of a sweep, or a part of a study."""

    @property
    def experiment(self) -> str:
        """The name of its experiment."""

    @property
    def label(self) -> str:
        """For people."""


@dataclass(frozen=True)
class Started:
    """All cells are planned; ``reused`` of ``total`` are there already."""

    experiment: str
    total: int
    reused: int


@dataclass(frozen=True)
class Finished:
    """One more cell is kept."""

    cell: Named
    run_seconds: float
    compile_seconds: float


@dataclass(frozen=True)
class Shared:
    """One more cell is there, which another process made meanwhile."""

    cell: Named


@dataclass(frozen=True)
class Note:
    """Something the user should know: what was left out, left alone or moved aside."""

    experiment: str
    text: str


@dataclass(frozen=True)
class Drawing:
    """The figures of one more experiment are about to be drawn, ``number`` of ``total``."""

    experiment: str
    number: int
    total: int


Event = Started | Finished | Shared | Note | Drawing
Progress = Callable[[Event], object]


@dataclass(frozen=True)
class Piece:
    """What is kept by itself.

    Attributes
    ----------
    cell : Named
    path : Path
        Its file, named by a key of everything that changes it.
    measure : callable
        Makes its rows.
    read : callable
        Reads them; raises as :func:`read_kept`.
    """

    cell: Named
    path: Path
    measure: Callable[[], pa.Table]
    read: Callable[[Path], pa.Table]


@dataclass(frozen=True)
class SweepResult:
    """What a run left behind.

    Attributes
    ----------
    table : Path
        Of the rows of every cell, in the order of the experiment.
    cells, reused : int
        All cells, and those that another run has made, before or meanwhile.
    run_seconds, compile_seconds : float
        Spent on all cells, by whichever run made them.
    as_committed : bool or None
        Whether the table equals the committed one, whose bytes it then has; ``None`` where none is
        committed.
    """

    table: Path
    cells: int
    reused: int
    run_seconds: float
    compile_seconds: float
    as_committed: bool | None = None


def resume(
    experiment: str, pieces: Sequence[Piece], progress: Progress
) -> tuple[list[pa.Table], int]:
    """The rows of every piece, those not there yet being made and kept; and how many were there.

    Other processes may be making pieces of the same folder: theirs are left to them while there
    are others to make, and then waited for. A process that ends leaves its piece to the rest.
    """
    rows = {
        piece.path: found for piece in pieces if (found := _recall(piece, progress)) is not None
    }
    _note_strangers(experiment, [piece.path for piece in pieces], progress)
    progress(Started(experiment, total=len(pieces), reused=len(rows)))
    made, waiting = 0, False
    missing = [piece for piece in pieces if piece.path not in rows]
    while missing:
        held = []
        for piece in missing:
            with claimed(piece.path) as ours:
                found = _recall(piece, progress)
                if found is not None:
                    progress(Shared(piece.cell))
                elif ours:
                    found, made = _run(piece, progress), made + 1
            if found is None:
                held.append(piece)
            else:
                rows[piece.path] = found
        if held and not waiting:
            text = f"waiting for {len(held)} of {len(pieces)} cells that another process runs"
            progress(Note(experiment, text))
            waiting = True
        if len(held) == len(missing):
            time.sleep(_PATIENCE)
        missing = held
    return [rows[piece.path] for piece in pieces], len(pieces) - made


def conclude(
    path: Path,
    table: pa.Table,
    about: Mapping[str, Any],
    cells: Sequence[tuple[Named, pa.Table]],
    reused: int,
    made_by: Mapping[str, Any],
) -> SweepResult:
    """Write the table and, apart from it, what made it and how long that took.

    Where the committed table says the same it is kept, digits that another machine rounds
    otherwise included.
    """
    seconds = [timing(rows) for _, rows in cells]
    run_seconds, compile_seconds = (float(sum(part)) for part in zip(*seconds, strict=True))
    written, known = encode(table, about), committed(path)
    as_committed = None if known is None else _is_equal(written, known)
    write_file(path, known if known is not None and as_committed else written)
    provenance = {
        **made_by,
        "profile": about["profile"],
        "cells": len(cells),
        "reused": reused,
        "run_seconds": run_seconds,
        "compile_seconds": compile_seconds,
        "per_cell": [
            {"cell": cell.label, "run_seconds": ran, "compile_seconds": compiled}
            for (cell, _), (ran, compiled) in zip(cells, seconds, strict=True)
        ],
    }
    write_provenance(path.parent, provenance)
    return SweepResult(path, len(cells), reused, run_seconds, compile_seconds, as_committed)


def _is_equal(ours: bytes, theirs: bytes) -> bool:
    try:
        return equal(parse(ours), parse(theirs))
    except (pa.ArrowException, LookupError, TypeError, ValueError):  # of another version
        return False


def _recall(piece: Piece, progress: Progress) -> pa.Table | None:
    """The rows of a finished piece, or ``None``; a damaged file is moved aside."""
    try:
        return piece.read(piece.path)
    except FileNotFoundError:
        return None
    except DamagedCellError as error:
        aside = set_aside(piece.path)
        text = f"damaged cell moved to {aside.name}, and run again ({error})"
        progress(Note(piece.cell.experiment, text))
        return None


def _run(piece: Piece, progress: Progress) -> pa.Table:
    begin = time.perf_counter()
    with compile_clock() as clock:
        rows = piece.measure()
    run_seconds = time.perf_counter() - begin - clock.seconds
    write_cell(piece.path, rows, run_seconds=run_seconds, compile_seconds=clock.seconds)
    progress(Finished(piece.cell, run_seconds, clock.seconds))
    return piece.read(piece.path)


def _note_strangers(experiment: str, paths: Iterable[Path], progress: Progress) -> None:
    known = set(paths)
    for folder in {path.parent for path in known}:
        strangers = set(folder.glob("*.parquet")) - known
        if strangers:
            text = (
                f"{len(strangers)} cells in {folder} come from other code or settings: "
                "left alone, not used"
            )
            progress(Note(experiment, text))


_STAGES = "/jax/core/compile/"
_COMPILED = "/jax/core/compile/backend_compile_duration"


class CompileClock:
    """What was compiled since the clock was started.

    Attributes
    ----------
    seconds : float
        Time during which something was traced, lowered or compiled; nested stages count once.
    programs : list of str
        Names of the programs compiled.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self.programs: list[str] = []
        self._stages: list[tuple[float, float]] = []

    def hear(self, event: str, duration_secs: float, **details: str | int) -> None:
        """Note one event of ``jax.monitoring``, which is told when its stage ends."""
        if not event.startswith(_STAGES):
            return
        if event == _COMPILED:
            self.programs.append(str(details.get("fun_name", "")))
        end = time.perf_counter()
        begin = end - duration_secs
        while self._stages and self._stages[-1][0] >= begin:
            inner = self._stages.pop()
            self.seconds -= inner[1] - inner[0]
        if self._stages:
            begin = max(begin, self._stages[-1][1])
        self._stages.append((begin, end))
        self.seconds += end - begin


@contextmanager
def compile_clock() -> Iterator[CompileClock]:
    """A clock that runs within the block."""
    clock = CompileClock()
    jax.monitoring.register_event_duration_secs_listener(clock.hear)
    try:
        yield clock
    finally:
        jax.monitoring.unregister_event_duration_listener(clock.hear)

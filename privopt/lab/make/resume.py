"""Cells of an experiment, each kept as soon as it is finished, whichever process finishes it."""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import jax
import pyarrow as pa

from privopt.lab.make.lease import leased
from privopt.lab.make.records import (
    DamagedCellError,
    Kept,
    Value,
    cell_path,
    read_cell,
    set_aside,
    write_cell,
)

_PATIENCE = 0.2
"""Seconds between looks at cells that other processes make."""

_WORKERS = 2
"""One runs while another compiles."""

_STAGES = "/jax/core/compile/"
_COMPILED = "/jax/core/compile/backend_compile_duration"


# --- what is told as it goes ----------------------------------------------------------------------


@dataclass(frozen=True)
class Started:
    """All cells are planned; ``reused`` of ``total`` are there already, ``missing`` are to come."""

    experiment: str
    total: int
    reused: int
    missing: Sequence[Piece] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True)
class Finished:
    """One more cell is kept."""

    experiment: str
    cell: str
    run_seconds: float
    compile_seconds: float


@dataclass(frozen=True)
class Shared:
    """One more cell is there, which another process made meanwhile."""

    experiment: str
    cell: str


@dataclass(frozen=True)
class Note:
    """Something the user should know: what was left out, refused, left alone or moved aside."""

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


def print_notes(event: Event) -> None:
    """What the user should know, to standard error; nothing else."""
    if isinstance(event, Note):
        print(f"{event.experiment}: {event.text}", file=sys.stderr)


# --- cells ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Piece:
    """A cell of a sweep or a part of a study: what is kept by itself."""

    label: str  # for people
    facts: Mapping[str, Value]  # its row in the table of cells, but for what is measured
    key: str = ""  # digest of all that determines what is measured; names its file
    code: str = ""  # digest of the code alone
    make: Callable[[], tuple[pa.Table, Mapping[str, Value]]] | None = None  # rows of runs, facts
    fits: Callable[[pa.Table], bool] = field(
        default=lambda values: values.num_rows > 0
    )  # may this table be its runs
    program: Hashable = None  # pieces of one share what is compiled


def resume(
    experiment: str,
    pieces: Sequence[Piece],
    folder: Path,
    progress: Progress,
    *,
    one_of_many: bool = False,
    share: tuple[int, int] = (1, 1),
) -> tuple[list[Kept | None], int]:
    """What is kept of every piece, those not there yet being made; and how many were there.

    Pieces of one program are made one after another; two programs are worked on at a time, so that
    one compiles while the other runs. What is measured depends on neither. A piece that has
    nothing to ``make`` is ``None``.

    Other processes may be making pieces in the same folder: theirs are left to them while there
    are others to make, and then waited for. A process that ends leaves its piece to the rest.
    ``one_of_many`` does not wait, and begins at a program of its own: others compile the first. Of
    ``share = (i, k)`` only pieces ``i, i + k, ..`` are looked at.
    """
    wanted = [piece for piece in pieces if piece.make is not None]
    work = _Work(experiment, folder, progress)
    _note_strangers(experiment, folder, {piece.key for piece in wanted}, progress)
    wanted = wanted[share[0] - 1 :: share[1]]
    missing = [piece for piece in wanted if work.recall(piece) is None]
    reused, groups = len(wanted) - len(missing), _by_program(missing)
    progress(Started(experiment, len(wanted), reused, missing))
    if one_of_many:
        random.shuffle(groups)
    waiting = False
    while groups:
        held = work.make(groups)
        if one_of_many:
            break
        if held and not waiting:
            text = f"waiting for {len(held)} of {len(wanted)} cells that another process runs"
            progress(Note(experiment, text))
            waiting = True
        if len(held) == len(missing):
            time.sleep(_PATIENCE)
        missing, groups = held, _by_program(held)
    return [work.kept.get(piece.key) for piece in pieces], len(wanted) - work.made


def _by_program(pieces: Sequence[Piece]) -> list[list[Piece]]:
    """The pieces of each program together, in the order of their first ones."""
    groups: dict[Hashable, list[Piece]] = {}
    for piece in pieces:
        groups.setdefault(piece.program, []).append(piece)
    return list(groups.values())


class _Work:
    """What is kept so far, and how more is made."""

    def __init__(self, experiment: str, folder: Path, progress: Progress) -> None:
        self.kept: dict[str, Kept] = {}
        self.made = 0
        self._experiment, self._folder, self._progress = experiment, folder, progress
        self._telling, self._ended = threading.Lock(), threading.Event()

    def recall(self, piece: Piece) -> Kept | None:
        """A finished piece, or ``None``; a damaged file is moved aside."""
        path = cell_path(self._folder, piece.key)
        try:
            self.kept[piece.key] = read_cell(path, piece.fits)
        except FileNotFoundError:
            return None
        except DamagedCellError as error:
            text = f"damaged cell moved to {set_aside(path).name}, and run again ({error})"
            self._tell(Note(self._experiment, text))
            return None
        return self.kept[piece.key]

    def make(self, groups: Sequence[list[Piece]]) -> list[Piece]:
        """Make the pieces of every group; those that another process holds come back."""
        if len(groups) == 1:
            return self._group(groups[0])
        with ThreadPoolExecutor(_WORKERS) as workers:
            found = [workers.submit(self._group, group) for group in groups]
            try:
                return [piece for each in found for piece in each.result()]
            except BaseException:
                self._ended.set()
                workers.shutdown(cancel_futures=True)
                raise

    def _group(self, pieces: Sequence[Piece]) -> list[Piece]:
        held = []
        for piece in pieces:
            if self._ended.is_set():
                break
            path = cell_path(self._folder, piece.key)
            with leased(path) as ours:
                if self.recall(piece) is not None:
                    self._tell(Shared(self._experiment, piece.label))
                elif ours:
                    self._run(piece, path)
                else:
                    held.append(piece)
        return held

    def _run(self, piece: Piece, path: Path) -> None:
        assert piece.make is not None
        begin = time.perf_counter()
        with compile_clock() as clock:
            values, facts = piece.make()
        run_seconds = time.perf_counter() - begin - clock.seconds
        write_cell(path, Kept(values, facts, run_seconds, clock.seconds))
        self.kept[piece.key] = read_cell(path, piece.fits)
        self._tell(Finished(self._experiment, piece.label, run_seconds, clock.seconds))

    def _tell(self, event: Event) -> None:
        with self._telling:
            self.made += isinstance(event, Finished)
            self._progress(event)


def _note_strangers(experiment: str, folder: Path, keys: set[str], progress: Progress) -> None:
    cells = folder / "cells"
    strangers = {path.stem for path in cells.glob("*.parquet")} - keys
    if strangers:
        text = f"{len(strangers)} cells in {cells} come from other code or settings"
        progress(Note(experiment, f"{text}: left alone, not used"))


# --- the clock ------------------------------------------------------------------------------------


class CompileClock:
    """What its thread has compiled since the clock was started."""

    def __init__(self) -> None:
        self.seconds = 0.0  # in which something was compiled; nested stages count once
        self.programs: list[str] = []  # names
        self._stages: list[tuple[float, float]] = []
        self._thread = threading.get_ident()

    def hear(self, event: str, duration_secs: float, **details: str | int) -> None:
        """Note one event of ``jax.monitoring``, which is told when its stage ends."""
        if not event.startswith(_STAGES) or threading.get_ident() != self._thread:
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

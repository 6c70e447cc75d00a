"""Execution of tasks: cells are cached one by one, and several processes share one folder."""

from __future__ import annotations

import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from textwrap import shorten

import jax
import pyarrow as pa
from filelock import FileLock, Timeout

from privopt.lab.runner.store import (
    CachedResult,
    DamagedCellError,
    ResultsError,
    Value,
    cell_path,
    read_cell,
    set_aside,
    write_cell,
)

_POLL = 0.2  # seconds between checks of the cells of other processes
_WORKERS = 2  # threads: one runs while another compiles

_MAX_ERROR = 500  # characters

_STAGES = "/jax/core/compile/"
_COMPILED = "/jax/core/compile/backend_compile_duration"


# --- events ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Started:
    """Event: all cells are planned; ``reused`` of ``total`` are finished."""

    experiment: str
    total: int
    reused: int


@dataclass(frozen=True)
class Finished:
    """Event: this process has run a cell."""

    experiment: str
    cell: str
    run_seconds: float
    compile_seconds: float


@dataclass(frozen=True)
class Shared:
    """Event: another process has finished a cell."""

    experiment: str
    cell: str


@dataclass(frozen=True)
class Note:
    """Event: a message about omitted, refused or damaged cells.

    It is not ``urgent`` if it is about refused plans, or about cells in the folder that are not
    used.
    """

    experiment: str
    text: str
    urgent: bool = True


@dataclass(frozen=True)
class Drawing:
    """Event: the figures of experiment ``number`` of ``total`` are being plotted."""

    experiment: str
    number: int
    total: int


Event = Started | Finished | Shared | Note | Drawing
Progress = Callable[[Event], object]


def print_notes(event: Event) -> None:
    """Print notes to standard error, and no other event."""
    if isinstance(event, Note):
        print(f"{event.experiment}: {event.text}", file=sys.stderr)


# --- tasks ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Task:
    """A cell of a sweep or a part of an analysis."""

    label: str
    facts: Mapping[str, Value]  # row of the table of cells, without measured columns
    key: str = ""  # digest of the inputs; names the file
    code: str = ""  # digest of the code
    make: Callable[[], tuple[pa.Table, Mapping[str, Value]]] | None = None  # runs, facts
    program: Hashable = None  # tasks with equal keys share compiled programs
    may_fail: bool = False  # True if an error becomes a row of the table


def resume(
    experiment: str,
    tasks: Sequence[Task],
    folder: Path,
    progress: Progress,
    *,
    one_of_many: bool = False,
    share: tuple[int, int] = (1, 1),
) -> tuple[list[CachedResult | str | None], int]:
    """Return the result of every task, or its error, and the number of reused results.

    Tasks of one program run one after another. Two programs are processed at a time, so that one
    compiles while the other runs. A task without ``make`` gives ``None``.

    A task that is locked by another process is left for later, and then waited for. Its lock ends
    with the process. ``one_of_many`` does not wait, and shuffles the programs, because other
    processes compile the first one. With ``share = (i, k)``, only tasks ``i, i + k, ..`` are
    processed.
    """
    runnable = [task for task in tasks if task.make is not None]
    work = _Work(experiment, folder, progress)
    _note_unknown_files(experiment, folder, {task.key for task in runnable}, progress)
    runnable = runnable[share[0] - 1 :: share[1]]
    missing = [task for task in runnable if work.read(task) is None]
    progress(Started(experiment, len(runnable), len(runnable) - len(missing)))
    groups = _by_program(missing)
    if one_of_many:
        random.shuffle(groups)
    waiting = False
    while groups:
        locked = work.run(groups)
        if one_of_many:
            break
        if locked and not waiting:
            text = f"waiting for {len(locked)} of {len(runnable)} cells that another process runs"
            progress(Note(experiment, text))
            waiting = True
        if len(locked) == len(missing):
            time.sleep(_POLL)
        missing, groups = locked, _by_program(locked)
    errors = Counter(error for error in work.results.values() if isinstance(error, str))
    for error, count in errors.items():
        progress(Note(experiment, f"{count} of {len(runnable)} cells {error}"))
    return [work.results.get(task.key) for task in tasks], len(runnable) - work.finished


def _by_program(tasks: Sequence[Task]) -> list[list[Task]]:
    """Group tasks by program, in the order of their first tasks."""
    groups: dict[Hashable, list[Task]] = {}
    for task in tasks:
        groups.setdefault(task.program, []).append(task)
    return list(groups.values())


class _Work:
    """Results so far, by key."""

    def __init__(self, experiment: str, folder: Path, progress: Progress) -> None:
        self.results: dict[str, CachedResult | str] = {}
        self.finished = 0  # including failed ones
        self._experiment, self._folder, self._progress = experiment, folder, progress
        self._reporting, self._stopped = threading.Lock(), threading.Event()

    def read(self, task: Task) -> CachedResult | None:
        """Return a finished result, or ``None``. A damaged file is renamed."""
        path = cell_path(self._folder, task.key)
        try:
            result = read_cell(path)
        except FileNotFoundError:
            return None
        except DamagedCellError as error:
            text = f"damaged cell moved to {set_aside(path).name}, and run again ({error})"
            self._report(Note(self._experiment, text))
            return None
        self.results[task.key] = result
        return result

    def run(self, groups: Sequence[list[Task]]) -> list[Task]:
        """Run the tasks of every group, and return the tasks that other processes have locked."""
        if len(groups) == 1:
            return self._run_group(groups[0])
        with ThreadPoolExecutor(_WORKERS) as workers:
            futures = [workers.submit(self._run_group, group) for group in groups]
            try:
                return [task for future in futures for task in future.result()]
            except BaseException:
                self._stopped.set()
                workers.shutdown(cancel_futures=True)
                raise

    def _run_group(self, tasks: Sequence[Task]) -> list[Task]:
        locked = []
        for task in tasks:
            if self._stopped.is_set():
                break
            path = cell_path(self._folder, task.key)
            with lock(path) as acquired:
                if self.read(task) is not None:
                    self._report(Shared(self._experiment, task.label))
                elif acquired:
                    self._run_task(task, path)
                else:
                    locked.append(task)
        return locked

    def _run_task(self, task: Task, path: Path) -> None:
        assert task.make is not None
        start, error = time.perf_counter(), ""
        with compile_clock() as clock:
            try:
                values, facts = task.make()
            except Exception as exception:
                if not task.may_fail:
                    raise
                text = shorten(str(exception), _MAX_ERROR)
                error = f"failed: {type(exception).__name__}: {text}"
        run_seconds = time.perf_counter() - start - clock.seconds
        if error:
            self.results[task.key] = error
        else:
            write_cell(path, CachedResult(values, facts, run_seconds, clock.seconds))
            self.results[task.key] = read_cell(path)
        self._report(Finished(self._experiment, task.label, run_seconds, clock.seconds))

    def _report(self, event: Event) -> None:
        with self._reporting:
            self.finished += isinstance(event, Finished)
            self._progress(event)


@contextmanager
def lock(path: Path) -> Iterator[bool]:
    """Lock the file of a cell, and yield False if another process or thread holds the lock.

    The system releases the lock of a process that ends. A slow or stopped process keeps it. The
    lock file is removed once the cell exists: a process that locks the removed file finds the cell.
    """
    name = path.with_suffix(".lock")
    file_lock, acquired = FileLock(name), True
    try:
        name.parent.mkdir(parents=True, exist_ok=True)
        file_lock.acquire(blocking=False)
    except Timeout:
        acquired = False
    except OSError as error:
        raise ResultsError(f"{name} cannot be written: {error.strerror}") from error
    try:
        yield acquired
    finally:
        if acquired:
            if path.exists():
                with suppress(OSError):
                    name.unlink(missing_ok=True)
            file_lock.release()


def _note_unknown_files(experiment: str, folder: Path, keys: set[str], progress: Progress) -> None:
    cells = folder / "cells"
    unknown = {path.stem for path in cells.glob("*.parquet")} - keys
    if unknown:
        text = f"{len(unknown)} cells in {cells} come from other code or settings"
        progress(Note(experiment, f"{text}: left alone, not used", urgent=False))


# --- compilation ----------------------------------------------------------------------------------


class CompileClock:
    """Compilation time and programs of the thread that created the clock."""

    def __init__(self) -> None:
        self.programs: list[str] = []  # names
        self._stages: list[tuple[float, float]] = []  # start and end; stages can be nested
        self._thread = threading.get_ident()

    @property
    def seconds(self) -> float:
        """Length of the union of all stages."""
        total, covered = 0.0, 0.0
        for start, end in sorted(self._stages):
            total += max(0.0, end - max(start, covered))
            covered = max(covered, end)
        return total

    def hear(self, event: str, duration_secs: float, **details: str | int) -> None:
        """Record an event of ``jax.monitoring``, which arrives at the end of its stage."""
        if event.startswith(_STAGES) and threading.get_ident() == self._thread:
            end = time.perf_counter()
            self._stages.append((end - duration_secs, end))
            if event == _COMPILED:
                self.programs.append(str(details.get("fun_name", "")))


@contextmanager
def compile_clock() -> Iterator[CompileClock]:
    """Yield a clock that runs within the block."""
    clock = CompileClock()
    jax.monitoring.register_event_duration_secs_listener(clock.hear)
    try:
        yield clock
    finally:
        jax.monitoring.unregister_event_duration_listener(clock.hear)

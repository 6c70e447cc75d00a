"""What a terminal shows of a sweep: bars or plain lines as it goes, verdicts at its end."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType, TracebackType
from typing import Self

from rich.console import Console, Group
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table as RichTable

from privopt.lab.make.resume import WORKERS, Drawing, Event, Finished, Note, Shared, Started
from privopt.lab.show.overview import verdict_tables
from privopt.lab.show.table import GRADES, Entry, Table
from privopt.lab.show.verdict import Verdict

__all__ = ["Display", "verdict_table"]

_LINES = 10
_COMPILES = 0.05
"""Seconds of tracing and compiling from which on a cell has compiled its program."""

_COLOURS = {"good": "green", "bad": "red", "odd": "magenta", "open": "yellow", "idle": "dim"}


@dataclass
class _Tally:
    """How far one experiment has come."""

    total: int
    done: int
    programs: int = 0
    size: int = 0
    new: int = 0
    made: int = 0
    compiled: int = 0
    running: float = 0.0
    compiling: float = 0.0

    def add(self, event: Finished | Shared) -> None:
        self.done += 1
        self.size -= event.size
        if isinstance(event, Finished):
            self.new += 1
            self.made += event.size
            self.compiled += event.compile_seconds > _COMPILES
            self.running += event.run_seconds
            self.compiling += event.compile_seconds

    @property
    def spent(self) -> float:
        """Seconds of work so far."""
        return self.running + self.compiling

    @property
    def left(self) -> float:
        """Seconds of work to come, if runs take and programs compile like those so far."""
        programs = max(self.programs - self.compiled, 0)
        running = self.size * self.running / max(self.made, 1)
        return running + programs * self.compiling / max(self.compiled, 1)


class Display:
    """A ``progress`` for :func:`privopt.lab.make.run`; use it in a ``with`` block.

    Parameters
    ----------
    console : rich.console.Console
        Bars if it is a terminal, else plain lines: cells done, time left in all, compile time
        apart.
    past : mapping of str to number or None
        Of every experiment to come, in their order, the seconds of work that an earlier run took.
    """

    def __init__(
        self, console: Console, past: Mapping[str, float | None] = MappingProxyType({})
    ) -> None:
        self._console = console
        self._past = dict(past)
        self._begin = time.monotonic()
        self._tallies: dict[str, _Tally] = {}
        self._tasks: dict[str, TaskID] = {}
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[said]}"),
            console=console,
            disable=not console.is_terminal,
        )

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bars.stop()

    def __call__(self, event: Event) -> None:
        """Show one event."""
        match event:
            case Note():
                self._line(event.experiment, event.text)
            case Started():
                self._started(event)
            case Finished() | Shared():
                self._finished(event)
            case Drawing():
                self._drawing(event)

    def _started(self, event: Started) -> None:
        name = event.experiment
        self._past.setdefault(name)
        self._tallies[name] = _Tally(event.total, event.reused, event.programs, event.size)
        self._tasks[name] = self._bars.add_task(
            self._place(name), total=event.total, completed=event.reused, said=""
        )
        if event.reused or not self._console.is_terminal:
            there = f", {event.reused} of them there already" if event.reused else ""
            self._line(name, f"{event.total} cells{there}")
        if event.reused == event.total:
            self._bars.remove_task(self._tasks[name])

    def _finished(self, event: Finished | Shared) -> None:
        name = event.experiment
        tally = self._tallies[name]
        tally.add(event)
        left = f"about {_duration(self._seconds_left())} left"
        said = f"{left}, compiling {tally.compiling:.0f} s"
        self._bars.update(self._tasks[name], advance=1, said=said)
        is_last = tally.done == tally.total
        if is_last:
            self._bars.remove_task(self._tasks[name])
        if is_last or (_is_due(tally.done, tally.total) and not self._console.is_terminal):
            self._line(
                name,
                f"{tally.done}/{tally.total} cells, {tally.running:.1f} s running and "
                f"{tally.compiling:.1f} s compiling, {left}",
            )

    def _drawing(self, event: Drawing) -> None:
        if "" not in self._tasks:
            self._tasks[""] = self._bars.add_task("figures and report", total=event.total, said="")
        if not self._console.is_terminal and _is_due(event.number, event.total):
            self._line("figures and report", f"{event.number}/{event.total}, {event.experiment}")
        self._bars.update(self._tasks[""], completed=event.number, said=event.experiment)

    def _seconds_left(self) -> float:
        """Until everything is done, at the pace of this run.

        An experiment to come takes as long as in an earlier run, or where there was none, as those
        of this run on average. As several cells are worked on at a time, an hour has more hours
        of work; how many, shows in what is done.
        """
        tallies = [tally for tally in self._tallies.values() if tally.new]
        average = sum(tally.spent + tally.left for tally in tallies) / max(len(tallies), 1)
        to_come = (past for name, past in self._past.items() if name not in self._tallies)
        left = sum(tally.left for tally in tallies)
        left += sum(average if past is None else past for past in to_come)
        spent = sum(tally.spent for tally in tallies)
        pace = spent / max(time.monotonic() - self._begin, 1.0)
        return left / min(max(pace, 1.0), WORKERS)

    def _place(self, experiment: str) -> str:
        """The experiment's name, and which of several it is."""
        names = list(self._past)
        if len(names) < 2 or experiment not in names:
            return experiment
        return f"experiment {names.index(experiment) + 1} of {len(names)}, {experiment}"

    def _line(self, experiment: str, text: str) -> None:
        line = f"{self._place(experiment)}: {text}"
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)


def _is_due(done: int, total: int) -> bool:
    """Whether a tenth of the whole has passed since the last line."""
    return done * _LINES // total > (done - 1) * _LINES // total


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100.0 else f"{seconds / 60.0:.0f} min"


def verdict_table(verdicts: Sequence[Verdict]) -> Group:
    """The tables of a report, for a terminal."""
    return Group(*map(_table, verdict_tables(verdicts)))


def _table(shown: Table) -> RichTable:
    """Without the columns in which nothing stands."""
    kept = [i for i in range(len(shown.head)) if {row[i] for row in shown.rows} != {"–"}]
    table = RichTable(*(shown.head[i] for i in kept), title=shown.caption, title_justify="left")
    for column in table.columns:
        column.overflow = "fold"
    for row in shown.rows:
        table.add_row(*(_entry(row[i]) for i in kept))
    return table


def _entry(entry: Entry | str) -> str:
    if isinstance(entry, str):
        return escape(entry)
    text, note = escape(entry.text), f"\n{escape(entry.note)}" if entry.note else ""
    colour = _COLOURS[GRADES[entry.outcome]] if entry.outcome in GRADES else ""
    return f"[{colour}]{text}[/{colour}]{note}" if colour else f"{text}{note}"

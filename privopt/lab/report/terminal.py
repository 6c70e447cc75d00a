"""Progress bars of a sweep and tables of verdicts for a terminal."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
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
    TimeRemainingColumn,
)
from rich.table import Table as RichTable

from privopt.lab.evaluation.verdict import Verdict
from privopt.lab.report.tables import Entry, ReportTable, verdict_tables
from privopt.lab.runner.work import Drawing, Event, Finished, Note, Shared, Started

_LINES = 10
_COLOURS = {"good": "green", "bad": "red", "odd": "magenta", "open": "yellow", "idle": "dim"}


@dataclass
class _Tally:
    """Number of finished cells of one experiment, and the seconds spent on new ones."""

    total: int
    done: int
    running: float = 0.0
    compiling: float = 0.0
    new: int = 0
    start: float = field(default_factory=time.monotonic)

    def __str__(self) -> str:
        seconds = f"{self.running:.1f} s running and {self.compiling:.1f} s compiling"
        return f"{self.done}/{self.total} cells, {seconds}{self._remaining()}"

    def _remaining(self) -> str:
        """Estimate the time left from the finished cells."""
        if self.done == self.total or not self.new:
            return ""
        seconds = (time.monotonic() - self.start) / self.new * (self.total - self.done)
        return f", about {timedelta(seconds=round(seconds))} left"


class Display:
    """A ``progress`` for :func:`privopt.lab.run`; use it in a ``with`` block.

    Parameters
    ----------
    console : rich.console.Console
        Bars are drawn if it is a terminal, otherwise plain lines are printed.
    names : sequence of str
        Names of all experiments in their order.
    """

    def __init__(self, console: Console, names: Sequence[str] = ()) -> None:
        self._console, self._names = console, list(names)
        self._tallies: dict[str, _Tally] = {}
        self._tasks: dict[str, TaskID] = {}
        self._bars = Progress(
            *(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()),
            *(TimeElapsedColumn(), TimeRemainingColumn()),
            console=console,
            disable=not console.is_terminal,
        )

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bars.stop()

    def __call__(self, event: Event) -> None:
        """Show one event."""
        name = event.experiment
        match event:
            case Note():
                self._print(name, event.text)
            case Started():
                self._tallies[name] = _Tally(event.total, event.reused)
                reused = f", {event.reused} of them there already" if event.reused else ""
                self._print(name, f"{event.total} cells{reused}")
                if event.reused < event.total:
                    self._update_bar(name, event.reused, event.total)
            case Finished() | Shared():
                tally = self._tallies[name]
                tally.done += 1
                tally.new += 1
                if isinstance(event, Finished):
                    tally.running += event.run_seconds
                    tally.compiling += event.compile_seconds
                self._update_bar(name, tally.done, tally.total, str(tally))
            case Drawing():
                self._update_bar("figures and report", event.number, event.total, name)

    def _update_bar(self, name: str, done: int, total: int, message: str = "") -> None:
        """Update a bar; without a terminal, print a few lines."""
        if name not in self._tasks:
            self._tasks[name] = self._bars.add_task(self._label(name), total=total)
        self._bars.update(self._tasks[name], completed=done, visible=done < total)
        due = done * _LINES // total > (done - 1) * _LINES // total
        if message and (done == total or (due and not self._console.is_terminal)):
            self._print(name, message)

    def _label(self, name: str) -> str:
        if len(self._names) < 2 or name not in self._names:
            return name
        return f"experiment {self._names.index(name) + 1} of {len(self._names)}, {name}"

    def _print(self, name: str, text: str) -> None:
        line = f"{self._label(name)}: {text}"
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)


def verdict_table(verdicts: Sequence[Verdict]) -> Group:
    """Return the tables of verdicts of a report for a terminal."""
    return Group(*map(_table, verdict_tables(verdicts)))


def _table(content: ReportTable) -> RichTable:
    """Return the table without empty columns."""
    columns = [i for i in range(len(content.head)) if {row[i] for row in content.rows} != {"–"}]
    head = (content.head[i] for i in columns)
    table = RichTable(*head, title=content.caption, title_justify="left")
    for column in table.columns:
        column.overflow = "fold"
    for row in content.rows:
        table.add_row(*(_entry(row[i]) for i in columns))
    return table


def _entry(entry: Entry | str) -> str:
    if isinstance(entry, str):
        return escape(entry)
    text, note = escape(entry.text), f"\n{escape(entry.note)}" if entry.note else ""
    colour = _COLOURS.get(entry.grade)
    return f"[{colour}]{text}[/{colour}]{note}" if colour else f"{text}{note}"

"""What a terminal shows of a sweep: bars or plain lines as it goes, verdicts at its end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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

from privopt.lab.judge.verdict import Verdict
from privopt.lab.make.work import Drawing, Event, Finished, Note, Shared, Started
from privopt.lab.write.document import Entry, Table
from privopt.lab.write.overview import verdict_tables

_LINES = 10
_COLOURS = {"good": "green", "bad": "red", "odd": "magenta", "open": "yellow", "idle": "dim"}


@dataclass
class _Tally:
    """How far one experiment has come, and the seconds of work that its new cells took."""

    total: int
    done: int
    running: float = 0.0
    compiling: float = 0.0

    def __str__(self) -> str:
        spent = f"{self.running:.1f} s running and {self.compiling:.1f} s compiling"
        return f"{self.done}/{self.total} cells, {spent}"


class Display:
    """A ``progress`` for :func:`privopt.lab.make.run`; use it in a ``with`` block.

    Parameters
    ----------
    console : rich.console.Console
        Bars if it is a terminal, else plain lines.
    names : sequence of str
        Of every experiment to come, in their order.
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
        match event:
            case Note():
                self._line(event.experiment, event.text)
            case Started():
                self._started(event)
            case Finished() | Shared():
                self._finished(event)
            case Drawing():
                self._bar("figures and report", event.number, event.total, event.experiment)

    def _started(self, event: Started) -> None:
        name = event.experiment
        self._tallies[name] = _Tally(event.total, event.reused)
        there = f", {event.reused} of them there already" if event.reused else ""
        self._line(name, f"{event.total} cells{there}")
        if event.reused < event.total:
            self._bar(name, event.reused, event.total)

    def _finished(self, event: Finished | Shared) -> None:
        tally = self._tallies[event.experiment]
        tally.done += 1
        if isinstance(event, Finished):
            tally.running += event.run_seconds
            tally.compiling += event.compile_seconds
        self._bar(event.experiment, tally.done, tally.total, str(tally))

    def _bar(self, name: str, done: int, total: int, said: str = "") -> None:
        """Move a bar; beside it, or where there is none, a line now and then."""
        if name not in self._tasks:
            self._tasks[name] = self._bars.add_task(self._place(name), total=total)
        self._bars.update(self._tasks[name], completed=done, visible=done < total)
        due = done * _LINES // total > (done - 1) * _LINES // total
        if said and (done == total or (due and not self._console.is_terminal)):
            self._line(name, said)

    def _place(self, name: str) -> str:
        """The experiment's name, and which of several it is."""
        if len(self._names) < 2 or name not in self._names:
            return name
        return f"experiment {self._names.index(name) + 1} of {len(self._names)}, {name}"

    def _line(self, name: str, text: str) -> None:
        line = f"{self._place(name)}: {text}"
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)


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
    colour = _COLOURS.get(entry.grade)
    return f"[{colour}]{text}[/{colour}]{note}" if colour else f"{text}{note}"

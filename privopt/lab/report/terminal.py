"""Progress bars of a sweep for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from privopt.lab.runner.work import Drawing, Event, Finished, Note, Shared, Started

_LINES = 10
_DRAWING = "figures and report"


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
                reused = f", {event.reused} of them there already" if event.reused else ""
                self._print(name, f"{event.total} cells{reused}")
                self._tasks[name] = self._add_bar(name, event.total, event.reused)
            case Finished() | Shared():
                task = self._bars.tasks[self._tasks[name]]
                if isinstance(event, Finished):
                    task.fields["running"] += event.run_seconds
                    task.fields["compiling"] += event.compile_seconds
                self._advance(task, _summary(task))
            case Drawing():
                if event.number == 1:
                    self._tasks[_DRAWING] = self._add_bar(_DRAWING, event.total)
                self._advance(self._bars.tasks[self._tasks[_DRAWING]], name)

    def _add_bar(self, name: str, total: int, done: int = 0) -> TaskID:
        return self._bars.add_task(
            self._label(name), total=total, completed=done, visible=done < total,
            reused=done, running=0.0, compiling=0.0,
        )  # fmt: skip

    def _advance(self, task: Task, message: str) -> None:
        """Update a bar; print a line at the end and, without a terminal, a few lines before."""
        done, total = int(task.completed) + 1, int(task.total or 1)
        self._bars.update(task.id, completed=done, visible=done < total)
        due = done * _LINES // total > (done - 1) * _LINES // total
        if done == total or (due and not self._console.is_terminal):
            self._print(task.description, message)

    def _label(self, name: str) -> str:
        if len(self._names) < 2 or name not in self._names:
            return name
        return f"experiment {self._names.index(name) + 1} of {len(self._names)}, {name}"

    def _print(self, name: str, text: str) -> None:
        line = f"{self._label(name)}: {text}"
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)


def _summary(task: Task) -> str:
    """Describe the progress after one more cell, with an estimate of the time left."""
    done, total = int(task.completed) + 1, int(task.total or 1)
    per_cell = (task.elapsed or 0.0) / (done - task.fields["reused"])
    remaining = timedelta(seconds=round(per_cell * (total - done)))
    seconds = "{running:.1f} s running and {compiling:.1f} s compiling".format(**task.fields)
    return f"{done}/{total} cells, {seconds}" + (
        f", about {remaining} left" if done < total else ""
    )

"""What a terminal shows of a sweep: bars or plain lines as it goes, verdicts at its end."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType
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
from rich.table import Table

from privopt.lab.resume import Event, Finished, Note, Started
from privopt.lab.verdict_outcome import Finding, Verdict

__all__ = ["Display", "verdict_table"]

_LINES = 10
_COLOURS = {"holds": "green", "refuted": "red", "undecided": "yellow"}


@dataclass
class _Tally:
    """How far one experiment has come."""

    total: int
    done: int
    begin: float = field(default_factory=time.monotonic)
    new: int = 0
    running: float = 0.0
    compiling: float = 0.0

    def add(self, event: Finished) -> None:
        self.done += 1
        self.new += 1
        self.running += event.run_seconds
        self.compiling += event.compile_seconds

    @property
    def is_due(self) -> bool:
        """Whether a tenth of all cells has passed since the last line."""
        return self.done * _LINES // self.total > (self.done - 1) * _LINES // self.total

    @property
    def seconds_left(self) -> float:
        return (time.monotonic() - self.begin) / self.new * (self.total - self.done)


class Display:
    """A ``progress`` for :func:`privopt.lab.sweep`; use it in a ``with`` block.

    Parameters
    ----------
    console : rich.console.Console
        Bars (cells done, time left, compile time apart) if it is a terminal, else plain lines.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._tallies: dict[str, _Tally] = {}
        self._tasks: dict[str, TaskID] = {}
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("cells"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("compiling {task.fields[compiling]:.0f} s"),
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
                self._tallies[event.experiment] = _Tally(event.total, event.reused)
                self._tasks[event.experiment] = self._bars.add_task(
                    event.experiment, total=event.total, completed=event.reused, compiling=0.0
                )
                if event.reused or not self._console.is_terminal:
                    there = f", {event.reused} of them there already" if event.reused else ""
                    self._line(event.experiment, f"{event.total} cells{there}")
            case Finished():
                self._finished(event)

    def _finished(self, event: Finished) -> None:
        name = event.cell.experiment
        tally = self._tallies[name]
        tally.add(event)
        self._bars.update(self._tasks[name], advance=1, compiling=tally.compiling)
        if not self._console.is_terminal and tally.is_due:
            self._line(
                name,
                f"{tally.done}/{tally.total} cells, {tally.running:.1f} s running and "
                f"{tally.compiling:.1f} s compiling, about {tally.seconds_left:.0f} s left",
            )

    def _line(self, experiment: str, text: str) -> None:
        self._console.print(f"{experiment}: {text}", markup=False, highlight=False, soft_wrap=True)


def verdict_table(verdicts: Sequence[Verdict | Finding]) -> Group:
    """One row a verdict, those on theorems first."""
    claims = [each for each in verdicts if isinstance(each, Finding)]
    theorems = [each for each in verdicts if not isinstance(each, Finding)]
    tables = (_theorem_table(theorems), _claim_table(claims))
    return Group(*(table for table in tables if table.row_count))


def _claim_table(findings: Sequence[Finding]) -> Table:
    columns = ("study", "claim", "outcome", "holds in rows", "claimed", "detail")
    table = Table(*columns, title="Claims", title_justify="left")
    for finding in findings:
        table.add_row(
            finding.experiment,
            escape(finding.claim),
            _outcome(finding.outcome),
            f"{finding.held} of {finding.rows}",
            str(finding.target),
            escape(finding.detail),
        )
    return table


def _theorem_table(verdicts: Sequence[Verdict]) -> Table:
    columns = ("experiment", "algorithm", "family", "check", "outcome", "measured", "interval")
    table = Table(*columns, "theorem", "detail", title="Verdicts", title_justify="left")
    for column in table.columns:
        column.overflow = "fold"
    for verdict in verdicts:
        table.add_row(
            *(verdict.experiment, verdict.algorithm, verdict.family),
            verdict.check if verdict.axis is None else f"{verdict.check} in {verdict.axis}",
            _outcome(verdict.outcome),
            _number(verdict.estimate),
            f"{_number(verdict.lower)} to {_number(verdict.upper)}",
            f"{verdict.target:g}" if verdict.check == "slope" else f"<= {verdict.target:g}",
            escape(verdict.detail),
        )
    return table


def _outcome(outcome: str) -> str:
    colour = _COLOURS[outcome]
    return f"[{colour}]{outcome}[/{colour}]"


def _number(value: float) -> str:
    return "?" if math.isnan(value) else f"{value:.3g}"

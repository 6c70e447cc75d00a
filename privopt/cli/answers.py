"""One question put to every accountant, and the table of what they say."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR
from typing import TYPE_CHECKING

from rich.table import Table

from privopt.arguments import shown
from privopt.cli.console import digits, make_table
from privopt.spec import Relation

if TYPE_CHECKING:
    from dp_accounting import DpEvent

    from privopt.accounting import Approximation
    from privopt.privacy import Interval

_NO_BOUND = "no accountant has a bound"
_BEYOND_ROUNDING = 1e-9  # relative; an estimate this far below a bound is not there by rounding


@dataclass(frozen=True)
class Question:
    """What is ``wanted`` (epsilon or delta) where the other one has a ``value``."""

    wanted: str
    given: str
    value: float

    def __str__(self) -> str:
        return f"{self.wanted} at {self.given} = {self.value:g}"


@dataclass(frozen=True)
class Answers:
    """What is proved, the tightest first; what is estimated; and who does not know the event.

    If ``reason`` says that the event only dominates what was asked about, lower bounds and
    estimates of the event are none of the latter, and are left out.
    """

    relation: Relation
    question: Question
    reason: str
    proved: tuple[tuple[str, Interval], ...]
    estimated: tuple[tuple[str, Approximation], ...]
    silent: tuple[str, ...]

    def best(self) -> Interval:
        """What all proofs together say."""
        from privopt.privacy import Interval

        lower = max((proof.lower for _, proof in self.proved), default=0.0)
        worst = math.inf if self.question.wanted == "epsilon" else 1.0
        upper = min((proof.upper for _, proof in self.proved), default=worst)
        if lower > upper:
            raise ArithmeticError(
                f"proofs contradict each other, a defect of privopt: {self.question} is at least "
                f"{shown(lower)} and at most {shown(upper)}: {shown(self.proved)}"
            )
        return Interval(0.0 if self.reason else lower, upper)

    def table(self) -> Table:
        """A line for every accountant that applies."""
        title = f"{self.relation.value}: {self.question}"
        bounds = ("upper",) if self.reason else ("lower", "upper")
        remarks = ("",) if any(map(self._under_reports, self.estimated)) else ()
        table = make_table(title, "accountant", "guarantee", *bounds, *remarks)
        for column in table.columns[2 : 2 + len(bounds)]:
            column.justify, column.no_wrap = "right", True
        for name, proof in self.proved:
            ends = (digits(proof.lower, ROUND_FLOOR), digits(proof.upper, ROUND_CEILING))
            table.add_row(name, "yes", *ends[-len(bounds) :])
        for name, estimate in self.estimated:
            remark = "[red]under-reports[/red]" if self._under_reports((name, estimate)) else ""
            about = f"about {estimate.value:.4g}"
            table.add_row(name, "no: estimate", "", about, *((remark,) if remarks else ()))
        return table

    def conclusion(self) -> str:
        """What may be claimed, and who had nothing to say."""
        lower = digits(self.best().lower, ROUND_FLOOR)
        upper = digits(self.best().upper, ROUND_CEILING)
        wanted, given = self.question.wanted, f"{self.question.given} = {self.question.value:g}"
        lines = [f"[bold]Certified at {given}: {lower} <= {wanted} <= {upper}[/bold]"]
        if self.reason:
            lines = [f"[bold]Certified at {given}: {wanted} <= {upper}[/bold]"]
            lines.append(f"[yellow]No amplification claimed:[/yellow] {self.reason}")
        if self.best().lower < self.best().upper == math.inf:
            reasons = [proof.reason for _, proof in self.proved if proof.reason]
            lines.append(f"[yellow]Nothing is proved:[/yellow] {'; '.join(reasons) or _NO_BOUND}")
        if any(map(self._under_reports, self.estimated)):
            lines.append("[red]under-reports[/red]: below the certified lower bound")
        if self.silent:
            lines.append(f"[dim]Without an answer: {', '.join(self.silent)}[/dim]")
        return "\n".join(lines)

    def _under_reports(self, row: tuple[str, Approximation]) -> bool:
        return row[1].value < self.best().lower * (1.0 - _BEYOND_ROUNDING)


def ask(
    question: Question, event: DpEvent, relation: Relation, reason: str, accuracy: float
) -> Answers:
    """Put a question about ``event`` to all, the Fourier accountant being as accurate as told."""
    from privopt.accounting import ACCOUNTANTS, ESTIMATORS
    from privopt.privacy import Fourier, NonPrivate

    tuned = tuple(Fourier(accuracy) if isinstance(one, Fourier) else one for one in ACCOUNTANTS)
    proved, estimated, silent = [], [], []
    for prover in tuned:
        if prover.supports(event, relation):
            answer = prover.epsilon if question.wanted == "epsilon" else prover.delta
            proved.append((prover.name, answer(event, relation, question.value)))
        elif not isinstance(prover, NonPrivate):
            silent.append(prover.name)
    for estimator in () if reason else ESTIMATORS:
        if estimator.supports(event, relation):
            guess = estimator.epsilon if question.wanted == "epsilon" else estimator.delta
            estimated.append((estimator.name, guess(event, relation, question.value)))
        else:
            silent.append(estimator.name)
    proved.sort(key=lambda row: row[1].upper)
    estimated.sort(key=lambda row: row[1].value)
    return Answers(relation, question, reason, tuple(proved), tuple(estimated), tuple(silent))

"""What a report says, before it is Markdown or HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from privopt.lab.make.axes import in_order
from privopt.lab.show.equivalence import MARGIN
from privopt.lab.show.results import grouped
from privopt.lab.show.style import estimate, symbol
from privopt.lab.show.theorems import ALPHA
from privopt.lab.show.verdict import Outcome, Verdict, tally

__all__ = ["GUIDE", "TITLE", "Document", "Entry", "Mark", "Picture", "Section", "Table", "document"]

TITLE = "Measured against the theorem"

GUIDE = (
    "*Bound*: in every cell the mean excess risk, its certified error included, lies below the "
    "theorem's upper bound; shown is the largest ratio of mean to bound. "
    "*Slope*: on the family of problems where the theorem is tight, the exponent of the mean "
    "excess risk (at the worst strength of the family) in n, d or ε. Its interval must lie within "
    f"the theorem's exponent ± {MARGIN:g}. "
    f"In each experiment a true bound is refuted with probability at most {ALPHA:.0%}, and an "
    "exponent that is wrong by that margin holds with as much. "
    "What is neither is undecided, and where nothing is claimed there is no verdict. The "
    "*lower bound* says what no algorithm beats on every problem of the class; on a given one "
    "it may well be beaten. "
    "*Claim*: a study computes numbers and says what they show; that is checked in every row of "
    "its table, and of an interval the less favourable end counts. A claim of fewer rows holds if "
    "it does in exactly so many. *Risk* is that of the records that all runs are given, unless a "
    "section says that it is the population's: then every run draws records of its own, and a "
    "bound on the one risk is none on the other."
)


@dataclass(frozen=True)
class Mark:
    """An outcome, and what led to it."""

    outcome: Outcome
    text: str = ""


Entry = str | Mark


@dataclass(frozen=True)
class Table:
    """Rows of entries under a head."""

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[Entry, ...], ...]


@dataclass(frozen=True)
class Picture:
    """A figure: its path without suffix, relative to the results folder, and its text."""

    stem: str
    text: str


@dataclass(frozen=True)
class Section:
    """One experiment."""

    name: str
    title: str
    description: str
    verdicts: tuple[Verdict, ...]
    pictures: tuple[Picture, ...]
    tables: tuple[Table, ...]
    facts: Mapping[str, str]
    made_by: Mapping[str, str]


@dataclass(frozen=True)
class Document:
    """The whole report."""

    summary: str
    headlines: tuple[Table, ...]
    sections: tuple[Section, ...]


def document(sections: Sequence[Section]) -> Document:
    """The report on these experiments."""
    judged = [verdict for part in sections for verdict in part.verdicts]
    theorems = [verdict for verdict in judged if verdict.check != "claim"]
    claims = [verdict for verdict in judged if verdict.check == "claim"]
    tables = (_every_verdict(theorems), _every_claim(claims))
    return Document(tally(judged), tuple(each for each in tables if each.rows), tuple(sections))


def _every_verdict(judged: Sequence[Verdict]) -> Table:
    axes = in_order({v.axis for v in judged if v.axis})
    rows: list[tuple[Entry, ...]] = []
    by_pair = grouped(judged, lambda v: (v.experiment, v.method, v.family))
    for named, group in by_pair.items():
        by_check = {v.axis or v.check: v for v in group}
        marks = (
            Mark(by_check[c].outcome, estimate(by_check[c], 2)[0]) if c in by_check else ""
            for c in ("bound", *axes)
        )
        rows.append((*named, *marks))
    slopes = (f"slope in {symbol(axis)}" for axis in axes)
    head = ("experiment", "method", "family", "mean / bound", *slopes)
    return Table("Every verdict", head, tuple(rows))


def _every_claim(judged: Sequence[Verdict]) -> Table:
    rows = tuple(
        (each.experiment, each.claim, Mark(each.outcome, f"{each.estimate:g} of {each.rows}"))
        for each in judged
    )
    return Table("Every claim", ("study", "claim", "rows"), rows)

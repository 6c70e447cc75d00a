"""What a report says, before it is Markdown or HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from privopt.lab.judge.verdict import Verdict, tally
from privopt.lab.write.costs import costs
from privopt.lab.write.legend import LEAD, LEGEND
from privopt.lab.write.overview import verdict_tables
from privopt.lab.write.table import Table

TITLE = "Measured against the theorem"


Costs = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Picture:
    """A figure."""

    stem: str  # its path without suffix, in the results folder
    caption: str  # what there is to see
    alt: str  # the same in numbers, for who does not see it
    narrow: str = ""  # the path of the same for a narrow screen


@dataclass(frozen=True)
class Section:
    """One experiment."""

    name: str
    title: str
    description: str
    verdicts: tuple[Verdict, ...]
    summary: str  # how many verdicts there are of each outcome
    pictures: tuple[Picture, ...]
    tables: tuple[Table, ...]
    facts: Mapping[str, str]  # how it was set up
    command: str  # runs it again
    source: str  # path of the file that declares it, from the results folder
    costs: Costs  # of theory's numbers, beside the best of a grid
    made_by: Mapping[str, str]  # when, for how long, by which code
    environment: Mapping[str, str]
    leads: bool = False  # whether its first picture is on top of the report


@dataclass(frozen=True)
class Document:
    """The whole report: what it is, a picture, its legend, tables, experiments."""

    lead: str
    summary: str
    picture: Picture | None
    legend: tuple[tuple[str, str], ...]
    tables: tuple[Table, ...]
    sections: tuple[Section, ...]


def document(sections: Sequence[Section], picture: Picture | None) -> Document:
    """The report on these experiments, the picture first."""
    judged = [verdict for part in sections for verdict in part.verdicts]
    priced = [(part.name, row) for part in sections for row in part.costs]
    tables = (*verdict_tables(judged), costs(priced))
    return Document(
        lead=LEAD,
        summary=tally(judged),
        picture=picture,
        legend=LEGEND,
        tables=tuple(table for table in tables if table.rows),
        sections=tuple(sections),
    )

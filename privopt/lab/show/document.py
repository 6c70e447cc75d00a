"""What a report says, before it is Markdown or HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from privopt.lab.show.legend import LEAD, LEGEND
from privopt.lab.show.overview import costs, environments, runs, verdict_tables
from privopt.lab.show.table import Table
from privopt.lab.show.verdict import Verdict, tally

__all__ = ["TITLE", "Document", "Picture", "Section", "document"]

TITLE = "Measured against the theorem"


@dataclass(frozen=True)
class Picture:
    """A figure.

    Attributes
    ----------
    stem : str
        Its path without suffix, relative to the results folder.
    caption : str
        What there is to see.
    alt : str
        What it shows, in numbers, for who does not see it.
    narrow : str
        The path of the same for a narrow screen, if there is one.
    """

    stem: str
    caption: str
    alt: str
    narrow: str = ""


@dataclass(frozen=True)
class Section:
    """One experiment.

    Attributes
    ----------
    name, title, description : str
    verdicts : tuple of Verdict
    summary : str
        How many verdicts there are of each outcome.
    pictures : tuple of Picture
    tables : tuple of Table
    facts : mapping of str to str
        How it was set up.
    command : str
        That runs it again.
    source : str
        The path of the file that declares it, relative to the results folder; may be empty.
    costs : tuple of rows
        What theory's numbers cost beside the best of a grid.
    made_by : mapping of str to str
        When, for how long and by which code; may be empty.
    environment : mapping of str to str
        Where; may be empty.
    leads : bool
        Whether its first picture stands at the top of the report.
    """

    name: str
    title: str
    description: str
    verdicts: tuple[Verdict, ...]
    summary: str
    pictures: tuple[Picture, ...]
    tables: tuple[Table, ...]
    facts: Mapping[str, str]
    command: str
    source: str
    costs: tuple[tuple[str, ...], ...]
    made_by: Mapping[str, str]
    environment: Mapping[str, str]
    leads: bool = False


@dataclass(frozen=True)
class Document:
    """The whole report: what it is, a picture, its legend, tables, experiments, machines."""

    lead: str
    summary: str
    picture: Picture | None
    legend: tuple[tuple[str, str], ...]
    tables: tuple[Table, ...]
    sections: tuple[Section, ...]
    machines: tuple[Table, ...]


def document(sections: Sequence[Section], picture: Picture | None) -> Document:
    """The report on these experiments, the picture first."""
    judged = [verdict for part in sections for verdict in part.verdicts]
    priced = [(part.name, row) for part in sections for row in part.costs]
    made = {part.name: part.made_by for part in sections if part.made_by}
    where = {part.name: part.environment for part in sections if part.environment}
    tables = (*verdict_tables(judged), costs(priced))
    machines = (runs(made), environments(where))
    return Document(
        lead=LEAD,
        summary=tally(judged),
        picture=picture,
        legend=LEGEND,
        tables=tuple(table for table in tables if table.rows),
        sections=tuple(sections),
        machines=tuple(table for table in machines if table.rows),
    )

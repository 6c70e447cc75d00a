"""What a report says, before it is Markdown or HTML."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from privopt.lab.judge.results import grouped
from privopt.lab.judge.verdict import GRADES, Verdict
from privopt.lab.write.legend import FAMILIES


@dataclass(frozen=True)
class Entry:
    """What stands at one place of a table."""

    text: str
    note: str = ""  # told less loudly: an interval, a family
    outcome: str = ""  # of a verdict or control: colour and sign
    link: str = ""  # the experiment that it leads to
    method: str = ""  # of that experiment
    place: tuple[float, float, float] | None = None

    @property
    def grade(self) -> str:
        """How the outcome is taken; empty for an entry that is no verdict."""
        return GRADES.get(self.outcome, "")


Row = tuple[Entry | str, ...]


@dataclass(frozen=True)
class Table:
    """Rows of entries under a head, with a sentence on what they say."""

    caption: str
    head: tuple[str, ...]
    rows: tuple[Row, ...]
    note: str = ""

    def outcome(self, row: Row) -> str:
        """What a row concludes; empty in a table without verdicts."""
        entry = row[self.head.index("verdict")] if "verdict" in self.head else ""
        return "" if isinstance(entry, str) else entry.outcome


def of_experiment(name: str, note: str = "", method: str = "") -> Entry:
    """The entry that names an experiment and leads to it."""
    return Entry(in_words(name), note, link=name, method=method)


def in_words(name: str) -> str:
    """A name of a file as words: ``Strongly convex DP-GD``."""
    words = re.sub(
        r"\b(s?gd|svrg|ftrl|dp)\b", lambda found: found[0].upper(), name.replace("_", " ")
    )
    words = re.sub(r"\bDP (?=[A-Z])", "DP-", words)
    return words[:1].upper() + words[1:]


def unbroken(text: str) -> str:
    """The same on one line."""
    return text.replace(" ", "\N{NO-BREAK SPACE}")


Costs = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Picture:
    """A figure."""

    stem: str  # its path without suffix, in the results folder, where it is a PNG too
    caption: str  # what there is to see
    alt: str  # the same in numbers, for who does not see it
    narrow: str = ""  # the path of the same for a narrow screen
    suffix: str = ".svg"  # of what the page shows


class Source(NamedTuple):
    """The file that declares an experiment; empty if no file does."""

    path: str  # from the folder of the project, as experiments/first_order/dp_gd.py
    link: str  # from the results folder


NO_SOURCE = Source("", "")


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
    source: Source
    costs: Costs  # of theory's numbers, beside the best of a grid
    made_by: Mapping[str, str]  # when, for how long, by which code
    environment: Mapping[str, str]
    algorithms: Mapping[str, str]  # of every method

    @property
    def family(self) -> str:
        """The folder below ``experiments`` that declares it; empty for one that stands in none."""
        folders = Path(self.source.path).parts[1:-1]
        return folders[0] if folders else ""


@dataclass(frozen=True)
class Document:
    """The whole report, beside what it says of itself: pictures, tables, experiments."""

    pictures: tuple[Picture, ...]  # on top
    tables: tuple[Table, ...]
    sections: tuple[Section, ...]

    @property
    def verdicts(self) -> list[Verdict]:
        """Of all experiments."""
        return [verdict for each in self.sections for verdict in each.verdicts]

    @property
    def refuted(self) -> dict[tuple[int, int], Row]:
        """The rows whose verdict is so, by number of the table and in it."""
        return {
            (t, r): row
            for t, table in enumerate(self.tables)
            for r, row in enumerate(table.rows)
            if table.outcome(row) == "refuted"
        }

    @property
    def families(self) -> dict[str, list[Section]]:
        """The experiments by family, in the order of the legend; those of none come last."""
        found = grouped(self.sections, lambda each: each.family)
        return {name: found[name] for name in sorted(found, key=_place)}


def _place(family: str) -> tuple[bool, int, str]:
    known = list(FAMILIES)
    return family == "", known.index(family) if family in known else len(known), family

"""What a report says, before it is Markdown or HTML."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from privopt.lab.judge.verdict import GRADES, Verdict


@dataclass(frozen=True)
class Entry:
    """What stands at one place of a table."""

    text: str
    note: str = ""  # told less loudly: an interval, a family
    outcome: str = ""  # of a verdict or control: colour and sign
    link: str = ""  # the experiment that it leads to
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


def of_experiment(name: str, note: str = "") -> Entry:
    """The entry that names an experiment and leads to it."""
    return Entry(in_words(name), note, link=name)


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
    """The whole report, beside what it says of itself: a picture, tables, experiments."""

    summary: str
    picture: Picture | None
    tables: tuple[Table, ...]
    sections: tuple[Section, ...]

"""A table of a report: entries under a head, and what one reads off them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from privopt.lab.judge.verdict import GRADES


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
    """A name of a file as words.

    Examples
    --------
    >>> in_words("strongly_convex_dp_gd"), in_words("phased_sgd"), in_words("dp_ftrl")
    ('Strongly convex DP-GD', 'Phased SGD', 'DP-FTRL')
    """
    words = re.sub(
        r"\b(s?gd|svrg|ftrl|dp)\b", lambda found: found[0].upper(), name.replace("_", " ")
    )
    words = re.sub(r"\bDP (?=[A-Z])", "DP-", words)
    return words[:1].upper() + words[1:]


def unbroken(text: str) -> str:
    """The same on one line."""
    return text.replace(" ", "\N{NO-BREAK SPACE}")

"""A study: numbers computed rather than sampled, what they are claimed to show, and how.

A declaration only. :func:`privopt.lab.conduct` runs it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from privopt.arguments import member
from privopt.lab.experiment import check_name
from privopt.lab.folder import ResultsError
from privopt.lab.parquet import about
from privopt.lab.shown import Claim, Listing, Plot, Shown

__all__ = ["Part", "Study", "rows_of", "shown"]

Row = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Study:
    """A declared study.

    Parameters
    ----------
    name : str
        Small letters, digits and underscores; names the folder of its results.
    title, description : str
        For the report.
    parts : mapping of str to callable
        Name -> a pure function from the profile, ``"quick"`` or ``"full"``, to rows: mappings of
        names to numbers, texts, ``None`` or ``Interval``. Each is computed and kept by itself. A
        row's ``label`` names it in verdicts.
    claims : tuple of Claim
    plots : tuple of Plot
    listings : tuple of Listing

    Raises
    ------
    ValueError
        Naming the argument, the value and the rule it broke.
    """

    name: str
    title: str
    description: str
    parts: Mapping[str, Callable[[str], Iterable[Row]]]
    claims: tuple[Claim, ...]
    plots: tuple[Plot, ...] = ()
    listings: tuple[Listing, ...] = ()

    def __post_init__(self) -> None:
        check_name("name", self.name)
        if not self.parts:
            raise ValueError("parts must name at least one part, got none")
        for name in self.parts:
            check_name("name of a part", name)
        plots = [plot.name for plot in self.plots]
        for name in plots:
            check_name("name of a plot", name)
        if len(set(plots)) < len(plots):
            raise ValueError(f"plots must have distinct names, got {', '.join(plots)}")
        for part, _ in self.shown.quantities():
            member("part", part, self.parts)
        object.__setattr__(self, "parts", MappingProxyType(dict(self.parts)))

    @property
    def shown(self) -> Shown:
        """What it claims and shows."""
        return Shown(self.claims, self.plots, self.listings)


@dataclass(frozen=True)
class Part:
    """A part of a study in one profile: what is kept by itself."""

    experiment: str
    name: str
    profile: str

    @property
    def label(self) -> str:
        """For people."""
        return self.name

    def key(self, **context: Any) -> str:
        """SHA-256 of all that changes the rows: the part, and ``context``."""
        fields = {"experiment": self.experiment, "part": self.name, "profile": self.profile}
        text = json.dumps({"part": fields, **context}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


def shown(table: pa.Table) -> Shown:
    """What the study of a table claims and shows.

    Raises
    ------
    ResultsError
        If another version of privopt wrote it.
    """
    told = about(table)
    try:
        return Shown.from_json(told["study"])
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise ResultsError(
            f"the table of {told.get('name')} was written by another version of privopt "
            f"({error}): run its experiment again"
        ) from error


def rows_of(table: pa.Table) -> dict[str, list[dict[str, Any]]]:
    """The rows of a study's table by part, in their order."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for row in table.to_pylist():
        rows.setdefault(row["part"], []).append(row)
    return rows

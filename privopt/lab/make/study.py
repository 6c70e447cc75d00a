"""A study: numbers computed rather than sampled, what they are claimed to show, and how.

A declaration only. :func:`privopt.lab.conduct` runs it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Integral, Real
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from privopt.arguments import member
from privopt.lab.make.experiment import check_name
from privopt.lab.make.folder import ResultsError
from privopt.lab.make.presentation import Claim, Listing, Plot, Shown
from privopt.lab.make.records import about
from privopt.privacy import Interval

__all__ = ["Part", "Study", "check_quantity", "joined", "part_rows", "rows_of", "shown"]

_OURS = ("experiment", "part", "profile")

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


def part_rows(part: Part, rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """The rows of a part, with its name."""
    found = [_flat(part.name, row) for row in rows]
    if not found:
        raise ValueError(f"part {part.name} must give at least one row, got none")
    names = dict.fromkeys(name for row in found for name in row)
    ours = {"experiment": part.experiment, "part": part.name, "profile": part.profile}
    columns = {name: [row.get(name) for row in found] for name in names}
    columns |= {name: [value] * len(found) for name, value in ours.items()}
    with _one_kind(f"part {part.name}"):
        table = pa.table({name: columns[name] for name in (*_OURS, *names)})
    return table.cast(pa.schema([_settled(field) for field in table.schema]))


def joined(tables: Sequence[pa.Table]) -> pa.Table:
    """All parts one after another; what a part does not give is null in its rows."""
    with _one_kind("all parts"):
        return pa.concat_tables(tables, promote_options="permissive").combine_chunks()


@contextmanager
def _one_kind(where: str) -> Iterator[None]:
    """Say in our words what Arrow cannot put into one column."""
    try:
        yield
    except pa.ArrowException as error:
        raise ValueError(
            f"quantities of one name must be of one kind, numbers or texts, in {where}: {error}"
        ) from error


def _flat(part: str, row: Mapping[str, Any]) -> dict[str, Any]:
    """A row as plain values; an interval as its two ends."""
    flat: dict[str, Any] = {}
    for name, value in row.items():
        check_name(f"quantity of {part}", name)
        if name in _OURS:
            raise ValueError(f"quantity of {part} must not be one of {', '.join(_OURS)}: {name}")
        match value:
            case Interval():
                flat |= {f"{name}_lower": value.lower, f"{name}_upper": value.upper}
            case None | str():
                flat[name] = value
            case Integral() if not isinstance(value, bool):
                flat[name] = int(value)
            case Real() if not isinstance(value, bool):
                flat[name] = float(value)
            case _:
                raise ValueError(
                    f"{name} of {part} must be a number, a text, None or an Interval, got {value!r}"
                )
    return flat


def _settled(field: pa.Field) -> pa.Field:
    """Numbers of a column that has none yet are float64."""
    return field.with_type(pa.float64()) if pa.types.is_null(field.type) else field


def check_quantity(part: str, quantity: str, table: pa.Table) -> None:
    """Refuse a quantity that is claimed or shown and not given."""
    names = table.column_names
    if quantity not in names and f"{quantity}_lower" not in names:
        raise ValueError(f"quantity must be one that part {part} gives, got {quantity!r}")

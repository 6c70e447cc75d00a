"""What a study claims and shows: plain data, which its table carries, so that the table suffices.

A *quantity* is a column of the study's rows, or two of them: where a row was given an interval,
``certified`` stands for the columns ``certified_lower`` and ``certified_upper``.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from math import inf
from typing import Any

from privopt.arguments import member, shown

_RELATIONS = ("<", "<=", "=")
_COLOURS = ("blue", "orange", "green", "purple", "grey")
_STYLES = ("line", "dashes", "dots", "points", "tick")
_LOGS = ("x", "y", "xy")


@dataclass(frozen=True)
class Check:
    """A comparison of two quantities of a row.

    Declarations say it in a text: ``"risk < bound"``, ``"risk <= bound"``, or
    ``"found = known ± 0.01"``.
    """

    left: str
    relation: str  # "<", "<=" or "="
    right: str
    within: float = 0.0  # of "=": the largest difference allowed

    def __post_init__(self) -> None:
        member("relation", self.relation, _RELATIONS)
        if not 0.0 <= self.within < inf:
            raise ValueError(f"within must be non-negative and finite, got {shown(self.within)}")

    @classmethod
    def of(cls, told: Check | str) -> Check:
        """The comparison that a text says."""
        if isinstance(told, Check):
            return told
        match told.split():
            case [left, relation, right]:
                return cls(left, relation, right)
            case [left, relation, right, "±", within]:
                return cls(left, relation, right, float(within))
        raise ValueError(
            f"check must read like 'risk <= bound' or 'a = b ± 0.01', got {shown(told)}"
        )


@dataclass(frozen=True)
class Claim:
    """That a check holds in every row of a part, or in exactly so many of them.

    Examples
    --------
    >>> Claim("the bound holds", "ends", "risk <= bound").check
    Check(left='risk', relation='<=', right='bound', within=0.0)
    """

    text: str
    part: str
    check: Check | str
    rows: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "check", Check.of(self.check))


@dataclass(frozen=True)
class Line:
    """A quantity drawn against the panel's ``x``, or its last value as a ``tick`` at the margin.

    What is certified to lie in an interval is drawn as that band and its upper end; an estimate as
    itself, with the ``band`` of its error, another quantity, about it.
    """

    quantity: str
    label: str
    colour: str = "blue"
    style: str = "line"
    band: str | None = None

    def __post_init__(self) -> None:
        member("colour", self.colour, _COLOURS)
        member("style", self.style, _STYLES)


@dataclass(frozen=True, kw_only=True)
class Panel:
    """Some quantities of one part against another, or against a text of its rows."""

    part: str
    x: str
    x_label: str
    y_label: str
    lines: tuple[Line, ...]  # from the back to the front
    title: str = ""
    log: str = ""  # the logarithmic axes: "x", "y" or "xy"

    def __post_init__(self) -> None:
        if self.log:
            member("log", self.log, _LOGS)


@dataclass(frozen=True, kw_only=True)
class Map:
    """A panel of filled cells, one a row of a part: who won at that place.

    The quantities ``winner`` and ``text`` are texts of a row: the first decides the colour, the
    second is written into the cell.
    """

    part: str
    x: str
    y: str
    x_label: str
    y_label: str
    winner: str
    text: str
    names: tuple[str, ...]  # of winners that have a colour of their own
    title: str = ""

    @property
    def lines(self) -> tuple[Line, ...]:
        """The quantities that it shows."""
        return (Line(self.y, self.y_label), Line(self.winner, "winner"), Line(self.text, "told"))


@dataclass(frozen=True, init=False)
class Plot:
    """A figure: panels side by side, in a file of its own."""

    name: str
    title: str
    panels: tuple[Panel | Map, ...]

    def __init__(self, name: str, title: str, *panels: Panel | Map) -> None:
        vars(self).update(name=name, title=title, panels=panels)


@dataclass(frozen=True)
class Column:
    """A column of a listing: ``text`` is a format such as ``"{noise:g}: {certified:.2f}"``.

    An interval takes what a number takes, and is rounded outwards. A ``check`` marks every entry.
    """

    head: str
    text: str
    check: Check | str | None = None

    def __post_init__(self) -> None:
        for _, name, spec, _ in string.Formatter().parse(self.text):
            if name is not None and not any(_takes(value, spec or "") for value in (1, 1.0, "")):
                rule = "must be a format of numbers or of texts"
                raise ValueError(
                    f"text of column {shown(self.head)} {rule}, got {shown(spec)} for {name}"
                )
        if self.check is not None:
            object.__setattr__(self, "check", Check.of(self.check))

    @property
    def names(self) -> list[str]:
        """The quantities in ``text``."""
        return [name for _, name, _, _ in string.Formatter().parse(self.text) if name]


@dataclass(frozen=True, init=False)
class Listing:
    """The rows of one part, as a table of the report."""

    part: str
    caption: str
    columns: tuple[Column, ...]

    def __init__(self, part: str, caption: str, *columns: Column) -> None:
        vars(self).update(part=part, caption=caption, columns=columns)


@dataclass(frozen=True)
class Presentation:
    """All that a study claims and shows."""

    claims: tuple[Claim, ...] = ()
    plots: tuple[Plot, ...] = ()
    listings: tuple[Listing, ...] = ()

    def quantities(self) -> Iterator[tuple[str, str]]:
        """Every part spoken of, with every quantity of it."""
        for claim in self.claims:
            yield from _compared(claim.part, claim.check)
        for panel in (panel for plot in self.plots for panel in plot.panels):
            yield panel.part, panel.x
            for line in panel.lines:
                yield panel.part, line.quantity
                yield panel.part, line.band or line.quantity
        for listing in self.listings:
            for column in listing.columns:
                yield from ((listing.part, name) for name in column.names)
                yield from _compared(listing.part, column.check)

    def to_json(self) -> dict[str, object]:
        """As JSON can hold it."""
        return asdict(self)

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Presentation:
        """What ``to_json`` was asked of."""
        return cls(**{field.name: _restored(field.name, told[field.name]) for field in fields(cls)})


_KINDS: dict[str, Callable[..., object]] = {
    "claims": Claim, "check": Check, "lines": Line, "columns": Column,
    "panels": lambda **told: (Map if "winner" in told else Panel)(**told),
    "plots": lambda name, title, panels: Plot(name, title, *panels),
    "listings": lambda part, caption, columns: Listing(part, caption, *columns),
}  # fmt: skip


def _restored(name: str, told: Any) -> Any:
    """The object of a field, from what JSON holds of it."""
    if isinstance(told, list | tuple):
        return tuple(_restored(name, each) for each in told)
    if isinstance(told, dict):
        return _KINDS[name](**{inner: _restored(inner, value) for inner, value in told.items()})
    return told


def _takes(value: float | str, spec: str) -> bool:
    try:
        format(value, spec)
    except ValueError:
        return False
    return True


def _compared(part: str, check: Check | str | None) -> list[tuple[str, str]]:
    both = None if check is None else Check.of(check)
    return [] if both is None else [(part, both.left), (part, both.right)]

"""What a study claims and shows: plain data, which its table carries, so that the table suffices.

A *quantity* is a column of the study's rows, or two of them: where a row was given an interval,
``certified`` stands for the columns ``certified_lower`` and ``certified_upper``.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from math import inf
from typing import Any, TypeVar

__all__ = ["Check", "Claim", "Column", "Line", "Listing", "Panel", "Plot", "Presentation"]

_RELATIONS = ("<", "<=", "=")
_COLOURS = ("blue", "orange", "green", "purple", "grey")
_STYLES = ("line", "dashes", "dots", "points")
_LOGS = ("", "x", "y", "xy")


@dataclass(frozen=True)
class Check:
    """A comparison of two quantities of a row.

    Parameters
    ----------
    left : str
    relation : {"<", "<=", "="}
    right : str
    within : float
        For ``"="``: the largest difference allowed.
    """

    left: str
    relation: str
    right: str
    within: float = 0.0

    def __post_init__(self) -> None:
        _member("relation", self.relation, _RELATIONS)
        if not 0.0 <= self.within < inf:
            raise ValueError(f"within must be non-negative and finite, got {self.within!r}")


@dataclass(frozen=True)
class Claim:
    """That a check holds in every row of a part, or in exactly so many of them.

    Parameters
    ----------
    text : str
        What is claimed, in words.
    part : str
    check : Check
    rows : int, optional

    Examples
    --------
    >>> Claim("the bound holds", "ends", Check("risk", "<=", "bound")).check.relation
    '<='
    """

    text: str
    part: str
    check: Check
    rows: int | None = None


@dataclass(frozen=True)
class Line:
    """A quantity drawn against the panel's ``x``.

    What is certified to lie in an interval is drawn as that band and its upper end; an estimate as
    itself, with the ``band`` of its error about it.

    Parameters
    ----------
    quantity, label : str
    colour : {"blue", "orange", "green", "purple", "grey"}
    style : {"line", "dashes", "dots", "points"}
    band : str, optional
        The quantity, an interval, that is the band; default ``quantity``.
    """

    quantity: str
    label: str
    colour: str = "blue"
    style: str = "line"
    band: str | None = None

    def __post_init__(self) -> None:
        _member("colour", self.colour, _COLOURS)
        _member("style", self.style, _STYLES)


@dataclass(frozen=True, kw_only=True)
class Panel:
    """Some quantities of one part against another, or against a text of its rows.

    Parameters
    ----------
    part, x, x_label, y_label, title : str
    lines : tuple of Line
        From the back to the front.
    log : {"", "x", "y", "xy"}
        The logarithmic axes.
    """

    part: str
    x: str
    x_label: str
    y_label: str
    lines: tuple[Line, ...]
    title: str = ""
    log: str = ""

    def __post_init__(self) -> None:
        _member("log", self.log, _LOGS)


@dataclass(frozen=True)
class Plot:
    """A figure: panels side by side, in a file of its own."""

    name: str
    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True)
class Column:
    """A column of a listing.

    Parameters
    ----------
    head : str
    text : str
        A format of the row's quantities, e.g. ``"{noise:g}: {certified:.2f}"``. An interval takes
        ``.2f`` and its like, and is rounded outwards.
    check : Check, optional
        Marks every entry by whether it holds there.
    """

    head: str
    text: str
    check: Check | None = None

    @property
    def names(self) -> list[str]:
        """The quantities in ``text``."""
        return [name for _, name, _, _ in string.Formatter().parse(self.text) if name]


@dataclass(frozen=True)
class Listing:
    """The rows of one part, as a table of the report."""

    part: str
    caption: str
    columns: tuple[Column, ...]


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
        return cls(
            tuple(_restored(Claim, claim) for claim in told["claims"]),
            tuple(_restored(Plot, plot) for plot in told["plots"]),
            tuple(_restored(Listing, listing) for listing in told["listings"]),
        )


_T = TypeVar("_T")
_NESTED: dict[str, Callable[..., object]] = {
    "check": Check,
    "panels": Panel,
    "lines": Line,
    "columns": Column,
}


def _restored(kind: Callable[..., _T], told: Mapping[str, Any]) -> _T:
    fields = {}
    for name, value in told.items():
        inner = _NESTED.get(name)
        if inner is not None and isinstance(value, list | tuple):
            value = tuple(_restored(inner, each) for each in value)
        elif inner is not None and value is not None:
            value = _restored(inner, value)
        fields[name] = value
    return kind(**fields)


def _compared(part: str, check: Check | None) -> list[tuple[str, str]]:
    return [] if check is None else [(part, check.left), (part, check.right)]


def _member(what: str, name: str, known: tuple[str, ...]) -> None:
    if name not in known:
        raise ValueError(f"{what} must be one of {', '.join(map(repr, known))}, got {name!r}")

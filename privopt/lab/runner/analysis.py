"""Studies: computed tables with claims, figures and listings.

The presentation of a study is plain data, which is stored in the metadata of its table. A
*quantity* is a column of the rows. An interval ``certified`` has two columns, ``certified_lower``
and ``certified_upper``.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from math import inf
from numbers import Integral, Real
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from privopt.arguments import member, shown
from privopt.lab.runner.experiment import PROFILES
from privopt.lab.runner.method import check_name
from privopt.lab.runner.store import About, Value
from privopt.privacy import Interval
from privopt.problems import DATASETS
from privopt.problems.datasets import missing

_RELATIONS = ("<", "<=", "=")
_COLOURS = ("blue", "orange", "green", "purple", "grey")
_STYLES = ("line", "dashes", "dots", "points", "tick")
_LOGS = ("x", "y", "xy")
_RESERVED = ("cell", "experiment", "part", "profile")

Row = Mapping[str, object]


# --- presentation ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Check:
    """A comparison of two quantities of a row.

    Declarations give it as text: ``"risk < bound"``, ``"risk <= bound"``, or
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
    def of(cls, text: Check | str) -> Check:
        """Parse the text of a comparison."""
        if isinstance(text, Check):
            return text
        match text.split():
            case [left, relation, right]:
                return cls(left, relation, right)
            case [left, relation, right, "±", within]:
                return cls(left, relation, right, float(within))
        raise ValueError(
            f"check must read like 'risk <= bound' or 'a = b ± 0.01', got {shown(text)}"
        )


@dataclass(frozen=True)
class Claim:
    """A check of every row of a part, or of exactly ``rows`` of them.

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
    """A quantity against ``x`` of the panel, or its last value as a ``tick`` at the margin.

    A certified interval is a band with its upper end. An estimate is a line with the ``band`` of
    its error, another quantity, around it.
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
    """Quantities of one part against another quantity or a text of its rows."""

    part: str
    x: str
    x_label: str
    y_label: str
    lines: tuple[Line, ...]  # from the back to the front
    title: str = ""
    log: str = ""  # logarithmic axes: "x", "y" or "xy"

    def __post_init__(self) -> None:
        if self.log:
            member("log", self.log, _LOGS)


@dataclass(frozen=True, kw_only=True)
class Map:
    """A panel of coloured cells, one for each row of a part.

    The quantities ``winner`` and ``text`` are texts of a row: the first determines the colour, the
    second is written into the cell.
    """

    part: str
    x: str
    y: str
    x_label: str
    y_label: str
    winner: str
    text: str
    names: tuple[str, ...]  # winners with a colour of their own
    title: str = ""

    @property
    def lines(self) -> tuple[Line, ...]:
        """Quantities of the map, as lines."""
        return (Line(self.y, self.y_label), Line(self.winner, "winner"), Line(self.text, "text"))


@dataclass(frozen=True, init=False)
class Plot:
    """A figure in its own file, with panels side by side."""

    name: str
    title: str
    panels: tuple[Panel | Map, ...]

    def __init__(self, name: str, title: str, *panels: Panel | Map) -> None:
        vars(self).update(name=name, title=title, panels=panels)


@dataclass(frozen=True)
class Column:
    """A column of a listing; ``text`` is a format such as ``"{noise:g}: {certified:.2f}"``.

    An interval has the format of a number and is rounded outwards. A ``check`` marks every entry.
    """

    head: str
    text: str
    check: Check | str | None = None

    def __post_init__(self) -> None:
        for _, name, spec, _ in string.Formatter().parse(self.text):
            if name is not None and not any(_accepts(spec or "", value) for value in (1, 1.0, "")):
                rule = "must be a format of numbers or of texts"
                raise ValueError(
                    f"text of column {shown(self.head)} {rule}, got {shown(spec)} for {name}"
                )
        if self.check is not None:
            object.__setattr__(self, "check", Check.of(self.check))

    @property
    def names(self) -> list[str]:
        """Quantities in ``text``."""
        return [name for _, name, _, _ in string.Formatter().parse(self.text) if name]


def _accepts(spec: str, value: float | str) -> bool:
    try:
        format(value, spec)
    except ValueError:
        return False
    return True


@dataclass(frozen=True, init=False)
class Listing:
    """Rows of one part, as a table of the report."""

    part: str
    caption: str
    columns: tuple[Column, ...]

    def __init__(self, part: str, caption: str, *columns: Column) -> None:
        vars(self).update(part=part, caption=caption, columns=columns)


@dataclass(frozen=True)
class Presentation:
    """Claims, plots and listings of a study."""

    claims: tuple[Claim, ...] = ()
    plots: tuple[Plot, ...] = ()
    listings: tuple[Listing, ...] = ()

    def quantities(self) -> Iterator[tuple[str, str]]:
        """Yield ``(part, quantity)`` for each quantity of the presentation."""
        columns = [(each.part, column) for each in self.listings for column in each.columns]
        checks = [(claim.part, claim.check) for claim in self.claims]
        checks += [(part, column.check) for part, column in columns if column.check is not None]
        for part, check in checks:
            parsed = Check.of(check)
            yield from ((part, parsed.left), (part, parsed.right))
        for panel in (panel for plot in self.plots for panel in plot.panels):
            yield panel.part, panel.x
            for line in panel.lines:
                yield from ((panel.part, line.quantity), (panel.part, line.band or line.quantity))
        for part, column in columns:
            yield from ((part, name) for name in column.names)

    def to_json(self) -> dict[str, object]:
        """Return JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Presentation:
        """Invert :meth:`to_json`."""
        return cls(**{field.name: _decode(field.name, values[field.name]) for field in fields(cls)})


_KINDS: dict[str, Callable[..., object]] = {
    "claims": Claim, "check": Check, "lines": Line, "columns": Column,
    "panels": lambda **values: (Map if "winner" in values else Panel)(**values),
    "plots": lambda name, title, panels: Plot(name, title, *panels),
    "listings": lambda part, caption, columns: Listing(part, caption, *columns),
}  # fmt: skip


def _decode(field: str, value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(_decode(field, item) for item in value)
    if isinstance(value, dict):
        return _KINDS[field](**{inner: _decode(inner, item) for inner, item in value.items()})
    return value


# --- study ----------------------------------------------------------------------------------------


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
        names to numbers, texts, ``None`` or ``Interval``. Each part is computed and cached
        separately. The ``label`` of a row names it in verdicts.
    claims : tuple of Claim
    plots : tuple of Plot
    listings : tuple of Listing
    profiles : tuple of {"quick", "full"}
        Profiles of the study; default both.
    needs : tuple of str
        Required data sets; the study is omitted if one is missing.
    uses : tuple of str
        Optional data sets of the full profile. The quick profile must not depend on them, so that
        its table is equal on all machines.

    Examples
    --------
    >>> from privopt.lab import Claim, Study
    >>> squares = Study(
    ...     name="squares",
    ...     title="Squares",
    ...     description="",
    ...     parts={"table": lambda profile: ({"x": x, "square": x * x} for x in range(3))},
    ...     claims=(Claim("no smaller", "table", "x <= square"),),
    ... )
    >>> list(squares.parts["table"]("quick"))[-1]
    {'x': 2, 'square': 4}
    """

    name: str
    title: str
    description: str
    parts: Mapping[str, Callable[[str], Iterable[Row]]]
    claims: tuple[Claim, ...]
    plots: tuple[Plot, ...] = ()
    listings: tuple[Listing, ...] = ()
    profiles: tuple[str, ...] = PROFILES
    needs: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_name("name", self.name)
        for field, names in (("needs", self.needs), ("uses", self.uses)):
            for name in names:
                member(field, name, DATASETS)
        for profile in self.profiles:
            member("profile", profile, PROFILES)
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
    def shown(self) -> Presentation:
        """Claims, plots and listings."""
        return Presentation(self.claims, self.plots, self.listings)

    def data(self, profile: str) -> tuple[str, ...]:
        """Return the data sets on which a profile depends."""
        return (*self.needs, *(self.uses if profile == "full" else ()))

    def about(self, profile: str) -> About:
        """Return the metadata of the tables: the presentation and the available data sets."""
        names = self.data(profile)
        data = {"data": [name for name in names if missing(name) is None]} if names else {}
        return {"study": self.shown.to_json(), **data}

    def check_quantities(self, part: str, names: Collection[str]) -> None:
        """Check that every quantity of a part in the presentation is one of its columns."""
        for other, quantity in self.shown.quantities():
            if other == part and not {quantity, f"{quantity}_lower"} & set(names):
                raise ValueError(
                    f"quantity must be one that part {part} gives, got {shown(quantity)}"
                )


def part_rows(name: str, rows: Iterable[Row]) -> pa.Table:
    """Convert the rows of a part to a table."""
    flat = [_flat(name, row) for row in rows]
    if not flat:
        raise ValueError(f"part {name} must give at least one row, got none")
    names = dict.fromkeys(name for row in flat for name in row)
    with one_kind(f"part {name}"):
        table = pa.table({name: [row.get(name) for row in flat] for name in names})
    # Columns without any number are float64.
    kinds = [
        field.with_type(pa.float64()) if pa.types.is_null(field.type) else field
        for field in table.schema
    ]
    return table.cast(pa.schema(kinds))


@contextmanager
def one_kind(place: str) -> Iterator[None]:
    """Convert errors of Arrow about mixed columns to ``ValueError``."""
    try:
        yield
    except pa.ArrowException as error:
        raise ValueError(
            f"quantities of one name must be of one kind, numbers or texts, in {place}: {error}"
        ) from error


def _flat(part: str, row: Row) -> dict[str, Value]:
    """Convert a row to plain values, and an interval to its two ends."""
    flat: dict[str, Value] = {}
    for name, value in row.items():
        check_name(f"quantity of {part}", name)
        if name in _RESERVED:
            raise ValueError(
                f"quantity of {part} must not be one of {', '.join(_RESERVED)}: {name}"
            )
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
                    f"{name} of {part} must be a number, a text, None or an Interval, got "
                    f"{shown(value)}"
                )
    return flat

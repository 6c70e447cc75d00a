"""A study: numbers computed rather than sampled, what they are claimed to show, and how.

A declaration only. :func:`privopt.lab.run` runs it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Integral, Real
from types import MappingProxyType

import pyarrow as pa

from privopt.arguments import member, shown
from privopt.lab.make.experiment import PROFILES
from privopt.lab.make.method import check_name
from privopt.lab.make.presentation import Claim, Listing, Plot, Presentation
from privopt.lab.make.records import About, Value
from privopt.privacy import Interval
from privopt.problems import DATASETS
from privopt.problems.datasets import missing

_OURS = ("cell", "experiment", "part", "profile")

Row = Mapping[str, object]


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
    profiles : tuple of {"quick", "full"}
        Those that it belongs to; default both.
    needs : tuple of str
        Data sets without which it is left out.
    uses : tuple of str
        Data sets that the full profile uses if they are there. The quick profile must not depend
        on them, so that its table is the same everywhere.

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
        """What it claims and shows."""
        return Presentation(self.claims, self.plots, self.listings)

    def data(self, profile: str) -> tuple[str, ...]:
        """Return the data sets on which a profile depends."""
        return (*self.needs, *(self.uses if profile == "full" else ()))

    def about(self, profile: str) -> About:
        """Return what its tables carry beside their rows: its presentation and the data read."""
        about: About = {"study": self.shown.to_json()}
        if named := self.data(profile):
            about["data"] = [name for name in named if missing(name) is None]
        return about

    def check_quantities(self, part: str, names: Collection[str]) -> None:
        """Refuse a quantity that is claimed or shown of a part and is no column of these names."""
        for each, quantity in self.shown.quantities():
            if each == part and not {quantity, f"{quantity}_lower"} & set(names):
                raise ValueError(
                    f"quantity must be one that part {part} gives, got {shown(quantity)}"
                )


def part_rows(name: str, rows: Iterable[Row]) -> pa.Table:
    """The rows of a part."""
    found = [_flat(name, row) for row in rows]
    if not found:
        raise ValueError(f"part {name} must give at least one row, got none")
    names = dict.fromkeys(name for row in found for name in row)
    with one_kind(f"part {name}"):
        table = pa.table({name: [row.get(name) for row in found] for name in names})
    return table.cast(pa.schema([_settled(field) for field in table.schema]))


@contextmanager
def one_kind(where: str) -> Iterator[None]:
    """Say in our words what Arrow cannot put into one column."""
    try:
        yield
    except pa.ArrowException as error:
        raise ValueError(
            f"quantities of one name must be of one kind, numbers or texts, in {where}: {error}"
        ) from error


def _flat(part: str, row: Row) -> dict[str, Value]:
    """A row as plain values; an interval as its two ends."""
    flat: dict[str, Value] = {}
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
                    f"{name} of {part} must be a number, a text, None or an Interval, got "
                    f"{shown(value)}"
                )
    return flat


def _settled(field: pa.Field) -> pa.Field:
    """Numbers of a column that has none yet are float64."""
    return field.with_type(pa.float64()) if pa.types.is_null(field.type) else field

"""Analyses: computed tables with claims, figures and listings.

The tables of an analysis are recorded. Its claims, figures and listings are functions of them, so
that changing one of these reruns nothing. A *quantity* is a column of a table. An interval
``certified`` has two columns, ``certified_lower`` and ``certified_upper``.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import inf
from numbers import Integral, Real
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from privopt.arguments import member, shown
from privopt.lab.runner.experiment import PROFILES
from privopt.lab.runner.method import check_name
from privopt.lab.runner.store import About, Recorded, ResultsError, Value
from privopt.privacy import Interval
from privopt.problems import DATASETS
from privopt.problems.datasets import missing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_RESERVED = ("cell", "experiment", "part", "profile")

Row = Mapping[str, object]

Frames = Mapping[str, pd.DataFrame]
"""The tables of an analysis by name, with an index from 0."""


# --- claims ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Claim:
    """A check of every row of a part, or of exactly ``rows`` of them.

    Attributes
    ----------
    text : str
        The claim as a sentence.
    part : str
        Name of the table.
    check : callable
        Function from the table to a mask of its rows. An entry of the mask may be missing
        (``pandas.NA``) if the row does not decide the claim.
    rows : int, optional
        Number of rows in which the check holds; default all.
    again : Claim, optional
        The claim on a second measurement, with a fresh key, of the rows that contradict it (rows
        with the same ``label``). A claim with a stated probability of false alarm needs one: it is
        refuted only if both measurements refute it.

    Examples
    --------
    >>> import pandas as pd
    >>> claim = Claim("the bound holds", "ends", at_most("risk", "bound"))
    >>> claim.check(pd.DataFrame({"risk": [1.0, 3.0], "bound": [2.0, 2.0]})).tolist()
    [True, False]
    """

    text: str
    part: str
    check: Callable[[pd.DataFrame], pd.Series]
    rows: int | None = None
    again: Claim | None = None


def below(left: str, right: str) -> Callable[[pd.DataFrame], pd.Series]:
    """Return the check that a quantity is less than another.

    In a row it is true if it holds for all values in the intervals of both quantities, false if it
    holds for none, and missing otherwise or if a quantity is missing or not a number.
    """

    def check(frame: pd.DataFrame) -> pd.Series:
        (low, high), (other_low, other_high) = bounds(frame, left), bounds(frame, right)
        return _mask(high < other_low, low >= other_high)

    return check


def at_most(left: str, right: str) -> Callable[[pd.DataFrame], pd.Series]:
    """Return the check that a quantity is at most another; see :func:`below` for intervals."""

    def check(frame: pd.DataFrame) -> pd.Series:
        (low, high), (other_low, other_high) = bounds(frame, left), bounds(frame, right)
        return _mask(high <= other_low, low > other_high)

    return check


def close(left: str, right: str, within: float = 0.0) -> Callable[[pd.DataFrame], pd.Series]:
    """Return the check that two quantities differ by at most ``within``; see :func:`below`."""
    if not 0.0 <= within < inf:
        raise ValueError(f"within must be non-negative and finite, got {shown(within)}")

    def check(frame: pd.DataFrame) -> pd.Series:
        (low, high), (other_low, other_high) = bounds(frame, left), bounds(frame, right)
        with np.errstate(invalid="ignore"):  # infinite values
            smallest = np.maximum(low - other_high, other_low - high)
            largest = np.maximum(high - other_low, other_high - low)
        return _mask(largest <= within, smallest > within)

    return check


def bounds(frame: pd.DataFrame, quantity: str) -> tuple[npt.NDArray[np.float64], ...]:
    """Return the lower and upper ends of a quantity in each row; NaN if missing or a text."""
    names = [quantity, f"{quantity}_lower", f"{quantity}_upper"]
    if quantity not in frame and not set(names[1:]) <= set(frame):
        raise ValueError(
            f"quantity must be a column, {quantity} or {names[1]}, got {shown(quantity)}"
        )
    value, lower, upper = (
        pd.to_numeric(frame[name], errors="coerce").to_numpy(np.float64, na_value=np.nan)
        if name in frame
        else np.full(len(frame), np.nan)
        for name in names
    )
    is_interval, is_known = np.isnan(value), ~np.isnan(lower) & ~np.isnan(upper)
    ends = (np.where(is_known, end, np.nan) for end in (lower, upper))
    return tuple(np.where(is_interval, end, value) for end in ends)


def _mask(holds: npt.NDArray[np.bool_], fails: npt.NDArray[np.bool_]) -> pd.Series:
    return pd.Series(holds, dtype="boolean").mask(~(holds | fails))


# --- presentation ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Listing:
    """Rows of one part as a table of the report.

    ``columns`` maps the head of a column to a format, for example ``"{noise:g}: {certified:.2f}"``.
    An interval has the format of a number and is rounded outwards. The entries of a column with a
    check (see :class:`Claim`) are marked by its outcome.
    """

    part: str
    caption: str
    columns: Mapping[str, str]
    checks: Mapping[str, Callable[[pd.DataFrame], pd.Series]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for head in self.checks:
            member("head of a check", head, self.columns)
        for head, text in self.columns.items():
            for _, name, spec, _ in string.Formatter().parse(text):
                if name and not any(_accepts(spec or "", value) for value in (1, 1.0, "")):
                    raise ValueError(
                        f"column {shown(head)} must have a format of numbers or of texts, got "
                        f"{shown(spec)} for {name}"
                    )

    def quantities(self) -> Iterator[str]:
        """Yield the quantities in the formats."""
        for text in self.columns.values():
            yield from (name for _, name, _, _ in string.Formatter().parse(text) if name)


def _accepts(spec: str, value: float | str) -> bool:
    try:
        format(value, spec)
    except ValueError:
        return False
    return True


@dataclass(frozen=True)
class Chart:
    """A comparison of methods for the interactive chart of the report.

    The columns of the part are named after methods. With ``risk="risk"`` and ``band="within"``,
    ``dp_gd_risk`` is the risk of DP-GD, ``dp_gd_risk_within_lower`` and ``..._upper`` its interval,
    ``dp_gd_best`` the risk with oracle-tuned hyperparameters, ``dp_gd_bound`` the upper bound, and
    ``zero`` the risk of the zero predictor.

    Attributes
    ----------
    problem, label : str
        Names of the problem and of the quantity.
    part, x : str
        Name of the table and of the column along which the methods are compared.
    risk, band : str
        Suffixes of the columns.
    variants : mapping of str to str
        Column -> label of a variant of a method.
    """

    problem: str
    part: str
    x: str
    label: str = "excess risk"
    risk: str = ""
    band: str = ""
    variants: Mapping[str, str] = field(default_factory=dict)


# --- analysis -------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Analysis:
    """A declared analysis.

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
    figures : mapping of str to callable
        Name of the file -> a function from the tables (a mapping of parts to data frames) to a
        Matplotlib figure, see :mod:`privopt.lab.plotting`. Its docstring is the caption.
    listings : tuple of Listing
    charts : tuple of Chart
    profiles : tuple of {"quick", "full"}
        Profiles of the analysis; default both.
    needs : tuple of str
        Required data sets; the analysis is omitted if one is missing.
    uses : tuple of str
        Optional data sets of the full profile. The quick profile must not depend on them, so that
        its table is equal on all machines.
    part_data : mapping of str to tuple of str
        Data sets of a part. A part is omitted from a run if one of them is missing. Claims, figures
        and listings of parts that are not recorded are omitted.

    Examples
    --------
    >>> from privopt.lab import Analysis, Claim, at_most
    >>> squares = Analysis(
    ...     name="squares",
    ...     title="Squares",
    ...     description="",
    ...     parts={"table": lambda profile: ({"x": x, "square": x * x} for x in range(3))},
    ...     claims=(Claim("no smaller", "table", at_most("x", "square")),),
    ... )
    >>> list(squares.parts["table"]("quick"))[-1]
    {'x': 2, 'square': 4}
    """

    name: str
    title: str
    description: str
    parts: Mapping[str, Callable[[str], Iterable[Row]]]
    claims: tuple[Claim, ...] = ()
    figures: Mapping[str, Callable[[Frames], Figure]] = field(default_factory=dict)
    listings: tuple[Listing, ...] = ()
    charts: tuple[Chart, ...] = ()
    profiles: tuple[str, ...] = PROFILES
    needs: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    part_data: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_name("name", self.name)
        for argument, names in (("needs", self.needs), ("uses", self.uses)):
            for name in names:
                member(argument, name, DATASETS)
        for profile in self.profiles:
            member("profile", profile, PROFILES)
        if not self.parts:
            raise ValueError("parts must name at least one part, got none")
        for name in self.parts:
            check_name("name of a part", name)
        for name in self.figures:
            check_name("name of a figure", name)
        shown_parts = [each.part for each in self.every_claim]
        shown_parts += [each.part for each in self.listings]
        for part in (*shown_parts, *(each.part for each in self.charts), *self.part_data):
            member("part", part, self.parts)
        object.__setattr__(self, "parts", MappingProxyType(dict(self.parts)))
        object.__setattr__(self, "figures", MappingProxyType(dict(self.figures)))

    @property
    def every_claim(self) -> tuple[Claim, ...]:
        """The claims and their second measurements."""
        return tuple(each for claim in self.claims for each in (claim, claim.again) if each)

    def data(self, profile: str) -> tuple[str, ...]:
        """Return the data sets on which a profile depends."""
        return (*self.needs, *(self.uses if profile == "full" else ()))

    def about(self, profile: str) -> About:
        """Return the metadata of the tables: the available data sets."""
        names = self.data(profile)
        return {"data": [name for name in names if missing(name) is None]} if names else {}

    def check_part(self, part: str, table: pa.Table) -> None:
        """Check that the claims, listings and charts of a part find their columns."""
        frame = to_frame(table)
        for claim in self.every_claim:
            if claim.part == part:
                checked(claim, frame)
        for listing in (each for each in self.listings if each.part == part):
            for head, check in listing.checks.items():
                checked(Claim(head, part, check), frame)
            for quantity in listing.quantities():
                bounds(frame, quantity)
        for chart in self.charts:
            if chart.part == part:
                bounds(frame, chart.x)


def checked(claim: Claim, frame: pd.DataFrame) -> pd.Series:
    """Return the mask of a claim; ``ValueError`` if the table does not have its columns."""
    try:
        mask = claim.check(frame)
        if not isinstance(mask, pd.Series) or len(mask) != len(frame):
            raise ValueError(f"check must return a mask of {len(frame)} rows, got {shown(mask)}")
        return mask.astype("boolean")
    except (AttributeError, KeyError, ValueError, TypeError) as error:
        raise ValueError(
            f"claim {shown(claim.text)} cannot be checked in part {claim.part}: {error}"
        ) from error


class MissingPartError(KeyError):
    """A part that is not recorded."""


class _Tables(dict[str, pd.DataFrame]):
    def __missing__(self, part: str) -> pd.DataFrame:
        raise MissingPartError(part)


def frames(recorded: Recorded) -> dict[str, pd.DataFrame]:
    """Return the tables of a recorded analysis by part; another part: ``MissingPartError``."""
    parts = recorded.cells["part"].to_pylist()
    cells = recorded.runs["cell"].to_numpy()
    rows = recorded.runs.drop_columns(["cell"])
    numbers = recorded.cells["cell"].to_pylist()
    return _Tables(
        (part, to_frame(rows.filter(pa.array(cells == number))))
        for number, part in zip(numbers, parts, strict=True)
    )


def to_frame(table: pa.Table) -> pd.DataFrame:
    """Convert a table; columns of integers stay integers, with None if missing."""
    return table.to_pandas(integer_object_nulls=True)


def required(recorded: Recorded) -> Analysis:
    """Return the declaration of a recorded analysis; ``ResultsError`` if it is not known."""
    if recorded.analysis is None:
        name = recorded.about["name"]
        raise ResultsError(
            f"{name} has claims and figures in its declaration, which was not found: pass the "
            "folder of the experiments, or the Analysis, as experiments"
        )
    return recorded.analysis


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

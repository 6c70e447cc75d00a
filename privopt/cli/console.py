"""Console output and number parsing shared by the commands."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Context, Decimal
from fractions import Fraction

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

_MIN_DELTA = 1e-300


def make_table(title: str, *columns: str) -> Table:
    """Return a table. Its first column is never folded."""
    table = Table(*columns, title=title or None, title_justify="left")
    table.columns[0].no_wrap = True
    return table


def make_console(stderr: bool = False) -> Console:
    """Return a console; without a terminal it is wide, so that no line of a log is folded."""
    console = Console(stderr=stderr, highlight=False)
    return console if console.is_terminal else Console(stderr=stderr, highlight=False, width=200)


def digits(value: float, rounding: str) -> str:
    """Return nine significant digits in the given rounding mode of :mod:`decimal`."""
    if not math.isfinite(value):
        return str(value)
    return f"{float(Context(prec=9, rounding=rounding).plus(Decimal(value))):.9g}"


@contextmanager
def plain_errors(context: typer.Context, *kinds: type[Exception]) -> Iterator[None]:
    """Print user errors in one line and exit with status 2."""
    try:
        yield
    except kinds as error:
        if context.obj:
            raise
        make_console(stderr=True).print(f"[red]privopt:[/red] {escape(str(error))}", soft_wrap=True)
        raise typer.Exit(2) from None


def number(name: str, text: str) -> float:
    """Parse a number or a fraction; noise, epsilon and delta are checked."""
    fraction = exact(text) if "/" in text else None
    try:
        value = float(text if fraction is None else fraction)
    except (ValueError, OverflowError):
        raise ValueError(f"{name} must be a number, got {text}") from None
    if name == "noise" and not 0.0 < value < math.inf:
        raise ValueError(f"noise must be positive and finite, got {text}")
    if name == "epsilon" and not 0.0 <= value < math.inf:
        raise ValueError(f"epsilon must be non-negative and finite, got {text}")
    if name == "delta" and not 0.0 <= value < 1.0:
        raise ValueError(f"delta must lie in [0, 1), got {text}")
    if name == "delta" and value < _MIN_DELTA and exact(text) != 0:
        raise ValueError(
            f"delta must be 0 or at least {_MIN_DELTA:g}, below which float64 does not "
            f"resolve it, got {text}"
        )
    return value


def whole(name: str, text: str) -> int:
    """Parse a positive integer, which may be written as ``1e5``."""
    value = number(name, text)
    if not (value >= 1.0 and value.is_integer()):
        raise ValueError(f"{name} must be a positive integer, got {text}")
    return int(value)


def exact(text: str) -> Fraction | None:
    """Return the exact value of a number or fraction, or None for other texts."""
    try:
        return Fraction(text)
    except (ValueError, ZeroDivisionError):
        return None

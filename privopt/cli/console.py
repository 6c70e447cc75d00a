"""What every command prints with: tables, outward rounding, errors in one line."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Context, Decimal

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table


def make_table(title: str, *columns: str) -> Table:
    """A table whose first column is never folded."""
    table = Table(*columns, title=title or None, title_justify="left")
    table.columns[0].no_wrap = True
    return table


def make_console(stderr: bool = False) -> Console:
    """Wide where nobody looks, so that no line of a log is folded."""
    console = Console(stderr=stderr, highlight=False)
    return console if console.is_terminal else Console(stderr=stderr, highlight=False, width=200)


def digits(value: float, rounding: str) -> str:
    """Nine significant digits, rounded as told."""
    if not math.isfinite(value):
        return str(value)
    return f"{float(Context(prec=9, rounding=rounding).plus(Decimal(value))):.9g}"


@contextmanager
def plain_errors(context: typer.Context, *kinds: type[Exception]) -> Iterator[None]:
    """What the user can mend is said in one line, with exit status 2."""
    try:
        yield
    except kinds as error:
        if context.obj:
            raise
        make_console(stderr=True).print(f"[red]privopt:[/red] {escape(str(error))}", soft_wrap=True)
        raise typer.Exit(2) from None

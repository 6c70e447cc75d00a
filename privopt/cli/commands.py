"""Commands of ``privopt``.

Commands that need JAX import it, after the number of host devices is set.
"""

from __future__ import annotations

from typing import Annotated

import typer
from typer import Option

from privopt.cli.accounting import epsilon, noise
from privopt.cli.audits import audit
from privopt.cli.comparisons import compare, recommend
from privopt.cli.experiments import list_, new, report, run, verdicts, work

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(requested: bool) -> None:
    if requested:
        from importlib.metadata import version  # slow to import

        typer.echo(f"privopt {version('privopt')}")
        raise typer.Exit


@app.callback()
def privopt(
    context: typer.Context,
    version: Annotated[
        bool, Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    traceback: Annotated[
        bool, Option("--traceback", help="Print the traceback of an error.")
    ] = False,
) -> None:
    """Run differentially private convex optimisation and compare it with its theorems.

    Example: **privopt run --profile quick** runs every experiment in ./experiments and
    writes build/results/index.html.
    """
    context.obj = traceback


app.command("list")(list_)
for command in (new, run, work, report, verdicts, recommend, compare, audit, epsilon, noise):
    app.command()(command)

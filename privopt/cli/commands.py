"""The commands of ``privopt``, each in the file of its subject.

JAX is imported only by the commands that need it, and after the number of host devices is set.
"""

from __future__ import annotations

from typing import Annotated

import typer

from privopt.cli.accounting import epsilon, noise
from privopt.cli.audits import audit
from privopt.cli.comparisons import compare
from privopt.cli.experiments import list_, report, run, verdicts, work
from privopt.cli.new import new
from privopt.cli.recommending import recommend

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _tell_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version  # slow to import

        typer.echo(f"privopt {version('privopt')}")
        raise typer.Exit


@app.callback()
def privopt(
    context: typer.Context,
    told: Annotated[
        bool,
        typer.Option("--version", callback=_tell_version, is_eager=True, help="Tell the version."),
    ] = False,
    traceback: Annotated[
        bool, typer.Option("--traceback", help="Show where an error came from.")
    ] = False,
) -> None:
    """Differentially private convex optimisation, measured against its theorems.

    Example: **privopt run --profile quick** runs every experiment in ./experiments and
    writes build/results/index.html.
    """
    context.obj = traceback


app.command("list")(list_)
app.command()(new)
app.command()(run)
app.command()(work)
app.command()(report)
app.command()(verdicts)
app.command()(recommend)
app.command()(compare)
app.command()(audit)
app.command()(epsilon)
app.command()(noise)

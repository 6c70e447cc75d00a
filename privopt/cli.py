"""The command ``privopt``: list, run, report, epsilon.

JAX is imported only by the commands that need it, and after the number of host devices is set.
"""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from privopt.spec import Relation

if TYPE_CHECKING:
    from privopt.privacy import Guarantee, Interval

__all__ = ["main"]

EXPERIMENTS = Path("experiments")
_DEVICES = "--xla_force_host_platform_device_count"

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class Profile(StrEnum):
    """How much of an experiment is run."""

    QUICK = "quick"
    FULL = "full"


Results = Annotated[
    Path, typer.Option(help="Folder of records, figures and report; made if absent.")
]


@app.callback()
def privopt(
    context: typer.Context,
    traceback: Annotated[
        bool, typer.Option("--traceback", help="Show where an error came from.")
    ] = False,
) -> None:
    """Differentially private convex optimisation, measured against its theorems.

    Example: **privopt run --profile quick** runs every experiment in ./experiments and
    writes results/index.html.
    """
    context.obj = traceback


@app.command("list")
def list_() -> None:
    """List algorithms, families of problems, and the experiments in ./experiments.

    Example: **privopt list**
    """
    from privopt import lab

    console = _console()
    table = _table("Algorithms", "name", "summary")
    for name, summary in lab.algorithms().items():
        table.add_row(name, escape(summary))
    console.print(table)
    table = _table("Families", "name", "summary", "data")
    for name, (summary, missing) in lab.families().items():
        state = "[green]there[/green]" if missing is None else f"[red]{escape(missing)}[/red]"
        table.add_row(name, escape(summary), state)
    console.print(table)
    table = _table(f"Experiments in ./{EXPERIMENTS}", "name", "title")
    for path in lab.discover(EXPERIMENTS):
        try:
            title = escape(lab.load(path).title)
        except ValueError as error:
            title = f"[red]{escape(str(error))}[/red]"
        table.add_row(path.stem, title)
    console.print(table if table.row_count else f"No experiments in ./{EXPERIMENTS}")


@app.command()
def run(
    context: typer.Context,
    experiments: Annotated[
        list[str] | None,
        typer.Argument(help="Names in ./experiments, or paths; default all of ./experiments."),
    ] = None,
    profile: Annotated[Profile, typer.Option(help="Size of the sweep.")] = Profile.QUICK,
    seed: Annotated[
        int, typer.Option(help="Root of all randomness: the same seed gives the same table.")
    ] = 0,
    results: Results = Path("results"),
    report: Annotated[bool, typer.Option(help="Write figures and report at the end.")] = True,
    devices: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Host devices to spread replicates over; default one a core, or XLA_FLAGS.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Run experiments, judge them against the theorems, and write the report.

    Finished cells are kept as they come: an interrupted run continues where it stopped and ends
    with the same table. Exit status: 0 if every verdict holds, 1 if one is refuted or undecided,
    2 for bad input, 130 if interrupted.

    Example: **privopt run dp_gd --profile full --seed 1**
    """
    _set_host_devices(devices)
    from privopt import lab

    console = _console()
    with _plain_errors(context, ValueError, OSError, lab.ResultsError):
        chosen = lab.choose(experiments or (), EXPERIMENTS)
        sweep = partial(lab.sweep, profile=profile.value, seed=seed, results=results)
        with lab.Display(console) as display:
            swept = [sweep(each, progress=display) for each in chosen]
        console.print(
            f"{sum(part.cells for part in swept)} cells, {sum(part.reused for part in swept)} of "
            f"them from earlier runs: {sum(part.run_seconds for part in swept):.1f} s running, "
            f"{sum(part.compile_seconds for part in swept):.1f} s compiling"
        )
        verdicts = [
            verdict for part in swept for verdict in lab.verdicts(lab.read_table(part.table))
        ]
        console.print(lab.verdict_table(verdicts))
        if report:
            console.print(f"Report: {lab.write_report(results)}", soft_wrap=True)
    raise typer.Exit(int(any(verdict.outcome != "holds" for verdict in verdicts)))


@app.command()
def report(context: typer.Context, results: Results = Path("results")) -> None:
    """Write figures and report again, from the recorded tables alone.

    Example: **privopt report --results results**
    """
    from privopt import lab

    with _plain_errors(context, ValueError, OSError, lab.ResultsError):
        path = lab.write_report(lab.existing_results(results))
        _console().print(f"Report: {path}", soft_wrap=True)


@app.command()
def epsilon(
    context: typer.Context,
    noise: Annotated[
        float,
        typer.Option(
            help="Standard deviation of the Gaussian noise of one step, in units of the bound "
            "on one record's contribution.",
        ),
    ],
    relation: Annotated[Relation, typer.Option(help="When two data sets are neighbours.")],
    steps: Annotated[int, typer.Option(min=1, help="Adaptive releases.")] = 1,
    delta: Annotated[float | None, typer.Option(help="Ask for epsilon at this delta.")] = None,
    at: Annotated[
        float | None, typer.Option("--epsilon", help="Ask for delta at this epsilon.")
    ] = None,
) -> None:
    """Privacy of Gaussian noise: what each accountant proves.

    The smallest epsilon (or delta) lies between lower and upper, which are rounded outwards;
    upper is what may be claimed. Under replace_one a sum moves by twice the bound on one record,
    under the other relations by once.

    Example: **privopt epsilon --noise 2 --steps 10 --delta 1e-6 --relation zero_out**
    """
    from dp_accounting import GaussianDpEvent

    from privopt.privacy import Guarantee

    with _plain_errors(context, ValueError):
        if not 0.0 < noise < math.inf:
            raise ValueError(f"noise must be positive and finite, got {noise!r}")
        if delta is None and at is None:
            raise ValueError("one of --delta and --epsilon must be given, got neither")
        if delta is not None and not 0.0 <= delta < 1.0:
            raise ValueError(f"delta must lie in [0, 1), got {delta!r}")
        if at is not None and not 0.0 <= at < math.inf:
            raise ValueError(f"epsilon must be non-negative and finite, got {at!r}")
        guarantee = Guarantee(GaussianDpEvent(noise), relation).times(steps)
        table = _table("", "accountant", "asked", "lower", "upper", "guarantee")
        for name, question, proved in _proofs(guarantee, delta, at):
            lower, upper = _digits(proved.lower, ROUND_FLOOR), _digits(proved.upper, ROUND_CEILING)
            table.add_row(name, question, lower, upper, "yes")
        _console().print(table)


def main() -> None:
    """Entry point of the command ``privopt``."""
    app(prog_name="privopt")


def _proofs(
    guarantee: Guarantee, delta: float | None, epsilon: float | None
) -> Iterator[tuple[str, str, Interval]]:
    """What each accountant that applies proves: its name, the question, the answer."""
    from privopt.privacy import ACCOUNTANTS

    event, relation = guarantee.event, guarantee.relation
    for each in ACCOUNTANTS:
        if not each.supports(event, relation):
            continue
        if delta is not None:
            yield each.name, f"epsilon at delta = {delta:g}", each.epsilon(event, relation, delta)
        if epsilon is not None:
            yield each.name, f"delta at epsilon = {epsilon:g}", each.delta(event, relation, epsilon)


def _set_host_devices(devices: int | None) -> None:
    """One XLA host device a core, unless the user says otherwise. Must come before JAX."""
    flags = os.environ.get("XLA_FLAGS", "")
    if "jax" in sys.modules or (devices is None and _DEVICES in flags):
        return
    count = devices or _cores()
    kept = re.sub(rf"{_DEVICES}=\S*", "", flags)
    os.environ["XLA_FLAGS"] = f"{kept} {_DEVICES}={count}".strip()


def _cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _table(title: str, *columns: str) -> Table:
    table = Table(*columns, title=title or None, title_justify="left")
    table.columns[0].no_wrap = True
    return table


def _console(stderr: bool = False) -> Console:
    """Wide where nobody looks, so that no line of a log is folded."""
    console = Console(stderr=stderr, highlight=False)
    return console if console.is_terminal else Console(stderr=stderr, highlight=False, width=200)


def _digits(value: float, rounding: str) -> str:
    """Nine significant digits, rounded as told."""
    if not math.isfinite(value):
        return str(value)
    return f"{float(Context(prec=9, rounding=rounding).plus(Decimal(value))):.9g}"


@contextmanager
def _plain_errors(context: typer.Context, *kinds: type[Exception]) -> Iterator[None]:
    """What the user can mend is said in one line, with exit status 2; Ctrl-C is 130."""
    try:
        yield
    except KeyboardInterrupt:
        _console(stderr=True).print(
            "[yellow]Interrupted.[/yellow] Every finished cell is safe: repeat the same command "
            "to continue."
        )
        raise typer.Exit(130) from None
    except kinds as error:
        if context.obj:
            raise
        _console(stderr=True).print(f"[red]privopt:[/red] {escape(str(error))}", soft_wrap=True)
        raise typer.Exit(2) from None

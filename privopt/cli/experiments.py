"""Commands for experiments: list, new, run, work and report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import partial
from keyword import iskeyword
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from typer import Argument, Option

from privopt.arguments import member, shown
from privopt.cli.console import make_console, make_table, plain_errors
from privopt.cli.device import Devices, KeepPrograms, prepare
from privopt.cli.engines import Engine, Order, run_workers

if TYPE_CHECKING:
    from privopt.lab import Analysis, Experiment

EXPERIMENTS = Path("experiments")

REFUTED, DIFFERS = 3, 4
"""Exit status for a refuted verdict, and for a table that differs from the committed one."""

_TOTALS = ("cells", "reused", "refused", "run_seconds", "compile_seconds")
_FILE = '''"""The claim, the problem, and the result that would refute the claim."""

from privopt.lab import Axis, Experiment, Setting

{name} = Experiment(
    name="{name}",
    title="{algorithm} on {family}",
    description="Reasons for the problem and the sizes.",
    algorithms={{"{algorithm}": {{}}}},  # arguments of the plan, such as {{"steps": 100}}
    families=("{family}",),
    base=Setting(n=1000, dim=8, epsilon=1.0),
    axes=(Axis("n", (500, 1000, 2000)), Axis("epsilon", (0.5, 1.0, 2.0))),
    replicates={{"quick": 50, "full": 400}},
    relation="replace_one",
    delta=1e-6,
    checks=("bound",),
)
'''


class Profile(StrEnum):
    """Size of the sweep of an experiment."""

    QUICK = "quick"
    FULL = "full"


RESULTS = {Profile.QUICK: Path("build/results"), Profile.FULL: Path("results")}
"""Default results folder of each profile."""

Names = Annotated[
    list[str] | None,
    Argument(
        help="Names in ./experiments, or paths; default all. Without that folder, the experiments "
        "of the package."
    ),
]
ProfileOption = Annotated[Profile, Option("--profile", help="Size of the sweep.")]
Seed = Annotated[int, Option(help="Root of all randomness: the same seed gives the same table.")]
Results = Annotated[
    Path | None,
    Option(
        help="Folder of records, figures and report; created if absent. Default: build/results for "
        "the quick profile, results for the full one."
    ),
]


def list_() -> None:
    """List algorithms, families of problems, and the experiments in ./experiments.

    Without such a folder, the experiments of the package are listed.

    Example: **privopt list**
    """
    from privopt import lab

    console = make_console()
    table = make_table("Algorithms", "name", "summary")
    for name, summary in lab.algorithms().items():
        table.add_row(name, escape(summary))
    console.print(table)
    table = make_table("Families", "name", "summary", "data")
    for name, (summary, missing) in lab.families().items():
        state = "[green]there[/green]" if missing is None else f"[red]{escape(missing)}[/red]"
        table.add_row(name, escape(summary), state)
    console.print(table)
    folder = _folder()
    table = make_table(f"Experiments in {folder}/", "name", "profiles", "title")
    for path in lab.discover(folder):
        try:
            for each in lab.load(path):
                table.add_row(each.name, ", ".join(each.profiles), escape(each.title))
        except ValueError as error:
            table.add_row(path.stem, "", f"[red]{escape(str(error))}[/red]")
    console.print(table if table.row_count else f"No experiments in {folder}/")


def new(
    context: typer.Context,
    name: Annotated[str, Argument(help="Name of the experiment and of its file.")],
    algorithm: Annotated[str, Option(help="A name in `privopt list`.")] = "dp_gd",
    family: Annotated[str, Option(help="A family in `privopt list`.")] = "linear",
) -> None:
    """Write ./experiments/NAME.py, an experiment that runs unchanged.

    Example: **privopt new mine --algorithm dp_sgd --family sphere_logistic**, then
    **privopt run mine**
    """
    from privopt import lab

    with plain_errors(context, ValueError, OSError):
        member("algorithm", algorithm, lab.algorithms())
        member("family", family, lab.families())
        if not name.isidentifier() or iskeyword(name):
            raise ValueError(
                f"NAME must be a Python name, such as my_experiment, got {shown(name)}"
            )
        EXPERIMENTS.mkdir(exist_ok=True)
        path = EXPERIMENTS / f"{name}.py"
        with path.open("x", encoding="utf-8") as file:  # an existing file is an error
            file.write(_FILE.format(name=name, algorithm=algorithm, family=family))
        typer.echo(f"{path}: change it, then: privopt run {name}")


def run(
    context: typer.Context,
    experiments: Names = None,
    profile: ProfileOption = Profile.QUICK,
    seed: Seed = 0,
    results: Results = None,
    record: Annotated[
        bool,
        Option(
            "--record",
            help="Write the tables with which quick runs are compared: results/quick, beside the "
            "folder of the experiments.",
        ),
    ] = False,
    report: Annotated[bool, Option(help="Write figures and report at the end.")] = True,
    devices: Devices = None,
    cache: KeepPrograms = True,
    engine: Annotated[
        Engine | None, Option(help="Starts workers; by default only this process runs.")
    ] = None,
    workers: Annotated[int | None, Option(min=1, help="Number of workers of the engine.")] = None,
    scheduler: Annotated[
        str | None, Option(metavar="ADDRESS", help="Dask scheduler; default a local one.")
    ] = None,
    option: Annotated[
        list[str] | None,
        Option(metavar="NAME=VALUE", help="For submitit, such as slurm_partition=cpu."),
    ] = None,
) -> None:
    """Run experiments, evaluate them against the theorems, and write the report.

    Finished cells are stored at once: an interrupted run continues and ends with the same table.
    The quick profile skips experiments that have only the full profile.
    A quick run writes to build/results and compares its tables with the small ones committed in
    results/quick, up to round-off. A full run writes to results. A table that was recorded with
    data sets that are missing now is not changed.

    Exit status: 4 if a quick table differs from the committed one, 3 if a verdict is refuted, 2
    for bad input, 130 if interrupted (143 by SIGTERM), else 0. A verdict that is undecided,
    inherited or not tight here is no failure.

    With an engine, workers on one or more machines run cells in a shared folder, under one path on
    all machines; then this process runs the remaining cells and writes the tables. Without an
    engine, **privopt work** on each machine does the same.

    Example: **privopt run dp_gd --profile full --seed 1**
    """
    prepare(devices, cache)
    from privopt import lab
    from privopt.comparison import write_measured

    console = make_console()
    results = results or RESULTS[profile]
    with plain_errors(context, ValueError, OSError, lab.ResultsError, ModuleNotFoundError):
        if record and profile is not Profile.QUICK:
            raise ValueError(f"record must come with the quick profile, got {profile.value}")
        selected = _select(experiments, profile)
        if engine is not None:
            order = Order.of(
                experiments or (), _folder(), results,
                profile=profile.value, seed=seed, devices=devices, cache=cache,
            )  # fmt: skip
            with console.status(f"workers of {engine.value} fill {results}"):
                run_workers(
                    engine,
                    order,
                    workers=workers,
                    scheduler=scheduler,
                    options=dict(map(_name_and_value, option or ())),
                    report=partial(console.print, markup=False, soft_wrap=True),
                )
        elif workers is not None or scheduler is not None or option:
            raise ValueError("engine must be given with workers, scheduler or option, got None")
        run_one = partial(lab.run, profile=profile.value, seed=seed, results=results)
        outcomes, judged, skipped, defects = {}, {}, {}, []
        with lab.Display(console, [each.name for each in selected]) as display:
            for each in selected:
                try:
                    outcomes[each.name] = run_one(each, progress=display)
                    judged[each.name] = lab.verdicts(outcomes[each.name].folder, [each])
                except lab.OverwriteError as error:
                    skipped[each.name] = f"was not run: {error}"
                except (ValueError, OSError, lab.ResultsError):
                    raise
                except Exception as error:  # raised after the other experiments
                    skipped[each.name] = f"has failed: {type(error).__name__}: {error}"
                    defects.append(error)
        verdicts = [verdict for several in judged.values() for verdict in several]
        for verdict in verdicts:
            if len(selected) == 1 or verdict.outcome not in ("holds", "vacuous", "not applicable"):
                typer.echo(f"{verdict.experiment}: {verdict}")
        typer.echo(lab.tally(verdicts))
        total = {name: sum(getattr(each, name) for each in outcomes.values()) for name in _TOTALS}
        typer.echo(
            "{cells} cells, {reused} of them from other runs: {run_seconds:.1f} s running, "
            "{compile_seconds:.1f} s compiling".format(**total)
            + (f"; {total['refused']} refused" if total["refused"] else "")
        )
        for name, reason in skipped.items():
            typer.echo(f"{name} {reason}")
        if report and judged:
            with lab.Display(console) as display:
                page = lab.write_report(
                    results, judged=judged, redraw=False, experiments=_folder(), progress=display
                )
            write_measured(results)
            typer.echo(f"Report: {page}")
        equal = dict[str, bool | None]()
        if profile is Profile.QUICK:
            compared = [each for each in selected if each.name in judged]
            equal = {each.name: _equals_quick_table(each, results, record) for each in compared}
            _print_equality(equal)
        if defects:
            raise defects[0]
        if skipped and experiments:
            names = ", ".join(skipped)
            raise ValueError(f"experiments must not lose recorded tables, got {names}")
    if False in equal.values():
        raise typer.Exit(DIFFERS)
    if any(verdict.outcome == "refuted" for verdict in verdicts):
        raise typer.Exit(REFUTED)


def _equals_quick_table(
    experiment: Experiment | Analysis, results: Path, record: bool
) -> bool | None:
    """Return True if a quick table equals the committed one, None if none is committed.

    A difference is printed. With ``record`` the table is written first.
    """
    from privopt import lab

    folder = _folder().parent / "results" / "quick"
    if record:
        try:
            lab.write_quick_table(results, experiment, folder)
        except lab.OverwriteError as error:
            typer.echo(f"{experiment.name}: {error}")
    difference = lab.quick_difference(results, experiment, folder)
    if difference:
        typer.echo(f"{experiment.name}: {difference}")
    return None if difference is None else not difference


def _print_equality(equal: Mapping[str, bool | None]) -> None:
    """Print how many tables equal the committed ones; no line if none is committed."""
    groups = {
        "different": [name for name, same in equal.items() if same is False],
        "not compared": [name for name, same in equal.items() if same is None],
    }
    if count := len(equal) - len(groups["not compared"]):
        rest = (f"; {label}: {', '.join(names)}" for label, names in groups.items() if names)
        holding = count - len(groups["different"])
        typer.echo(
            f"{holding} of {len(equal)} experiments equal the committed tables{''.join(rest)}"
        )


def work(
    context: typer.Context,
    experiments: Names = None,
    profile: ProfileOption = Profile.QUICK,
    seed: Seed = 0,
    results: Results = None,
    share: Annotated[
        str, Option(help="I/K: every K-th cell, for machines without a shared folder.")
    ] = "1/1",
    backwards: Annotated[
        bool, Option("--backwards", help="Begin with the last experiment.")
    ] = False,
    devices: Devices = None,
    cache: KeepPrograms = True,
) -> None:
    """Run cells of a shared results folder until none is left, as one of several workers.

    Start it on each machine with the arguments of **privopt run**. At the end, start that: it waits
    for cells that are still running, and writes tables and report. The cell of a dead worker is run
    by another one. Without a shared folder, each machine runs a share in its own folder; the
    copies of all folders in one are the whole.

    Example: **privopt work dp_gd --profile full --results /shared/results**
    """
    prepare(devices, cache)
    from privopt import lab

    console = make_console()
    with plain_errors(context, ValueError, OSError, lab.ResultsError):
        selected = _select(experiments, profile)
        part, slash, parts = share.partition("/")
        if not (slash and part.isdigit() and parts.isdigit()):
            raise ValueError(f"share must be I/K with 1 <= I <= K, got {shown(share)}")
        with lab.Display(console, [each.name for each in selected]) as display:
            count = sum(
                lab.work(
                    each,
                    profile=profile.value,
                    seed=seed,
                    results=results or RESULTS[profile],
                    share=(int(part), int(parts)),
                    progress=display,
                )
                for each in (reversed(selected) if backwards else selected)
            )
        typer.echo(f"{count} cells made here; privopt run writes the tables")


def report(
    context: typer.Context,
    results: Annotated[Path, Option(help="Folder of a run.")] = RESULTS[Profile.FULL],
) -> None:
    """Write figures and report again, from the recorded tables alone.

    It also writes measured.parquet, which **privopt recommend** reads without the tables.

    Example: **privopt report --results results**
    """
    from privopt import lab
    from privopt.comparison import write_measured

    console = make_console()
    with plain_errors(context, ValueError, OSError, lab.ResultsError):
        with lab.Display(console) as display:
            path = lab.write_report(
                lab.existing_results(results), experiments=_folder(), progress=display
            )
        write_measured(results)
        typer.echo(f"Report: {path}")


def verdicts(
    context: typer.Context,
    results: Annotated[Path, Option(help="Folder of a run.")] = RESULTS[Profile.FULL],
) -> None:
    """Compute every verdict from the recorded runs, and write them to verdicts.csv.

    Example: **privopt verdicts --results results**
    """
    from privopt import lab

    with plain_errors(context, ValueError, OSError, lab.ResultsError):
        every = [
            verdict for each in lab.all_verdicts(results, _folder()).values() for verdict in each
        ]
        typer.echo(lab.tally(every))
        typer.echo(f"Verdicts: {lab.write_verdicts(results, every)}")


def _select(names: Sequence[str] | None, profile: Profile) -> list[Experiment | Analysis]:
    """Return the selected experiments; print those that are left out, with the reason."""
    from privopt import lab

    selected, omitted = lab.choose(names or (), _folder(), profile.value)
    for reason, others in omitted.items():
        typer.echo(f"Left out, {reason}: {', '.join(others)}")
    return selected


def _name_and_value(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not (name and sign and value):
        raise ValueError(f"option must be NAME=VALUE, got {shown(text)}")
    return name, value


def _folder() -> Path:
    """Return ``./experiments`` or, without it, the folder that comes with the package."""
    from privopt import lab

    return lab.experiments_of(RESULTS[Profile.FULL])

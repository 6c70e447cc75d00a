"""The commands about experiments: list, run, work, report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from privopt.arguments import shown
from privopt.cli.console import make_console, make_table, plain_errors
from privopt.cli.device import Devices, KeepPrograms, prepare
from privopt.cli.engines import Engine, Order, work_with
from privopt.shipped import shipped

if TYPE_CHECKING:
    from privopt.lab import Experiment, Study

EXPERIMENTS = Path("experiments")

REFUTED, DIFFERS = 3, 4
"""Exit status of a refuted verdict, and of a table that differs from the committed one; of a crash
it is 1, and of bad input 2."""


class Profile(StrEnum):
    """How much of an experiment is run."""

    QUICK = "quick"
    FULL = "full"


RESULTS = {Profile.QUICK: Path("build/results"), Profile.FULL: Path("results")}
"""Default results folder of each profile."""

Results = Annotated[
    Path | None,
    typer.Option(
        show_default=False,
        help="Folder of records, figures and report; made if absent. Default: build/results for "
        "the quick profile, results for the full one.",
    ),
]


def list_() -> None:
    """List algorithms, families of problems, and the experiments in ./experiments.

    Where there is no such folder, the experiments are those that come with the package.

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
            for found in lab.load(path):
                table.add_row(found.name, ", ".join(found.profiles), escape(found.title))
        except ValueError as error:
            table.add_row(path.stem, "", f"[red]{escape(str(error))}[/red]")
    console.print(table if table.row_count else f"No experiments in {folder}/")


def run(
    context: typer.Context,
    experiments: Annotated[
        list[str] | None,
        typer.Argument(
            help="Names in ./experiments, or paths; default all. Without that folder, those that "
            "come with the package."
        ),
    ] = None,
    listed: Annotated[
        bool, typer.Option("--list", help="Run nothing: print what **privopt list** prints.")
    ] = False,
    profile: Annotated[Profile, typer.Option(help="Size of the sweep.")] = Profile.QUICK,
    seed: Annotated[
        int, typer.Option(help="Root of all randomness: the same seed gives the same table.")
    ] = 0,
    results: Results = None,
    record: Annotated[
        bool,
        typer.Option(
            "--record",
            help="Write the tables that quick runs are compared with: results/quick, beside the "
            "folder of the experiments.",
        ),
    ] = False,
    report: Annotated[bool, typer.Option(help="Write figures and report at the end.")] = True,
    devices: Devices = None,
    cache: KeepPrograms = True,
    engine: Annotated[
        Engine | None, typer.Option(help="Who starts workers; default none, this process works.")
    ] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="How many, of the engine.")] = None,
    scheduler: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Of Dask; default one of this machine.")
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Of submitit, such as slurm_partition=cpu."),
    ] = None,
) -> None:
    """Run experiments, judge them against the theorems, and write the report.

    Finished cells are kept as they come: an interrupted run continues where it stopped and ends
    with the same table. Experiments of the full profile alone are left out of the quick one.
    A quick run writes to build/results and compares its tables with the small ones committed in
    results/quick, up to round-off. A full run writes to results. A table that
    was recorded with data sets that are missing now is left as it is.

    Exit status: 4 if a quick table differs from the committed one, 3 if a verdict is refuted, 2
    for bad input, 130 if interrupted (143 by SIGTERM), else 0: what stays undecided, is inherited,
    or is not tight here, is no failure.

    With an engine, workers on one or many machines fill the folder first, which all must see
    under one path; then this process makes what they left, and the tables. Without one,
    **privopt work** on each machine does the same.

    Example: **privopt run dp_gd --profile full --seed 1**
    """
    if listed:
        list_()
        return
    prepare(devices, cache)
    from privopt import lab
    from privopt.recommendation import Plates

    console = make_console()
    results = results or RESULTS[profile]
    with plain_errors(context, ValueError, OSError, lab.ResultsError, ModuleNotFoundError):
        if record and profile is not Profile.QUICK:
            raise ValueError(f"record must come with the quick profile, got {profile.value}")
        chosen = _chosen(console, experiments, profile)
        if engine is not None:
            order = Order.of(
                experiments or (),
                _folder(),
                results,
                profile=profile.value,
                seed=seed,
                devices=devices,
                cache=cache,
            )
            options = dict(_named(text) for text in option or ())
            with console.status(f"workers of {engine.value} fill {results}"):
                work_with(
                    engine,
                    order,
                    workers=workers,
                    scheduler=scheduler,
                    options=options,
                    told=lambda ended, number, said: console.print(
                        f"worker {ended} of {number} {said}", markup=False, soft_wrap=True
                    ),
                )
        elif workers is not None or scheduler is not None or option:
            raise ValueError("engine must be given with workers, scheduler or option, got None")
        run_one = partial(lab.run, profile=profile.value, seed=seed, results=results)
        swept, judged, kept = [], {}, {}
        with lab.Display(console, [each.name for each in chosen]) as display:
            for each in chosen:
                try:
                    swept.append(run_one(each, progress=display))
                except lab.OverwriteError as error:
                    kept[each.name] = str(error)
                    continue
                judged[each.name] = lab.verdicts(swept[-1].folder)
        verdicts = [verdict for found in judged.values() for verdict in found]
        telling = [v for v in verdicts if v.outcome not in ("holds", "vacuous")]
        console.print(lab.verdict_table(verdicts if len(chosen) == 1 else telling))
        console.print(lab.tally(verdicts), soft_wrap=True)
        refused = sum(part.refused for part in swept)
        read = sum(part.programs_read for part in swept)
        console.print(
            f"{sum(part.cells for part in swept)} cells, {sum(part.reused for part in swept)} of "
            f"them from earlier runs: {sum(part.run_seconds for part in swept):.1f} s running, "
            f"{sum(part.compile_seconds for part in swept):.1f} s compiling"
            + (f", {read} programs kept from earlier runs" if read else "")
            + (f"; {refused} refused" if refused else "")
        )
        for name, why in kept.items():
            console.print(f"{name} was not run: {why}", markup=False, soft_wrap=True)
        if report and judged:
            with lab.Display(console) as display:
                page = lab.write_report(
                    results, judged=judged, redraw=False, experiments=_folder(), progress=display
                )
            Plates(results).write()
            console.print(f"Report: {page}", soft_wrap=True)
        found = {name: part.as_committed for name, part in zip(judged, swept, strict=True)}
        if profile is Profile.QUICK:
            run_again = [each for each in chosen if each.name in judged]
            found = _compared(console, run_again, results, record=record)
        differ = _tell_committed(console, found)
        if kept and experiments:
            raise ValueError(f"experiments must not lose what is recorded, got {', '.join(kept)}")
    if profile is Profile.QUICK and differ:
        raise typer.Exit(DIFFERS)
    if any(verdict.outcome == "refuted" for verdict in verdicts):
        raise typer.Exit(REFUTED)


def _compared(
    console: Console, experiments: Sequence[Experiment | Study], results: Path, *, record: bool
) -> dict[str, bool | None]:
    """Return for each experiment whether its quick table equals the committed one; print how not.

    ``None`` where no table is committed. With ``record`` the tables are written first.
    """
    from privopt import lab

    folder, equal = _folder().parent / "results" / "quick", dict[str, bool | None]()
    for each in experiments:
        if record:
            try:
                lab.write_quick_table(results, each, folder)
            except lab.OverwriteError as error:
                console.print(f"{each.name}: {error}", markup=False, soft_wrap=True)
        difference = lab.quick_difference(results, each, folder)
        if difference:
            console.print(f"{each.name}: {difference}", markup=False, soft_wrap=True)
        equal[each.name] = None if difference is None else not difference
    return equal


def work(
    context: typer.Context,
    experiments: Annotated[
        list[str] | None, typer.Argument(help="As of **privopt run**; default all.")
    ] = None,
    profile: Annotated[Profile, typer.Option(help="Size of the sweep.")] = Profile.QUICK,
    seed: Annotated[int, typer.Option(help="Root of all randomness.")] = 0,
    results: Results = None,
    share: Annotated[
        str, typer.Option(help="I/K: every K-th cell, for machines that share no folder.")
    ] = "1/1",
    devices: Devices = None,
    cache: KeepPrograms = True,
) -> None:
    """Take cells of a results folder until none is left: one worker of many on one folder.

    Start it on each machine with the arguments of **privopt run**, and at the end run that: it
    waits for cells that are still held, and writes tables and report. A cell whose worker has died
    is taken by another. Without a folder that all see, each machine takes a share into its own, and
    copies of all in one are the whole.

    Example: **privopt work dp_gd --profile full --results /shared/results**
    """
    prepare(devices, cache)
    from privopt import lab

    console = make_console()
    with plain_errors(context, ValueError, OSError, lab.ResultsError):
        chosen = _chosen(console, experiments, profile)
        with lab.Display(console, [each.name for each in chosen]) as display:
            made = sum(
                lab.work(
                    each,
                    profile=profile.value,
                    seed=seed,
                    results=results or RESULTS[profile],
                    share=_share(share),
                    progress=display,
                )
                for each in chosen
            )
        console.print(f"{made} cells made here; privopt run writes the tables", soft_wrap=True)


def _share(text: str) -> tuple[int, int]:
    """Of ``I/K`` the two numbers."""
    part, slash, parts = text.partition("/")
    if not (slash and part.isdigit() and parts.isdigit()):
        raise ValueError(f"share must be I/K with 1 <= I <= K, got {shown(text)}")
    return int(part), int(parts)


def report(
    context: typer.Context,
    results: Annotated[Path, typer.Option(help="Folder of a run.")] = RESULTS[Profile.FULL],
) -> None:
    """Write figures and report again, from the recorded tables alone.

    Also measured.parquet, of which **privopt recommend** reads what was measured where the tables
    are not.

    Example: **privopt report --results results**
    """
    from privopt import lab
    from privopt.recommendation import Plates

    console = make_console()
    with plain_errors(context, ValueError, OSError, lab.ResultsError):
        with lab.Display(console) as display:
            path = lab.write_report(
                lab.existing_results(results), experiments=_folder(), progress=display
            )
        Plates(results).write()
        console.print(f"Report: {path}", soft_wrap=True)


def verdicts(
    context: typer.Context,
    results: Annotated[Path, typer.Option(help="Folder of a run.")] = RESULTS[Profile.FULL],
) -> None:
    """Compute every verdict from the recorded runs, and write them to verdicts.csv.

    Example: **privopt verdicts --results results**
    """
    from privopt import lab

    console = make_console()
    with plain_errors(context, ValueError, OSError, lab.ResultsError):
        every = [verdict for each in lab.all_verdicts(results).values() for verdict in each]
        console.print(lab.tally(every), soft_wrap=True)
        console.print(f"Verdicts: {lab.write_verdicts(results, every)}", soft_wrap=True)


def _chosen(
    console: Console, names: Sequence[str] | None, profile: Profile
) -> list[Experiment | Study]:
    """The experiments asked for; those left out are told with the reason."""
    from privopt import lab

    chosen, left_out = lab.choose(names or (), _folder(), profile.value)
    for why, others in left_out.items():
        told = f"Left out, {why}: {', '.join(others)}"
        console.print(told, markup=False, soft_wrap=True)
    return chosen


def _named(text: str) -> tuple[str, str]:
    name, found, value = text.partition("=")
    if not (name and found and value):
        raise ValueError(f"option must be NAME=VALUE, got {shown(text)}")
    return name, value


def _folder() -> Path:
    """Return ``./experiments`` or, if there is none, the folder that comes with the package."""
    others = shipped("experiments")
    return others if others.is_dir() and not EXPERIMENTS.is_dir() else EXPERIMENTS


def _tell_committed(console: Console, same: Mapping[str, bool | None]) -> bool:
    """Print how many tables equal the committed ones, and which do not; return True if any differs.

    Nothing is printed if none is committed.
    """
    known = {name: equal for name, equal in same.items() if equal is not None}
    differ = [name for name, equal in known.items() if not equal]
    others = [name for name in same if name not in known]
    if known:
        told = {"different": differ, "not compared": others}
        rest = (f"; {what}: {', '.join(names)}" for what, names in told.items() if names)
        console.print(
            f"{len(known) - len(differ)} of {len(same)} experiments equal the committed tables"
            + "".join(rest),
            soft_wrap=True,
        )
    return bool(differ)

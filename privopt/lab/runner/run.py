"""Runs of experiments and analyses: unfinished cells, tables and provenance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, partial
from importlib.metadata import version
from numbers import Integral
from pathlib import Path

import jax
import pyarrow as pa

from privopt.algorithms import ALGORITHMS
from privopt.arguments import instance, positive_integer, shown
from privopt.lab.runner.analysis import Analysis, Row, one_kind, part_rows
from privopt.lab.runner.cache_key import cell_key, environment, user_code
from privopt.lab.runner.cells import Cell, cells, omissions
from privopt.lab.runner.experiment import Experiment, require_profile, unanswered
from privopt.lab.runner.measure import SweepCache, measure
from privopt.lab.runner.quick_tables import keep_recorded
from privopt.lab.runner.store import (
    CELLS,
    RUNS,
    About,
    CachedResult,
    Provenance,
    Recorded,
    clear_partial,
    open_results,
    read_provenance,
    write_provenance,
    write_recorded,
)
from privopt.lab.runner.work import Note, Progress, Task, print_notes, resume
from privopt.problems.datasets import missing

_MEASURE_VERSION = 1  # of the numbers that ``measure`` computes from a run
_SEEDS = 2**63


@dataclass(frozen=True)
class RunResult:
    """Counts and times of a run."""

    folder: Path  # of the tables; :func:`privopt.lab.read` reads them
    cells: int  # with runs
    reused: int  # of these, from another run before or meanwhile
    refused: int  # cells whose plan was refused or whose runs failed
    run_seconds: float  # of all cells, in any run
    compile_seconds: float


def run(
    experiment: Experiment | Analysis,
    *,
    profile: str,
    seed: int,
    results: Path | str,
    progress: Progress = print_notes,
) -> RunResult:
    """Run every unfinished cell of an experiment, or part of an analysis, and write its tables.

    Each finished cell is cached under a key of the inputs that determine its numbers. An
    interrupted run continues with the same call, to the same bits. All plans are made before the
    first run. A refused plan is a row with the reason, and a cell that raises an error is a row
    with the error; the next call runs it again. Runs are in float64, replicates are distributed
    over ``jax.devices()``, and cells of equal shape share one compiled program.

    The key contains the numbers of the plan, a digest of the data, ``Algorithm.version``, the
    version of JAX, and the source of user code (its file or notebook cell). Changes of docstrings
    and comments do not change it.

    Parameters
    ----------
    profile : {"quick", "full"}
    seed : int
        Root of all randomness, from -2^63 to 2^63 - 2; the second keys have the next root. Analyses
        do not use it.
    results : path
        A folder that is empty, absent, or created by privopt.
    progress : callable, optional
        Receives every event. By default notes are printed to standard error: omitted families,
        refused plans, failed cells, and checks without a theorem or plan, with reasons.

    Raises
    ------
    ResultsError
        If ``results`` is another folder or cannot be written; finished cells stay.
    OverwriteError
        If the recorded table is of the full profile and this run of the quick one, or if it was
        recorded with data sets that are missing now.
    """
    folder, tasks, about = _prepare(experiment, profile, seed, results, progress)
    keep_recorded(folder, experiment, profile)
    outcomes, reused = resume(experiment.name, tasks, folder, progress)
    finished = [
        (task, outcome)
        for task, outcome in zip(tasks, outcomes, strict=True)
        if isinstance(outcome, CachedResult)
    ]
    if isinstance(experiment, Analysis):
        for task, outcome in finished:
            experiment.check_part(task.label, outcome.values)
    titles: About = {
        "title": experiment.title,
        "description": experiment.description,
        "profile": profile,
    }
    tables = _tables(tasks, outcomes, is_analysis=isinstance(experiment, Analysis))
    recorded = Recorded({"name": experiment.name, **titles, **about}, *tables)
    write_recorded(folder, recorded)
    result = RunResult(
        folder,
        cells=len(finished),
        reused=reused,
        refused=len(tasks) - len(finished),
        run_seconds=sum(outcome.run_seconds for _, outcome in finished),
        compile_seconds=sum(outcome.compile_seconds for _, outcome in finished),
    )
    before = [entry["key"] for entry in read_provenance(folder).get("per_cell", ())]
    if reused < len(finished) or before != [task.key for task, _ in finished]:
        write_provenance(folder, {**_provenance(result, finished), "profile": profile})
    return result


def work(
    experiment: Experiment | Analysis,
    *,
    profile: str,
    seed: int,
    results: Path | str,
    share: tuple[int, int] = (1, 1),
    progress: Progress = print_notes,
) -> int:
    """Run the cells of :func:`run` that no other process has locked, and return their number.

    Several machines can work on one folder. A final ``run`` computes the remaining cells, waits for
    locked ones, and writes the tables. Machines without a common folder each run a ``share``, the
    i-th of k, in separate folders. The name of a cell's file is its key, so that copying the
    folders into one merges them.
    """
    part, parts = share
    positive_integer("parts", parts)
    if not 1 <= positive_integer("part", part) <= parts:
        raise ValueError(f"share must be I/K with 1 <= I <= K, got {part}/{parts}")
    folder, tasks, _ = _prepare(experiment, profile, seed, results, progress)
    _, others = resume(
        experiment.name, tasks, folder, progress, one_of_many=True, share=(part, parts)
    )
    return len([task for task in tasks if task.make is not None][part - 1 :: parts]) - others


def _prepare(
    experiment: Experiment | Analysis,
    profile: str,
    seed: int,
    results: Path | str,
    progress: Progress,
) -> tuple[Path, list[Task], About]:
    """Return the folder, the tasks and the metadata of an experiment."""
    if not isinstance(experiment, Analysis):
        instance("experiment", experiment, Experiment)
    require_profile(experiment.name, experiment.profiles, profile)
    if isinstance(seed, bool) or not isinstance(seed, Integral) or not -_SEEDS <= seed < _SEEDS - 1:
        raise ValueError(f"seed must be an integer from -2^63 to 2^63 - 2, got {shown(seed)}")
    folder = open_results(results) / experiment.name
    clear_partial(folder)
    if isinstance(experiment, Analysis):
        return folder, _part_tasks(experiment, profile), experiment.about(profile)
    tasks = _cell_tasks(experiment, profile, int(seed), progress)
    return folder, tasks, {**experiment.about(profile), "root_seed": int(seed)}


def _cell_tasks(experiment: Experiment, profile: str, seed: int, progress: Progress) -> list[Task]:
    """Plan every cell of a sweep, and report omitted families, refusals and undecided checks."""
    with jax.enable_x64(True):
        every = cells(experiment, profile)
    for message in omissions(experiment, profile):
        progress(Note(experiment.name, message))
    sweep = SweepCache(seed)

    @cache
    def code(algorithm: str, family: str) -> str:
        functions = filter(callable, vars(ALGORITHMS[algorithm]).values())
        return user_code(*functions, experiment.family(family).build)

    def plan(cell: Cell) -> Task:
        facts = {**cell.facts, "root_seed": cell.trial.root(seed), "profile": profile}
        algorithm = ALGORITHMS[cell.algorithm]
        try:
            planned = sweep.prepare(cell, algorithm, experiment.family(cell.family))
        except ValueError as error:
            return Task(cell.label, {**facts, "refused": str(error)})
        source = code(cell.algorithm, cell.family)
        return Task(
            cell.label,
            {**facts, **planned.facts},
            key=cell_key(
                measure=_MEASURE_VERSION,
                cell=cell.identity,
                replicates=cell.replicates,
                block=cell.block,
                group=cell.group,
                trial=cell.trial.value,
                noise_factor=planned.noise_factor,
                seed=seed,
                data=planned.data,
                quantity=planned.quantity.name,
                numbers=planned.numbers,
                algorithm=[algorithm.name, algorithm.version],
                code=source,
            ),
            code=source,
            make=partial(measure, planned, sweep),
            program=planned.program,
            may_fail=True,
        )

    with jax.enable_x64(True):
        tasks = [plan(cell) for cell in every]
    refusals = Counter(task.facts["refused"] for task in tasks if task.make is None)
    for reason, count in refusals.items():
        share = "all" if count == len(tasks) else f"{count} of"
        text = f"{share} {len(tasks)} plans are refused: {reason}"
        progress(Note(experiment.name, text, urgent=False))
    rows = ({**dict.fromkeys(CELLS.names), **task.facts} for task in tasks)
    for each in unanswered(experiment.checks, rows):
        text = "the {check} of {method} on {family} is not tested: {detail}".format_map(each)
        progress(Note(experiment.name, text))
    return tasks


def _part_tasks(analysis: Analysis, profile: str) -> list[Task]:
    """Return a task for every part of an analysis with its data; it may run any algorithm."""
    versions = {
        name: algorithm.version
        for name, algorithm in ALGORITHMS.items()
        if algorithm.plan.__module__.startswith("privopt.")
    }

    def task(name: str, part: Callable[[str], Iterable[Row]]) -> Task:
        facts = {"experiment": analysis.name, "part": name, "profile": profile}
        code = user_code(part)
        key = cell_key(part=facts, code=code, algorithms=versions)
        return Task(name, facts, key, code, lambda: (part_rows(name, part(profile)), {}))

    return [
        task(name, part)
        for name, part in analysis.parts.items()
        if all(missing(data) is None for data in analysis.part_data.get(name, ()))
    ]


def _tables(
    tasks: Sequence[Task], outcomes: Sequence[CachedResult | str | None], *, is_analysis: bool
) -> tuple[pa.Table, pa.Table]:
    """Return the tables of cells and runs. Columns that a part of an analysis lacks are null."""
    rows, runs = [], []
    for i, (task, outcome) in enumerate(zip(tasks, outcomes, strict=True)):
        row = {"cell": i, **task.facts}
        if isinstance(outcome, CachedResult):
            row |= outcome.facts
            cell = pa.array([i] * outcome.values.num_rows, pa.int64())
            runs.append(outcome.values.replace_schema_metadata().add_column(0, "cell", cell))
        elif outcome is not None:  # an error; later columns are null
            names = CELLS.names[: CELLS.names.index("refused")]
            row = {**{name: row.get(name) for name in names}, "refused": outcome}
        rows.append(row)
    of_cells = pa.Table.from_pylist(rows, schema=None if is_analysis else CELLS)
    if not runs:
        return of_cells, RUNS.empty_table()
    with one_kind("all parts"):
        of_runs = pa.concat_tables(runs, promote_options="permissive").combine_chunks()
    return of_cells, of_runs if is_analysis else of_runs.cast(RUNS)


def _provenance(result: RunResult, finished: Sequence[tuple[Task, CachedResult]]) -> Provenance:
    return {
        "privopt": version("privopt"),
        "date": datetime.now(UTC).date().isoformat(),
        "environment": {**environment(), "devices": str(len(jax.devices()))},
        "code": cell_key(code=sorted({task.code for task, _ in finished})),
        **{name: value for name, value in vars(result).items() if name != "folder"},
        "per_cell": [
            {
                "cell": task.label,
                "key": task.key,
                "run_seconds": outcome.run_seconds,
                "compile_seconds": outcome.compile_seconds,
            }
            for task, outcome in finished
        ],
    }

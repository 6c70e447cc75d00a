"""Running an experiment: every cell that is not there yet, then the table of all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import pyarrow as pa

from privopt.lab import records
from privopt.lab.cell import Cell
from privopt.lab.compile_clock import compile_clock
from privopt.lab.environment import code_fingerprint, environment
from privopt.lab.experiment import Experiment
from privopt.lab.folder import open_results
from privopt.lab.grid import absent_families, cells
from privopt.lab.measure import Bench, Job, measure

__all__ = ["Event", "Finished", "Note", "Started", "SweepResult", "sweep"]


@dataclass(frozen=True)
class Started:
    """All cells are planned; ``reused`` of ``total`` are there already."""

    experiment: str
    total: int
    reused: int


@dataclass(frozen=True)
class Finished:
    """One more cell is kept."""

    cell: Cell
    run_seconds: float
    compile_seconds: float


@dataclass(frozen=True)
class Note:
    """Something the user should know: what was left out, left alone or moved aside."""

    experiment: str
    text: str


Event = Started | Finished | Note


@dataclass(frozen=True)
class SweepResult:
    """What a sweep left behind.

    Attributes
    ----------
    table : Path
        Of the rows of every cell, in the order of the experiment.
    cells, reused : int
        All cells, and those that an earlier sweep had finished.
    run_seconds, compile_seconds : float
        Spent on all cells, by whichever sweep ran them.
    """

    table: Path
    cells: int
    reused: int
    run_seconds: float
    compile_seconds: float


def sweep(
    experiment: Experiment,
    *,
    profile: str,
    seed: int,
    results: Path | str,
    progress: Callable[[Event], object] = lambda event: None,
) -> SweepResult:
    """Run every unfinished cell of an experiment and write its table.

    Each finished cell is kept at once, under a key of everything that changes it; whenever the
    sweep is interrupted, the same call continues and arrives at the same table to the bit.
    Everything is planned before anything is run. Runs are in float64, replicates spread over
    ``jax.devices()``, and cells of equal shape share one compiled program.

    Parameters
    ----------
    experiment : Experiment
    profile : {"quick", "full"}
    seed : int
        Root of all randomness, from -2^63 to 2^63 - 1.
    results : path
        A folder that is empty, absent, or made by privopt.
    progress : callable, optional
        Told of every event; nothing is printed here.

    Raises
    ------
    ValueError
        If a plan is refused, or data break their declared class.
    FileNotFoundError
        If data are missing.
    ResultsError
        If ``results`` is not ours or cannot be written; finished cells stay.
    """
    if not -(2**63) <= seed < 2**63:
        raise ValueError(f"seed must be an integer of 64 bits, got {seed!r}")
    results = open_results(results)
    for name, why in absent_families(experiment).items():
        progress(Note(experiment.name, f"{name} is left out: {why}"))
    with jax.enable_x64(True):
        bench = Bench()
        jobs = [bench.prepare(cell) for cell in cells(experiment, profile)]
        made_by: dict[str, Any] = {"environment": environment(), "code": code_fingerprint()}
        paths = [
            records.cell_path(
                results, experiment.name, job.cell.key(seed=seed, data=job.data, **made_by)
            )
            for job in jobs
        ]
        rows = {}
        for path, job in zip(paths, jobs, strict=True):
            found = _recall(path, job, progress)
            if found is not None:
                rows[path] = found
        _note_strangers(experiment, results, paths, progress)
        progress(Started(experiment.name, total=len(jobs), reused=len(rows)))
        reused = len(rows)
        for path, job in zip(paths, jobs, strict=True):
            if path not in rows:
                rows[path] = _run(path, job, bench, seed, made_by, progress)
    return _conclude(experiment, profile, seed, results, jobs, [rows[p] for p in paths], reused)


def _recall(path: Path, job: Job, progress: Callable[[Event], object]) -> pa.Table | None:
    """The rows of a finished cell, or ``None``; a damaged file is moved aside."""
    try:
        return records.read_cell(path, job.cell.replicates)
    except FileNotFoundError:
        return None
    except records.DamagedCellError as error:
        aside = records.set_aside(path)
        text = f"damaged cell moved to {aside.name}, and run again ({error})"
        progress(Note(job.cell.experiment, text))
        return None


def _run(
    path: Path,
    job: Job,
    bench: Bench,
    seed: int,
    made_by: dict[str, Any],
    progress: Callable[[Event], object],
) -> pa.Table:
    begin = time.perf_counter()
    with compile_clock() as clock:
        rows = measure(job, bench, seed=seed, **made_by)
    run_seconds = time.perf_counter() - begin - clock.seconds
    records.write_cell(path, rows, run_seconds=run_seconds, compile_seconds=clock.seconds)
    progress(Finished(job.cell, run_seconds, clock.seconds))
    return records.read_cell(path, job.cell.replicates)


def _note_strangers(
    experiment: Experiment,
    results: Path,
    paths: Iterable[Path],
    progress: Callable[[Event], object],
) -> None:
    folder = results / experiment.name / "cells"
    strangers = set(folder.glob("*.parquet")) - set(paths)
    if strangers:
        text = (
            f"{len(strangers)} cells in {folder} come from other code or settings: "
            "left alone, not used"
        )
        progress(Note(experiment.name, text))


def _conclude(
    experiment: Experiment,
    profile: str,
    seed: int,
    results: Path,
    jobs: list[Job],
    rows: list[pa.Table],
    reused: int,
) -> SweepResult:
    """Write the table and, apart from it, the timings."""
    seconds = [records.timing(part) for part in rows]
    run_seconds, compile_seconds = (float(sum(part)) for part in zip(*seconds, strict=True))
    table = records.assemble(
        ((part, job.cell.axes) for part, job in zip(rows, jobs, strict=True)), profile
    )
    path = records.table_path(results, experiment.name)
    about = {
        "name": experiment.name,
        "title": experiment.title,
        "description": experiment.description,
        "checks": experiment.checks,
        "axes": {axis.name: axis.at(profile) for axis in experiment.axes},
        "profile": profile,
        "root_seed": seed,
        "replicates": experiment.replicates[profile],
    }
    records.write_table(path, table, about)
    timings = {
        "profile": profile,
        "cells": len(jobs),
        "reused": reused,
        "run_seconds": run_seconds,
        "compile_seconds": compile_seconds,
        "per_cell": [
            {"cell": job.cell.label, "run_seconds": ran, "compile_seconds": compiled}
            for job, (ran, compiled) in zip(jobs, seconds, strict=True)
        ],
    }
    records.write_timings(path.parent, timings)
    return SweepResult(path, len(jobs), reused, run_seconds, compile_seconds)

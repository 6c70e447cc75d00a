"""Running an experiment: every cell that is not there yet, then the table of all of them."""

from __future__ import annotations

from functools import partial
from numbers import Integral
from pathlib import Path
from typing import Any

import jax

from privopt.arguments import instance, member
from privopt.lab.make.cells import absent_families, cells
from privopt.lab.make.experiment import PROFILES, Experiment
from privopt.lab.make.fingerprint import code_fingerprint, environment
from privopt.lab.make.folder import open_results
from privopt.lab.make.measure import Bench, Job, measure
from privopt.lab.make.records import assemble, cell_path, read_cell, read_kept, table_path
from privopt.lab.make.resume import Note, Piece, Progress, SweepResult, conclude, resume
from privopt.lab.make.study import Part, Study, check_quantity, joined, part_rows
from privopt.lab.make.user_code import user_code

__all__ = ["conduct", "run_study", "size", "sweep"]


def sweep(
    experiment: Experiment,
    *,
    profile: str,
    seed: int,
    results: Path | str,
    progress: Progress = lambda event: None,
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
    instance("experiment", experiment, Experiment)
    member("profile", profile, PROFILES)
    if isinstance(seed, bool) or not isinstance(seed, Integral) or not -(2**63) <= seed < 2**63:
        raise ValueError(f"seed must be an integer of 64 bits, got {seed!r}")
    folder = open_results(results)
    for name, why in absent_families(experiment).items():
        progress(Note(experiment.name, f"{name} is left out: {why}"))
    with jax.enable_x64(True):
        bench = Bench(experiment.family)
        jobs = [bench.prepare(cell) for cell in cells(experiment, profile)]
        made_by: dict[str, Any] = {"environment": environment(), "code": code_fingerprint()}

        def piece(job: Job) -> Piece:
            key = job.cell.key(seed=seed, data=job.data, user_code=job.user_code, **made_by)
            return Piece(
                job.cell,
                cell_path(folder, experiment.name, key),
                measure=lambda: measure(job, bench, seed=seed),
                read=partial(read_cell, replicates=job.cell.replicates),
            )

        rows, reused = resume(experiment.name, [piece(job) for job in jobs], progress)
    planned = [job.cell for job in jobs]
    table = assemble(((part, cell.axes) for part, cell in zip(rows, planned, strict=True)), profile)
    return conclude(
        table_path(folder, experiment.name),
        table,
        _about(experiment, profile, seed),
        list(zip(planned, rows, strict=True)),
        reused,
        made_by,
    )


def _about(experiment: Experiment, profile: str, seed: int) -> dict[str, Any]:
    return {
        "name": experiment.name,
        "title": experiment.title,
        "description": experiment.description,
        "checks": experiment.checks,
        "axes": {axis.name: axis.at(profile) for axis in experiment.axes},
        "profile": profile,
        "root_seed": seed,
        "replicates": experiment.replicates[profile],
    }


def run_study(
    study: Study,
    *,
    profile: str,
    results: Path | str,
    progress: Progress = lambda event: None,
) -> SweepResult:
    """Compute every part of a study that is not there yet and write its table.

    As with a sweep, each finished part is kept at once, under a key of everything that changes it,
    the code of its function included; whenever it is interrupted, the same call continues and
    arrives at the same table to the bit.

    Parameters
    ----------
    study : Study
    profile : {"quick", "full"}
    results : path
        A folder that is empty, absent, or made by privopt.
    progress : callable, optional
        Told of every event; nothing is printed here.

    Raises
    ------
    ValueError
        If a part gives no rows, or something else than numbers, texts, ``None`` and intervals, or
        lacks a quantity that is claimed or shown.
    ResultsError
        If ``results`` is not ours or cannot be written; finished parts stay.
    """
    instance("study", study, Study)
    member("profile", profile, PROFILES)
    folder = open_results(results)
    made_by: dict[str, Any] = {"environment": environment(), "code": code_fingerprint()}

    def piece(part: Part) -> Piece:
        key = part.key(user_code=user_code(study.parts[part.name]), **made_by)
        return Piece(
            part,
            cell_path(folder, study.name, key),
            measure=lambda: part_rows(part, study.parts[part.name](profile)),
            read=partial(read_kept, fits=lambda rows: rows.num_rows > 0),
        )

    parts = [Part(study.name, name, profile) for name in study.parts]
    tables, reused = resume(study.name, [piece(part) for part in parts], progress)
    for part, quantity in study.shown.quantities():
        check_quantity(part, quantity, tables[list(study.parts).index(part)])
    return conclude(
        table_path(folder, study.name),
        joined(tables),
        {
            "name": study.name,
            "title": study.title,
            "description": study.description,
            "profile": profile,
            "study": study.shown.to_json(),
        },
        list(zip(parts, tables, strict=True)),
        reused,
        made_by,
    )


def size(experiment: Experiment | Study, profile: str) -> int:
    """How many cells, or parts, an experiment of either kind has."""
    if isinstance(experiment, Study):
        return len(experiment.parts)
    return len(cells(experiment, profile))


def conduct(
    experiment: Experiment | Study,
    *,
    profile: str,
    seed: int,
    results: Path | str,
    progress: Progress = lambda event: None,
) -> SweepResult:
    """Run an experiment of either kind, as :func:`privopt.lab.sweep` runs a sweep.

    A study draws nothing at random: ``seed`` does not change it.
    """
    if isinstance(experiment, Study):
        return run_study(experiment, profile=profile, results=results, progress=progress)
    return sweep(experiment, profile=profile, seed=seed, results=results, progress=progress)

"""Running an experiment: every cell that is not there yet, then the table of all of them."""

from __future__ import annotations

from functools import partial
from numbers import Integral
from pathlib import Path
from typing import Any

import jax

from privopt.arguments import instance, member
from privopt.lab import records
from privopt.lab.environment import code_fingerprint, environment
from privopt.lab.experiment import PROFILES, Experiment
from privopt.lab.folder import open_results
from privopt.lab.grid import absent_families, cells
from privopt.lab.measure import Bench, Job, measure
from privopt.lab.resume import Note, Piece, Progress, SweepResult, conclude, resume

__all__ = ["sweep"]


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
                records.cell_path(folder, experiment.name, key),
                measure=lambda: measure(job, bench, seed=seed),
                read=partial(records.read_cell, replicates=job.cell.replicates),
            )

        rows, reused = resume(experiment.name, [piece(job) for job in jobs], progress)
    planned = [job.cell for job in jobs]
    table = records.assemble(
        ((part, cell.axes) for part, cell in zip(rows, planned, strict=True)), profile
    )
    return conclude(
        records.table_path(folder, experiment.name),
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

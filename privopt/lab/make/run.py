"""Running an experiment of either kind: every cell that is not there yet, then its two tables."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, partial
from importlib.metadata import version
from numbers import Integral
from pathlib import Path

import jax
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privopt.algorithms import ALGORITHMS
from privopt.arguments import instance, positive_integer, shown
from privopt.lab.make.bench import Bench, measure
from privopt.lab.make.cells import Cell, cells, left_out
from privopt.lab.make.checks import unanswered
from privopt.lab.make.experiment import Experiment, require_profile
from privopt.lab.make.fingerprint import HOST, environment, fingerprint
from privopt.lab.make.folder import clear_partial, open_results
from privopt.lab.make.overwrite import keep_recorded
from privopt.lab.make.programs import programs_read
from privopt.lab.make.records import (
    CELLS,
    RUNS,
    About,
    Kept,
    Provenance,
    Recorded,
    Value,
    read_provenance,
    write_provenance,
    write_recorded,
)
from privopt.lab.make.resume import Note, Piece, Progress, print_notes, resume
from privopt.lab.make.study import Study, one_kind, part_rows

_BITS = 2**63
_MEASURING = tuple(
    f"privopt.lab.make.{name}" for name in ("bench", "search", "trials", "quantities", "keys")
)


@dataclass(frozen=True)
class RunResult:
    """What a run left behind."""

    folder: Path  # of the tables; :func:`privopt.lab.read` reads them
    cells: int  # that were run
    reused: int  # of them, made by another run before or meanwhile
    refused: int  # beside them, whose plan was refused
    run_seconds: float  # of all cells, by whichever run made them
    compile_seconds: float
    programs_read: int  # from JAX's persistent cache, by this run: none of their time is compiling
    as_committed: bool | None = None  # whether the tables equal the committed ones


def run(
    experiment: Experiment | Study,
    *,
    profile: str,
    seed: int,
    results: Path | str,
    progress: Progress = print_notes,
) -> RunResult:
    """Run every unfinished cell of an experiment, or part of a study, and write its tables.

    Each finished cell is kept at once, under a key of everything that determines its numbers;
    whenever the run is interrupted, the same call continues and arrives at the same tables to the
    bit. Everything is planned before anything is run; a plan that is refused is a row with the
    reason, and stops nothing. Runs are in float64, replicates spread over ``jax.devices()``, and
    cells of equal shape share one compiled program.

    Parameters
    ----------
    profile : {"quick", "full"}
    seed : int
        Root of all randomness, from -2^63 to 2^63 - 2; the second keys are of the next one. A
        study has none of it.
    results : path
        A folder that is empty, absent, or made by privopt.
    progress : callable, optional
        Told of every event. By default what the user should know is printed to standard error:
        what is left out, which plans are refused, and which checks stay undecided, with reasons.

    Raises
    ------
    ResultsError
        If ``results`` is not ours or cannot be written; finished cells stay.
    OverwriteError
        If the recorded table is of the full profile and this run of the quick one, or if it was
        recorded with data sets that are missing now.
    """
    folder, pieces, about, schemas = _asked(experiment, profile, seed, results, progress)
    keep_recorded(folder, experiment, profile)
    read_before = programs_read()
    kept, reused = resume(experiment.name, pieces, folder, progress)
    if isinstance(experiment, Study):
        for part, found in zip(experiment.parts, kept, strict=True):
            experiment.check_quantities(part, found.values.column_names if found else ())
    told: About = {
        "title": experiment.title,
        "description": experiment.description,
        "profile": profile,
    }
    recorded = Recorded({"name": experiment.name, **told, **about}, *_tables(pieces, kept, schemas))
    as_committed = write_recorded(folder, recorded)
    there = [(piece, found) for piece, found in zip(pieces, kept, strict=True) if found]
    result = RunResult(
        folder,
        cells=len(there),
        reused=reused,
        refused=len(pieces) - len(there),
        run_seconds=sum(found.run_seconds for _, found in there),
        compile_seconds=sum(found.compile_seconds for _, found in there),
        programs_read=programs_read() - read_before,
        as_committed=as_committed,
    )
    before = [each["key"] for each in read_provenance(folder).get("per_cell", ())]
    if reused < len(there) or before != [piece.key for piece, _ in there]:
        write_provenance(folder, {**_provenance(result, there), "profile": profile})
    return result


def work(
    experiment: Experiment | Study,
    *,
    profile: str,
    seed: int,
    results: Path | str,
    share: tuple[int, int] = (1, 1),
    progress: Progress = print_notes,
) -> int:
    """How many cells of :func:`run` this call made: those that are nobody else's.

    Several machines that share a folder work side by side in this way, and whoever comes last calls
    ``run``, which makes what they left, waits for what they hold, and writes the tables. Machines
    that share nothing take each its ``share``, the i-th of k, into a folder of its own. A cell's
    file is named by what it holds, so that to copy the folders into one is to merge them.
    """
    part, parts = share
    positive_integer("parts", parts)
    if not 1 <= positive_integer("part", part) <= parts:
        raise ValueError(f"share must be I/K with 1 <= I <= K, got {part}/{parts}")
    folder, pieces, _, _ = _asked(experiment, profile, seed, results, progress)
    _, others = resume(
        experiment.name, pieces, folder, progress, one_of_many=True, share=(part, parts)
    )
    return len([piece for piece in pieces if piece.make is not None][part - 1 :: parts]) - others


def _asked(
    experiment: Experiment | Study,
    profile: str,
    seed: int,
    results: Path | str,
    progress: Progress,
) -> tuple[Path, list[Piece], About, tuple[pa.Schema | None, pa.Schema | None]]:
    """The folder, all pieces, what is told of them, and how their tables are laid out."""
    if not isinstance(experiment, Study):
        instance("experiment", experiment, Experiment)
    require_profile(experiment.name, experiment.profiles, profile)
    if isinstance(seed, bool) or not isinstance(seed, Integral) or not -_BITS <= seed < _BITS - 1:
        raise ValueError(f"seed must be an integer from -2^63 to 2^63 - 2, got {shown(seed)}")
    folder = open_results(results) / experiment.name
    clear_partial(folder)
    if isinstance(experiment, Study):
        pieces, about = _parts(experiment, profile), experiment.about(profile)
        schemas = (None, None)
    else:
        pieces, schemas = _cells(experiment, profile, int(seed), progress), (CELLS, RUNS)
        about = {**experiment.about(profile), "root_seed": int(seed)}
    return folder, pieces, about, schemas


# --- the two kinds --------------------------------------------------------------------------------


def _cells(experiment: Experiment, profile: str, seed: int, progress: Progress) -> list[Piece]:
    """Every cell of a sweep with its problem and plan, or with the reason why there is no plan."""
    with jax.enable_x64(True):
        every = cells(experiment, profile)
    for said in left_out(experiment, profile):
        progress(Note(experiment.name, said))
    bench, where = Bench(seed), environment()
    refused: Counter[str] = Counter()

    @cache
    def code(algorithm: str, family: str) -> str:
        objects = ALGORITHMS[algorithm], experiment.family(family)
        return fingerprint(*objects, besides=_MEASURING, without=HOST)

    def piece(cell: Cell) -> Piece:
        facts = {**cell.facts, "root_seed": cell.trial.root(seed), "profile": profile}
        try:
            job = bench.prepare(cell, ALGORITHMS[cell.algorithm], experiment.family(cell.family))
        except ValueError as error:
            refused[str(error)] += 1
            return Piece(cell.label, {**facts, "refused": str(error)})
        return Piece(
            cell.label,
            {**facts, **job.promised},
            key=_key(
                cell=cell.identity,
                replicates=cell.replicates,
                block=cell.block,
                group=cell.group,
                trial=cell.trial.value,
                noise_factor=job.noise_factor,
                seed=seed,
                data=job.data,
                quantity=job.quantity.name,
                numbers=job.numbers,
                code=code(cell.algorithm, cell.family),
                environment=where,
            ),
            code=code(cell.algorithm, cell.family),
            make=lambda: _made(*measure(job, bench)),
            fits=partial(_fits, cell.replicates),
            program=job.program,
        )

    with jax.enable_x64(True):
        pieces = [piece(cell) for cell in every]
    for why, count in refused.items():
        told = "all" if count == len(pieces) else f"{count} of"
        progress(Note(experiment.name, f"{told} {len(pieces)} plans are refused: {why}"))
    rows = ({**dict.fromkeys(CELLS.names), **each.facts} for each in pieces)
    for _, method, family, check, why in unanswered(experiment.checks, rows):
        text = f"the {check} of {method} on {family} stays undecided: {why}"
        progress(Note(experiment.name, text))
    return pieces


def _made(
    columns: Mapping[str, NDArray[np.generic]], facts: Mapping[str, Value]
) -> tuple[pa.Table, Mapping[str, Value]]:
    return pa.table(columns, schema=pa.schema(list(RUNS)[1:])), facts


def _fits(replicates: int, values: pa.Table) -> bool:
    return values.num_rows == replicates and values.column_names == RUNS.names[1:]


def _parts(study: Study, profile: str) -> list[Piece]:
    """Every part of a study."""
    where = environment()

    def piece(name: str) -> Piece:
        part = study.parts[name]
        facts = {"experiment": study.name, "part": name, "profile": profile}
        code = fingerprint(part)
        key = _key(part=facts, code=code, environment=where)
        return Piece(name, facts, key, code, lambda: (part_rows(name, part(profile)), {}))

    return [piece(name) for name in study.parts]


def _key(**determining: object) -> str:
    """SHA-256 of what determines the numbers of a cell; JSON values."""
    return hashlib.sha256(json.dumps(determining, sort_keys=True).encode()).hexdigest()


# --- what is written ------------------------------------------------------------------------------


def _tables(
    pieces: Sequence[Piece],
    kept: Sequence[Kept | None],
    schemas: tuple[pa.Schema | None, pa.Schema | None],
) -> tuple[pa.Table, pa.Table]:
    """The table of cells and that of runs; what a part of a study does not give is null."""
    of_cells, of_runs = schemas
    rows, runs = [], []
    for i, (piece, found) in enumerate(zip(pieces, kept, strict=True)):
        rows.append({"cell": i, **piece.facts, **(found.facts if found else {})})
        if found is not None:
            number = pa.array([i] * found.values.num_rows, pa.int64())
            runs.append(found.values.replace_schema_metadata().add_column(0, "cell", number))
    cells = pa.Table.from_pylist(rows, schema=of_cells)
    if not runs and of_runs is not None:
        return cells, of_runs.empty_table()
    with one_kind("all parts"):
        joined = pa.concat_tables(runs, promote_options="permissive").combine_chunks()
    return cells, joined if of_runs is None else joined.cast(of_runs)


def _provenance(result: RunResult, cells: Sequence[tuple[Piece, Kept]]) -> Provenance:
    """What made the tables, and how long that took."""
    return {
        "privopt": version("privopt"),
        "date": datetime.now(UTC).date().isoformat(),
        "environment": {**environment(), "devices": str(len(jax.devices()))},
        "code": _key(code=sorted({piece.code for piece, _ in cells})),
        "cells": result.cells,
        "reused": result.reused,
        "run_seconds": result.run_seconds,
        "compile_seconds": result.compile_seconds,
        "programs_read": result.programs_read,
        "per_cell": [
            {
                "cell": piece.label,
                "key": piece.key,
                "run_seconds": found.run_seconds,
                "compile_seconds": found.compile_seconds,
            }
            for piece, found in cells
        ],
    }

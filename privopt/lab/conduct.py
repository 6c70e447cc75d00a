"""Whatever kind an experiment is, a sweep or a study: run it, judge its table."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from privopt.lab import verdict
from privopt.lab.experiment import Experiment
from privopt.lab.grid import cells
from privopt.lab.records import is_study
from privopt.lab.resume import Progress, SweepResult
from privopt.lab.study import Study
from privopt.lab.study_run import run_study
from privopt.lab.sweep import sweep
from privopt.lab.verdict_claim import findings
from privopt.lab.verdict_outcome import Finding, Verdict

__all__ = ["conduct", "size", "verdicts"]


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


def verdicts(table: pa.Table) -> list[Verdict | Finding]:
    """Every verdict on a table of either kind: on theorems of a sweep, on claims of a study."""
    return [*findings(table)] if is_study(table) else [*verdict.verdicts(table)]

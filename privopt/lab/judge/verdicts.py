"""Every verdict on what is recorded of an experiment."""

from __future__ import annotations

from pathlib import Path

from privopt.lab.judge.claims import claim_verdicts
from privopt.lab.judge.results import cell_results, refusals
from privopt.lab.judge.theorems import theorem_verdicts
from privopt.lab.judge.verdict import Verdict
from privopt.lab.make.checks import unanswered
from privopt.lab.make.records import Recorded, read
from privopt.lab.make.trials import Trial


def verdicts(recorded: Recorded | Path | str) -> list[Verdict]:
    """Every verdict on an experiment: on theorems of a sweep, on claims of a study.

    Parameters
    ----------
    recorded : Recorded or path
        What is recorded of it, or its folder, as ``results/dp_gd``.
    """
    if not isinstance(recorded, Recorded):
        recorded = read(recorded)
    if recorded.is_study:
        return claim_verdicts(recorded)
    cells, checks = cell_results(recorded, tuple(Trial)), recorded.about["checks"]
    asked = unanswered(checks, recorded.cells.to_pylist())
    return theorem_verdicts(cells, checks, refusals(recorded), asked)

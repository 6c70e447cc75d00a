"""Verdicts on the claims of an analysis, checked in the rows of its tables."""

from __future__ import annotations

import pandas as pd

from privopt.lab.evaluation.verdict import Outcome, Verdict
from privopt.lab.runner.analysis import Claim, checked, frames, required
from privopt.lab.runner.store import Recorded

_MAX_LABELS = 4


def claim_verdicts(recorded: Recorded) -> list[Verdict]:
    """Return a verdict for every claim of an analysis."""
    tables, name = frames(recorded), recorded.about["name"]
    claims = (claim for claim in required(recorded).claims if claim.part in tables)
    return [_verdict(name, claim, tables[claim.part]) for claim in claims]


def outcomes(claim: Claim, frame: pd.DataFrame) -> list[Outcome]:
    """Return the outcome of a claim in every row; missing entries of the mask are undecided."""
    names = {True: Outcome.HOLDS, False: Outcome.REFUTED}
    return [
        Outcome.UNDECIDED if value is pd.NA else names[value] for value in checked(claim, frame)
    ]


def _verdict(experiment: str, claim: Claim, frame: pd.DataFrame) -> Verdict:
    results = outcomes(claim, frame)
    holding, undecided = results.count(Outcome.HOLDS), results.count(Outcome.UNDECIDED)
    target = len(frame) if claim.rows is None else claim.rows
    if holding > target or holding + undecided < target:
        conclusion = Outcome.REFUTED
    else:
        conclusion = Outcome.UNDECIDED if undecided else Outcome.HOLDS
    labels = [_label(frame, i) for i in range(len(frame)) if results[i] is not Outcome.HOLDS]
    more = f" and {len(labels) - _MAX_LABELS} more" if len(labels) > _MAX_LABELS else ""
    return Verdict(
        experiment=experiment,
        check="claim",
        claim=claim.text,
        outcome=conclusion,
        estimate=holding,
        lower=holding,
        upper=holding + undecided,
        target=target,
        rows=len(frame),
        detail=f"not in {', '.join(labels[:_MAX_LABELS])}{more}" if labels else "",
    )


def _label(frame: pd.DataFrame, row: int) -> str:
    label = frame["label"].iloc[row] if "label" in frame else None
    return f"row {row + 1}" if pd.isna(label) else " ".join(str(label).split())

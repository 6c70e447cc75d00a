"""Verdicts on the claims of a study, checked in the rows of its table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from privopt.lab.evaluation.verdict import Outcome, Verdict
from privopt.lab.runner.analysis import Check, Claim, Presentation
from privopt.lab.runner.store import Recorded, ResultsError, Value

_MAX_LABELS = 4

Row = Mapping[str, Value]


def presentation(recorded: Recorded) -> Presentation:
    """Return the claims, plots and listings of a study."""
    try:
        return Presentation.from_json(recorded.about["study"])
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise ResultsError(
            f"the tables of {recorded.about.get('name')} were written by another version of "
            f"privopt ({error}): run its experiment again"
        ) from error


def rows_of(recorded: Recorded) -> dict[str, list[Row]]:
    """Return the rows of a study by part."""
    parts = dict(zip(*(recorded.cells[name].to_pylist() for name in ("cell", "part")), strict=True))
    rows: dict[str, list[Row]] = {part: [] for part in parts.values()}
    for row in recorded.runs.to_pylist():
        rows[parts[row["cell"]]].append(row)
    return rows


def claim_verdicts(recorded: Recorded) -> list[Verdict]:
    """Return a verdict for every claim of a study."""
    rows, name = rows_of(recorded), recorded.about["name"]
    return [_verdict(name, claim, rows[claim.part]) for claim in presentation(recorded).claims]


def evaluate_check(check: Check | str, row: Row) -> Outcome:
    """Evaluate a check in a row for all values in the intervals of its quantities.

    It holds if it is true for all values and is refuted if it is true for none. It is undecided
    otherwise, or if a quantity is null or not a number.
    """
    check = Check.of(check)
    first, second = quantity_range(row, check.left), quantity_range(row, check.right)
    if first is None or second is None:
        return Outcome.UNDECIDED
    match check.relation:
        case "<":
            holds, fails = first[1] < second[0], first[0] >= second[1]
        case "<=":
            holds, fails = first[1] <= second[0], first[0] > second[1]
        case _:
            smallest = max(first[0] - second[1], second[0] - first[1])
            largest = max(first[1] - second[0], second[1] - first[0])
            holds, fails = largest <= check.within, smallest > check.within
    return Outcome.HOLDS if holds else Outcome.REFUTED if fails else Outcome.UNDECIDED


def quantity_range(row: Row, quantity: str) -> tuple[float, float] | None:
    """Return the range of a quantity in a row, or None if it is null or not a number."""
    low = high = row.get(quantity)
    if low is None:
        low, high = row.get(f"{quantity}_lower"), row.get(f"{quantity}_upper")
    if any(end is None or isinstance(end, str) or math.isnan(end) for end in (low, high)):
        return None
    return low, high  # type: ignore[return-value]


def _verdict(experiment: str, claim: Claim, rows: Sequence[Row]) -> Verdict:
    outcomes = [evaluate_check(claim.check, row) for row in rows]
    holding, undecided = outcomes.count(Outcome.HOLDS), outcomes.count(Outcome.UNDECIDED)
    target = len(rows) if claim.rows is None else claim.rows
    if holding > target or holding + undecided < target:
        conclusion = Outcome.REFUTED
    else:
        conclusion = Outcome.UNDECIDED if undecided else Outcome.HOLDS
    labels = [_label(i, row) for i, row in enumerate(rows) if outcomes[i] is not Outcome.HOLDS]
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
        rows=len(rows),
        detail=f"not in {', '.join(labels[:_MAX_LABELS])}{more}" if labels else "",
    )


def _label(index: int, row: Row) -> str:
    label = row.get("label")
    return f"row {index + 1}" if label is None else " ".join(str(label).split())

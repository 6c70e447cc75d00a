"""Claims judged in the rows of a study, an interval's whole range being possible."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from privopt.lab.judge.verdict import Outcome, Verdict
from privopt.lab.make.store import Recorded, ResultsError, Value
from privopt.lab.make.study import Check, Claim, Presentation

_PLACES = 4

Row = Mapping[str, Value]


def presentation(recorded: Recorded) -> Presentation:
    """What a study claims and shows."""
    try:
        return Presentation.from_json(recorded.about["study"])
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise ResultsError(
            f"the tables of {recorded.about.get('name')} were written by another version of "
            f"privopt ({error}): run its experiment again"
        ) from error


def rows_of(recorded: Recorded) -> dict[str, list[Row]]:
    """The rows of a study by part, in their order."""
    names = dict(zip(*(recorded.cells[name].to_pylist() for name in ("cell", "part")), strict=True))
    rows: dict[str, list[Row]] = {name: [] for name in names.values()}
    for row in recorded.runs.to_pylist():
        rows[names[row["cell"]]].append(row)
    return rows


def claim_verdicts(recorded: Recorded) -> list[Verdict]:
    """What every claim of a study comes to."""
    rows, name = rows_of(recorded), recorded.about["name"]
    return [_verdict(name, claim, rows[claim.part]) for claim in presentation(recorded).claims]


def outcome(check: Check | str, row: Row) -> Outcome:
    """Whether a check holds in a row wherever in their intervals the true values lie.

    It is refuted if it fails wherever they lie, and undecided if it depends, or if a quantity is
    null or not a number there.
    """
    check = Check.of(check)
    left, right = span(row, check.left), span(row, check.right)
    if left is None or right is None:
        return Outcome.UNDECIDED
    match check.relation:
        case "<":
            holds, fails = left[1] < right[0], left[0] >= right[1]
        case "<=":
            holds, fails = left[1] <= right[0], left[0] > right[1]
        case _:
            apart = max(left[0] - right[1], right[0] - left[1])
            reach = max(left[1] - right[0], right[1] - left[0])
            holds, fails = reach <= check.within, apart > check.within
    return Outcome.HOLDS if holds else Outcome.REFUTED if fails else Outcome.UNDECIDED


def span(row: Row, quantity: str) -> tuple[float, float] | None:
    """The range of a quantity in a row; ``None`` where it is null or not a number."""
    low = high = row.get(quantity)
    if low is None:
        low, high = row.get(f"{quantity}_lower"), row.get(f"{quantity}_upper")
    if any(end is None or isinstance(end, str) or math.isnan(end) for end in (low, high)):
        return None
    return low, high  # type: ignore[return-value]


def _verdict(experiment: str, claim: Claim, rows: Sequence[Row]) -> Verdict:
    found = [outcome(claim.check, row) for row in rows]
    held, undecided = found.count(Outcome.HOLDS), found.count(Outcome.UNDECIDED)
    target = len(rows) if claim.rows is None else claim.rows
    if held > target or held + undecided < target:
        concluded = Outcome.REFUTED
    else:
        concluded = Outcome.UNDECIDED if undecided else Outcome.HOLDS
    places = [_place(i, row) for i, row in enumerate(rows) if found[i] is not Outcome.HOLDS]
    more = f" and {len(places) - _PLACES} more" if len(places) > _PLACES else ""
    return Verdict(
        experiment=experiment,
        check="claim",
        claim=claim.text,
        outcome=concluded,
        estimate=held,
        lower=held,
        upper=held + undecided,
        target=target,
        rows=len(rows),
        detail=f"not in {', '.join(places[:_PLACES])}{more}" if places else "",
    )


def _place(index: int, row: Row) -> str:
    """A row's ``label``, if it has one."""
    label = row.get("label")
    return f"row {index + 1}" if label is None else " ".join(str(label).split())

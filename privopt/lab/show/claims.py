"""Claims judged in the rows of a study's table, an interval's whole range being possible."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from privopt.lab.make.presentation import Check, Claim
from privopt.lab.make.records import about
from privopt.lab.make.study import rows_of, shown
from privopt.lab.show.verdict import Finding, Outcome

__all__ = ["findings", "outcome", "span"]

_MOST = 4


def findings(table: pa.Table) -> list[Finding]:
    """What every claim of a study comes to.

    Raises
    ------
    ResultsError
        If another version of privopt wrote the table.
    """
    rows, name = rows_of(table), about(table)["name"]
    return [_finding(name, claim, rows[claim.part]) for claim in shown(table).claims]


def outcome(check: Check, row: Mapping[str, Any]) -> Outcome:
    """Whether a check holds in a row wherever in their intervals the true values lie.

    It is refuted if it fails wherever they lie, and undecided if it depends, or if a quantity is
    null or not a number there.
    """
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


def span(row: Mapping[str, Any], quantity: str) -> tuple[float, float] | None:
    """The range of a quantity in a row; ``None`` where it is null or not a number."""
    low = high = row.get(quantity)
    if low is None:
        low, high = row.get(f"{quantity}_lower"), row.get(f"{quantity}_upper")
    if any(end is None or isinstance(end, str) or math.isnan(end) for end in (low, high)):
        return None
    return low, high  # type: ignore[return-value]


def _finding(experiment: str, claim: Claim, rows: Sequence[Mapping[str, Any]]) -> Finding:
    found = [outcome(claim.check, row) for row in rows]
    held, open_ = found.count(Outcome.HOLDS), found.count(Outcome.UNDECIDED)
    target = len(rows) if claim.rows is None else claim.rows
    if held > target or held + open_ < target:
        concluded = Outcome.REFUTED
    else:
        concluded = Outcome.UNDECIDED if open_ else Outcome.HOLDS
    places = [_place(i, row) for i, row in enumerate(rows) if found[i] is not Outcome.HOLDS]
    more = f" and {len(places) - _MOST} more" if len(places) > _MOST else ""
    detail = f"not in {', '.join(places[:_MOST])}{more}" if places else ""
    return Finding(experiment, claim.text, concluded, held, len(rows), target, detail)


def _place(index: int, row: Mapping[str, Any]) -> str:
    """A row's ``label``, if it has one."""
    label = row.get("label")
    return f"row {index + 1}" if label is None else " ".join(str(label).split())

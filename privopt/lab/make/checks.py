"""Checks that an experiment asks for and that no cell of it can answer, with the reasons."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from privopt.lab.make.trials import Trial

_Row = Mapping[str, Any]


class Unanswered(NamedTuple):
    """A check of one method on one family that cannot be judged, and why."""

    experiment: str
    method: str
    family: str
    check: str
    detail: str


def unanswered(checks: Sequence[str], rows: Iterable[_Row]) -> list[Unanswered]:
    """What was asked of a method on a family and cannot be judged, by the table of cells."""
    pairs: dict[tuple[str, str], list[_Row]] = {}
    for row in rows:
        if row["trial"] == Trial.MEASURED:
            pairs.setdefault((row["method"], row["family"]), []).append(row)
    return [
        Unanswered(members[0]["experiment"], method, family, check, reason)
        for (method, family), members in pairs.items()
        for check in checks
        if (reason := _reason(check, members))
    ]


def _reason(check: str, rows: Sequence[_Row]) -> str:
    """Why these rows do not answer a check; empty if they may."""
    planned = [row for row in rows if row["refused"] is None]
    if not planned:
        return f"every plan is refused: {rows[0]['refused']}"
    first = planned[0]
    if check == "slope":
        return _no_slope(first, planned)
    if first["searched"] is not None:  # judged by its slopes alone
        return ""
    if check == "law":
        known = any(row["law"] is not None for row in planned)
        return "" if known else f"no law is known of {first['algorithm']} on {first['family']}"
    if any(row["upper"] < math.inf for row in planned):
        return ""
    rate = json.loads(first["plan"])["rate"]
    if rate["quantity"] != first["quantity"]:
        return f"its bound is one on {rate['quantity']}, and {first['quantity']} is measured"
    return f"no bound is claimed, {rate['theorem']}"


def _no_slope(first: _Row, planned: Sequence[_Row]) -> str:
    if first["tight_on"] is None:
        return "its rate names no family on which it is tight"
    if first["tight_on"] != first["family"]:
        return f"its rate is tight on {first['tight_on']}, not on {first['family']}"
    served = {axis for row in planned for axis in row["axes"].split(",")}
    known = served & json.loads(first["exponents"]).keys()
    return "" if known else "no axis is swept for which its rate has an exponent"

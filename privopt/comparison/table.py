"""The table of a comparison: one row a method and value."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from privopt.comparison.points import Point
from privopt.lab.evaluation.verdict import ORACLE_TUNED
from privopt.lab.plotting.notation import brief


def rows_of(points: Sequence[Point], axis: str | None) -> list[dict[str, str]]:
    """Rows by column; the first column is the axis, where there is one."""
    return [
        ({axis: f"{point.value:g}"} if axis else {})
        | {
            "method": point.method + (f" ({ORACLE_TUNED})" if point.tuned else ""),
            "mean excess": brief(point.mean),
            "95 % of the mean": _range(point.interval.lower, point.interval.upper),
            "10-90 % of runs": _range(*point.quantiles),
            "sd keys, data": ", ".join(map(brief, point.spread)),
            "bound": brief(point.bound),
            "mean/bound": brief(point.mean / point.bound if point.bound < math.inf else math.nan),
            "descent, no noise": brief(
                point.nonprivate if point.nonprivate > point.cells[0].gap else 0.0
            ),
            "steps": "-" if point.steps is None or point.tuned else f"{point.steps:,}",
            "s a run": brief(point.seconds),
        }
        for point in points
    ] + _zero(points, axis)


def _zero(points: Sequence[Point], axis: str | None) -> list[dict[str, str]]:
    """The row of the zero predictor, at the first value."""
    at = {axis: f"{points[0].value:g}"} if axis else {}
    return [at | {"method": "zero predictor", "mean excess": brief(points[0].zero)}]


def text_of(rows: Sequence[Mapping[str, str]]) -> str:
    """Aligned columns."""
    head = list(rows[0])
    wide = [max(len(name), *(len(row.get(name, "")) for row in rows)) for name in head]
    lines = [head, ["-" * width for width in wide]]
    lines += [[row.get(name, "") for name in head] for row in rows]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(line, wide, strict=True)).rstrip()
        for line in lines
    )


def _range(low: float, high: float) -> str:
    return f"{brief(low)} to {brief(high)}"

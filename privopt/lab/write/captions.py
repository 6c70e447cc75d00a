"""What there is to see in a picture, and what it shows in numbers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from privopt.lab.draw.grids import GridCells, constant, scale_of
from privopt.lab.draw.notation import axis_words, estimate, number, signed
from privopt.lab.judge.claims import Row, span
from privopt.lab.judge.results import (
    CellResult,
    along,
    grouped,
    left_of_zero,
    swept_axes,
    worst,
)
from privopt.lab.judge.verdict import ORACLE_TUNED, Verdict
from privopt.lab.make.study import Map, Panel, Plot, Presentation
from privopt.lab.write.document import in_words

Words = tuple[str, str]
"""Caption and ``alt`` text."""


def of_method(cells: Sequence[CellResult], judged: Sequence[Verdict]) -> Words:
    """Of the figure of one method: its slopes between the bounds."""
    found = [_slope(verdict) for verdict in judged if verdict.check == "slope"]
    line = "The mean excess risk (blue, at the worst strength of the family)"
    caption = f"{line} should stay below the upper bound (orange) everywhere"
    if found:
        caption = f"{line} should run parallel to the upper bound (orange), and below it"
    shown = [
        _course(axis, group)
        for members in grouped(cells, lambda cell: cell.family).values()
        for axis in swept_axes(members)
        if (group := [worst(same) for same in along(members, axis).values()])
    ]
    settings = grouped(cells, lambda cell: (cell.family, tuple(sorted(cell.setting.items()))))
    tops = [worst(same) for same in settings.values()]
    ratios = [cell.mean / cell.upper for cell in tops if 0.0 < cell.upper < math.inf]
    if ratios:
        caption += f": it is {_ends(ratios)} of that bound"
    caption += _beside_zero(cells)
    if any(verdict.untuned for verdict in judged):
        caption += f". The {ORACLE_TUNED} mean (purple) has the best numbers of a grid"
    text = f"{cells[0].label.capitalize()} of {cells[0].named}: {'; '.join((*shown, *found))}"
    return f"{caption}.", text


def _beside_zero(cells: Sequence[CellResult]) -> str:
    """Where the method does not beat the zero predictor, and what that says of the instance."""
    shares = left_of_zero(cells)
    if not (lost := sum(share >= 1.0 for share in shares)):
        return ""
    some = f"{lost} of {len(shares)} settings it does not"
    where = "no setting does it" if lost == len(shares) else some
    hard = (
        ". The strength is the one that hurts most: a weaker signal leaves less to lose, and a "
        "stronger one is learnt"
        if len({cell.strength for cell in cells}) > 1
        else ""
    )
    return (
        f". At {where} beat the zero predictor (grey), which looks at no data. That makes the "
        "instance hard: all there is to learn, which is what the zero predictor lacks, is less "
        f"than the budget costs this method{hard}"
    )


def _slope(verdict: Verdict) -> str:
    value, ends = estimate(verdict)
    where = axis_words(verdict.axis or "")
    return (
        f"{f'{ORACLE_TUNED}, ' if verdict.untuned else ''}slope along {where} {value} {ends}, "
        f"theorem {signed(verdict.target)}, {verdict.outcome}"
    )


def _course(axis: str, top: Sequence[CellResult]) -> str:
    """From the first value of an axis to the last."""
    first, last = top[0], top[-1]
    ends = f"{number(first.setting[axis])} to {number(last.setting[axis])}"
    return (
        f"{axis_words(axis)} {ends}: mean {first.mean:.3g} to {last.mean:.3g}{_bounds(first, last)}"
    )


def _bounds(first: CellResult, last: CellResult) -> str:
    ends = {"upper bound": (first.upper, last.upper)}
    name = "lower bound of {}" if first.is_minimax else "minimax of {}, other problem"
    for guarantee, bound in first.lower_bounds.items():
        ends[name.format(guarantee)] = bound, last.lower_bounds.get(guarantee, 0.0)
    told = [
        f"{name} {low:.3g} to {high:.3g}"
        for name, (low, high) in ends.items()
        if min(low, high) > 0.0 and max(low, high) < math.inf
    ]
    return f" ({', '.join(told)})" if told else ""


def _ends(values: Sequence[float]) -> str:
    low, high = f"{min(values):.2g}", f"{max(values):.2g}"
    return low if low == high else f"{low} to {high}"


def of_comparison(cells: Sequence[CellResult]) -> Words:
    """Of the figure of all methods in one: what each leaves of the zero predictor's excess risk."""
    told = []
    for family, members in grouped(cells, lambda cell: cell.family).items():
        axis = swept_axes(members)[-1]
        last = max(along(members, axis))
        left = {
            group[0].named: worst(group).mean / worst(group).start
            for group in grouped(
                (c for c in along(members, axis)[last]), lambda cell: cell.method
            ).values()
            if worst(group).start > 0.0
        }
        shares = ", ".join(f"{name} {value:.0%}" for name, value in left.items())
        told.append(f"on {family} at {axis_words(axis)} = {number(last)}: {shares}{_best(left)}")
    caption = (
        "Lower is better: the dash-dotted line is a predictor that has learnt nothing, the dashed "
        f"ones are upper bounds. What remains of that predictor's excess risk: {'; '.join(told)}."
    )
    methods = len({cell.method for cell in cells})
    return caption, f"Risk of {methods} methods. Left of the excess risk {'; '.join(told)}"


def _best(left: Mapping[str, float]) -> str:
    """The method that leaves least; where even that is no less than all, why."""
    known = {name: share for name, share in left.items() if math.isfinite(share)}
    if not known:
        return ""
    name = min(known, key=lambda each: known[each])
    if known[name] >= 1.0:
        return (
            " (nothing beats the zero predictor, which makes the instance hard: all there is to "
            "learn is less than the budget costs each method)"
        )
    return f" (least: {name})" if len(known) > 1 else ""


def of_lead(cells: Sequence[CellResult], share: float, count: int) -> str:
    """By what rule the figure of an experiment leads the report."""
    relations = ", ".join(sorted({cell.relation.replace("_", "-") for cell in cells}))
    delta = max(cell.delta for cell in cells)
    most = f", δ at most {delta:.1e}".replace("-", "−") if delta > 0.0 else ""
    tuned = f", {ORACLE_TUNED} or not" if any(cell.untuned for cell in cells) else ""
    name, budget = in_words(cells[0].experiment), "(ε, δ)" if most else "ε"
    return (
        f"{name}, {budget}-differentially private under {relations}{most}, "
        "stands here by rule: of the private experiments whose exponents all hold "
        f"({count}) it leaves the least of the zero predictor’s risk, at most {share:.2g} of it at "
        f"any setting{tuned}."
    )


def of_grid(grid: GridCells) -> Words:
    """Of the figure of a grid: the smallest and the largest constant of every method."""
    told = []
    for (method, family), cells in grouped(grid.cells, lambda c: (c.named, c.family)).items():
        at = grouped(cells, lambda cell: tuple(cell.setting[axis] for axis in grid.axes))
        values = [constant(worst(same)) for same in at.values()]
        known = [value for value in values if math.isfinite(value)]
        told += [f"{method} on {family} {_ends(known)}"] if known else []
    axes = " and ".join(map(axis_words, grid.axes))
    what = f"The mean over its {scale_of(grid.cells)} at every combination of {axes}"
    return f"{what}, darker where it is larger: {'; '.join(told)}.", f"{what}: {'; '.join(told)}"


def of_plot(
    plot: Plot,
    show: Presentation,
    judged: Sequence[Verdict],
    rows: Mapping[str, Sequence[Row]],
) -> Words:
    """Of a study's figure: the claims on its parts, and where every line begins and ends."""
    parts = {panel.part for panel in plot.panels}
    outcomes = {verdict.claim: verdict for verdict in judged}
    claims = [
        f"{claim.text} ({outcomes[claim.text].outcome} in "
        f"{outcomes[claim.text].estimate:g} of {outcomes[claim.text].rows} rows)"
        for claim in show.claims
        if claim.part in parts and claim.text in outcomes
    ]
    maps = [_places(panel, rows[panel.part]) for panel in plot.panels if isinstance(panel, Map)]
    shown = {"Winners": maps, "It shows": claims}
    told = (plot.title, *(f"{what}: {'; '.join(each)}" for what, each in shown.items() if each))
    panels = (_panel(panel, rows[panel.part]) for panel in plot.panels)
    return f"{'. '.join(told)}.", f"{plot.title}: {'; '.join(panels)}"


def _places(panel: Map, rows: Sequence[Row]) -> str:
    """At how many places of a map each wins."""
    at = Counter(str(row[panel.winner]) for row in rows)
    told = (f"{name} at {count} of {len(rows)} places" for name, count in at.most_common())
    return f"{panel.title}: {', '.join(told)}"


def _panel(panel: Panel | Map, rows: Sequence[Row]) -> str:
    if isinstance(panel, Map):
        return _places(panel, rows)
    lines = (f"{line.label} {_course_of(line.quantity, rows)}" for line in panel.lines)
    name = " ".join(panel.title.split()) or panel.y_label
    across = f"{panel.x_label or panel.x} {_course_of(panel.x, rows)}"
    return f"{name}, {across}: {', '.join(lines)}"


def _course_of(quantity: str, rows: Sequence[Row]) -> str:
    """From the first row that has it to the last."""
    known = [value for row in rows if (value := _value(row, quantity))]
    return " to ".join(dict.fromkeys((known[0], known[-1]))) if known else "nowhere"


def _value(row: Row, quantity: str) -> str:
    value = row.get(quantity)
    if isinstance(value, str):
        return " ".join(value.split())
    ends = span(row, quantity)
    return "" if ends is None or not math.isfinite(ends[1]) else f"{ends[1]:.3g}"

"""The answers at the top of a report, and the data of its chart, from the recorded tables."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from privopt.lab.evaluation.cells import cell_results, cells_along, grouped, swept_axes
from privopt.lab.evaluation.verdict import Kind, Outcome, Verdict, counts
from privopt.lab.plotting.curves import assign_looks, panel_data
from privopt.lab.plotting.notation import axis_words, brief, in_words, method_label, paper_name
from privopt.lab.plotting.style import GREY, METHOD_COLOURS, split_method
from privopt.lab.report.tables import ReportTable, audit_ratio, describe
from privopt.lab.runner.analysis import Chart, frames
from privopt.lab.runner.store import Recorded

Series = dict[str, Any]
"""One panel of the chart: problem, axis, methods with their values, zero predictor and bounds."""

_DIGITS = 4
_EPSILON = axis_words("epsilon")


class Card(NamedTuple):
    """A question with its answer and the evidence."""

    question: str
    answer: str
    note: str = ""  # definitions of the terms in the answer
    details: Sequence[str] = ()
    lists: Mapping[str, Mapping[str, Sequence[str]]] = {}  # heads, experiments, statements
    table: ReportTable | None = None


# --- chart ----------------------------------------------------------------------------------------


def chart_series(recorded: Iterable[Recorded]) -> list[Series]:
    """Return the series of the chart, problems with several methods first."""
    series = [
        s for each in recorded for s in (_of_analysis if each.is_analysis else _of_sweep)(each)
    ]
    return sorted(series, key=lambda s: -len({m["name"] for m in s["methods"]}))


def _of_sweep(recorded: Recorded) -> list[Series]:
    result = []
    cells = [cell for cell in cell_results(recorded) if swept_axes([cell])]
    for family, members in grouped(cells, lambda cell: cell.family).items():
        for axis in swept_axes(members):
            panel = panel_data(cells_along(members, axis))
            looks = assign_looks(panel.curves)
            methods = [
                _method(
                    method_label(curve.method, curve.tuned),
                    looks[curve.method].colour,
                    curve.tuned,
                    curve.values,
                    curve.mean,
                    curve.interval,
                    curve.upper if curve.is_bounded else None,
                )
                for curve in panel.curves
            ]
            lower = panel.baselines.lower if panel.baselines.is_minimax else ()
            result.append(
                _series(recorded, family, axis, members[0].label, methods)
                | {"private": all(cell.private for cell in members)}
                | {"zero": _points(panel.baselines.values, panel.baselines.zero)}
                | {"lower": _points(panel.baselines.values, lower)}
            )
    return result


def _of_analysis(recorded: Recorded) -> list[Series]:
    """Return the charts that an analysis declares."""
    if recorded.analysis is None:
        return []
    tables = frames(recorded)
    return [
        _series(recorded, chart.problem, chart.x, chart.label, _chart_methods(chart, frame))
        | {"private": True, "lower": []}
        | {"zero": _points(frame[chart.x], frame.get("zero", []))}
        for chart in recorded.analysis.charts
        if chart.part in tables
        for frame in [tables[chart.part]]
    ]


def _chart_methods(chart: Chart, frame: pd.DataFrame) -> list[Series]:
    """Return the methods of a chart with risks, oracle-tuned risks, intervals and bounds."""
    x, methods = frame[chart.x], []
    for column in frame:
        variant = next((name for name in chart.variants if column.startswith(name)), None)
        method, suffix = split_method(column)
        name = chart.variants.get(variant or "", paper_name(method))
        suffix = suffix if variant is None else column.removeprefix(variant).removeprefix("_")
        if not method or suffix not in (chart.risk, "best") or frame[column].isna().all():
            continue
        stem = column.removesuffix("_best").removesuffix(f"_{chart.risk}" if chart.risk else "")
        tuned, bound = suffix == "best", f"{stem}_bound"
        band = f"{stem}_{chart.band}" if chart.band and not tuned else ""
        interval = [frame.get(f"{band}_{end}", x * math.nan) for end in ("lower", "upper")]
        methods.append(
            _method(
                f"{name} (oracle-tuned)" if tuned else name,
                METHOD_COLOURS[method],
                tuned,
                x,
                frame[column],
                interval,
                frame[bound] if bound in frame and not tuned else None,
            )
        )
    return methods


def _series(
    recorded: Recorded, problem: str, axis: str, label: str, methods: Sequence[Series]
) -> Series:
    return {
        "experiment": recorded.about["name"],
        "problem": f"{in_words(recorded.about['name'])}: {problem.replace('_', ' ')}",
        "axis": axis_words(axis),
        "label": label,
        "methods": methods,
    }


def _method(
    name: str, colour: str, tuned: bool, x: Any, mean: Any, interval: Any, bound: Any
) -> Series:
    numbers = [[_round(v) for v in row] for row in zip(x, mean, *interval, strict=True)]
    return {
        "name": name,
        "colour": colour or GREY,
        "tuned": tuned,
        "points": [row for row in numbers if row[0] is not None and row[1] is not None],
        "bound": [] if bound is None else _points(x, bound),
    }


def _points(x: Iterable[Any], y: Iterable[Any]) -> list[list[float]]:
    pairs = ((_round(a), _round(b)) for a, b in zip(x, y, strict=False))
    return [[a, b] for a, b in pairs if a is not None and b is not None]


def _round(value: Any) -> float | None:
    """Round to four digits; None for values that JSON or a logarithmic scale cannot represent."""
    if value is None or not 0.0 < value < math.inf:
        return None
    return float(f"{value:.{_DIGITS}g}")


# --- cards ----------------------------------------------------------------------------------------


def best_method_card(series: Sequence[Series]) -> Card | None:
    """Answer which method has the least mean risk on the problems with several known methods."""
    applicable, least, rows = Counter[str](), Counter[str](), []
    epsilons: list[float] = []
    names = {paper_name(method) for method in METHOD_COLOURS}
    for each in series:
        methods = [m for m in each["methods"] if not m["tuned"] and m["name"] in names]
        if each["axis"] != _EPSILON or "risk" not in each["label"] or len(methods) < 2:
            continue
        if not each["private"]:
            continue
        best = _best_by_value(methods, dict(each["zero"]))
        if not best:
            continue
        for at, winners in best.items():
            applicable.update(m["name"] for m in methods if at in {p[0] for p in m["points"]})
            least.update(winners)
        epsilons += best
        counter = Counter(name for winners in best.values() for name in winners)
        rows.append(
            (
                each["problem"],
                ", ".join(f"{name} {count}/{len(best)}" for name, count in counter.most_common(3)),
                f"{brief(min(best))} to {brief(max(best))}",
            )
        )
    if not rows:
        return None
    common = {name: n for name, n in applicable.items() if 3 * n >= max(applicable.values())}
    ranked = sorted(common, key=lambda name: (-least[name] / common[name], name))
    texts = [f"{name} at {least[name]} of {applicable[name]}" for name in ranked]
    others = [
        f"{name} at {least[name]} of {n}" for name, n in applicable.items() if name not in common
    ]
    first, second = ranked[0], ranked[1] if ranked[1:] else ""
    return Card(
        "Which method is best on the common problems?",
        f"{first[:1].upper()}{first[1:]}: it has the least mean excess risk, or cannot be "
        f"distinguished from it, at {least[first]} of the {applicable[first]} settings to which it "
        f"applies, ε from {brief(min(epsilons))} to {brief(max(epsilons))}"
        + (f"; next is {second} at {least[second]} of {applicable[second]}." if second else "."),
        details=[
            f"Least or tied, of the settings to which a method applies: {', '.join(texts)}. On "
            f"fewer problems: {', '.join(others) or 'none'}. A setting is a problem and a value of "
            "ε at which some method is better than the zero predictor, which uses no data. "
            "Hyperparameters are set by theory. A tie means that the 95 % intervals of the means "
            "overlap."
        ],
        table=ReportTable(
            "Best methods by problem",
            ("problem", "least mean risk or tied", "range of ε"),
            tuple(rows),
        ),
    )


def _best_by_value(
    methods: Sequence[Series], zero: Mapping[float, float]
) -> dict[float, list[str]]:
    """Return the methods with the least mean, or an overlapping interval, by epsilon.

    Values at which no method is better than the zero predictor are omitted.
    """
    points: dict[float, dict[str, tuple[float, float, float]]] = {}
    for method in methods:
        for at, mean, low, high in method["points"]:
            ends = (mean if low is None else low), (mean if high is None else high)
            points.setdefault(at, {})[method["name"]] = mean, *ends
    result = {}
    for at, means in points.items():
        _, _, limit = min(means.values())
        if limit < zero.get(at, math.inf):
            result[at] = [name for name, (_, low, _) in means.items() if low <= limit]
    return result


def exponent_card(verdicts: Sequence[Verdict]) -> Card | None:
    """Answer which theorems scale as proved, with counts."""
    exponents = [v for v in verdicts if v.kind is Kind.EXPONENT]
    if not (count := "; ".join(counts(exponents))):
        return None
    lists = {
        f"{str(outcome).capitalize()} ({len(members)})": list_by_experiment(members)
        for outcome in (
            Outcome.REFUTED,
            Outcome.NOT_TIGHT,
            Outcome.INHERITED,
            Outcome.TOO_FEW,
            Outcome.UNDECIDED,
            Outcome.HOLDS,
        )
        if (members := [v for v in exponents if v.outcome is outcome])
    }
    return Card(
        "Which theorems scale as proved?",
        f"{count}.",
        "An exponent is the power with which the risk changes with a quantity: −1 in n means that "
        "twice the records halve it. A verdict is the result of a test of one statement against "
        "the measurements: it holds, is refuted, or stays undecided.",
        lists=lists,
    )


def attack_card(audits: Sequence[Mapping[str, Any]]) -> Card | None:
    """Answer whether an attack contradicts a guarantee, with the strongest attack."""
    if not audits:
        return None
    strongest = max(audits, key=audit_ratio)
    exceeding = [audit for audit in audits if audit_ratio(audit) > 1.0]
    weakened = sum(audit_ratio(audit, "weakened") > 1.0 for audit in audits)
    runs = max(int(audit["runs"]) for audit in audits)
    head = (
        f"No. The strongest of {len(audits)} attacks reaches {audit_ratio(strongest):.2f} of the "
        f"guarantee ({paper_name(strongest['name'])})."
        if not exceeding
        else "Yes: "
        + ", ".join(f"{paper_name(a['name'])} {audit_ratio(a):.2f}" for a in exceeding)
        + "."
    )
    return Card(
        "Does any attack beat its guarantee?",
        head,
        details=[
            f"An attack is {runs:,} runs on each of two neighbouring data sets, from which a "
            "certified lower bound on the separation of the two output laws is computed. With less "
            f"noise than the guarantee needs, {weakened} of {len(audits)} attacks exceed it, so "
            "the attacks can see a violation."
        ],
    )


def list_by_experiment(verdicts: Iterable[Verdict]) -> dict[str, list[str]]:
    """Return the statements of verdicts by experiment."""
    groups = grouped(verdicts, lambda verdict: verdict.experiment)
    return {name: [describe(verdict) for verdict in group] for name, group in groups.items()}

"""Tables of a report: every verdict once, the cost of the theory's hyperparameters, and audits."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from privopt.lab.evaluation.cells import CellResult, grouped, worst
from privopt.lab.evaluation.slopes import OFFSETS
from privopt.lab.evaluation.verdict import GRADES, Control, Kind, Verdict, twins
from privopt.lab.plotting.notation import (
    axis_words,
    estimate,
    in_words,
    method_label,
    number,
    paper_name,
    percentage,
    signed,
    with_minus,
)

_NONE = "–"
_CONTROLS = ("noise off", "noise bent")


@dataclass(frozen=True)
class Entry:
    """An entry of a table."""

    text: str
    note: str = ""  # small print: an interval, a family
    outcome: str = ""  # of a verdict or control; determines colour and sign
    link: str = ""  # name of an experiment
    method: str = ""  # of that experiment
    interval: tuple[float, float, float] | None = None  # in margins about the theorem's exponent

    @property
    def grade(self) -> str:
        """Grade of the outcome; empty without an outcome."""
        return GRADES.get(self.outcome, "")


Row = tuple[Entry | str, ...]


@dataclass(frozen=True)
class ReportTable:
    """Rows of entries with a caption and a note."""

    caption: str
    head: tuple[str, ...]
    rows: tuple[Row, ...]
    note: str = ""

    def outcome(self, row: Row) -> str:
        """Return the verdict of a row, or an empty string if the table has none."""
        entry = row[self.head.index("verdict")] if "verdict" in self.head else ""
        return "" if isinstance(entry, str) else entry.outcome


def verdict_tables(verdicts: Sequence[Verdict]) -> tuple[ReportTable, ...]:
    """Return tables with every verdict once: exponents, bounds, claims and tests of code."""
    kinds = {kind: [verdict for verdict in verdicts if verdict.kind is kind] for kind in Kind}
    code = grouped(kinds[Kind.CODE], lambda verdict: verdict.check)
    slopes = (
        *("experiment", "along", "theorem", "measured", "verdict", *_CONTROLS, "second key"),
        *("chance to pass", "bound itself", "at theory’s hyperparameters"),
    )
    tables = (
        ReportTable(
            "Exponents",
            slopes,
            tuple(map(_slope, kinds[Kind.EXPONENT])),
            "Does the risk depend on each quantity with the theorem’s exponent?",
        ),
        ReportTable(
            "Upper bounds",
            ("experiment", "mean ÷ bound", "verdict", "bound below the centre", "location"),
            tuple(
                (*_ratio(v), v.below_centre or _NONE, with_minus(v.detail))
                for v in kinds[Kind.BOUND]
            ),
            "One-sided, and on every problem: in each cell the mean plus its certified error must "
            "be below the theorem’s upper bound. The table has the largest ratio of mean to bound. "
            "A bound above the risk of the public centre, which uses no data, could not fail in "
            "that cell. A bound that is above it in every cell is vacuous.",
        ),
        ReportTable(
            "Claims of analyses",
            ("analysis", "claim", "holds in rows", "verdict"),
            tuple(map(_claim, kinds[Kind.CLAIM])),
            "An analysis computes tables and states claims about them. Each claim is checked in "
            "every row of its table; for an interval the less favourable end counts.",
        ),
        ReportTable(
            "Tests of code: exponents",
            slopes,
            tuple(map(_slope, code.get("slope", ()))),
            "The public centre is the minimiser here, so the noise alone is measured. Its law is "
            "closed, and so are these exponents: a failure would be a defect of the code.",
        ),
        ReportTable(
            "Tests of code: exact laws",
            ("experiment", "measured ÷ law", "verdict", "detail"),
            tuple((*_ratio(v), with_minus(v.detail)) for v in code.get("law", ())),
            "If the expected value at finite size is known exactly, the measured value divided by "
            "the law must be 1.",
        ),
    )
    return tuple(table for table in tables if table.rows)


def describe(verdict: Verdict) -> str:
    """Describe the statement of a verdict and its measurement."""
    if verdict.check == "claim":
        return (
            f"“{verdict.claim}” holds in {verdict.estimate:g} of {verdict.rows} rows, "
            f"{verdict.target:g} claimed"
        )
    value, interval = estimate(verdict)
    measured = f"{value} {interval}".strip()
    name = method_label(verdict.method, verdict.untuned)
    if verdict.check == "slope" and verdict.axis:
        target = signed(verdict.target) if math.isfinite(verdict.target) else "none"
        exponent = "exponent of mean ÷ bound" if verdict.of_ratio else "exponent"
        return f"{name} along {axis_words(verdict.axis)}: {exponent} {measured}, theorem {target}"
    quantity = "law" if verdict.check == "law" else verdict.check
    return f"{name} on {verdict.family}, mean ÷ {quantity}: {measured}"


def _experiment(verdict: Verdict) -> Entry:
    """Return the link to the experiment, with the method if it has another name."""
    is_same = verdict.method == verdict.experiment and not verdict.untuned
    method = "" if is_same else f"{method_label(verdict.method, verdict.untuned)} "
    note = f"{method}on {verdict.family}"
    return Entry(in_words(verdict.experiment), note, link=verdict.experiment, method=verdict.method)


def _slope(verdict: Verdict) -> Row:
    controls = {control.name: control for control in verdict.controls}
    reason = "" if verdict.outcome == "holds" else with_minus(verdict.detail)
    margin = f"± {verdict.margin:.2g}" + (", of mean ÷ bound" if verdict.of_ratio else "")
    target = Entry(signed(verdict.target), margin) if verdict.axis else _NONE
    return (
        _experiment(verdict),
        axis_words(verdict.axis or ""),
        target,
        Entry(*estimate(verdict), interval=_in_margins(verdict)),
        Entry(verdict.outcome, reason, outcome=verdict.outcome),
        *(_control(controls.get(name)) for name in _CONTROLS),
        _control(verdict.second),
        _chances(verdict),
        _bound_itself(verdict),
        _at_theory(verdict.at_theory),
    )


def _in_margins(verdict: Verdict) -> tuple[float, float, float] | None:
    ends = verdict.lower, verdict.estimate, verdict.upper
    if not (verdict.margin > 0.0 and all(map(math.isfinite, ends))):
        return None
    low, value, high = ((end - verdict.target) / verdict.margin for end in ends)
    return low, value, high


def _control(control: Control | None) -> Entry | str:
    if control is None:
        return _NONE
    value = signed(control.value, 2) if math.isfinite(control.value) else ""
    return Entry(control.outcome, value, outcome=control.outcome)


def _chances(verdict: Verdict) -> Entry | str:
    if math.isnan(verdict.power):
        return _NONE
    wrong = (
        unbroken(f"{percentage(chance)} if {offset:g} off")
        for chance, offset in zip(verdict.wrong, OFFSETS, strict=True)
        if not math.isnan(chance)
    )
    return Entry(unbroken(f"{percentage(verdict.power)} if right"), ", ".join(wrong))


def _bound_itself(verdict: Verdict) -> Entry | str:
    if math.isnan(verdict.bound_slope):
        return _NONE
    drift = "" if math.isnan(verdict.drift) else f"drift {verdict.drift:.2f}"
    return Entry(signed(verdict.bound_slope, 2), unbroken(drift))


def _at_theory(verdict: Verdict | None) -> Entry | str:
    if verdict is None:
        return _NONE
    value, interval = estimate(verdict)
    return Entry(f"{verdict.outcome} {value}", interval, outcome=verdict.outcome)


def _ratio(verdict: Verdict) -> Row:
    return (
        _experiment(verdict),
        Entry(*estimate(verdict)),
        Entry(verdict.outcome, outcome=verdict.outcome),
    )


def _claim(verdict: Verdict) -> Row:
    return (
        Entry(in_words(verdict.experiment), link=verdict.experiment),
        verdict.claim,
        f"{verdict.estimate:g} of {verdict.rows}, {verdict.target:g} claimed",
        Entry(verdict.outcome, with_minus(verdict.detail), outcome=verdict.outcome),
    )


def cost_rows(cells: Sequence[CellResult], verdicts: Iterable[Verdict]) -> list[Row]:
    """Return the cost of the theory's hyperparameters: a row per oracle-tuned method and family."""
    rows: list[Row] = []
    sizes = ("n", "dim", "sparsity", "epsilon")
    for tuned, theory in twins(verdicts).items():
        for family in dict.fromkeys(cell.family for cell in cells if cell.method == tuned):
            best, other = (
                {
                    setting: worst(group)
                    for setting, group in grouped(
                        (c for c in cells if (c.method, c.family) == (method, family)),
                        lambda c: tuple(c.setting.get(size) for size in sizes),
                    ).items()
                }
                for method in (tuned, theory)
            )
            both = [(best[key], other[key]) for key in best if key in other]
            ratios = [b.mean / a.mean for a, b in both if a.mean > 0.0 and math.isfinite(b.mean)]
            if not ratios:
                continue
            searched = [cell.searched for cell, _ in both if cell.searched is not None]
            edges = sum(bool(each["at_edge"]) for each in searched)
            name = in_words(cells[0].experiment)
            label = f"{paper_name(theory)} and {method_label(tuned, tuned=True)} on {family}"
            rows.append(
                (
                    Entry(name, label, link=cells[0].experiment),
                    unbroken(range_text(ratios, "{:.3g}".format)),
                    _chosen(searched),
                    f"{edges} of {len(searched)}",
                )
            )
    return rows


def cost_table(rows: Iterable[Row]) -> ReportTable:
    """Return the table of :func:`cost_rows` of all experiments."""
    return ReportTable(
        "Cost of theory’s hyperparameters",
        ("experiment", "risk at theory’s ÷ at the best", "chosen", "at the grid’s edge"),
        tuple(rows),
        "The mean risk at the hyperparameters of the theory, divided by the mean risk at the best "
        "of the grid (oracle-tuned), both at the worst strength: smallest to largest over the "
        "settings. The chosen hyperparameters are ranges over the same settings.",
    )


def _chosen(searched: Sequence[Mapping[str, Mapping[str, float]]]) -> str:
    names = dict.fromkeys(name for each in searched for name in each["chosen"])
    ranges = []
    for name in names:
        values = [each["chosen"][name] for each in searched if name in each["chosen"]]
        ranges.append(f"{name} {range_text(values, number)}")
    return ", ".join(ranges)


def range_text(values: Sequence[float], text: Callable[[float], str] = "{:.2g}".format) -> str:
    """Return the smallest to the largest value, or one text if both are equal."""
    return " to ".join(dict.fromkeys((text(min(values)), text(max(values)))))


def unbroken(text: str) -> str:
    """Return the text with spaces at which no line ends."""
    return text.replace(" ", "\N{NO-BREAK SPACE}")


def read_audits(results: Path) -> list[dict[str, object]]:
    """Return the rows that ``privopt audit --results results/audits`` wrote, or an empty list."""
    path = results / "audits" / "audits.json"
    rows: list[dict[str, object]] = []
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else rows


_AUDIT_OUTCOMES = {"kept": "holds", "refuted": "refuted", "blind": "undecided"}


def audit_table(audits: Sequence[Mapping[str, object]]) -> ReportTable:
    """Return the table of audits."""
    first = audits[0]
    return ReportTable(
        "Audits",
        ("mechanism", "attack ÷ guarantee", "less noise", "missing noise", "verdict"),
        tuple(map(_audit, audits)),
        f"({first['epsilon']:g}, {first['delta']:g})-DP, {first['relation']}, {first['runs']:,} "
        "runs on each data set. A guarantee with a ratio above 1 is refuted. Controls: the same "
        "attack with less noise (half; a quarter if marked ¼), and with the noise missing in 19 "
        "runs of 20, must be above 1. Made by `privopt audit --results results/audits`.",
    )


def audit_ratio(audit: Mapping[str, object], part: str = "attack") -> float:
    """Return the certified separation divided by the guarantee for one part of an audit."""
    return float(audit[part]["ratio"])  # type: ignore[index]


def _audit(audit: Mapping[str, object]) -> Row:
    quarter = " (¼)" if audit["control"] < 0.5 else ""  # type: ignore[operator]
    verdict = str(audit["verdict"])
    return (
        Entry(in_words(str(audit["name"]))),
        f"{audit_ratio(audit):.2f}",
        f"{audit_ratio(audit, 'weakened'):.2f}{quarter}",
        f"{audit_ratio(audit, 'forgotten'):.2f}",
        Entry(verdict, outcome=_AUDIT_OUTCOMES[verdict]),
    )

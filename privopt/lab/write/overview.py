"""The tables on top of a report: every verdict once, and what theory’s numbers cost."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from privopt.lab.draw.notation import axis_words, estimate, number, share, signed, with_minus
from privopt.lab.judge.equivalence import WRONG
from privopt.lab.judge.results import CellResult, grouped, worst
from privopt.lab.judge.verdict import ORACLE_TUNED, Control, Kind, Verdict, twins
from privopt.lab.write.document import Entry, Row, Table, of_experiment, unbroken

_NOTHING = "–"
_CONTROLS = ("noise off", "noise bent")


def verdict_tables(judged: Sequence[Verdict]) -> tuple[Table, ...]:
    """Every verdict once, kinds apart: exponents, bounds, claims, and tests of code."""
    of_kind = {kind: [verdict for verdict in judged if verdict.kind is kind] for kind in Kind}
    code = grouped(of_kind[Kind.CODE], lambda verdict: verdict.check)
    tables = (
        _slopes(
            "Exponents",
            "Does the risk depend on each number with the theorem’s exponent?",
            of_kind[Kind.EXPONENT],
        ),
        _bounds(of_kind[Kind.BOUND]),
        _claims(of_kind[Kind.CLAIM]),
        _slopes(
            "Tests of code: exponents",
            "The public centre is the minimiser here, so that the noise alone is measured. Its law "
            "is closed, and so are these exponents: a failure would be a defect of the code.",
            code.get("slope", ()),
        ),
        _laws(code.get("law", ())),
    )
    return tuple(table for table in tables if table.rows)


def _slopes(caption: str, note: str, found: Sequence[Verdict]) -> Table:
    """Slopes with all that could have made them fail."""
    head = (
        *("experiment", "along", "theorem", "measured", "verdict", *_CONTROLS, "second key"),
        *("chance to pass", "bound itself", "at theory’s numbers"),
    )
    return Table(caption, head, tuple(map(_slope, found)), note)


def _slope(verdict: Verdict) -> Row:
    controls = {control.name: control for control in verdict.controls}
    why = "" if verdict.outcome == "holds" else _detail(verdict)
    return (
        of_experiment(verdict.experiment, _method(verdict), verdict.method),
        axis_words(verdict.axis or ""),
        Entry(signed(verdict.target), f"± {verdict.margin:.2g}") if verdict.axis else _NOTHING,
        Entry(*estimate(verdict), place=_place(verdict)),
        Entry(verdict.outcome, why, outcome=verdict.outcome),
        *(_control(controls.get(name)) for name in _CONTROLS),
        _control(verdict.second),
        _chances(verdict),
        _bound_itself(verdict),
        _at_theory(verdict.at_theory),
    )


def _method(verdict: Verdict) -> str:
    """The method, unless it is named as the experiment, and its family."""
    named = "" if verdict.method == verdict.experiment else f"{verdict.method} "
    tuned = f"({ORACLE_TUNED}) " if verdict.untuned else ""
    return f"{named}{tuned}on {verdict.family}"


def _place(verdict: Verdict) -> tuple[float, float, float] | None:
    ends = verdict.lower, verdict.estimate, verdict.upper
    if not (verdict.margin > 0.0 and all(map(math.isfinite, ends))):
        return None
    low, value, high = ((end - verdict.target) / verdict.margin for end in ends)
    return low, value, high


def _control(control: Control | None) -> Entry | str:
    if control is None:
        return _NOTHING
    value = signed(control.value, 2) if math.isfinite(control.value) else ""
    return Entry(control.outcome, value, outcome=control.outcome)


def _chances(verdict: Verdict) -> Entry | str:
    if math.isnan(verdict.power):
        return _NOTHING
    wrong = (
        f"{share(chance)} if {off:g} off"
        for chance, off in zip(verdict.wrong, WRONG, strict=True)
        if not math.isnan(chance)
    )
    return Entry(unbroken(f"{share(verdict.power)} if right"), ", ".join(map(unbroken, wrong)))


def _bound_itself(verdict: Verdict) -> Entry | str:
    if math.isnan(verdict.bound_slope):
        return _NOTHING
    drift = "" if math.isnan(verdict.drift) else f"drift {verdict.drift:.2f}"
    return Entry(signed(verdict.bound_slope, 2), unbroken(drift))


def _at_theory(verdict: Verdict | None) -> Entry | str:
    if verdict is None:
        return _NOTHING
    value, ends = estimate(verdict)
    return Entry(f"{verdict.outcome} {value}", ends, outcome=verdict.outcome)


def _bounds(found: Sequence[Verdict]) -> Table:
    note = (
        "One-sided, and on every problem: in each cell the mean, its certified error included, "
        "must lie below the theorem’s upper bound. Shown is the largest ratio of mean to bound. A "
        "bound above what the public centre has, which looks at no data, could not have failed "
        "there: above it in every cell it is vacuous."
    )
    head = ("experiment", "mean ÷ bound", "verdict", "bound below the centre", "where")
    rows = tuple((*_ratio(each), each.below or _NOTHING, _detail(each)) for each in found)
    return Table("Upper bounds", head, rows, note)


def _laws(found: Sequence[Verdict]) -> Table:
    note = (
        "Where the expected value at finite size is known exactly, the measured value over the law "
        "must be 1."
    )
    head = ("experiment", "measured ÷ law", "verdict", "detail")
    rows = tuple((*_ratio(each), _detail(each)) for each in found)
    return Table("Tests of code: exact laws", head, rows, note)


def _ratio(verdict: Verdict) -> Row:
    return (
        of_experiment(verdict.experiment, _method(verdict), verdict.method),
        Entry(*estimate(verdict)),
        Entry(verdict.outcome, outcome=verdict.outcome),
    )


def _detail(verdict: Verdict) -> str:
    return with_minus(verdict.detail)


def _claims(found: Sequence[Verdict]) -> Table:
    note = (
        "A study computes numbers and says what they show. That is checked in every row of its "
        "table, and of an interval the less favourable end counts."
    )
    rows: tuple[Row, ...] = tuple(
        (
            of_experiment(each.experiment),
            each.claim,
            f"{each.estimate:g} of {each.rows}, {each.target:g} claimed",
            Entry(each.outcome, _detail(each), outcome=each.outcome),
        )
        for each in found
    )
    return Table("Claims of studies", ("study", "claim", "holds in rows", "verdict"), rows, note)


def costs(priced: Sequence[tuple[str, tuple[str, ...]]]) -> Table:
    """What theory's numbers cost: rows of every experiment."""
    note = (
        "The mean risk at the numbers that theory sets, over the mean risk at the best of the grid "
        f"({ORACLE_TUNED}), both at the worst strength: smallest to largest over the settings. "
        "The hyperparameters are those that were chosen, over the same settings."
    )
    head = ("experiment", "risk at theory’s ÷ at the best", "chosen", "at the grid’s edge")
    rows: tuple[Row, ...] = tuple((of_experiment(name, row[0]), *row[1:]) for name, row in priced)
    return Table("What theory’s numbers cost", head, rows, note)


def price(cells: Sequence[CellResult], judged: Iterable[Verdict]) -> tuple[tuple[str, ...], ...]:
    """What theory's numbers cost: a row for each method that has a twin, and each family."""
    rows = []
    for tuned, theory in twins(judged).items():
        for family in dict.fromkeys(cell.family for cell in cells if cell.method == tuned):
            best, other = (_worst(cells, method, family) for method in (tuned, theory))
            both = [(best[at], other[at]) for at in best if at in other]
            ratios = [b.mean / a.mean for a, b in both if a.mean > 0.0 and math.isfinite(b.mean)]
            if not ratios:
                continue
            searched = [cell.searched for cell, _ in both if cell.searched is not None]
            edges = sum(bool(each["at_edge"]) for each in searched)
            ends = unbroken(" to ".join(dict.fromkeys(f"{f(ratios):.3g}" for f in (min, max))))
            where = f"{theory} and {tuned} on {family}"
            rows.append((where, ends, _chosen(searched), f"{edges} of {len(searched)}"))
    return tuple(rows)


def _worst(
    cells: Iterable[CellResult], method: str, family: str
) -> dict[tuple[tuple[str, float], ...], CellResult]:
    """The cell of largest mean by its sizes and epsilon."""
    members = [cell for cell in cells if (cell.method, cell.family) == (method, family)]
    return {at: worst(group) for at, group in grouped(members, _sizes).items()}


def _sizes(cell: CellResult) -> tuple[tuple[str, float], ...]:
    names = ("n", "dim", "sparsity", "epsilon")
    return tuple((name, cell.setting[name]) for name in names if name in cell.setting)


def _chosen(searched: Sequence[Mapping[str, Mapping[str, float]]]) -> str:
    """The smallest and the largest choice of every hyperparameter."""
    names = dict.fromkeys(name for each in searched for name in each["chosen"])
    told = []
    for name in names:
        values = [each["chosen"][name] for each in searched if name in each["chosen"]]
        ends = dict.fromkeys(number(end) for end in (min(values), max(values)))
        told.append(f"{name} {' to '.join(ends)}")
    return ", ".join(told)

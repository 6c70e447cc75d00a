"""Verdicts on theorems: which there are, and at what chance of being wrong.

*bound*, one-sided, on every problem: the mean excess risk of each cell against ``rate.upper``.
*slope*, on the hard family where the rate is tight: the exponent along each swept axis, see
:mod:`privopt.lab.judge.slopes`. *law*, where the exact expectation is known: the mean against it.

In one experiment each kind of check errs with probability at most ``ALPHA`` in all, as its
intervals are simultaneous (Bonferroni): a true bound is refuted, a true law is refuted, and an
exponent that is wrong by the margin or more holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from privopt.lab.judge.claims import claim_verdicts
from privopt.lab.judge.means import bound_verdict, law_verdict
from privopt.lab.judge.results import (
    CellResult,
    Refusal,
    cell_results,
    grouped,
    of_trial,
    refusals,
    swept_axes,
)
from privopt.lab.judge.slopes import slope_verdict
from privopt.lab.judge.verdict import Outcome, Verdict
from privopt.lab.make.cells import Trial
from privopt.lab.make.experiment import CHECKS, Unanswered, unanswered
from privopt.lab.make.store import Recorded, read

ALPHA = 0.01
"""Chance of a wrong verdict, per experiment and kind of check."""

_Pair = tuple[str, str, str]


def theorem_verdicts(
    every: Sequence[CellResult],
    checks: Sequence[str] = CHECKS,
    refused: Sequence[Refusal] = (),
    unanswered: Sequence[Unanswered] = (),
) -> list[Verdict]:
    """Every verdict that the cells of experiments support.

    Each (method, family) for which the theorem has a bound gets one on it, and one on the law
    where that is known; where the family is the one its rate is tight on, also one on the slope
    along each swept axis that the rate has an exponent for. An untuned method, whose numbers are
    the best of a grid, has slopes only, and the slope of its twin at theory's numbers stands in
    the same verdict. An experiment that asks for some kinds of check gets those. A check that
    cannot be judged is undecided, with the reason.
    """
    found = []
    for cells in grouped(every, lambda cell: cell.experiment).values():
        found += _of_experiment(cells, checks, refused)
    judged = {(*_pair(verdict), verdict.check) for verdict in found}
    return found + [
        Verdict(outcome=Outcome.UNDECIDED, **asked._asdict())
        for asked in unanswered
        if asked[:4] not in judged
    ]


def _of_experiment(
    cells: Sequence[CellResult], checks: Sequence[str], refused: Sequence[Refusal]
) -> list[Verdict]:
    pairs = list(grouped(cells, _pair).values())
    tuned = [cell for cell in of_trial(cells, Trial.MEASURED) if not cell.untuned]
    slopes = sum(len(_slope_axes(pair)) for pair in pairs)
    laws = sum(bool(_lawful(pair)) for pair in pairs)
    found = []
    for pair in pairs:
        claiming = [cell for cell in tuned if _pair(cell) == _pair(pair[0]) and cell.claims]
        if "bound" in checks and claiming:
            found.append(bound_verdict(claiming, ALPHA / len(tuned)))
        if "law" in checks and _lawful(pair):
            found.append(law_verdict(_lawful(pair), ALPHA / laws))
        if "slope" in checks:
            lacking = [each for each in refused if _pair(each) == _pair(pair[0])]
            found += [slope_verdict(pair, a, ALPHA / slopes, lacking) for a in _slope_axes(pair)]
    return _folded(found, _twins(pairs))


def _pair(of: CellResult | Refusal | Verdict) -> _Pair:
    """Of experiment, method and family."""
    return of.experiment, of.method, of.family


def _slope_axes(pair: Sequence[CellResult]) -> list[str]:
    measured = of_trial(pair, Trial.MEASURED)
    if not measured or measured[0].family != measured[0].tight_on:
        return []
    return [axis for axis in swept_axes(measured) if axis in measured[0].exponents]


def _lawful(pair: Sequence[CellResult]) -> list[CellResult]:
    return [
        cell for cell in of_trial(pair, Trial.MEASURED) if cell.law is not None and not cell.untuned
    ]


def _twins(pairs: Iterable[Sequence[CellResult]]) -> dict[_Pair, _Pair]:
    """Of every untuned method and family the same at theory's numbers.

    It is of the same algorithm; of several, the one that was told most nearly the same.
    """
    first = [pair[0] for pair in pairs]
    found = {}
    for untuned in (cell for cell in first if cell.untuned):
        twins = [
            cell
            for cell in first
            if not cell.untuned
            and (cell.algorithm, cell.family) == (untuned.algorithm, untuned.family)
        ]
        if twins:
            found[_pair(untuned)] = _pair(min(twins, key=lambda twin: _unlike(twin, untuned)))
    return found


def _unlike(twin: CellResult, untuned: CellResult) -> int:
    """How many choices two methods were told differently, those searched for apart."""
    searched = untuned.searched or {}
    ours, theirs = (
        {item for item in cell.choices.items() if item[0] not in searched.get("chosen", ())}
        for cell in (twin, untuned)
    )
    return len(ours ^ theirs)


def _folded(judged: Sequence[Verdict], twins: Mapping[_Pair, _Pair]) -> list[Verdict]:
    """The slopes at theory's numbers within those of their untuned twins."""
    slopes = {(_pair(verdict), verdict.axis): verdict for verdict in judged if verdict.axis}
    inner = {(pair, axis): (twins[pair], axis) for pair, axis in slopes if pair in twins}
    found = []
    for verdict in judged:
        place = _pair(verdict), verdict.axis
        if place in inner:
            found.append(replace(verdict, at_theory=slopes.get(inner[place])))
        elif place not in inner.values():
            found.append(verdict)
    return found


def verdicts(recorded: Recorded | Path | str) -> list[Verdict]:
    """Every verdict on an experiment: on theorems of a sweep, on claims of a study.

    Parameters
    ----------
    recorded : Recorded or path
        What is recorded of it, or its folder, as ``results/dp_gd``.
    """
    if not isinstance(recorded, Recorded):
        recorded = read(recorded)
    if recorded.is_study:
        return claim_verdicts(recorded)
    cells, checks = cell_results(recorded, tuple(Trial)), recorded.about["checks"]
    asked = unanswered(checks, recorded.cells.to_pylist())
    return theorem_verdicts(cells, checks, refusals(recorded), asked)

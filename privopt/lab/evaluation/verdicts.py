"""Verdicts of an experiment, and a data frame of the verdicts of a results folder.

*bound*, one-sided, on every problem: the mean excess risk of each cell against ``rate.upper``.
*slope*, on the hard family for which the rate is tight: the exponent along each swept axis, see
:mod:`privopt.lab.evaluation.slopes`. *law*, if the exact expectation is known: the mean against it.
A law is an expectation in closed form at finite size. No theorem is involved, so a law is a test
of the code: of the sampling and of the measurement.

In one experiment each kind of check is wrong with probability at most ``ALPHA`` in total, because
its intervals are simultaneous (Bonferroni): a true bound is refuted, a true law is refuted, or an
exponent that is wrong by the margin or more holds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

from privopt.lab.evaluation.cells import (
    CellResult,
    cell_results,
    cells_of_trial,
    grouped,
    swept_axes,
)
from privopt.lab.evaluation.estimates import UNKNOWN, Estimate, mean_interval
from privopt.lab.evaluation.slopes import slope_verdict
from privopt.lab.evaluation.sweep import MIN_REPLICATES
from privopt.lab.evaluation.verdict import Outcome, Verdict, flatten_twins, twin_name
from privopt.lab.runner.analysis import Analysis, Claim, Frames, checked, frames, required
from privopt.lab.runner.catalogue import Declarations, experiments_of
from privopt.lab.runner.cells import Trial
from privopt.lab.runner.experiment import CHECKS, Experiment, unanswered
from privopt.lab.runner.store import Recorded, Row, existing_results, recorded_names, write_file

ALPHA = 0.01
"""Probability of a wrong verdict, per experiment and kind of check."""

LAW_RESOLUTION = 0.02
"""Largest relative standard error in a cell for which a law can hold."""

_SEVERITY = (Outcome.REFUTED, Outcome.UNDECIDED, Outcome.ATTAINED, Outcome.HOLDS)
_ROUNDING = 1e-9

_SAME = 1e-3
"""Relative difference up to which a law and a bound are the same; no measurement resolves it."""

_MAX_LABELS = 4  # of rows that contradict a claim
_Pair = tuple[str, str, str]


def verdicts(
    recorded: Recorded | Path | str,
    experiments: Path | str | Iterable[Experiment | Analysis] | None = None,
) -> list[Verdict]:
    """Return every verdict on an experiment: on theorems of a sweep, or on claims of an analysis.

    Parameters
    ----------
    recorded : Recorded or path
        The tables of the experiment, or their folder, for example ``results/dp_gd``.
    experiments : path or iterable of Experiment and Analysis, optional
        The declarations, which contain the claims of an analysis, or their folder. Default:
        ``experiments`` beside the results, or in the working directory.
    """
    if not isinstance(recorded, Recorded):
        folder = Path(recorded)
        recorded = Declarations(experiments or experiments_of(folder.parent)).read(folder)
    if recorded.is_analysis:
        tables, name = frames(recorded), recorded.about["name"]
        claims = (claim for claim in required(recorded).claims if claim.part in tables)
        return [_claim_verdict(name, claim, tables) for claim in claims]
    cells, rows = cell_results(recorded, tuple(Trial)), recorded.cells.to_pylist()
    refused = [row for row in rows if row["refused"] is not None]
    checks = recorded.about["checks"]
    return theorem_verdicts(cells, checks, refused, unanswered(checks, rows))


def all_verdicts(
    results: Path | str, experiments: Path | str | Iterable[Experiment | Analysis] | None = None
) -> dict[str, list[Verdict]]:
    """Compute the verdicts of every experiment of a results folder from the recorded runs.

    See :func:`verdicts` for ``experiments``.
    """
    results = existing_results(results)
    declared = Declarations(experiments or experiments_of(results))
    return {name: verdicts(declared.read(results / name)) for name in recorded_names(results)}


def verdict_frame(verdicts: Iterable[Verdict]) -> pd.DataFrame:
    """Return a data frame with one row per verdict, the content of ``verdicts.csv``.

    A slope of an oracle-tuned method is followed by a row for its twin at the hyperparameters of
    the theory, with ``is_twin`` True.
    """
    rows = [
        _csv_row(v, is_twin=v is each.at_theory) for each in verdicts for v in flatten_twins([each])
    ]
    return pd.DataFrame(rows)


def write_verdicts(results: Path, verdicts: Iterable[Verdict]) -> Path:
    """Write ``verdicts.csv`` of a results folder, a row per verdict, and return its path."""
    path = results / "verdicts.csv"
    text = verdict_frame(verdicts).to_csv(index=False, float_format="%.6g", lineterminator="\n")
    write_file(path, text.encode())
    return path


def _csv_row(verdict: Verdict, *, is_twin: bool) -> dict[str, object]:
    nested = ("controls", "second", "at_theory", "wrong")
    row: dict[str, object] = {"kind": str(verdict.kind)}
    row |= {
        field.name: getattr(verdict, field.name)
        for field in fields(verdict)
        if field.name not in nested
    }
    controls = (*verdict.controls, *([verdict.second] if verdict.second else []))
    for control in controls:
        row[control.name], row[f"{control.name} exponent"] = str(control.outcome), control.value
    return row | {"outcome": str(verdict.outcome), "is_twin": is_twin}


def theorem_verdicts(
    every: Sequence[CellResult],
    checks: Sequence[str] = CHECKS,
    refused: Sequence[Row] = (),
    unanswered: Sequence[Row] = (),
) -> list[Verdict]:
    """Return every verdict on a theorem that the cells of experiments support.

    Each (method, family) with a bound has a verdict on it, and one on the law if that is known. On
    the family for which its rate is tight it also has a verdict on the slope along each swept axis
    with an exponent. An oracle-tuned method has slopes only; the slope of its twin at the
    hyperparameters of the theory is part of the same verdict. Only the ``checks`` that the
    experiment declares are evaluated. A check without a theorem is not applicable, and a check
    whose plans are all refused is undecided, with the reason.
    """
    result = []
    for cells in grouped(every, lambda cell: cell.experiment).values():
        result += _experiment_verdicts(cells, checks, refused)
    evaluated = {(*_pair(verdict), verdict.check) for verdict in result}
    has_runs = set(map(_pair, every))
    return result + [
        Verdict(
            outcome=Outcome.NOT_APPLICABLE if _row_pair(each) in has_runs else Outcome.UNDECIDED,
            **each,
        )
        for each in unanswered
        if (*_row_pair(each), each["check"]) not in evaluated
    ]


def _experiment_verdicts(
    cells: Sequence[CellResult], checks: Sequence[str], refused: Sequence[Row]
) -> list[Verdict]:
    pairs = grouped(cells, _pair)
    measured = [c for c in cells_of_trial(cells, Trial.MEASURED) if not c.untuned]
    # A value that is not finite contradicts any bound.
    bounded = grouped((c for c in measured if c.upper < math.inf or not c.is_finite), _pair)
    lawful = grouped((cell for cell in measured if cell.law is not None), _pair)
    slope_axes = {pair: _slope_axes(members) for pair, members in pairs.items()}
    slopes = sum(map(len, slope_axes.values()))
    result = []
    for pair, members in pairs.items():
        missing = [row for row in refused if _row_pair(row) == pair]
        if "bound" in checks and pair in bounded:
            verdict = bound_verdict(bounded[pair], ALPHA / len(measured))
            result.append(_undecided_after_failure(verdict, missing))
        if "law" in checks and pair in lawful:
            verdict = law_verdict(lawful[pair], ALPHA / len(lawful))
            result.append(_undecided_after_failure(verdict, missing))
        if "slope" in checks:
            result += [slope_verdict(members, a, ALPHA / slopes, missing) for a in slope_axes[pair]]
    return _with_twins(result)


def _undecided_after_failure(verdict: Verdict, missing: Sequence[Row]) -> Verdict:
    """Return an undecided verdict if a measured cell failed: its runs might have decided it."""
    failed = [
        row["refused"]
        for row in missing
        if row["refused"].startswith("failed: ") and row["trial"] == Trial.MEASURED
    ]
    if not failed or verdict.outcome is Outcome.REFUTED:
        return verdict
    detail = f"{len(failed)} cells {failed[0]}"
    return replace(verdict, outcome=Outcome.UNDECIDED, detail=detail)


def _pair(item: CellResult | Verdict) -> _Pair:
    return item.experiment, item.method, item.family


def _row_pair(row: Row) -> _Pair:
    return row["experiment"], row["method"], row["family"]


def _slope_axes(pair: Sequence[CellResult]) -> list[str]:
    measured = cells_of_trial(pair, Trial.MEASURED)
    if not measured or measured[0].family != measured[0].tight_on:
        return []
    return [axis for axis in swept_axes(measured) if axis in measured[0].exponents]


def _with_twins(result: Sequence[Verdict]) -> list[Verdict]:
    """Move the slopes of twins into the verdicts of the oracle-tuned methods.

    ``<method>_best`` is the oracle-tuned variant of a method, see :meth:`privopt.lab.Method.twice`.
    """
    slopes = {(*_pair(verdict), verdict.axis): verdict for verdict in result if verdict.axis}
    twin_of = {
        (experiment, method, family, axis): (experiment, twin_name(method), family, axis)
        for (experiment, method, family, axis), verdict in slopes.items()
        if verdict.untuned
    }
    return [
        replace(verdict, at_theory=slopes.get(twin_of[key])) if key in twin_of else verdict
        for verdict in result
        for key in [(*_pair(verdict), verdict.axis)]
        if key in twin_of or key not in twin_of.values()
    ]


# --- means against bounds and laws ----------------------------------------------------------------


def bound_verdict(cells: Sequence[CellResult], alpha: float) -> Verdict:
    """Check ``mean + gap <= upper`` in cells that have a bound, at error ``alpha`` in each.

    The estimate is the ratio of mean to bound in the worst cell. The verdict also has the number of
    cells in which the bound is below the risk of the public centre. If there is none, the check
    could not fail: the verdict is ``vacuous``, unless a mean is above the bound. Families with
    the minimiser at the centre are exempt. If the interval contains the bound and the exact mean
    equals it, the bound is ``attained``.
    """
    results = [(*_check_bound(cell, alpha), cell) for cell in cells]
    outcome, reason, ratio, cell = min(
        results, key=lambda item: (_SEVERITY.index(item[0]), -np.nan_to_num(item[2].value))
    )
    informative = [cell for cell in cells if not cell.starts_optimal]
    count = sum(cell.upper < cell.start for cell in informative)
    if informative and not count and outcome is not Outcome.REFUTED:
        outcome = Outcome.VACUOUS
    return Verdict(
        **cell.key_fields,
        **ratio.fields,
        check="bound",
        outcome=outcome,
        target=1.0,
        detail=f"{reason}: {cell.location}",
        below_centre=f"in {count} of {len(informative)} cells" if informative else "",
    )


def _check_bound(cell: CellResult, alpha: float) -> tuple[Outcome, str, Estimate]:
    if not cell.is_finite:
        return Outcome.REFUTED, "value not finite", UNKNOWN
    mean = mean_interval(cell.values, alpha)
    ratio = UNKNOWN
    if cell.upper > 0.0:
        scale = 1.0 / cell.upper
        ratio = Estimate(scale * mean.value, scale * mean.lower, scale * mean.upper)
    if mean.lower > cell.upper:
        return Outcome.REFUTED, "mean above the bound", ratio
    if mean.upper + cell.gap <= cell.upper:
        return Outcome.HOLDS, "largest mean/bound", ratio
    if cell.law is not None and abs(cell.law - cell.upper) <= _SAME * cell.upper:
        return Outcome.ATTAINED, "the exact mean is the bound", ratio
    if mean.upper <= cell.upper:
        return Outcome.UNDECIDED, f"certified gap too large ({cell.gap:.2g})", ratio
    return Outcome.UNDECIDED, "interval reaches across the bound", ratio


def law_verdict(cells: Sequence[CellResult], alpha: float) -> Verdict:
    """Test ``mean = law`` in all cells together by chi-square.

    Student's ``t = (mean - law) / standard error`` of each cell, corrected for skewness, is
    converted to the normal deviate of the same probability, so that cells with few replicates have
    the right weight. The sum of squares has as many degrees of freedom as there are cells. If the
    certified gap leaves the mean a range, the end closest to the law is used.

    A true law is refuted with probability ``alpha``. The probability is larger for few and very
    skewed values: exponential values at ``alpha`` = 1 % give 4 % for 12 replicates and 1 % for 100.

    The estimate is the average of ``mean/law`` over the cells, with an interval at level
    ``1 - alpha``.

    Source: Johnson, "Modified t tests and confidence intervals for asymmetrical populations",
    Journal of the American Statistical Association 1978 (the correction).
    """
    outcome, ratio, detail = _check_law(cells, alpha)
    return Verdict(
        **cells[0].key_fields,
        **ratio.fields,
        check="law",
        outcome=outcome,
        target=1.0,
        detail=detail,
    )


def _check_law(cells: Sequence[CellResult], alpha: float) -> tuple[Outcome, Estimate, str]:
    for cell in cells:
        if not cell.is_finite:
            return Outcome.REFUTED, UNKNOWN, f"value not finite: {cell.location}"
    fewest = min(cell.values.size for cell in cells)
    if fewest < MIN_REPLICATES:
        return Outcome.UNDECIDED, UNKNOWN, f"{fewest} replicates, {MIN_REPLICATES} needed"
    laws, means, gaps, errors = np.array(
        [(cell.law, cell.mean, cell.gap, cell.standard_error) for cell in cells], dtype=np.float64
    ).T
    squares = [_deviate(cell, law) ** 2 for cell, law in zip(cells, laws, strict=True)]
    p = float(stats.chi2.sf(math.fsum(squares), laws.size))
    value = float(np.mean(means / laws))
    error = math.sqrt(np.sum((errors / laws) ** 2)) / laws.size
    half = float(stats.norm.isf(alpha / 2)) * error
    ratio = Estimate(value, value - half, value + half)
    resolution = float(np.max((errors + gaps) / laws))
    detail = (
        f"a test of the code, not of a theorem: {laws.size} cells, chi-square p = {p:.2g}, "
        f"largest relative standard error {resolution:.2g}"
    )
    if p < alpha:
        return Outcome.REFUTED, ratio, detail
    if not resolution <= LAW_RESOLUTION:
        return Outcome.UNDECIDED, ratio, f"{detail}, {LAW_RESOLUTION:g} needed"
    return Outcome.HOLDS, ratio, detail


def _deviate(cell: CellResult, law: float) -> float:
    """Return the absolute difference of the mean from ``law`` as a standard normal deviate."""
    size, mean = cell.values.size, cell.mean
    error = max(cell.standard_error, _ROUNDING * law)
    shift = min(max(law, mean), mean + cell.gap) - law
    skewness = float(np.mean((cell.values - mean) ** 3)) / (error * math.sqrt(size)) ** 3
    t = shift / error
    t += skewness * (1.0 + 2.0 * t * t) / (6.0 * math.sqrt(size))
    return float(stats.norm.isf(stats.t.sf(abs(t), size - 1)))


# --- claims of analyses ---------------------------------------------------------------------------


def outcomes(claim: Claim, frame: pd.DataFrame) -> list[Outcome]:
    """Return the outcome of a claim in every row; missing entries of the mask are undecided."""
    names = {True: Outcome.HOLDS, False: Outcome.REFUTED}
    return [
        Outcome.UNDECIDED if value is pd.NA else names[value] for value in checked(claim, frame)
    ]


def _claim_verdict(experiment: str, claim: Claim, tables: Frames) -> Verdict:
    """Return the verdict on a claim; a contradiction is measured again, if the claim says so.

    The second measurement must contain every row that contradicts the claim. It then decides: the
    claim is refuted only if both measurements refute it.
    """
    first = _measured_claim(experiment, claim, tables[claim.part])
    if first.outcome is not Outcome.REFUTED or claim.again is None:
        return first
    if claim.again.part not in tables:
        return replace(first, outcome=Outcome.UNDECIDED, detail=f"{first.detail}; not yet repeated")
    frame = tables[claim.again.part]
    second = _measured_claim(experiment, claim.again, frame)
    missing = _refuted_labels(claim, tables[claim.part]) - set(_row_labels(frame))
    if missing:
        outcome, text = Outcome.UNDECIDED, f"{', '.join(sorted(missing))} not repeated"
    else:
        count = f"holds in {second.estimate:g} of {second.rows} rows"
        outcome, text = second.outcome, f"repeated with a fresh key: {count}, {second.outcome}"
    return replace(first, outcome=outcome, detail=f"{first.detail}; {text}")


def _measured_claim(experiment: str, claim: Claim, frame: pd.DataFrame) -> Verdict:
    results = outcomes(claim, frame)
    holding, undecided = results.count(Outcome.HOLDS), results.count(Outcome.UNDECIDED)
    target = len(frame) if claim.rows is None else claim.rows
    if holding > target or holding + undecided < target:
        conclusion = Outcome.REFUTED
    else:
        conclusion = Outcome.UNDECIDED if undecided else Outcome.HOLDS
    labels = [
        label
        for label, result in zip(_row_labels(frame), results, strict=True)
        if result is not Outcome.HOLDS
    ]
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
        rows=len(frame),
        detail=f"not in {', '.join(labels[:_MAX_LABELS])}{more}" if labels else "",
    )


def _refuted_labels(claim: Claim, frame: pd.DataFrame) -> set[str]:
    results = zip(_row_labels(frame), outcomes(claim, frame), strict=True)
    return {label for label, result in results if result is Outcome.REFUTED}


def _row_labels(frame: pd.DataFrame) -> list[str]:
    labels = frame["label"] if "label" in frame else [None] * len(frame)
    return [
        f"row {i + 1}" if pd.isna(label) else " ".join(str(label).split())
        for i, label in enumerate(labels)
    ]

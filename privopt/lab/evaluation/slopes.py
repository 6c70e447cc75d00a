"""Slope verdicts: equivalence of a measured exponent to the theorem's exponent.

On the hard family for which a rate is tight, ``log max_strength mean`` is regressed on the log of a
swept axis. The slope is compared with ``rate.exponents`` by an *equivalence* test: its interval
must be within the exponent plus or minus ``MARGIN``, or a quarter of a small exponent. Exponents
describe a leading term, and risks at finite sizes differ from it. An interval that only had to
contain the exponent would refute every theorem with many replicates, and accept any with few.

If the theorem's exponents are local (for example the exponent of a logarithm), the mean over the
cells is the target. If they differ by more than ``MARGIN``, the bound is no power law along the
axis (for example because its leading term changes). The slope of the ratio of mean to bound is then
compared with 0.

The interval covers the least-squares exponent of the true means of the same cells at level
``1 - alpha``. If the true exponent is wrong by the margin or more, the slope holds only if its
interval does not cover it: with probability at most ``alpha`` (``alpha/2`` if both sides have the
same error).

The first rule that applies decides:

1. A value is not finite: refuted.
2. No exponent can be fitted, or the best candidate of a search is at an edge of its grid:
   undecided.
3. The bound does not have the theorem's exponent: its slope over the same cells differs by more
   than ``BOUND_MARGIN``, or a cell is outside the regime of the rate. Undecided. A ratio to the
   bound needs no such exponent.
4. A second root key disagrees: undecided.
5. The interval is above the margin: refuted. Below the margin, the risk falls faster or grows more
   slowly than the bound: ``not tight here``.
6. With the theorem's exponent the slope would pass with probability below ``MIN_POWER``: too few
   runs. The detail has the number of runs that suffices. Rule 5 comes first, because it is wrong
   with probability at most ``alpha`` for any number of runs.
7. The interval is across an end of the margin, or the ratio of measured mean to bound drifts by
   more than ``DRIFT`` along the axis: undecided.
8. A control has the measured exponent as well: inherited. A control may have it, or no control
   could be run: undecided.
9. Otherwise the slope holds.

A slope is evidence about the privacy noise only if another noise would give another slope. The
sweep is therefore repeated without noise and with noise that depends differently on the axis. A
slope holds only if its difference from each control slope is significant and at least ``MARGIN``.
Controls use the keys of the measured runs, so the comparison is paired. Runs without noise are
compared at one strength, with the largest measured means: the question is whether these problems
have the measured exponent without noise. The largest mean without noise may be at another strength,
which has no effect on the measured slope. With bent noise the largest means are compared.

Each control is tested at the level of the slope, without a correction for multiple tests. The error
to control is that an inherited slope is called ``holds``. This requires *all* controls to differ by
chance (an intersection-union test), so its probability is at most the level of one test.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import astuple
from typing import Any

import numpy as np

from privopt.lab.evaluation.cells import CellResult
from privopt.lab.evaluation.estimates import (
    UNKNOWN,
    Estimate,
    Exponent,
    difference,
    exponent_difference,
)
from privopt.lab.evaluation.sweep import (
    MARGIN,
    MIN_VALUES,
    NEGLIGIBLE_SHARE,
    Sweep,
    make_sweep,
)
from privopt.lab.evaluation.verdict import Control, ControlOutcome, Outcome, Verdict
from privopt.lab.runner.cells import Trial
from privopt.lab.runner.store import Row

BOUND_MARGIN = 0.02
"""Largest difference between the slope of a bound and the theorem's exponent."""

DRIFT = 1.1
"""Largest factor by which the ratio of measured mean to bound may change along an axis."""

OFFSETS = (0.05, 0.10)
"""Errors of an exponent for which the probability of passing is reported."""

MIN_POWER = 0.8
"""Smallest probability of passing with the theorem's exponent for a decision on a slope."""

_MAX_RUNS = 10**9  # in the message of a slope with too few runs
_ROUNDING = 1e-9

_Decision = tuple[Outcome, str]


def slope_verdict(
    cells: Sequence[CellResult], axis: str, alpha: float, refused: Sequence[Row] = ()
) -> Verdict:
    """Return the verdict on the exponent along ``axis``; ``refused`` are rows without runs."""
    sweep = make_sweep(cells, axis)
    if sweep.unmet_assumption:
        outcome = Outcome.REFUTED if sweep.not_finite else Outcome.UNDECIDED
        return _verdict(sweep, UNKNOWN, outcome, sweep.unmet_assumption)
    fitted = sweep.fit(alpha)
    controls = evaluate_controls(cells, axis, alpha, refused)
    second_key = _evaluate_second_key(cells, axis, fitted, alpha)
    power, *wrong = (pass_probability(fitted, sweep.margin, off) for off in (0.0, *OFFSETS))
    outcome, reason = (
        _check_search(sweep)
        or _check_bound(sweep)
        or _check_second_key(second_key)
        or _check_outside(sweep, fitted.estimate)
        or _check_power(sweep, fitted, power)
        or _check_slope(sweep, fitted.estimate)
        or _check_controls(controls, private=sweep.cells[0].private)
        or (Outcome.HOLDS, "")
    )
    return _verdict(
        sweep,
        fitted.estimate,
        outcome,
        f"{reason}: {sweep.span}" if reason else sweep.span,
        power=power,
        wrong=tuple(wrong),
        controls=controls,
        second=None if second_key.outcome is ControlOutcome.NONE else second_key,
    )


def _verdict(
    sweep: Sweep, slope: Estimate, outcome: Outcome, detail: str, **fields: Any
) -> Verdict:
    cells = sweep.cells
    inside = sum(bool(cell.in_regime) for cell in cells)
    return Verdict(
        **cells[0].key_fields,
        **slope.fields,
        check="slope",
        axis=sweep.axis,
        outcome=outcome,
        target=sweep.target,
        detail=detail,
        margin=sweep.margin,
        bound_slope=sweep.bound_slope,
        drift=sweep.drift,
        regime=f"in {inside} of {len(cells)} cells",
        untuned=cells[0].untuned,
        of_code=all(cell.starts_optimal for cell in cells),
        of_ratio=sweep.of_ratio,
        **fields,
    )


# --- rules ----------------------------------------------------------------------------------------


def _check_search(sweep: Sweep) -> _Decision | None:
    """Return undecided if a better candidate may be beyond an edge of the grid."""
    for cell in sweep.cells:
        if cell.searched and cell.searched["at_edge"]:
            names = ", ".join(cell.searched["at_edge"])
            return Outcome.UNDECIDED, f"best {names} at an edge of the grid, {cell.location}"
    return None


def _check_bound(sweep: Sweep) -> _Decision | None:
    """Return undecided if the bound does not have the theorem's exponent in these cells."""
    if sweep.of_ratio:
        return None
    if not abs(sweep.bound_slope - sweep.target) <= min(BOUND_MARGIN, sweep.margin):
        return Outcome.UNDECIDED, f"the bound's own slope is {sweep.bound_slope:.3f}"
    for cell in sweep.cells:
        if not cell.in_regime:
            return Outcome.UNDECIDED, f"out of the rate's regime, {cell.location}"
    return None


def _check_second_key(second_key: Control) -> _Decision | None:
    if second_key.outcome is ControlOutcome.DISAGREES:
        return Outcome.UNDECIDED, f"a second root key disagrees, {second_key.detail}"
    return None


_OUTSIDE = {
    "above": (Outcome.REFUTED, "interval above"),
    "below": (Outcome.NOT_TIGHT, "steeper than the bound, interval below"),
}


def _check_outside(sweep: Sweep, slope: Estimate) -> _Decision | None:
    """Return a decision if the whole interval is outside the margin."""
    position = classify(slope, sweep.target, sweep.margin)
    if position not in _OUTSIDE:
        return None
    outcome, message = _OUTSIDE[position]
    return outcome, f"{message} {sweep.target:g} ± {sweep.margin:.2g}"


def _check_power(sweep: Sweep, fitted: Exponent, power: float) -> _Decision | None:
    """Return ``too few runs`` if the theorem's exponent would often not pass."""
    if power >= MIN_POWER:
        return None
    runs = min(cell.values.size for cell in sweep.cells)
    needed = runs_needed(fitted, runs, sweep.margin)
    return Outcome.TOO_FEW, f"power {power:.0%} with {runs} runs, about {needed} needed"


def _check_slope(sweep: Sweep, slope: Estimate) -> _Decision | None:
    """Return undecided if the slope may not be equivalent to the theorem's exponent."""
    if classify(slope, sweep.target, sweep.margin) == "across":
        ends = f"{sweep.target:g} ± {sweep.margin:.2g}"
        return Outcome.UNDECIDED, f"interval reaches across an end of {ends}"
    if sweep.drift > DRIFT:
        return Outcome.UNDECIDED, f"measured/bound drifts by a factor {sweep.drift:.3g}"
    return None


def _check_controls(controls: Sequence[Control], *, private: bool) -> _Decision | None:
    """Return a decision if the exponent may have another cause than the noise."""
    for control_outcome, outcome in (
        (ControlOutcome.SURVIVES, Outcome.INHERITED),
        (ControlOutcome.UNDECIDED, Outcome.UNDECIDED),
    ):
        messages = [f"{c.name}: {c.detail}" for c in controls if c.outcome is control_outcome]
        if messages:
            return outcome, "; ".join(messages)
    if private and all(control.outcome is ControlOutcome.NONE for control in controls):
        return Outcome.UNDECIDED, f"no control, {controls[0].detail}"
    return None


# --- equivalence ----------------------------------------------------------------------------------


def classify(slope: Estimate, target: float, margin: float = MARGIN) -> str:
    """Return ``within``, ``below``, ``above`` or ``across``: the interval relative to the margin.

    The margin is ``target`` plus or minus ``margin``. If the true exponent differs from the target
    by the margin or more, the result is ``within`` only if the interval does not cover the truth.
    """
    reach = margin + _ROUNDING
    if target - reach <= slope.lower and slope.upper <= target + reach:
        return "within"
    if slope.lower > target + reach:
        return "above"
    return "below" if slope.upper < target - reach else "across"


def pass_probability(fitted: Exponent, margin: float = MARGIN, offset: float = 0.0) -> float:
    """Estimate the probability that a repetition passes if the exponent is wrong by ``offset``.

    A measurement passes if its interval, of the measured width, is within the margin and its drift
    from a bound with the theorem's exponent is at most ``DRIFT``. Errors of a repetition are
    sampled from ``fitted.errors``. The sign of ``offset`` with the larger probability is used.

    The width of the interval is treated as fixed. It is itself random, so the result is an
    estimate, which is best for many replicates.
    """
    return max(_probability(fitted, margin, offset), _probability(fitted, margin, -offset))


def runs_needed(fitted: Exponent, runs: int, margin: float = MARGIN) -> int:
    """Estimate the number of runs for a power of ``MIN_POWER``, to two digits, rounded up.

    The result is at most about ``1e9``. Errors and intervals of ``runs`` runs are scaled like
    ``1/sqrt(runs)``. An interval that covers
    several strengths becomes shorter faster, once their means are distinguished.
    """
    estimate, needed = fitted.estimate, runs
    while needed < _MAX_RUNS:
        needed = math.ceil(1.02 * needed)
        factor = math.sqrt(runs / needed)
        scaled = Estimate(
            estimate.value,
            estimate.value - factor * (estimate.value - estimate.lower),
            estimate.value + factor * (estimate.upper - estimate.value),
        )
        candidate = Exponent(scaled, fitted.logs, factor * fitted.errors)
        if pass_probability(candidate, margin) >= MIN_POWER:
            break
    unit = 10 ** max(len(str(needed)) - 2, 0)
    return -(-needed // unit) * unit


def _probability(fitted: Exponent, margin: float, offset: float) -> float:
    logs, slope = fitted.logs, fitted.estimate
    errors = offset + logs @ fitted.errors / (logs @ logs)
    lower, upper = slope.value - slope.lower, slope.upper - slope.value
    reach = margin + _ROUNDING
    within = (errors - lower >= -reach) & (errors + upper <= reach)
    ratios = offset * logs[:, None] + fitted.errors
    steady = np.ptp(ratios, axis=0) <= math.log(DRIFT) + _ROUNDING
    return float(np.mean(within & steady))


# --- controls and second key ----------------------------------------------------------------------


def evaluate_controls(
    cells: Sequence[CellResult], axis: str, alpha: float, refused: Sequence[Row] = ()
) -> tuple[Control, ...]:
    """Evaluate every control of a slope along ``axis`` at level ``alpha``."""
    trials = [trial for trial in Trial if trial.is_control]
    return tuple(_evaluate(trial, cells, axis, alpha, refused) for trial in trials)


def _evaluate(
    trial: Trial, cells: Sequence[CellResult], axis: str, alpha: float, refused: Sequence[Row]
) -> Control:
    measured, control = make_sweep(cells, axis), make_sweep(cells, axis, trial)
    if trial is Trial.NOISE_OFF:
        strength = measured.largest_strength
        measured, control = measured.at(strength), control.at(strength)
    if len(control.groups) < MIN_VALUES:
        reason = _reason_for_absence(trial, control, measured, refused)
        return Control(trial, ControlOutcome.NONE, reason)
    if trial is Trial.NOISE_OFF and not control.not_finite:
        if _is_negligible(control, measured):
            reason = (
                f"without noise at most {NEGLIGIBLE_SHARE:.0%} of the risk, or the certified gap, "
                "remains"
            )
            return Control(trial, ControlOutcome.DIFFERS, reason)
        if zeros := [cell for cell in control.cells if cell.mean <= cell.gap]:
            reason = f"without noise no risk remains at {zeros[0].location}, but elsewhere"
            return Control(trial, ControlOutcome.DIFFERS, reason)
    if control.unmet_assumption:
        return Control(trial, ControlOutcome.UNDECIDED, control.unmet_assumption)
    paired = Sweep(axis, {value: measured.groups[value] for value in control.groups}).samples
    values, seed = list(control.groups), control.seed
    change = exponent_difference(values, control.samples, paired, alpha, seed)
    outcomes = {"within": ControlOutcome.SURVIVES, "across": ControlOutcome.UNDECIDED}
    outcome = outcomes.get(classify(change, 0.0), ControlOutcome.DIFFERS)
    message = f"{change} from the measured exponent"
    return Control(trial, outcome, message, *astuple(control.fit(alpha).estimate))


def _is_negligible(control: Sweep, measured: Sweep) -> bool:
    """Return True if almost no risk remains without noise at every value of the axis.

    The remaining risk then does not affect the measured exponent, and may have no exponent.
    """
    return control.groups.keys() <= measured.groups.keys() and all(
        cell.mean <= max(NEGLIGIBLE_SHARE * measured.worst_cells[value].mean, cell.gap)
        for value, cell in control.worst_cells.items()
    )


def _reason_for_absence(
    trial: Trial, control: Sweep, measured: Sweep, refused: Sequence[Row]
) -> str:
    """Return the reason why a control has no cells, or too few."""
    for row in refused:
        if row["trial"] == trial and control.axis in row["axes"].split(","):
            return f"refused: {row['refused']}"
    if not measured.cells[0].private:
        return "the method adds no noise"
    return control.unmet_assumption if control.groups else "not run"


def _evaluate_second_key(
    cells: Sequence[CellResult], axis: str, first: Exponent, alpha: float
) -> Control:
    """Compare the exponent under a second root key with the ``first``.

    They disagree if zero is outside the interval of their difference.
    """
    trial = Trial.SECOND_KEY
    sweep = make_sweep(cells, axis, trial)
    if not sweep.groups:
        return Control(trial, ControlOutcome.NONE, "not run")
    if sweep.unmet_assumption:
        outcome = ControlOutcome.DISAGREES if sweep.not_finite else ControlOutcome.UNDECIDED
        return Control(trial, outcome, sweep.unmet_assumption)
    slope = sweep.fit(alpha).estimate
    change = difference(slope, first.estimate)
    agrees = change.lower - _ROUNDING <= 0.0 <= change.upper + _ROUNDING
    outcome = ControlOutcome.AGREES if agrees else ControlOutcome.DISAGREES
    return Control(trial, outcome, f"{change} from the first", *astuple(slope))

"""Control sweeps for a slope verdict, and the repetition with a second root key.

A slope is evidence about the privacy noise only if another noise would give another slope. The
sweep is therefore repeated without noise and with noise that depends differently on the axis. A
slope holds only if its difference from each control slope is significant and at least ``MARGIN``.
Controls use the keys of the measured runs, so the comparison is paired.

Each control is tested at the level of the slope, without a correction for multiple tests. The error
to control is that an inherited slope is called ``holds``. This requires *all* controls to differ by
chance (an intersection-union test), so its probability is at most the level of one test.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from privopt.lab.evaluation.cells import CellResult, Refusal
from privopt.lab.evaluation.equivalence import classify, excludes
from privopt.lab.evaluation.estimates import Estimate, Exponent, difference, exponent_difference
from privopt.lab.evaluation.sweeps import MIN_VALUES, NEGLIGIBLE_SHARE, Sweep, make_sweep
from privopt.lab.evaluation.verdict import Control, ControlOutcome
from privopt.lab.runner.cells import Trial

_OUTCOMES = {"within": ControlOutcome.SURVIVES, "across": ControlOutcome.UNDECIDED}


def evaluate_controls(
    cells: Sequence[CellResult], axis: str, alpha: float, refused: Iterable[Refusal] = ()
) -> tuple[Control, ...]:
    """Evaluate every control of a slope along ``axis`` at level ``alpha``."""
    refused = tuple(refused)
    trials = [trial for trial in Trial if trial.is_control]
    return tuple(_evaluate(trial, cells, axis, alpha, refused) for trial in trials)


def _evaluate(
    trial: Trial, cells: Sequence[CellResult], axis: str, alpha: float, refused: Sequence[Refusal]
) -> Control:
    measured, control = make_sweep(cells, axis), make_sweep(cells, axis, trial)
    if len(control.groups) < MIN_VALUES:
        reason = _reason_for_absence(trial, control, measured, refused)
        return _without_slope(trial, ControlOutcome.NONE, reason)
    if trial is Trial.NOISE_OFF and not control.not_finite and _is_negligible(control, measured):
        reason = (
            f"without noise at most {NEGLIGIBLE_SHARE:.0%} of the risk, or the certified gap, "
            "remains"
        )
        return _without_slope(trial, ControlOutcome.DIFFERS, reason)
    if control.unmet_assumption:
        return _without_slope(trial, ControlOutcome.UNDECIDED, control.unmet_assumption)
    paired = [[cell.values for cell in measured.groups[value]] for value in control.groups]
    values, seed = list(control.groups), control.seed
    change = exponent_difference(values, control.samples, paired, alpha, seed)
    outcome = _OUTCOMES.get(classify(change, 0.0), ControlOutcome.DIFFERS)
    message = f"{change} from the measured exponent"
    return _with_slope(trial, control.fit(alpha).estimate, outcome, message)


def _is_negligible(control: Sweep, measured: Sweep) -> bool:
    """Return True if almost no risk remains without noise at every value of the axis.

    The remaining risk then does not affect the measured exponent, and may have no exponent.
    """
    return control.groups.keys() <= measured.groups.keys() and all(
        cell.mean <= max(NEGLIGIBLE_SHARE * measured.worst_cells[value].mean, cell.gap)
        for value, cell in control.worst_cells.items()
    )


def _reason_for_absence(
    trial: Trial, control: Sweep, measured: Sweep, refused: Sequence[Refusal]
) -> str:
    """Return the reason why a control has no cells, or too few."""
    reasons = [each.reason for each in refused if each.trial is trial and control.axis in each.axes]
    if reasons:
        return f"refused: {reasons[0]}"
    if not measured.cells[0].private:
        return "the method adds no noise"
    return control.unmet_assumption if control.groups else "not run"


def evaluate_second_key(
    cells: Sequence[CellResult], axis: str, first: Exponent, alpha: float
) -> Control:
    """Compare the exponent under a second root key with the ``first``.

    They disagree if zero is outside the interval of their difference.
    """
    trial = Trial.SECOND_KEY
    sweep = make_sweep(cells, axis, trial)
    if not sweep.groups:
        return _without_slope(trial, ControlOutcome.NONE, "not run")
    if sweep.unmet_assumption:
        outcome = ControlOutcome.DISAGREES if sweep.not_finite else ControlOutcome.UNDECIDED
        return _without_slope(trial, outcome, sweep.unmet_assumption)
    slope = sweep.fit(alpha).estimate
    change = difference(slope, first.estimate)
    outcome = ControlOutcome.DISAGREES if excludes(change, 0.0) else ControlOutcome.AGREES
    return _with_slope(trial, slope, outcome, f"{change} from the first")


def _with_slope(trial: Trial, slope: Estimate, outcome: ControlOutcome, message: str) -> Control:
    return Control(trial, slope.value, slope.lower, slope.upper, outcome, message)


def _without_slope(trial: Trial, outcome: ControlOutcome, reason: str) -> Control:
    return Control(trial, math.nan, math.nan, math.nan, outcome, reason)

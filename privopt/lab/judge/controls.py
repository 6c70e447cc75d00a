"""Controls of a slope: the same sweep under other noise, and under a second root key.

A slope shows something of the privacy noise only if it could have come out otherwise. So it is
fitted again where the noise is off, and where the noise depends a little otherwise on the axis;
each fit must then lead at least ``MARGIN`` away from the exponent that was measured. A control
keeps the keys of the measured runs, so the two are compared pair by pair.

Every control is judged at the level of its slope, without a correction for there being two of
them. The error that counts is a control that is told apart by chance, so that an inherited slope
reads ``holds``; as a slope holds only if *all* its controls are told apart, the chance of that is
at most the level of one (an intersection-union test).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from privopt.lab.judge.equivalence import excludes, place
from privopt.lab.judge.estimates import Estimate, Exponent, difference, exponents_apart
from privopt.lab.judge.results import CellResult, Refusal
from privopt.lab.judge.sweeps import MIN_VALUES, SHARE, Sweep, sweep
from privopt.lab.judge.verdict import Control, ControlOutcome
from privopt.lab.make.cells import Trial


def controls(
    cells: Sequence[CellResult], axis: str, alpha: float, refused: Iterable[Refusal] = ()
) -> tuple[Control, ...]:
    """What every control of a slope shows."""
    refused = tuple(refused)
    return tuple(
        _control(trial, cells, axis, alpha, refused) for trial in Trial if trial.is_control
    )


def _control(
    trial: Trial, cells: Sequence[CellResult], axis: str, alpha: float, refused: Sequence[Refusal]
) -> Control:
    measured, other = sweep(cells, axis), sweep(cells, axis, trial)
    if len(other.groups) < MIN_VALUES:
        return _unknown(trial, ControlOutcome.NONE, _absence(trial, other, measured, refused))
    if trial is Trial.NOISE_OFF and not other.not_finite and _no_risk(other, measured):
        why = f"without noise at most {SHARE:.0%} of the risk, or the certified gap, is left"
        return _unknown(trial, ControlOutcome.TOLD_APART, why)
    if other.obstacle:
        return _unknown(trial, ControlOutcome.UNDECIDED, other.obstacle)
    slope = other.fit(alpha).estimate
    beside = [[cell.values for cell in measured.groups[value]] for value in other.groups]
    apart = exponents_apart(list(other.groups), other.samples, beside, alpha, other.seed)
    where = place(apart, 0.0)
    outcome = _SHOWN.get(where, ControlOutcome.TOLD_APART)
    said = f"{_interval(apart)} from the measured exponent"
    return Control(trial, slope.value, slope.lower, slope.upper, outcome, said)


_SHOWN = {"within": ControlOutcome.SURVIVES, "across": ControlOutcome.UNDECIDED}


def _interval(apart: Estimate) -> str:
    return f"{apart.value:+.3f} [{apart.lower:+.3f}, {apart.upper:+.3f}]"


def _no_risk(off: Sweep, measured: Sweep) -> bool:
    """Whether hardly any risk is left without noise, at every value of the axis.

    What is left is then no part of the measured exponent, and may have none of its own.
    """
    return off.groups.keys() <= measured.groups.keys() and all(
        top.mean <= max(SHARE * measured.tops[value].mean, top.gap)
        for value, top in off.tops.items()
    )


def _absence(trial: Trial, other: Sweep, measured: Sweep, refused: Sequence[Refusal]) -> str:
    """Why there are no cells of a control, or too few."""
    reasons = [each.reason for each in refused if each.trial is trial and other.axis in each.axes]
    if reasons:
        return f"refused: {reasons[0]}"
    if not measured.cells[0].private:
        return "no noise to control"
    return other.obstacle if other.groups else "not run"


def second_key(cells: Sequence[CellResult], axis: str, first: Exponent, alpha: float) -> Control:
    """Whether a second root key measures the same exponent as the ``first``.

    It agrees unless the two differ by more than their intervals allow together.
    """
    trial = Trial.SECOND_KEY
    other = sweep(cells, axis, trial)
    if not other.groups:
        return _unknown(trial, ControlOutcome.NONE, "not run")
    if other.not_finite:
        return _unknown(trial, ControlOutcome.DISAGREES, other.obstacle)
    if other.obstacle:
        return _unknown(trial, ControlOutcome.UNDECIDED, other.obstacle)
    slope = other.fit(alpha).estimate
    apart = difference(slope, first.estimate)
    agrees = not excludes(apart, 0.0)
    said = f"{_interval(apart)} from the first"
    outcome = ControlOutcome.AGREES if agrees else ControlOutcome.DISAGREES
    return Control(trial, slope.value, slope.lower, slope.upper, outcome, said)


def _unknown(trial: Trial, outcome: ControlOutcome, why: str) -> Control:
    return Control(trial, math.nan, math.nan, math.nan, outcome, why)

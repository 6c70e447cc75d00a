"""Slope verdicts: equivalence of a measured exponent to the theorem's exponent.

On the hard family for which a rate is tight, ``log max_strength mean`` is regressed on the log of a
swept axis. The slope is compared with ``rate.exponents`` by an *equivalence* test: its interval
must be within the exponent plus or minus ``MARGIN``, or a quarter of a small exponent. Exponents
describe a leading term, and risks at finite sizes differ from it. An interval that only had to
contain the exponent would refute every theorem with many replicates, and accept any with few.

If the theorem's exponents are local (for example the exponent of a logarithm), the mean over the
cells is the target; they must not differ by more than the margin.

The interval covers the least-squares exponent of the true means of the same cells at level
``1 - alpha``. If the true exponent is wrong by the margin or more, the slope holds only if its
interval does not cover it: with probability at most ``alpha`` (``alpha/2`` if both sides have the
same error).

The first rule that applies decides:

1. A value is not finite: refuted.
2. No exponent can be fitted, or the best candidate of a search is at an edge of its grid:
   undecided.
3. The bound does not have the theorem's exponent: its slope over the same cells differs by more
   than ``BOUND_MARGIN``, or a cell is outside the regime of the rate. Undecided.
4. A second root key disagrees: undecided.
5. The interval is above the margin: refuted. Below the margin, the risk falls faster or grows more
   slowly than the bound: ``not tight here``. Across an end of the margin: undecided.
6. The ratio of measured mean to bound drifts by more than ``DRIFT`` along the axis: undecided.
7. A control has the measured exponent as well: inherited. A control may have it, or no control
   could be run: undecided.
8. Otherwise the slope holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from privopt.lab.evaluation.cells import CellResult, Refusal
from privopt.lab.evaluation.controls import evaluate_controls, evaluate_second_key
from privopt.lab.evaluation.equivalence import DRIFT, OFFSETS, classify, pass_probability
from privopt.lab.evaluation.estimates import UNKNOWN, Estimate
from privopt.lab.evaluation.sweeps import Sweep, make_sweep
from privopt.lab.evaluation.verdict import Control, ControlOutcome, Outcome, Verdict

BOUND_MARGIN = 0.02
"""Largest difference between the slope of a bound and the theorem's exponent."""

_Decision = tuple[Outcome, str]


def slope_verdict(
    cells: Sequence[CellResult], axis: str, alpha: float, refused: Iterable[Refusal] = ()
) -> Verdict:
    """Return the verdict on the exponent along ``axis``."""
    sweep = make_sweep(cells, axis)
    if sweep.unmet_assumption:
        outcome = Outcome.REFUTED if sweep.not_finite else Outcome.UNDECIDED
        return _verdict(sweep, UNKNOWN, outcome, sweep.unmet_assumption)
    fitted = sweep.fit(alpha)
    controls = evaluate_controls(cells, axis, alpha, refused)
    second_key = evaluate_second_key(cells, axis, fitted, alpha)
    power, *wrong = (pass_probability(fitted, sweep.margin, off) for off in (0.0, *OFFSETS))
    outcome, reason = (
        _check_search(sweep)
        or _check_bound(sweep)
        or _check_second_key(second_key)
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


def _check_search(sweep: Sweep) -> _Decision | None:
    """Return undecided if a better candidate may be beyond an edge of the grid."""
    for cell in sweep.cells:
        if cell.searched and cell.searched["at_edge"]:
            names = ", ".join(cell.searched["at_edge"])
            return Outcome.UNDECIDED, f"best {names} at an edge of the grid, {cell.location}"
    return None


def _check_bound(sweep: Sweep) -> _Decision | None:
    """Return undecided if the bound does not have the theorem's exponent in these cells."""
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
    "across": (Outcome.UNDECIDED, "interval reaches across an end of"),
}


def _check_slope(sweep: Sweep, slope: Estimate) -> _Decision | None:
    """Return a decision if the slope is not equivalent to the theorem's exponent."""
    position = classify(slope, sweep.target, sweep.margin)
    if position in _OUTSIDE:
        outcome, message = _OUTSIDE[position]
        return outcome, f"{message} {sweep.target:g} ± {sweep.margin:.2g}"
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
        **fields,
    )

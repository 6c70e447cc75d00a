"""The verdict on a slope: is the measured exponent the theorem's, and could it have been another?

On the hard family where a rate is tight, ``log max_strength mean`` is regressed on the log of a
swept axis, and the slope compared with ``rate.exponents`` by *equivalence*: its interval must lie
within the exponent plus or minus ``MARGIN``, or a quarter of a small exponent. Exponents are those
of a leading term and risks at finite sizes differ from it, so an interval that only had to contain
the exponent would refute every theorem, given enough replicates, and hold for any, given few.

Where the theorem's exponents are local, as those of a logarithm are, the mean of the cells' own is
compared; they must not differ by more than the margin.

The interval covers the exponent that least squares finds in the true means of the same cells, at
level ``1 - alpha``. An exponent that is wrong by the margin or more holds only if its interval
misses it on one side: with probability at most ``alpha`` (``alpha/2``, where both sides err alike).

What decides, the first that applies:

1. A value that is not finite: refuted.
2. No exponent can be read off the cells, or the best candidate of a search lies at an edge of its
   grid and may not be the best: undecided.
3. The bound does not own its exponent, which then says nothing of the measurement: its slope over
   the same cells is more than ``BOUND_MARGIN`` off, or a cell is out of the rate's regime:
   undecided.
4. A second root key disagrees: undecided.
5. The interval lies wholly above the margin: refuted. Wholly below it: the risk falls faster, or
   grows more slowly, than its bound, which is ``not tight here``. Partly: undecided.
6. Measured over bound drifts by more than ``DRIFT`` along the axis: undecided.
7. A control has the measured exponent too: inherited. A control that may have it: undecided.
   Neither control could be run: undecided.
8. Else it holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from privopt.lab.judge.controls import controls, second_key
from privopt.lab.judge.equivalence import DRIFT, WRONG, passing, place
from privopt.lab.judge.estimates import UNKNOWN, Estimate
from privopt.lab.judge.results import CellResult, Refusal
from privopt.lab.judge.sweeps import Sweep, sweep
from privopt.lab.judge.verdict import Control, ControlOutcome, Outcome, Verdict

BOUND_MARGIN = 0.02
"""The slope of a bound that owns its exponent is at most so far from it."""


def slope_verdict(
    cells: Sequence[CellResult], axis: str, alpha: float, refused: Iterable[Refusal] = ()
) -> Verdict:
    """The verdict on the exponent along ``axis``."""
    measured = sweep(cells, axis)
    if measured.obstacle:  # no exponent can be read off the cells
        outcome = Outcome.REFUTED if measured.not_finite else Outcome.UNDECIDED
        return _verdict(measured, UNKNOWN, outcome, measured.obstacle)
    fitted = measured.fit(alpha)
    others = controls(cells, axis, alpha, refused)
    second = second_key(cells, axis, fitted, alpha)
    power, *wrong = (passing(fitted, measured.margin, off) for off in (0.0, *WRONG))
    outcome, why = (
        _at_edge(measured)
        or _unowned(measured)
        or _unlike(second)
        or _beside(measured, fitted.estimate)
        or _inherited(others, private=measured.cells[0].private)
        or (Outcome.HOLDS, "")
    )
    return _verdict(
        measured,
        fitted.estimate,
        outcome,
        f"{why}: {measured.span}" if why else measured.span,
        power=power,
        wrong=tuple(wrong),
        controls=others,
        second=None if second.outcome is ControlOutcome.NONE else second,
    )


_Judged = tuple[Outcome, str]


def _at_edge(measured: Sweep) -> _Judged | None:
    """Where a candidate beyond the grid might have been better than the best of it."""
    for cell in measured.cells:
        if cell.searched and cell.searched["at_edge"]:
            names = ", ".join(cell.searched["at_edge"])
            return Outcome.UNDECIDED, f"best {names} at an edge of the grid, {cell.place}"
    return None


def _unowned(measured: Sweep) -> _Judged | None:
    """Why the bound does not have the exponent that it is to share with the measurement."""
    if not abs(measured.bound_slope - measured.target) <= min(BOUND_MARGIN, measured.margin):
        return Outcome.UNDECIDED, f"the bound's own slope is {measured.bound_slope:.3f}"
    out = [cell for cell in measured.cells if not cell.in_regime]
    if out:
        return Outcome.UNDECIDED, f"out of the rate's regime, {out[0].place}"
    return None


def _unlike(second: Control) -> _Judged | None:
    if second.outcome is ControlOutcome.DISAGREES:
        return Outcome.UNDECIDED, f"a second root key disagrees, {second.detail}"
    return None


_OUTSIDE = {
    "above": (Outcome.REFUTED, "interval above"),
    "below": (Outcome.NOT_TIGHT, "steeper than the bound, interval below"),
    "across": (Outcome.UNDECIDED, "interval reaches across an end of"),
}


def _beside(measured: Sweep, slope: Estimate) -> _Judged | None:
    """Why the exponent is not the theorem's."""
    where = place(slope, measured.target, measured.margin)
    if where in _OUTSIDE:
        outcome, said = _OUTSIDE[where]
        return outcome, f"{said} {measured.target:g} ± {measured.margin:.2g}"
    if measured.drift > DRIFT:
        return Outcome.UNDECIDED, f"measured/bound drifts by a factor {measured.drift:.3g}"
    return None


def _inherited(others: Sequence[Control], *, private: bool) -> _Judged | None:
    """Why an exponent that is the theorem's may not come from the noise."""
    for outcome, said in (
        (ControlOutcome.SURVIVES, Outcome.INHERITED),
        (ControlOutcome.UNDECIDED, Outcome.UNDECIDED),
    ):
        found = [f"{each.name}: {each.detail}" for each in others if each.outcome is outcome]
        if found:
            return said, "; ".join(found)
    if private and all(each.outcome is ControlOutcome.NONE for each in others):
        return Outcome.UNDECIDED, f"no control, {others[0].detail}"
    return None


def _verdict(
    measured: Sweep,
    slope: Estimate,
    outcome: Outcome,
    detail: str,
    **fields: Any,
) -> Verdict:
    cells = measured.cells
    inside = sum(bool(cell.in_regime) for cell in cells)
    return Verdict(
        **cells[0].names,
        **slope.told,
        check="slope",
        axis=measured.axis,
        outcome=outcome,
        target=measured.target,
        detail=detail,
        margin=measured.margin,
        bound_slope=measured.bound_slope,
        drift=measured.drift,
        regime=f"in {inside} of {len(cells)} cells",
        untuned=cells[0].untuned,
        of_code=all(cell.starts_optimal for cell in cells),
        **fields,
    )

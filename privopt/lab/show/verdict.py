"""What a check concludes, whether of a theorem, of a law or of a claim."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Control", "ControlOutcome", "Outcome", "Verdict", "tally"]


class Outcome(StrEnum):
    """What a check concludes.

    ``inherited`` is said of a slope only: the measured exponent is the theorem's, and so it stays
    where the privacy noise is switched off or made to grow otherwise. The choices of the plan
    carry the exponent, and the measurement says nothing about the noise.
    """

    HOLDS = "holds"
    REFUTED = "refuted"
    INHERITED = "inherited"
    UNDECIDED = "undecided"


class ControlOutcome(StrEnum):
    """What a control of a slope shows.

    ``told apart``
        The control has another exponent than the theorem's: the slope could have failed.
    ``survives``
        The control has the theorem's exponent too.
    ``undecided``
        Its interval allows either.
    ``none``
        There is no such control.
    ``agrees``, ``disagrees``
        Of a second root key: whether it measures the same exponent.
    """

    TOLD_APART = "told apart"
    SURVIVES = "survives"
    UNDECIDED = "undecided"
    NONE = "none"
    AGREES = "agrees"
    DISAGREES = "disagrees"


@dataclass(frozen=True)
class Control:
    """The exponent of the same sweep under another noise, or under another root key.

    Attributes
    ----------
    name : {"noise off", "noise bent", "second key"}
    value, lower, upper : float
        Its exponent and the interval; NaN where there is none.
    outcome : ControlOutcome
    detail : str
        Why, where the interval does not say.
    """

    name: str
    value: float
    lower: float
    upper: float
    outcome: ControlOutcome
    detail: str = ""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """A theorem checked on one family of problems, or a claim of a study checked in its rows.

    Attributes
    ----------
    experiment : str
    check : {"bound", "slope", "law", "claim"}
    outcome : Outcome
    estimate, lower, upper : float
        Slope: the measured exponent and its interval. Bound: the largest ratio of the measured
        mean to the upper bound over the cells, and its interval. Law: the ratio of what was
        measured to the law, pooled over the cells, and its interval. NaN where nothing can be said.
        Claim: in how many rows it holds for certain, and may hold.
    target : float
        Slope: the theorem's exponent. Bound: 1, not to be exceeded. Law: 1. Claim: in how many
        rows it was claimed to hold.
    detail : str
        Where, and if not ``holds``, why.
    method, family : str
        Of a theorem: the label of the method, and the family of problems.
    axis : str or None
        The swept axis of a slope.
    claim : str
        In words.
    rows : int
        Of a claim: how many there are.
    margin : float
        Slope: the interval must lie within ``target`` plus or minus so much. NaN elsewhere.
    power : float
        Slope: the chance that the interval would lie there, and the drift stay small, if the
        exponent were ``target``.
    wrong : tuple of two floats
        Slope: the same chance if the exponent were 0.05 and 0.10 away from ``target``.
    controls : tuple of Control
        Slope: with the noise off, and bent.
    second : Control or None
        Slope: under a second root key.
    bound_slope : float
        Slope: the exponent of the upper bound itself over the same cells.
    drift : float
        Slope: the largest over the smallest ratio of measured mean to bound along the axis.
    regime : str
        Slope: in how many of the cells the rate is in its regime, as ``"in 12 of 12 cells"``.
    at_theory : Verdict or None
        Of an untuned method: the slope of its twin that runs at theory's numbers.
    untuned : bool
        Whether the method's numbers are the best of a grid that knows no theory.
    """

    experiment: str
    check: str
    outcome: Outcome
    estimate: float
    lower: float
    upper: float
    target: float
    detail: str
    method: str = ""
    family: str = ""
    axis: str | None = None
    claim: str = ""
    rows: int = 0
    margin: float = math.nan
    power: float = math.nan
    wrong: tuple[float, float] = (math.nan, math.nan)
    controls: tuple[Control, ...] = ()
    second: Control | None = None
    bound_slope: float = math.nan
    drift: float = math.nan
    regime: str = ""
    at_theory: Verdict | None = None
    untuned: bool = False


def tally(judged: Sequence[Verdict]) -> str:
    """How many verdicts there are of each outcome, in a sentence without its end.

    A slope at theory's numbers that stands in the row of its untuned twin is not counted apart;
    how many of these are inherited is told.

    Examples
    --------
    >>> tally([])
    'Of 0 verdicts 0 hold, 0 are refuted, 0 are inherited, 0 are undecided'
    """
    counts = {outcome: sum(v.outcome == outcome for v in judged) for outcome in Outcome}
    told = f"Of {len(judged)} verdicts {counts[Outcome.HOLDS]} hold" + "".join(
        f", {count} {'is' if count == 1 else 'are'} {outcome}"
        for outcome, count in counts.items()
        if outcome is not Outcome.HOLDS
    )
    beside = [v.at_theory.outcome for v in judged if v.at_theory is not None]
    inherited = beside.count(Outcome.INHERITED)
    if not inherited:
        return told
    return (
        f"{told}; of {len(beside)} slopes at theory’s numbers, beside them, {inherited} inherited"
    )

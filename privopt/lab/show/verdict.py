"""What a check concludes, whether of a theorem or of a claim."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Outcome", "Verdict", "tally"]


class Outcome(StrEnum):
    """What a check concludes."""

    HOLDS = "holds"
    REFUTED = "refuted"
    UNDECIDED = "undecided"


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """A theorem checked on one family of problems, or a claim of a study checked in its rows.

    Attributes
    ----------
    experiment : str
    check : {"bound", "slope", "claim"}
    outcome : Outcome
    estimate, lower, upper : float
        Slope: the measured exponent and its interval. Bound: the largest ratio of the measured
        mean to the upper bound over the cells, and its interval. NaN where nothing can be said.
        Claim: in how many rows it holds for certain, and may hold.
    target : float
        Slope: the theorem's exponent. Bound: 1, not to be exceeded. Claim: in how many rows it was
        claimed to hold.
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


def tally(judged: Sequence[Verdict]) -> str:
    """How many verdicts there are of each outcome, in a sentence without its end.

    Examples
    --------
    >>> tally([])
    'Of 0 verdicts 0 hold, 0 are refuted, 0 are undecided'
    """
    counts = {outcome: sum(v.outcome == outcome for v in judged) for outcome in Outcome}
    return f"Of {len(judged)} verdicts {counts[Outcome.HOLDS]} hold" + "".join(
        f", {count} {'is' if count == 1 else 'are'} {outcome}"
        for outcome, count in counts.items()
        if outcome is not Outcome.HOLDS
    )

"""What a check concludes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Finding", "Outcome", "Verdict", "tally"]


class Outcome(StrEnum):
    """What a check concludes."""

    HOLDS = "holds"
    REFUTED = "refuted"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Verdict:
    """One theorem checked on one family.

    Attributes
    ----------
    check : str
        ``"bound"`` or ``"slope"``.
    axis : str or None
        The swept axis of a slope.
    estimate, lower, upper : float
        Slope: the measured exponent and its interval. Bound: the largest ratio of mean excess
        risk to upper bound over the cells, and its interval. NaN where nothing can be said.
    target : float
        Slope: the theorem's exponent. Bound: 1, not to be exceeded.
    detail : str
        Where, and if not ``holds``, why.
    """

    experiment: str
    algorithm: str
    family: str
    check: str
    axis: str | None
    outcome: Outcome
    estimate: float
    lower: float
    upper: float
    target: float
    detail: str


@dataclass(frozen=True)
class Finding:
    """One claim of a study checked in its rows.

    Attributes
    ----------
    claim : str
        In words.
    held, rows : int
        In how many rows it holds, and of how many.
    target : int
        In how many it was claimed to hold.
    detail : str
        Where not.
    """

    experiment: str
    claim: str
    outcome: Outcome
    held: int
    rows: int
    target: int
    detail: str


def tally(judged: Sequence[Verdict | Finding]) -> str:
    """How many verdicts there are of each outcome, in a sentence without its end."""
    counts = {outcome: sum(v.outcome == outcome for v in judged) for outcome in Outcome}
    return f"Of {len(judged)} verdicts {counts[Outcome.HOLDS]} hold" + "".join(
        f", {count} {'is' if count == 1 else 'are'} {outcome}"
        for outcome, count in counts.items()
        if outcome is not Outcome.HOLDS
    )

"""What a check concludes, whether of a theorem, of a law or of a claim."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

ORACLE_TUNED = "oracle-tuned"
"""The label of every method whose numbers were chosen after looking at what they give."""


class Outcome(StrEnum):
    """What a check concludes.

    ``holds``
        The theorem, the law or the claim is what was measured.
    ``attained``
        Of a bound: the exact mean is the bound, so no interval can lie below it.
    ``vacuous``
        Of a bound: in every cell the bound is above the risk of the public centre, which spends no
        privacy. The bound then says nothing, and the verdict counts for nothing.
    ``refuted``
        What was measured contradicts it.
    ``not tight here``
        Of a slope: the risk falls faster, or grows more slowly, than the bound. No upper bound is
        refuted by that.
    ``inherited``
        Of a slope: the exponent is the theorem's, and it stays where the privacy noise is switched
        off or made to grow otherwise. The choices of the plan carry the exponent, and the
        measurement says nothing about the noise.
    ``undecided``
        Neither; the detail says why.
    """

    HOLDS = "holds"
    ATTAINED = "attained"
    VACUOUS = "vacuous"
    REFUTED = "refuted"
    NOT_TIGHT = "not tight here"
    INHERITED = "inherited"
    UNDECIDED = "undecided"


class Kind(StrEnum):
    """What is checked: kinds are counted apart.

    A test of code is a law, or a slope on a family whose public centre is the minimiser: the noise
    alone is measured there, whose law is closed, and its exponents are known beforehand.
    """

    EXPONENT = "exponent"
    BOUND = "bound"
    CLAIM = "claim"
    CODE = "test of code"

    @property
    def plural(self) -> str:
        """Of its name."""
        return "tests of code" if self is Kind.CODE else f"{self}s"


class ControlOutcome(StrEnum):
    """What a control of a slope shows.

    ``told apart``
        Its exponent is another one than the measured: the slope could have come out otherwise.
    ``survives``
        It has the measured exponent too.
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


GRADES = {
    "holds": "good",
    "attained": "good",
    "told apart": "good",
    "agrees": "good",
    "refuted": "bad",
    "disagrees": "bad",
    "not tight here": "odd",
    "inherited": "odd",
    "survives": "odd",
    "undecided": "open",
    "vacuous": "idle",
}
"""How the outcome of a verdict or a control is taken, which decides its colour and its sign."""


@dataclass(frozen=True)
class Control:
    """The exponent of the same sweep under another noise, or under another root key."""

    name: str  # noise off, noise bent or second key
    value: float  # the exponent, with its interval; NaN where there is none
    lower: float
    upper: float
    outcome: ControlOutcome
    detail: str = ""  # how far from the measured exponent it is, or why there is none


@dataclass(frozen=True, kw_only=True, repr=False)
class Verdict:
    """A theorem checked on one family of problems, or a claim of a study checked in its rows.

    Examples
    --------
    >>> print(Verdict(experiment="toy", check="bound", outcome=Outcome.HOLDS, estimate=0.61,
    ...               lower=0.6, upper=0.62, target=1.0, detail="n=500", method="dp_gd",
    ...               family="linear"))
    dp_gd on linear, mean/bound: 0.61 [0.6, 0.62], at most 1: holds (n=500)
    """

    experiment: str
    check: str  # bound, slope, law or claim
    outcome: Outcome
    # Slope: the measured exponent. Bound: the largest ratio of mean to bound over the cells. Law:
    # the ratio of mean to law, pooled. Claim: in how many rows it holds for certain, and may hold.
    estimate: float = math.nan
    lower: float = math.nan
    upper: float = math.nan
    target: float = math.nan  # the theorem's exponent; 1; the rows in which it is claimed to hold
    detail: str = ""  # where, and if not ``holds``, why
    method: str = ""
    family: str = ""
    axis: str | None = None  # of a slope, and so are all fields below ``below``
    claim: str = ""
    rows: int = 0  # of a claim: how many there are
    below: str = ""  # in how many of the cells a bound lies below the risk of the public centre
    of_code: bool = False  # whether the exponent restates a closed form
    margin: float = math.nan  # the interval must lie within ``target`` plus or minus so much
    power: float = math.nan  # chance that it does, and the drift stays small, if the target is true
    wrong: tuple[float, float] = (math.nan, math.nan)  # the same if it is 0.05 or 0.10 off
    controls: tuple[Control, ...] = ()  # with the noise off, and bent
    second: Control | None = None  # under a second root key
    bound_slope: float = math.nan  # the exponent of the upper bound over the same cells
    drift: float = math.nan  # the largest over the smallest ratio of mean to bound along the axis
    regime: str = ""  # in how many of the cells the rate is in its regime
    at_theory: Verdict | None = None  # of an untuned method: that of its twin at theory's numbers
    untuned: bool = False  # whether the numbers are the best of a grid that knows no theory

    @property
    def kind(self) -> Kind:
        """As what it is counted."""
        kinds = {"bound": Kind.BOUND, "law": Kind.CODE, "claim": Kind.CLAIM}
        return kinds.get(self.check, Kind.CODE if self.of_code else Kind.EXPONENT)

    @property
    def named(self) -> str:
        """The method, which says so where the best of a grid was taken."""
        return f"{self.method} ({ORACLE_TUNED})" if self.untuned else self.method

    def __repr__(self) -> str:
        """One line, however much is known."""
        return f"<Verdict {self}>"

    def __str__(self) -> str:
        """In words: what was measured, beside what, and what the controls show."""
        if self.check == "claim":
            held = f"{self.estimate:g} of {self.rows} rows, {self.target:g} claimed"
            return _with(f"{self.claim}: {held}: {self.outcome}", self.detail)
        what = {"bound": "mean/bound", "law": "measured/law"}.get(self.check, "slope")
        where = f" in {self.axis}" if self.axis else ""
        measured = f"{self.estimate:.3g} [{self.lower:.3g}, {self.upper:.3g}], "
        beside = "at most" if self.check == "bound" else "theorem" if what == "slope" else "law"
        told = "" if math.isnan(self.estimate) else f"{measured}{beside} {self.target:g}: "
        head = f"{self.named} on {self.family}, {what}{where}: {told}{self.outcome}"
        return "; ".join((_with(head, self.detail), *map(_control, self.controls)))


def unfolded(judged: Iterable[Verdict]) -> list[Verdict]:
    """The verdicts, each followed by that of its twin at theory's numbers, if it has one."""
    return [v for each in judged for v in (each, each.at_theory) if v is not None]


def twins(judged: Iterable[Verdict]) -> dict[str, str]:
    """The methods with the best numbers of a grid, each with its twin at theory's numbers."""
    return {v.method: v.at_theory.method for v in judged if v.at_theory is not None}


def _with(text: str, detail: str) -> str:
    return f"{text} ({detail})" if detail else text


def _control(control: Control) -> str:
    slope = "" if math.isnan(control.value) else f" {control.value:.3g}"
    return f"{control.name}{slope}: {control.outcome}"


def tally(judged: Sequence[Verdict]) -> str:
    """How many verdicts there are of each outcome, kinds apart, in sentences.

    What is vacuous is not among those that could hold. A slope at theory's numbers that stands in
    the row of its tuned twin is not counted; how many of these are inherited is told.

    Examples
    --------
    >>> tally([])
    'Nothing was judged.'
    """
    if not (sentence := "; ".join(counts(judged))):
        return "Nothing was judged."
    return " ".join(filter(None, (f"{sentence}.", measured_twice(judged))))


def counts(judged: Sequence[Verdict]) -> tuple[str, ...]:
    """How many verdicts there are of each outcome: a clause for each kind that there is."""
    told = (_counted(kind, [v for v in judged if v.kind is kind]) for kind in Kind)
    return tuple(filter(None, told))


def measured_twice(judged: Sequence[Verdict]) -> str:
    """Why a tuned run counts and not its twin at theory's numbers; empty where nothing says so."""
    beside = [v.at_theory.outcome for v in judged if v.at_theory is not None]
    if not (inherited := beside.count(Outcome.INHERITED)):
        return ""
    return (
        f"{len(beside)} exponents were measured twice: with the numbers of theory {inherited} of "
        "them stay without noise too and test nothing, so the tuned run is the one that counts."
    )


def _counted(kind: Kind, judged: Sequence[Verdict]) -> str:
    """One kind, as ``3 of 5 exponents hold, 2 undecided``."""
    if not judged:
        return ""
    counts = {outcome: sum(v.outcome == outcome for v in judged) for outcome in Outcome}
    vacuous = counts.pop(Outcome.VACUOUS)
    held = counts.pop(Outcome.HOLDS)
    others = "".join(f", {count} {outcome}" for outcome, count in counts.items() if count)
    if vacuous == len(judged):
        return f"0 of {vacuous} {kind.plural} could have failed: vacuous"
    idle = f" ({vacuous} more could not have failed: vacuous)" if vacuous else ""
    return f"{held} of {len(judged) - vacuous} {kind.plural} hold{others}{idle}"

"""Verdicts on theorems, exact laws and claims."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

ORACLE_TUNED = "oracle-tuned"
"""The label of a method whose hyperparameters were selected after seeing the results."""


class Outcome(StrEnum):
    """The conclusion of a check.

    ``holds``
        The measurement agrees with the theorem, the law or the claim.
    ``attained``
        For a bound: the exact mean equals the bound, so no interval can be below it.
    ``vacuous``
        For a bound: in every cell the bound is above the risk of the public centre, which spends no
        privacy. The check could not fail, so it is not counted.
    ``refuted``
        The measurement contradicts the theorem, the law or the claim.
    ``not tight here``
        For a slope: the risk falls faster, or grows more slowly, than the bound. This refutes no
        upper bound.
    ``inherited``
        For a slope: the exponent is the theorem's, but it stays the same without the privacy noise,
        or with noise of another exponent. It is caused by the choices of the plan, and the
        measurement is no evidence about the noise.
    ``too few runs``
        For a slope: with the theorem's exponent it would pass with probability below 80 %. The
        detail has the number of runs that suffices.
    ``undecided``
        None of these; the detail has the reason.
    ``not applicable``
        There is no theorem for this check, for example no bound on the measured quantity. It is not
        counted.
    """

    HOLDS = "holds"
    ATTAINED = "attained"
    VACUOUS = "vacuous"
    REFUTED = "refuted"
    NOT_TIGHT = "not tight here"
    INHERITED = "inherited"
    TOO_FEW = "too few runs"
    UNDECIDED = "undecided"
    NOT_APPLICABLE = "not applicable"


class Kind(StrEnum):
    """The kind of a check; kinds are counted separately.

    A test of code is a law, or a slope on a family with the minimiser at its public centre.
    Such a slope measures the noise alone. Its law is closed, so its exponents are known in advance.
    """

    EXPONENT = "exponent"
    BOUND = "bound"
    CLAIM = "claim"
    CODE = "test of code"

    @property
    def plural(self) -> str:
        """Plural of the name."""
        return "tests of code" if self is Kind.CODE else f"{self}s"


class ControlOutcome(StrEnum):
    """The conclusion of a control of a slope.

    ``differs``
        The exponent differs from the measured one: the slope depends on the noise.
    ``survives``
        The exponent equals the measured one.
    ``undecided``
        The interval allows both.
    ``none``
        The control was not run.
    ``agrees``, ``disagrees``
        For a second root key: whether the exponents are equal.
    """

    DIFFERS = "differs"
    SURVIVES = "survives"
    UNDECIDED = "undecided"
    NONE = "none"
    AGREES = "agrees"
    DISAGREES = "disagrees"


GRADES = {
    "holds": "good",
    "attained": "good",
    "differs": "good",
    "agrees": "good",
    "refuted": "bad",
    "disagrees": "bad",
    "not tight here": "odd",
    "inherited": "odd",
    "survives": "odd",
    "too few runs": "open",
    "undecided": "open",
    "vacuous": "idle",
    "not applicable": "idle",
}
"""Grades of outcomes, which determine colours and signs."""


@dataclass(frozen=True)
class Control:
    """The exponent of a sweep with another noise, or under another root key."""

    name: str  # noise off, noise bent or second key
    outcome: ControlOutcome
    detail: str = ""  # difference from the measured exponent, or the reason why there is none
    value: float = math.nan  # exponent with its interval
    lower: float = math.nan
    upper: float = math.nan


@dataclass(frozen=True, kw_only=True, repr=False)
class Verdict:
    """The result of a check of a theorem on one family of problems, or of a claim of an analysis.

    Attributes
    ----------
    check : str
        ``bound``, ``slope``, ``law`` or ``claim``.
    estimate, lower, upper : float
        For a slope: the measured exponent with its interval. For a bound: the largest ratio of mean
        to bound over the cells. For a law: the pooled ratio of mean to law. For a claim: the number
        of rows in which it holds certainly (``estimate``, ``lower``) and possibly (``upper``).
    target : float
        The theorem's exponent, 0 for a ratio to the bound; 1; or the claimed number of rows.
    detail : str
        Location, and the reason if the outcome is not ``holds``.
    power, wrong : float, tuple of float
        For a slope: the probability of passing if the target is true, and if it is wrong by 0.05 or
        0.10.

    Examples
    --------
    >>> print(Verdict(experiment="toy", check="bound", outcome=Outcome.HOLDS, estimate=0.61,
    ...               lower=0.6, upper=0.62, target=1.0, detail="n=500", method="dp_gd",
    ...               family="linear"))
    dp_gd on linear, mean/bound: 0.61 [0.6, 0.62], at most 1: holds (n=500)
    """

    experiment: str
    check: str
    outcome: Outcome
    estimate: float = math.nan
    lower: float = math.nan
    upper: float = math.nan
    target: float = math.nan
    detail: str = ""
    method: str = ""
    family: str = ""
    axis: str | None = None  # of a slope
    claim: str = ""
    rows: int = 0  # number of rows that a claim is checked in
    below_centre: str = ""  # number of cells with a bound below the public centre
    of_code: bool = False  # whether the exponent follows from a closed form
    margin: float = math.nan  # half width of the equivalence margin
    power: float = math.nan
    wrong: tuple[float, float] = (math.nan, math.nan)
    controls: tuple[Control, ...] = ()  # noise off and noise bent
    second: Control | None = None  # second root key
    bound_slope: float = math.nan  # exponent of the upper bound over the same cells
    drift: float = math.nan  # largest divided by smallest ratio of mean to bound along the axis
    regime: str = ""  # number of cells in the regime of the rate
    at_theory: Verdict | None = None  # of the twin of an oracle-tuned method
    untuned: bool = False  # whether the hyperparameters are the best of a grid
    of_ratio: bool = False  # whether the slope is that of the mean over the bound

    @property
    def kind(self) -> Kind:
        """Kind under which the verdict is counted."""
        kinds = {"bound": Kind.BOUND, "law": Kind.CODE, "claim": Kind.CLAIM}
        return kinds.get(self.check, Kind.CODE if self.of_code else Kind.EXPONENT)

    def __repr__(self) -> str:
        return f"<Verdict {self}>"

    def __str__(self) -> str:
        if self.check == "claim":
            count = f"{self.estimate:g} of {self.rows} rows, {self.target:g} claimed"
            return _with_detail(f"{self.claim}: {count}: {self.outcome}", self.detail)
        slope = "slope of mean/bound" if self.of_ratio else "slope"
        quantity = {"bound": "mean/bound", "law": "measured/law"}.get(self.check, slope)
        axis = f" in {self.axis}" if self.axis else ""
        relation = {"bound": "at most", "law": "law"}.get(self.check, "theorem")
        interval = f"{self.estimate:.3g} [{self.lower:.3g}, {self.upper:.3g}]"
        measured = "" if math.isnan(self.estimate) else f"{interval}, {relation} {self.target:g}: "
        name = f"{self.method} ({ORACLE_TUNED})" if self.untuned else self.method
        head = f"{name} on {self.family}, {quantity}{axis}: {measured}{self.outcome}"
        return "; ".join((_with_detail(head, self.detail), *map(_control, self.controls)))


def _with_detail(text: str, detail: str) -> str:
    return f"{text} ({detail})" if detail else text


def _control(control: Control) -> str:
    slope = "" if math.isnan(control.value) else f" {control.value:.3g}"
    return f"{control.name}{slope}: {control.outcome}"


def flatten_twins(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """Return the verdicts, each followed by the verdict of its twin, if there is one."""
    return [v for each in verdicts for v in (each, each.at_theory) if v is not None]


def twin_name(method: str) -> str:
    """Return the name of an oracle-tuned method at the hyperparameters of the theory."""
    return method.removesuffix("_best")


def twins(verdicts: Iterable[Verdict]) -> dict[str, str]:
    """Return the oracle-tuned methods, each with its twin at the theory's hyperparameters."""
    return {v.method: v.at_theory.method for v in verdicts if v.at_theory is not None}


def tally(verdicts: Sequence[Verdict]) -> str:
    """Count the verdicts by kind and outcome, in sentences.

    Vacuous bounds are counted separately. Checks that are not applicable are not counted. The slope
    of a twin at the theory's hyperparameters is not counted, but the number of inherited ones is
    given.

    Examples
    --------
    >>> tally([])
    'There are no verdicts.'
    """
    if not (sentence := "; ".join(counts(verdicts))):
        return "There are no verdicts."
    return " ".join(filter(None, (f"{sentence}.", twin_summary(verdicts))))


def counts(verdicts: Sequence[Verdict]) -> tuple[str, ...]:
    """Count the verdicts by outcome: a clause such as ``3 of 5 exponents hold`` for each kind."""
    clauses = (_count(kind, [v for v in verdicts if v.kind is kind]) for kind in Kind)
    return tuple(filter(None, clauses))


def twin_summary(verdicts: Sequence[Verdict]) -> str:
    """Return the number of inherited slopes at the theory's hyperparameters, or an empty string."""
    outcomes = [v.at_theory.outcome for v in verdicts if v.at_theory is not None]
    if not (inherited := outcomes.count(Outcome.INHERITED)):
        return ""
    return (
        f"{len(outcomes)} exponents were measured twice. With the hyperparameters of the theory, "
        f"{inherited} of them are the same without noise and are no evidence, so the tuned run "
        "counts."
    )


def _count(kind: Kind, verdicts: Sequence[Verdict]) -> str:
    if not verdicts:
        return ""
    counter = Counter(v.outcome for v in verdicts)
    vacuous, holding = counter.pop(Outcome.VACUOUS, 0), counter.pop(Outcome.HOLDS, 0)
    counted = len(verdicts) - vacuous - counter.pop(Outcome.NOT_APPLICABLE, 0)
    others = "".join(f", {counter[outcome]} {outcome}" for outcome in Outcome if counter[outcome])
    if not counted:
        return f"0 of {vacuous} {kind.plural} could have failed: vacuous" if vacuous else ""
    idle = f" ({vacuous} more could not have failed: vacuous)" if vacuous else ""
    return f"{holding} of {counted} {kind.plural} hold{others}{idle}"

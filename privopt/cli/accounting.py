"""Commands for privacy accounting: epsilon and noise."""

from __future__ import annotations

import math
import re
import sys
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR
from enum import StrEnum
from fractions import Fraction
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from typer import Option

from privopt.arguments import shown
from privopt.cli.console import digits, exact, make_console, make_table, number, plain_errors
from privopt.spec import Budget, Relation

if TYPE_CHECKING:
    from dp_accounting import DpEvent

    from privopt.privacy import Interval

_BEYOND_ROUNDING = 1e-9  # relative; a smaller difference may be round-off


class Sampler(StrEnum):
    """Sampling scheme of a batch, with the theorems of ``privopt.privacy.subsample``."""

    POISSON = "poisson"
    WITHOUT_REPLACEMENT = "without_replacement"
    SHUFFLED = "shuffled"


StepCount = Annotated[str, Option(metavar="INTEGER", help="Number of adaptive releases.")]
Rate = Annotated[
    str | None,
    Option(
        metavar="A/B",
        help="Share of the records in a batch: a fraction or a decimal number. Default: every step "
        "uses all records.",
    ),
]
Batches = Annotated[
    Sampler,
    Option(
        help="Sampling of batches: each record independently; A of B records; or each record once "
        "per epoch."
    ),
]
Neighbours = Annotated[Relation | None, Option(help="Neighbouring relation. Default: all of them.")]


def load_events() -> None:
    """Import the events of dp_accounting without its accountants.

    The commands do not use these accountants, and their import takes most of a second. The first
    use of any other name imports the whole package.
    """
    if "dp_accounting" in sys.modules:
        return
    spec = find_spec("dp_accounting")
    assert spec is not None
    loader: Any = spec.loader
    package: Any = module_from_spec(spec)
    sys.modules["dp_accounting"] = package
    for name in ("dp_event", "privacy_accountant"):
        try:
            module = import_module(f"dp_accounting.{name}")
        except ImportError:  # another layout: import the whole package where it is used
            del sys.modules["dp_accounting"]
            return
        public = vars(module).items()
        vars(package).update((key, value) for key, value in public if key[0].isupper())

    def whole(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        del package.__getattr__
        loader.exec_module(package)
        return getattr(package, name)

    package.__getattr__ = whole


@dataclass(frozen=True)
class Steps:
    """Several Gaussian steps on batches.

    ``rate`` is the share of the records in a batch, or None if steps use all records. ``fixed``
    holds the sizes of batch and data set if the rate is a fraction of integers.
    """

    count: int
    rate: Fraction | None
    fixed: tuple[int, int] | None
    sampler: Sampler

    @classmethod
    def parse(cls, steps: str, rate: str | None, sampler: Sampler) -> Steps:
        """Parse the options ``--steps``, ``--rate`` and ``--sampler``."""
        count = exact(steps)
        if count is None or count < 0 or count.denominator != 1:
            raise ValueError(f"steps must be a non-negative integer, got {steps}")
        if rate is None:
            if sampler is not Sampler.POISSON:
                raise ValueError(f"rate must be given for {sampler.value} batches, got none")
            return cls(int(count), None, None, sampler)
        share = exact(rate)
        if share is None:
            raise ValueError(f"rate must be a fraction a/b or a decimal number, got {rate}")
        if not 0 <= share <= 1:
            raise ValueError(f"rate must lie in [0, 1], got {rate}")
        sizes = re.fullmatch(r"\s*(\d+)/(\d+)\s*", rate)
        fixed = (int(sizes[1]), int(sizes[2])) if sizes else None
        if sampler is Sampler.WITHOUT_REPLACEMENT and fixed is None:
            raise ValueError(f"rate must be batch size/data size for {sampler.value}, got {rate}")
        return cls(int(count), share, fixed, sampler)

    def __str__(self) -> str:
        text = _plural(self.count, "step")
        if self.rate is None:
            return f"{text} on all records"
        share = f"{self.fixed[0]}/{self.fixed[1]}" if self.fixed else f"{float(self.rate):g}"
        batches = {
            Sampler.POISSON: f"Poisson samples of rate {share}",
            Sampler.WITHOUT_REPLACEMENT: f"batches of {share} records, without replacement",
            Sampler.SHUFFLED: f"shuffled batches of rate {share}",
        }
        return f"{text} on {batches[self.sampler]}"

    def event(self, noise: float, relation: Relation) -> tuple[DpEvent, str]:
        """Return an event that dominates the steps, and the reason if sampling does not count.

        Without an amplification theorem for the sampler under the relation, the event is that of
        public batches. Upper bounds for the event hold for the steps. Lower bounds hold only if
        the reason is empty.
        """
        import dp_accounting as dp

        from privopt.privacy import subsample

        step: Any = dp.GaussianDpEvent(noise)
        if self.rate is None:
            return dp.SelfComposedDpEvent(step, self.count), ""
        if self.sampler is Sampler.POISSON:
            step = dp.PoissonSampledDpEvent(float(self.rate), step)
            return dp.SelfComposedDpEvent(step, self.count), ""
        if self.rate == 0:
            return dp.NoOpDpEvent(), ""
        share = 1.0 if self.sampler is Sampler.SHUFFLED else float(self.rate)
        amplification = subsample(0.0, 0.0, share, sampler=self.sampler.value, relation=relation)
        # Adding a record exchanges another one: twice the sensitivity in that batch.
        exchange = dp.GaussianDpEvent(0.5 * noise)
        if self.sampler is Sampler.SHUFFLED:
            batches = math.floor(1 / self.rate)  # the fewest in an epoch: leftovers are dropped
            epochs = -(-self.count // batches)
            if relation is Relation.ADD_OR_REMOVE_ONE:  # a second batch loses the record
                step = dp.ComposedDpEvent([exchange, step])
            text = f"{_plural(epochs, 'epoch')} of {_plural(batches, 'batch', 'es')}"
            return dp.SelfComposedDpEvent(step, epochs), f"{amplification.reason}; {text}"
        assert self.fixed is not None
        if amplification.amplified:
            size, records = self.fixed
            step = dp.SampledWithoutReplacementDpEvent(records, size, step)
        elif relation is Relation.ADD_OR_REMOVE_ONE:
            step = exchange
        return dp.SelfComposedDpEvent(
            step, self.count
        ), "" if amplification.amplified else amplification.reason


def epsilon(
    context: typer.Context,
    noise: Annotated[
        str,
        Option(
            metavar="NUMBER",
            help="Standard deviation of the Gaussian noise of one step, in units of the bound on "
            "one record (the clipping norm).",
        ),
    ],
    rate: Rate = None,
    steps: StepCount = "1",
    delta: Annotated[
        str | None, Option(metavar="NUMBER", help="Print epsilon at this delta.")
    ] = None,
    at: Annotated[
        str | None, Option("--epsilon", metavar="NUMBER", help="Print delta at this epsilon.")
    ] = None,
    relation: Neighbours = None,
    sampler: Batches = Sampler.POISSON,
    accuracy: Annotated[
        float, Option(help="Relative width of the interval of the Fourier accountant.")
    ] = 1e-3,
) -> None:
    """Print epsilon or delta of Gaussian noise, from every accountant.

    The smallest epsilon (or delta) is between lower and upper, which are rounded outwards. Upper
    is the guarantee. An estimate has no bound; it is marked if it is below the certified lower
    bound. The sensitivity of a sum is twice the bound on one record under replace_one, and once
    under the other relations.

    DP-SGD on MNIST:
    **privopt epsilon --noise 1.1 --rate 256/60000 --steps 14062 --delta 1e-5**

    One relation, all records in every step:
    **privopt epsilon --noise 2 --steps 10 --delta 1e-6 --relation zero_out**

    Batches of fixed size:
    **privopt epsilon --noise 4 --rate 100/5000 --steps 500 --delta 1e-6
    --sampler without_replacement --relation replace_one**
    """
    load_events()
    with plain_errors(context, ValueError):
        z, batches = number("noise", noise), Steps.parse(steps, rate, sampler)
        if delta is None and at is None:
            raise ValueError("one of --delta and --epsilon must be given, got neither")
        options = {"epsilon": ("delta", delta), "delta": ("epsilon", at)}
        questions = [
            (target, name, number(name, text)) for target, (name, text) in options.items() if text
        ]
        answers = []
        for each in [relation] if relation else Relation:
            event, reason = batches.event(z, each)
            answers += [_answer(event, each, reason, *question, accuracy) for question in questions]
        console = make_console()
        console.print(f"Gaussian noise {z:g}, {batches}", soft_wrap=True)
        for table, conclusion in answers:
            console.print()
            console.print(table)
            console.print(conclusion, soft_wrap=True)


def _answer(
    event: DpEvent,
    relation: Relation,
    reason: str,
    target: str,
    given: str,
    value: float,
    accuracy: float,
) -> tuple[Table, str]:
    """Return the results of all accountants as a table, the tightest first, and the conclusion.

    If ``reason`` is not empty, the event only dominates the release, so lower bounds and estimates
    are left out.
    """
    from privopt.accounting import ACCOUNTANTS, ESTIMATORS
    from privopt.privacy import Fourier, NonPrivate

    proofs, estimates, silent = dict[str, Any](), dict[str, Any](), []
    for kind, answers in ((ACCOUNTANTS, proofs), (() if reason else ESTIMATORS, estimates)):
        for each in kind:
            each = Fourier(accuracy) if isinstance(each, Fourier) else each
            if each.supports(event, relation):
                answers[each.name] = getattr(each, target)(event, relation, value)
            elif not isinstance(each, NonPrivate):
                silent.append(each.name)
    question, at = f"{target} at {given} = {value:g}", f"at {given} = {value:g}"
    least = max((proof.lower for proof in proofs.values()), default=0.0)
    worst = math.inf if target == "epsilon" else 1.0
    most = min((proof.upper for proof in proofs.values()), default=worst)
    if least > most:
        raise ArithmeticError(
            f"proofs contradict each other, a defect of privopt: {question} is at least "
            f"{shown(least)} and at most {shown(most)}"
        )
    low = {name: each.value < least * (1.0 - _BEYOND_ROUNDING) for name, each in estimates.items()}
    bounds = ["upper"] if reason else ["lower", "upper"]
    columns = ["accountant", "guarantee", *bounds, *([""] if any(low.values()) else [])]
    table = make_table(f"{relation.value}: {question}", *columns)
    for column in table.columns[2 : 2 + len(bounds)]:
        column.justify, column.no_wrap = "right", True
    for name, proof in sorted(proofs.items(), key=lambda item: item[1].upper):
        ends = [digits(proof.lower, ROUND_FLOOR), digits(proof.upper, ROUND_CEILING)]
        table.add_row(name, "yes", *ends[-len(bounds) :])
    for name, each in sorted(estimates.items(), key=lambda item: item[1].value):
        remark = ["[red]under-reports[/red]" * low[name]] if any(low.values()) else []
        table.add_row(name, "no: estimate", "", f"about {each.value:.4g}", *remark)
    lower = "" if reason else f"{digits(least, ROUND_FLOOR)} <= "
    certified = f"Certified {at}: {lower}{target} <= {digits(most, ROUND_CEILING)}"
    lines = [f"[bold]{certified}[/bold]"]
    if reason:
        lines.append(f"[yellow]No amplification claimed:[/yellow] {reason}")
    if most == math.inf and (reason or least < most):
        reasons = "; ".join(proof.reason for proof in proofs.values() if proof.reason)
        text = reasons or "no accountant has a bound"
        lines.append(f"[yellow]Nothing is proved:[/yellow] {text}")
    if any(low.values()):
        lines.append("[red]under-reports[/red]: below the certified lower bound")
    if silent:
        lines.append(f"[dim]Without an answer: {', '.join(silent)}[/dim]")
    return table, "\n".join(lines)


def noise(
    context: typer.Context,
    epsilon: Annotated[str, Option(metavar="NUMBER", help="Of the privacy budget.")],
    delta: Annotated[str, Option(metavar="NUMBER", help="Of the privacy budget.")],
    rate: Rate = None,
    steps: StepCount = "1",
    relation: Neighbours = None,
    sampler: Batches = Sampler.POISSON,
    tolerance: Annotated[float, Option(help="Relative distance from the smallest noise.")] = 1e-4,
) -> None:
    """Print the smallest Gaussian noise within a budget, and the epsilon certified at it.

    The noise is a standard deviation in units of the bound on one record, as in **privopt
    epsilon**. It is rounded up, and the certified epsilon is that of the printed value.

    Example:
    **privopt noise --epsilon 2 --delta 1e-5 --rate 0.01 --steps 1000
    --relation add_or_remove_one**
    """
    load_events()
    with plain_errors(context, ValueError):
        batches = Steps.parse(steps, rate, sampler)
        e, d = number("epsilon", epsilon), number("delta", delta)
        if d == 0.0:
            raise ValueError("delta must be positive: no Gaussian noise is private at delta 0")
        table = make_table("", "relation", "noise", "lower epsilon", "upper epsilon")
        reasons = []
        for each in [relation] if relation else Relation:
            budget = Budget(epsilon=e, delta=d, relation=each)
            z, certified, reason = _calibrated(batches, budget, tolerance)
            lower = "" if reason else digits(certified.lower, ROUND_FLOOR)
            table.add_row(each.value, shown(z), lower, digits(certified.upper, ROUND_CEILING))
            reasons += [f"{each.value}: no amplification claimed: {reason}"] if reason else []
        console = make_console()
        console.print(f"{batches}, within epsilon {e:g} at delta {d:g}", soft_wrap=True)
        console.print(table)
        for reason in reasons:
            console.print(reason, soft_wrap=True)


def _calibrated(batches: Steps, budget: Budget, tolerance: float) -> tuple[float, Interval, str]:
    """Return the noise, its certified epsilon, and the reason if sampling does not count.

    The noise has nine digits, as printed. If rounding up does not suffice, it has seventeen.
    """
    from privopt.privacy import Fourier, GaussianDP, Interval, calibrate

    relation, delta = budget.relation, budget.delta
    smallest = calibrate(
        lambda noise: batches.event(noise, relation)[0], budget, tolerance=tolerance
    )
    for z in (float(digits(smallest, ROUND_CEILING)), smallest):
        event, reason = batches.event(z, relation)
        provers = (GaussianDP(), Fourier(tolerance), Fourier(tolerance, two_sided=False))
        proofs = [
            prover.epsilon(event, relation, delta)
            for prover in provers
            if prover.supports(event, relation)
        ]
        upper = min(proof.upper for proof in proofs)
        if upper <= budget.epsilon:
            break
    return z, Interval(max(proof.lower for proof in proofs), upper), reason


def _plural(count: int, noun: str, ending: str = "s") -> str:
    return f"{count} {noun}{'' if count == 1 else ending}"

"""The commands about privacy alone: epsilon and noise."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR
from typing import TYPE_CHECKING, Annotated

import typer

from privopt.arguments import shown
from privopt.cli.answers import Question, ask
from privopt.cli.console import digits, make_console, make_table, plain_errors
from privopt.cli.steps import Sampler, Steps, number, read_steps
from privopt.spec import Budget, Relation

if TYPE_CHECKING:
    from privopt.privacy import Interval

_ACCURACY = 1e-3
_TOLERANCE = 1e-4

StepCount = Annotated[str, typer.Option(metavar="INTEGER", help="Adaptive releases.")]
Rate = Annotated[
    str | None,
    typer.Option(
        metavar="A/B",
        show_default=False,
        help="Share of the records in the batch of one step: a fraction or a decimal number. "
        "Default: every step uses all records.",
    ),
]
Batches = Annotated[
    Sampler,
    typer.Option(
        help="How a batch is drawn: each record by itself; A of B records; or each record once "
        "an epoch."
    ),
]
Neighbours = Annotated[
    Relation | None,
    typer.Option(
        show_default=False, help="When two data sets are neighbours. Default: each in turn."
    ),
]


def epsilon(
    context: typer.Context,
    noise: Annotated[
        str,
        typer.Option(
            metavar="NUMBER",
            help="Standard deviation of the Gaussian noise of one step, in units of the bound "
            "on one record's contribution.",
        ),
    ],
    rate: Rate = None,
    steps: StepCount = "1",
    delta: Annotated[
        str | None,
        typer.Option(metavar="NUMBER", show_default=False, help="Ask for epsilon at this delta."),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(
            "--epsilon",
            metavar="NUMBER",
            show_default=False,
            help="Ask for delta at this epsilon.",
        ),
    ] = None,
    relation: Neighbours = None,
    sampler: Batches = Sampler.POISSON,
    accuracy: Annotated[
        float, typer.Option(help="Relative width the Fourier accountant aims at.")
    ] = _ACCURACY,
) -> None:
    """Privacy of Gaussian noise: what every accountant says, and which of them prove it.

    The smallest epsilon (or delta) lies between lower and upper, which are rounded outwards;
    upper is what may be claimed. An estimate comes without any bound, and is marked where it
    falls below what is certainly spent. Under replace_one a sum moves by twice the bound on one
    record, under the other relations by once.

    DP-SGD on MNIST:
    **privopt epsilon --noise 1.1 --rate 256/60000 --steps 14062 --delta 1e-5**

    One relation, all records in every step:
    **privopt epsilon --noise 2 --steps 10 --delta 1e-6 --relation zero_out**

    Batches of fixed size:
    **privopt epsilon --noise 4 --rate 100/5000 --steps 500 --delta 1e-6
    --sampler without_replacement --relation replace_one**
    """
    with plain_errors(context, ValueError):
        z, each = number("noise", noise), read_steps(steps, rate, sampler)
        if delta is None and at is None:
            raise ValueError("one of --delta and --epsilon must be given, got neither")
        questions = [Question("epsilon", "delta", number("delta", delta))] if delta else []
        questions += [Question("delta", "epsilon", number("epsilon", at))] if at else []
        answers = []
        for under in _relations(relation):
            event, reason = each.event(z, under)
            answers += [ask(question, event, under, reason, accuracy) for question in questions]
        console = make_console()
        console.print(f"Gaussian noise {z:g}, {each}", soft_wrap=True)
        for answer in answers:
            console.print()
            console.print(answer.table())
            console.print(answer.conclusion(), soft_wrap=True)


def noise(
    context: typer.Context,
    epsilon: Annotated[str, typer.Option(metavar="NUMBER", help="What may be spent.")],
    delta: Annotated[str, typer.Option(metavar="NUMBER", help="What may be spent.")],
    rate: Rate = None,
    steps: StepCount = "1",
    relation: Neighbours = None,
    sampler: Batches = Sampler.POISSON,
    tolerance: Annotated[
        float, typer.Option(help="Relative distance from the smallest noise.")
    ] = _TOLERANCE,
) -> None:
    """The smallest Gaussian noise within a budget, and the epsilon certified at it.

    The noise is a standard deviation in units of the bound on one record's contribution, as
    **privopt epsilon** takes it. It is rounded up, and asked about as printed.

    Example:
    **privopt noise --epsilon 2 --delta 1e-5 --rate 0.01 --steps 1000
    --relation add_or_remove_one**
    """
    with plain_errors(context, ValueError):
        each = read_steps(steps, rate, sampler)
        spend, failure = number("epsilon", epsilon), number("delta", delta)
        if failure == 0.0:
            raise ValueError("delta must be positive: no Gaussian noise is private at delta 0")
        table = make_table("", "relation", "noise", "lower epsilon", "upper epsilon")
        reasons = []
        for under in _relations(relation):
            budget = Budget(epsilon=spend, delta=failure, relation=under)
            z, certified, reason = _calibrated(each, budget, tolerance)
            lower = "" if reason else digits(certified.lower, ROUND_FLOOR)
            upper = digits(certified.upper, ROUND_CEILING)
            table.add_row(under.value, shown(z), lower, upper)
            reasons += [f"{under.value}: no amplification claimed: {reason}"] if reason else []
        console = make_console()
        console.print(f"{each}, within epsilon {spend:g} at delta {failure:g}", soft_wrap=True)
        console.print(table)
        for reason in reasons:
            console.print(reason, soft_wrap=True)


def _relations(relation: Relation | None) -> tuple[Relation, ...]:
    return tuple(Relation) if relation is None else (relation,)


def _calibrated(each: Steps, budget: Budget, tolerance: float) -> tuple[float, Interval, str]:
    """The noise, what it certainly spends, and why the sampling does not count if it does not.

    A noise is shown with nine digits, so one of nine digits is looked for; where that does not
    pass, against all expectation, the noise that does has seventeen.
    """
    from privopt.privacy import Fourier, GaussianDP, Interval, calibrate

    relation, delta = budget.relation, budget.delta
    smallest = calibrate(lambda noise: each.event(noise, relation)[0], budget, tolerance=tolerance)
    for z in (float(digits(smallest, ROUND_CEILING)), smallest):
        event, reason = each.event(z, relation)
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

"""The command about what to take: recommend."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from privopt.cli.console import make_console, plain_errors
from privopt.cli.steps import number
from privopt.spec import Budget, Relation

_RADIUS = 10.0


def recommend(
    context: typer.Context,
    n: Annotated[str, typer.Option(metavar="INTEGER", help="Records, as 100000 or 1e5.")],
    dim: Annotated[str, typer.Option(metavar="INTEGER", help="Coordinates of the parameter.")],
    epsilon: Annotated[str, typer.Option(metavar="NUMBER", help="What may be spent.")],
    loss: Annotated[
        str,
        typer.Option(
            help="linear, logistic, hinge, squared, absolute, huber (its kink rounded over 0.1) or "
            "squared_distance, for records and labels of norm at most 1."
        ),
    ],
    delta: Annotated[
        str | None,
        typer.Option(metavar="NUMBER", show_default=False, help="0: pure. Default: 1/n^2."),
    ] = None,
    relation: Annotated[
        Relation, typer.Option(help="When two data sets are neighbours; told with the answer.")
    ] = Relation.REPLACE_ONE,
    radius: Annotated[float, typer.Option(help="Public bound on the norm of w.")] = _RADIUS,
    sparsity: Annotated[
        str | None,
        typer.Option(
            metavar="INTEGER",
            show_default=False,
            help="Most numbers of a record that are not 0.",
        ),
    ] = None,
    accuracy: Annotated[
        float | None,
        typer.Option(show_default=False, help="The wanted bound. Default: half of the best."),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Plan those too that take seconds.")
    ] = False,
    results: Annotated[
        Path | None,
        typer.Option(
            show_default=False,
            help="Folder of what was measured. Default: results or, if nothing is recorded there, "
            "what comes with the package.",
        ),
    ] = None,
) -> None:
    """Which algorithm to take: default plans by certified bound, and as measured near them.

    Nothing is run and no data are seen. Bounds hold for every problem of the loss; what was
    measured is from the nearest recorded experiment, which is named with its distance.

    Example: **privopt recommend --n 1e5 --dim 100 --epsilon 1 --loss logistic**
    """
    with plain_errors(context, ValueError, OSError):
        from privopt import recommendation

        size = _whole("n", n)
        facts = recommendation.problem_class_of(
            loss,
            n=size,
            dim=_whole("dim", dim),
            radius=radius,
            sparsity=None if sparsity is None else _whole("sparsity", sparsity),
        )
        failure = 1.0 / size**2 if delta is None else number("delta", delta)
        budget = Budget(epsilon=number("epsilon", epsilon), delta=failure, relation=relation)
        found = recommendation.recommend(
            facts,
            budget,
            loss=loss,
            accuracy=accuracy,
            algorithms="all" if everything else None,
            results=results,
        )
        console = make_console()
        if delta is None:
            console.print(f"delta = 1/n^2 = {failure:g}, by default.")
        console.print(str(found), markup=False, soft_wrap=True)


def _whole(name: str, text: str) -> int:
    """A positive whole number, which may be written as 1e5."""
    value = number(name, text)
    if not (value >= 1.0 and value.is_integer()):
        raise ValueError(f"{name} must be a positive integer, got {text}")
    return int(value)

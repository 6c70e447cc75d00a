"""The command that compares: compare."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from privopt.arguments import shown
from privopt.cli.console import make_console, make_table, plain_errors
from privopt.cli.device import Devices, KeepPrograms, prepare
from privopt.spec import Budget, Relation


def compare(
    context: typer.Context,
    problem: Annotated[
        str, typer.Argument(help="A synthetic kind, such as logistic, or a family of privopt list.")
    ],
    algorithms: Annotated[
        list[str] | None, typer.Argument(help="Names of privopt list; default all private ones.")
    ] = None,
    axis: Annotated[
        str | None, typer.Option(help="What is swept: n, dim, sparsity, epsilon or steps.")
    ] = None,
    values: Annotated[
        str | None, typer.Option(help="Of the axis, with commas; default five usual ones.")
    ] = None,
    n: Annotated[int | None, typer.Option(help="Records.")] = None,
    dim: Annotated[int | None, typer.Option(help="Dimension.")] = None,
    sparsity: Annotated[int | None, typer.Option(help="Numbers of a row that are not 0.")] = None,
    epsilon: Annotated[float, typer.Option(help="Where it is not the axis.")] = 1.0,
    delta: Annotated[float, typer.Option(help="Of every budget.")] = 1e-6,
    relation: Annotated[
        Relation, typer.Option(help="Whose data sets are neighbours; told with every result.")
    ] = Relation.REPLACE_ONE,
    replicates: Annotated[int, typer.Option(min=1, help="Runs of a method at a value.")] = 100,
    data_sets: Annotated[
        int | None, typer.Option(min=1, help="Of a synthetic kind, which share the replicates.")
    ] = None,
    tune: Annotated[
        str | None,
        typer.Option(help="Beside every method its best of a grid: oracle, or private (charged)."),
    ] = None,
    max_steps: Annotated[
        int, typer.Option(min=1, help="Plans that ask for more steps are held to it, and told.")
    ] = 1000,
    seed: Annotated[int, typer.Option(help="Root of all randomness.")] = 0,
    results: Annotated[
        Path, typer.Option(help="Folder of records and pictures; made if absent.")
    ] = Path("comparisons"),
    devices: Devices = None,
    cache: KeepPrograms = True,
) -> None:
    """Compare algorithms on one problem at one guarantee: a table, winners and a picture.

    Interrupted, it continues where it stopped.

    Example: **privopt compare logistic --axis epsilon --n 2000 --dim 20**
    """
    prepare(devices, cache)
    import jax

    from privopt import lab
    from privopt.comparison import compare as compared

    console = make_console()
    with plain_errors(context, ValueError, OSError, lab.ResultsError):
        swept = None if values is None else [_number(each) for each in values.split(",")]
        with lab.Display(console) as display:
            found = compared(
                problem,
                algorithms or None,
                budget=Budget(epsilon=epsilon, delta=delta, relation=relation),
                key=jax.random.key(seed),
                axis=axis,
                values=swept,
                n=n,
                dim=dim,
                sparsity=sparsity,
                replicates=replicates,
                data_sets=data_sets,
                tune=tune,
                max_steps=max_steps,
                results=results,
                progress=display,
            )
        rows = found.rows
        table = make_table(f"{found.title}: {found.setting}", *rows[0])
        for row in rows:
            table.add_row(*(escape(row.get(name, "")) for name in rows[0]))
        console.print(table)
        for line in [*found.told_winners, *found.notes]:
            console.print(line, markup=False, soft_wrap=True)
        picture = results / f"{found.recorded.about['name']}.png"
        found.plot(picture)
        console.print(f"Picture: {picture}", soft_wrap=True)


def _number(text: str) -> float:
    """An integer where it is one: sizes are."""
    try:
        return int(text) if text.strip().isdigit() else float(text)
    except ValueError:
        raise ValueError(f"values must be numbers with commas between, got {shown(text)}") from None

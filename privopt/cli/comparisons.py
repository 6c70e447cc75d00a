"""Commands that choose a method: recommend before any run, compare by runs."""

from __future__ import annotations

import runpy
import textwrap
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from privopt.arguments import shown
from privopt.cli.console import make_console, number, plain_errors, whole
from privopt.cli.device import Devices, KeepPrograms, prepare
from privopt.spec import Budget, Relation

if TYPE_CHECKING:
    import pandas as pd

_WIDTH = 100
_UNITS = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))

Neighbours = Annotated[Relation, Option(help="Neighbouring relation.")]
Why = Annotated[bool, Option("--why", help="Print why methods do not apply.")]


def compare(
    context: typer.Context,
    problem: Annotated[
        str,
        Argument(
            help="A synthetic kind, such as logistic, a family of privopt list, or a Python file "
            "that defines the variable problem."
        ),
    ],
    algorithms: Annotated[
        list[str] | None, Argument(help="Names in privopt list; default all private ones.")
    ] = None,
    axis: Annotated[
        str | None, Option(help="Swept axis: n, dim, sparsity, epsilon or steps.")
    ] = None,
    values: Annotated[str | None, Option(help="Values of the axis, separated by commas.")] = None,
    n: Annotated[int | None, Option(help="Number of records.")] = None,
    dim: Annotated[int | None, Option(help="Dimension.")] = None,
    sparsity: Annotated[int | None, Option(help="Non-zero numbers of a row.")] = None,
    epsilon: Annotated[float, Option(help="Epsilon, unless it is the axis.")] = 1.0,
    delta: Annotated[float, Option(help="Delta of every budget.")] = 1e-6,
    relation: Neighbours = Relation.REPLACE_ONE,
    replicates: Annotated[int, Option(min=1, help="Runs per method and value.")] = 100,
    data_sets: Annotated[
        int | None, Option(min=1, help="Data sets of a synthetic kind; they share the runs.")
    ] = None,
    tune: Annotated[
        str | None, Option(help="Add tuned methods: oracle, or private (charged).")
    ] = None,
    max_steps: Annotated[
        int | None, Option(min=1, help="Largest number of steps of a plan.")
    ] = None,
    max_seconds: Annotated[
        float | None, Option(help="Largest forecast cost of a run. Default: 0.03.")
    ] = None,
    wide: Annotated[
        bool, Option("--wide", help="Print intervals, bounds, steps and seconds as well.")
    ] = False,
    why: Why = False,
    seed: Annotated[int, Option(help="Root of all randomness.")] = 0,
    results: Annotated[
        Path, Option(help="Folder of records and figures; created if absent.")
    ] = Path("comparisons"),
    devices: Devices = None,
    cache: KeepPrograms = True,
) -> None:
    """Compare algorithms on one problem under the same guarantee: table, winner and figure.

    Tables of a part of the runs are printed first: of two methods after a few seconds, then of all
    methods on one data set. An interrupted comparison continues when the command is repeated.

    Examples: **privopt compare logistic --axis epsilon --n 2000 --dim 20** and
    **privopt compare my_problem.py --axis epsilon**
    """
    prepare(devices, cache)
    import jax

    from privopt import comparison, lab

    console = make_console()
    with plain_errors(context, ValueError, OSError, lab.ResultsError):
        table = partial(comparison.Comparison.table, bold=partial(typer.style, bold=True))

        def preview(result: comparison.Comparison) -> None:
            typer.echo(f"{table(result)}\n\nPreview on one data set. More runs follow.\n")

        with lab.Display(console) as display:
            result = comparison.compare(
                _problem(problem),
                algorithms or None,
                budget=Budget(epsilon=epsilon, delta=delta, relation=relation),
                key=jax.random.key(seed),
                axis=axis,
                values=None if values is None else [_value(each) for each in values.split(",")],
                n=n,
                dim=dim,
                sparsity=sparsity,
                replicates=replicates,
                data_sets=data_sets,
                tune=tune,
                max_steps=max_steps,
                max_seconds=max_seconds or comparison.MAX_SECONDS,
                results=results,
                progress=partial(_show_progress, display),
                preview=None if wide or why else preview,
            )
        typer.echo(table(result, wide=wide, why=why))
        figure = results / f"{result.recorded.about['name']}.png"
        result.plot(figure)
        console.print(f"Figure: {figure}", soft_wrap=True)


def _problem(name: str) -> Any:
    """Return a name, or the variable ``problem`` of a Python file."""
    if not name.endswith(".py"):
        return name
    variables = runpy.run_path(name)
    if "problem" not in variables:
        raise ValueError(f"{name} must define problem = ..., got {', '.join(variables)}")
    return variables["problem"]


def _show_progress(display: Any, event: Any) -> None:
    """Show an event, except notes on refused plans, which the table counts, and on other cells.

    A preview has fewer cells than the folder of a comparison that continues.
    """
    if getattr(event, "urgent", True):
        display(event)


def _value(text: str) -> float:
    """Parse a value of an axis; sizes are integers."""
    try:
        return int(text) if text.strip().isdigit() else float(text)
    except ValueError:
        raise ValueError(f"values must be numbers with commas between, got {shown(text)}") from None


def recommend(
    context: typer.Context,
    n: Annotated[str, Option(metavar="INTEGER", help="Records, as 100000 or 1e5.")],
    dim: Annotated[str, Option(metavar="INTEGER", help="Coordinates of the parameter.")],
    epsilon: Annotated[str, Option(metavar="NUMBER", help="Of the privacy budget.")],
    loss: Annotated[
        str,
        Option(
            help="linear, logistic, hinge, squared, absolute, huber (its kink rounded over 0.1) or "
            "squared_distance, for records and labels of norm at most 1."
        ),
    ],
    delta: Annotated[str | None, Option(metavar="NUMBER", help="0: pure. Default: 1/n^2.")] = None,
    relation: Neighbours = Relation.REPLACE_ONE,
    radius: Annotated[float, Option(help="Public bound on the norm of w.")] = 10.0,
    sparsity: Annotated[
        str | None, Option(metavar="INTEGER", help="Non-zero numbers of a record.")
    ] = None,
    accuracy: Annotated[
        float | None, Option(help="Wanted bound. Default: half of the best one.")
    ] = None,
    everything: Annotated[
        bool, Option("--all", help="Plan methods whose calibration takes seconds as well.")
    ] = False,
    why: Why = False,
    results: Annotated[
        Path | None,
        Option(
            help="Folder of recorded experiments. Default: results or, without records there, the "
            "folder that comes with the package."
        ),
    ] = None,
) -> None:
    """Rank default plans by their certified bounds, with measured risks of recorded experiments.

    No algorithm is run and no data are read. Bounds hold for every problem with the loss. Measured
    risks are those of the nearest recorded experiment, which is printed with its sizes.

    Example: **privopt recommend --n 1e5 --dim 100 --epsilon 1 --loss logistic**
    """
    with plain_errors(context, ValueError, OSError):
        from privopt import comparison

        size = whole("n", n)
        facts = comparison.problem_class_of(
            loss,
            n=size,
            dim=whole("dim", dim),
            radius=radius,
            sparsity=None if sparsity is None else whole("sparsity", sparsity),
        )
        budget = Budget(
            epsilon=number("epsilon", epsilon),
            delta=1.0 / size**2 if delta is None else number("delta", delta),
            relation=relation,
        )
        ranking = comparison.recommend(
            facts,
            budget,
            loss=loss,
            algorithms="all" if everything else None,
            results=results,
        )
        public = {"L": facts.lipschitz, "H": facts.smoothness, "m": facts.strong_convexity or None,
                  "s": facts.sparsity}  # fmt: skip
        default = f"delta = 1/n^2 = {budget.delta:g}, by default.\n" if delta is None else ""
        constants = ", ".join(f"{name} = {value:g}" for name, value in public.items() if value)
        typer.echo(
            f"{default}n = {facts.n:,}, d = {facts.dim:,}, "
            f"({budget.epsilon:g}, {budget.delta:g})-DP, {relation}, {loss}, |x| <= 1, "
            f"|w| <= {radius:g}, {constants}"
        )
        _print_ranking(ranking, comparison.without_privacy(facts, budget))
        refused = ranking.loc[ranking["refused"] != "", ["name", "refused"]]
        if why:
            for name, reason in refused.itertuples(index=False):
                _print(f"{name}: {reason}")
        elif len(refused):
            plural = "methods do" if len(refused) > 1 else "method does"
            typer.echo(f"{len(refused)} {plural} not apply (--why)")
        _print_improvements(ranking, accuracy, loss)


def _print_ranking(ranking: pd.DataFrame, twin: Any) -> None:
    """Print a table per bounded quantity, then the recorded experiments that were used."""
    ranked = ranking[ranking["refused"] == ""].copy()
    if ranked.empty:
        typer.echo("\nNo algorithm has a bound here.\n")
    same = ranked["nearest_method"] == ranked["name"]
    ranked["nearest_method"] = ranked["nearest_method"].mask(same, "")
    names = ["experiment", "family", "method", "n", "dim", "epsilon", "ratio"]
    near = [f"nearest_{name}" for name in names]
    place = ranked[ranked["measured"].notna()].groupby(near, sort=False).ngroup() + 1
    ranked["see"] = ""
    ranked.loc[place.index, "see"] = place.map("[{}]".format).astype(object)
    sources = ranked.loc[place.index].drop_duplicates("see").set_index("see")[near]
    sources = sources.set_axis(names, axis="columns").rename_axis(None)
    ranked["as measured"] = ranked["measured"].map(_brief)
    ranked["steps"] = ranked["steps"].map("{:,}".format, na_action="ignore").fillna("-")
    columns = ["rank", "name", "bound", "as measured", "rank_measured", "see", "steps", "seconds"]
    for _, rows in ranked.groupby("quantity", sort=False):
        plan = rows["plan"].iloc[0]
        rate, facts = plan.rate, plan.problem_class
        bounds = [f"{_brief(facts.lipschitz * facts.radius)} at the default output"]
        if rate.quantity is twin.quantity and twin.terms:
            bounds.append(f"{_brief(twin.upper)} without privacy")
        if rate.lower and rate.lower[0].value:
            value, guarantee = rate.lower[0]
            bounds.append(f"no {guarantee} method is always below {_brief(value)}")
        typer.echo(f"\n{rate.quantity.value.capitalize()}, {rate.quantity.formula}")
        _print(f"     bounds: {'; '.join(bounds)}")
        formats = {"bound": _brief, "seconds": _brief, "memory": _bytes}
        typer.echo(
            rows[[*columns, "memory"]].to_string(index=False, formatters=formats, na_rep="-")
        )
        for remark, names in rows.explode("remarks").groupby("remarks")["name"]:
            _print(f"     {', '.join(names)}: {remark}")
    if sources.empty:
        typer.echo("\nNo recorded experiment applies, so there are no measured risks.")
    else:
        typer.echo("\nAs measured: the bound times mean/bound (ratio) of the nearest experiment:")
        sizes = dict.fromkeys(("n", "dim"), "{:,.0f}".format)
        formats = {**sizes, "ratio": _brief, "epsilon": "{:g}".format}
        typer.echo(sources.to_string(formatters=formats))
    typer.echo("Seconds and memory: forecasts for one run on one core.\n")


def _print_improvements(ranking: pd.DataFrame, accuracy: float | None, loss: str) -> None:
    """Print sizes, budgets and assumptions that reduce the best bound."""
    from privopt.comparison import alternatives, reach, representative

    row = representative(ranking)
    if row is None:
        return
    goal = reach(row["plan"], accuracy or 0.5 * row["bound"])
    n = f"n = {goal.n:,}" if goal.n else "no n up to 2,000,000,000"
    epsilon = f"epsilon = {goal.epsilon:g}" if goal.epsilon else "no epsilon up to 100"
    which = "to halve it" if accuracy is None else "as wanted"
    _print(
        f"A bound of {_brief(goal.target)} ({which}) by {goal.name}, replanned: {n}, or {epsilon}."
    )
    for row in alternatives(ranking, loss).itertuples(index=False):
        _print(
            f"With {row.assumption}: {_brief(row.bound)} by {row.name}, {row.share:.2g} of the "
            "best bound."
        )


def _print(line: str) -> None:
    """Print a line folded at 100 columns."""
    typer.echo(textwrap.fill(line, _WIDTH, subsequent_indent="     ", break_long_words=False))


def _brief(value: float) -> str:
    """Return two significant digits, without exponent below a million, or "-" for NaN."""
    return f"{float(f'{value:.2g}'):,.7g}" if value == value else "-"


def _bytes(size: float) -> str:
    unit, name = next(pair for pair in _UNITS if size >= pair[0] or pair[0] == 1.0)
    return f"{size / unit:.3g} {name}"

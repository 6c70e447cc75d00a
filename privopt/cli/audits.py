"""The command audit: attacks on complete algorithms and on single mechanisms."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from privopt.cli.console import make_console, make_table, plain_errors
from privopt.cli.device import Devices, KeepPrograms, prepare
from privopt.cli.steps import number
from privopt.spec import Budget, Relation

if TYPE_CHECKING:
    from privopt.audit import Audit, Finding

REFUTED = 3
_PARTS = ("attack", "identical", "weakened", "forgotten")


def audit(
    context: typer.Context,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="Algorithms of `privopt list`, or mechanisms; default all. A wrong one lists them."
        ),
    ] = None,
    epsilon: Annotated[str, typer.Option(metavar="NUMBER", help="The budget's.")] = "4",
    delta: Annotated[str, typer.Option(metavar="NUMBER", help="The budget's.")] = "1e-5",
    relation: Annotated[
        Relation, typer.Option(help="When two data sets are neighbours.")
    ] = Relation.REPLACE_ONE,
    runs: Annotated[str, typer.Option(metavar="INTEGER", help="On each data set.")] = "1e5",
    failure: Annotated[
        float, typer.Option(help="Probability that anything is refuted wrongly, at most.")
    ] = 0.01,
    seed: Annotated[int, typer.Option(help="Of the keys.")] = 0,
    results: Annotated[Path, typer.Option(help="Folder of picture and numbers.")] = Path("audits"),
    devices: Devices = None,
    cache: KeepPrograms = True,
) -> None:
    """Attack algorithms: do two neighbours' releases differ more than the guarantee allows?

    Each runs many times on a pair of data sets on which it tells as much about one record as it
    can. Controls are attacked too: the same data twice, where nothing must be found, half of the
    noise, and noise that is mostly forgotten, both of which must be found. The exit status is 3
    where a guarantee is refuted; audits.json then has the seed, the statistic and the threshold.

    Example: **privopt audit dp_gd dp_sgd --epsilon 1**
    """
    prepare(devices, cache)
    import jax
    from rich.progress import Progress

    from privopt.arguments import member
    from privopt.audit import MECHANISMS, attackable, mechanism_pair, worst_pair
    from privopt.audit import audit as attacked
    from privopt.audit.picture import write_picture

    console = make_console()
    with plain_errors(context, ValueError, OSError):
        budget = Budget(
            epsilon=number("epsilon", epsilon), delta=number("delta", delta), relation=relation
        )
        count = int(number("runs", runs))
        known = (*attackable(), *MECHANISMS)
        for name in names or ():
            member("name", name, known)
        asked = names or known
        found, refused = [], {}
        with Progress(console=console, transient=True) as shown:
            bar = shown.add_task("", total=7 * len(asked))
            for place, name in enumerate(asked):
                shown.update(bar, description=name, completed=7 * place)
                try:
                    pair = (mechanism_pair if name in MECHANISMS else worst_pair)(name, budget)
                except ValueError as error:  # no theorem for this budget or relation
                    if names:
                        raise
                    refused[name] = str(error)
                    continue
                found.append(
                    attacked(
                        pair,
                        key=jax.random.key(seed),
                        runs=count,
                        failure=failure / len(asked),
                        progress=lambda *_: shown.advance(bar),
                    )
                )
        told = f"({epsilon}, {delta})-DP under {relation.value}, {count:,} runs a side"
        table = make_table(told, "attacked", "found/claimed", "less noise", "forgotten", "verdict")
        for each in found:
            ratios = (f"{part.ratio:.2f}" for part in (each.attack, each.weakened, each.forgotten))
            table.add_row(each.name, *ratios, each.verdict)
        console.print(table)
        for name, why in refused.items():
            console.print(f"not attacked: {name}: {why}", markup=False, soft_wrap=True)
        results.mkdir(parents=True, exist_ok=True)
        write_picture(found, told, results / "audits")
        rows = [_record(each, budget, seed) for each in found]
        (results / "audits.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
        console.print(f"Picture and numbers: {results}/audits.png, audits.json", soft_wrap=True)
    if any(each.verdict == "refuted" for each in found):
        raise typer.Exit(REFUTED)


def _record(audit: Audit, budget: Budget, seed: int) -> dict[str, object]:
    """All that it takes to repeat the attack, and what it found."""
    parts = {
        name: getattr(audit, name) for name in ("attack", "identical", "weakened", "forgotten")
    }
    return {
        "name": audit.name,
        "epsilon": budget.epsilon,
        "delta": budget.delta,
        "relation": budget.relation.value,
        "runs": audit.runs,
        "failure": audit.failure,
        "control": audit.control,
        "seed": seed,
        "verdict": audit.verdict,
        **{name: _numbers(part) for name, part in parts.items()},
    }


def _numbers(part: Finding) -> dict[str, object]:
    """Its bounds and threshold; the band is drawn, and follows from the seed."""
    return {name: value for name, value in part._asdict().items() if name != "band"} | {
        "ratio": part.ratio
    }

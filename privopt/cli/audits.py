"""Command audit: attacks on complete algorithms and on single mechanisms."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from privopt.arguments import member
from privopt.cli.console import make_console, make_table, number, plain_errors
from privopt.cli.device import Devices, KeepPrograms, prepare
from privopt.spec import Budget, Relation

if TYPE_CHECKING:
    from privopt.audit import Audit

REFUTED = 3
_PARTS = ("attack", "identical", "weakened", "forgotten")


def audit(
    context: typer.Context,
    names: Annotated[
        list[str] | None,
        Argument(
            help="Algorithms in `privopt list`, or mechanisms; default all. The error for a wrong "
            "name lists them."
        ),
    ] = None,
    epsilon: Annotated[str, Option(metavar="NUMBER", help="Epsilon of the budget.")] = "4",
    delta: Annotated[str, Option(metavar="NUMBER", help="Delta of the budget.")] = "1e-5",
    relation: Annotated[Relation, Option(help="Neighbouring relation.")] = Relation.REPLACE_ONE,
    runs: Annotated[str, Option(metavar="INTEGER", help="Runs on each data set.")] = "1e5",
    failure: Annotated[
        float, Option(help="Probability that a correct guarantee is refuted.")
    ] = 0.01,
    seed: Annotated[int, Option(help="Seed of the keys.")] = 0,
    results: Annotated[Path, Option(help="Folder of the figure and the numbers.")] = Path("audits"),
    devices: Devices = None,
    cache: KeepPrograms = True,
) -> None:
    """Attack algorithms: compare the releases of two neighbours with the guarantee.

    Each algorithm runs many times on two neighbours with very different releases. There are three
    controls: the same data set twice, where no difference may be detected; and half of the noise,
    and noise omitted in most runs, both of which must be detected. The exit status is 3 if a
    guarantee is refuted; audits.json then contains the seed, the statistic and the threshold.

    Example: **privopt audit dp_gd dp_sgd --epsilon 1**
    """
    prepare(devices, cache)
    import jax
    from rich.progress import Progress

    from privopt.audit import MECHANISMS, attackable, mechanism_pair, worst_pair
    from privopt.audit import audit as attack
    from privopt.audit.figures import write_picture

    console = make_console()
    with plain_errors(context, ValueError, OSError):
        budget = Budget(
            epsilon=number("epsilon", epsilon), delta=number("delta", delta), relation=relation
        )
        count = int(number("runs", runs))
        available = (*attackable(), *MECHANISMS)
        for name in names or ():
            member("name", name, available)
        selected = names or available
        audits, refused = [], {}
        with Progress(console=console, transient=True) as progress:
            bar = progress.add_task("", total=7 * len(selected))
            for place, name in enumerate(selected):
                progress.update(bar, description=name, completed=7 * place)
                try:
                    pair = (mechanism_pair if name in MECHANISMS else worst_pair)(name, budget)
                except ValueError as error:  # no theorem for this budget or relation
                    if names:
                        raise
                    refused[name] = str(error)
                    continue
                audits.append(
                    attack(
                        pair,
                        key=jax.random.key(seed),
                        runs=count,
                        failure=failure / len(selected),
                        progress=lambda *_: progress.advance(bar),
                    )
                )
        title = f"({epsilon}, {delta})-DP under {relation.value}, {count:,} runs per data set"
        columns = ("name", "measured/claimed", "less noise", "noise omitted", "verdict")
        table = make_table(title, *columns)
        for each in audits:
            ratios = (f"{part.ratio:.2f}" for part in (each.attack, each.weakened, each.forgotten))
            table.add_row(each.name, *ratios, each.verdict)
        console.print(table)
        for name, reason in refused.items():
            console.print(f"not attacked: {name}: {reason}", markup=False, soft_wrap=True)
        results.mkdir(parents=True, exist_ok=True)
        write_picture(audits, title, results / "audits")
        rows = [_record(each, budget, seed) for each in audits]
        (results / "audits.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
        console.print(f"Figure and numbers: {results}/audits.png, audits.json", soft_wrap=True)
    if any(each.verdict == "refuted" for each in audits):
        raise typer.Exit(REFUTED)


def _record(audit: Audit, budget: Budget, seed: int) -> dict[str, object]:
    """Return everything that is needed to repeat the attack, and its results.

    The band of a figure is left out, because it follows from the seed.
    """
    parts = {name: getattr(audit, name) for name in _PARTS}
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
        **{
            name: {key: value for key, value in part._asdict().items() if key != "band"}
            | {"ratio": part.ratio}
            for name, part in parts.items()
        },
    }

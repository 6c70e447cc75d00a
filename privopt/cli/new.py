"""The command new: an experiment file to begin with."""

from __future__ import annotations

from keyword import iskeyword
from typing import Annotated

import typer

from privopt.arguments import shown
from privopt.cli.console import make_console, plain_errors
from privopt.cli.experiments import EXPERIMENTS

_FILE = '''"""What is claimed, on which instance, and what would refute it."""

from privopt.lab import Axis, Experiment, Setting

{name} = Experiment(
    name="{name}",
    title="{algorithm} on {family}",
    description="Why this instance, and why these sizes.",
    algorithms={{"{algorithm}": {{}}}},  # the choices of its plan, such as {{"steps": 100}}
    families=("{family}",),
    base=Setting(n=1000, dim=8, epsilon=1.0),
    axes=(Axis("n", (500, 1000, 2000)), Axis("epsilon", (0.5, 1.0, 2.0))),
    replicates={{"quick": 50, "full": 400}},
    relation="replace_one",
    delta=1e-6,
    checks=("bound",),
)
'''


def new(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Of the experiment, and of its file.")],
    algorithm: Annotated[str, typer.Option(help="A name in `privopt list`.")] = "dp_gd",
    family: Annotated[str, typer.Option(help="A family in `privopt list`.")] = "linear",
) -> None:
    """Write ./experiments/NAME.py, an experiment that runs as it is and is yours to change.

    Example: **privopt new mine --algorithm dp_sgd --family sphere_logistic**, then
    **privopt run mine**
    """
    from privopt import lab
    from privopt.arguments import member

    with plain_errors(context, ValueError, OSError):
        member("algorithm", algorithm, lab.algorithms())
        member("family", family, lab.families())
        if not name.isidentifier() or iskeyword(name):
            raise ValueError(
                f"NAME must be a Python name, such as my_experiment, got {shown(name)}"
            )
        EXPERIMENTS.mkdir(exist_ok=True)
        path = EXPERIMENTS / f"{name}.py"
        with path.open("x", encoding="utf-8") as file:  # never over one that is there
            file.write(_FILE.format(name=name, algorithm=algorithm, family=family))
        make_console().print(f"{path}: change it, then: privopt run {name}", soft_wrap=True)

"""What a comparison will take, told before it starts."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

from privopt.lab.make.work import Event, Note, Progress, Started, Task

_PASS = 1e-9
"""Seconds a record, coordinate and step: coarse, of one core."""

_SOLVE = 400  # steps that a one-shot method's solver is worth
_COMPILED = 3.0  # seconds a program


def forecasting(progress: Progress, max_steps: int | None) -> Progress:
    """A ``progress`` that adds a forecast when all is planned and something is to come."""

    def told(event: Event) -> None:
        progress(event)
        if isinstance(event, Started) and event.missing:
            progress(Note(event.experiment, forecast(event.missing)))
            if held := _held(event.missing, max_steps):
                progress(Note(event.experiment, held))

    return told


def forecast(pieces: Sequence[Task]) -> str:
    """Seconds of work: steps x records x coordinates x runs, and programs to compile."""
    work: Counter[str] = Counter()
    for piece in pieces:
        row: dict[str, object] = dict(piece.facts)
        steps, n, dim, runs = (row[name] for name in ("steps", "n", "dim", "replicates"))
        places = row["sparsity"] or dim
        work[str(row["method"])] += _PASS * (steps or _SOLVE) * n * places * runs  # type: ignore
    compiling = _COMPILED * len({piece.program for piece in pieces})
    most = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in work.most_common(3))
    return (
        f"about {sum(work.values()) + compiling:.0f} s of work for one core: {compiling:.0f} s of "
        f"compiling, and runs, by steps, records and dimension ({most})"
    )


def _held(pieces: Sequence[Task], max_steps: int | None) -> str:
    """Which methods take fewer steps than theory asks for."""
    found: dict[str, None] = {}
    for piece in pieces:
        told = json.loads(str(piece.facts["choices"]))
        if max_steps and piece.facts["steps"] == max_steps and "steps" not in told:
            found[str(piece.facts["method"])] = None
    names = ", ".join(found)
    return names and f"{names}: held to max_steps = {max_steps:,} where theory asks for more"

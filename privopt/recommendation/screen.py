"""A recommendation as plain text of at most 100 columns."""

from __future__ import annotations

import math
import textwrap
from typing import Any

from privopt.recommendation.candidates import Candidate
from privopt.recommendation.plates import Plate
from privopt.recommendation.what_if import EPSILON_RANGE, N_RANGE

WIDTH = 100
_UNITS = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))


def screen(found: Any) -> str:
    """Class and budget; a table a quantity; refusals; what would lower the bound; the plates."""
    plates: list[Plate] = []
    parts = [_class(found), *_tables(found, plates), *_others(found), *_levers(found)]
    parts += _plates(found, plates)
    return "\n".join(_folded(line) for line in parts)


def _class(found: Any) -> str:
    facts, budget = found.problem_class, found.budget
    told = {
        "L": facts.lipschitz, "H": facts.smoothness, "m": facts.strong_convexity or None,
        "s": facts.sparsity,
    }  # fmt: skip
    loss = f"{found.loss}, |x| <= 1, " if found.loss else ""
    numbers = ", ".join(f"{name} = {value:g}" for name, value in told.items() if value is not None)
    return (
        f"n = {facts.n:,}, d = {facts.dim:,}, ({budget.epsilon:g}, {budget.delta:g})-DP, "
        f"{budget.relation}, {loss}|w| <= {facts.radius:g}, {numbers}"
    )


def _tables(found: Any, plates: list[Plate]) -> list[str]:
    lines = []
    rows = {(row["quantity"], row["method"]): row for row in found.table()}
    for quantity, listed in found.ranked.items():
        lines += _title(found, listed)
        lines.append(
            f"{'rank':>4} {'method':<31} {'bound':>8}  {'as measured (rank)':<19} {'steps':>9} "
            f"{'seconds':>8} {'memory':>8}"
        )
        for each in listed:
            row = rows[quantity.value, each.name]
            steps, cost = "-" if each.cost.steps is None else f"{each.cost.steps:,}", each.cost
            lines.append(
                f"{row['rank']:>4} {each.name:<31} {_told(each.certified):>8}  "
                f"{_measured(each, row['rank_measured'], plates):<19} {steps:>9} "
                f"{_told(cost.seconds):>8} {_bytes(cost.memory):>8}"
            )
        lines += _remarks(listed)
    return lines or ["", "No algorithm has a bound here."]


def _title(found: Any, listed: tuple[Candidate, ...]) -> list[str]:
    """What is bounded, and the bounds to hold the table against."""
    rate, facts, twin = listed[0].plan.rate, found.problem_class, found.without_privacy
    told = []
    if math.isfinite(centre := facts.lipschitz * facts.radius):
        told.append(f"{_told(centre)} at the public centre")
    if rate.quantity is twin.quantity and twin.terms:
        told.append(f"{_told(twin.upper)} without privacy")
    if rate.lower and rate.lower[0].value:
        value, guarantee = rate.lower[0]
        told.append(f"no {guarantee} method is always below {_told(value)}")
    title = f"{rate.quantity.value.capitalize()}, {rate.quantity.formula}"
    return ["", title, *([f"     bounds: {'; '.join(told)}"] if told else [])]


def _remarks(listed: tuple[Candidate, ...]) -> list[str]:
    """Every remark with the methods of which it is made."""
    of: dict[str, list[str]] = {}
    for each in listed:
        for remark in each.remarks:
            of.setdefault(remark, []).append(each.name)
    return [f"     {', '.join(names)}: {remark}" for remark, names in of.items()]


def _measured(each: Candidate, rank: object, plates: list[Plate]) -> str:
    """The estimate, its rank and the number of its plate."""
    if each.plate is None or each.measured is None:
        return ""
    if each.plate not in plates:
        plates.append(each.plate)
    return f"{_told(each.measured)} ({rank}) [{plates.index(each.plate) + 1}]"


def _others(found: Any) -> list[str]:
    lines = [f"No bound: {name}: {why}" for name, why in found.unbounded.items()]
    lines += [f"Refused: {name}: {why}" for name, why in found.refused.items()]
    if found.left_out:
        names = ", ".join(found.left_out)
        lines.append(f'Left out, as planning takes seconds (algorithms="all"): {names}.')
    return ["", *lines] if lines else []


def _levers(found: Any) -> list[str]:
    goal, lines = found.reach, [""]
    if goal is None or found.best is None:
        return []
    n = f"n = {goal.n:,}" if goal.n else f"no n up to {N_RANGE[1]:,}"
    epsilon = f"epsilon = {goal.epsilon:g}" if goal.epsilon else "no epsilon up to "
    epsilon += "" if goal.epsilon else f"{EPSILON_RANGE[1]:g}"
    half = "to halve it" if found.accuracy is None else "as wanted"
    lines.append(
        f"A bound of {_told(goal.target)} ({half}) by {goal.method}, replanned: {n}, or {epsilon}."
    )
    for each in found.what_ifs:
        lines.append(
            f"With {each.assumption}: {_told(each.bound)} by {each.method}, "
            f"{each.bound / found.best.certified:.2g} of the best bound."
        )
    return lines


def _plates(found: Any, plates: list[Plate]) -> list[str]:
    seconds = "Seconds and memory: coarse, for one run on one core."
    if not plates:
        why = found.no_plates or "no plate is of a method with a bound that says something"
        return ["", f"Nothing measured is told: {why}.", seconds]
    lines = [
        "",
        "As measured: the bound times mean/bound of the nearest plate [k]; (x how much more here):",
    ]
    here = {"n": found.problem_class.n, "dim": found.problem_class.dim}
    sizes = {**here, "epsilon": found.budget.epsilon}
    for number, plate in enumerate(plates, 1):
        near = ", ".join(
            f"{'d' if name == 'dim' else name} = {getattr(plate, name):,g}"
            f"{_times(size / getattr(plate, name))}" for name, size in sizes.items()
        )  # fmt: skip
        lines.append(f"[{number}] {_told(plate.ratio)} {plate}: {near}")
    return [*lines, seconds]


def _times(ratio: float) -> str:
    """How much more there is here than on the plate."""
    return "" if 0.95 <= ratio <= 1.05 else f" (x {_told(ratio)})"


def _told(value: float) -> str:
    """Two digits, and no power of ten below a million."""
    return f"{float(f'{value:.2g}'):,.7g}"


def _bytes(size: float) -> str:
    unit, name = next(pair for pair in _UNITS if size >= pair[0] or pair[0] == 1.0)
    return f"{size / unit:.3g} {name}"


def _folded(line: str) -> str:
    return textwrap.fill(line, WIDTH, subsequent_indent="     ", break_long_words=False) or line

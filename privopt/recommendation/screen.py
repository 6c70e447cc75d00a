"""A recommendation as plain text of at most 100 columns."""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING

from privopt.recommendation.plates import Plate
from privopt.recommendation.what_if import EPSILON_RANGE, N_RANGE

if TYPE_CHECKING:
    from privopt.recommendation.candidates import Candidate
    from privopt.recommendation.recommendation import Recommendation

WIDTH = 100
_UNITS = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))


def screen(found: Recommendation) -> str:
    """Class and budget; a table a quantity; refusals; what would lower the bound; the plates."""
    plates: list[Plate] = []
    parts = [_class(found), *_tables(found, plates), *_others(found), *_levers(found)]
    parts += _plates(found, plates)
    return "\n".join(_folded(line) for line in parts)


def _class(found: Recommendation) -> str:
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


def _tables(found: Recommendation, plates: list[Plate]) -> list[str]:
    lines = []
    rows = {(row["quantity"], row["method"]): row for row in found.table()}
    for quantity, listed in found.ranked.items():
        lines += ["", _title(found, listed)]
        lines.append(
            f"{'rank':>4} {'method':<31} {'bound':>8}  {'as measured (rank)':<19} {'steps':>9} "
            f"{'seconds':>8} {'memory':>8}"
        )
        for each in listed:
            row = rows[quantity.value, each.name]
            steps, cost = "-" if each.cost.steps is None else f"{each.cost.steps:,}", each.cost
            lines.append(
                f"{row['rank']:>4} {each.name:<31} {each.certified:>8.2g}  "
                f"{_measured(each, row['rank_measured'], plates):<19} {steps:>9} "
                f"{cost.seconds:>8.2g} {_bytes(cost.memory):>8}"
            )
        lines += [f"     {each.name}: {'; '.join(each.remarks)}" for each in listed if each.remarks]
    return lines or ["", "No algorithm has a bound here."]


def _title(found: Recommendation, listed: tuple[Candidate, ...]) -> str:
    rate, facts = listed[0].plan.rate, found.problem_class
    told = [f"{rate.quantity.value.capitalize()}, {rate.quantity.formula}"]
    if math.isfinite(centre := facts.lipschitz * facts.radius):
        told.append(f"public centre: {centre:.2g} at most")
    if rate.quantity is found.without_privacy.quantity and found.without_privacy.terms:
        told.append(f"without privacy: {found.without_privacy.upper:.2g}")
    if rate.lower and rate.lower[0].value:
        told.append(f"no {rate.lower[0].guarantee} method: under {rate.lower[0].value:.2g}")
    return "; ".join(told)


def _measured(each: Candidate, rank: object, plates: list[Plate]) -> str:
    """The estimate, its rank and the number of its plate."""
    if each.plate is None:
        return ""
    if each.plate not in plates:
        plates.append(each.plate)
    return f"{each.measured:.2g} ({rank}) [{plates.index(each.plate) + 1}]"


def _others(found: Recommendation) -> list[str]:
    lines = [f"No bound: {name}: {why}" for name, why in found.unbounded.items()]
    lines += [f"Refused: {name}: {why}" for name, why in found.refused.items()]
    return ["", *lines] if lines else []


def _levers(found: Recommendation) -> list[str]:
    goal, lines = found.reach, [""]
    if goal is None or found.best is None:
        return []
    n = f"n = {goal.n:,}" if goal.n else f"no n up to {N_RANGE[1]:,}"
    epsilon = f"epsilon = {goal.epsilon:g}" if goal.epsilon else "no epsilon up to "
    epsilon += "" if goal.epsilon else f"{EPSILON_RANGE[1]:g}"
    half = "to halve it" if found.accuracy is None else "as wanted"
    lines.append(f"A bound of {goal.target:.2g} ({half}) by {goal.method}: {n}, or {epsilon}.")
    for each in found.what_ifs:
        lines.append(
            f"Were it {each.assumption}: {each.bound:.2g} by {each.method}, "
            f"{each.bound / found.best.certified:.2g} of the best bound."
        )
    return lines


def _plates(found: Recommendation, plates: list[Plate]) -> list[str]:
    seconds = "Seconds and memory: coarse, for one run on one core."
    if not plates:
        why = found.no_plates or "no plate measures one of these quantities"
        return ["", f"Nothing measured is told: {why}.", seconds]
    lines = [
        "",
        "As measured: the bound times mean/bound on the nearest plate, at the worst strength:",
    ]
    for number, plate in enumerate(plates, 1):
        near = ", ".join(
            f"{name} = {value:,g} ({_times(here / value)})"
            for name, value, here in (
                ("n", plate.n, found.problem_class.n),
                ("d", plate.dim, found.problem_class.dim),
                ("epsilon", plate.epsilon, found.budget.epsilon),
            )
        )
        lines.append(f"[{number}] {plate}: mean/bound {plate.ratio:.2g} at {near}")
    return [*lines, seconds]


def _times(ratio: float) -> str:
    """How much more there is here than on the plate."""
    if 0.95 <= ratio <= 1.05:
        return "as here"
    return f"here x {ratio:.2g}" if ratio > 1.0 else f"here / {1.0 / ratio:.2g}"


def _bytes(size: float) -> str:
    unit, name = next(pair for pair in _UNITS if size >= pair[0] or pair[0] == 1.0)
    return f"{size / unit:.3g} {name}"


def _folded(line: str) -> str:
    return textwrap.fill(line, WIDTH, subsequent_indent="     ", break_long_words=False) or line

"""Cells: a declaration spelled out into the units that are run and kept."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from privopt.algorithms import ALGORITHMS
from privopt.arguments import instance
from privopt.lab.make.axes import Point, axis_kind, format_value
from privopt.lab.make.experiment import Experiment, require_profile
from privopt.lab.make.method import Choice, Method, size, text
from privopt.lab.make.records import Value
from privopt.lab.make.trials import SLOPED, Trial
from privopt.privacy import gaussian_mu
from privopt.problems import Family, family
from privopt.problems.datasets import available
from privopt.spec import Budget


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One method on one problem at one budget, replicated: everything that names it."""

    experiment: str
    method: str  # the label under which the algorithm stands
    algorithm: str
    choices: tuple[tuple[str, Choice], ...]  # beyond problem class and budget
    family: str
    n: int
    dim: int
    budget: Budget
    strength: float  # the family's free parameter
    replicates: int
    axes: tuple[str, ...]  # and grids that it serves; no part of what it computes
    block: int  # so many replicates run at a time
    group: int = 1  # so many of them share public randomness
    sparsity: int | None = None
    swept: tuple[str, ...] = ()  # choices that an axis has changed
    search: tuple[tuple[str, tuple[Choice, ...]], ...] = ()  # values that are tried
    most_steps: int | None = None  # of a plan that is not told how many
    trial: Trial = Trial.MEASURED
    bend: float = (
        1.0  # of the control that bends the noise: the value of its axis, over the base value
    )

    @property
    def mu(self) -> float | None:
        """The Gaussian-DP parameter of the budget; ``None`` for pure differential privacy."""
        if self.budget.delta == 0.0:
            return None
        return gaussian_mu(self.budget.epsilon, self.budget.delta)

    @property
    def noise_ratio(self) -> float:
        """``sqrt(dim) / (n mu)``, or ``dim / (n epsilon)`` for pure differential privacy."""
        return noise_ratio(self.n, self.dim, self.budget.epsilon, self.mu)

    @property
    def point(self) -> dict[str, str | float]:
        """Sizes, budget and swept choices: what names the cell within its method and family."""
        sizes = {"n": self.n, "dim": self.dim, "sparsity": self.sparsity}
        choices = {name: size(value) for name, value in self.choices if name in self.swept}
        point = {**sizes, "epsilon": self.budget.epsilon, **choices}
        return {name: value for name, value in point.items() if value is not None}

    @property
    def identity(self) -> dict[str, str | float]:
        """What names its noise: all but the axes that it serves, its trial, and the delta."""
        return {
            "experiment": self.experiment,
            "algorithm": self.method,
            "family": self.family,
            "strength": self.strength,
            **self.point,
        }

    @property
    def facts(self) -> dict[str, Value]:
        """Its row in the table of cells, before it is planned."""
        own = ("experiment", "method", "algorithm", "family", "n", "dim", "sparsity", "strength")
        return {
            **{name: getattr(self, name) for name in (*own, "mu", "replicates")},
            "epsilon": self.budget.epsilon,
            "delta": self.budget.delta,
            "relation": self.budget.relation.value,
            "trial": self.trial.value,
            "noise_factor": float(self.trial is not Trial.NOISE_OFF),
            "choices": json.dumps(dict(self.choices), sort_keys=True, default=text),
            "axes": ",".join(self.axes),
        }

    @property
    def label(self) -> str:
        """For people."""
        point = " ".join(f"{name}={format_value(value)}" for name, value in self.point.items())
        trial = "" if self.trial is Trial.MEASURED else f", {self.trial}"
        return f"{self.method} on {self.family}, {point} strength={self.strength:g}{trial}"


def noise_ratio(n: float, dim: float, epsilon: float, mu: float | None) -> float:
    """``sqrt(dim) / (n mu)``, or ``dim / (n epsilon)`` where there is no ``mu``."""
    return dim / (n * epsilon) if mu is None else math.sqrt(dim) / (n * mu)


def cells(experiment: Experiment, profile: str) -> tuple[Cell, ...]:
    """Every cell of an experiment, once, in the order of its table.

    Each axis sweeps its values with the others at base, each grid every combination of its own; a
    point that several of them share is one cell. Where slopes are checked, the cells that serve an
    axis come once more under every other :class:`Trial`. Families in ``if_present`` whose data are
    missing are left out.

    Examples
    --------
    >>> from privopt.lab import Axis, Experiment, Setting
    >>> experiment = Experiment(
    ...     name="demo", title="", description="", algorithms={"dp_gd": {}}, families=("distance",),
    ...     base=Setting(n=100, dim=2, epsilon=1.0), axes=(Axis("n", (100, 200)),),
    ...     replicates={"quick": 5, "full": 5}, relation="replace_one", delta=1e-6,
    ... )
    >>> [cell.label for cell in cells(experiment, "quick")][0]
    'dp_gd on distance, n=100 dim=2 epsilon=1 strength=1'
    """
    instance("experiment", experiment, Experiment)
    require_profile(experiment.name, experiment.profiles, profile)
    absent = absent_families(experiment)
    found = tuple(
        cell
        for method in experiment.methods
        for name in experiment.family_names
        if name not in absent
        for cell in _cells(experiment, profile, method, experiment.family(name))
    )
    if not found:
        raise ValueError(
            f"{experiment.name} has nothing to run: {'; '.join(left_out(experiment, profile))}"
        )
    return found


def left_out(experiment: Experiment, profile: str) -> list[str]:
    """What is declared and not run, in words: families without data, sizes beyond the data."""
    absent = absent_families(experiment)
    said = [f"{name} is left out: {why}" for name, why in absent.items()]
    points = [point for each in experiment.swept for point in each.points(profile)]
    for name in experiment.family_names:
        most = None if name in absent else experiment.family(name).max_n
        if most is not None:
            beyond = sorted({point["n"] for point in points if point.get("n", 0) > most})
            told = ", ".join(map(str, beyond))
            said += [f"n = {told} is left out of {name}, which has {most} records"] if told else []
    return said


def absent_families(experiment: Experiment) -> dict[str, str]:
    """The families in ``if_present`` whose data are missing, each with what is missing.

    A ``PRIVOPT_DATA`` that names no folder is an error: a misspelt path must not shrink an
    experiment.
    """
    absent = {}
    if experiment.if_present:
        available()
    for name in experiment.if_present:
        try:
            family(name)
        except FileNotFoundError as error:
            absent[name] = str(error)
    return absent


def _cells(experiment: Experiment, profile: str, method: Method, family: Family) -> Iterator[Cell]:
    """The cells of one method on one family, each with the axes that it serves."""
    found: dict[Cell, tuple[str, ...]] = {}
    swept = [(each.name, each.points(profile)) for each in experiment.swept]
    for name, points in swept or [("", [{}])]:
        for point in points:
            if family.max_n is None or point.get("n", 0) <= family.max_n:
                cell = _cell(experiment, profile, method, family, point)
                found[cell] = (*found.get(cell, ()), *filter(None, [name]))
    if "slope" in experiment.checks:
        found |= _other_trials(found, _bases(experiment, profile, method, family))
    for cell, axes in found.items():
        for strength in family.strengths:
            yield replace(cell, axes=axes, strength=strength)


def _other_trials(
    measured: Mapping[Cell, tuple[str, ...]], bases: Mapping[str, float]
) -> dict[Cell, tuple[str, ...]]:
    """The cells that serve an axis with a base value, each with its axes, under other trials.

    The noise is bent along one axis at a time; a bent point that axes share is one cell.
    """
    served = {cell: axes for cell, axes in measured.items() if not bases.keys().isdisjoint(axes)}
    fewer = {replace(cell, replicates=cell.block): axes for cell, axes in served.items()}
    found = {replace(cell, trial=Trial.SECOND_KEY): axes for cell, axes in fewer.items()}
    for cell, axes in fewer.items():
        if ALGORITHMS[cell.algorithm].private:
            found[replace(cell, trial=Trial.NOISE_OFF)] = axes
            numbers: dict[str, Any] = {**dict(cell.choices), **cell.point}
            for axis in (axis for axis in axes if axis in bases):
                bend = numbers[axis] / bases[axis]
                control = replace(cell, trial=Trial.NOISE_BENT, bend=bend)
                found[control] = (*found.get(control, ()), axis)
    return found


def _bases(
    experiment: Experiment, profile: str, method: Method, family: Family
) -> dict[str, float]:
    """The value of every axis of a rate where nothing is changed; the first one where none is."""
    known: dict[str, Any] = {**method.choices, "n": family.max_n, "dim": family.dim}
    known |= {name: value for name, value in vars(experiment.base).items() if value is not None}
    axes = {axis.name: axis.at(profile)[0] for axis in experiment.axes if axis.name in SLOPED}
    return {name: known.get(name) or first for name, first in axes.items()}


def _cell(
    experiment: Experiment, profile: str, method: Method, family: Family, point: Point
) -> Cell:
    """The cell at a point, but for its strength and its axes."""
    told = {name: x for name, x in point.items() if axis_kind(name).taken_by == "plan"}
    sizes: dict[str, Any] = {name: point[name] for name in point.keys() - told}
    setting = replace(experiment.base, **sizes)
    replicates = experiment.replicates[profile]
    return Cell(
        experiment=experiment.name,
        method=method.label,
        algorithm=method.algorithm,
        choices=tuple(sorted({**method.choices, **told}.items())),
        swept=tuple(name for name in told if told[name] != method.choices.get(name)),
        family=family.name,
        n=_size("n", setting.n, family.max_n, family),
        dim=_size("dim", setting.dim, family.dim, family),
        sparsity=setting.sparsity,
        budget=experiment.budget(setting.epsilon),
        strength=1.0,
        replicates=replicates,
        axes=(),
        block=experiment.block(profile),
        group=experiment.group(method, profile),
        search=tuple(method.search.items()),
        most_steps=method.most_steps,
    )


def _size(name: str, asked: int | None, has: int | None, family: Family) -> int:
    """What is asked of a family, or where that is left open, what it has."""
    size = has if asked is None else asked
    if size is None:
        raise ValueError(f"base.{name} must be given for {family.name}, got None")
    if has is not None and (size > has if name == "n" else size != has):
        rule = "be at most" if name == "n" else "be"
        raise ValueError(f"{name} must {rule} {has} for {family.name}, got {size}")
    return size

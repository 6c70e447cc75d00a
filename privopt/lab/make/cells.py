"""A cell: one algorithm on one problem at one budget, replicated. The unit that is kept."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from privopt.arguments import instance, member
from privopt.lab.make.experiment import PROFILES, Choice, Experiment, Setting
from privopt.privacy import gaussian_mu
from privopt.problems import Family, family
from privopt.problems.datasets import available
from privopt.spec import Budget

__all__ = ["Cell", "absent_families", "cells"]


@dataclass(frozen=True, kw_only=True)
class Cell:
    """Everything that names a cell.

    Attributes
    ----------
    experiment, algorithm, family : str
    choices : tuple of (str, value)
        What the plan was told beyond problem class and budget.
    n, dim : int
    budget : Budget
    strength : float
        The family's free parameter.
    replicates : int
    axes : tuple of str
        The axes of the sweep that the cell serves; no part of what it computes.
    """

    experiment: str
    algorithm: str
    choices: tuple[tuple[str, Choice], ...]
    family: str
    n: int
    dim: int
    budget: Budget
    strength: float
    replicates: int
    axes: tuple[str, ...]

    @property
    def mu(self) -> float | None:
        """The Gaussian-DP parameter of the budget; ``None`` for pure differential privacy."""
        if self.budget.delta == 0.0:
            return None
        return gaussian_mu(self.budget.epsilon, self.budget.delta)

    @property
    def noise_ratio(self) -> float:
        """``sqrt(dim) / (n mu)``, or ``dim / (n epsilon)`` for pure differential privacy."""
        if self.mu is None:
            return self.dim / (self.n * self.budget.epsilon)
        return math.sqrt(self.dim) / (self.n * self.mu)

    @property
    def label(self) -> str:
        """For people."""
        return (
            f"{self.algorithm} on {self.family}, n={self.n} dim={self.dim} "
            f"epsilon={self.budget.epsilon:g} strength={self.strength:g}"
        )

    def key(self, **context: Any) -> str:
        """SHA-256 of all that changes the result: the cell's fields but ``axes``, and ``context``.

        Parameters
        ----------
        **context : JSON value
            Root seed, data, code, environment.
        """
        fields: Mapping[str, Any] = {
            "experiment": self.experiment,
            "algorithm": self.algorithm,
            "choices": dict(self.choices),
            "family": self.family,
            "n": self.n,
            "dim": self.dim,
            "epsilon": self.budget.epsilon,
            "delta": self.budget.delta,
            "relation": self.budget.relation.value,
            "strength": self.strength,
            "replicates": self.replicates,
        }
        text = json.dumps({"cell": fields, **context}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


def cells(experiment: Experiment, profile: str) -> tuple[Cell, ...]:
    """Every cell of an experiment, once, in the order of its table.

    Each axis sweeps its values with the other two at base; a point that several axes share is one
    cell. Families in ``if_present`` whose data are missing are left out.

    Raises
    ------
    ValueError
        If ``experiment`` or ``profile`` is none, or a family does not come in a size asked of it.
    FileNotFoundError
        If a family's data are missing.
    """
    instance("experiment", experiment, Experiment)
    member("profile", profile, PROFILES)
    absent = absent_families(experiment)
    return tuple(
        Cell(
            experiment=experiment.name,
            algorithm=algorithm,
            choices=tuple(sorted(choices.items())),
            family=name,
            n=point.n,
            dim=point.dim,
            budget=experiment.budget(point.epsilon),
            strength=strength,
            replicates=experiment.replicates[profile],
            axes=axes,
        )
        for algorithm, choices in experiment.algorithms.items()
        for name in experiment.family_names
        if name not in absent
        for point, axes in _points(experiment, experiment.family(name), profile).items()
        for strength in experiment.family(name).strengths
    )


def absent_families(experiment: Experiment) -> dict[str, str]:
    """The families in ``if_present`` whose data are missing, each with what is missing.

    Raises
    ------
    FileNotFoundError
        If ``PRIVOPT_DATA`` names no folder: a misspelt path must not shrink an experiment.
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


class _Point(NamedTuple):
    n: int
    dim: int
    epsilon: float


def _points(experiment: Experiment, family: Family, profile: str) -> dict[_Point, tuple[str, ...]]:
    """The points of a sweep over one family, each with the axes it serves."""
    if not experiment.axes:
        return {_point(experiment.base, family): ()}
    points: dict[_Point, tuple[str, ...]] = {}
    for axis in experiment.axes:
        for value in axis.at(profile):
            if axis.name != "n" or family.max_n is None or value <= family.max_n:
                swept: dict[str, Any] = {axis.name: value}
                point = _point(replace(experiment.base, **swept), family)
                points[point] = (*points.get(point, ()), axis.name)
    return points


def _point(setting: Setting, family: Family) -> _Point:
    """The setting with what is left open taken from the family."""
    n = family.max_n if setting.n is None else setting.n
    dim = family.dim if setting.dim is None else setting.dim
    if n is None or dim is None:
        missing = "n" if n is None else "dim"
        raise ValueError(f"base.{missing} must be given for {family.name}, got None")
    if family.max_n is not None and n > family.max_n:
        raise ValueError(f"n must be at most {family.max_n} for {family.name}, got {n}")
    if family.dim is not None and dim != family.dim:
        raise ValueError(f"dim must be {family.dim} for {family.name}, got {dim}")
    return _Point(n, dim, setting.epsilon)

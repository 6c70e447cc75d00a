"""The grid of an experiment: a declaration spelled out into cells."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from privopt.arguments import instance, member
from privopt.lab.cell import Cell
from privopt.lab.experiment import PROFILES, Experiment, Setting
from privopt.problems import Family, family
from privopt.problems.datasets import available

__all__ = ["absent_families", "cells"]


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

"""Axes of experiments: a registry of the sizes, budgets and choices that a sweep can change."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import product
from numbers import Integral
from typing import NamedTuple

import numpy as np

from privopt.arguments import instance, positive_integer, positive_number, real, shown

Point = dict[str, float]


class AxisKind(NamedTuple):
    """The symbol, the check and the owner of an axis."""

    name: str
    symbol: str
    checked: Callable[[str, object], float]  # (name, value) -> number, or a ValueError
    taken_by: str  # problem, budget or plan


def _number(name: str, value: object) -> float:
    """Return an int or a float, because a plan counts batches in integers."""
    number = real(name, value)
    return int(number) if isinstance(value, Integral) else number


AXES = {
    kind.name: kind
    for kind in (
        AxisKind("n", "n", positive_integer, "problem"),
        AxisKind("dim", "d", positive_integer, "problem"),
        AxisKind("sparsity", "s", positive_integer, "problem"),
        AxisKind("epsilon", "ε", positive_number, "budget"),
        AxisKind("steps", "T", positive_integer, "plan"),
    )
}
"""Axes by name, in the order of tables and figures."""


def axis_kind(name: str) -> AxisKind:
    """Return the axis of this name. A name outside the registry is a choice of a plan."""
    return AXES.get(name) or AxisKind(name, name, _number, "plan")


def in_order(names: Iterable[str]) -> list[str]:
    """Sort axes: first those of the registry in its order, then choices of plans by name."""
    order = {name: i for i, name in enumerate(AXES)}
    return sorted(names, key=lambda name: (order.get(name, len(order)), name))


def format_value(value: object) -> str:
    """Format a number or a choice for tables and labels."""
    return f"{value:g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Sizes and epsilon of one point of an experiment.

    Parameters
    ----------
    epsilon : float
    n : int, optional
        Number of records. ``None`` uses all records of a family of real data.
    dim : int, optional
        Dimension. ``None`` uses the dimension of a family of real data.
    sparsity : int, optional
        Nonzero entries of a record or of the optimum, for families with such a number.
    """

    epsilon: float
    n: int | None = None
    dim: int | None = None
    sparsity: int | None = None

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if name == "epsilon" or value is not None:
                object.__setattr__(self, name, AXES[name].checked(name, value))


@dataclass(frozen=True)
class Axis:
    """A number that is swept while the others stay at the base setting.

    Parameters
    ----------
    name : str
        One of ``"n"``, ``"dim"``, ``"sparsity"``, ``"epsilon"``, ``"steps"``, or another choice
        of a plan, such as ``"step_size"``.
    values : sequence of number
        Distinct. Sizes beyond the number of records of real data are omitted for that family.
    quick : sequence of number, optional
        Values of the quick profile; default ``values``.

    Examples
    --------
    >>> Axis("n", (500, 1000, 2000), quick=(500, 1000)).at("quick")
    (500, 1000)
    """

    name: str
    values: tuple[float, ...]
    quick: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        instance("axis", self.name, str)
        object.__setattr__(self, "values", self._checked(self.values))
        if self.quick is not None:
            object.__setattr__(self, "quick", self._checked(self.quick))

    def at(self, profile: str) -> tuple[float, ...]:
        """Return the values of a profile."""
        return self.quick if profile == "quick" and self.quick is not None else self.values

    def points(self, profile: str) -> list[Point]:
        """Return the changes of the base setting, one for each value."""
        return [{self.name: value} for value in self.at(profile)]

    def _checked(self, values: tuple[float, ...]) -> tuple[float, ...]:
        if isinstance(values, str) or not isinstance(values, Iterable):
            raise ValueError(f"values of axis {self.name} must be a tuple, got {shown(values)}")
        plain = [value.item() if isinstance(value, np.generic) else value for value in values]
        checked = tuple(axis_kind(self.name).checked(self.name, value) for value in plain)
        if not checked or len(set(checked)) < len(checked):
            raise ValueError(
                f"values of axis {self.name} must be distinct, got {shown(tuple(plain))}"
            )
        return checked


@dataclass(frozen=True, init=False)
class Grid:
    """Axes that are swept together: every combination of their values.

    Parameters
    ----------
    *axes : Axis
        At least two, with distinct names.

    Examples
    --------
    >>> grid = Grid(Axis("n", (500, 1000)), Axis("epsilon", (1.0,)))
    >>> grid.name, grid.points("full")
    ('n x epsilon', [{'n': 500, 'epsilon': 1.0}, {'n': 1000, 'epsilon': 1.0}])
    """

    axes: tuple[Axis, ...]

    def __init__(self, *axes: Axis) -> None:
        names = [instance("axes", axis, Axis).name for axis in axes]
        if len(set(names)) < max(len(names), 2):
            raise ValueError(f"axes of a grid must be two or more, distinct, got {names}")
        object.__setattr__(self, "axes", axes)

    @property
    def name(self) -> str:
        """Names of the axes, joined by ``x``."""
        return " x ".join(axis.name for axis in self.axes)

    def points(self, profile: str) -> list[Point]:
        """Return every combination of the values of a profile."""
        names = [axis.name for axis in self.axes]
        values = product(*(axis.at(profile) for axis in self.axes))
        return [dict(zip(names, point, strict=True)) for point in values]

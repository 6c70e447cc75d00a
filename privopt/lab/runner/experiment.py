"""Experiments: declarations of algorithms, problem families, settings, axes and checks."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from numbers import Integral
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from privopt.algorithms import ALGORITHMS
from privopt.arguments import instance, member, positive_integer, positive_number, real, shown
from privopt.lab.runner.method import Choice, Method, check_name, mapping
from privopt.lab.runner.store import About, Row
from privopt.privacy import gaussian_delta
from privopt.problems import FAMILIES, Family, family
from privopt.spec import Budget, Relation, RelationName

CHECKS = ("bound", "slope", "law")
PROFILES = ("quick", "full")

_CONTROL_SHARE = 4  # a control has one of so many of the replicates
_MIN_CONTROL = 10  # replicates
_MIN_GROUPS = 16  # in a block; intervals resample groups


# --- axes and settings ----------------------------------------------------------------------------

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


# --- experiments ----------------------------------------------------------------------------------

Methods = Sequence[Method] | Mapping[str, Mapping[str, Choice] | tuple[str, Mapping[str, Choice]]]


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A sweep of methods over problem families, and its checks.

    Parameters
    ----------
    name : str
        Small letters, digits and underscores; names the folder of its results.
    title, description : str
        For the report.
    algorithms : mapping or sequence of Method
        Name in ``ALGORITHMS`` -> arguments of its plan, e.g. ``{"dp_gd": {"steps": 100}}``; or
        label -> ``(algorithm, arguments)``, to run one algorithm with several arguments, e.g.
        ``{"adagrad": ("dp_sgd", {"update": optax.adagrad})}``. Stored as methods.
    families : sequence of str or Family
        Names in ``problems.FAMILIES``, user-defined families, and families of privopt with other
        strengths.
    if_present : sequence of str
        Families that are omitted, with a note, if their data are missing.
    base : Setting
    axes : sequence of Axis
        Each is swept with the others at the base setting.
    grids : sequence of Grid
        Every combination of a grid is run with the remaining axes at the base setting.
    relation : Relation or its name
        The neighbouring relation of every budget; there is no default.
    delta : float, optional
        The ``delta`` of every budget.
    epsilon_over_mu : float, optional
        In place of ``delta``: every budget is the point of a ``mu``-GDP curve at which
        ``epsilon/mu`` is this number. The factor ``sqrt(log 1/delta)`` between epsilon and mu is
        then constant along an axis of epsilon.
    checks : sequence of {"bound", "slope", "law"}
        With ``"slope"``, cells on the axes of a rate are run under every :class:`Trial`.
    replicates : mapping
        Profile -> runs in every cell, e.g. ``{"quick": 100, "full": 1000}``. Without ``"quick"``
        the experiment belongs to the full profile only.

    Examples
    --------
    >>> Experiment(
    ...     name="demo",
    ...     title="DP-GD on linear losses: excess risk against n for 5 and 50 steps",
    ...     description="",
    ...     algorithms={"few": ("dp_gd", {"steps": 5}), "many": ("dp_gd", {"steps": 50})},
    ...     families=("linear",),
    ...     base=Setting(n=1000, dim=4, epsilon=1.0),
    ...     axes=(Axis("n", (500, 1000)),),
    ...     replicates={"quick": 10, "full": 100},
    ...     relation="replace_one",
    ...     delta=1e-6,
    ... ).labels
    ('few', 'many')
    """

    name: str
    title: str
    description: str
    algorithms: Methods
    families: tuple[str | Family, ...]
    base: Setting
    replicates: Mapping[str, int]
    relation: Relation | RelationName
    axes: tuple[Axis, ...] = ()
    grids: tuple[Grid, ...] = ()
    if_present: tuple[str, ...] = ()
    delta: float | None = None
    epsilon_over_mu: float | None = None
    checks: tuple[str, ...] = ("bound", "slope")

    def __post_init__(self) -> None:
        check_name("name", self.name)
        if (self.delta is None) == (self.epsilon_over_mu is None):
            raise ValueError(
                "exactly one of delta and epsilon_over_mu must be given, got "
                f"{shown(self.delta)} and {shown(self.epsilon_over_mu)}"
            )
        if self.epsilon_over_mu is not None:
            positive_number("epsilon_over_mu", self.epsilon_over_mu)
        instance("base", self.base, Setting)
        for name in ("families", "if_present", "checks", "axes", "grids"):
            object.__setattr__(self, name, _sequence(name, getattr(self, name)))
        if not self.family_names:
            raise ValueError("families must name at least one family, got none")
        for member_family in self.families + self.if_present:
            _check_family(member_family)
        for name in self.checks:
            member("check", name, CHECKS)
        _distinct("families", self.family_names)
        object.__setattr__(self, "algorithms", _methods(self.algorithms))
        _distinct("algorithms", self.labels)
        self._check_axes()
        for method in self.methods if "slope" in self.checks else ():
            method.check_density()
        replicates = dict(mapping("replicates", self.replicates))
        for profile, count in replicates.items():
            member("profile", profile, PROFILES)
            positive_integer(f"replicates[{shown(profile)}]", count)
        if "full" not in replicates:
            raise ValueError(f"replicates must name those of the full profile, got {replicates}")
        object.__setattr__(self, "replicates", MappingProxyType(replicates))
        object.__setattr__(self, "relation", self.budget(self.base.epsilon).relation)

    def _check_axes(self) -> None:
        """Check that every axis is in the registry or is a choice of at least one method."""
        for axis in self.axes:
            instance("axes", axis, Axis)
        for grid in self.grids:
            instance("grids", grid, Grid)
        _distinct("axes", tuple(axis.name for axis in self.axes))
        _distinct("grids", tuple(grid.name for grid in self.grids))
        searched = {choice for method in self.methods for choice in method.search}
        choices = [name for method in self.methods for name in method.known_choices]
        allowed = [name for name, kind in AXES.items() if kind.taken_by != "plan"]
        allowed += [name for name in dict.fromkeys(choices) if name not in searched]
        for axis in (*self.axes, *(axis for grid in self.grids for axis in grid.axes)):
            member("axis", axis.name, allowed)

    @property
    def methods(self) -> tuple[Method, ...]:
        """The algorithms as methods."""
        return self.algorithms  # type: ignore[return-value]

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of all methods."""
        return tuple(method.label for method in self.methods)

    @property
    def profiles(self) -> tuple[str, ...]:
        """Profiles that the experiment belongs to."""
        return tuple(profile for profile in PROFILES if profile in self.replicates)

    @property
    def swept(self) -> tuple[Axis | Grid, ...]:
        """Axes and grids."""
        return (*self.axes, *self.grids)

    def about(self, profile: str) -> About:
        """Return the metadata of the tables, from which the report is written."""
        groups = {method.label: self.group(method, profile) for method in self.methods}
        shared = {label: size for label, size in groups.items() if size > 1}
        return {
            "checks": self.checks,
            "swept": [axis.name for axis in self.swept],
            "replicates": self.replicates[profile],
            **({"groups": shared} if shared else {}),
        }

    def block(self, profile: str) -> int:
        """Return the number of replicates of a cell that run at a time."""
        replicates = self.replicates[profile]
        return block_of(replicates) if "slope" in self.checks else replicates

    def group(self, method: Method, profile: str) -> int:
        """Return the number of replicates that share public randomness."""
        if ALGORITHMS[method.algorithm].public_randomness is None:
            return 1
        return group_of(self.replicates[profile], self.block(profile))

    @property
    def family_names(self) -> tuple[str, ...]:
        """Names of all families, including those in ``if_present``."""
        return tuple(
            each.name if isinstance(each, Family) else each
            for each in self.families + self.if_present
        )

    def family(self, name: str) -> Family:
        """Return the family of this name; families of the experiment come first."""
        own = {each.name: each for each in self.families if isinstance(each, Family)}
        return own[name] if name in own else family(name)

    def budget(self, epsilon: float) -> Budget:
        """Return the budget at an epsilon."""
        delta = self.delta
        if delta is None:
            assert self.epsilon_over_mu is not None
            delta = gaussian_delta(epsilon, mu=epsilon / self.epsilon_over_mu).upper
        return Budget(epsilon=epsilon, delta=delta, relation=self.relation)


def block_of(replicates: int) -> int:
    """Return the number of replicates of a control: a quarter, at least ten if possible.

    Measured replicates run in blocks of this number, so that one program serves all trials.
    """
    return min(replicates, max(_MIN_CONTROL, replicates // _CONTROL_SHARE))


def group_of(replicates: int, block: int) -> int:
    """Return the largest number of replicates per group that leaves 16 whole groups in a block."""
    sizes = range(1, block // _MIN_GROUPS + 1)
    return max((size for size in sizes if block % size == replicates % size == 0), default=1)


def require_profile(name: str, profiles: Sequence[str], profile: str) -> None:
    """Raise ``ValueError`` if an experiment does not belong to a profile."""
    member("profile", profile, PROFILES)
    if profile not in profiles:
        raise ValueError(
            f"profile must be {' or '.join(profiles)} for {name}, got {shown(profile)}: "
            f"privopt run {name} --profile {profiles[0]}"
        )


def unanswered(checks: Sequence[str], rows: Iterable[Row]) -> list[Row]:
    """Return the checks that the rows of the table of cells cannot answer.

    The keys are ``experiment``, ``method``, ``family``, ``check``, and ``detail``, the reason.
    """
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        if row["trial"] == "measured":
            key = row["experiment"], row["method"], row["family"]
            groups.setdefault(key, []).append(row)
    names = ("experiment", "method", "family")
    return [
        {**dict(zip(names, key, strict=True)), "check": check, "detail": reason}
        for key, members in groups.items()
        for check in checks
        if (reason := _unmet_assumption(check, members))
    ]


def _unmet_assumption(check: str, rows: Sequence[Row]) -> str:
    """Return the reason why rows cannot answer a check, or an empty string."""
    planned = [row for row in rows if row["refused"] is None]
    if not planned:
        return f"every plan is refused: {rows[0]['refused']}"
    first = planned[0]
    if check == "slope":
        if first["tight_on"] is None:
            return "its rate names no family on which it is tight"
        if first["tight_on"] != first["family"]:
            return f"its rate is tight on {first['tight_on']}, not on {first['family']}"
        axes = {axis for row in planned for axis in row["axes"].split(",")}
        has_exponent = axes & json.loads(first["exponents"]).keys()
        return "" if has_exponent else "no axis is swept for which its rate has an exponent"
    if first["searched"] is not None:  # a search is judged by its slopes only
        return ""
    if check == "law":
        has_law = any(row["law"] is not None for row in planned)
        return "" if has_law else f"no law is known of {first['algorithm']} on {first['family']}"
    if any(row["upper"] < math.inf for row in planned):
        return ""
    rate = json.loads(first["plan"])["rate"]
    if rate["quantity"] != first["quantity"]:
        return f"its bound is one on {rate['quantity']}, and {first['quantity']} is measured"
    return f"no bound is claimed, {rate['theorem']}"


def _check_family(given: object) -> None:
    if not isinstance(given, Family):
        return member("family", given, FAMILIES)
    check_name("name of a family", given.name)
    if FAMILIES.get(given.name, given).build is not given.build:
        raise ValueError(f"name of a family must not be one of privopt's, got {shown(given.name)}")


def _methods(given: object) -> tuple[Method, ...]:
    """Convert a mapping from names or labels, or a sequence, to methods."""
    if isinstance(given, list | tuple):
        methods = tuple(instance("algorithms", each, Method) for each in given)
    else:
        methods = tuple(
            Method(label, *options) if isinstance(options, tuple) else Method(label, label, options)
            for label, options in mapping("algorithms", given).items()
        )
    if not methods:
        raise ValueError("algorithms must name at least one algorithm, got none")
    return methods


def _sequence(name: str, values: object) -> tuple[object, ...]:
    if isinstance(values, str) or not isinstance(values, list | tuple):
        raise ValueError(f"{name} must be a tuple, got {shown(values)}")
    return tuple(values)


def _distinct(name: str, values: tuple[str, ...]) -> None:
    if len(set(values)) < len(values):
        raise ValueError(f"{name} must be distinct, got {', '.join(values)}")

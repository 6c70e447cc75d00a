"""An experiment: which algorithms, on which families of problems, along which axes.

A declaration only. :func:`privopt.lab.cells` spells it out; :func:`privopt.lab.sweep` runs it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from privopt.algorithms import ALGORITHMS
from privopt.arguments import instance, member, positive_integer, positive_number
from privopt.privacy import gaussian_delta
from privopt.problems import FAMILIES, Family, family
from privopt.spec import Budget, Relation, RelationName

__all__ = ["AXES", "CHECKS", "PROFILES", "Axis", "Choice", "Experiment", "Setting", "check_name"]

Choice = str | int | float | None

AXES = ("n", "dim", "epsilon")
CHECKS = ("bound", "slope")
PROFILES = ("quick", "full")


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One point of a sweep.

    Parameters
    ----------
    epsilon : float
    n : int, optional
        Number of records; ``None`` takes all that a family of real data has.
    dim : int, optional
        Dimension; ``None`` takes that of a family of real data.
    """

    epsilon: float
    n: int | None = None
    dim: int | None = None

    def __post_init__(self) -> None:
        for name in AXES:
            value = getattr(self, name)
            if name == "epsilon" or value is not None:
                object.__setattr__(self, name, _number(name, value))


@dataclass(frozen=True)
class Axis:
    """One quantity that is swept while the others stay at the base setting.

    Parameters
    ----------
    name : {"n", "dim", "epsilon"}
    values : sequence of number
        Distinct. Sizes beyond what a family of real data has are left out for that family.
    quick : sequence of number, optional
        What the quick profile sweeps instead; default ``values``.
    """

    name: str
    values: tuple[float, ...]
    quick: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        member("axis", self.name, AXES)
        object.__setattr__(self, "values", self._checked(self.values))
        if self.quick is not None:
            object.__setattr__(self, "quick", self._checked(self.quick))

    def at(self, profile: str) -> tuple[float, ...]:
        """The values swept in that profile."""
        return self.quick if profile == "quick" and self.quick is not None else self.values

    def _checked(self, values: tuple[float, ...]) -> tuple[float, ...]:
        if isinstance(values, str) or not isinstance(values, Iterable):
            raise ValueError(f"values of axis {self.name} must be a tuple, got {values!r}")
        checked = tuple(_number(self.name, value) for value in values)
        if not checked or len(set(checked)) < len(checked):
            raise ValueError(f"values of axis {self.name} must be distinct, got {values!r}")
        return checked


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """What to run and what to check.

    Parameters
    ----------
    name : str
        Small letters, digits and underscores; names the folder of its results.
    title, description : str
        For the report.
    algorithms : mapping of str to mapping
        Name in ``ALGORITHMS`` -> choices of its plan, e.g. ``{"dp_gd": {"steps": 100}}``.
    families : sequence of str or Family
        Names in ``problems.FAMILIES``, and families of one's own.
    if_present : sequence of str
        Families run only where their data are found; the sweep says which were left out.
    base : Setting
    axes : sequence of Axis
    relation : Relation or its name
        The neighbouring relation of every budget; there is no default.
    delta : float, optional
        Of every budget.
    epsilon_over_mu : float, optional
        In place of ``delta``: every budget is the point of a ``mu``-GDP curve at which
        ``epsilon/mu`` is this number, so that the ``sqrt(log 1/delta)`` between epsilon and mu
        stays exactly constant along an axis of epsilon.
    checks : sequence of {"bound", "slope"}
    replicates : mapping
        Profile -> runs in every cell, e.g. ``{"quick": 100, "full": 1000}``.

    Raises
    ------
    ValueError
        Naming the argument, the value and the rule it broke.
    """

    name: str
    title: str
    description: str
    algorithms: Mapping[str, Mapping[str, Choice]]
    families: tuple[str | Family, ...]
    base: Setting
    replicates: Mapping[str, int]
    relation: Relation | RelationName
    axes: tuple[Axis, ...] = ()
    if_present: tuple[str, ...] = ()
    delta: float | None = None
    epsilon_over_mu: float | None = None
    checks: tuple[str, ...] = CHECKS

    def __post_init__(self) -> None:
        check_name("name", self.name)
        if (self.delta is None) == (self.epsilon_over_mu is None):
            raise ValueError(
                "exactly one of delta and epsilon_over_mu must be given, got "
                f"{self.delta!r} and {self.epsilon_over_mu!r}"
            )
        if self.epsilon_over_mu is not None:
            positive_number("epsilon_over_mu", self.epsilon_over_mu)
        instance("base", self.base, Setting)
        for name in ("families", "if_present", "checks", "axes"):
            object.__setattr__(self, name, _sequence(name, getattr(self, name)))
        families = self.family_names
        if not families:
            raise ValueError("families must name at least one family, got none")
        for each in self.families + self.if_present:
            _check_family(each)
        for name in self.checks:
            member("check", name, CHECKS)
        for axis in self.axes:
            instance("axes", axis, Axis)
        _distinct("families", families)
        _distinct("axes", tuple(axis.name for axis in self.axes))
        object.__setattr__(self, "algorithms", _algorithms(self.algorithms))
        for profile in _mapping("replicates", self.replicates):
            member("profile", profile, PROFILES)
        for profile in PROFILES:
            _number(f"replicates[{profile!r}]", self.replicates.get(profile))
        object.__setattr__(self, "replicates", MappingProxyType(dict(self.replicates)))
        object.__setattr__(self, "relation", self.budget(self.base.epsilon).relation)

    @property
    def family_names(self) -> tuple[str, ...]:
        """Of every family, those run only where their data are found included."""
        return tuple(_name(each) for each in self.families + self.if_present)

    def family(self, name: str) -> Family:
        """The family of this name: the experiment's own, or privopt's.

        Raises
        ------
        ValueError, FileNotFoundError
            As :func:`privopt.problems.family`.
        """
        own = {each.name: each for each in self.families if isinstance(each, Family)}
        return own[name] if name in own else family(name)

    def budget(self, epsilon: float) -> Budget:
        """The budget at that epsilon."""
        delta = self.delta
        if delta is None:
            assert self.epsilon_over_mu is not None
            delta = gaussian_delta(epsilon, epsilon / self.epsilon_over_mu).upper
        return Budget(epsilon=epsilon, delta=delta, relation=self.relation)


def _name(family: str | Family) -> str:
    return family.name if isinstance(family, Family) else family


def _check_family(given: object) -> None:
    """Refuse what is neither the name of a family nor a family of another name."""
    if not isinstance(given, Family):
        return member("family", given, FAMILIES)
    check_name("name of a family", given.name)
    if FAMILIES.get(given.name, given) is not given:
        raise ValueError(f"name of a family must not be one of privopt's, got {given.name!r}")


def _algorithms(
    algorithms: Mapping[str, Mapping[str, Choice]],
) -> Mapping[str, Mapping[str, Choice]]:
    if not _mapping("algorithms", algorithms):
        raise ValueError("algorithms must name at least one algorithm, got none")
    for name, choices in algorithms.items():
        member("algorithm", name, ALGORITHMS)
        parameters = inspect.signature(ALGORITHMS[name].plan).parameters.values()
        known = tuple(p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY)
        for choice, value in _mapping(f"choices of {name}", choices).items():
            member(f"choice of {name}", choice, known)
            if not isinstance(value, str | int | float | None):
                raise ValueError(f"{choice} must be a number, a text or None, got {value!r}")
    return MappingProxyType({name: dict(choices) for name, choices in algorithms.items()})


def _number(name: str, value: object) -> float:
    return positive_number(name, value) if name == "epsilon" else positive_integer(name, value)


def check_name(what: str, name: object) -> None:
    """Refuse what cannot name a file everywhere."""
    if not isinstance(name, str) or not re.fullmatch(r"[a-z0-9][a-z0-9_]*", name):
        raise ValueError(f"{what} must be of small letters, digits and underscores, got {name!r}")


def _sequence(name: str, values: object) -> tuple[object, ...]:
    if isinstance(values, str) or not isinstance(values, list | tuple):
        raise ValueError(f"{name} must be a tuple, got {values!r}")
    return tuple(values)


def _mapping(name: str, given: Any) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise ValueError(f"{name} must be a mapping, got {given!r}")
    return given


def _distinct(name: str, values: tuple[str, ...]) -> None:
    if len(set(values)) < len(values):
        raise ValueError(f"{name} must be distinct, got {', '.join(values)}")

"""An experiment: which algorithms, on which families of problems, along which axes.

A declaration only. :func:`privopt.lab.cells` spells it out; :func:`privopt.lab.run` runs it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from privopt.arguments import instance, member, positive_integer, positive_number, shown
from privopt.lab.make.axes import AXES, Axis, Grid, Setting
from privopt.lab.make.method import Choice, Method, check_name, mapping
from privopt.lab.make.records import About
from privopt.lab.make.trials import block_of, group_of
from privopt.privacy import gaussian_delta
from privopt.problems import FAMILIES, Family, family
from privopt.spec import Budget, Relation, RelationName

CHECKS = ("bound", "slope", "law")
PROFILES = ("quick", "full")


Methods = Sequence[Method] | Mapping[str, Mapping[str, Choice] | tuple[str, Mapping[str, Choice]]]


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """What to run and what to check.

    Parameters
    ----------
    name : str
        Small letters, digits and underscores; names the folder of its results.
    title, description : str
        For the report.
    algorithms : mapping or sequence of Method
        Name in ``ALGORITHMS`` -> arguments of its plan, e.g. ``{"dp_gd": {"steps": 100}}``; or
        label -> ``(algorithm, arguments)``, to run one algorithm with several arguments, e.g.
        ``{"adagrad": ("dp_sgd", {"update": optax.adagrad})}``. Kept as methods.
    families : sequence of str or Family
        Names in ``problems.FAMILIES``, families of one's own, and privopt's with other strengths.
    if_present : sequence of str
        Families run only where their data are found; the sweep says which were left out.
    base : Setting
    axes : sequence of Axis
        Each is swept with the others at the base setting.
    grids : sequence of Grid
        Of each, every combination is run, with the remaining axes at the base setting.
    relation : Relation or its name
        The neighbouring relation of every budget; there is no default.
    delta : float, optional
        Of every budget.
    epsilon_over_mu : float, optional
        In place of ``delta``: every budget is the point of a ``mu``-GDP curve at which
        ``epsilon/mu`` is this number, so that the ``sqrt(log 1/delta)`` between epsilon and mu
        stays exactly constant along an axis of epsilon.
    checks : sequence of {"bound", "slope", "law"}
        With ``"slope"``, cells on the axes of a rate are run under every :class:`Trial`.
    replicates : mapping
        Profile -> runs in every cell, e.g. ``{"quick": 100, "full": 1000}``; without ``"quick"``
        the experiment belongs to the full profile alone.

    Examples
    --------
    >>> Experiment(
    ...     name="demo",
    ...     title="Few steps and many",
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
        for each in self.families + self.if_present:
            _check_family(each)
        for name in self.checks:
            member("check", name, CHECKS)
        _distinct("families", self.family_names)
        object.__setattr__(self, "algorithms", _methods(self.algorithms))
        _distinct("algorithms", self.labels)
        self._check_axes()
        for method in self.methods if "slope" in self.checks else ():
            method.check_density()
        for profile, count in mapping("replicates", self.replicates).items():
            member("profile", profile, PROFILES)
            positive_integer(f"replicates[{shown(profile)}]", count)
        if "full" not in self.replicates:
            told = dict(self.replicates)
            raise ValueError(f"replicates must name those of the full profile, got {told}")
        object.__setattr__(self, "replicates", MappingProxyType(dict(self.replicates)))
        object.__setattr__(self, "relation", self.budget(self.base.epsilon).relation)

    def _check_axes(self) -> None:
        """Every axis is one of the registry, or a choice of at least one method."""
        for axis in self.axes:
            instance("axes", axis, Axis)
        for grid in self.grids:
            instance("grids", grid, Grid)
        _distinct("axes", tuple(axis.name for axis in self.axes))
        _distinct("grids", tuple(grid.name for grid in self.grids))
        choices = [choice for method in self.methods for choice in method.known_choices]
        searched = {choice for method in self.methods for choice in method.search}
        choices = [choice for choice in choices if choice not in searched]
        known = [name for name, kind in AXES.items() if kind.taken_by != "plan"] + choices
        symbols = {kind.symbol: name for name, kind in AXES.items()}
        for axis in (*self.axes, *(axis for grid in self.grids for axis in grid.axes)):
            if axis.name not in known and axis.name in symbols:
                raise ValueError(
                    f"axis must be {shown(symbols[axis.name])}, got its symbol {shown(axis.name)}"
                )
            member("axis", axis.name, list(dict.fromkeys(known)))

    @property
    def methods(self) -> tuple[Method, ...]:
        """What ``algorithms`` declares."""
        return self.algorithms  # type: ignore[return-value]

    @property
    def labels(self) -> tuple[str, ...]:
        """Of every method."""
        return tuple(method.label for method in self.methods)

    @property
    def profiles(self) -> tuple[str, ...]:
        """Those that the experiment belongs to."""
        return tuple(profile for profile in PROFILES if profile in self.replicates)

    @property
    def swept(self) -> tuple[Axis | Grid, ...]:
        """Axes and grids."""
        return (*self.axes, *self.grids)

    def about(self, profile: str) -> About:
        """What its tables carry, so that they suffice for the report."""
        groups = {method.label: self.group(method, profile) for method in self.methods}
        shared = {label: size for label, size in groups.items() if size > 1}
        return {
            "checks": self.checks,
            "swept": [each.name for each in self.swept],
            "replicates": self.replicates[profile],
            **({"groups": shared} if shared else {}),
        }

    def block(self, profile: str) -> int:
        """So many replicates of a cell run at a time."""
        replicates = self.replicates[profile]
        return block_of(replicates) if "slope" in self.checks else replicates

    def group(self, method: Method, profile: str) -> int:
        """So many of them share public randomness: one, but for algorithms that have it."""
        if not method.has_coins:
            return 1
        return group_of(self.replicates[profile], self.block(profile))

    @property
    def family_names(self) -> tuple[str, ...]:
        """Of every family, those run only where their data are found included."""
        return tuple(_name(each) for each in self.families + self.if_present)

    def family(self, name: str) -> Family:
        """The family of this name: the experiment's own, or privopt's."""
        own = {each.name: each for each in self.families if isinstance(each, Family)}
        return own[name] if name in own else family(name)

    def budget(self, epsilon: float) -> Budget:
        """The budget at that epsilon."""
        delta = self.delta
        if delta is None:
            assert self.epsilon_over_mu is not None
            delta = gaussian_delta(epsilon, mu=epsilon / self.epsilon_over_mu).upper
        return Budget(epsilon=epsilon, delta=delta, relation=self.relation)


def require_profile(name: str, profiles: Sequence[str], profile: str) -> None:
    """Refuse a profile that the experiment of this name does not belong to."""
    member("profile", profile, PROFILES)
    if profile not in profiles:
        raise ValueError(
            f"profile must be {' or '.join(profiles)} for {name}, got {shown(profile)}: "
            f"privopt run {name} --profile {profiles[0]}"
        )


def _name(family: str | Family) -> str:
    return family.name if isinstance(family, Family) else family


def _check_family(given: object) -> None:
    """Refuse what is neither the name of a family nor a family of another name."""
    if not isinstance(given, Family):
        return member("family", given, FAMILIES)
    check_name("name of a family", given.name)
    if FAMILIES.get(given.name, given).build is not given.build:
        raise ValueError(f"name of a family must not be one of privopt's, got {shown(given.name)}")


def _methods(given: object) -> tuple[Method, ...]:
    """Methods of a mapping from names or labels, or of a sequence."""
    if isinstance(given, list | tuple):
        methods = tuple(instance("algorithms", each, Method) for each in given)
    else:
        methods = tuple(_method(*item) for item in mapping("algorithms", given).items())
    if not methods:
        raise ValueError("algorithms must name at least one algorithm, got none")
    return methods


def _method(label: str, told: Mapping[str, Choice] | tuple[str, Mapping[str, Choice]]) -> Method:
    """Return the method of ``{algorithm: choices}`` or ``{label: (algorithm, choices)}``."""
    return Method(label, *told) if isinstance(told, tuple) else Method(label, label, told)


def _sequence(name: str, values: object) -> tuple[object, ...]:
    if isinstance(values, str) or not isinstance(values, list | tuple):
        raise ValueError(f"{name} must be a tuple, got {shown(values)}")
    return tuple(values)


def _distinct(name: str, values: tuple[str, ...]) -> None:
    if len(set(values)) < len(values):
        raise ValueError(f"{name} must be distinct, got {', '.join(values)}")

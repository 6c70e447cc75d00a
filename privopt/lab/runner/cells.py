"""Cells of a sweep: settings, conditions (trials) and random keys of an experiment."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import reduce
from numbers import Integral, Real
from typing import Any

import jax
import numpy as np
from jax import Array

from privopt.algorithms import ALGORITHMS
from privopt.arguments import Names, instance, shown
from privopt.lab.runner.experiment import (
    Experiment,
    Point,
    axis_kind,
    format_value,
    require_profile,
)
from privopt.lab.runner.method import Choice, Method, size, text
from privopt.lab.runner.store import Value
from privopt.privacy import gaussian_mu
from privopt.problems import Family, family
from privopt.problems.datasets import available
from privopt.spec import Budget
from privopt.theory import Exponents

BEND = 0.1
"""Exponent by which the control ``noise bent`` changes a risk along an axis."""

SLOPED = tuple(field.name for field in fields(Exponents))
"""Axes along which a rate can have an exponent."""


# --- random keys ----------------------------------------------------------------------------------


def stream(root_seed: int, **axes: str | float) -> Array:
    """Return the typed key of a named stream of randomness.

    The SHA-256 digest of the root seed and the named axes is folded in word by word: it is equal in
    float32 and float64 mode and on every machine. The order of the axes does not matter. Another
    name, value or type of value gives another stream.

    Parameters
    ----------
    root_seed : int
        Seed of the whole experiment; of any size.
    **axes : str, int or float
        Names and values on which the randomness depends, e.g. ``role="noise", n=1000``.

    Examples
    --------
    >>> bool(stream(0, role="noise", n=10) == stream(0, n=10, role="noise"))
    True
    >>> replicate_keys(stream(0, role="noise"), 3).shape
    (3,)
    """
    values = {name: _canonical(name, value) for name, value in sorted(axes.items())}
    entries = json.dumps([_canonical("root_seed", int(root_seed)), values], separators=(",", ":"))
    words = np.frombuffer(hashlib.sha256(entries.encode()).digest(), dtype=">u4").astype(np.uint32)
    return reduce(jax.random.fold_in, words[1:], jax.random.key(words[0]))


def replicate_keys(key: Array, replicates: int, first: int = 0) -> Array:
    """Return one key per replicate, starting at ``first``; shape ``(replicates,)``.

    Key ``i`` does not depend on the number of replicates.
    """
    numbers = np.arange(first, first + replicates, dtype=np.uint32)
    return jax.vmap(jax.random.fold_in, (None, 0))(key, numbers)


def _canonical(name: str, value: object) -> list[str]:
    if isinstance(value, str):
        return ["text", value]
    if isinstance(value, Integral) and not isinstance(value, bool):
        return ["integer", str(int(value))]
    if isinstance(value, Real) and not isinstance(value, bool) and not math.isnan(value):
        return ["real", float(value).hex()]
    raise ValueError(f"{name} must be a text or a number other than NaN, got {shown(value)}")


# --- conditions -----------------------------------------------------------------------------------


class Trial(Names):
    """Condition of a run: measured, repeated with another key, or a control.

    Step counts and step sizes of theory can give a slope without any noise. Cells of a slope are
    therefore repeated without noise, and with noise that depends differently on the axis. The
    slope of these controls must differ.

    ``measured``
        The runs that results are computed from.
    ``second key``
        Fewer runs from the root seed plus one.
    ``noise off``
        Fewer runs without noise of the mechanism.
    ``noise bent``
        Fewer runs with noise that changes the risk by ``(value / base value)^BEND`` along one
        axis (:func:`bent`).

    The last two are controls. They have the keys of the measured runs, change only the noise of the
    mechanism, and are not private.

    Examples
    --------
    >>> [trial.is_control for trial in Trial]
    [False, False, True, True]
    """

    MEASURED = "measured"
    SECOND_KEY = "second key"
    NOISE_OFF = "noise off"
    NOISE_BENT = "noise bent"

    @property
    def is_control(self) -> bool:
        """True if the noise differs from the noise of the plan."""
        return self in (Trial.NOISE_OFF, Trial.NOISE_BENT)

    def noise_factor(self, bend: float, exponents: Mapping[str, float]) -> float:
        """Return the factor of the noise at ``bend`` times the base value."""
        if self is Trial.NOISE_BENT:
            return bent(bend, exponents)
        return float(self is not Trial.NOISE_OFF)

    def root(self, seed: int) -> int:
        """Return the root seed of an experiment with ``seed``."""
        return seed + (self is Trial.SECOND_KEY)


def bent(ratio: float, exponents: Mapping[str, float]) -> float:
    """Return the noise factor that changes the risk by ``ratio^BEND``.

    If the risk is proportional to ``noise^p``, the factor is ``ratio^(BEND/p)``. At a fixed ratio
    of epsilon to mu the noise is proportional to ``1/epsilon``, so ``-p`` is the exponent of
    epsilon in the rate. Without such an exponent ``p`` is 1.
    """
    power = -exponents.get("epsilon", 0.0)
    return float(ratio ** (BEND / power if power > 0.0 else BEND))


# --- cells ----------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Cell:
    """Replicated runs of one method on one problem at one budget."""

    experiment: str
    method: str  # label
    algorithm: str
    choices: tuple[tuple[str, Choice], ...]  # beyond problem class and budget
    family: str
    n: int
    dim: int
    budget: Budget
    strength: float  # free parameter of the family
    replicates: int
    axes: tuple[str, ...]  # axes and grids that contain the cell; they affect no number
    block: int  # replicates that run at a time
    group: int = 1  # replicates that share public randomness
    sparsity: int | None = None
    swept: tuple[str, ...] = ()  # choices that an axis has changed
    search: tuple[tuple[str, tuple[Choice, ...]], ...] = ()  # candidate values
    most_steps: int | None = None  # largest number of default steps
    trial: Trial = Trial.MEASURED
    bend: float = 1.0  # of the control "noise bent": value of its axis over the base value

    @property
    def mu(self) -> float | None:
        """Gaussian-DP parameter of the budget; ``None`` for pure differential privacy."""
        if self.budget.delta == 0.0:
            return None
        return gaussian_mu(self.budget.epsilon, self.budget.delta)

    @property
    def noise_ratio(self) -> float:
        """``sqrt(dim) / (n mu)``, or ``dim / (n epsilon)`` for pure differential privacy."""
        if (mu := self.mu) is None:
            return self.dim / (self.n * self.budget.epsilon)
        return math.sqrt(self.dim) / (self.n * mu)

    @property
    def point(self) -> dict[str, str | float]:
        """Sizes, epsilon and swept choices, which name the cell within its method and family."""
        sizes = {"n": self.n, "dim": self.dim, "sparsity": self.sparsity}
        choices = {name: size(value) for name, value in self.choices if name in self.swept}
        point = {**sizes, "epsilon": self.budget.epsilon, **choices}
        return {name: value for name, value in point.items() if value is not None}

    @property
    def identity(self) -> dict[str, str | float]:
        """Names of its noise stream; axes, trial and delta do not change the noise."""
        return {
            "experiment": self.experiment,
            "algorithm": self.method,
            "family": self.family,
            "strength": self.strength,
            **self.point,
        }

    @property
    def facts(self) -> dict[str, Value]:
        """Row of the table of cells, without the columns of its plan."""
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
        """Description for progress messages and provenance."""
        point = " ".join(f"{name}={format_value(value)}" for name, value in self.point.items())
        trial = "" if self.trial is Trial.MEASURED else f", {self.trial}"
        return f"{self.method} on {self.family}, {point} strength={self.strength:g}{trial}"


def cells(experiment: Experiment, profile: str) -> tuple[Cell, ...]:
    """Return every cell of an experiment once, in the order of its table.

    Each axis is swept with the others at base, and each grid with every combination of its axes. A
    point of several axes is one cell. If slopes are checked, the cells of an axis are repeated
    under every other :class:`Trial`. Families in ``if_present`` without data are omitted.

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
    result = tuple(
        cell
        for method in experiment.methods
        for name in experiment.family_names
        if name not in absent
        for cell in _cells(experiment, profile, method, experiment.family(name))
    )
    if not result:
        reasons = "; ".join(omissions(experiment, profile))
        raise ValueError(f"{experiment.name} has nothing to run: {reasons}")
    return result


def omissions(experiment: Experiment, profile: str) -> list[str]:
    """Describe the omitted families without data and the omitted sizes beyond the data."""
    absent = absent_families(experiment)
    messages = [f"{name} is left out: {reason}" for name, reason in absent.items()]
    points = [point for axis in experiment.swept for point in axis.points(profile)]
    for name in experiment.family_names:
        most = None if name in absent else experiment.family(name).max_n
        if most is not None:
            beyond = sorted({point["n"] for point in points if point.get("n", 0) > most})
            if beyond:
                sizes = ", ".join(map(str, beyond))
                messages.append(f"n = {sizes} is left out of {name}, which has {most} records")
    return messages


def absent_families(experiment: Experiment) -> dict[str, str]:
    """Return the families in ``if_present`` without data, each with the reason.

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
    """Yield the cells of one method on one family."""
    axes_of: dict[Cell, tuple[str, ...]] = {}
    swept = [(axis.name, axis.points(profile)) for axis in experiment.swept]
    for name, points in swept or [("", [{}])]:
        for point in points:
            if family.max_n is None or point.get("n", 0) <= family.max_n:
                cell = _cell(experiment, profile, method, family, point)
                axes_of[cell] = (*axes_of.get(cell, ()), *filter(None, [name]))
    if "slope" in experiment.checks:
        axes_of |= _other_trials(axes_of, _bases(experiment, profile, method, family))
    for cell, axes in axes_of.items():
        for strength in family.strengths:
            yield replace(cell, axes=axes, strength=strength)


def _other_trials(
    measured: Mapping[Cell, tuple[str, ...]], bases: Mapping[str, float]
) -> dict[Cell, tuple[str, ...]]:
    """Return the cells of axes with a base value under the other trials, each with its axes.

    Noise is bent along one axis at a time. A bent point of several axes is one cell.
    """
    fewer = {
        replace(cell, replicates=cell.block): axes
        for cell, axes in measured.items()
        if not bases.keys().isdisjoint(axes)
    }
    result = {replace(cell, trial=Trial.SECOND_KEY): axes for cell, axes in fewer.items()}
    for cell, axes in fewer.items():
        if ALGORITHMS[cell.algorithm].private:
            result[replace(cell, trial=Trial.NOISE_OFF)] = axes
            numbers: dict[str, Any] = {**dict(cell.choices), **cell.point}
            for axis in (axis for axis in axes if axis in bases):
                bend = numbers[axis] / bases[axis]
                control = replace(cell, trial=Trial.NOISE_BENT, bend=bend)
                result[control] = (*result.get(control, ()), axis)
    return result


def _bases(
    experiment: Experiment, profile: str, method: Method, family: Family
) -> dict[str, float]:
    """Return the base value of every axis of a rate; the first value if there is none."""
    bases: dict[str, Any] = {**method.choices, "n": family.max_n, "dim": family.dim}
    bases |= {name: value for name, value in vars(experiment.base).items() if value is not None}
    axes = {axis.name: axis.at(profile)[0] for axis in experiment.axes if axis.name in SLOPED}
    return {name: bases.get(name) or first for name, first in axes.items()}


def _cell(
    experiment: Experiment, profile: str, method: Method, family: Family, point: Point
) -> Cell:
    """Return the cell at a point, without its strength and axes."""
    options = {name: x for name, x in point.items() if axis_kind(name).taken_by == "plan"}
    sizes: dict[str, Any] = {name: point[name] for name in point.keys() - options}
    setting = replace(experiment.base, **sizes)
    return Cell(
        experiment=experiment.name,
        method=method.label,
        algorithm=method.algorithm,
        choices=tuple(sorted({**method.choices, **options}.items())),
        swept=tuple(name for name in options if options[name] != method.choices.get(name)),
        family=family.name,
        n=_size("n", setting.n, family.max_n, family),
        dim=_size("dim", setting.dim, family.dim, family),
        sparsity=setting.sparsity,
        budget=experiment.budget(setting.epsilon),
        strength=1.0,
        replicates=experiment.replicates[profile],
        axes=(),
        block=experiment.block(profile),
        group=experiment.group(method, profile),
        search=tuple(method.search.items()),
        most_steps=method.most_steps,
    )


def _size(name: str, requested: int | None, available: int | None, family: Family) -> int:
    """Return the requested size, or the size of the family if none is requested."""
    size = available if requested is None else requested
    if size is None:
        raise ValueError(f"base.{name} must be given for {family.name}, got None")
    if available is not None and (size > available if name == "n" else size != available):
        rule = "be at most" if name == "n" else "be"
        raise ValueError(f"{name} must {rule} {available} for {family.name}, got {size}")
    return size

"""Methods of experiments: an algorithm with fixed arguments of its plan, or with a search."""

from __future__ import annotations

import hashlib
import inspect
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from optax import GradientTransformation

from privopt.algorithms import ALGORITHMS
from privopt.algorithms.descent import Optimiser
from privopt.arguments import member, positive_integer, positive_number, shown
from privopt.convex import StepSizes, Update
from privopt.release import Pytree

Choice = str | int | float | StepSizes | Optimiser | None

_FINEST = 1.26
_ROUNDING = 1.01


def ladder(low: float, high: float, per_decade: int = 10) -> tuple[float, ...]:
    """Return a logarithmic grid from ``low`` to ``high``, rounded to three digits.

    Slopes need dense grids: the best value of a coarse grid moves along the sweep in steps, which
    cancel a slope or produce one. Ten values per decade suffice if the risk is flat around its
    best value.

    Examples
    --------
    >>> ladder(0.01, 0.02)
    (0.01, 0.0126, 0.0158, 0.02)
    """
    low, high = positive_number("low", low), positive_number("high", high)
    count = round(per_decade * math.log10(high / low)) + 1
    if count < 2:
        least = 10.0 ** (1.0 / per_decade)
        raise ValueError(
            f"high must be at least {least:.3g} times low, got {shown(high)} and {shown(low)}"
        )
    return tuple(float(f"{low * 10.0 ** (k / per_decade):.3g}") for k in range(count))


@dataclass(frozen=True)
class Method:
    """An algorithm with choices of its plan, under a label.

    Parameters
    ----------
    label : str
        Small letters, digits and underscores. It names the method in tables and figures, and its
        noise: two labels never share noise. One algorithm may have several labels.
    algorithm : str
        A name in ``ALGORITHMS``.
    choices : mapping, optional
        Arguments of the plan beyond problem class and budget: numbers, texts, step sizes,
        optimisers and ``None``. Optimisers are stored as :class:`privopt.convex.Update`. Prefer
        ``optax.adam`` or ``Update.of(optax.adam, b1=0.8)``, which are recorded by name and numbers,
        to ``optax.adam(0.1)``, which is recorded by a digest.
    search : mapping, optional
        Choice -> candidate values. Pilot runs try every combination at every setting; the one with
        the smallest worst mean over the strengths of the family is measured. The result is
        *oracle-tuned*: it depends on the risk, outside of any budget. If slopes are checked,
        numbers must be as dense as those of :func:`ladder`.
    most_steps : int, optional
        Largest number of steps, for plans whose default is larger.

    Examples
    --------
    >>> Method("best", "dp_gd", search={"steps": (10, 30, 100)}).search["steps"]
    (10, 30, 100)
    >>> import optax
    >>> Method("adagrad", "dp_sgd", {"update": optax.adagrad}).choices
    {'update': adagrad()}
    """

    label: str
    algorithm: str
    choices: Mapping[str, Choice] = field(default_factory=dict)
    search: Mapping[str, tuple[Choice, ...]] = field(default_factory=dict)
    most_steps: int | None = None

    def __post_init__(self) -> None:
        member("algorithm", self.algorithm, ALGORITHMS)
        check_name("label of a method", self.label)
        if self.most_steps is not None:
            positive_integer(f"most_steps of {self.label}", self.most_steps)
        choices = mapping(f"choices of {self.label}", self.choices)
        for choice in choices:
            member(f"choice of {self.label}", choice, self.known_choices)
        checked = {choice: _checked(choice, value) for choice, value in choices.items()}
        object.__setattr__(self, "choices", checked)
        searched = mapping(f"search of {self.label}", self.search)
        candidates = {name: self._candidates(name, values) for name, values in searched.items()}
        object.__setattr__(self, "search", candidates)

    def twice(self, **search: tuple[Choice, ...]) -> tuple[Method, Method]:
        """Return the method and a variant ``<label>_best`` that searches for some choices.

        Examples
        --------
        >>> [method.label for method in Method("dp_gd", "dp_gd").twice(steps=(10, 30))]
        ['dp_gd', 'dp_gd_best']
        """
        return self, replace(self, label=f"{self.label}_best", search=search)

    def _candidates(self, choice: str, values: object) -> tuple[Choice, ...]:
        """Check the values of a search: at least two, distinct."""
        member(f"choice of {self.label}", choice, self.known_choices)
        if choice in self.choices:
            raise ValueError(f"search of {self.label} must leave out {choice}, which choices fix")
        items = values if isinstance(values, list | tuple) else ()
        candidates = tuple(_checked(choice, value) for value in items)
        if len(set(candidates)) < max(len(candidates), 2):
            raise ValueError(
                f"search of {self.label} must try two or more distinct values of {choice}, "
                f"got {shown(values)}"
            )
        return candidates

    def check_density(self) -> None:
        """Raise ``ValueError`` if a grid is too coarse for slopes."""
        for choice, values in self.search.items():
            sizes = sorted(s for s in map(size, values) if isinstance(s, int | float) and s > 0.0)
            for low, high in pairwise(sizes):
                neighbours = isinstance(low, int) and high == low + 1
                if high > _FINEST * _ROUNDING * low and not neighbours:
                    raise ValueError(
                        f"values of {choice} in the search of {self.label} must be at most a "
                        f"factor of {_FINEST:g} apart where slopes are judged (privopt.lab.ladder "
                        f"makes such), got {low:g} and {high:g}"
                    )

    @property
    def known_choices(self) -> tuple[str, ...]:
        """Keyword arguments of the plan, beyond problem class and budget."""
        parameters = inspect.signature(ALGORITHMS[self.algorithm].plan).parameters.values()
        return tuple(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)


def _checked(choice: str, value: Any) -> Choice:
    """Check an argument of a plan, and convert an optimiser to an update."""
    if isinstance(value, str | int | float | StepSizes | Update | None):
        return value
    if callable(value) or isinstance(value, GradientTransformation):
        return Update.of(value)
    raise ValueError(
        f"{choice} must be a number, a text, step sizes, an optimiser or None, got {shown(value)}"
    )


def size(value: Choice) -> str | float | None:
    """Return a number or text for sorting and naming; for step sizes, their scale."""
    if isinstance(value, StepSizes):
        return float(value.scale)
    return value if isinstance(value, str | int | float | None) else text(value)


def text(value: object) -> str:
    """Return a value as text that is the same in every process.

    User-defined optimisers, and optimisers that were built before, have a digest of their
    computation after their name. Names and hyperparameters identify the others.

    Examples
    --------
    >>> import optax
    >>> text(Update.of(optax.adam, b1=0.8))
    'adam(b1=0.8)'
    """
    if not isinstance(value, Update):
        return repr(value)
    package = str(getattr(value.origin, "__module__", "")).split(".")[0]
    code = [option for _, option in value.options if callable(option)]
    if package in ("optax", "privopt") and hasattr(value.origin, "__name__") and not code:
        return str(value)
    return f"{value} {_digest(value)}"


@lru_cache(maxsize=128)
def _digest(update: Update) -> str:
    """Return a digest of one step, lowered by JAX for a CPU; it contains every constant."""

    def step(gradient: Array, point: Array) -> Pytree:
        sizes = None if update.has_step_sizes else lambda count: 1.0 / (1.0 + count)
        transformation = update.build(sizes)
        return transformation.update(gradient, transformation.init(point), point)

    digest = hashlib.sha256()
    with jax.enable_x64(True):
        for shape in ((3,), (3, 2)):
            point = jax.ShapeDtypeStruct(shape, jnp.float64)
            lowered = jax.jit(step).trace(point, point).lower(lowering_platforms=("cpu",))
            digest.update(lowered.as_text().encode())
    return digest.hexdigest()[:12]


def check_name(argument: str, name: object) -> None:
    """Raise ``ValueError`` unless ``name`` is a valid file name on every system."""
    if not isinstance(name, str) or not re.fullmatch(r"[a-z0-9][a-z0-9_]*", name):
        raise ValueError(
            f"{argument} must be of small letters, digits and underscores, got {shown(name)}"
        )


def mapping(name: str, value: object) -> Mapping[str, Any]:
    """Return ``value`` if it is a mapping."""
    if not isinstance(value, Mapping):
        raise ValueError(f"{name} must be a mapping, got {shown(value)}")
    return value

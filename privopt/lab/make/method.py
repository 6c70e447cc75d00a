"""A method: an algorithm with choices of its plan, under a label, or with a search for them."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from privopt.algorithms import ALGORITHMS
from privopt.arguments import member, positive_integer, positive_number, shown
from privopt.convex import StepSizes

Choice = str | int | float | StepSizes | None

_FINEST = 1.26
_ROUNDING = 1.01


def ladder(low: float, high: float, per_decade: int = 10) -> tuple[float, ...]:
    """Values to search for a choice: from ``low`` up to ``high``, to three digits.

    Where a slope is fitted the values must be dense: the best of a coarse grid moves in steps of
    its own along the sweep, which cancel a slope or make one. Ten a decade are enough where the
    risk is flat around its best value.

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
    """An algorithm with choices of its plan, under a label: one algorithm may stand under several.

    Parameters
    ----------
    label : str
        Small letters, digits and underscores; names the method in tables and figures, and its
        noise: two methods never share any.
    algorithm : str
        A name in ``ALGORITHMS``.
    choices : mapping, optional
        What its plan is told beyond problem class and budget: numbers, texts and ``None``.
    search : mapping, optional
        Choice -> values that are tried instead of theory's: every combination of them at every
        setting, and the one of least worst mean over the family's strengths is measured. That is
        *oracle-tuned*: it looks at the risk, and no budget pays for it. Where slopes are judged,
        numbers must be as dense as those of :func:`ladder`.
    most_steps : int, optional
        Where theory asks for more steps, the plan is told this number instead.

    Examples
    --------
    >>> Method("best", "dp_gd", search={"steps": (10, 30, 100)}).search["steps"]
    (10, 30, 100)
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
        for choice, value in mapping(f"choices of {self.label}", self.choices).items():
            member(f"choice of {self.label}", choice, self.known_choices)
            _check_choice(choice, value)
        object.__setattr__(self, "choices", dict(self.choices))
        searched = mapping(f"search of {self.label}", self.search)
        tried = {choice: self._tried(choice, values) for choice, values in searched.items()}
        object.__setattr__(self, "search", tried)

    def twice(self, **search: tuple[Choice, ...]) -> tuple[Method, Method]:
        """The method, and its twin ``<label>_best`` that searches for some of its choices.

        Examples
        --------
        >>> [method.label for method in Method("dp_gd", "dp_gd").twice(steps=(10, 30))]
        ['dp_gd', 'dp_gd_best']
        """
        return self, replace(self, label=f"{self.label}_best", search=search)

    @property
    def has_coins(self) -> bool:
        """Whether the algorithm has public randomness, which groups of replicates share."""
        return ALGORITHMS[self.algorithm].coins is not None

    def _tried(self, choice: str, values: object) -> tuple[Choice, ...]:
        """The values of a choice that is searched for: at least two, distinct."""
        member(f"choice of {self.label}", choice, self.known_choices)
        if choice in self.choices:
            raise ValueError(f"search of {self.label} must leave out {choice}, which choices fix")
        tried = tuple(values) if isinstance(values, list | tuple) else ()
        for value in tried:
            _check_choice(choice, value)
        if len(set(tried)) < max(len(tried), 2):
            raise ValueError(
                f"search of {self.label} must try two or more distinct values of {choice}, "
                f"got {shown(values)}"
            )
        return tried

    def check_density(self) -> None:
        """Refuse a grid whose steps would show in a slope."""
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
        """What the plan of its algorithm can be told."""
        parameters = inspect.signature(ALGORITHMS[self.algorithm].plan).parameters.values()
        return tuple(each.name for each in parameters if each.kind is each.KEYWORD_ONLY)


def _check_choice(choice: str, value: object) -> None:
    """Refuse what no plan of an experiment is told."""
    if not isinstance(value, Choice):
        raise ValueError(
            f"{choice} must be a number, a text, step sizes or None, got {shown(value)}"
        )


def size(value: Choice) -> str | float | None:
    """By what a choice is ordered and told: a number itself, step sizes their scale."""
    return float(value.scale) if isinstance(value, StepSizes) else value


def check_name(what: str, name: object) -> None:
    """Refuse what cannot name a file everywhere."""
    if not isinstance(name, str) or not re.fullmatch(r"[a-z0-9][a-z0-9_]*", name):
        raise ValueError(
            f"{what} must be of small letters, digits and underscores, got {shown(name)}"
        )


def mapping(name: str, given: object) -> Mapping[str, Any]:
    """``given``, if it is a mapping."""
    if not isinstance(given, Mapping):
        raise ValueError(f"{name} must be a mapping, got {shown(given)}")
    return given

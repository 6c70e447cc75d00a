"""A method: an algorithm with choices of its plan, under a label, or with a search for them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from privopt.algorithms import ALGORITHMS
from privopt.arguments import member

__all__ = ["Choice", "Method", "check_name", "mapping"]

Choice = str | int | float | None


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
        *oracle-tuned*: it looks at the risk, and no budget pays for it.

    Raises
    ------
    ValueError
        Naming the argument, the value and the rule it broke.

    Examples
    --------
    >>> Method("short", "dp_gd", {"steps": 10}).choices
    {'steps': 10}
    >>> Method("best", "dp_gd", search={"steps": (10, 30, 100)}).search["steps"]
    (10, 30, 100)
    """

    label: str
    algorithm: str
    choices: Mapping[str, Choice] = field(default_factory=dict)
    search: Mapping[str, tuple[Choice, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        member("algorithm", self.algorithm, ALGORITHMS)
        check_name("label of a method", self.label)
        for choice, value in mapping(f"choices of {self.label}", self.choices).items():
            member(f"choice of {self.label}", choice, self.known_choices)
            _check_choice(choice, value)
        object.__setattr__(self, "choices", dict(self.choices))
        searched = mapping(f"search of {self.label}", self.search)
        tried = {choice: self._tried(choice, values) for choice, values in searched.items()}
        object.__setattr__(self, "search", tried)

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
                f"got {values!r}"
            )
        return tried

    @property
    def known_choices(self) -> tuple[str, ...]:
        """What the plan of its algorithm can be told."""
        parameters = inspect.signature(ALGORITHMS[self.algorithm].plan).parameters.values()
        return tuple(each.name for each in parameters if each.kind is each.KEYWORD_ONLY)


def _check_choice(choice: str, value: object) -> None:
    """Refuse what no plan of an experiment is told."""
    if not isinstance(value, str | int | float | None):
        raise ValueError(f"{choice} must be a number, a text or None, got {value!r}")


def check_name(what: str, name: object) -> None:
    """Refuse what cannot name a file everywhere."""
    if not isinstance(name, str) or not re.fullmatch(r"[a-z0-9][a-z0-9_]*", name):
        raise ValueError(f"{what} must be of small letters, digits and underscores, got {name!r}")


def mapping(name: str, given: object) -> Mapping[str, Any]:
    """``given``, if it is a mapping."""
    if not isinstance(given, Mapping):
        raise ValueError(f"{name} must be a mapping, got {given!r}")
    return given

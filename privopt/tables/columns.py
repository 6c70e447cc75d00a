"""What a column may be: a number between public bounds, or one of public categories."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from privopt.arguments import real, shown
from privopt.records import as_array as numbers
from privopt.tables.entries import places_of, public_values


@dataclass(frozen=True)
class Number:
    """A number between public bounds, mapped to ``[-1, 1]``.

    Numbers beyond the bounds are clamped to them. A missing number or NaN takes the place of
    ``missing``, also public.

    Parameters
    ----------
    lower, upper : float
        Public bounds, in the units of the column. They are never taken from the data, but by
        :func:`approximate_bounds`, at a price.
    log : bool
        Whether the logarithm is mapped, for numbers of many sizes; ``lower`` is then positive.
    missing : float, optional
        What a missing number counts as, in the units of the column; default the middle, mapped
        to 0.

    Examples
    --------
    >>> import numpy as np
    >>> Number(0, 100).block(np.array([25.0, 120.0, np.nan]), "age").ravel().tolist()
    [-0.5, 1.0, 0.0]
    """

    lower: float | None = None
    upper: float | None = None
    log: bool = False
    missing: float | None = None

    def check(self, name: str) -> None:
        """ValueError, naming the column, unless the declaration can be kept."""
        if self.lower is None or self.upper is None:
            raise ValueError(
                f"column {shown(name)} must have public bounds, such as Number(0, 100): bounds "
                "that are "
                "taken from the data release it; approximate_bounds makes them private"
            )
        lower = real(f"lower of column {shown(name)}", self.lower)
        upper = real(f"upper of column {shown(name)}", self.upper)
        if not (math.isfinite(lower) and math.isfinite(upper) and lower < upper):
            raise ValueError(
                f"column {shown(name)} must have finite bounds, the lower below the upper, got "
                f"{shown(lower)} and {shown(upper)}"
            )
        if not isinstance(self.log, bool):
            raise ValueError(
                f"log of column {shown(name)} must be True or False, got {shown(self.log)}"
            )
        if self.log and not lower > 0.0:
            raise ValueError(
                f"lower of column {shown(name)} must be positive where log is True, got "
                f"{shown(lower)}"
            )
        if not self._half > 0.0:
            raise ValueError(
                f"bounds of column {shown(name)} must be further apart, got {shown(lower)} and "
                f"{shown(upper)}"
            )
        if self.missing is not None:
            missing = real(f"missing of column {shown(name)}", self.missing)
            if not lower <= missing <= upper:
                raise ValueError(
                    f"missing of column {shown(name)} must lie within its bounds, got "
                    f"{shown(missing)}"
                )

    def names(self, name: str) -> list[str]:
        """Of the features it becomes: one, its own."""
        return [name]

    def block(self, values: Any, name: str) -> np.ndarray:
        """The features of a column, shape ``(records, 1)``, from -1 to 1."""
        found = np.asarray(numbers(values, f"column {shown(name)}"), np.float64)
        if found.ndim != 1:
            raise ValueError(f"column {shown(name)} must have 1 axes, got shape {found.shape}")
        scaled = self._scaled(found)
        constant = 0.0 if self.missing is None else self._scaled(np.float64(self.missing))
        return np.where(np.isnan(scaled), constant, scaled)[:, None]

    @property
    def _interval(self) -> tuple[float, float]:
        assert self.lower is not None
        assert self.upper is not None
        return float(self.lower), float(self.upper)

    @property
    def _ends(self) -> tuple[float, float]:
        lower, upper = self._interval
        return (math.log(lower), math.log(upper)) if self.log else (lower, upper)

    @property
    def _half(self) -> float:
        lower, upper = self._ends
        return upper / 2.0 - lower / 2.0  # a difference of large bounds would be infinite

    def _scaled(self, values: Any) -> Any:
        values = np.clip(values, *self._interval)
        values = np.log(values) if self.log else values
        return np.clip((values / 2.0 - self._ends[0] / 2.0) / self._half * 2.0 - 1.0, -1.0, 1.0)


@dataclass(frozen=True)
class Category:
    """One of public categories: a one in the place of the category, zeros elsewhere.

    A missing entry has zeros alone. So has one that is no category, or it has its one in a last
    place for all others.

    Parameters
    ----------
    categories : sequence
        The public values, in order: texts, numbers or booleans. They are never read from the data.
    other : bool
        Whether there is a last place for what is none of them.

    Examples
    --------
    >>> sector = Category(("private", "public"), other=True)
    >>> sector.block(["public", "charity", None], "sector").toarray().tolist()
    [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]
    """

    categories: Sequence[Hashable]
    other: bool = False

    def check(self, name: str) -> None:
        """ValueError, naming the column, unless the declaration can be kept."""
        public_values(f"categories of column {shown(name)}", self.categories)
        if not isinstance(self.other, bool):
            raise ValueError(
                f"other of column {shown(name)} must be True or False, got {shown(self.other)}"
            )

    def names(self, name: str) -> list[str]:
        """Of the features it becomes: ``sector=public``."""
        return [f"{name}={value}" for value in self.categories] + [f"{name}=*"] * self.other

    def block(self, values: Any, name: str) -> scipy.sparse.csr_array:
        """The features of a column, shape ``(records, places)``, at most one 1 a row."""
        known = public_values(f"categories of column {shown(name)}", self.categories)
        places, width = places_of(values, known, f"column {shown(name)}"), len(known) + self.other
        kept = (places >= 0) & (places < width)
        return scipy.sparse.csr_array(
            (np.ones(int(kept.sum())), (np.flatnonzero(kept), places[kept])),
            shape=(len(places), width),
        )

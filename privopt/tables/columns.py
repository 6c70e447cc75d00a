"""Declarations of columns: numbers between public bounds, and public categories."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from privopt.arguments import real, shown
from privopt.records import as_column, places_of, public_values


@dataclass(frozen=True)
class Number:
    """A number between public bounds, mapped to ``[-1, 1]``.

    Numbers beyond the bounds are clamped to them. A missing number, NaN, and an entry of a column
    of objects that is not a number are replaced by ``missing``.

    Parameters
    ----------
    lower, upper : float
        Public bounds, in the units of the column. They must not be computed from the data, except
        by :func:`approximate_bounds`, which spends a part of the budget.
    log : bool
        If True, the logarithm is mapped, for numbers of many magnitudes; ``lower`` must then be
        positive.
    missing : float, optional
        Public replacement of a missing number, in the units of the column; default the middle,
        which is mapped to 0.

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
        """Raise ``ValueError``, naming the column, unless the declaration is valid."""
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
        """Return the names of its features: one, the name of the column."""
        return [name]

    def block(self, values: Any, name: str) -> np.ndarray:
        """Return the features of a column, shape ``(records, 1)``, from -1 to 1."""
        scaled = self._scaled(as_column(values, f"column {shown(name)}"))
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

    A missing entry becomes zeros. An entry that is not a category becomes zeros as well, or with
    ``other`` a one in an additional last place.

    Parameters
    ----------
    categories : sequence
        The public values, in order: texts, or numbers and booleans. They must not be computed from
        the data.
    other : bool
        If True, entries that are not a category have a place of their own.

    Examples
    --------
    >>> sector = Category(("private", "public"), other=True)
    >>> sector.block(["public", "charity", None], "sector").toarray().tolist()
    [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]
    """

    categories: Sequence[Hashable]
    other: bool = False

    def check(self, name: str) -> None:
        """Raise ``ValueError``, naming the column, unless the declaration is valid."""
        public_values(f"categories of column {shown(name)}", self.categories)
        if not isinstance(self.other, bool):
            raise ValueError(
                f"other of column {shown(name)} must be True or False, got {shown(self.other)}"
            )

    def names(self, name: str) -> list[str]:
        """Return the names of its features, such as ``sector=public``."""
        return [f"{name}={value}" for value in self.categories] + [f"{name}=*"] * self.other

    def block(self, values: Any, name: str) -> scipy.sparse.csr_array:
        """Return the features of a column, shape ``(records, places)``, at most one 1 per row."""
        categories = public_values(f"categories of column {shown(name)}", self.categories)
        places = places_of(values, categories, f"column {shown(name)}", strict=False)
        width = len(categories) + self.other
        usable = (places >= 0) & (places < width)
        return scipy.sparse.csr_array(
            (np.ones(int(usable.sum())), (np.flatnonzero(usable), places[usable])),
            shape=(len(places), width),
        )

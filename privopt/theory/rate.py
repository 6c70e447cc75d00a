"""A rate: what a theorem promises for one plan, and where that promise is tight."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

__all__ = ["Rate"]

_RISKS = ("empirical", "population")


@dataclass(frozen=True, kw_only=True)
class Rate:
    """Bounds on the expected excess risk ``E F(w) - min_W F`` of one plan.

    Parameters
    ----------
    theorem : str
        The statement in one line, in the symbols of the problem class.
    source : str
        Author, year and number of the theorem.
    upper : float
        The bound, constants included, on every problem of the class; ``inf`` where none is known.
    lower : float
        No algorithm with the plan's guarantee does better than this on every problem of the
        class; 0 where nothing is known.
    exponents : mapping of str to float
        The power of each axis (``n``, ``dim``, ``epsilon``) in the leading term of ``upper`` in
        the stated regime; ``epsilon`` at fixed ratio of epsilon to the Gaussian parameter mu.
    regime : str
        Where the leading term leads.
    tight_on : str or None
        Name of the hard family on which measured slopes must equal ``exponents``.
    risk : {"empirical", "population"}
        Which ``F`` is meant: the mean over the records that a run is given, whatever they are, or
        the mean over the distribution that they are independent draws from.
    """

    theorem: str
    source: str
    upper: float
    lower: float
    exponents: Mapping[str, float]
    regime: str
    tight_on: str | None = None
    risk: str = "empirical"

    def __post_init__(self) -> None:
        if math.isnan(self.upper) or not self.upper >= 0.0:
            raise ValueError(f"upper must be non-negative, got {self.upper!r}")
        if not 0.0 <= self.lower <= self.upper:
            raise ValueError(f"lower must lie in [0, upper={self.upper!r}], got {self.lower!r}")
        if self.risk not in _RISKS:
            raise ValueError(f"risk must be one of {', '.join(_RISKS)}, got {self.risk!r}")
        object.__setattr__(self, "exponents", MappingProxyType(dict(self.exponents)))

    def __reduce__(self) -> tuple[Any, ...]:
        """A read-only mapping does not pickle; the rate is made again from a plain one."""
        return partial(Rate, **{**vars(self), "exponents": dict(self.exponents)}), ()

"""One trial of one method on one family along one axis: what a slope is fitted to."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean

import numpy as np
import numpy.typing as npt

from privopt.lab.judge.equivalence import MARGIN, margin_of
from privopt.lab.judge.estimates import Exponent, exponent, least_squares
from privopt.lab.judge.results import CellResult, along, of_trial, worst
from privopt.lab.make.cells import Trial

MIN_REPLICATES = 10
"""With fewer replicates in a cell, nothing is decided about a slope."""

MIN_VALUES = 4
"""With fewer values of the axis, nothing is decided about its slope."""

SHARE = 0.01
"""So small a share of a mean moves no exponent that is told."""

_RATIO_DRIFT = 1e-3


@dataclass(frozen=True, eq=False)
class Sweep:
    """The cells of one trial that serve an axis, at each of its values one for every strength."""

    axis: str
    groups: Mapping[float, Sequence[CellResult]]

    @property
    def cells(self) -> list[CellResult]:
        """All of them."""
        return [cell for group in self.groups.values() for cell in group]

    @cached_property
    def tops(self) -> Mapping[float, CellResult]:
        """At each value the cell of the worst strength."""
        return {value: worst(group) for value, group in self.groups.items()}

    @property
    def not_finite(self) -> str:
        """Which cell has a value that is not finite; empty if none has."""
        return next((cell.place for cell in self.cells if not cell.is_finite), "")

    @property
    def obstacle(self) -> str:
        """What keeps an exponent from being read off these cells; empty if nothing does."""
        if self.not_finite:
            return f"value not finite: {self.not_finite}"
        if len(self.groups) < MIN_VALUES:
            return f"{len(self.groups)} values of {self.axis}, {MIN_VALUES} needed"
        fewest = min(cell.values.size for cell in self.cells)
        if fewest < MIN_REPLICATES:
            return f"{fewest} replicates, {MIN_REPLICATES} needed"
        if not self._of_one_law:
            return f"the theorem's exponent changes along {self.axis}"
        ratios = [cell.setting["epsilon"] / cell.mu if cell.mu else math.inf for cell in self.cells]
        if min(ratios) < math.inf and max(ratios) > (1.0 + _RATIO_DRIFT) * min(ratios):
            ends = f"from {min(ratios):.3g} to {max(ratios):.3g}"
            return f"epsilon/mu changes along {self.axis}, {ends}"
        for value, top in self.tops.items():
            gap = max(cell.gap for cell in self.groups[value])
            if not top.mean > 0.0:
                return f"mean not positive: {top.place}"
            if not gap <= SHARE * top.mean:
                share = gap / top.mean
                return f"certified gap too large ({share:.2g} of the mean): {top.place}"
        return ""

    @property
    def target(self) -> float:
        """The theorem's exponent, to three digits: cells have local ones where logarithms are."""
        own = [c.exponents[self.axis] for c in self.cells if self.axis in c.exponents]
        return round(fmean(own), 3)

    @property
    def margin(self) -> float:
        """Within which a slope is the theorem's."""
        return margin_of(self.target)

    @property
    def _of_one_law(self) -> bool:
        """Whether the cells' exponents differ by at most ``MARGIN``; all or none has one."""
        told = {cell.exponents.get(self.axis, math.inf) for cell in self.cells}
        return len(told) == 1 or max(told) - min(told) <= MARGIN

    @property
    def span(self) -> str:
        """How many values, and from where to where."""
        return (
            f"{len(self.groups)} values, {self.axis} {min(self.groups):g} to {max(self.groups):g}"
        )

    @property
    def samples(self) -> list[list[npt.NDArray[np.float64]]]:
        """At each value the replicates of every strength."""
        return [[cell.values for cell in group] for group in self.groups.values()]

    def fit(self, alpha: float) -> Exponent:
        """The exponent, with an interval that misses with probability ``alpha``."""
        return exponent(list(self.groups), self.samples, alpha, self.seed)

    @property
    def bound_slope(self) -> float:
        """The exponent of the upper bound over the same cells; NaN where there is none."""
        uppers = [top.upper for top in self.tops.values()]
        known = all(0.0 < upper < math.inf for upper in uppers) and len(uppers) > 1
        return least_squares(list(self.groups), uppers) if known else math.nan

    @property
    def drift(self) -> float:
        """The largest over the smallest ratio of measured mean to bound; NaN where unknown."""
        tops = self.tops.values()
        if not all(0.0 < top.upper < math.inf and 0.0 < top.mean < math.inf for top in tops):
            return math.nan
        ratios = [top.mean / top.upper for top in tops]
        return max(ratios) / min(ratios)

    @property
    def seed(self) -> list[int]:
        """Of what is drawn: from what names the sweep."""
        first = self.cells[0]
        named = first.experiment, first.method, first.family, self.axis
        trial = "" if first.trial is Trial.MEASURED else f" {first.trial}"
        digest = hashlib.sha256(f"{first.root_seed} {' '.join(named)}{trial}".encode()).digest()
        return [int.from_bytes(digest[i : i + 4], "big") for i in range(0, 32, 4)]


def sweep(cells: Iterable[CellResult], axis: str, trial: Trial = Trial.MEASURED) -> Sweep:
    """The cells of ``trial`` that serve ``axis``, of one method and family."""
    return Sweep(axis, along(of_trial(cells, trial), axis))

"""Sweeps: the cells along one axis, and the exponent that a theorem states for them."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean

import numpy as np
import numpy.typing as npt

from privopt.lab.evaluation.cells import CellResult, cells_along, cells_of_trial, worst
from privopt.lab.evaluation.estimates import Exponent, fit_exponent, least_squares
from privopt.lab.runner.cells import Trial

MARGIN = 0.05
"""Largest distance of an equivalent exponent from the theorem's exponent."""

MIN_REPLICATES = 10
"""Smallest number of replicates per cell for a decision on a slope."""

MIN_VALUES = 4
"""Smallest number of axis values for a decision on a slope."""

NEGLIGIBLE_SHARE = 0.01
"""Share of a mean that is too small to change a reported exponent."""

_RELATIVE_MARGIN = 0.25
_RATIO_DRIFT = 1e-3
_ZERO_EXPONENT = 1e-3


def margin_of(target: float) -> float:
    """Return ``MARGIN``, or a quarter of the exponent if that is smaller."""
    size = abs(target)
    return MARGIN if size < _ZERO_EXPONENT else min(MARGIN, _RELATIVE_MARGIN * size)


@dataclass(frozen=True, eq=False)
class Sweep:
    """The cells of one trial along an axis: for each value one cell per strength."""

    axis: str
    groups: Mapping[float, Sequence[CellResult]]

    @property
    def largest_strength(self) -> float:
        """The strength with the largest geometric mean of the means along the axis."""
        logs: dict[float, float] = {}
        for cell in self.cells:
            log = math.log(cell.mean) if cell.mean > 0.0 else -math.inf
            logs[cell.strength] = logs.get(cell.strength, 0.0) + log
        return max(logs, key=lambda strength: logs[strength])

    def at(self, strength: float) -> Sweep:
        """Return the cells of one strength."""
        groups = {
            value: [cell for cell in group if cell.strength == strength]
            for value, group in self.groups.items()
        }
        return Sweep(self.axis, {value: group for value, group in groups.items() if group})

    @property
    def cells(self) -> list[CellResult]:
        """The cells of all values."""
        return [cell for group in self.groups.values() for cell in group]

    @cached_property
    def worst_cells(self) -> Mapping[float, CellResult]:
        """The cell of the worst strength at each value."""
        return {value: worst(group) for value, group in self.groups.items()}

    @property
    def not_finite(self) -> str:
        """Location of the first cell with a value that is not finite, or an empty string."""
        return next((cell.location for cell in self.cells if not cell.is_finite), "")

    @property
    def unmet_assumption(self) -> str:
        """The reason why no exponent can be fitted, or an empty string."""
        if self.not_finite:
            return f"value not finite: {self.not_finite}"
        if len(self.groups) < MIN_VALUES:
            return f"{len(self.groups)} values of {self.axis}, {MIN_VALUES} needed"
        fewest = min(cell.values.size for cell in self.cells)
        if fewest < MIN_REPLICATES:
            return f"{fewest} replicates, {MIN_REPLICATES} needed"
        if missing := [cell for cell in self.cells if self.axis not in cell.exponents]:
            return f"no exponent in {self.axis}, {missing[0].location}"
        if self.of_ratio and not all(0.0 < cell.upper < math.inf for cell in self.cells):
            return f"the theorem's exponent changes along {self.axis}, and there is no bound"
        ratios = [cell.setting["epsilon"] / cell.mu if cell.mu else math.inf for cell in self.cells]
        if min(ratios) < math.inf and max(ratios) > (1.0 + _RATIO_DRIFT) * min(ratios):
            ends = f"from {min(ratios):.3g} to {max(ratios):.3g}"
            return f"epsilon/mu changes along {self.axis}, {ends}"
        for value, cell in self.worst_cells.items():
            gap = max(other.gap for other in self.groups[value])
            if not cell.mean > 0.0:
                return f"mean not positive: {cell.location}"
            if not gap <= NEGLIGIBLE_SHARE * cell.mean:
                share = gap / cell.mean
                return f"certified gap too large ({share:.2g} of the mean): {cell.location}"
        return ""

    @cached_property
    def exponents(self) -> list[float]:
        """The theorem's exponents in the cells that have one."""
        return [c.exponents[self.axis] for c in self.cells if self.axis in c.exponents]

    @property
    def of_ratio(self) -> bool:
        """True if the theorem's exponent changes: the slope is that of the mean over the bound."""
        return max(self.exponents) - min(self.exponents) > MARGIN

    @property
    def target(self) -> float:
        """The theorem's exponent to three digits: the mean of the local exponents of the cells.

        For a ratio to the bound it is 0.
        """
        return 0.0 if self.of_ratio else round(fmean(self.exponents), 3)

    @property
    def margin(self) -> float:
        """Half width of the equivalence margin; for a ratio the smallest one of the exponents."""
        return min(map(margin_of, self.exponents)) if self.of_ratio else margin_of(self.target)

    @property
    def span(self) -> str:
        """Number of values, the smallest and the largest; for a ratio the range of exponents."""
        ends = f"{self.axis} {min(self.groups):g} to {max(self.groups):g}"
        text = f"{len(self.groups)} values, {ends}"
        if not self.of_ratio:
            return text
        exponents = f"{min(self.exponents):.3g} to {max(self.exponents):.3g}"
        return f"{text}, where the bound has exponents {exponents}"

    @property
    def samples(self) -> list[list[npt.NDArray[np.float64]]]:
        """Replicates by value and strength, or their ratios to the bound."""
        return [
            [cell.values / cell.upper if self.of_ratio else cell.values for cell in group]
            for group in self.groups.values()
        ]

    def fit(self, alpha: float) -> Exponent:
        """Fit the exponent; its interval is wrong with probability ``alpha``."""
        return fit_exponent(list(self.groups), self.samples, alpha, self.seed)

    @property
    def bound_slope(self) -> float:
        """Exponent of the upper bound over the same cells; NaN if there is no bound."""
        uppers = [cell.upper for cell in self.worst_cells.values()]
        if len(uppers) < 2 or not all(0.0 < upper < math.inf for upper in uppers):
            return math.nan
        return least_squares(list(self.groups), uppers)

    @property
    def drift(self) -> float:
        """Largest divided by smallest ratio of measured mean to bound; NaN if unknown."""
        cells = self.worst_cells.values()
        if not all(0.0 < cell.upper < math.inf and 0.0 < cell.mean < math.inf for cell in cells):
            return math.nan
        ratios = [cell.mean / cell.upper for cell in cells]
        return max(ratios) / min(ratios)

    @property
    def seed(self) -> list[int]:
        """Seed of the sampled errors, a hash of the names of the sweep."""
        first = self.cells[0]
        names = " ".join((first.experiment, first.method, first.family, self.axis))
        trial = "" if first.trial is Trial.MEASURED else f" {first.trial}"
        digest = hashlib.sha256(f"{first.root_seed} {names}{trial}".encode()).digest()
        return [int.from_bytes(digest[i : i + 4], "big") for i in range(0, 32, 4)]


def make_sweep(cells: Iterable[CellResult], axis: str, trial: Trial = Trial.MEASURED) -> Sweep:
    """Return the sweep of ``trial`` along ``axis`` from cells of one method and family."""
    return Sweep(axis, cells_along(cells_of_trial(cells, trial), axis))

"""Points of a comparison: one method at one value of the axis, over all its data sets and keys."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from privopt.lab.evaluation.cells import CellResult, cell_results, grouped
from privopt.lab.evaluation.estimates import Estimate, mean_interval
from privopt.lab.make.records import Recorded

_ALPHA = 0.025  # of each end of an interval


@dataclass(frozen=True, eq=False)
class Point:
    """What a method measured at one value of the axis."""

    method: str
    value: float | None  # of the axis; None where nothing is swept
    cells: tuple[CellResult, ...]  # one a data set
    seconds: float  # a run, compiling left out

    @cached_property
    def runs(self) -> NDArray[np.float64]:
        """Shape ``(data sets, runs of each)``."""
        return np.stack([cell.values for cell in self.cells])

    @property
    def mean(self) -> float:
        """Over data sets and keys."""
        return float(self.runs.mean())

    @property
    def interval(self) -> Estimate:
        """95 % for the mean over data sets and keys."""
        return interval(self.runs, _ALPHA)

    @property
    def quantiles(self) -> tuple[float, float]:
        """Of 10 and 90 % of the runs."""
        low, high = np.quantile(self.runs, (0.1, 0.9))
        return float(low), float(high)

    @property
    def spread(self) -> tuple[float, float]:
        """Standard deviations: between keys on one data set, and between data sets.

        The second is what remains of the spread of the means when that of the keys is taken away.
        """
        sets, runs = self.runs.shape
        keys = float(self.runs.var(axis=1, ddof=1).mean()) if runs > 1 else math.nan
        if sets < 2:
            return math.sqrt(keys), math.nan
        between = float(self.runs.mean(axis=1).var(ddof=1)) - keys / runs
        return math.sqrt(keys), math.sqrt(max(between, 0.0))

    @property
    def bound(self) -> float:
        """Certified, on the mean of what is measured; infinite where none is known."""
        return self.cells[0].upper

    @property
    def bound_is_of(self) -> str:
        """The other quantity that the method's theorem speaks of, if it is another."""
        cell = self.cells[0]
        return cell.bounded_quantity if cell.bounded_quantity != cell.quantity else ""

    @property
    def lower(self) -> float:
        """No method within the budget is below it on every problem of the class."""
        return self.cells[0].lower

    @property
    def zero(self) -> float:
        """Of the public centre, which spends nothing: mean over data sets."""
        return float(np.mean([cell.start for cell in self.cells]))

    @property
    def nonprivate(self) -> float:
        """Of gradient descent without noise after as many steps: mean over data sets."""
        return float(np.mean([cell.nonprivate for cell in self.cells]))

    @property
    def steps(self) -> int | None:
        """Of the plan; None where it takes none, or where they were searched for."""
        return self.cells[0].steps

    @property
    def tuned(self) -> bool:
        """Whether its numbers are the best of a grid."""
        return self.cells[0].untuned


def interval(runs: NDArray[np.float64], alpha: float) -> Estimate:
    """Of the mean, each end wrong with probability ``alpha``: data sets are what is resampled.

    Student's limits over the means of the data sets; over the runs where there is one data set.
    """
    return mean_interval(runs.mean(axis=1) if runs.shape[0] > 1 else runs[0], alpha)


def points_of(
    recorded: Recorded, axis: str | None, seconds: Mapping[int, float]
) -> tuple[Point, ...]:
    """In the order of the axis, methods of least risk first."""
    cells = cell_results(recorded)
    same = grouped(cells, lambda cell: (cell.method, None if axis is None else cell.setting[axis]))
    found = [
        Point(
            method,
            value,
            tuple(sorted(members, key=lambda cell: cell.strength)),
            float(np.mean([seconds.get(cell.number, math.nan) for cell in members])),
        )
        for (method, value), members in same.items()
    ]
    return tuple(sorted(found, key=lambda point: (point.value or 0.0, point.mean)))

"""Cells of a sweep: measured values together with the rate of the plan."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from privopt.lab.runner.cells import Trial
from privopt.lab.runner.experiment import format_value, in_order
from privopt.lab.runner.quantities import QUANTITIES, is_minimax
from privopt.lab.runner.store import Recorded

_SETTING = ("n", "dim", "sparsity", "epsilon")
_COLUMNS = (
    *("experiment", "method", "algorithm", "family", "strength", "delta", "relation", "mu"),
    *("upper", "lower", "tight_on", "root_seed", "quantity", "in_regime", "law"),
    "steps",
)
_REFERENCE_COLUMNS = {
    "gap": "reference_gap", "start": "start_value", "nonprivate": "nonprivate_value",
}  # fmt: skip

_T = TypeVar("_T")
_K = TypeVar("_K", bound=Hashable)


@dataclass(frozen=True)
class CellResult:
    """The replicates of one method at one setting, with the rate of its plan."""

    experiment: str
    method: str
    algorithm: str
    family: str
    setting: Mapping[str, float]  # sizes, epsilon and choices of the plan, by axis
    strength: float
    delta: float
    relation: str
    mu: float | None  # of the budget
    quantity: str
    values: npt.NDArray[np.float64]  # one per replicate, or per group with one public randomness
    gap: float  # the true value is in [value, value + gap]
    upper: float  # upper bound of the rate on the expected value
    lower: float  # lower bound for every algorithm within the budget; 0 if unknown
    own_lower: float  # lower bound for every algorithm with the plan's stronger guarantee
    own_guarantee: str
    start: float  # risk of the public centre (the zero predictor)
    nonprivate: float  # risk without noise after the same number of steps
    exponents: Mapping[str, float]
    tight_on: str | None
    axes: frozenset[str]  # axes and grids to which the cell belongs
    root_seed: int
    trial: Trial
    in_regime: bool | None  # whether the leading term of the rate has these exponents
    law: float | None  # exact expected value
    searched: Mapping[str, Any] | None  # chosen, at_edge of the grid, candidates
    private: bool  # whether the plan has a finite epsilon
    number: int = 0  # row in the table of cells
    steps: int | None = None  # of the plan
    bounded_quantity: str = ""  # quantity of the rate

    @property
    def key_fields(self) -> dict[str, Any]:
        """The fields of a verdict that identify the method, the family and the experiment."""
        return {"experiment": self.experiment, "method": self.method, "family": self.family}

    @property
    def mean(self) -> float:
        """Mean over the replicates."""
        return float(self.values.mean())

    @property
    def standard_error(self) -> float:
        """Standard error of the mean, for at least two replicates."""
        return float(self.values.std(ddof=1)) / math.sqrt(self.values.size)

    @property
    def label(self) -> str:
        """Label of the measured quantity on the axis of a figure."""
        return QUANTITIES[self.quantity].label

    @property
    def is_finite(self) -> bool:
        """True if every value is finite."""
        return bool(np.isfinite(self.values).all())

    @property
    def is_minimax(self) -> bool:
        """True if the lower bounds hold on this family, not only on the worst problem."""
        return is_minimax(self.family, pure=self.delta == 0.0)

    @property
    def lower_bounds(self) -> dict[str, float]:
        """Lower bounds over the problem class, by the name of the guarantee."""
        budget = "(ε, δ)-DP" if self.delta > 0.0 else "ε-DP"
        kinds = {"Gaussian DP": "μ-Gaussian DP", "DP": "ε-DP"}
        own = kinds.get(self.own_guarantee.partition("-")[2], "Rényi DP")
        return {budget: self.lower} | ({own: self.own_lower} if self.own_guarantee else {})

    @property
    def starts_optimal(self) -> bool:
        """True if the public centre is the minimiser: the risk is then caused by noise alone."""
        return self.start <= self.gap

    @property
    def untuned(self) -> bool:
        """True if the hyperparameters are the best of a grid and not the choice of the theory."""
        return self.searched is not None

    @property
    def setting_key(self) -> str:
        """Text that is equal for cells with equal settings."""
        return str(sorted(self.setting.items()))

    @property
    def location(self) -> str:
        """Sizes, epsilon and strength in words."""
        strength = "" if self.strength == 1.0 else f", strength={self.strength:g}"
        sizes = (
            f"{name}={format_value(self.setting[name])}"
            for name in _SETTING
            if name in self.setting
        )
        return ", ".join(sizes) + strength


def cell_results(
    recorded: Recorded, trials: Collection[Trial] = (Trial.MEASURED,)
) -> tuple[CellResult, ...]:
    """Return the finished cells of these trials, sorted independently of the order of the rows."""
    runs = recorded.runs.sort_by([("cell", "ascending"), ("replicate", "ascending")])
    grouped_runs = runs.group_by("cell", use_threads=False).aggregate(
        [("replicate", "list"), ("value", "list")]
    )
    measured = {row["cell"]: row for row in grouped_runs.to_pylist()}
    rows = (row for row in recorded.cells.to_pylist() if row["trial"] in trials)
    groups = recorded.about.get("groups", {})
    cells = (
        _cell_result(row, measured[row["cell"]], groups.get(row["method"], 1))
        for row in rows
        if row["cell"] in measured
    )
    return tuple(sorted(cells, key=_sort_key))


def _sort_key(cell: CellResult) -> tuple[object, ...]:
    sizes = (cell.setting.get(name, 0) for name in _SETTING)
    names = cell.experiment, cell.method, cell.family
    return *names, *sizes, cell.strength, cell.setting_key, cell.trial, sorted(cell.axes)


def _cell_result(row: dict[str, Any], runs: dict[str, Any], group: int) -> CellResult:
    replicates = runs["replicate_list"]
    if len(set(replicates)) != len(replicates):
        raise ValueError(
            f"replicate must be distinct within a cell, got repeats in {row['method']} on "
            f"{row['family']}, n={row['n']}"
        )
    setting = json.loads(row["choices"] or "{}") | {name: row[name] for name in _SETTING}
    references: dict[str, Any] = {
        name: math.nan if row[column] is None else row[column]
        for name, column in _REFERENCE_COLUMNS.items()
    }
    rate = json.loads(row["plan"] or "{}").get("rate", {})
    stronger = rate.get("lower", ())[1:] if rate.get("quantity") == row["quantity"] else ()
    own_lower, own_guarantee = stronger[0] if stronger else (0.0, "")
    return CellResult(
        **{name: row[name] for name in _COLUMNS},
        **references,
        own_lower=own_lower,
        own_guarantee=own_guarantee,
        setting={name: value for name, value in setting.items() if value is not None},
        values=np.array(runs["value_list"], dtype=np.float64).reshape(-1, group).mean(axis=1),
        exponents=json.loads(row["exponents"] or "{}"),
        axes=_axes(row),
        trial=Trial(row["trial"]),
        searched=json.loads(row["searched"] or "null"),
        private=row["spent_epsilon_upper"] != math.inf,
        number=row["cell"],
        bounded_quantity=rate.get("quantity", ""),
    )


def _axes(row: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(filter(None, (row["axes"] or "").split(",")))


def cells_of_trial(cells: Iterable[CellResult], trial: Trial) -> list[CellResult]:
    """Return the cells of one trial."""
    return [cell for cell in cells if cell.trial is trial]


def grouped(items: Iterable[_T], key: Callable[[_T], _K]) -> dict[_K, list[_T]]:
    """Group ``items`` by ``key``, both in order of first appearance."""
    groups: dict[_K, list[_T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def swept_axes(cells: Iterable[CellResult]) -> list[str]:
    """Return the swept axes of the cells, without grids, in the order of tables and figures."""
    axes = frozenset[str]().union(*(cell.axes for cell in cells))
    return in_order(name for name in axes if " x " not in name)


def cells_along(cells: Iterable[CellResult], axis: str) -> dict[float, list[CellResult]]:
    """Group the cells of ``axis`` by its value, ascending, with one entry for each strength."""
    members = sorted(
        (cell for cell in cells if axis in cell.axes),
        key=lambda cell: (cell.setting[axis], cell.strength),
    )
    _check_one_trial(members)
    return grouped(members, lambda cell: float(cell.setting[axis]))


def worst(cells: Sequence[CellResult]) -> CellResult:
    """Return the cell with the largest mean over the strengths of a hard family; NaN is largest."""
    _check_one_trial(cells)
    return max(cells, key=lambda cell: math.inf if math.isnan(cell.mean) else cell.mean)


def worst_per_setting(cells: Iterable[CellResult]) -> list[CellResult]:
    """Return the worst cell for each method, family and setting."""
    groups = grouped(cells, lambda cell: (cell.method, cell.family, cell.setting_key))
    return [worst(group) for group in groups.values()]


def shares_of_zero_risk(cells: Iterable[CellResult]) -> list[float]:
    """Return the worst means divided by the risk of the public centre, where that is not zero."""
    largest = worst_per_setting(cells)
    return [cell.mean / cell.start for cell in largest if not cell.starts_optimal]


def _check_one_trial(cells: Iterable[CellResult]) -> None:
    trials = sorted({cell.trial for cell in cells})
    if len(trials) > 1:
        raise ValueError(f"cells must be of one trial, got {', '.join(trials)}")

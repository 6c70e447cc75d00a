"""What was measured, cell by cell, beside what was promised."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from privopt.lab.judge.verdict import ORACLE_TUNED
from privopt.lab.make.axes import format_value, in_order
from privopt.lab.make.cells import Trial
from privopt.lab.make.quantities import QUANTITIES, is_minimax
from privopt.lab.make.store import Recorded

_SETTING = ("n", "dim", "sparsity", "epsilon")
_PLAIN = (
    *("experiment", "method", "algorithm", "family", "strength", "delta", "relation", "mu"),
    *("upper", "lower", "tight_on", "root_seed", "quantity", "noise_factor", "in_regime", "law"),
)
_FACTS = {
    "optimum": "reference_value", "gap": "reference_gap", "start": "start_value",
    "nonprivate": "nonprivate_value",
}  # fmt: skip

_T = TypeVar("_T")
_K = TypeVar("_K", bound=Hashable)


@dataclass(frozen=True)
class CellResult:
    """One cell: what every replicate measured at one setting, and the rate of its plan."""

    experiment: str
    method: str
    algorithm: str
    family: str
    setting: Mapping[str, float]  # of every axis: sizes, epsilon, choices of the plan
    strength: float
    delta: float
    relation: str
    mu: float | None  # of the budget
    quantity: str
    values: npt.NDArray[np.float64]  # by replicate, or means of groups that share public randomness
    optimum: float  # F at the reference minimum, which risks are measured from
    gap: float  # the true value lies in [value, value + gap]
    upper: float  # bounds of the rate on the expected value
    lower: float  # of every algorithm within the budget; 0: none is known
    own_lower: float  # of every algorithm with the stronger guarantee that the plan has
    own_guarantee: str
    start: float  # at the public centre
    nonprivate: float  # of the twin without noise
    exponents: Mapping[str, float]
    tight_on: str | None
    axes: frozenset[str]  # and grids that the cell serves
    root_seed: int
    trial: Trial
    noise_factor: float  # what a control multiplies the noise by
    in_regime: bool | None  # whether the rate is where its exponents lead
    law: float | None  # the exact expected value
    searched: Mapping[str, Any] | None  # chosen, at_edge of the grid, candidates
    private: bool  # whether the plan guarantees any privacy
    number: int = 0  # of the row in the table of cells
    steps: int | None = None  # of the plan
    spoken_of: str = ""  # the quantity of its rate

    @property
    def names(self) -> dict[str, Any]:
        """As fields of a verdict."""
        return {"experiment": self.experiment, "method": self.method, "family": self.family}

    @property
    def mean(self) -> float:
        """Over the replicates."""
        return float(self.values.mean())

    @property
    def label(self) -> str:
        """Of what was measured, at an axis of a figure."""
        return QUANTITIES[self.quantity].label

    @property
    def is_finite(self) -> bool:
        """Whether every replicate is."""
        return bool(np.isfinite(self.values).all())

    @property
    def claims(self) -> bool:
        """Whether a bound is claimed, or a value is not finite, which refutes every theorem."""
        return math.isfinite(self.upper) or not self.is_finite

    @property
    def is_minimax(self) -> bool:
        """Whether the lower bounds hold on its family, and not only on the worst problem."""
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
        """Whether the public centre is the minimiser: the risk is then that of the noise alone."""
        return self.start <= self.gap

    @property
    def standard_error(self) -> float:
        """Of the mean; of at least two replicates."""
        return float(self.values.std(ddof=1)) / math.sqrt(self.values.size)

    @property
    def untuned(self) -> bool:
        """Whether the method's numbers are the best of a grid that knows no theory."""
        return self.searched is not None

    @property
    def named(self) -> str:
        """The method, which says so where the best of a grid was taken."""
        return f"{self.method} ({ORACLE_TUNED})" if self.untuned else self.method

    @property
    def choices(self) -> dict[str, float]:
        """What the plan was told beyond sizes and budget."""
        return {name: told for name, told in self.setting.items() if name not in _SETTING}

    @property
    def place(self) -> str:
        """Where it lies among the cells of its method and family, for people."""
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
    """The cells that were run in these trials, whatever the order of the rows."""
    runs = recorded.runs.sort_by([("cell", "ascending"), ("replicate", "ascending")])
    found = runs.group_by("cell", use_threads=False).aggregate(
        [("replicate", "list"), ("value", "list")]
    )
    measured = {row["cell"]: row for row in found.to_pylist()}
    rows = (row for row in recorded.cells.to_pylist() if row["trial"] in trials)
    groups = recorded.about.get("groups", {})
    cells = (
        _result(row, measured[row["cell"]], groups.get(row["method"], 1))
        for row in rows
        if row["cell"] in measured
    )
    return tuple(sorted(cells, key=_place_in_order))


class Refusal(NamedTuple):
    """A cell that was not run, and why."""

    experiment: str
    method: str
    family: str
    trial: Trial
    axes: frozenset[str]
    reason: str


def refusals(recorded: Recorded) -> tuple[Refusal, ...]:
    """The cells that were refused, of every trial, in the order of the table."""
    return tuple(
        Refusal(
            *(row["experiment"], row["method"], row["family"]),
            *(Trial(row["trial"]), _axes(row), row["refused"]),
        )
        for row in recorded.cells.to_pylist()
        if row["refused"] is not None
    )


def _place_in_order(cell: CellResult) -> tuple[object, ...]:
    named = cell.experiment, cell.method, cell.family
    sizes = (cell.setting.get(name, 0) for name in _SETTING)
    settings = str(sorted(cell.setting.items()))
    return *named, *sizes, cell.strength, settings, cell.trial, sorted(cell.axes)


def _result(row: dict[str, Any], runs: dict[str, Any], group: int) -> CellResult:
    replicates = runs["replicate_list"]
    if len(set(replicates)) != len(replicates):
        raise ValueError(
            f"replicate must be distinct within a cell, got repeats in {row['method']} on "
            f"{row['family']}, n={row['n']}"
        )
    choices = json.loads(row["choices"] or "{}")
    setting = {**choices, **{name: row[name] for name in _SETTING}}
    known: dict[str, Any] = {
        name: math.nan if row[x] is None else row[x] for name, x in _FACTS.items()
    }
    return CellResult(
        **{name: row[name] for name in _PLAIN},
        **known,
        **_own_lower(row),
        setting={name: value for name, value in setting.items() if value is not None},
        values=np.array(runs["value_list"], dtype=np.float64).reshape(-1, group).mean(axis=1),
        exponents=json.loads(row["exponents"] or "{}"),
        axes=_axes(row),
        trial=Trial(row["trial"]),
        searched=json.loads(row["searched"] or "null"),
        private=row["spent_epsilon_upper"] != math.inf,
        number=row["cell"],
        steps=row["steps"],
        spoken_of=json.loads(row["plan"] or "{}").get("rate", {}).get("quantity", ""),
    )


def _own_lower(row: Mapping[str, Any]) -> dict[str, Any]:
    """The lower bound of the stronger guarantee that the plan has, and that guarantee."""
    rate = json.loads(row["plan"] or "{}").get("rate", {})
    others = rate.get("lower", ())[1:] if rate.get("quantity") == row["quantity"] else ()
    lower, guarantee = others[0] if others else (0.0, "")
    return {"own_lower": lower, "own_guarantee": guarantee}


def _axes(row: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(filter(None, (row["axes"] or "").split(",")))


def of_trial(cells: Iterable[CellResult], trial: Trial) -> list[CellResult]:
    """The cells of one trial."""
    return [cell for cell in cells if cell.trial is trial]


def grouped(items: Iterable[_T], key: Callable[[_T], _K]) -> dict[_K, list[_T]]:
    """``items`` by ``key``, both in order of first appearance."""
    groups: dict[_K, list[_T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def swept_axes(cells: Iterable[CellResult]) -> list[str]:
    """The axes that some of the cells serve, grids apart, in the order of tables and figures."""
    served = frozenset[str]().union(*(cell.axes for cell in cells))
    return in_order(name for name in served if " x " not in name)


def along(cells: Iterable[CellResult], axis: str) -> dict[float, list[CellResult]]:
    """The cells that serve ``axis`` by its value, ascending; one entry per strength in each."""
    serving = sorted(
        (cell for cell in cells if axis in cell.axes),
        key=lambda cell: (cell.setting[axis], cell.strength),
    )
    _one_trial(serving)
    return grouped(serving, lambda cell: float(cell.setting[axis]))


def worst(cells: Sequence[CellResult]) -> CellResult:
    """The cell of largest mean: the maximum over a hard family's strengths. NaN is worst."""
    _one_trial(cells)
    return max(cells, key=lambda cell: math.inf if math.isnan(cell.mean) else cell.mean)


def left_of_zero(cells: Iterable[CellResult]) -> list[float]:
    """The mean at the worst strength over what the public centre has, by method and setting."""
    at = grouped(cells, lambda cell: (cell.method, cell.family, str(sorted(cell.setting.items()))))
    tops = (worst(same) for same in at.values())
    return [top.mean / top.start for top in tops if not top.starts_optimal]


def _one_trial(cells: Iterable[CellResult]) -> None:
    trials = sorted({cell.trial for cell in cells})
    if len(trials) > 1:
        raise ValueError(f"cells must be of one trial, got {', '.join(trials)}")

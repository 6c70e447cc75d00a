"""The cells of a results table: what was measured at one setting, beside what was promised."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["AXES", "Measured", "along", "grouped", "measured", "worst"]

AXES = ("n", "dim", "epsilon")

_KEYS = ("experiment", "algorithm", "family", "n", "dim", "epsilon", "strength")
_PER_REPLICATE = ("replicate", "excess_risk", "reference_gap")
_PER_CELL = (
    *("delta", "relation", "mu", "upper", "lower", "start_risk", "nonprivate_risk"),
    "reference_value",
    *("exponents", "tight_on", "axes", "root_seed", "plan"),
)

_RENAMED = ("exponents", "axes", "reference_value", "plan")

_T = TypeVar("_T")
_K = TypeVar("_K", bound=Hashable)


@dataclass(frozen=True)
class Measured:
    """One cell: every replicate's excess risk at one setting, and the rate of its plan.

    Attributes
    ----------
    risks : ndarray
        Excess risk by replicate, shape ``(replicates,)``, float64.
    optimum : float
        ``F`` at the reference minimum, which excess risks are measured from.
    gap : float
        Certified gap of the reference minimum: the true excess risk lies in
        ``[risk, risk + gap]``.
    upper, lower : float
        Bounds of the plan's rate on the expected excess risk.
    start_risk, nonprivate_risk : float
        Excess risk of the public centre and of the non-private twin.
    risk : {"empirical", "population"}
        Which risk is meant throughout.
    axes : frozenset of str
        The swept axes this cell serves.
    """

    experiment: str
    algorithm: str
    family: str
    n: int
    dim: int
    epsilon: float
    strength: float
    delta: float
    relation: str
    mu: float | None
    risks: npt.NDArray[np.float64]
    optimum: float
    gap: float
    upper: float
    lower: float
    start_risk: float
    nonprivate_risk: float
    exponents: Mapping[str, float]
    tight_on: str | None
    axes: frozenset[str]
    root_seed: int
    risk: str = "empirical"

    @property
    def mean(self) -> float:
        """Mean excess risk over the replicates."""
        return float(self.risks.mean())

    @property
    def claims(self) -> bool:
        """Whether a bound is claimed, or a risk is not finite, which refutes every theorem."""
        return math.isfinite(self.upper) or not bool(np.isfinite(self.risks).all())

    @property
    def noise_ratio(self) -> float:
        """``r = sqrt(dim)/(n mu)``, or ``dim/(n epsilon)`` for pure differential privacy."""
        if self.mu is None:
            return self.dim / (self.n * self.epsilon)
        return math.sqrt(self.dim) / (self.n * self.mu)

    @property
    def setting(self) -> tuple[int, int, float]:
        """``(n, dim, epsilon)``."""
        return self.n, self.dim, self.epsilon


def measured(table: pa.Table) -> tuple[Measured, ...]:
    """The cells of ``table``, ordered by their keys whatever the order of its rows.

    Raises
    ------
    ValueError
        If a column is missing, or a replicate stands twice in one cell.
    """
    columns = (*_KEYS, *_PER_REPLICATE, *_PER_CELL)
    missing = [name for name in columns if name not in table.column_names]
    if missing:
        raise ValueError(f"table must hold the columns of a sweep, missing {', '.join(missing)}")
    table = _plain(table.select(columns)).sort_by(
        [(name, "ascending") for name in (*_KEYS, "replicate")]
    )
    cells = table.group_by(list(_KEYS), use_threads=False).aggregate(
        [(name, "list") for name in _PER_REPLICATE] + [(name, "first") for name in _PER_CELL]
    )
    return tuple(_cell(row) for row in cells.to_pylist())


def _plain(table: pa.Table) -> pa.Table:
    """Dictionary-encoded columns as the values they stand for."""
    fields = [
        field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field
        for field in table.schema
    ]
    return table.cast(pa.schema(fields))


def _cell(row: dict[str, Any]) -> Measured:
    replicates = row["replicate_list"]
    if len(set(replicates)) != len(replicates):
        name = " ".join(f"{key}={row[key]}" for key in _KEYS)
        raise ValueError(f"replicate must be distinct within a cell, got repeats in {name}")
    first: dict[str, Any] = {name: row[f"{name}_first"] for name in _PER_CELL}
    risks = ("upper", "lower", "start_risk", "nonprivate_risk")
    first |= {name: math.nan for name in risks if first[name] is None}
    gaps = np.array(row["reference_gap_list"], dtype=np.float64)
    return Measured(
        **{name: row[name] for name in _KEYS},
        **{name: first[name] for name in _PER_CELL if name not in _RENAMED},
        risks=np.array(row["excess_risk_list"], dtype=np.float64),
        optimum=first["reference_value"],
        gap=float(gaps.max()),
        exponents=json.loads(first["exponents"] or "{}"),
        risk=json.loads(first["plan"]).get("risk", "empirical"),
        axes=frozenset(filter(None, (first["axes"] or "").split(","))),
    )


def grouped(items: Iterable[_T], key: Callable[[_T], _K]) -> dict[_K, list[_T]]:
    """``items`` by ``key``, both in order of first appearance."""
    groups: dict[_K, list[_T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def along(cells: Iterable[Measured], axis: str) -> dict[float, list[Measured]]:
    """The cells that serve ``axis`` by its value, ascending; one entry per strength in each."""
    serving = sorted(
        (cell for cell in cells if axis in cell.axes),
        key=lambda cell: (getattr(cell, axis), cell.strength),
    )
    return grouped(serving, lambda cell: float(getattr(cell, axis)))


def worst(cells: Iterable[Measured]) -> Measured:
    """The cell of largest mean: the maximum over a hard family's strengths. NaN is worst."""
    return max(cells, key=lambda cell: math.inf if math.isnan(cell.mean) else cell.mean)

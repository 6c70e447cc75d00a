"""What was measured: the settings of recorded experiments, and the nearest to a plan."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from privopt.core import Plan

_COLUMNS = (
    *("cell", "experiment", "method", "algorithm", "family", "n", "dim", "epsilon", "delta"),
    *("choices", "quantity", "upper", "searched", "start_value", "trial", "refused"),
)
_NAMES = ("experiment", "family", "algorithm", "method")
_SIZES = ("n", "dim", "epsilon")
_NUMBERS = {"steps", "rate", "batch_size"}  # choices that leave a method what it is
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Plate:
    """One setting of a recorded experiment, at the worst strength of its instance.

    ``ratio`` is the mean over the runs over the certified bound of the same plan; ``start`` the
    same mean over the risk of the public centre; ``tuned`` over that of the oracle-tuned twin,
    None where the experiment has none.
    """

    experiment: str
    family: str
    algorithm: str
    method: str
    n: int
    dim: int
    epsilon: float
    ratio: float
    start: float
    tuned: float | None

    def __str__(self) -> str:
        method = "" if self.method == self.algorithm else f", {self.method}"
        return f"{self.experiment} on {self.family}{method}"


@dataclass(frozen=True)
class Plates:
    """The recorded experiments in a folder; ``missing`` says why there are none.

    Read are the tables ``*/cells.parquet`` and, of the nearest, ``runs.parquet``.
    """

    folder: Path
    missing: str = field(init=False, default="")

    def __post_init__(self) -> None:
        try:
            import pyarrow  # noqa: F401
        except ModuleNotFoundError:
            object.__setattr__(self, "missing", "pyarrow, which reads them, is not installed")
        else:
            if not self._cells:
                object.__setattr__(self, "missing", f"{self.folder} has no recorded experiment")

    def nearest(self, plan: Plan, loss: str | None = None) -> Plate | None:
        """The setting of the same algorithm and quantity that is nearest to a plan.

        Delta is 0 in both or in neither. First count the plates of the ``loss``, where there are
        any; then those whose choices are the defaults, but for numbers of steps and rows; then the
        distance of ``(ln n, ln d, ln epsilon)``.
        """
        kind = (plan.algorithm.name, plan.rate.quantity.value, plan.budget.delta == 0.0)
        sizes, found = _sizes(plan), self._cells.get(kind, ())
        if not found:
            return None

        def far(row: Row) -> tuple[bool, int, float]:
            logs = (math.log(sizes[name] / row[name]) for name in _SIZES)
            other = loss is None or loss not in row["family"]
            return other, len(json.loads(row["choices"]).keys() - _NUMBERS), math.hypot(*logs)

        return self._plate(min(found, key=far))

    def _plate(self, nearest: Row) -> Plate:
        """The worst strength of a setting, beside its twin."""
        setting = ("method", "family", "choices", "delta", *_SIZES)
        kept = self._means(nearest["experiment"])
        kind = (nearest["algorithm"], nearest["quantity"], nearest["delta"] == 0.0)
        same = [
            row for row in self._cells[kind] if row["experiment"] == nearest["experiment"]
            and all(row[name] == nearest[name] for name in setting)
        ]  # fmt: skip
        worst = max(same, key=lambda row: kept[row["cell"]])
        twins = [
            kept[row["cell"]] for row in self._twins.get(nearest["experiment"], ())
            if all(row[name] == nearest[name] for name in ("algorithm", "family", *_SIZES))
        ]  # fmt: skip
        mean = kept[worst["cell"]]
        return Plate(
            **{name: nearest[name] for name in (*_NAMES, *_SIZES)},
            ratio=mean / worst["upper"],
            start=mean / worst["start_value"] if worst["start_value"] else math.nan,
            tuned=mean / max(twins) if twins else None,
        )

    @cached_property
    def _rows(self) -> list[Row]:
        """The measured cells that have a bound, of all experiments."""
        import pyarrow.parquet as pq

        rows: list[Row] = []
        for path in sorted(self.folder.glob("*/cells.parquet")):
            if {*_COLUMNS} <= {*pq.read_schema(path).names}:  # no study
                rows += _read(path, _COLUMNS).to_pylist()
        return [row for row in rows if _measured(row) and row["upper"] < math.inf]

    @cached_property
    def _cells(self) -> dict[tuple[str, str, bool], list[Row]]:
        """Those at numbers that theory or the experiment has set, by what was measured."""
        found: dict[tuple[str, str, bool], list[Row]] = {}
        for row in self._rows:
            if row["searched"] is None:
                kind = (row["algorithm"], row["quantity"], row["delta"] == 0.0)
                found.setdefault(kind, []).append(row)
        return found

    @cached_property
    def _twins(self) -> dict[str, list[Row]]:
        """Those at the best of a grid, oracle-tuned, by experiment."""
        found: dict[str, list[Row]] = {}
        for row in self._rows:
            if row["searched"] is not None:
                found.setdefault(row["experiment"], []).append(row)
        return found

    def _means(self, experiment: str) -> dict[int, float]:
        """Of every cell of an experiment, over its runs."""
        runs = _read(self.folder / experiment / "runs.parquet", ("cell", "value"))
        means = runs.group_by("cell").aggregate([("value", "mean")])
        return dict(zip(means["cell"].to_pylist(), means["value_mean"].to_pylist(), strict=True))


def _read(path: Path, columns: Sequence[str]) -> Any:
    """Without Arrow's threads, which may outlive the interpreter: the process then aborts."""
    import pyarrow.parquet as pq

    return pq.ParquetFile(path, pre_buffer=False).read([*columns], use_threads=False)


def _measured(row: Row) -> bool:
    """Whether it is a run of a plan, and neither a control nor repeated with a second key."""
    return row["trial"] == "measured" and row["refused"] is None


def _sizes(plan: Plan) -> dict[str, float]:
    facts = plan.problem_class
    return {"n": facts.n, "dim": facts.dim, "epsilon": plan.budget.epsilon}

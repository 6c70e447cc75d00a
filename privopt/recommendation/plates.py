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
from privopt.shipped import shipped

MEASURED = "measured.parquet"

_SETTING = (
    *("experiment", "method", "algorithm", "family", "n", "dim", "epsilon", "delta"),
    *("choices", "quantity"),
)
_KEPT = (*_SETTING, "upper", "start_value")
_COLUMNS = ("cell", *_KEPT, "searched", "trial", "refused")
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

    Read are the tables ``*/cells.parquet`` and ``*/runs.parquet`` or, without them, the small
    table ``measured.parquet`` that :meth:`write` makes of them. Without a folder it is ``results``
    here or, if nothing is recorded there, the one that comes with the package.
    """

    folder: Path = Path("results")
    missing: str = field(init=False, default="")

    def __post_init__(self) -> None:
        try:
            import pyarrow  # noqa: F401
        except ModuleNotFoundError:
            object.__setattr__(self, "missing", "pyarrow, which reads them, is not installed")
        else:
            if not self._rows:
                object.__setattr__(self, "missing", f"{self.folder} has no recorded experiment")

    @classmethod
    def of(cls, folder: Path | str | None) -> Plates:
        """Return those of a folder, or of the default one if it is None."""
        if folder is not None:
            return cls(Path(folder))
        here = cls()
        return cls(shipped("results")) if here.missing else here

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

    def write(self) -> None:
        """Write ``measured.parquet``: the settings with their means, without the runs."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        table, path = pa.Table.from_pylist(self._rows), self.folder / MEASURED
        if self._rows and not (path.is_file() and _read(path).equals(table)):
            pq.write_table(table, path, compression="zstd")

    def _plate(self, nearest: Row) -> Plate:
        """Return a setting beside its twin."""
        same = ("experiment", "algorithm", "family", *_SIZES)
        twins = [row["mean"] for row in self._twins if all(row[x] == nearest[x] for x in same)]
        mean, start = nearest["mean"], nearest["start_value"]
        return Plate(
            **{name: nearest[name] for name in (*_NAMES, *_SIZES)},
            ratio=mean / nearest["upper"],
            start=mean / start if start else math.nan,
            tuned=mean / max(twins) if twins else None,
        )

    @cached_property
    def _rows(self) -> list[Row]:
        """Every measured setting that has a bound, at its worst strength."""
        tables = [path.parent for path in sorted(self.folder.glob("*/cells.parquet"))]
        if tables:
            return [row for folder in tables for row in _worst(folder)]
        path = self.folder / MEASURED
        rows: list[Row] = _read(path).to_pylist() if path.is_file() else []
        return rows

    @cached_property
    def _cells(self) -> dict[tuple[str, str, bool], list[Row]]:
        """Those at numbers that theory or the experiment has set, by what was measured."""
        found: dict[tuple[str, str, bool], list[Row]] = {}
        for row in self._rows:
            if not row["tuned"]:
                kind = (row["algorithm"], row["quantity"], row["delta"] == 0.0)
                found.setdefault(kind, []).append(row)
        return found

    @cached_property
    def _twins(self) -> list[Row]:
        """Those at the best of a grid, oracle-tuned."""
        return [row for row in self._rows if row["tuned"]]


def _worst(folder: Path) -> list[Row]:
    """Return the settings of one experiment, each at the strength of the largest mean.

    Left out are controls, repetitions with a second key, and plans without a bound.
    """
    import pyarrow.parquet as pq

    if not {*_COLUMNS} <= {*pq.read_schema(folder / "cells.parquet").names}:  # a study
        return []
    rows = _read(folder / "cells.parquet", _COLUMNS).to_pylist()
    rows = [row for row in rows if _measured(row) and row["upper"] < math.inf]
    if not rows:
        return []
    runs = _read(folder / "runs.parquet", ("cell", "value"))
    means = runs.group_by("cell", use_threads=False).aggregate([("value", "mean")])
    mean = dict(zip(means["cell"].to_pylist(), means["value_mean"].to_pylist(), strict=True))
    found: dict[tuple[object, ...], Row] = {}
    for row in rows:
        told = {name: row[name] for name in _KEPT}
        told |= {"tuned": row["searched"] is not None, "mean": mean[row["cell"]]}
        setting = tuple(told[name] for name in _SETTING)
        if setting not in found or found[setting]["mean"] < told["mean"]:
            found[setting] = told
    return list(found.values())


def _read(path: Path, columns: Sequence[str] | None = None) -> Any:
    """Without Arrow's threads, which may outlive the interpreter: the process then aborts."""
    import pyarrow.parquet as pq

    names = None if columns is None else [*columns]
    return pq.ParquetFile(path, pre_buffer=False).read(names, use_threads=False)


def _measured(row: Row) -> bool:
    """Whether it is a run of a plan, and neither a control nor repeated with a second key."""
    return row["trial"] == "measured" and row["refused"] is None


def _sizes(plan: Plan) -> dict[str, float]:
    facts = plan.problem_class
    return {"n": facts.n, "dim": facts.dim, "epsilon": plan.budget.epsilon}

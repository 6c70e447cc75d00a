"""Measured risks of recorded experiments, and the recorded setting nearest to a plan."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd

from privopt.core import Plan
from privopt.shipped import shipped

SETTING = [
    *("experiment", "family", "method", "n", "dim", "epsilon"),
    *("ratio", "start_ratio", "tuned_ratio"),
]
"""Columns of :func:`nearest_setting`."""

_SETTING = [
    *("experiment", "method", "algorithm", "family", "n", "dim", "epsilon", "delta"),
    *("choices", "quantity"),
]
_COLUMNS = [*_SETTING, "upper", "start_value", "tuned", "mean"]
_SIZES = ["n", "dim", "epsilon"]
_SAME_METHOD = {"steps", "rate", "batch_size"}  # choices that do not make another method


def read_measured(folder: Path | str | None = None) -> pd.DataFrame:
    """Return all recorded settings that have a bound, each at its worst strength.

    The tables ``*/cells.parquet`` and ``*/runs.parquet`` in the folder are read. Without them, the
    small table ``measured.parquet`` is read, see :func:`write_measured`. The default folder is
    ``results`` or, if it has no records, the one that comes with the package. The frame is empty
    without any records. ``mean`` is the mean over the runs, and ``tuned`` is True for the
    best of a grid.
    """
    if folder is None:
        here = read_measured("results")
        return here if len(here) else read_measured(shipped("results"))
    folder = Path(folder)
    tables = [path.parent for path in sorted(folder.glob("*/cells.parquet"))]
    frames = [frame for each in tables if len(frame := _worst_settings(each))]
    if frames:
        return pd.concat(frames, ignore_index=True)
    path = folder / "measured.parquet"
    return _read(path) if path.is_file() and not tables else pd.DataFrame(columns=_COLUMNS)


def write_measured(folder: Path | str) -> None:
    """Write ``measured.parquet``: the recorded settings with their means, without the runs.

    A table with the same content is not written again.
    """
    path, measured = Path(folder) / "measured.parquet", read_measured(folder)
    if len(measured) and not (path.is_file() and _read(path).equals(measured)):
        measured.to_parquet(path, compression="zstd", index=False)


def nearest_setting(
    plan: Plan, measured: pd.DataFrame, loss: str | None = None
) -> dict[str, object] | None:
    """Return the recorded setting of the same algorithm and quantity that is nearest to a plan.

    Delta is 0 in both or in neither. Settings with the ``loss`` come first. The next criterion is
    the number of choices, except numbers of steps and rows, that differ from the defaults. The last
    is the distance of ``(ln n, ln d, ln epsilon)``.

    Returns
    -------
    dict or None
        ``experiment``, ``family``, ``method``, ``n``, ``dim``, ``epsilon``; ``ratio`` of the
        measured mean to the bound; ``start_ratio`` to the risk of the default output; and
        ``tuned_ratio`` to the risk of the oracle-tuned method, NaN without such a method.
    """
    same = (measured["algorithm"] == plan.algorithm.name) & (
        measured["quantity"] == plan.rate.quantity.value
    )
    same &= (measured["delta"] == 0.0) == (plan.budget.delta == 0.0)
    settings = measured[same & ~measured["tuned"].astype(bool)]
    if not len(settings):
        return None
    facts = plan.problem_class
    sizes = np.log(np.array([facts.n, facts.dim, plan.budget.epsilon]))
    distance = np.linalg.norm(np.log(settings[_SIZES].to_numpy(float)) - sizes, axis=1)
    choices = settings["choices"].map(lambda text: len(json.loads(text).keys() - _SAME_METHOD))
    other = settings["family"].map(lambda family: loss is None or loss not in family)
    order = np.lexsort((distance, choices, other))
    nearest = settings.iloc[int(order[0])]
    key = ["experiment", "algorithm", "family", *_SIZES]
    tuned = measured[measured["tuned"].astype(bool) & (measured[key] == nearest[key]).all(axis=1)]
    mean, start = nearest["mean"], nearest["start_value"]
    return {
        **nearest[["experiment", "family", "method", *_SIZES]].to_dict(),
        "ratio": mean / nearest["upper"],
        "start_ratio": mean / start if start else math.nan,
        "tuned_ratio": mean / tuned["mean"].max() if len(tuned) else math.nan,
    }


def _worst_settings(folder: Path) -> pd.DataFrame:
    """Return the settings of one experiment, each at the strength with the largest mean.

    Controls, second keys, refused plans and plans without a bound are left out.
    """
    import pyarrow.parquet as pq

    needed = {*_COLUMNS, "cell", "searched", "trial", "refused"} - {"tuned", "mean"}
    if not needed <= {*pq.read_schema(folder / "cells.parquet").names}:  # a table of an analysis
        return pd.DataFrame(columns=_COLUMNS)
    cells = _read(folder / "cells.parquet", sorted(needed))
    measured = (cells["trial"] == "measured") & cells["refused"].isna()
    cells = cells[measured & (cells["upper"] < math.inf)]
    runs = _read(folder / "runs.parquet", ["cell", "value"])
    means = runs.groupby("cell")["value"].mean()
    cells = cells.assign(tuned=cells["searched"].notna(), mean=cells["cell"].map(means))
    worst = cells.groupby(_SETTING, sort=False)["mean"].idxmax()
    return cells.loc[worst, _COLUMNS].reset_index(drop=True)


def _read(path: Path, columns: list[str] | None = None) -> pd.DataFrame:
    """Return a Parquet table, read without threads of Arrow.

    Such threads may outlive the interpreter; the process then aborts.
    """
    return pd.read_parquet(path, columns=columns, use_threads=False, pre_buffer=False)

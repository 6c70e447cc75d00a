"""Recommendation: default plans ranked by certified bound, with the nearest measured risks."""

from __future__ import annotations

import json
import math
import warnings
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from privopt.algorithms import ALGORITHMS, output_perturbation
from privopt.arguments import checked, instance, positive_number
from privopt.comparison.plans import (
    Algorithms,
    plans,
    private_algorithms,
    problem_class_of,
    provided,
)
from privopt.core import Plan
from privopt.shipped import shipped
from privopt.spec import Budget, ProblemClass, Relation
from privopt.theory import Quantity

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

N_RANGE = (10, 2_000_000_000)
EPSILON_RANGE = (1e-3, 100.0)

_TUNED = 2.0  # a default with more than this multiple of the oracle-tuned risk gets a remark
_CLOSE = 1.25  # a method without batches replaces the best one within this factor of its bound
_WORTH = 0.8  # an alternative is reported if it leaves at most this share of the best bound
_NEEDS = {
    "linear_model": "losses of one linear prediction",
    "smoothing": "losses with a Moreau envelope",
    "mean": "means of records",
    "squares": "squared losses of linear predictions",
}


@checked
def recommend(
    problem_class: ProblemClass,
    budget: Budget,
    *,
    loss: str | None = None,
    algorithms: Algorithms = None,
    results: Path | str | None = None,
) -> pd.DataFrame:
    """Return the default plans of :func:`plans`, ranked by certified bound.

    No algorithm is run and no data are read. A bound holds for the worst problem of the class. In
    recorded experiments the risk is 0.05 to 0.8 of it, depending on the method, so the order of the
    measured risks differs; both ranks are given. Bounds on different quantities are ranked
    separately.

    Parameters
    ----------
    problem_class : ProblemClass
        :func:`privopt.comparison.problem_class_of` returns the class of a named loss.
    budget : Budget
    loss : str, optional
        A name in :data:`privopt.comparison.LOSSES`. Methods that do not support it are refused, and
        recorded experiments with this loss come first. By default the requirements of a method on
        the loss are remarks.
    algorithms : iterable of str, or "all"
        Default: as for :func:`plans`.
    results : path, optional
        Folder of recorded experiments. Default: ``results`` or, if it has no records, the one that
        comes with the package.

    Returns
    -------
    DataFrame
        The columns of :func:`plans`, refused plans last; the columns of :func:`nearest_setting`
        with the prefix ``nearest_``; ``measured``, an estimate and no guarantee: the bound times
        ``nearest_ratio``, missing for a vacuous bound; ``remarks``; and ``rank`` and
        ``rank_measured`` within a quantity.

    Examples
    --------
    >>> import privopt
    >>> facts = privopt.ProblemClass(n=10**5, dim=100, lipschitz=1.0, radius=10.0, smoothness=0.25)
    >>> budget = privopt.Budget(epsilon=1.0, delta=1e-10, relation="replace_one")
    >>> table = recommend(facts, budget, algorithms=["dp_gd", "output_perturbation"])
    >>> table[["name", "bound"]].round(4).values.tolist()
    [['dp_gd', 0.0176], ['output_perturbation', 0.1173]]
    """
    table = plans(problem_class, budget, algorithms, loss=loss)
    recorded = read_measured(results)
    is_ranked = table["refused"] == ""
    nearest = [
        (nearest_setting(row["plan"], recorded, loss) if row["refused"] == "" else None) or {}
        for _, row in table.iterrows()
    ]
    vacuous = table["bound"] >= problem_class.lipschitz * problem_class.radius
    settings = pd.DataFrame(nearest, index=table.index, columns=SETTING).add_prefix("nearest_")
    table = table.join(settings)
    table["measured"] = (table["bound"] * settings["nearest_ratio"]).mask(vacuous)
    table["remarks"] = [
        _remarks(row["plan"], setting, loss, vacuous=vacuous[place]) if is_ranked[place] else ()
        for (place, row), setting in zip(table.iterrows(), nearest, strict=True)
    ]
    quantities = [each.value for each in Quantity]
    table["order"] = [
        (quantities.index(row["quantity"]), row["bound"], row["plan"].rate.uncapped, row["name"])
        if is_ranked[place]
        else (len(quantities), place, 0.0, "")
        for place, row in table.iterrows()
    ]
    table = table.sort_values("order", ignore_index=True).drop(columns="order")
    by_quantity = table[table["refused"] == ""].groupby("quantity")
    table["rank"] = by_quantity.cumcount() + 1
    table["rank_measured"] = by_quantity["measured"].rank(method="first")
    return table.astype({"rank": "Int64", "rank_measured": "Int64"})


def _remarks(
    plan: Plan, nearest: dict[str, Any], loss: str | None, *, vacuous: bool
) -> tuple[str, ...]:
    needs = [_NEEDS[each] for each in sorted(plan.requires & _NEEDS.keys()) if loss is None]
    remarks = [f"only for {' and '.join(needs)}"] if needs else []
    if (bound := _unprojected(plan, loss)) < plan.rate.upper:
        remarks.append(f"bound {bound:.2g} without projection (constraint='none')")
    if vacuous:
        remarks.append("vacuous: the bound is no smaller than that of the default output")
    if nearest and nearest["start_ratio"] >= 1.0:
        remarks.append("no better than the default output in its nearest experiment")
    if nearest and nearest["tuned_ratio"] > _TUNED:
        ratio = f"{nearest['tuned_ratio']:.2g}"
        remarks.append(f"{ratio} times the oracle-tuned risk in its nearest experiment")
    return tuple(remarks)


def _unprojected(plan: Plan, loss: str | None) -> float:
    """Return the bound of output perturbation without projection; infinite if it does not apply."""
    facts = plan.problem_class
    applies = plan.algorithm is ALGORITHMS["output_perturbation"] and bool(facts.smoothness)
    if not applies or loss is None or "linear_model" not in provided(loss, facts):
        return math.inf
    return output_perturbation(facts, plan.budget, constraint="none").rate.upper


def representative(ranking: pd.DataFrame) -> pd.Series[Any] | None:
    """Return the best plan without batches if its bound is close to the best one, else the best.

    Noise of subsampled steps takes long to calibrate. Close is a bound within a quarter.
    """
    ranked = ranking[ranking["refused"] == ""]
    if not len(ranked):
        return None
    best = ranked.iloc[0]
    for _, row in ranked[ranked["quantity"] == best["quantity"]].iterrows():
        if not row["plan"].algorithm.gathers and row["bound"] <= _CLOSE * best["bound"]:
            return row
    return best


class Reach(NamedTuple):
    """The smallest numbers of two digits at which the bound of a replanned method is ``target``.

    ``n`` and ``epsilon`` change separately, at the same delta. None: no value in ``N_RANGE`` or
    ``EPSILON_RANGE`` suffices.
    """

    name: str
    target: float
    n: int | None
    epsilon: float | None


def reach(plan: Plan, target: float) -> Reach:
    """Return the smallest ``n`` and the smallest ``epsilon`` at which the bound is ``target``.

    Examples
    --------
    >>> import privopt
    >>> facts = privopt.ProblemClass(n=10**5, dim=100, lipschitz=1.0, radius=10.0, smoothness=0.25)
    >>> budget = privopt.Budget(epsilon=1.0, delta=1e-10, relation="replace_one")
    >>> reach(privopt.dp_gd(facts, budget), 0.01)
    Reach(name='dp_gd', target=0.01, n=180000, epsilon=1.9)
    """
    instance("plan", plan, Plan)
    target = positive_number("target", target)

    def suffices(facts: ProblemClass, budget: Budget) -> bool:
        try:
            with warnings.catch_warnings():  # delta may exceed 1/n at a large n
                warnings.simplefilter("ignore")
                return plan.algorithm.plan(facts, budget).rate.upper <= target
        except ValueError:
            return False

    def guess(name: str, value: float) -> float:
        slope = plan.rate.slope(name)
        if slope > -0.01 or math.isinf(plan.rate.uncapped):
            return value
        return value * (target / plan.rate.uncapped) ** (1.0 / slope)

    facts, budget = plan.problem_class, plan.budget
    n = smallest(
        lambda n: suffices(replace(facts, n=int(n)), budget), guess("n", facts.n), *N_RANGE
    )
    epsilon = smallest(
        lambda epsilon: suffices(facts, replace(budget, epsilon=epsilon)),
        guess("epsilon", budget.epsilon),
        *EPSILON_RANGE,
    )
    return Reach(plan.algorithm.name, target, None if n is None else int(n), epsilon)


def smallest(holds: Callable[[float], bool], near: float, low: float, high: float) -> float | None:
    """Return the smallest number of two digits in ``[low, high]`` for which ``holds`` is True.

    ``holds`` is monotone. The result is None if ``holds(high)`` is False. The search bisects
    windows around ``near`` of increasing width, because ``holds`` plans a run.

    Examples
    --------
    >>> smallest(lambda x: x * x >= 2.0, near=30.0, low=0.01, high=100.0)
    1.5
    """
    powers = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)))
    grid = [float(f"{digits}e{power}") for power in powers for digits in range(10, 100)]
    numbers = [number for number in [*grid, high] if low <= number <= high]
    middle, width, holds = bisect_left(numbers, near), 2, cache(holds)
    while True:
        first, last = max(middle - width, 0), min(middle + width, len(numbers))
        place = bisect_left(numbers, True, first, last, key=holds)
        if first < place < last or place == first == 0:
            return numbers[place]
        if place == last == len(numbers):
            return None
        width *= 4


def alternatives(ranking: pd.DataFrame, loss: str | None = None) -> pd.DataFrame:
    """Return assumptions that reduce the best bound of a ranking by at least a fifth.

    Planned are the method of :func:`representative` and methods without batches that have no bound
    without the assumption. ``loss`` is the argument of :func:`recommend`.

    Returns
    -------
    DataFrame
        ``assumption``; ``name`` of the best method under it; its ``bound``; and ``share``, the
        bound over the best bound of the ranking.
    """
    columns = ["assumption", "name", "bound", "share"]
    row = representative(ranking)
    if row is None:
        return pd.DataFrame(columns=columns)
    best = ranking.iloc[0]
    known = best["plan"]
    others = [name for name in private_algorithms() if not ALGORITHMS[name].gathers]
    table = plans(known.problem_class, known.budget, others, loss=loss)
    names = [row["name"], *table.loc[table["refused"] != "", "name"]]
    rows = []
    for assumption, facts, budget in _assumptions(best["plan"], best["bound"], loss):
        table = plans(facts, budget, names, loss=loss)
        table = table[(table["refused"] == "") & (table["quantity"] == best["quantity"])]
        if len(table):
            bound, name = min(zip(table["bound"], table["name"], strict=True))
            rows.append((assumption, name, bound, bound / best["bound"]))
    return pd.DataFrame([row for row in rows if row[-1] <= _WORTH], columns=columns)


def _assumptions(
    plan: Plan, bound: float, loss: str | None
) -> list[tuple[str, ProblemClass, Budget]]:
    """Return assumptions in words, each with its problem class and budget."""
    facts, budget = plan.problem_class, plan.budget
    result: list[tuple[str, ProblemClass, Budget]] = []
    if math.isfinite(half := 0.5 * facts.radius):
        sizes: dict[str, Any] = {"n": facts.n, "dim": facts.dim, "sparsity": facts.sparsity}
        smaller = problem_class_of(loss, radius=half, **sizes) if loss else None
        text = f"a public bound |w| <= {half:g}"
        result.append((text, smaller or replace(facts, radius=half), budget))
    if budget.delta == 0.0:
        delta = 1.0 / facts.n**2
        result.append((f"delta = {delta:.3g} in place of 0", facts, replace(budget, delta=delta)))
    if facts.smoothness is None and math.isfinite(facts.lipschitz):
        # Rounding a kink over h costs L^2 h/2.
        smooth = float(f"{facts.lipschitz**2 / bound:.1g}")
        text = f"smoothness {smooth:g}, kinks rounded"
        result.append((text, replace(facts, smoothness=smooth), budget))
    if budget.relation is Relation.REPLACE_ONE:
        zero_out = replace(budget, relation=Relation.ZERO_OUT)
        result.append(("zero_out in place of replace_one", facts, zero_out))
    return result


# --- recorded experiments -------------------------------------------------------------------------


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
    tables = sorted(folder.resolve().glob("*/cells.parquet"))
    settings = [_worst_settings(path, path.stat().st_mtime_ns) for path in tables]
    frames = [frame for frame in settings if len(frame)]
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


@cache
def _worst_settings(path: Path, written: int) -> pd.DataFrame:
    """Return the settings of one experiment, each at the strength with the largest mean.

    Controls, second keys, refused plans and plans without a bound are left out. A table is read
    again if the time at which it was ``written`` changes.
    """
    del written
    import pyarrow.parquet as pq

    needed = {*_COLUMNS, "cell", "searched", "trial", "refused"} - {"tuned", "mean"}
    if not needed <= {*pq.read_schema(path).names}:  # a table of an analysis
        return pd.DataFrame(columns=_COLUMNS)
    cells = _read(path, sorted(needed))
    measured = (cells["trial"] == "measured") & cells["refused"].isna()
    cells = cells[measured & (cells["upper"] < math.inf)]
    runs = _read(path.with_name("runs.parquet"), ["cell", "value"])
    means = runs.groupby("cell")["value"].mean()
    cells = cells.assign(tuned=cells["searched"].notna(), mean=cells["cell"].map(means))
    worst = cells.groupby(_SETTING, sort=False)["mean"].idxmax()
    return cells.loc[worst, _COLUMNS].reset_index(drop=True)


def _read(path: Path, columns: list[str] | None = None) -> pd.DataFrame:
    """Return a Parquet table, read without threads of Arrow.

    Such threads may outlive the interpreter; the process then aborts.
    """
    return pd.read_parquet(path, columns=columns, use_threads=False, pre_buffer=False)

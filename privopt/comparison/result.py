"""Result of a comparison: means with intervals, winners, fitted exponents, tables and a figure."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from privopt.lab import Recorded, read
from privopt.lab.evaluation.cells import CellResult, cell_results, grouped
from privopt.lab.evaluation.estimates import Estimate, mean_interval
from privopt.lab.plotting.notation import symbol
from privopt.lab.runner.store import read_provenance

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_WIDTH = 80  # columns of a table
_COLUMNS = 5  # values of the axis side by side
_ALPHA = 0.025  # error probability of each end of an interval
_REGRESSION = re.compile("(logistic|softmax|quantile)$")
_Runs = NDArray[np.float64]  # shape (data sets, runs)


class Winner(NamedTuple):
    """The method with the smallest mean at one value of the axis, or a tie.

    ``least`` has the smallest mean. ``margin`` is the mean difference of the next method to it,
    with the interval of that difference. ``ties`` are the methods that do not differ significantly
    from ``least``. ``winner`` is ``least``, or ``"tie"`` if there are ties.
    """

    value: float | None
    winner: str
    least: str
    margin: Estimate
    ties: tuple[str, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Measured risks of several methods, as returned by :func:`privopt.compare`.

    Attributes
    ----------
    recorded : Recorded
        Tables of the experiment.
    axis : str or None
        The swept axis.
    points : DataFrame
        One row per method and value of the axis, ordered by value and mean: ``value``, ``method``;
        ``mean``, ``lower``, ``upper``: mean with its 95 % interval; ``low``, ``high``: 10 % and
        90 % quantiles of the runs; ``sd_keys``, ``sd_data``: standard deviations between keys and
        between data sets; ``bound``, the upper bound on the mean, infinite if there is none, and
        ``bound_on``, the quantity that the theorem bounds; ``lower_bound`` of all methods within
        the budget; ``zero``, the mean of the default output; ``nonprivate``, gradient descent
        without noise; ``steps``; ``tuned``, True for oracle-tuned methods; ``exponent`` of the
        bound along the axis; and ``seconds`` per run without compilation.
    runs : mapping
        Risks by value and method, of shape (data sets, runs). Runs that share public randomness
        are averaged.
    refused : dict
        Reasons of the methods without any result.
    limits : mapping
        Largest numbers of steps by method.

    Examples
    --------
    >>> import jax, privopt
    >>> comparison = privopt.compare(
    ...     "sparse_mean", ["projection_mechanism", "dp_gd"], n=200, dim=8, replicates=4,
    ...     data_sets=2, key=jax.random.key(0), progress=lambda event: None,
    ...     budget=privopt.Budget(epsilon=1.0, delta=1e-5, relation="zero_out"),
    ... )
    >>> sorted(comparison.points["method"])
    ['dp_gd', 'projection_mechanism']
    >>> comparison.frame().shape[0]
    8
    """

    recorded: Recorded
    axis: str | None
    points: pd.DataFrame
    runs: Mapping[tuple[float | None, str], _Runs]
    refused: Mapping[str, str]
    limits: Mapping[str, int]

    @classmethod
    def of(cls, folder: Path, axis: str | None, limits: Mapping[str, int]) -> Comparison:
        """Return the comparison in the folder of an experiment.

        ``ValueError`` if all plans were refused.
        """
        recorded = read(folder)
        cells, reasons = cell_results(recorded), _refused(recorded)
        measured = {cell.method for cell in cells}
        refused = {name: "; ".join(of) for name, of in reasons.items() if name not in measured}
        if not cells:
            text = "; ".join(f"{method}: {reason}" for method, reason in refused.items())
            raise ValueError(f"algorithms must have a plan for this class and budget: {text}")
        timings = [each["run_seconds"] for each in read_provenance(folder).get("per_cell", ())]
        seconds = dict(zip(sorted(cell.number for cell in cells), timings, strict=False))
        runs, rows = {}, []
        groups = grouped(cells, lambda cell: (cell.setting[axis] if axis else None, cell.method))
        for (value, method), group in groups.items():
            runs[value, method] = np.stack([cell.values for cell in group])
            times = [seconds.get(cell.number, math.nan) for cell in group]
            point = _point(group, runs[value, method], axis)
            point["seconds"] = np.mean(times) / recorded.about["replicates"]
            rows.append({"value": value, "method": method, **point})
        points = pd.DataFrame(rows).sort_values(["value", "mean"], ignore_index=True)
        return cls(recorded, axis, points.astype({"steps": float}), runs, refused, limits)

    def __str__(self) -> str:
        return self.table()

    def __repr__(self) -> str:
        along = "" if self.axis is None else f" along {self.axis}"
        return f"<Comparison of {len(self.methods)} methods{along}: {len(self.refused)} refused>"

    def frame(self) -> pd.DataFrame:
        """Return one row per run, with the facts of its method, plan and data set."""
        return self.recorded.frame().rename(columns={"strength": "data_set"})

    def winners(self) -> tuple[Winner, ...]:
        """Return the winner, or the tie, at each value of the axis.

        Differences are taken run by run on shared data sets. A method differs from the one of
        smallest mean if the interval of its mean difference is above 0, at 95 % for all other
        methods together (Bonferroni). Oracle-tuned methods are left out.
        """
        fair = self.points[~self.points["tuned"]]
        groups = fair.groupby("value", dropna=False, sort=False)["method"]
        return tuple(
            _winner(None if self.axis is None else value, list(methods), self.runs)
            for value, methods in groups
            if len(methods) > 1
        )

    def exponents(self) -> pd.DataFrame:
        """Return fitted exponents along the axis, with those of the theorems.

        The columns are ``method``; ``fitted``, by least squares on the logarithms of the means;
        ``half_width`` of its 95 % interval over data sets; and ``theorem``, the mean exponent of
        the bounds, NaN without a bound on the measured quantity. The frame is empty for axes
        without exponents and for fewer than three values.
        """
        rows = []
        logs = np.log(np.array(self.values, float)) if self.axis in ("n", "dim", "epsilon") else []
        for method in self.methods if len(logs) > 2 else []:
            runs = [self.runs.get((value, method)) for value in self.values]
            means = np.array([each.mean(axis=1) for each in runs if each is not None])
            if len(means) < len(logs) or not (means > 0.0).all():
                continue
            fitted = np.polyfit(logs, np.log(means.mean(axis=1)), 1)[0]
            interval = mean_interval(np.polyfit(logs, np.log(means), 1)[0], _ALPHA)
            theorem = self.points.loc[self.points["method"] == method, "exponent"].mean()
            rows.append((method, fitted, 0.5 * (interval.upper - interval.lower), theorem))
        return pd.DataFrame(rows, columns=["method", "fitted", "half_width", "theorem"])

    @property
    def values(self) -> list[Any]:
        """Values of the axis, ascending; ``[None]`` without an axis."""
        return [None] if self.axis is None else sorted(set(self.points["value"]))

    @cached_property
    def first(self) -> CellResult:
        """The first cell that was not refused."""
        return cell_results(self.recorded)[0]

    @cached_property
    def methods(self) -> list[str]:
        """Methods, ordered by the mean of the logarithms of their means."""
        logs = np.log(self.points["mean"].clip(lower=1e-300))
        return list(logs.groupby(self.points["method"]).mean().sort_values().index)

    # --- text -------------------------------------------------------------------------------------

    @property
    def problem(self) -> str:
        """The problem in words."""
        words = self.first.family.removeprefix("synthetic_").replace("_", " ")
        return _REGRESSION.sub(r"\1 regression", words)

    @property
    def setting(self) -> str:
        """Sizes, budget, runs and tuning, in one line."""
        first, sets = self.first, len(next(iter(self.runs.values())))
        sizes = [
            f"{symbol(name)} = {value:{',' if name != 'epsilon' else ''}g}"
            for name, value in first.setting.items()
            if name in ("n", "dim", "sparsity", "epsilon") and name != self.axis
        ]
        tuned = ", and oracle-tuned" if self.points["tuned"].any() else ""
        is_private = self.points["method"].str.endswith("_tuned").any()
        return ", ".join([
            *sizes,
            f"δ = {first.delta:g}",
            first.relation.replace("_", "-"),
            f"{sets * self.recorded.about['replicates']} runs"
            + (f" on {sets} data sets" if sets > 1 else ""),
            f"default hyperparameters{tuned}{', and tuned privately' if is_private else ''}",
        ])  # fmt: skip

    @property
    def conclusion(self) -> str:
        """The methods with the least risk, or tied, in one sentence; empty for a single method."""
        winners = self.winners()
        best = grouped(winners, lambda won: frozenset((won.least, *won.ties)))
        always = [name for name in self.methods if all(name in methods for methods in best)]
        if len(best) > 1 and always:
            *others, last = always
            names = f"{', '.join(others)} and {last} have" if others else f"{last} has"
            where = f"on {self.problem} at every {symbol(self.axis or '')}, alone or tied"
            return f"{names} the least {self.first.label} {where} (95 %, paired runs)."
        clauses: list[str] = []
        for methods, group in best.items():
            *others, last = (name for name in self.methods if name in methods)
            names = f"{', '.join(others)} and {last} tie for" if others else f"{last} has"
            clause = f"{names} the least {self.first.label}"
            clause += f" on {self.problem}" if not clauses else ""
            if self.axis is not None:
                values = ", ".join(f"{won.value:g}" for won in group)
                is_all = len(group) == len(winners)
                at = f"every {symbol(self.axis)}" if is_all else f"{symbol(self.axis)} = {values}"
                clause += f" at {at}"
            clauses.append(clause)
        return f"{'; '.join(clauses)} (95 %, paired runs)." if clauses else ""

    @property
    def notes(self) -> list[str]:
        """Missing bounds, capped plans, and the effect of the relation."""
        notes, measured = [], self.first.quantity
        unbounded = self.points[np.isinf(self.points["bound"])]
        for quantity, group in unbounded.groupby("bound_on"):
            names = ", ".join(dict.fromkeys(group["method"]))
            other = f"Bound on the {quantity}, not on the {measured}"
            notes.append(f"{other if quantity != measured else 'No bound is known'}: {names}")
        notes += self._capped
        if self.first.relation == "replace_one":
            notes.append("Replace-one doubles the sensitivity of a sum, compared with zero-out")
        return notes

    @property
    def reasons(self) -> list[str]:
        """The reasons of refusals, one line per method."""
        return [f"Refused: {name} ({reason})" for name, reason in self.refused.items()] + [
            f"Refused at some values: {name} ({reasons[0]})"
            for name, reasons in _refused(self.recorded).items()
            if name not in self.refused
        ]

    @property
    def _capped(self) -> list[str]:
        limits = self.points["method"].map(self.limits)
        capped = self.points[(self.points["steps"] == limits) & (self.axis != "steps")]
        names = [f"{name} ({self.limits[name]:,})" for name in dict.fromkeys(capped["method"])]
        return (
            [f"Fewer steps than the default, to limit the time: {', '.join(names)}"]
            if names
            else []
        )

    @property
    def inapplicable(self) -> str:
        """The number of methods without any result, in words."""
        plural = "method does" if len(self.refused) == 1 else "methods do"
        return f"{len(self.refused)} {plural} not apply"

    def table(
        self, *, wide: bool = False, why: bool = False, bold: Callable[[str], str] | None = None
    ) -> str:
        """Return a matrix of means, methods by values, and the conclusion, in 80 columns.

        Entries are a mean and the half width of its 95 % interval. The smallest mean of a column
        has a star, or is passed through ``bold``; oracle-tuned methods are left out. ``wide``
        returns ``points`` and all notes instead. ``why`` adds the reasons of refusals.
        """
        head = f"{self.first.label.capitalize()}, {self.problem}: {self.setting}"
        if wide:
            return "\n".join(
                [head, "", *self._wide(), "", self.conclusion, *self.notes, *self.reasons]
            )
        lines = [self.conclusion] if self.conclusion else []
        fitted = [
            f"{row.method} {row.fitted:.2f}"
            + (f" ({row.theorem:.2f})" if math.isfinite(row.theorem) else "")
            for row in self.exponents().itertuples()
        ]
        if fitted:
            lines.append(
                f"Fitted exponents of {symbol(self.axis or '')} (theorem): {', '.join(fitted)}"
            )
        lines += self._capped
        if why:
            lines += self.reasons
        elif self.refused:
            lines.append(f"{self.inapplicable} (--why, or why=True)")
        matrix = "\n".join(self._matrix())
        if bold is not None:
            matrix = re.sub(r"\*(\S+)", lambda match: f" {bold(match[1])}", matrix)
        fill = partial(textwrap.fill, width=_WIDTH, subsequent_indent="  ")
        star = "" if bold is not None else "; * smallest mean"
        caption = f"Mean ± half width of its 95 % interval{star}"
        return "\n".join([fill(head), caption, "", matrix, *map(fill, lines)])

    def _matrix(self) -> Iterator[str]:
        """Yield the lines of the matrix, five values side by side."""
        names = [*self.methods, "zero predictor"]
        for start in range(0, len(self.values), _COLUMNS):
            columns = {symbol(self.axis) if self.axis else "": pd.Series(names, names)}
            for value in self.values[start : start + _COLUMNS]:
                at = self.points[self.points["value"] == value] if self.axis else self.points
                entries = {
                    row.method: f" {brief(row.mean)}±{brief(row.upper - row.mean, 1)}"
                    for row in at.itertuples()
                }
                for best in at.loc[~at["tuned"], "method"].head(1):
                    entries[best] = entries[best].replace(" ", "*")
                entries["zero predictor"] = f" {brief(at['zero'].iloc[0])}"
                columns[f" {value:,g}" if self.axis else " mean"] = pd.Series(entries)
            table = pd.DataFrame(columns, names).fillna(" -")
            rows = [[*table], *table.to_numpy().tolist()]
            widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
            widths[0] = min(widths[0], _WIDTH - sum(widths[1:]) - len(widths))
            for name, *entries in rows:
                short = name if len(name) <= widths[0] else f"{name[: widths[0] - 1]}…"
                yield " ".join(map(str.ljust, [short, *entries], widths)).rstrip()
            yield ""

    def _wide(self) -> list[str]:
        points = self.points.drop(columns=["bound_on", "exponent", "tuned"])
        points["method"] += np.where(self.points["tuned"], " (oracle-tuned)", "")
        ratio = (points["mean"] / points["bound"]).where(np.isfinite(points["bound"]))
        points.insert(points.columns.get_loc("bound") + 1, "mean/bound", ratio)
        points = points if self.axis else points.drop(columns="value")
        points = points.rename(columns={"value": self.axis, "zero": "zero predictor"})
        numbers = points.columns.difference([self.axis, "method", "steps"])
        formats = {"steps": "{:,.0f}".format, **dict.fromkeys(numbers, brief)}
        return points.to_string(index=False, formatters=formats, na_rep="-").splitlines()

    def plot(self, path: Path | str | None = None) -> Figure:
        """Return the figure; it is also written as a PNG if ``path`` is given.

        The title is the conclusion. Along an axis: means with 95 % intervals, bands of 10-90 % of
        the runs, the certified upper bounds (dashed) and the lower bound (dotted). Without an axis:
        one row per method.
        """
        from privopt.comparison.figure import draw
        from privopt.lab.plotting.style import save

        first, notes = self.first, self.notes
        if self.refused:
            notes.append(f"{self.inapplicable}: {', '.join(self.refused)}")
        title = self.conclusion.partition(" (")[0] or f"{first.label} on {self.problem}"
        header = f"{first.label.capitalize()}; {self.setting}"
        figure = draw(self.points, self.axis, first, title, header, notes)
        if path is not None:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            save(lambda: figure, Path(path).with_suffix(""))
        return figure


# --- statistics -----------------------------------------------------------------------------------


def _refused(recorded: Recorded) -> dict[str, list[str]]:
    """Return the distinct reasons of refusals by method."""
    refused = [row for row in recorded.cells.to_pylist() if row["refused"] is not None]
    groups = grouped(refused, lambda row: row["method"])
    return {
        name: list(dict.fromkeys(row["refused"] for row in rows)) for name, rows in groups.items()
    }


def _over_data(runs: _Runs) -> _Runs:
    """Return the independent samples: means of data sets, or the runs on a single data set."""
    return runs.mean(axis=1) if runs.shape[0] > 1 else runs[0]


def _means(runs: _Runs, group: int) -> _Runs:
    """Average groups of ``group`` consecutive runs on each data set."""
    return runs.reshape(len(runs), -1, group).mean(axis=2)


def _point(cells: Sequence[CellResult], runs: _Runs, axis: str | None) -> dict[str, Any]:
    """Return the row of one method at one value from its cells, one per data set.

    The variance between data sets is the variance of their means without the share of the keys.
    """
    first, (sets, size) = cells[0], runs.shape
    mean = mean_interval(_over_data(runs), _ALPHA)
    keys = float(runs.var(axis=1, ddof=1).mean()) if size > 1 else math.nan
    variance = float(runs.mean(axis=1).var(ddof=1)) - keys / size if sets > 1 else math.nan
    low, high = np.quantile(runs, (0.1, 0.9))
    nonprivate = float(np.mean([cell.nonprivate for cell in cells]))
    exponents = [cell.exponents.get(axis or "", math.nan) for cell in cells]
    return {
        "mean": float(runs.mean()),
        "lower": mean.lower,
        "upper": mean.upper,
        "low": float(low),
        "high": float(high),
        "sd_keys": math.sqrt(keys),
        "sd_data": math.sqrt(max(variance, 0.0)) if sets > 1 else math.nan,
        "bound": first.upper,
        "bound_on": first.bounded_quantity or first.quantity,
        "lower_bound": first.lower,
        "zero": float(np.mean([cell.start for cell in cells])),
        "nonprivate": nonprivate if nonprivate > first.gap else 0.0,
        "steps": first.steps,
        "tuned": first.untuned,
        "exponent": float(np.mean(exponents)) if math.isfinite(first.upper) else math.nan,
    }


def _winner(
    value: float | None, methods: Sequence[str], runs: Mapping[tuple[float | None, str], _Runs]
) -> Winner:
    """Return the winner among ``methods`` at one value."""
    best, *others = sorted(methods, key=lambda name: runs[value, name].mean())
    margins = {
        name: mean_interval(
            _over_data(_difference(runs[value, name], runs[value, best])), _ALPHA / len(others)
        )
        for name in others
    }
    ties = tuple(name for name, margin in margins.items() if not margin.lower > 0.0)
    return Winner(value, "tie" if ties else best, best, margins[others[0]], ties)


def _difference(runs: _Runs, others: _Runs) -> _Runs:
    """Subtract run by run; the finer of two groupings is averaged to the coarser one."""
    size = math.gcd(runs.shape[1], others.shape[1])
    return _means(runs, runs.shape[1] // size) - _means(others, others.shape[1] // size)


# --- formats --------------------------------------------------------------------------------------


def brief(value: float, digits: int = 2) -> str:
    """Return a number with few significant digits and without a leading zero; "-" if not finite.

    Examples
    --------
    >>> brief(0.06249), brief(2e-7), brief(12345.0), brief(math.inf)
    ('.062', '2e-7', '12,000', '-')
    """
    if not math.isfinite(value):
        return "-"
    if value == 0.0 or 1e-4 <= abs(value) < 1.0:
        return f"{value:#.{digits}g}".replace("0.", ".", 1) if value else "0"
    return f"{float(f'{value:.{digits}g}'):,g}".replace("e-0", "e-")

"""A comparison: what was measured of every method, as a table, a frame, a picture and winners."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from privopt.comparison.points import Point, points_of
from privopt.comparison.table import rows_of, text_of
from privopt.comparison.winners import TIE, Winner, winners_of
from privopt.lab.evaluation.cells import grouped, refusals
from privopt.lab.evaluation.verdict import ORACLE_TUNED
from privopt.lab.make.records import Provenance
from privopt.lab.plotting.notation import number, symbol
from privopt.lab.plotting.recorded import Recorded

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """What :func:`privopt.compare` has measured; :func:`print` shows its table.

    Examples
    --------
    >>> import jax, privopt
    >>> found = privopt.compare(
    ...     "sparse_mean", ["projection_mechanism", "dp_gd"], n=200, dim=8, replicates=4,
    ...     data_sets=2, key=jax.random.key(0), progress=lambda event: None,
    ...     budget=privopt.Budget(epsilon=1.0, delta=1e-5, relation="zero_out"),
    ... )
    >>> sorted(point.method for point in found.points)
    ['dp_gd', 'projection_mechanism']
    >>> found.frame().shape[0]
    8
    """

    recorded: Recorded  # the tables of the lab
    axis: str | None
    points: tuple[Point, ...]  # in the order of the axis, least risk first
    refused: dict[str, str]  # methods without any point, and why
    max_steps: int | None = None  # of plans that are not told how many

    @classmethod
    def of(
        cls,
        recorded: Recorded,
        axis: str | None,
        provenance: Provenance,
        max_steps: int | None = None,
    ) -> Comparison:
        """From the tables of an experiment; ValueError where every plan was refused."""
        there = [row["cell"] for row in recorded.cells.to_pylist() if row["refused"] is None]
        spent = [float(each["run_seconds"] or 0.0) for each in provenance.get("per_cell", ())]
        runs = float(recorded.about["replicates"])
        seconds = {cell: each / runs for cell, each in zip(there, spent, strict=False)}
        points = points_of(recorded, axis, seconds)
        refused = grouped(refusals(recorded), lambda refusal: refusal.method)
        measured = {point.method for point in points}
        why = {
            method: "; ".join(dict.fromkeys(each.reason for each in members))
            for method, members in refused.items()
            if method not in measured
        }
        if not points:
            told = "; ".join(f"{method}: {reason}" for method, reason in why.items())
            raise ValueError(f"algorithms must have a plan for this class and budget: {told}")
        return cls(recorded, axis, points, why, max_steps)

    def __str__(self) -> str:
        return self.table()

    def __repr__(self) -> str:
        methods = len({point.method for point in self.points})
        along = "" if self.axis is None else f" along {self.axis}"
        return f"<Comparison of {methods} methods{along}: {len(self.refused)} refused>"

    @property
    def title(self) -> str:
        """What was measured, on which problem."""
        first = self.points[0].cells[0]
        quantity = first.label[:1].upper() + first.label[1:]
        return f"{quantity}, {first.family.replace('_', ' ')}"

    @property
    def setting(self) -> str:
        """Sizes, budget, runs and tuning, in one line."""
        first, (sets, runs) = self.points[0].cells[0], self.points[0].runs.shape
        sizes = [
            f"{symbol(name)} = {number(told)}"
            for name in ("n", "dim", "sparsity", "epsilon")
            if name != self.axis and (told := first.setting.get(name)) is not None
        ]
        return ", ".join(
            [
                *sizes,
                f"δ = {first.delta:g}",
                first.relation.replace("_", "-"),
                f"{sets * runs} runs" + (f" on {sets} data sets" if sets > 1 else ""),
                "numbers set by theory"
                + (f", and {ORACLE_TUNED}" if any(p.tuned for p in self.points) else "")
                + (", and tuned privately" if self._privately else ""),
            ]
        )

    @property
    def _privately(self) -> bool:
        """Whether some method pays for the choice of its numbers."""
        return any(row["method"].endswith("_tuned") for row in self.recorded.cells.to_pylist())

    @property
    def told_winners(self) -> list[str]:
        """Who wins where, and where nobody is told from all others."""
        by = grouped(
            self.winners(),
            lambda won: (
                f"Wins: {won.winner}"
                if won.winner != TIE
                else f"Tie of {', '.join(sorted((won.least, *won.ties)))}"
            ),
        )
        if self.axis is None:
            return list(by)
        return [
            f"{told} at {symbol(self.axis)} = {', '.join(f'{each.value:g}' for each in won)}"
            for told, won in by.items()
        ]

    @property
    def rows(self) -> list[dict[str, str]]:
        """Of the table: a row a method and value, as texts."""
        return rows_of(self.points, self.axis)

    @property
    def notes(self) -> list[str]:
        """What stands below table and picture: refusals, and bounds of other quantities."""
        first = self.points[0].cells[0]
        others = grouped(
            (p for p in self.points if not math.isfinite(p.bound)), lambda p: p.bound_is_of
        )
        partly = grouped(
            (r for r in refusals(self.recorded) if r.method not in self.refused),
            lambda refusal: refusal.method,
        )
        told = [f"Refused: {name} ({reason})" for name, reason in self.refused.items()]
        told += [
            f"Refused at some values: {name} ({each[0].reason})" for name, each in partly.items()
        ]
        for quantity, members in others.items():
            names = ", ".join(dict.fromkeys(point.method for point in members))
            told += [
                f"Bound of the {quantity}, not of the {first.quantity}, so none is shown: {names}"
                if quantity
                else f"No bound is known: {names}"
            ]
        held = [p.method for p in self.points if p.steps and p.steps == self.max_steps]
        if held and self.axis != "steps":
            names = ", ".join(dict.fromkeys(held))
            told += [f"Held to {self.max_steps:,} steps where theory asks for more: {names}"]
        if first.relation == "replace_one":
            told += ["Under replace-one a record moves a sum twice as far as under zero-out"]
        return told

    def table(self) -> str:
        """A row a method and value, and notes: aligned text."""
        said = [text_of(self.rows), "", *self.told_winners, *self.notes]
        return "\n".join([f"{self.title}: {self.setting}", "", *said])

    def winners(self) -> tuple[Winner, ...]:
        """At every value the method of least mean risk, by how much, or a tie.

        Differences are taken run by run on data that the methods share, and the winner is told from
        every other one at 95 % for all of them together. A method that is *oracle-tuned* takes no
        part.
        """
        return winners_of(self.points)

    def frame(self) -> pandas.DataFrame:
        """A row a run, as in ``recorded.frame()``, whose strength is the number of a data set."""
        return self.recorded.frame().rename(columns={"strength": "data_set"})

    def plot(self, path: Path | str | None = None) -> Figure:
        """The picture; written as a PNG where a ``path`` is given.

        Along an axis: mean, 10-90 % of the runs as a band, 95 % of the mean as a bar; dashed the
        certified upper bound, dotted the lower one. At most seven methods have a colour; the others
        are grey. Beside that PNG lies ``<name>_narrow.png``, the same for a narrow screen.
        """
        from privopt.comparison.picture import narrow, picture
        from privopt.lab.plotting.style import save

        above = self.title, self.setting, "; ".join(self.told_winners)
        figure = picture(self.points, self.axis, above, self.notes)
        if path is not None:
            path = Path(path)
            path.parent.mkdir(parents=True, exist_ok=True)
            save(lambda: figure, path.with_suffix(""))
            if self.axis is not None:
                phone = narrow(self.points, self.axis, self.title)
                save(lambda: phone, path.with_name(f"{path.stem}_narrow"))
        return figure

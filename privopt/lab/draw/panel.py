"""One panel of a figure: what was measured along one axis, between the bounds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from privopt.lab.draw import ticks
from privopt.lab.draw.notation import axis_label, number, power
from privopt.lab.draw.style import BLUE, GREEN, GREY, ORANGE, PAPER, PURPLE, Style
from privopt.lab.judge.results import CellResult, grouped, worst
from privopt.lab.judge.verdict import ORACLE_TUNED

Groups = Mapping[float, Sequence[CellResult]]

_QUANTILES = (0.1, 0.9)
_REACH = 30.0

ZERO_PREDICTOR: Style = {"label": "zero predictor", "color": GREY, "lw": 1.0, "ls": (0, (5, 2))}
_WITHOUT_NOISE = "gradient descent, no noise"
_LINES: dict[str, Style] = {
    "upper": {"label": "upper bound", "color": ORANGE, "lw": 1.0, "zorder": 2.6},
    "start": ZERO_PREDICTOR,
    "nonprivate": {"label": _WITHOUT_NOISE, "color": GREY, "lw": 1.1, "ls": (0, (1, 1.5))},
}
_BASELINES = ("start", "nonprivate")
_LOWER: dict[str, tuple[str, Any]] = {
    "(ε, δ)-DP": ("no (ε, δ)-DP algorithm is below", "-"),
    "ε-DP": ("no ε-DP algorithm is below", "-"),
    "μ-Gaussian DP": ("no μ-Gaussian DP algorithm is below", (0, (4, 1.5))),
    "Rényi DP": ("no algorithm as Rényi private is below", (0, (4, 1.5))),
}
"""Label and line of a lower bound where it holds, by the guarantee that it is proved for."""
_OTHER = "minimax, other problem"
_ELSEWHERE = {name: f"{_OTHER}: {name}" for name in _LOWER}
"""Label of its tick on every other problem."""
_STRENGTH: Style = {"label": "mean, each strength", "color": BLUE, "lw": 0.7, "alpha": 0.5}
_BAND: Style = {"label": "10–90% of runs", "color": BLUE, "alpha": 0.18, "lw": 0}
_MEAN: Style = {"color": BLUE, "lw": 2.4, "marker": "o", "ms": 5.0, "mec": PAPER, "zorder": 2.5}
_MEANS = ("mean, worst strength", "mean")
_TUNED: Style = {
    "label": f"mean, {ORACLE_TUNED}", "color": PURPLE, "lw": 1.3, "marker": "s", "ms": 4.0,
    "mec": PAPER, "zorder": 2.7,
}  # fmt: skip

ORDER = (
    *_MEANS,
    *(line["label"] for line in (_BAND, _TUNED, _STRENGTH, *_LINES.values())),
    *(label for label, _ in _LOWER.values()),
    *_ELSEWHERE.values(),
)
"""The labels in the order of a legend."""


def panel(place: Axes, groups: Groups, tuned: Groups, axis: str) -> list[CellResult]:
    """Draw one family along one axis; returns the worst cell at every value.

    The upper bound is drawn over the mean, and thinner: neither hides the other where they are
    equal.
    """
    values = list(groups)
    top = [worst(group) for group in groups.values()]
    by_strength = grouped((c for g in groups.values() for c in g), lambda cell: cell.strength)
    several = len(by_strength) > 1
    for same in by_strength.values() if several else ():
        place.plot([c.setting[axis] for c in same], _positive(c.mean for c in same), **_STRENGTH)
    for name, line in _LINES.items():
        place.plot(values, _positive(getattr(cell, name) for cell in top), **line)
    for guarantee in top[0].lower_bounds:
        bounds = _positive(cell.lower_bounds.get(guarantee, 0.0) for cell in top)
        label, line = _LOWER[guarantee]
        if top[0].is_minimax:
            place.plot(values, bounds, label=label, color=GREEN, lw=1.0, ls=line)
        else:
            width = 2.4 if line == "-" else 1.1
            ticks.at_margin(place, bounds[-1], _ELSEWHERE[guarantee], color=GREEN, mew=width)
    low, high = (_positive(np.quantile(c.values, share) for c in top) for share in _QUANTILES)
    place.fill_between(values, low, high, **_BAND)
    place.plot(values, _positive(c.mean for c in top), label=_MEANS[not several], **_MEAN)
    if tuned:
        place.plot(list(tuned), _positive(worst(group).mean for group in tuned.values()), **_TUNED)
    place.set_yscale("log")
    place.set_xscale("log")
    ticks.swept(place.xaxis, values)
    place.set_xlabel(axis_label(axis, top[0].setting))
    return top + [worst(group) for group in tuned.values()]


def scale(row: Mapping[Axes, Sequence[CellResult]]) -> None:
    """One vertical scale a row. Baselines and ticks far below the rest are told, not drawn."""
    cells = [cell for top in row.values() for cell in top]
    spread = (np.quantile(cell.values, share) for cell in cells for share in _QUANTILES)
    lines = (v for c in cells if c.is_minimax for v in c.lower_bounds.values())
    drawn = _positive((*spread, *(v for c in cells for v in (c.mean, c.upper)), *lines))
    if np.isnan(drawn).all():
        return
    low, high = float(np.nanmin(drawn)), float(np.nanmax(drawn))
    baselines = [getattr(cell, name) for cell in cells for name in _BASELINES]
    others = _positive((*baselines, *(value for place in row for _, value in _ticks(place))))
    low = float(np.min(others, initial=low, where=others > low / _REACH))
    high = float(np.max(others, initial=high, where=np.isfinite(others)))
    for place, top in row.items():
        _tell_below(place, top, low)
    first = next(iter(row))
    first.set_ylim(low / 1.5, high * 1.5)
    subs = (1.0, 2.0, 5.0) if high < 100.0 * low else (1.0,)
    first.yaxis.set_major_locator(LogLocator(subs=subs, numticks=12))
    text = number if low >= 1e-6 else power
    first.yaxis.set_major_formatter(FuncFormatter(lambda value, _: text(value)))
    first.yaxis.set_minor_formatter(NullFormatter())


def _ticks(place: Axes) -> list[tuple[Line2D, float]]:
    """Return the ticks of lower bounds at the margin of a panel, with their values."""
    lines = [line for line in place.get_lines() if line.get_label() in _ELSEWHERE.values()]
    return [(line, float(np.asarray(line.get_ydata())[0])) for line in lines]


def _tell_below(place: Axes, top: Sequence[CellResult], low: float) -> None:
    """Name the baselines and the ticks that lie below the scale, with their largest value."""
    told = []
    for name in _BASELINES:
        largest = max(getattr(cell, name) for cell in top)
        if largest < low:
            label = _LINES[name]["label"]
            told.append(f"↓ {label} {'0' if largest <= 0.0 else f'≤ {largest:.0e}'}")
            for line in place.get_lines():
                if line.get_label() == label:
                    line.remove()
    below = [(line, value) for line, value in _ticks(place) if value < low]
    for line, _ in below:
        line.remove()
    if below:
        told.append(f"↓ {_OTHER} ≤ {max(value for _, value in below):.0e}")
    if told:
        small: Style = {"color": GREY, "fontsize": 7.0, "linespacing": 1.3}
        place.text(0.03, 0.03, "\n".join(told), transform=place.transAxes, **small)


def _positive(values: Iterable[float]) -> npt.NDArray[np.float64]:
    """The values a logarithmic scale can show; NaN for the others."""
    found = np.array(list(values), dtype=np.float64)
    return np.where(np.isfinite(found) & (found > 0.0), found, np.nan)

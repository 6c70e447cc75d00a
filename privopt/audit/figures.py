"""Figures of audits: one row per algorithm, or error rates with the claimed trade-off curve."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from privopt.arguments import described, instance
from privopt.audit.distinguishing import Audit, FloatArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ROW, _SQUARE = 0.25, 2.3  # inches
_COLUMNS = 3
_ALPHAS = np.linspace(0.0, 1.0, 401)


def picture(audits: Sequence[Audit], title: str) -> Figure:
    """Plot ``separation/claimed`` of each audit and of its control attack on weaker noise.

    Matplotlib is in the extra ``lab``.
    """
    return _styled(_rows, audits, title)


def curves(audits: Sequence[Audit], title: str) -> Figure:
    """Plot the largest power that is claimed and the power of the attacks, for each audit.

    Matplotlib is in the extra ``lab``.
    """
    return _styled(_squares, audits, title)


def write_picture(audits: Sequence[Audit], title: str, stem: Path) -> None:
    """Write a figure to ``stem`` with the suffix .png; for up to six audits, that of ``curves``."""
    from privopt.lab.plotting.style import save

    plot = curves if len(audits) <= 2 * _COLUMNS else picture
    save(lambda: plot(audits, title), stem)


def _styled(
    draw: Callable[[Sequence[Audit], str], Figure], audits: Sequence[Audit], title: str
) -> Figure:
    """Check the arguments of a figure, and draw it with the style sheet of the project."""
    if not isinstance(audits, Sequence) or not audits:
        raise ValueError(
            f"audits must be a sequence of at least one Audit, got {described(audits)}"
        )
    for each in audits:
        instance("audits", each, Audit)
    if not isinstance(title, str):
        raise ValueError(f"title must be a text, got {described(title)}")
    from matplotlib import rc_context

    from privopt.lab.plotting.style import STYLE

    with rc_context(STYLE):
        return draw(audits, title)


def _squares(audits: Sequence[Audit], title: str) -> Figure:
    from privopt.lab.plotting.style import BLUE, GREY, INK, ORANGE, sheet

    caption = (
        "Power against false-alarm rate of tests between the releases of two neighbours. Black: "
        "largest power that the guarantee allows. Blue: attack; orange: attack on weaker noise. "
        "Bands: confidence intervals of both rates at many thresholds, each at level "
        f"{1.0 - audits[0].failure:g}; dots: conservative bounds at the threshold that was chosen "
        "on other runs. Dotted: random guess."
    )
    columns = min(_COLUMNS, len(audits))
    rows = -(-len(audits) // columns)
    figure, panels = sheet(
        title, [], [caption], panels=(rows, columns), height=_SQUARE, left=0.55, right=0.1, top=0.22
    )
    for panel, each in itertools.zip_longest(panels.flat, audits):
        if each is None:
            panel.set_visible(False)
            continue
        panel.plot(_ALPHAS, _ALPHAS, ":", color=GREY, lw=1.0)
        panel.plot(_ALPHAS, 1.0 - each.guarantee.trade_off(_ALPHAS), color=INK, lw=1.2)
        for part, colour in ((each.weakened, ORANGE), (each.attack, BLUE)):
            low, high = (_steps(*rates) for rates in part.band)
            panel.fill_between(_ALPHAS, low, np.maximum(low, high), color=colour, alpha=0.35, lw=0)
            panel.plot([part.alpha], [part.power], "o", color=colour, ms=4.5)
        panel.set_title(_name(each), fontsize=8.5, loc="left")
        panel.set(xlim=(0.0, 1.0), ylim=(0.0, 1.0), xlabel="false-alarm rate")
    for panel in panels[:, 0]:
        panel.set_ylabel("power")
    return figure


def _steps(alphas: FloatArray, powers: FloatArray) -> FloatArray:
    """Return the largest power at a false-alarm rate of at most each of ``_ALPHAS``."""
    order = np.argsort(alphas, kind="stable")
    largest = np.concatenate([[0.0], np.maximum.accumulate(powers[order])])
    return np.asarray(largest[np.searchsorted(alphas[order], _ALPHAS, side="right")])


def _rows(audits: Sequence[Audit], title: str) -> Figure:
    from privopt.lab.plotting.style import BLUE, GREY, INK, ORANGE, PAPER, sheet

    colours = {"kept": BLUE, "blind": GREY, "refuted": ORANGE}
    caption = (
        "Dot: certified lower bound on the separation of the releases of two neighbours, divided "
        "by the claimed separation; above 1 (line) the guarantee is refuted. Ring: the same with "
        "half of the noise (¼: a quarter), where it must be above 1. Grey: a control attack fails, "
        "so the attack has no result."
    )
    figure, ((panel,),) = sheet(
        title, [], [caption], panels=(1, 1), height=_ROW * len(audits) + 0.1, left=2.4, right=0.25
    )
    for row, each in enumerate(audits):
        colour = colours[each.verdict]
        panel.plot([each.weakened.ratio], [row], marker="o", ls="", color=colour, mfc=PAPER, ms=4.5)
        panel.plot([each.attack.ratio], [row], marker="o", ls="", color=colour, mec=PAPER, ms=6.5)
    panel.axvline(1.0, color=INK, lw=1.0, ls="-.")
    panel.set_yticks(range(len(audits)), [_name(each) for each in audits])
    panel.set_ylim(len(audits) - 0.5, -0.5)
    panel.set_xlim(left=0.0)
    panel.set_xlabel("measured / claimed separation")
    return figure


def _name(audit: Audit) -> str:
    """Return the name, with the verdict unless it is ``kept`` and the control if it is a quarter.

    The colour shows the verdict as well, but not to every reader.
    """
    notes = [] if audit.verdict == "kept" else [audit.verdict]
    notes += ["¼"] if audit.control < 0.5 else []
    return f"{audit.name} ({', '.join(notes)})" if notes else audit.name

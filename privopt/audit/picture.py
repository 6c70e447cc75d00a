"""Figures of audits: one row per algorithm, or error rates with the claimed trade-off curve."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from privopt.arguments import described, instance
from privopt.audit.distinguishing import Audit
from privopt.audit.scores import FloatArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ROW, _SQUARE = 0.25, 2.3  # inches
_COLUMNS = 3
_ALPHAS = np.linspace(0.0, 1.0, 401)


def picture(audits: Sequence[Audit], title: str) -> Figure:
    """Plot ``found/claimed`` of each audit: dots are attacks, rings the attacks on halved noise.

    It needs Matplotlib, of the extra ``lab``.
    """
    return _with_look(_rows, audits, title)


def curves(audits: Sequence[Audit], title: str) -> Figure:
    """Plot the largest power that is claimed and the power of the attacks, for each audit.

    It needs Matplotlib, of the extra ``lab``.
    """
    return _with_look(_squares, audits, title)


def write_picture(audits: Sequence[Audit], title: str, stem: Path) -> None:
    """Write a figure to ``stem`` with the ending .png; :func:`curves` for a few audits."""
    from privopt.lab.plotting.style import save

    plot = curves if len(audits) <= 2 * _COLUMNS else picture
    save(lambda: plot(audits, title), stem)


def _with_look(
    draw: Callable[[Sequence[Audit], str], Figure], audits: Sequence[Audit], title: str
) -> Figure:
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

    first = audits[0]
    key = (
        "Whoever guesses from a release is right about the first data set with some power, and "
        "wrong about the second with a false-alarm rate. Black: the most power that the guarantee "
        "allows. Blue: the attack; orange: the same with less noise. Bands: both rates at many "
        f"thresholds, each at confidence {1.0 - first.failure:g}; dots: the cautious bounds at the "
        "threshold that was chosen beforehand. Dotted: a coin."
    )
    columns = min(_COLUMNS, len(audits))
    rows = -(-len(audits) // columns)
    figure, panels = sheet(
        title, [], [key], panels=(rows, columns), height=_SQUARE, left=0.55, right=0.1, top=0.22
    )
    for place, each in itertools.zip_longest(panels.flat, audits):
        if each is None:
            place.set_visible(False)
            continue
        place.plot(_ALPHAS, _ALPHAS, ":", color=GREY, lw=1.0)
        place.plot(_ALPHAS, 1.0 - each.guarantee.trade_off(_ALPHAS), color=INK, lw=1.2)
        for part, colour in ((each.weakened, ORANGE), (each.attack, BLUE)):
            low, high = (_steps(*rates) for rates in part.band)
            place.fill_between(_ALPHAS, low, np.maximum(low, high), color=colour, alpha=0.35, lw=0)
            place.plot([part.alpha], [part.power], "o", color=colour, ms=4.5)
        place.set_title(_name(each), fontsize=8.5, loc="left")
        place.set(xlim=(0.0, 1.0), ylim=(0.0, 1.0), xlabel="false alarms")
    for place in panels[:, 0]:
        place.set_ylabel("power")
    return figure


def _steps(alphas: FloatArray, powers: FloatArray) -> FloatArray:
    """The greatest power at a false-alarm rate of ``_ALPHAS`` or less."""
    order = np.argsort(alphas, kind="stable")
    reached = np.concatenate([[0.0], np.maximum.accumulate(powers[order])])
    return np.asarray(reached[np.searchsorted(alphas[order], _ALPHAS, side="right")])


def _rows(audits: Sequence[Audit], title: str) -> Figure:
    from privopt.lab.plotting.style import BLUE, GREY, INK, ORANGE, PAPER, sheet

    colours = {"kept": BLUE, "blind": GREY, "refuted": ORANGE}
    key = (
        "dot: a certified lower bound on how far apart the releases of two neighbours are, over "
        "what the guarantee allows; above 1 (line) it is refuted. Ring: the same with half of the "
        "noise (¼: a quarter), which an attack worth its name finds above 1. Grey: the attack is "
        "blind, and nothing is said."
    )
    figure, ((place,),) = sheet(
        title, [], [key], panels=(1, 1), height=_ROW * len(audits) + 0.1, left=2.4, right=0.25
    )
    for row, each in enumerate(audits):
        colour = colours[each.verdict]
        place.plot([each.weakened.ratio], [row], marker="o", ls="", color=colour, mfc=PAPER, ms=4.5)
        place.plot([each.attack.ratio], [row], marker="o", ls="", color=colour, mec=PAPER, ms=6.5)
    place.axvline(1.0, color=INK, lw=1.0, ls="-.")
    place.set_yticks(range(len(audits)), [_name(each) for each in audits])
    place.set_ylim(len(audits) - 0.5, -0.5)
    place.set_xlim(left=0.0)
    place.set_xlabel("found over claimed separation of the two laws")
    return figure


def _name(audit: Audit) -> str:
    """With what is not ordinary of its verdict or control: colour alone would not tell it."""
    notes = [] if audit.verdict == "kept" else [audit.verdict]
    notes += ["¼"] if audit.control < 0.5 else []
    return f"{audit.name} ({', '.join(notes)})" if notes else audit.name

"""Audits as a picture: a row an algorithm, the guarantee as a line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from privopt.audit.distinguishing import Audit

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ROW = 0.25  # inches


def picture(audits: Sequence[Audit], title: str) -> Figure:
    """A figure: dots are attacks, rings the same attacks where the noise is halved.

    It needs Matplotlib, of the extra ``lab``.
    """
    from matplotlib import rc_context

    from privopt.lab.draw.sheet import LOOK

    with rc_context(LOOK):
        return _drawn(audits, title)


def write_picture(audits: Sequence[Audit], title: str, stem: Path) -> None:
    """``stem`` with the ending .png."""
    from privopt.lab.draw.style import save

    save(lambda: picture(audits, title), stem, formats=(".png",))


def _drawn(audits: Sequence[Audit], title: str) -> Figure:
    from privopt.lab.draw.sheet import sheet
    from privopt.lab.draw.style import BLUE, GREY, INK, ORANGE, PAPER

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

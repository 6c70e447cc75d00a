"""How figures look, and files that depend on nothing but what is drawn."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from privopt.lab.make.store import write_file

PAPER, INK, GREY, GRID = "#ffffff", "#1f2328", "#6a737d", "#e1e4e8"
BLUE, ORANGE, GREEN, PURPLE = "#0072b2", "#d55e00", "#009e73", "#aa4499"  # after Okabe and Ito
AMBER, SKY, BROWN = "#b58900", "#3fa0d8", "#7a4419"  # for methods beyond the first four

_IN_THE_DARK = {
    PAPER: "#0d1117",
    INK: "#e6edf3",
    GREY: "#9198a1",
    GRID: "#2a3038",
    BLUE: "#56b4e9",
    ORANGE: "#f0883e",
    GREEN: "#2fbf92",
    PURPLE: "#dd88bb",
    AMBER: "#e3c341",
    SKY: "#a5d8ff",
    BROWN: "#c08552",
}

Style = dict[str, Any]
"""What Matplotlib takes by keyword; its own stubs say no more."""

STYLE: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 8.0,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.labelsize": 8.0,
    "axes.titlesize": 8.0,
    "axes.edgecolor": GREY,
    "axes.facecolor": PAPER,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 7.0,
    "ytick.labelsize": 7.0,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 3.0,
    "ytick.major.size": 3.0,
    "ytick.minor.size": 1.5,
    "figure.facecolor": PAPER,
    "savefig.facecolor": PAPER,
    "legend.frameon": False,
    "legend.fontsize": 7.5,
    "figure.constrained_layout.w_pad": 0.06,
    "figure.constrained_layout.h_pad": 0.06,
    "svg.hashsalt": "privopt",
    "svg.fonttype": "path",
}

TITLE: Style = {"fontsize": 9.5, "fontweight": "bold"}

_DOTS_PER_INCH = 110
_PALETTE = 128
_HEAD = 4096


def headline(figure: Figure, title: str) -> None:
    """The title, above all panels and to the left."""
    figure.suptitle(title, x=0.008, ha="left", **TITLE)


def above(place: Axes, lines: Sequence[tuple[str, Style]]) -> None:
    """Lines of text above a panel, each with what is special about it, to the left."""
    for height, (text, special) in enumerate(reversed(lines)):
        at: Style = {"xycoords": "axes fraction", "textcoords": "offset points", **special}
        place.annotate(text, (0.0, 1.0), (0.0, 4.0 + 11.0 * height), **at)


def legend(figure: Figure, shown: Mapping[str, Artist], columns: int) -> None:
    """The legend, below all panels and to the left."""
    figure.legend(list(shown.values()), list(shown), loc="outside lower left", ncols=columns)


def entries(figure: Figure) -> dict[str, Artist]:
    """What a legend would show: handles by label, each label once."""
    return {
        label: handle
        for place in figure.axes
        for handle, label in zip(*place.get_legend_handles_labels(), strict=True)
    }


class Origin(NamedTuple):
    """What a figure is drawn from."""

    digest: str  # names the table, and stands in the figure's files
    redraw: bool  # whether to draw what was drawn from that table already


NOWHERE = Origin("", redraw=True)

BOTH = (".svg", ".png")
"""The formats of a figure: for the page, and for where the page is not shown."""


def save(
    draw: Callable[[], Figure],
    stem: Path,
    origin: Origin = NOWHERE,
    formats: Sequence[str] = BOTH,
) -> list[Path]:
    """Write ``stem.svg``, which follows the reader's light or dark scheme, and ``stem.png``.

    A file that is there and of that origin stays as it is: drawing is slow, and another version of
    Matplotlib draws the same with other bytes.
    """
    paths = [stem.with_name(stem.name + suffix) for suffix in formats]
    due = [path for path in paths if origin.redraw or not _is_of(path, origin.digest)]
    if due:
        figure, told = draw(), {"Source": origin.digest} if origin.digest else {}
        figure.draw_without_rendering()  # settles the layout, whichever format is written
        figure.set_layout_engine("none")
        for path in due:
            write_file(path, (_svg if path.suffix == ".svg" else _png)(figure, told))
    return paths


def _svg(figure: Figure, told: Mapping[str, str]) -> bytes:
    file = io.StringIO()
    figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None, **told})
    return _themed(file.getvalue()).encode()


def _png(figure: Figure, told: Mapping[str, str]) -> bytes:
    notes = PngInfo()
    for name, text in told.items():
        notes.add_text(name, text)
    return paletted(figure, _DOTS_PER_INCH, notes)


def paletted(figure: Figure, dots_per_inch: float, notes: PngInfo | None = None) -> bytes:
    """As a PNG with a palette, which takes a quarter of the bytes."""
    drawn, file = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format="png", dpi=dots_per_inch)
    image = Image.open(drawn).convert("RGB").quantize(_PALETTE, dither=Image.Dither.NONE)
    image.save(file, format="png", optimize=True, pnginfo=notes)
    return file.getvalue()


def _is_of(path: Path, digest: str) -> bool:
    """Whether a file names that table, as both formats do near their beginning."""
    try:
        with open(path, "rb") as file:
            return digest.encode() in file.read(_HEAD)
    except OSError:
        return False


def _themed(svg: str) -> str:
    rules = "".join(
        f'[style*="{what}: {light}"]{{{what}:{dark}!important}}'
        for light, dark in _IN_THE_DARK.items()
        for what in ("fill", "stroke")
    )
    style = f"<style>@media (prefers-color-scheme:dark){{{rules}}}</style>\n </defs>"
    lines = (line.rstrip() for line in svg.replace("</defs>", style, 1).splitlines())
    return "\n".join(lines) + "\n"

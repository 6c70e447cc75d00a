"""Figures of recorded results and of their verdicts, and helpers for the figures of analyses."""

from privopt.lab.plotting.heatmaps import winner_map
from privopt.lab.plotting.panels import curve, draw, margin_tick, method_style, panels
from privopt.lab.plotting.style import (
    AMBER,
    BLUE,
    BROWN,
    GREEN,
    GREY,
    INK,
    METHOD_COLOURS,
    ORANGE,
    PURPLE,
    SKY,
)

__all__ = [
    "AMBER", "BLUE", "BROWN", "GREEN", "GREY", "INK", "METHOD_COLOURS", "ORANGE", "PURPLE", "SKY",
    "curve", "draw", "margin_tick", "method_style", "panels", "winner_map",
]  # fmt: skip

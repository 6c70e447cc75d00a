"""Figures of recorded results and of the verdicts on them."""

from privopt.lab.draw.figures import figures
from privopt.lab.draw.plots import plots

__all__ = ["figures", "plots"]

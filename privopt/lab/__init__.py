"""Experiments: declared, run, recorded, judged against the theorem, and shown.

Two kinds, one way: an ``Experiment`` sweeps methods over problems and is judged by the theorems; a
``Study`` computes numbers and is judged by its claims. ``make`` runs and records them; of what
was recorded ``judge`` says what holds, ``draw`` the figures, ``write`` the report.
"""

from privopt.lab.draw.recorded import Recorded, read
from privopt.lab.judge.verdict import Outcome, Verdict, tally
from privopt.lab.judge.verdicts import verdicts
from privopt.lab.make.axes import Axis, Grid, Setting
from privopt.lab.make.cache_key import identity
from privopt.lab.make.catalogue import algorithms, choose, discover, families, load
from privopt.lab.make.cells import Cell, Trial, cells, replicate_keys, stream
from privopt.lab.make.experiment import Experiment
from privopt.lab.make.method import Method, ladder
from privopt.lab.make.quantities import Played, StreamLosses
from privopt.lab.make.quick_tables import OverwriteError, quick_difference, write_quick_table
from privopt.lab.make.run import RunResult, run, work
from privopt.lab.make.store import ResultsError, existing_results, open_results
from privopt.lab.make.study import Claim, Column, Line, Listing, Map, Panel, Plot, Study
from privopt.lab.write.console import Display, verdict_table
from privopt.lab.write.report import write_report

__all__ = [
    "Axis", "Cell", "Claim", "Column", "Display", "Experiment", "Grid", "Line", "Listing", "Map",
    "Method", "Outcome", "OverwriteError", "Panel", "Played", "Plot", "Recorded", "ResultsError",
    "RunResult", "Setting", "StreamLosses", "Study", "Trial", "Verdict", "algorithms", "cells",
    "choose", "discover", "existing_results", "families", "identity", "ladder", "load",
    "open_results", "quick_difference", "read", "replicate_keys", "run", "stream", "tally",
    "verdict_table", "verdicts", "work", "write_quick_table", "write_report",
]  # fmt: skip

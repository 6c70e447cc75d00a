"""Experiments: declared, run, recorded, judged against the theorem, and shown.

Two kinds, one way: an ``Experiment`` sweeps methods over problems and is judged by the theorems; a
``Study`` computes numbers and is judged by its claims. ``make`` runs and records them; of what
was recorded ``judge`` says what holds, ``draw`` the figures, ``write`` the report.
"""

# isort: off
from privopt.lab.make import (
    Axis, Cell, Claim, Column, Experiment, Grid, Line, Listing, Method, Panel, Played, Plot,
    Recorded, ResultsError, RunResult, Setting, StreamLosses, Study, Trial, algorithms, cells,
    choose, discover, existing_results, families, ladder, load, read, replicate_keys,
    run, stream,
)  # fmt: skip
from privopt.lab.judge import Outcome, Verdict, tally, verdicts
from privopt.lab.write import Display, verdict_table, write_report
# isort: on

__all__ = [
    "Axis", "Cell", "Claim", "Column", "Display", "Experiment", "Grid", "Line", "Listing",
    "Method", "Outcome", "Panel", "Played", "Plot", "Recorded", "ResultsError", "RunResult",
    "Setting", "StreamLosses", "Study", "Trial", "Verdict", "algorithms", "cells", "choose",
    "discover", "existing_results", "families", "ladder", "load", "read",
    "replicate_keys", "run", "stream", "tally", "verdict_table", "verdicts", "write_report",
]  # fmt: skip

"""Experiments: declaration, runs, recorded tables, verdicts and reports.

An ``Experiment`` sweeps methods over problems and is evaluated against the theorems. An
``Analysis`` computes tables and is evaluated by its claims. ``runner`` runs and records both,
``evaluation`` computes verdicts from the recorded tables, ``plotting`` draws figures and ``report``
writes pages.
"""

from privopt.lab.evaluation.verdict import Outcome, Verdict, tally
from privopt.lab.evaluation.verdicts import all_verdicts, verdict_frame, verdicts, write_verdicts
from privopt.lab.plotting.recorded import Recorded, read
from privopt.lab.report.report import write_report
from privopt.lab.report.terminal import Display
from privopt.lab.runner.analysis import Analysis, Chart, Claim, Listing, at_most, below, close
from privopt.lab.runner.cache_key import identity
from privopt.lab.runner.catalogue import (
    algorithms,
    choose,
    discover,
    experiments_of,
    families,
    load,
)
from privopt.lab.runner.cells import Cell, Trial, cells, replicate_keys, stream
from privopt.lab.runner.experiment import Axis, Experiment, Grid, Setting
from privopt.lab.runner.method import Method, ladder
from privopt.lab.runner.quantities import Played, StreamLosses
from privopt.lab.runner.quick_tables import OverwriteError, quick_difference, write_quick_table
from privopt.lab.runner.run import RunResult, run, work
from privopt.lab.runner.store import ResultsError, existing_results, open_results

__all__ = [
    "Analysis", "Axis", "Cell", "Chart", "Claim", "Display", "Experiment", "Grid", "Listing",
    "Method", "Outcome", "OverwriteError", "Played", "Recorded", "ResultsError", "RunResult",
    "Setting", "StreamLosses", "Trial", "Verdict", "algorithms", "all_verdicts", "at_most", "below",
    "cells", "choose", "close", "discover", "existing_results", "experiments_of", "families",
    "identity", "ladder", "load", "open_results", "plotting", "quick_difference", "read",
    "replicate_keys", "run", "stream", "tally", "verdict_frame", "verdicts",
    "work", "write_quick_table", "write_report", "write_verdicts",
]  # fmt: skip

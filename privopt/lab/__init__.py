"""Experiments: declared, run, recorded, judged against the theorem, and shown.

Two kinds: an ``Experiment`` sweeps algorithms over problems and is judged by the theorems; a
``Study`` computes numbers and is judged by its claims.
"""

from privopt.lab.catalogue import algorithms, choose, discover, families, load
from privopt.lab.cell import Cell
from privopt.lab.conduct import conduct, size, verdicts
from privopt.lab.console import Display, verdict_table
from privopt.lab.experiment import Axis, Experiment, Setting
from privopt.lab.folder import ResultsError, existing_results
from privopt.lab.grid import cells
from privopt.lab.keys import replicate_keys, stream
from privopt.lab.records import read_table
from privopt.lab.report import write_report
from privopt.lab.resume import SweepResult
from privopt.lab.shown import Check, Claim, Column, Line, Listing, Panel, Plot
from privopt.lab.study import Study
from privopt.lab.sweep import sweep
from privopt.lab.verdict_outcome import Finding, Outcome, Verdict, tally

__all__ = [
    "Axis",
    "Cell",
    "Check",
    "Claim",
    "Column",
    "Display",
    "Experiment",
    "Finding",
    "Line",
    "Listing",
    "Outcome",
    "Panel",
    "Plot",
    "ResultsError",
    "Setting",
    "Study",
    "SweepResult",
    "Verdict",
    "algorithms",
    "cells",
    "choose",
    "conduct",
    "discover",
    "existing_results",
    "families",
    "load",
    "read_table",
    "replicate_keys",
    "size",
    "stream",
    "sweep",
    "tally",
    "verdict_table",
    "verdicts",
    "write_report",
]

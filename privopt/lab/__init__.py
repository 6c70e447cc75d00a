"""Experiments: declared, swept, recorded, judged against the theorem, and shown."""

from privopt.lab.catalogue import algorithms, choose, discover, families, load
from privopt.lab.cell import Cell
from privopt.lab.console import Display, verdict_table
from privopt.lab.experiment import Axis, Experiment, Setting
from privopt.lab.folder import ResultsError, existing_results
from privopt.lab.grid import cells
from privopt.lab.keys import replicate_keys, stream
from privopt.lab.records import read_table
from privopt.lab.report import write_report
from privopt.lab.sweep import SweepResult, sweep
from privopt.lab.verdict import Verdict, verdicts

__all__ = [
    "Axis",
    "Cell",
    "Display",
    "Experiment",
    "ResultsError",
    "Setting",
    "SweepResult",
    "Verdict",
    "algorithms",
    "cells",
    "choose",
    "discover",
    "existing_results",
    "families",
    "load",
    "read_table",
    "replicate_keys",
    "stream",
    "sweep",
    "verdict_table",
    "verdicts",
    "write_report",
]

"""Experiments declared, run and recorded; nothing here judges or draws."""

from privopt.lab.make.catalogue import algorithms, choose, discover, families, load
from privopt.lab.make.cells import Cell, cells
from privopt.lab.make.experiment import Axis, Experiment, Setting
from privopt.lab.make.folder import ResultsError, existing_results
from privopt.lab.make.keys import replicate_keys, stream
from privopt.lab.make.presentation import Check, Claim, Column, Line, Listing, Panel, Plot
from privopt.lab.make.records import read_table
from privopt.lab.make.resume import SweepResult
from privopt.lab.make.run import conduct, size, sweep
from privopt.lab.make.study import Study

__all__ = [
    "Axis", "Cell", "Check", "Claim", "Column", "Experiment", "Line", "Listing", "Panel",
    "Plot", "ResultsError", "Setting", "Study", "SweepResult", "algorithms", "cells", "choose",
    "conduct", "discover", "existing_results", "families", "load", "read_table",
    "replicate_keys", "size", "stream", "sweep",
]  # fmt: skip

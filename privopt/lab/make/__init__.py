"""Experiments declared, run and recorded; nothing here judges or draws."""

from privopt.lab.make.axes import Axis, Grid, Setting
from privopt.lab.make.catalogue import algorithms, choose, discover, families, load
from privopt.lab.make.cells import Cell, cells
from privopt.lab.make.experiment import Experiment
from privopt.lab.make.folder import ResultsError, existing_results
from privopt.lab.make.keys import replicate_keys, stream
from privopt.lab.make.method import Method, ladder
from privopt.lab.make.presentation import Claim, Column, Line, Listing, Panel, Plot
from privopt.lab.make.quantities import Played, StreamLosses
from privopt.lab.make.records import Recorded, read
from privopt.lab.make.run import RunResult, run
from privopt.lab.make.study import Study
from privopt.lab.make.trials import Trial

__all__ = [
    "Axis", "Cell", "Claim", "Column", "Experiment", "Grid", "Line", "Listing",
    "Method", "Panel", "Played", "Plot", "Recorded", "ResultsError", "RunResult", "Setting",
    "StreamLosses", "Study", "Trial", "algorithms", "cells", "choose", "discover",
    "existing_results", "families", "ladder", "load", "read", "replicate_keys",
    "run", "stream",
]  # fmt: skip

"""Experiments: declared, run, recorded, judged against the theorem, and shown.

Two kinds: an ``Experiment`` sweeps algorithms over problems and is judged by the theorems; a
``Study`` computes numbers and is judged by its claims. ``make`` runs and records them, ``show``
judges and draws what was recorded.
"""

from privopt.lab.make import (
    Axis,
    Cell,
    Check,
    Claim,
    Column,
    Experiment,
    Line,
    Listing,
    Panel,
    Plot,
    ResultsError,
    Setting,
    Study,
    SweepResult,
    algorithms,
    cells,
    choose,
    conduct,
    discover,
    existing_results,
    families,
    load,
    read_table,
    replicate_keys,
    size,
    stream,
    sweep,
)  # fmt: skip
from privopt.lab.show import (
    Display,
    Finding,
    Outcome,
    Verdict,
    tally,
    verdict_table,
    verdicts,
    write_report,
)  # fmt: skip

__all__ = [
    "Axis", "Cell", "Check", "Claim", "Column", "Display", "Experiment", "Finding", "Line",
    "Listing", "Outcome", "Panel", "Plot", "ResultsError", "Setting", "Study", "SweepResult",
    "Verdict", "algorithms", "cells", "choose", "conduct", "discover", "existing_results",
    "families", "load", "read_table", "replicate_keys", "size", "stream", "sweep", "tally",
    "verdict_table", "verdicts", "write_report",
]  # fmt: skip

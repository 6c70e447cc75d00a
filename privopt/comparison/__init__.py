"""Comparison of algorithms: measured on a problem, or ranked by their bounds before any run."""

from importlib import import_module
from typing import TYPE_CHECKING

from privopt.comparison.plans import LOSSES, Cost, cost_of, plans, problem_class_of, without_privacy
from privopt.comparison.ranking import (
    Reach,
    alternatives,
    nearest_setting,
    reach,
    read_measured,
    recommend,
    representative,
    write_measured,
)

if TYPE_CHECKING:
    from privopt.comparison.experiment import MAX_SECONDS, compare
    from privopt.comparison.result import Comparison, Winner
else:

    def __getattr__(name):
        """Import the modules of a measured comparison, and with them the lab, on first use."""
        module = {"Comparison": "result", "Winner": "result"}.get(name, "experiment")
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{module}"), name)


__all__ = [
    "LOSSES", "MAX_SECONDS", "Comparison", "Cost", "Reach", "Winner", "alternatives", "compare",
    "cost_of", "nearest_setting", "plans", "problem_class_of", "reach", "read_measured",
    "recommend", "representative", "without_privacy", "write_measured",
]  # fmt: skip

"""Comparison of algorithms: measured on a problem, or ranked by their bounds before any run."""

from importlib import import_module
from typing import TYPE_CHECKING

from privopt.comparison.losses import LOSSES, problem_class_of
from privopt.comparison.ranking import Reach, alternatives, reach, recommend, representative
from privopt.comparison.recorded import nearest_setting, read_measured, write_measured
from privopt.comparison.table import Cost, cost_of, plans, without_privacy

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
    "LOSSES",
    "MAX_SECONDS",
    "Comparison",
    "Cost",
    "Reach",
    "Winner",
    "alternatives",
    "compare",
    "cost_of",
    "nearest_setting",
    "plans",
    "problem_class_of",
    "reach",
    "read_measured",
    "recommend",
    "representative",
    "without_privacy",
    "write_measured",
]

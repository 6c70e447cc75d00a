"""Comparison of algorithms: measured on a problem, or ranked by their bounds before any run."""

from privopt.comparison.experiment import MAX_SECONDS, compare
from privopt.comparison.losses import LOSSES, problem_class_of
from privopt.comparison.ranking import Reach, alternatives, reach, recommend, representative
from privopt.comparison.recorded import nearest_setting, read_measured, write_measured
from privopt.comparison.result import Comparison, Winner
from privopt.comparison.table import Cost, cost_of, plans, without_privacy

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

"""Statistics of records in public bounds: bounded queries, and mechanisms made of them."""

from privopt.mechanisms.statistics.approximate_bounds import ApproximateBounds, FoundBounds
from privopt.mechanisms.statistics.bounds import Bounds
from privopt.mechanisms.statistics.histogram import Histogram
from privopt.mechanisms.statistics.mean import BoundedMean, CentredSum, MeanMechanism
from privopt.mechanisms.statistics.median import Median
from privopt.mechanisms.statistics.mode import Mode
from privopt.mechanisms.statistics.sums import BoundedSum, Count
from privopt.mechanisms.statistics.variance import (
    BoundedVariance,
    CentredMoments,
    VarianceMechanism,
)

__all__ = [
    "ApproximateBounds",
    "BoundedMean",
    "BoundedSum",
    "BoundedVariance",
    "Bounds",
    "CentredMoments",
    "CentredSum",
    "Count",
    "FoundBounds",
    "Histogram",
    "MeanMechanism",
    "Median",
    "Mode",
    "VarianceMechanism",
]

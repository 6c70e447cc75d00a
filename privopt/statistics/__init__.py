"""Private statistics and selection: bounded queries of records, and mechanisms made of them.

No optimiser needs what stands here; it serves whoever prepares data for one, or chooses among the
answers.
"""

from privopt.statistics.approximate_bounds import ApproximateBounds, FoundBounds
from privopt.statistics.bounds import Bounds
from privopt.statistics.events import pure_release
from privopt.statistics.histogram import Histogram
from privopt.statistics.mean import BoundedMean, CentredSum, MeanMechanism
from privopt.statistics.median import Median
from privopt.statistics.mode import Mode
from privopt.statistics.propose_test_release import Proposal, ProposeTestRelease, StableQuery
from privopt.statistics.scores import BoundedScores, ScoreQuery
from privopt.statistics.selection import ExponentialMechanism, PermuteAndFlip, ReportNoisyMax
from privopt.statistics.smooth_sensitivity import (
    SmoothCauchyMechanism,
    SmoothLaplaceMechanism,
    SmoothQuery,
)
from privopt.statistics.stable_release import ChangeableQuery, StableRelease
from privopt.statistics.sums import BoundedSum, Count
from privopt.statistics.variance import BoundedVariance, CentredMoments, VarianceMechanism

__all__ = [
    "ApproximateBounds",
    "BoundedMean",
    "BoundedScores",
    "BoundedSum",
    "BoundedVariance",
    "Bounds",
    "CentredMoments",
    "CentredSum",
    "ChangeableQuery",
    "Count",
    "ExponentialMechanism",
    "FoundBounds",
    "Histogram",
    "MeanMechanism",
    "Median",
    "Mode",
    "PermuteAndFlip",
    "Proposal",
    "ProposeTestRelease",
    "ReportNoisyMax",
    "ScoreQuery",
    "SmoothCauchyMechanism",
    "SmoothLaplaceMechanism",
    "SmoothQuery",
    "StableQuery",
    "StableRelease",
    "VarianceMechanism",
    "pure_release",
]

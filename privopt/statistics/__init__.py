"""Private statistics and selection: bounded queries of records, and mechanisms that use them.

Optimisers do not depend on this package. It serves the preparation of data, the selection among
results, and certified prediction.
"""

from privopt.statistics.certified_prediction import (
    Certificate,
    Votes,
    clopper_pearson,
    noisy_votes,
)
from privopt.statistics.events import pure_release
from privopt.statistics.histogram import Histogram
from privopt.statistics.local_sensitivity import (
    Proposal,
    ProposeTestRelease,
    SmoothLaplaceMechanism,
    SmoothQuery,
    StableQuery,
)
from privopt.statistics.median import Median
from privopt.statistics.records import Bounds
from privopt.statistics.selection import BoundedScores, ExponentialMechanism, ScoreQuery
from privopt.statistics.sparse_vector import Memory, SparseVector, Thresholdout
from privopt.statistics.sums import BoundedMean, BoundedSum, Count

__all__ = [
    "BoundedMean", "BoundedScores", "BoundedSum", "Bounds", "Certificate", "Count",
    "ExponentialMechanism", "Histogram", "Median", "Memory", "Proposal", "ProposeTestRelease",
    "ScoreQuery", "SmoothLaplaceMechanism", "SmoothQuery", "SparseVector", "StableQuery",
    "Thresholdout", "Votes", "clopper_pearson", "noisy_votes", "pure_release",
]  # fmt: skip

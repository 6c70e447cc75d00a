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
from privopt.statistics.local_sensitivity import (
    Median,
    Proposal,
    ProposeTestRelease,
    SmoothCauchyMechanism,
    SmoothLaplaceMechanism,
    SmoothQuery,
    StableQuery,
)
from privopt.statistics.queries import (
    BoundedMean,
    BoundedSum,
    BoundedVariance,
    Bounds,
    Count,
    CountedMean,
    Histogram,
)
from privopt.statistics.selection import (
    BoundedScores,
    ExponentialMechanism,
    ScoreQuery,
    pure_release,
)
from privopt.statistics.sparse_vector import SparseVector, SparseVectorState, Thresholdout

__all__ = [
    "BoundedMean",
    "BoundedScores",
    "BoundedSum",
    "BoundedVariance",
    "Bounds",
    "Certificate",
    "Count",
    "CountedMean",
    "ExponentialMechanism",
    "Histogram",
    "Median",
    "Proposal",
    "ProposeTestRelease",
    "ScoreQuery",
    "SmoothCauchyMechanism",
    "SmoothLaplaceMechanism",
    "SmoothQuery",
    "SparseVector",
    "SparseVectorState",
    "StableQuery",
    "Thresholdout",
    "Votes",
    "clopper_pearson",
    "noisy_votes",
    "pure_release",
]  # fmt: skip

"""Private statistics and selection: bounded queries of records, and mechanisms made of them.

No optimiser needs what stands here; it serves whoever prepares data for one, chooses among the
answers, or asks how far an input may move before its class does.
"""

from privopt.statistics.certified_prediction import Certificate, Votes, noisy_votes
from privopt.statistics.events import pure_release
from privopt.statistics.histogram import Histogram
from privopt.statistics.mean import BoundedMean
from privopt.statistics.median import Median
from privopt.statistics.proportion import clopper_pearson
from privopt.statistics.propose_test_release import Proposal, ProposeTestRelease, StableQuery
from privopt.statistics.records import Bounds
from privopt.statistics.selection import BoundedScores, ExponentialMechanism, ScoreQuery
from privopt.statistics.smooth_sensitivity import SmoothLaplaceMechanism, SmoothQuery
from privopt.statistics.sparse_vector import Memory, SparseVector
from privopt.statistics.sums import BoundedSum, Count
from privopt.statistics.thresholdout import Thresholdout

__all__ = [
    "BoundedMean", "BoundedScores", "BoundedSum", "Bounds", "Certificate", "Count",
    "ExponentialMechanism", "Histogram", "Median", "Memory", "Proposal", "ProposeTestRelease",
    "ScoreQuery", "SmoothLaplaceMechanism", "SmoothQuery", "SparseVector", "StableQuery",
    "Thresholdout", "Votes", "clopper_pearson", "noisy_votes", "pure_release",
]  # fmt: skip

"""Private means of vectors: raw, projected onto a body, compressed and recovered."""

from privopt.mechanisms.means.clipped_mean import ClippedMean, largest_record
from privopt.mechanisms.means.l1_recovery import CompressedMean, largest_gain
from privopt.mechanisms.means.projected_mean import ProjectedMean, body_of

__all__ = [
    "ClippedMean",
    "CompressedMean",
    "ProjectedMean",
    "body_of",
    "largest_gain",
    "largest_record",
]

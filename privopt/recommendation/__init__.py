"""Which algorithm to take: plans ranked by certified bound, and by what was measured near them."""

from privopt.recommendation.candidates import Candidate
from privopt.recommendation.known_losses import LOSSES, problem_class_of
from privopt.recommendation.plates import Plate, Plates
from privopt.recommendation.recommendation import Recommendation, recommend
from privopt.recommendation.what_if import Reach, WhatIf

__all__ = [
    "LOSSES",
    "Candidate",
    "Plate",
    "Plates",
    "Reach",
    "Recommendation",
    "WhatIf",
    "problem_class_of",
    "recommend",
]

"""Problems from losses and data, with declared constants; families: hard, synthetic, real."""

from privopt.convex import (
    Distance,
    EmpiricalRisk,
    GeneralisedLinear,
    Hinge,
    Huber,
    Linear,
    Logistic,
    Quantile,
    ScalarLoss,
    Squared,
    SquaredDistance,
)
from privopt.problems.catalogue import FAMILIES, family
from privopt.problems.datasets import DATASETS, Dataset, available, raw
from privopt.problems.losses import (
    Multinomial,
    RegularisedDistance,
    TwoKinks,
    UserLoss,
    Users,
    by_user,
)
from privopt.problems.models import (
    absolute,
    distance,
    hinge,
    huber,
    linear,
    logistic,
    multinomial,
    quantile,
    regularised_distance,
    squared,
    squared_distance,
)
from privopt.problems.problem import Family, Population, Problem
from privopt.problems.reference import Reference
from privopt.problems.synthetic_families import KINDS, synthetic

__all__ = [
    "DATASETS",
    "FAMILIES",
    "KINDS",
    "Dataset",
    "Distance",
    "EmpiricalRisk",
    "Family",
    "GeneralisedLinear",
    "Hinge",
    "Huber",
    "Linear",
    "Logistic",
    "Multinomial",
    "Population",
    "Problem",
    "Quantile",
    "Reference",
    "RegularisedDistance",
    "ScalarLoss",
    "Squared",
    "SquaredDistance",
    "TwoKinks",
    "UserLoss",
    "Users",
    "absolute",
    "available",
    "by_user",
    "distance",
    "family",
    "hinge",
    "huber",
    "linear",
    "logistic",
    "multinomial",
    "quantile",
    "raw",
    "regularised_distance",
    "squared",
    "squared_distance",
    "synthetic",
]

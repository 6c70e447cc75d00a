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
from privopt.problems.families import Family
from privopt.problems.losses import Multinomial, RegularisedDistance, TwoKinks
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
from privopt.problems.population import Population
from privopt.problems.problem import Problem
from privopt.problems.reference import Reference
from privopt.problems.synthetic_families import KINDS, synthetic
from privopt.problems.users import UserLoss, Users, by_user

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

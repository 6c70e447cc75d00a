"""Losses, features, convex sets, first-order methods, certified solvers, exact samplers."""

from privopt.convex.accelerated import accelerated_descent
from privopt.convex.certificate import certify
from privopt.convex.constrained_model import ConstrainedModels, minimise_constrained_model
from privopt.convex.constraint import ConstraintSet
from privopt.convex.corrected_adam import corrected_adam
from privopt.convex.empirical_risk import EmpiricalRisk, LinearRecords
from privopt.convex.enclosure import Enclosure, ValueAndGradient, enclose
from privopt.convex.features import (
    DenseFeatures,
    Features,
    FeaturesLike,
    SparseFeatures,
    as_features,
    is_features,
    shortened,
)
from privopt.convex.first_order import FirstOrder, GradientOracle, Iterates, Path
from privopt.convex.linear_model import MinimisedModels, minimise_linear_model
from privopt.convex.log_concave import LARGEST_DIM, Draw, enough_proposals, sample_log_concave
from privopt.convex.losses import (
    Distance,
    GeneralisedLinear,
    Hinge,
    Huber,
    Linear,
    Logistic,
    ScalarLoss,
    Squared,
)
from privopt.convex.outputs import (
    Average,
    Last,
    Output,
    PolynomialAverage,
    RandomIterate,
    Suffix,
    checked_output,
)
from privopt.convex.record import node_classes, record
from privopt.convex.sets import Box, L1Ball, L2Ball, Simplex, WholeSpace
from privopt.convex.solver import Solution, minimise, minimise_nonsmooth
from privopt.convex.step_sizes import StepSizes
from privopt.convex.tilted import Tilted
from privopt.convex.updates import Update
from privopt.convex.vectors import norm

__all__ = [
    "LARGEST_DIM",
    "Average",
    "Box",
    "ConstrainedModels",
    "ConstraintSet",
    "DenseFeatures",
    "Distance",
    "Draw",
    "EmpiricalRisk",
    "Enclosure",
    "Features",
    "FeaturesLike",
    "FirstOrder",
    "GeneralisedLinear",
    "GradientOracle",
    "Hinge",
    "Huber",
    "Iterates",
    "L1Ball",
    "L2Ball",
    "Last",
    "Linear",
    "LinearRecords",
    "Logistic",
    "MinimisedModels",
    "Output",
    "Path",
    "PolynomialAverage",
    "RandomIterate",
    "ScalarLoss",
    "Simplex",
    "Solution",
    "SparseFeatures",
    "Squared",
    "StepSizes",
    "Suffix",
    "Tilted",
    "Update",
    "ValueAndGradient",
    "WholeSpace",
    "accelerated_descent",
    "as_features",
    "certify",
    "checked_output",
    "corrected_adam",
    "enclose",
    "enough_proposals",
    "is_features",
    "minimise",
    "minimise_constrained_model",
    "minimise_linear_model",
    "minimise_nonsmooth",
    "node_classes",
    "norm",
    "record",
    "sample_log_concave",
    "shortened",
]

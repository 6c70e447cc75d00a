"""Convex sets, first-order methods, solvers that certify their answer, exact samplers."""

from privopt.convex.accelerated import accelerated_descent
from privopt.convex.certificate import certify
from privopt.convex.constrained_model import ConstrainedModels, minimise_constrained_model
from privopt.convex.constraint import ConstraintSet
from privopt.convex.corrected_adam import corrected_adam
from privopt.convex.enclosure import Enclosure, ValueAndGradient, enclose
from privopt.convex.first_order import FirstOrder, Iterates, Path
from privopt.convex.linear_model import MinimisedModels, minimise_linear_model
from privopt.convex.log_concave import LARGEST_DIM, Draw, enough_proposals, sample_log_concave
from privopt.convex.oracles import GradientOracle
from privopt.convex.outputs import (
    Average,
    AverageAfterStep,
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
    "AverageAfterStep",
    "Box",
    "ConstrainedModels",
    "ConstraintSet",
    "Draw",
    "Enclosure",
    "FirstOrder",
    "GradientOracle",
    "Iterates",
    "L1Ball",
    "L2Ball",
    "Last",
    "MinimisedModels",
    "Output",
    "Path",
    "PolynomialAverage",
    "RandomIterate",
    "Simplex",
    "Solution",
    "StepSizes",
    "Suffix",
    "Tilted",
    "Update",
    "ValueAndGradient",
    "WholeSpace",
    "accelerated_descent",
    "certify",
    "checked_output",
    "corrected_adam",
    "enclose",
    "enough_proposals",
    "minimise",
    "minimise_constrained_model",
    "minimise_linear_model",
    "minimise_nonsmooth",
    "node_classes",
    "norm",
    "record",
    "sample_log_concave",
]

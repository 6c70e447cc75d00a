"""Convex sets, solvers that certify their answer, and an exact sampler of log-concave densities."""

from privopt.convex.accelerated import accelerated_descent
from privopt.convex.certificate import certify
from privopt.convex.constrained_model import ConstrainedModels, minimise_constrained_model
from privopt.convex.constraint import ConstraintSet
from privopt.convex.enclosure import Enclosure, enclose
from privopt.convex.linear_model import MinimisedModels, minimise_linear_model
from privopt.convex.log_concave import LARGEST_DIM, Draw, sample_log_concave
from privopt.convex.record import node_classes, record
from privopt.convex.sets import Box, L1Ball, L2Ball, Simplex, WholeSpace
from privopt.convex.solver import Solution, minimise, minimise_nonsmooth
from privopt.convex.tilted import Tilted
from privopt.convex.vectors import norm

__all__ = [
    "LARGEST_DIM",
    "Box",
    "ConstrainedModels",
    "ConstraintSet",
    "Draw",
    "Enclosure",
    "L1Ball",
    "L2Ball",
    "MinimisedModels",
    "Simplex",
    "Solution",
    "Tilted",
    "WholeSpace",
    "accelerated_descent",
    "certify",
    "enclose",
    "minimise",
    "minimise_constrained_model",
    "minimise_linear_model",
    "minimise_nonsmooth",
    "node_classes",
    "norm",
    "record",
    "sample_log_concave",
]

"""Convex sets with their projections, and solvers that certify their answer."""

from privopt.convex.accelerated import accelerated_descent
from privopt.convex.certificate import certify
from privopt.convex.constraint import ConstraintSet
from privopt.convex.linear_model import MinimisedModels, minimise_linear_model
from privopt.convex.record import node_classes, record
from privopt.convex.sets import Box, L1Ball, L2Ball, Simplex, WholeSpace
from privopt.convex.solver import Solution, minimise, minimise_nonsmooth
from privopt.convex.vectors import norm

__all__ = [
    "Box",
    "ConstraintSet",
    "L1Ball",
    "L2Ball",
    "MinimisedModels",
    "Simplex",
    "Solution",
    "WholeSpace",
    "accelerated_descent",
    "certify",
    "minimise",
    "minimise_linear_model",
    "minimise_nonsmooth",
    "node_classes",
    "norm",
    "record",
]

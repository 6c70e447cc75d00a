"""Convex sets, first-order methods, solvers that certify their answer, exact samplers."""

from privopt.convex.accelerated import accelerated_descent
from privopt.convex.bounding_ellipsoid import BoundingEllipsoid, ValueAndGradient, bound_low_part
from privopt.convex.certificate import certify
from privopt.convex.constraint import ConstraintSet
from privopt.convex.corrected_adam import corrected_adam
from privopt.convex.first_order import FirstOrder, GradientOracle, Iterates, Path
from privopt.convex.glm_newton import GLMSolution, newton_glm
from privopt.convex.glm_solver import minimise_glm
from privopt.convex.log_concave import MAX_SAMPLER_DIM, Draw, enough_proposals, sample_log_concave
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
from privopt.convex.regularised_glm import RegularisedGLM
from privopt.convex.sets import Box, L1Ball, L2Ball, Simplex, WholeSpace
from privopt.convex.solver import Solution, minimise, minimise_nonsmooth
from privopt.convex.step_sizes import StepSizes
from privopt.convex.updates import Update
from privopt.convex.vectors import norm

__all__ = [
    "MAX_SAMPLER_DIM",
    "Average",
    "BoundingEllipsoid",
    "Box",
    "ConstraintSet",
    "Draw",
    "FirstOrder",
    "GLMSolution",
    "GradientOracle",
    "Iterates",
    "L1Ball",
    "L2Ball",
    "Last",
    "Output",
    "Path",
    "PolynomialAverage",
    "RandomIterate",
    "RegularisedGLM",
    "Simplex",
    "Solution",
    "StepSizes",
    "Suffix",
    "Update",
    "ValueAndGradient",
    "WholeSpace",
    "accelerated_descent",
    "bound_low_part",
    "certify",
    "checked_output",
    "corrected_adam",
    "enough_proposals",
    "minimise",
    "minimise_glm",
    "minimise_nonsmooth",
    "newton_glm",
    "node_classes",
    "norm",
    "record",
    "sample_log_concave",
]

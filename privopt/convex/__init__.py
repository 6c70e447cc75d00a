"""Losses, features, convex sets, first-order methods, certified solvers, exact samplers."""

from privopt.convex.basis_pursuit import basis_pursuit
from privopt.convex.empirical_risk import (
    BatchRisk,
    EmpiricalRisk,
    LinearRecords,
    PublicTerm,
)
from privopt.convex.features import (
    DenseFeatures,
    Features,
    FeaturesLike,
    SparseFeatures,
    as_features,
    difference,
    is_features,
    shortened,
)
from privopt.convex.first_order import (
    FirstOrder,
    Iterates,
    Iteration,
    Observer,
    Oracle,
    Path,
    State,
)
from privopt.convex.glm_newton import GLMSolution, RegularisedGLM, newton_glm
from privopt.convex.log_concave import (
    MAX_SAMPLER_DIM,
    Draw,
    ValueAndGradient,
    enough_proposals,
    sample_log_concave,
)
from privopt.convex.losses import (
    Distance,
    GeneralisedLinear,
    Hinge,
    Huber,
    Linear,
    Logistic,
    Loss,
    Quantile,
    ScalarLoss,
    Squared,
    prepare_pair,
)
from privopt.convex.optimisers import corrected_adam, projected_leader
from privopt.convex.outputs import (
    Average,
    Output,
    RandomIterate,
    average_after_step,
    checked_output,
    last_iterate,
    polynomial_average,
)
from privopt.convex.pytree_dataclass import pytree_dataclass
from privopt.convex.quadratic import accelerated_descent
from privopt.convex.record_losses import (
    FirstLayer,
    MeanAndSpread,
    Separable,
    Sine,
    SquaredDistance,
)
from privopt.convex.sets import (
    ConstraintSet,
    L1Ball,
    L1L2Ball,
    L2Ball,
    WholeSpace,
    linf_projection,
)
from privopt.convex.solver import certify, minimise, minimise_nonsmooth
from privopt.convex.updates import StepSizes, Update
from privopt.convex.vectors import norm
from privopt.release import Pytree

__all__ = [
    "MAX_SAMPLER_DIM",
    "Average",
    "BatchRisk",
    "ConstraintSet",
    "DenseFeatures",
    "Distance",
    "Draw",
    "EmpiricalRisk",
    "Features",
    "FeaturesLike",
    "FirstLayer",
    "FirstOrder",
    "GLMSolution",
    "GeneralisedLinear",
    "Hinge",
    "Huber",
    "Iterates",
    "Iteration",
    "L1Ball",
    "L1L2Ball",
    "L2Ball",
    "Linear",
    "LinearRecords",
    "Logistic",
    "Loss",
    "MeanAndSpread",
    "Observer",
    "Oracle",
    "Output",
    "Path",
    "PublicTerm",
    "Pytree",
    "Quantile",
    "RandomIterate",
    "RegularisedGLM",
    "ScalarLoss",
    "Separable",
    "Sine",
    "SparseFeatures",
    "Squared",
    "SquaredDistance",
    "State",
    "StepSizes",
    "Update",
    "ValueAndGradient",
    "WholeSpace",
    "accelerated_descent",
    "as_features",
    "average_after_step",
    "basis_pursuit",
    "certify",
    "checked_output",
    "corrected_adam",
    "difference",
    "enough_proposals",
    "is_features",
    "last_iterate",
    "linf_projection",
    "minimise",
    "minimise_nonsmooth",
    "newton_glm",
    "norm",
    "polynomial_average",
    "prepare_pair",
    "projected_leader",
    "pytree_dataclass",
    "sample_log_concave",
    "shortened",
]

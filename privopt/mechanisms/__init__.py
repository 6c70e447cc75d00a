"""Noise on the device beside the event it emits, and the bounded queries it is added to."""

from privopt.mechanisms.clipping import (
    MICROBATCH,
    BatchSum,
    clipped_batch_sum,
    clipped_gradient_sum,
)
from privopt.mechanisms.events import approximate_release, drawable, pure_release
from privopt.mechanisms.gaussian import GaussianMechanism, classic_gaussian_scale
from privopt.mechanisms.gibbs import GibbsMechanism
from privopt.mechanisms.gradients import (
    ExactGradient,
    FixedSizeGradient,
    FullBatchGradient,
    PoissonGradient,
    ShuffledGradient,
    VarianceReducedGradient,
    poisson_sampler,
)
from privopt.mechanisms.laplace import LaplaceMechanism
from privopt.mechanisms.minimisation import Minimisation
from privopt.mechanisms.moved_losses import moved_loss_sum
from privopt.mechanisms.norm_laplace import NormLaplaceMechanism
from privopt.mechanisms.one_pass import OnePass
from privopt.mechanisms.propose_test_release import Proposal, ProposeTestRelease, StableQuery
from privopt.mechanisms.queries import (
    BoundedQuery,
    ClippedGradient,
    ClippedRisk,
    L1BoundedQuery,
    RegularisedMinimiser,
)
from privopt.mechanisms.scores import BoundedScores, ScoreQuery
from privopt.mechanisms.selection import ExponentialMechanism, PermuteAndFlip, ReportNoisyMax
from privopt.mechanisms.smooth_sensitivity import (
    SmoothCauchyMechanism,
    SmoothLaplaceMechanism,
    SmoothQuery,
)
from privopt.mechanisms.stable_release import ChangeableQuery, StableRelease
from privopt.mechanisms.statistics import (
    ApproximateBounds,
    BoundedMean,
    BoundedSum,
    BoundedVariance,
    Bounds,
    CentredMoments,
    CentredSum,
    Count,
    FoundBounds,
    Histogram,
    MeanMechanism,
    Median,
    Mode,
    VarianceMechanism,
)
from privopt.mechanisms.tilt_analyses import TILT_ANALYSES, TiltAnalysis
from privopt.mechanisms.tilted import GaussianTilt, NormLaplaceTilt, TiltedMinimiser

__all__ = [
    "MICROBATCH",
    "TILT_ANALYSES",
    "ApproximateBounds",
    "BatchSum",
    "BoundedMean",
    "BoundedQuery",
    "BoundedScores",
    "BoundedSum",
    "BoundedVariance",
    "Bounds",
    "CentredMoments",
    "CentredSum",
    "ChangeableQuery",
    "ClippedGradient",
    "ClippedRisk",
    "Count",
    "ExactGradient",
    "ExponentialMechanism",
    "FixedSizeGradient",
    "FoundBounds",
    "FullBatchGradient",
    "GaussianMechanism",
    "GaussianTilt",
    "GibbsMechanism",
    "Histogram",
    "L1BoundedQuery",
    "LaplaceMechanism",
    "MeanMechanism",
    "Median",
    "Minimisation",
    "Mode",
    "NormLaplaceMechanism",
    "NormLaplaceTilt",
    "OnePass",
    "PermuteAndFlip",
    "PoissonGradient",
    "Proposal",
    "ProposeTestRelease",
    "RegularisedMinimiser",
    "ReportNoisyMax",
    "ScoreQuery",
    "ShuffledGradient",
    "SmoothCauchyMechanism",
    "SmoothLaplaceMechanism",
    "SmoothQuery",
    "StableQuery",
    "StableRelease",
    "TiltAnalysis",
    "TiltedMinimiser",
    "VarianceMechanism",
    "VarianceReducedGradient",
    "approximate_release",
    "classic_gaussian_scale",
    "clipped_batch_sum",
    "clipped_gradient_sum",
    "drawable",
    "moved_loss_sum",
    "poisson_sampler",
    "pure_release",
]

"""Noise on the device beside the event it emits, and the bounded queries it is added to."""

from privopt.mechanisms.batches import (
    AllRecords,
    Batches,
    FixedSizeBatches,
    OnePassBatches,
    Participation,
    PoissonBatches,
    ShuffledBatches,
    poisson_sampler,
)
from privopt.mechanisms.clipping import (
    MICROBATCH,
    BatchSum,
    ClippedSlope,
    HasSlope,
    WholeSum,
    clipped_batch_sum,
    clipped_gradient_sum,
    clipped_linear_batch_sum,
    clipped_linear_gradient_sum,
    clipped_linear_model,
    usable_linear_records,
    usable_records,
)
from privopt.mechanisms.events import approximate_release, drawable, pure_release
from privopt.mechanisms.gaussian import GaussianMechanism, classic_gaussian_scale
from privopt.mechanisms.gibbs import GibbsMechanism
from privopt.mechanisms.laplace import LaplaceMechanism
from privopt.mechanisms.minimisation import Minimisation
from privopt.mechanisms.moved_losses import HasValue, moved_linear_loss_sum, moved_loss_sum
from privopt.mechanisms.noise import IndependentNoise, Noise
from privopt.mechanisms.norm_laplace import NormLaplaceMechanism
from privopt.mechanisms.one_pass import OnePass
from privopt.mechanisms.private_gradient import BatchMean, PrivateGradient
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
from privopt.mechanisms.variance_reduced import VarianceReducedGradient

__all__ = [
    "MICROBATCH",
    "TILT_ANALYSES",
    "AllRecords",
    "ApproximateBounds",
    "BatchMean",
    "BatchSum",
    "Batches",
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
    "ClippedSlope",
    "Count",
    "ExponentialMechanism",
    "FixedSizeBatches",
    "FoundBounds",
    "GaussianMechanism",
    "GaussianTilt",
    "GibbsMechanism",
    "HasSlope",
    "HasValue",
    "Histogram",
    "IndependentNoise",
    "L1BoundedQuery",
    "LaplaceMechanism",
    "MeanMechanism",
    "Median",
    "Minimisation",
    "Mode",
    "Noise",
    "NormLaplaceMechanism",
    "NormLaplaceTilt",
    "OnePass",
    "OnePassBatches",
    "Participation",
    "PermuteAndFlip",
    "PoissonBatches",
    "PrivateGradient",
    "Proposal",
    "ProposeTestRelease",
    "RegularisedMinimiser",
    "ReportNoisyMax",
    "ScoreQuery",
    "ShuffledBatches",
    "SmoothCauchyMechanism",
    "SmoothLaplaceMechanism",
    "SmoothQuery",
    "StableQuery",
    "StableRelease",
    "TiltAnalysis",
    "TiltedMinimiser",
    "VarianceMechanism",
    "VarianceReducedGradient",
    "WholeSum",
    "approximate_release",
    "classic_gaussian_scale",
    "clipped_batch_sum",
    "clipped_gradient_sum",
    "clipped_linear_batch_sum",
    "clipped_linear_gradient_sum",
    "clipped_linear_model",
    "drawable",
    "moved_linear_loss_sum",
    "moved_loss_sum",
    "poisson_sampler",
    "pure_release",
    "usable_linear_records",
    "usable_records",
]

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
from privopt.mechanisms.events import drawable
from privopt.mechanisms.gaussian import GaussianMechanism, classic_gaussian_scale
from privopt.mechanisms.gibbs import GibbsMechanism
from privopt.mechanisms.laplace import LaplaceMechanism
from privopt.mechanisms.moved_losses import moved_linear_loss_sum, moved_loss_sum
from privopt.mechanisms.noise import IndependentNoise, Noise
from privopt.mechanisms.norm_laplace import NormLaplaceMechanism
from privopt.mechanisms.one_pass import OnePass
from privopt.mechanisms.private_gradient import BatchMean, PrivateGradient
from privopt.mechanisms.queries import (
    BoundedQuery,
    ClippedGradient,
    ClippedRisk,
    L1BoundedQuery,
    RegularisedMinimiser,
)
from privopt.mechanisms.tilt_analyses import TILT_ANALYSES, TiltAnalysis
from privopt.mechanisms.tilted import GaussianTilt, NormLaplaceTilt, TiltedMinimiser
from privopt.mechanisms.variance_reduced import VarianceReducedGradient

__all__ = [
    "MICROBATCH",
    "TILT_ANALYSES",
    "AllRecords",
    "BatchMean",
    "BatchSum",
    "Batches",
    "BoundedQuery",
    "ClippedGradient",
    "ClippedRisk",
    "FixedSizeBatches",
    "GaussianMechanism",
    "GaussianTilt",
    "GibbsMechanism",
    "HasSlope",
    "IndependentNoise",
    "L1BoundedQuery",
    "LaplaceMechanism",
    "Noise",
    "NormLaplaceMechanism",
    "NormLaplaceTilt",
    "OnePass",
    "OnePassBatches",
    "Participation",
    "PoissonBatches",
    "PrivateGradient",
    "RegularisedMinimiser",
    "ShuffledBatches",
    "TiltAnalysis",
    "TiltedMinimiser",
    "VarianceReducedGradient",
    "WholeSum",
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
    "usable_linear_records",
    "usable_records",
]

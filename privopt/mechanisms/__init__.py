"""Noise on the device beside the event it emits, and the bounded queries it is added to."""

from privopt.mechanisms.additive import GaussianMechanism, LaplaceMechanism, NormLaplaceMechanism
from privopt.mechanisms.batches import (
    AllRecords,
    Batches,
    CyclicPoissonBatches,
    FixedSizeBatches,
    OrderedBatches,
    PoissonBatches,
    ShuffledBatches,
)
from privopt.mechanisms.bias_reduced import BiasReducedGradient, LevelLaw, PublishedStop
from privopt.mechanisms.clipping import clipped_batch_sum, clipped_gradient_sum
from privopt.mechanisms.gibbs import ClippedRisk, GibbsMechanism
from privopt.mechanisms.means import ClippedMean, CompressedMean, ProjectedMean
from privopt.mechanisms.minimisers import OnePass, RegularisedMinimiser
from privopt.mechanisms.noise import IndependentNoise, Noise, TreeNoise, correlated_noise, noise_of
from privopt.mechanisms.private_gradient import BatchMean, PrivateGradient
from privopt.mechanisms.queries import ClippedGradient
from privopt.mechanisms.sparse_minimiser import SparseMinimiser, published_laplace_scale
from privopt.mechanisms.sufficient_statistics import ClippedMoments
from privopt.mechanisms.variance_reduced import VarianceReducedGradient

__all__ = [
    "AllRecords",
    "BatchMean",
    "Batches",
    "BiasReducedGradient",
    "ClippedGradient",
    "ClippedMean",
    "ClippedMoments",
    "ClippedRisk",
    "CompressedMean",
    "CyclicPoissonBatches",
    "FixedSizeBatches",
    "GaussianMechanism",
    "GibbsMechanism",
    "IndependentNoise",
    "LaplaceMechanism",
    "LevelLaw",
    "Noise",
    "NormLaplaceMechanism",
    "OnePass",
    "OrderedBatches",
    "PoissonBatches",
    "PrivateGradient",
    "ProjectedMean",
    "PublishedStop",
    "RegularisedMinimiser",
    "ShuffledBatches",
    "SparseMinimiser",
    "TreeNoise",
    "VarianceReducedGradient",
    "clipped_batch_sum",
    "clipped_gradient_sum",
    "correlated_noise",
    "noise_of",
    "published_laplace_scale",
]

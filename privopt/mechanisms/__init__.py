"""Noise on the device beside the event it emits, and the bounded queries it is added to."""

from privopt.mechanisms.additive import (
    GaussianMechanism,
    LaplaceMechanism,
    NormLaplaceMechanism,
    classic_gaussian_scale,
)
from privopt.mechanisms.batches import (
    AllRecords,
    Batches,
    CyclicPoissonBatches,
    FixedSizeBatches,
    OrderedBatches,
    Participation,
    PoissonBatches,
    ShuffledBatches,
    ordered_subset,
    poisson_sampler,
)
from privopt.mechanisms.best_of_runs import BestOfRuns, PointScore
from privopt.mechanisms.bias_reduced import BiasReducedGradient
from privopt.mechanisms.calibration import drawable
from privopt.mechanisms.clipped_risk import ClippedRisk
from privopt.mechanisms.clipping import (
    MICROBATCH,
    BatchSum,
    clipped_batch_sum,
    clipped_gradient_sum,
)
from privopt.mechanisms.gibbs import GibbsMechanism
from privopt.mechanisms.level_law import LevelLaw
from privopt.mechanisms.means import (
    ClippedMean,
    CompressedMean,
    ProjectedMean,
    body_of,
    largest_gain,
    largest_record,
)
from privopt.mechanisms.moved_losses import moved_loss_sum
from privopt.mechanisms.noise import (
    BufferedNoise,
    DenseNoise,
    HonakerNoise,
    IndependentNoise,
    Noise,
    RestartedNoise,
    SeriesNoise,
    TreeNoise,
    correlated_noise,
    noise_of,
    participation_event,
)
from privopt.mechanisms.objective_perturbation import (
    GaussianObjectivePerturbation,
    NormLaplaceObjectivePerturbation,
    PerturbedMinimiser,
)
from privopt.mechanisms.objective_perturbation_analyses import (
    OBJECTIVE_PERTURBATION_ANALYSES,
    ObjectivePerturbationAnalysis,
)
from privopt.mechanisms.one_pass import OnePass
from privopt.mechanisms.private_gradient import BatchMean, PrivateGradient
from privopt.mechanisms.public_stop import PublishedStop
from privopt.mechanisms.queries import (
    BoundedQuery,
    ClippedGradient,
    L1BoundedQuery,
    RegularisedMinimiser,
)
from privopt.mechanisms.sparse_minimiser import SparseMinimiser, published_laplace_scale
from privopt.mechanisms.truncated_records import truncated_records
from privopt.mechanisms.variance_reduced import VarianceReducedGradient

__all__ = [
    "MICROBATCH",
    "OBJECTIVE_PERTURBATION_ANALYSES",
    "AllRecords",
    "BatchMean",
    "BatchSum",
    "Batches",
    "BestOfRuns",
    "BiasReducedGradient",
    "BoundedQuery",
    "BufferedNoise",
    "ClippedGradient",
    "ClippedMean",
    "ClippedRisk",
    "CompressedMean",
    "CyclicPoissonBatches",
    "DenseNoise",
    "FixedSizeBatches",
    "GaussianMechanism",
    "GaussianObjectivePerturbation",
    "GibbsMechanism",
    "HonakerNoise",
    "IndependentNoise",
    "L1BoundedQuery",
    "LaplaceMechanism",
    "LevelLaw",
    "Noise",
    "NormLaplaceMechanism",
    "NormLaplaceObjectivePerturbation",
    "ObjectivePerturbationAnalysis",
    "OnePass",
    "OrderedBatches",
    "Participation",
    "PerturbedMinimiser",
    "PointScore",
    "PoissonBatches",
    "PrivateGradient",
    "ProjectedMean",
    "PublishedStop",
    "RegularisedMinimiser",
    "RestartedNoise",
    "SeriesNoise",
    "ShuffledBatches",
    "SparseMinimiser",
    "TreeNoise",
    "VarianceReducedGradient",
    "body_of",
    "classic_gaussian_scale",
    "clipped_batch_sum",
    "clipped_gradient_sum",
    "correlated_noise",
    "drawable",
    "largest_gain",
    "largest_record",
    "moved_loss_sum",
    "noise_of",
    "ordered_subset",
    "participation_event",
    "poisson_sampler",
    "published_laplace_scale",
    "truncated_records",
]

"""Samplers of batches."""

from privopt.mechanisms.batches.batches import (
    BATCHES,
    AllRecords,
    Batches,
    Draw,
    FixedSizeBatches,
    Participation,
)
from privopt.mechanisms.batches.passes import OrderedBatches, ShuffledBatches
from privopt.mechanisms.batches.poisson import CyclicPoissonBatches, PoissonBatches, poisson_sampler

__all__ = [
    "BATCHES",
    "AllRecords",
    "Batches",
    "CyclicPoissonBatches",
    "Draw",
    "FixedSizeBatches",
    "OrderedBatches",
    "Participation",
    "PoissonBatches",
    "ShuffledBatches",
    "poisson_sampler",
]

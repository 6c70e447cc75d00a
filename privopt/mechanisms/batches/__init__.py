"""Who takes part in each step: one file a sampler."""

from privopt.mechanisms.batches.all_records import AllRecords
from privopt.mechanisms.batches.batches import BATCHES, Batches, Draw, Participation
from privopt.mechanisms.batches.cyclic_poisson import CyclicPoissonBatches
from privopt.mechanisms.batches.fixed_size import FixedSizeBatches, ordered_subset
from privopt.mechanisms.batches.passes import OrderedBatches, ShuffledBatches
from privopt.mechanisms.batches.poisson import PoissonBatches, poisson_sampler

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
    "ordered_subset",
    "poisson_sampler",
]

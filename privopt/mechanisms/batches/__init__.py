"""Who takes part in each step: one file a sampler."""

from privopt.mechanisms.batches.all_records import AllRecords
from privopt.mechanisms.batches.batches import BATCHES, Batches, Draw, Participation
from privopt.mechanisms.batches.cyclic_poisson import CyclicPoissonBatches
from privopt.mechanisms.batches.fixed_size import FixedSizeBatches
from privopt.mechanisms.batches.ordered import OrderedBatches
from privopt.mechanisms.batches.poisson import PoissonBatches, poisson_sampler
from privopt.mechanisms.batches.shuffled import ShuffledBatches
from privopt.mechanisms.batches.subset import ordered_subset

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

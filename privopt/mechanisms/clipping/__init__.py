"""Sums of per-example gradients, each clipped to a norm.

A record whose gradient or features are not finite contributes zero, so no record can
poison the sum or move it by more than the clip norm. Norms are scaled so that no square vanishes
or overflows, and the products that a record bounds are taken in full precision: accelerators
otherwise round float32 factors to ten bits.

Sums are over the whole data set or over a batch of its rows. Of two forms of clipping, ``g min(1,
C/|g|)`` keeps short gradients as they are, and ``g C/(|g| + gamma)``, automatic clipping, makes
all of them nearly equally long (Bu, Wang, Zha and Karypis 2023); ``gamma`` None asks for the first.

Gradients of a generalised linear loss are clipped by their slopes (``slopes``); those of squared
distances to sparse points and of losses of single coordinates without their zeros (``sparse``);
those of any other loss are made one a record, a microbatch at once (``gradients``).
"""

from privopt.mechanisms.clipping.factors import BatchSum, is_exact
from privopt.mechanisms.clipping.slopes import bounded_records, clipped_linear_model
from privopt.mechanisms.clipping.sums import (
    MICROBATCH,
    clipped_batch_sum,
    clipped_gradient_sum,
    without_null_records,
)

__all__ = [
    "MICROBATCH",
    "BatchSum",
    "bounded_records",
    "clipped_batch_sum",
    "clipped_gradient_sum",
    "clipped_linear_model",
    "is_exact",
    "without_null_records",
]

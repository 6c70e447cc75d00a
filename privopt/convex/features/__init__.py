"""Features of the records: ``n`` rows of ``d`` numbers, stored whole or without their zeros.

Whatever multiplies features by a parameter does it here. ``matvec`` and ``rmatvec`` take one vector
or several, one a row; a single row of features, as a loss sees it under ``jax.vmap``, is of the
same class with one axis less. Products are taken in full precision, since accelerators round the
factors of a float32 product to ten bits unless they are told not to.
"""

from privopt.convex.features.dense import DenseFeatures
from privopt.convex.features.features import Features, FeaturesLike, Products
from privopt.convex.features.given import as_features, difference, is_features, shortened
from privopt.convex.features.sparse import SparseFeatures

__all__ = [
    "DenseFeatures",
    "Features",
    "FeaturesLike",
    "Products",
    "SparseFeatures",
    "as_features",
    "difference",
    "is_features",
    "shortened",
]

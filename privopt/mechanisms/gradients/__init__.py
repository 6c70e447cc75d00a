"""Private gradient oracles: which records a step sees, with the noise and the event of it.

Every oracle is a pytree of numbers. ``bind(objective, key)`` gives the
:class:`privopt.convex.GradientOracle` that a first-order method asks, ``event(relation, steps)``
says what all its answers together do to privacy. Each answer is a clipped sum plus Gaussian noise,
divided by public numbers.
"""

from privopt.mechanisms.gradients.exact import ExactGradient
from privopt.mechanisms.gradients.fixed_size import FixedSizeGradient
from privopt.mechanisms.gradients.full_batch import FullBatchGradient
from privopt.mechanisms.gradients.poisson import PoissonGradient
from privopt.mechanisms.gradients.sampling import poisson_sampler
from privopt.mechanisms.gradients.shuffled import ShuffledGradient
from privopt.mechanisms.gradients.variance_reduced import VarianceReducedGradient

__all__ = [
    "ExactGradient",
    "FixedSizeGradient",
    "FullBatchGradient",
    "PoissonGradient",
    "ShuffledGradient",
    "VarianceReducedGradient",
    "poisson_sampler",
]

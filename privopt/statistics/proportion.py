"""What so many hits in so many independent trials prove of a probability."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv

from privopt.arguments import checked
from privopt.privacy.numbers import real_array

FloatArray: TypeAlias = npt.NDArray[np.float64]


@checked
def clopper_pearson(
    hits: npt.ArrayLike, trials: int, failure: float
) -> tuple[FloatArray, FloatArray]:
    """A lower and an upper bound of the probability of a hit, of the shape of ``hits``.

    Each alone is wrong with probability ``failure`` at most, whatever the true probability.

    Source: Clopper and Pearson, "The use of confidence or fiducial limits illustrated in the case
    of the binomial", Biometrika 1934.

    Examples
    --------
    >>> lower, upper = clopper_pearson([0, 10], trials=10, failure=0.001)
    >>> lower.round(3).tolist(), upper.round(3).tolist()
    ([0.0, 0.501], [0.499, 1.0])
    """
    hits = real_array("hits", hits)
    misses = trials - hits
    lower = betaincinv(np.maximum(hits, 1), misses + 1, failure)
    upper = betaincinv(hits + 1, np.maximum(misses, 1), 1.0 - failure)
    return np.where(hits == 0, 0.0, lower), np.where(misses == 0, 1.0, upper)

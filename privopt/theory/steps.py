"""Step sizes, moments of batch gradients and output rules of first-order methods."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from privopt.arguments import Names, checked


class BatchMoments(NamedTuple):
    """Upper bounds of ``E |g|^2 / L^2`` and ``E |g - grad F|^2 / L^2`` of a batch mean ``g``."""

    second_moment: float
    variance: float


ALL_RECORDS = BatchMoments(1.0, 0.0)


@checked
def batch_moments(sampler: str, *, n: int, batch_size: float) -> BatchMoments | None:
    """Return the moments of a batch of ``b`` out of ``n`` gradients of norm at most ``L``.

    ``"poisson"``: expected size ``b``, divisor ``b``, variance ``(1 - b/n)/b``.
    ``"without_replacement"``: variance ``(n - b)/((n - 1) b)``, and ``|g| <= L``.
    ``"shuffled"``: None, because a batch of a shuffled pass is biased given the past.
    """
    if sampler == "shuffled":
        return None
    if sampler == "poisson":
        variance = max(0.0, 1.0 - batch_size / n) / batch_size
        return BatchMoments(1.0 + variance, variance)
    return BatchMoments(1.0, (n - batch_size) / (max(n - 1, 1) * batch_size))


class OutputRule(Names):
    """Output of a first-order method with ``T`` gradients and iterates ``w_1..w_{T+1}``.

    ``average``
        Mean of all iterates.
    ``average_after_step``
        Mean of ``w_2..w_{T+1}``.
    ``weighted_average``
        Mean of all iterates with weights proportional to ``t``.
    ``random_iterate``, ``last``
        One iterate drawn uniformly; ``w_{T+1}``.
    """

    AVERAGE = "average"
    AVERAGE_AFTER_STEP = "average_after_step"
    WEIGHTED_AVERAGE = "weighted_average"
    RANDOM_ITERATE = "random_iterate"
    LAST = "last"


class StepRule(NamedTuple):
    """Step sizes ``eta_t = scale (t + offset)^{-power} (1 - decay (t - 1)/T)``, ``t = 1..T``.

    Examples
    --------
    >>> StepRule(0.5, decay=1.0).sizes(4).tolist()
    [0.5, 0.375, 0.25, 0.125]
    """

    scale: float
    power: float = 0.0
    offset: float = 0.0
    decay: float = 0.0

    @classmethod
    def strongly_convex(cls, modulus: float) -> StepRule:
        """Return the step sizes ``2/(m (t + 1))``."""
        return cls(2.0 / modulus, power=1.0, offset=1.0)

    @property
    def constant(self) -> bool:
        """True if all steps have one size."""
        return self.power == self.decay == 0.0

    @property
    def linear_decay(self) -> bool:
        """True if the steps decay linearly to 0 at step ``T + 1``."""
        return self == StepRule(self.scale, decay=1.0)

    def sizes(self, steps: int) -> npt.NDArray[np.float64]:
        """Return ``eta_1 .. eta_T``."""
        times = np.arange(1.0, steps + 1.0)
        factors = 1.0 - self.decay * (times - 1.0) / steps
        return np.asarray(self.scale * (times + self.offset) ** -self.power * factors)

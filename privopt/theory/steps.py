"""Steps of descent: their sizes, the batches that they are taken along, and what is returned."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from privopt.arguments import Names, checked


class Moments(NamedTuple):
    """``E |g|^2 / L^2`` and ``E |g - grad F|^2 / L^2`` of the mean gradient of a batch, or more."""

    second_moment: float
    variance: float


ALL_RECORDS = Moments(1.0, 0.0)


@checked
def batch_moments(sampler: str, *, n: int, batch_size: float) -> Moments | None:
    """The moments of a batch of ``b`` out of ``n`` gradients ``g_i`` of norm at most ``L``.

    The ``sampler`` is ``"poisson"``, of expected size ``b`` and divided by ``b``: variance ``(1 -
    b/n)/b``. Or ``"without_replacement"``, ``(n - b)/((n - 1) b)``, where ``|g| <= L`` always. None
    for ``"shuffled"`` passes: given the past, a batch of theirs is biased.
    """
    if sampler == "shuffled":
        return None
    if sampler == "poisson":
        variance = max(0.0, 1.0 - batch_size / n) / batch_size
        return Moments(1.0 + variance, variance)
    return Moments(1.0, (n - batch_size) / (max(n - 1, 1) * batch_size))


class OutputRule(Names):
    """What a first-order method returns of ``w_1..w_{T+1}``, of which ``T`` gradients are asked.

    ``average``
        The mean of all.
    ``average_after_step``
        The mean of ``w_2..w_{T+1}``, the points that steps lead to.
    ``weighted_average``
        Of all, with weights in proportion to ``t``.
    ``random_iterate``, ``last``
        One of all, each as likely as another; ``w_{T+1}``.
    """

    AVERAGE = "average"
    AVERAGE_AFTER_STEP = "average_after_step"
    WEIGHTED_AVERAGE = "weighted_average"
    RANDOM_ITERATE = "random_iterate"
    LAST = "last"


class StepRule(NamedTuple):
    """``eta_t = scale (t + offset)^{-power} (1 - decay (t - 1)/T)`` for ``t = 1..T``.

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
        """``2/(m (t + 1))``."""
        return cls(2.0 / modulus, power=1.0, offset=1.0)

    @property
    def constant(self) -> bool:
        """Whether all steps have one size."""
        return self.power == self.decay == 0.0

    @property
    def linear_decay(self) -> bool:
        """Whether the steps fall evenly, to 0 at the step after the last."""
        return self == StepRule(self.scale, decay=1.0)

    def sizes(self, steps: int) -> npt.NDArray[np.float64]:
        """``eta_1 .. eta_T``."""
        times = np.arange(1.0, steps + 1.0)
        shrunk = 1.0 - self.decay * (times - 1.0) / steps
        return np.asarray(self.scale * (times + self.offset) ** -self.power * shrunk)

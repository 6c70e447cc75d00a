"""The price of private selection: run a mechanism a random number of times, keep the best output.

Tuning hyperparameters is such a selection. If the number of runs ``K`` is drawn from the right
distribution, and neither ``K`` nor any but the best output is released, the whole costs little
more than one run, however large ``K`` turns out. A *fixed* number of runs has no such guarantee:
it costs as much as releasing every run.

Sources: Liu and Talwar, "Private selection from private candidates", STOC 2019
(arXiv:1811.07971); Papernot and Steinke, "Hyperparameter tuning with Rényi differential privacy",
ICLR 2022 (arXiv:2110.03620).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral

import dp_accounting as dp
import numpy as np
from scipy.special import gammaln

from privopt.privacy.arguments import check_delta, check_epsilon, real
from privopt.privacy.boundary import boundary

__all__ = ["Repetitions", "select_best", "selection_delta", "selection_epsilon"]

_SLACK, _BLUR = 2.0**-40, 2.0**-48  # of ln(1/gamma), relative and absolute, around the root


@dataclass(frozen=True)
class Repetitions:
    """The law of ``K``: truncated negative binomial, or Poisson.

    ``P(K = k)`` is proportional to ``(1 - gamma)^k Gamma(k + shape) / k!`` for ``k = 1, 2, ...``:
    geometric at ``shape = 1``, logarithmic in the limit ``shape = 0``. ``shape = inf`` stands for
    Poisson, where ``K = 0`` may occur; an output fixed in advance is then released.

    Parameters
    ----------
    mean : float
        ``E[K] >= 1``.
    shape : float
        In ``[0, inf]``. Small shapes cost less privacy, and spread ``K`` more.

    Raises
    ------
    ValueError
        If ``mean`` is not finite and at least one, or ``shape`` negative.
    """

    mean: float
    shape: float

    def __post_init__(self) -> None:
        mean, shape = real("mean", self.mean), real("shape", self.shape)
        if not 1.0 <= mean < math.inf:
            raise ValueError(f"mean must be finite and at least 1, got {self.mean!r}")
        if shape < 0.0:
            raise ValueError(f"shape must be non-negative, got {self.shape!r}")
        object.__setattr__(self, "mean", mean)
        object.__setattr__(self, "shape", shape)

    @classmethod
    def geometric(cls, mean: float) -> Repetitions:
        """Stop after each run with probability ``1/mean``: random stopping."""
        return cls(mean, 1.0)

    @classmethod
    def logarithmic(cls, mean: float) -> Repetitions:
        """``P(K = k)`` proportional to ``(1 - gamma)^k / k``."""
        return cls(mean, 0.0)

    @classmethod
    def poisson(cls, mean: float) -> Repetitions:
        """Concentrated around its mean, at the price of a worse guarantee."""
        return cls(mean, math.inf)

    @property
    def gamma(self) -> float:
        """The parameter to sample with; the mean it gives is not above ``mean``.

        Raises
        ------
        ValueError
            For Poisson repetitions, which have none.
        """
        x = self._log_inverse_gamma()
        return min(1.0, math.exp(-max(0.0, x * (1.0 - _SLACK) - _BLUR)) * (1.0 + 2.0**-51))

    @property
    def log_inverse_gamma(self) -> float:
        """``ln(1/gamma)`` to account with, not below that of ``gamma``."""
        x = self._log_inverse_gamma()
        return x * (1.0 + _SLACK) + (_BLUR if x > 0.0 else 0.0)

    def probability(self, k: int) -> float:
        """``P(K = k)``.

        Raises
        ------
        ValueError
            If ``k`` is not a non-negative integer.
        """
        if isinstance(k, bool) or not isinstance(k, Integral) or k < 0:
            raise ValueError(f"k must be a non-negative integer, got {k!r}")
        if math.isinf(self.shape):
            return math.exp(k * math.log(self.mean) - self.mean - float(gammaln(k + 1.0)))
        gamma = self.gamma
        if k == 0 or gamma == 1.0:
            return float(k == 1 and gamma == 1.0)
        rise = k * math.log1p(-gamma)
        if self.shape == 0.0:
            return math.exp(rise) / (-k * math.log(gamma))
        ways = float(gammaln(k + self.shape) - gammaln(k + 1.0) - gammaln(self.shape))
        return math.exp(rise + ways) / math.expm1(-self.shape * math.log(gamma))

    def draw(self, generator: np.random.Generator) -> int:
        """One ``K``. It is secret: neither it nor the time the runs take may be released."""
        if math.isinf(self.shape):
            return int(generator.poisson(self.mean))
        gamma = self.gamma
        if gamma == 1.0:
            return 1
        if self.shape == 0.0:
            return int(generator.logseries(1.0 - gamma))
        while not (k := int(generator.negative_binomial(self.shape, gamma))):
            pass
        return k

    def _log_inverse_gamma(self) -> float:
        """``x = ln(1/gamma)`` with ``E[K] = shape (e^x - 1) / (1 - e^(-shape x))``."""
        if math.isinf(self.shape):
            raise ValueError("gamma does not exist for Poisson repetitions, got shape = inf")
        if self.mean == 1.0:
            return 0.0

        def enough(x: float) -> bool:
            rest = -math.expm1(-self.shape * x) / self.shape if self.shape > 0.0 else x
            return math.expm1(x) >= self.mean * rest

        x = 1.0
        while not enough(x):
            x *= 2.0
        return boundary(enough, x, 0.0)


def select_best(event: dp.DpEvent, repetitions: Repetitions) -> dp.dp_event.RepeatAndSelectDpEvent:
    """The event of running ``event`` ``K`` times and releasing the best output alone.

    "Best" is by any order of the outputs that does not look at the data. What the outputs are
    compared by (a score) is part of the output, and paid for by ``event``.
    """
    if not isinstance(event, dp.DpEvent):
        raise ValueError(f"event must be a dp_accounting.DpEvent, got {event!r}")
    return dp.dp_event.RepeatAndSelectDpEvent(event, repetitions.mean, repetitions.shape)


def selection_epsilon(epsilon: float, repetitions: Repetitions) -> float:
    """Pure loss of the selection from that of one run: ``(2 + shape) epsilon``, rounded up.

    Formal guarantee
    ----------------
    If one run is ``epsilon``-DP, the best of ``K`` runs is ``(2 + shape) epsilon``-DP, under the
    same relation. At ``shape = 1`` this is the ``3 epsilon`` of random stopping (Liu and Talwar
    2019). Source: Papernot and Steinke 2022, Theorem 2, as both orders tend to infinity. A single
    run (``mean = 1``) costs ``epsilon``.

    Raises
    ------
    ValueError
        If ``epsilon`` is outside ``[0, inf)``, or for Poisson repetitions, which have no pure
        guarantee.
    """
    epsilon = check_epsilon(epsilon)
    if math.isinf(repetitions.shape):
        raise ValueError("repetitions must not be Poisson for pure privacy, got shape = inf")
    if repetitions.mean == 1.0 or epsilon == 0.0:
        return epsilon
    return (2.0 + repetitions.shape) * epsilon * (1.0 + 2.0**-51)


def selection_delta(delta: float, repetitions: Repetitions) -> float:
    """The ``delta`` that goes with ``selection_epsilon``: ``E[K] delta``, rounded up, at most one.

    Formal guarantee
    ----------------
    If one run is ``(epsilon, delta)``-DP, the best of ``K`` runs is
    ``((2 + shape) epsilon, E[K] delta)``-DP, under the same relation. The outputs of such a run
    are, on neighbours, mixtures: with weight ``delta`` a *failure*, else ``epsilon``-
    indistinguishable (Kairouz, Oh and Viswanath 2017). Runs fail independently of all else, so
    on both data sets ``K`` runs pass without failure with the same probability
    ``E[(1 - delta)^K] >= 1 - E[K] delta``. Given that, ``K`` is again truncated negative
    binomial, of the same shape, with ``1 - gamma`` shrunk by ``1 - delta``; the pure guarantee,
    which no mean enters, applies.

    Raises
    ------
    ValueError
        If ``delta`` is outside ``[0, 1)``, or for Poisson repetitions.
    """
    delta = check_delta(delta)
    if math.isinf(repetitions.shape):
        raise ValueError("repetitions must not be Poisson here, got shape = inf")
    return min(1.0, repetitions.mean * delta * (1.0 + 2.0**-51))

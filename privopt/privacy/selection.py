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

import dp_accounting as dp
import numpy as np
from scipy.special import gammaln

from privopt.arguments import checked, shown
from privopt.privacy.numbers import bisect, check_count, check_epsilon, real

_MAX_MEAN = 2.0**40
_MAX_LOG = 40.0  # of 1/gamma: beyond it, float64 and int64 lose count of the runs
_MIN_PRODUCT = 1e-290  # products of shape and ln(1/gamma) that are zero
_SLACK, _BLUR = 2.0**-40, 2.0**-48  # of ln(1/gamma), relative and absolute, around the root


@dataclass(frozen=True)
class Repetitions:
    """The law of ``K``: truncated negative binomial, or Poisson.

    ``P(K = k)`` is proportional to ``(1 - gamma)^k |Gamma(k + shape)| / k!``, ``k = 1, 2, ...``:
    geometric at ``shape = 1``, logarithmic in the limit ``shape = 0``. ``shape = inf`` stands for
    Poisson, where ``K = 0`` may occur; an output fixed in advance is then released.

    The generating function has ``f'(x)`` proportional to ``(1 - (1 - gamma) x)^-(1 + shape)``. All
    that is said of privacy follows from that, and asks only for ``1 + shape >= 0``.

    Parameters
    ----------
    mean : float
        ``E[K]``, in ``[1, 2^40]``; for small shapes less, so that ``1/gamma`` is at most ``e^40``.
    shape : float
        In ``(-1, inf]``. Small shapes cost less privacy, and spread ``K`` more.

    Examples
    --------
    >>> Repetitions.geometric(10.0)
    Repetitions(mean=10.0, shape=1.0)
    """

    mean: float
    shape: float

    def __post_init__(self) -> None:
        mean, shape = real("mean", self.mean), real("shape", self.shape)
        if not 1.0 <= mean <= _MAX_MEAN:
            raise ValueError(f"mean must lie in [1, 2^40], got {shown(self.mean)}")
        if shape <= -1.0:
            raise ValueError(f"shape must be above -1, got {shown(self.shape)}")
        object.__setattr__(self, "mean", mean)
        object.__setattr__(self, "shape", shape)
        if math.isfinite(shape) and not self._enough(_MAX_LOG):
            raise ValueError(
                f"mean must be smaller at shape {shown(shape)}, got {shown(self.mean)}"
            )

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
        """The parameter to sample with; the mean it gives is not above ``mean``."""
        x = self._log_inverse_gamma()
        return min(1.0, math.exp(-max(0.0, x * (1.0 - _SLACK) - _BLUR)) * (1.0 + 2.0**-51))

    @property
    def log_inverse_gamma(self) -> float:
        """``ln(1/gamma)`` to account with, not below that of ``gamma``."""
        x = self._log_inverse_gamma()
        return x * (1.0 + _SLACK) + (_BLUR if x > 0.0 else 0.0)

    def probability(self, k: int) -> float:
        """``P(K = k)``."""
        k = check_count("k", k)
        if math.isinf(self.shape):
            return math.exp(k * math.log(self.mean) - self.mean - float(gammaln(k + 1.0)))
        gamma = self.gamma
        if k == 0 or gamma == 1.0:
            return float(k == 1 and gamma == 1.0)
        rise = k * math.log1p(-gamma)
        if self.shape == 0.0:
            return math.exp(rise) / (-k * math.log(gamma))
        ways = float(gammaln(k + self.shape) - gammaln(k + 1.0) - gammaln(self.shape))
        return math.exp(rise + ways) / abs(math.expm1(-self.shape * math.log(gamma)))

    def all_fail(self, failure: float) -> float:
        """``E[failure^K]``: no run succeeds, of runs that fail independently so often.

        ``g / (1 + g)`` for geometric repetitions with ``g = gamma`` and runs that fail half the
        time. With no run at all, as Poisson repetitions may have it, all fail.

        Examples
        --------
        >>> round(Repetitions.geometric(9.0).all_fail(0.5), 6)
        0.1
        """
        failure = real("failure", failure)
        if not 0.0 <= failure <= 1.0:
            raise ValueError(f"failure must lie in [0, 1], got {shown(failure)}")
        if math.isinf(self.shape):
            return math.exp(self.mean * (failure - 1.0))
        gamma = self.gamma
        if gamma == 1.0:
            return failure
        part, whole = -math.log1p(-(1.0 - gamma) * failure), -math.log(gamma)
        rise, most = self.shape * part, self.shape * whole
        if abs(most) <= _MIN_PRODUCT or part == 0.0:
            return part / whole
        return math.exp(rise - most) * math.expm1(-rise) / math.expm1(-most)

    def tail(self, cap: int) -> float:
        """An upper bound of ``P(K > cap)``; exact but for rounding if repetitions are geometric.

        ``P(K = k + 1) / P(K = k)`` is ``(1 - gamma) (k + shape) / (k + 1)``, for Poisson
        repetitions ``mean / (k + 1)``: a geometric series with the largest of them lies above.
        """
        first = check_count("cap", cap) + 1
        if math.isinf(self.shape):
            ratio = self.mean / (first + 1)
        else:
            ratio = (1.0 - self.gamma) * max(1.0, (first + self.shape) / (first + 1))
        if not ratio < 1.0:
            return 1.0
        return min(1.0, self.probability(first) / (1.0 - ratio) * (1.0 + _SLACK))

    def draw(self, generator: np.random.Generator) -> int:
        """One ``K``. It is secret: neither it nor the time the runs take may be released.

        Never redrawn. As ``P(K = k)`` is proportional to ``1/k = int_0^1 u^(k-1) du`` times the
        weight of ``k - 1`` in the negative binomial law of shape ``1 + shape``, ``K - 1`` has
        that law, with ``s = 1 - (1 - gamma) u`` in the place of ``gamma``, for ``s`` in
        ``[gamma, 1]`` of density proportional to ``s^-(1 + shape)``.
        """
        if math.isinf(self.shape):
            return int(generator.poisson(self.mean))
        gamma = self.gamma
        s = math.exp(_log_mixing(generator.random(), -math.log(gamma), self.shape))
        return 1 + int(generator.negative_binomial(1.0 + self.shape, s))

    def _log_inverse_gamma(self) -> float:
        """``x = ln(1/gamma)`` with ``E[K] = shape (e^x - 1) / (1 - e^(-shape x))``."""
        if math.isinf(self.shape):
            raise ValueError("gamma does not exist for Poisson repetitions, got shape = inf")
        return bisect(self._enough, _MAX_LOG, 0.0) if self.mean > 1.0 else 0.0

    def _enough(self, x: float) -> bool:
        """Whether ``ln(1/gamma) = x`` gives at least the mean."""
        rise = self.shape * x
        rest = -math.expm1(-rise) / self.shape if abs(rise) > _MIN_PRODUCT else x
        return math.expm1(x) >= self.mean * rest


@checked
def select_best(event: dp.DpEvent, repetitions: Repetitions) -> dp.dp_event.RepeatAndSelectDpEvent:
    """The event of running ``event`` ``K`` times and releasing the best output alone.

    "Best" is by any order of the outputs that does not look at the data. What the outputs are
    compared by (a score) is part of the output, and paid for by ``event``.

    Examples
    --------
    >>> select_best(dp.GaussianDpEvent(4.0), Repetitions.geometric(10.0)).mean
    10.0
    """
    if not isinstance(event, dp.DpEvent):
        raise ValueError(f"event must be a dp_accounting.DpEvent, got {shown(event)}")
    return dp.dp_event.RepeatAndSelectDpEvent(event, repetitions.mean, repetitions.shape)


@checked
def selection_epsilon(epsilon: float, repetitions: Repetitions) -> float:
    """Pure loss of the selection from that of one run: ``(2 + shape) epsilon``, rounded up.

    Formal guarantee
    ----------------
    If one run is ``epsilon``-DP, the best of ``K`` runs is ``(2 + shape) epsilon``-DP, under the
    same relation. At ``shape = 1`` this is the ``3 epsilon`` of random stopping (Liu and Talwar
    2019), and as ``shape`` tends to -1, nothing more than one run. Source: Papernot and Steinke
    2022, Theorem 2, as both orders tend to infinity. A single run (``mean = 1``) costs ``epsilon``.

    Examples
    --------
    >>> round(selection_epsilon(0.1, Repetitions.geometric(10.0)), 6)
    0.3
    """
    epsilon = check_epsilon(epsilon)
    if math.isinf(repetitions.shape):
        raise ValueError("repetitions must not be Poisson for pure privacy, got shape = inf")
    if repetitions.mean == 1.0 or epsilon == 0.0:
        return epsilon
    return (2.0 + repetitions.shape) * epsilon * (1.0 + 2.0**-51)


def _log_mixing(u: float, x: float, shape: float) -> float:
    """``ln s`` in ``[-x, 0]`` at ``u``: ``s^-shape`` is uniform between 1 and ``e^(shape x)``."""
    rise = shape * x
    if abs(rise) <= _MIN_PRODUCT:
        return -u * x
    if rise < 30.0:
        return -math.log1p(u * math.expm1(rise)) / shape
    return -(rise + math.log(u + (1.0 - u) * math.exp(-rise))) / shape

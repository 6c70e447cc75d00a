"""The best of a random number of runs, for example hyperparameter tuning.

If the number of runs ``K`` has a suitable distribution, and neither ``K`` nor any output except the
best is released, the selection costs little more than one run, for every realised ``K``. A *fixed*
number of runs has no such guarantee: it costs as much as releasing the outputs of all runs.

Sources: Liu and Talwar 2019 (arXiv:1811.07971); Papernot and Steinke 2022 (arXiv:2110.03620),
Theorems 2 and 6.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import dp_accounting as dp
import numpy as np
from dp_accounting.dp_event import RepeatAndSelectDpEvent
from scipy.special import gammaln

from privopt.arguments import checked, shown
from privopt.privacy.mechanisms.base import (
    Curve,
    LargestLoss,
    Release,
    compose_losses,
    renyi_curve,
    renyi_orders,
)
from privopt.privacy.numbers import Array, bisect, check_count, check_epsilon, real
from privopt.privacy.renyi import ORDERS, renyi_log_deltas
from privopt.spec import Relation

_MAX_MEAN = 2.0**40
_MAX_LOG = 40.0  # of 1/gamma: beyond it, float64 and int64 cannot count the runs
_MIN_PRODUCT = 1e-290  # products of shape and ln(1/gamma) that are zero
_SLACK, _BLUR = 2.0**-40, 2.0**-48  # relative and absolute errors of ln(1/gamma)

_COST_SLACK = 2.0**-50  # relative, of the Rényi cost


@dataclass(frozen=True)
class Repetitions:
    """The law of the number of runs ``K``: truncated negative binomial, or Poisson.

    ``P(K = k)`` is proportional to ``(1 - gamma)^k |Gamma(k + shape)| / k!``, ``k = 1, 2, ...``:
    geometric for ``shape = 1``, logarithmic in the limit ``shape = 0``. ``shape = inf`` means
    Poisson, for which ``K = 0`` is possible; then an output fixed in advance is released.

    The generating function has ``f'(x)`` proportional to ``(1 - (1 - gamma) x)^-(1 + shape)``. All
    privacy statements follow from this and need only ``1 + shape >= 0``.

    Parameters
    ----------
    mean : float
        ``E[K]``, in ``[1, 2^40]``; smaller for small shapes, so that ``1/gamma`` is at most
        ``e^40``.
    shape : float
        In ``(-1, inf]``. Small shapes cost less privacy and increase the variance of ``K``.

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
        if math.isfinite(shape) and not self._is_sufficient(_MAX_LOG):
            raise ValueError(
                f"mean must be smaller at shape {shown(shape)}, got {shown(self.mean)}"
            )

    @classmethod
    def geometric(cls, mean: float) -> Repetitions:
        """Return random stopping: stop after each run with probability ``1/mean``."""
        return cls(mean, 1.0)

    @classmethod
    def logarithmic(cls, mean: float) -> Repetitions:
        """Return repetitions with ``P(K = k)`` proportional to ``(1 - gamma)^k / k``."""
        return cls(mean, 0.0)

    @classmethod
    def poisson(cls, mean: float) -> Repetitions:
        """Return Poisson repetitions: concentrated around the mean, with a weaker guarantee."""
        return cls(mean, math.inf)

    @property
    def gamma(self) -> float:
        """The parameter for sampling. The mean that it implies is not above ``mean``."""
        x = self._log_inverse_gamma()
        return min(1.0, math.exp(-max(0.0, x * (1.0 - _SLACK) - _BLUR)) * (1.0 + 2.0**-51))

    @property
    def log_inverse_gamma(self) -> float:
        """``ln(1/gamma)`` for accounting, rounded up."""
        x = self._log_inverse_gamma()
        return x * (1.0 + _SLACK) + (_BLUR if x > 0.0 else 0.0)

    def probability(self, k: int) -> float:
        """Return ``P(K = k)``."""
        k = check_count("k", k)
        if math.isinf(self.shape):
            return math.exp(k * math.log(self.mean) - self.mean - float(gammaln(k + 1.0)))
        gamma = self.gamma
        if k == 0 or gamma == 1.0:
            return float(k == 1 and gamma == 1.0)
        rise = k * math.log1p(-gamma)
        if self.shape == 0.0:
            return math.exp(rise) / (-k * math.log(gamma))
        log_count = float(gammaln(k + self.shape) - gammaln(k + 1.0) - gammaln(self.shape))
        return math.exp(rise + log_count) / abs(math.expm1(-self.shape * math.log(gamma)))

    def all_fail(self, failure: float) -> float:
        """Return ``E[failure^K]``, the probability that all runs fail, if they fail independently.

        It is ``g / (1 + g)`` for geometric repetitions with ``g = gamma`` and ``failure = 1/2``.
        The event includes ``K = 0``, which is possible for Poisson repetitions.

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
        part, full = -math.log1p(-(1.0 - gamma) * failure), -math.log(gamma)
        rise, total = self.shape * part, self.shape * full
        if abs(total) <= _MIN_PRODUCT or part == 0.0:
            return part / full
        return math.exp(rise - total) * math.expm1(-rise) / math.expm1(-total)

    def tail(self, cap: int) -> float:
        """Return an upper bound of ``P(K > cap)``, exact up to rounding for geometric repetitions.

        ``P(K = k + 1) / P(K = k)`` is ``(1 - gamma) (k + shape) / (k + 1)``, or ``mean / (k + 1)``
        for Poisson repetitions. The bound is the geometric series with the largest of these ratios.
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
        """Sample ``K``, which is secret: neither it nor the running time may be released.

        No value is rejected. ``P(K = k)`` is proportional to ``1/k = int_0^1 u^(k-1) du`` times the
        weight of ``k - 1`` in the negative binomial law of shape ``1 + shape``. Hence ``K - 1`` has
        that law with ``s = 1 - (1 - gamma) u`` instead of ``gamma``, where ``s`` in ``[gamma, 1]``
        has a density proportional to ``s^-(1 + shape)``.
        """
        if math.isinf(self.shape):
            return int(generator.poisson(self.mean))
        gamma = self.gamma
        s = math.exp(_log_mixing(generator.random(), -math.log(gamma), self.shape))
        return 1 + int(generator.negative_binomial(1.0 + self.shape, s))

    def _log_inverse_gamma(self) -> float:
        """Return ``x = ln(1/gamma)`` with ``E[K] = shape (e^x - 1) / (1 - e^(-shape x))``."""
        if math.isinf(self.shape):
            raise ValueError("gamma does not exist for Poisson repetitions, got shape = inf")
        return bisect(self._is_sufficient, _MAX_LOG, 0.0) if self.mean > 1.0 else 0.0

    def _is_sufficient(self, x: float) -> bool:
        """Return True if ``ln(1/gamma) = x`` gives at least the mean."""
        rise = self.shape * x
        rest = -math.expm1(-rise) / self.shape if abs(rise) > _MIN_PRODUCT else x
        return math.expm1(x) >= self.mean * rest


@checked
def select_best(event: dp.DpEvent, repetitions: Repetitions) -> RepeatAndSelectDpEvent:
    """Return the event of running ``event`` ``K`` times and releasing only the best output.

    "Best" is by any order of the outputs that does not depend on the data. A score that is compared
    is part of the output and covered by ``event``.

    Examples
    --------
    >>> select_best(dp.GaussianDpEvent(4.0), Repetitions.geometric(10.0)).mean
    10.0
    """
    return RepeatAndSelectDpEvent(event, repetitions.mean, repetitions.shape)


@checked
def selection_epsilon(epsilon: float, repetitions: Repetitions) -> float:
    """Return the pure loss of the selection, ``(2 + shape) epsilon``, rounded up.

    Formal guarantee
    ----------------
    If one run is ``epsilon``-DP, the best of ``K`` runs is ``(2 + shape) epsilon``-DP, under the
    same relation. For ``shape = 1`` this is the ``3 epsilon`` of random stopping (Liu and Talwar
    2019). As ``shape`` tends to -1, it tends to the loss of one run. Source: Papernot and Steinke
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
    """Return ``ln s`` in ``[-x, 0]``, where ``s^-shape`` is ``1 + u (e^(shape x) - 1)``."""
    rise = shape * x
    if abs(rise) <= _MIN_PRODUCT:
        return -u * x
    if rise < 30.0:
        return -math.log1p(u * math.expm1(rise)) / shape
    return -(rise + math.log(u + (1.0 - u) * math.exp(-rise))) / shape


@dataclass(frozen=True)
class Selected(Release, event=RepeatAndSelectDpEvent):
    """The best of ``repetitions`` runs of ``inner``; only the best output is released."""

    inner: dp.DpEvent
    repetitions: Repetitions

    @classmethod
    def read(cls, event: RepeatAndSelectDpEvent) -> Selected | None:
        with suppress(ValueError):
            return cls(event.event, Repetitions(event.mean, event.shape))
        return None

    def loss(self, relation: Relation) -> LargestLoss | None:
        # selection_epsilon of one run, known from above alone
        run = compose_losses(self.inner, relation)
        if run is None or math.isinf(self.repetitions.shape):
            return None
        most = run[0].upper
        return LargestLoss(selection_epsilon(most, self.repetitions) if most < math.inf else most)

    def orders(self) -> tuple[float, ...]:
        return renyi_orders(self.inner)

    def renyi(self, relation: Relation) -> Curve | None:
        run = renyi_curve(self.inner, relation)
        if run is None:
            return None
        return partial(selection_divergence, run, self.repetitions, also=self.orders())


def selection_divergence(
    one_run: Curve, repetitions: Repetitions, orders: Array, also: Sequence[float] = ()
) -> Array:
    """Return ``D_alpha`` of the selection, from the divergences of ``one_run``.

    With ``rho`` the divergence of one run, truncated negative binomial repetitions cost

        rho(alpha) + ln E[K] / (alpha - 1)
            + (1 + shape) min_b [(1 - 1/b) rho(b) + ln(1/gamma) / b],   b >= 1,

    and Poisson repetitions ``rho(alpha) + E[K] delta + ln E[K] / (alpha - 1)``, where one run is
    ``(ln(1 + 1/(alpha - 1)), delta)``-DP. A divergence increases with its order, so higher orders
    bound lower ones. The grid consists of ``ORDERS``, the given orders and ``also``.
    """
    grid = np.union1d(orders, (*ORDERS, *also))
    rho, log_mean = one_run(grid), math.log(repetitions.mean)
    cost = rho + log_mean * (1.0 + _COST_SLACK) / (grid - 1.0)
    if math.isinf(repetitions.shape):
        allowed = np.log1p(1.0 / (grid - 1.0)) * (1.0 - _COST_SLACK)
        log_delta = np.min(renyi_log_deltas(grid, rho, allowed[:, None]), axis=1)
        cost += repetitions.mean * np.exp(np.minimum(log_delta, 0.0)) * (1.0 + _COST_SLACK) + 1e-300
    else:
        rate = repetitions.log_inverse_gamma
        extra = min(rate, float(np.min((1.0 - 1.0 / grid) * rho + rate / grid)))
        cost += (1.0 + repetitions.shape) * extra
    cost = np.minimum.accumulate(cost[::-1])[::-1] * (1.0 + 2.0 * _COST_SLACK)
    return np.asarray(cost[np.searchsorted(grid, orders)])

"""Accountant of optimal composition: equal ``(epsilon, delta)``-DP releases, the exact optimum.

The worst of all ``(epsilon, delta)``-DP releases tells everything with probability ``delta`` and
is randomised response otherwise. Of ``k`` such, with ``l`` lies, the loss
is ``(k - 2l) epsilon``, and ``l`` is binomial with probability ``p = 1 / (1 + e^epsilon)`` under
the one and ``1 - p`` under the other hypothesis; with distribution functions ``F`` and ``G``

    delta_k(x) = 1 - (1 - delta)^k (1 - H(x)),   H(x) = max_m F(m) - e^x G(m).

Hence ``H(x) <= t`` exactly if ``x >= ln [(F(m) - t) / G(m)]`` for all ``m``: one pass over ``m``
and no search. Sums run over the part of the binomial that matters (some ``sqrt(k)`` terms), and
what they leave out is bounded and added.

Source: Kairouz, Oh and Viswanath, "The composition theorem for differential privacy", IEEE Trans.
Inf. Theory 2017 (arXiv:1311.0776), Theorem 3.3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral

import dp_accounting as dp
import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from privopt.privacy.accountants.basic import Basic
from privopt.privacy.accountants.profiled import Parts, Profiled, splits
from privopt.privacy.arguments import check_delta, check_epsilon
from privopt.privacy.interval import Interval
from privopt.privacy.leaves import leaves
from privopt.privacy.profiles import RandomisedResponse
from privopt.privacy.releases import profile
from privopt.spec import Relation

__all__ = ["OptimalComposition", "optimal_delta", "optimal_epsilon"]

Array = npt.NDArray[np.float64]

_U = 2.0**-53
_ROUNDING = 2.0**-49
_TAIL = 50.0  # e^-50 is left out of a sum, relative to what it is compared with
_MAX_LOSS = 1e100  # losses beyond which the sums would leave float64, and say nothing
_MAX_COUNT = 2**40  # of k: beyond, log-factorials lose their accuracy


@dataclass(frozen=True)
class OptimalComposition(Profiled):
    """``k`` releases of one kind, each taken as *some* ``(epsilon, delta)``-DP release.

    Of ``delta`` the releases spend a fraction in equal shares, unless they are pure; of eight
    fixed fractions the best is taken. Unequal releases are not supported: their optimum is hard
    to compute, and a Fourier accountant does better than these pairs anyway.

    Formal guarantee
    ----------------
    That of ``Profiled``, under every relation that the profiles know. For randomised response on
    one bit the optimum is the truth, and both ends are that.

    Examples
    --------
    >>> import dp_accounting as dp
    >>> from privopt.spec import Relation
    >>> releases = dp.SelfComposedDpEvent(dp.LaplaceDpEvent(100.0), 1000)
    >>> round(OptimalComposition().epsilon(releases, Relation.ZERO_OUT, 1e-6).upper, 3)
    1.365
    """

    name = "optimal composition"

    def supports(self, event: dp.DpEvent, relation: Relation) -> bool:
        """Whether all leaves have the same profile, no-ops apart."""
        kinds = {profile(leaf, relation) for leaf, _ in leaves(event)}
        telling = {kind for kind in kinds if kind is None or kind.delta(0.0).upper > 0.0}
        count = sum(count for _, count in leaves(event))
        return None not in kinds and len(telling) <= 1 and count <= _MAX_COUNT

    def bound(self, parts: Parts, delta: float) -> float:
        """The smallest optimum over all splits, and basic composition."""
        proved = [Basic().bound(parts, delta)]
        for ((epsilon, count),), slack in splits(parts, delta):
            # 1 - (1 - share)^k (1 - slack) is at most k share + slack.
            proved.append(_epsilon(epsilon, count, Interval(slack, slack)).upper)
        return min(proved)

    def bound_delta(self, parts: Parts, epsilon: float) -> float:
        """By bisection; for pure releases in closed form as well."""
        ((part, count),) = parts
        pure = part.epsilon(0.0).upper
        inverse = super().bound_delta(parts, epsilon)
        if math.isinf(pure):
            return inverse
        return min(inverse, _hockey_stick(pure, count, epsilon).upper)

    def least(self, parts: Parts, delta: float) -> float:
        """The optimum itself for randomised response on one bit."""
        ((part, count),) = parts
        if isinstance(part, RandomisedResponse) and part.binary:
            return _epsilon(part.loss.lower, count, Interval(delta, delta)).lower
        return super().least(parts, delta)

    def least_delta(self, parts: Parts, epsilon: float) -> float:
        """The optimum itself for randomised response on one bit."""
        ((part, count),) = parts
        if isinstance(part, RandomisedResponse) and part.binary:
            return _hockey_stick(part.loss.lower, count, epsilon).lower
        return super().least_delta(parts, epsilon)


def optimal_delta(epsilon: float, delta: float, k: int, total_epsilon: float) -> Interval:
    """The smallest ``delta_k`` at which ``k`` releases are ``(total_epsilon, delta_k)``-DP.

    Parameters
    ----------
    epsilon, delta : float
        What is known of each release.
    k : int
        How many there are, chosen adaptively.
    total_epsilon : float
        In ``[0, inf)``.

    Formal guarantee
    ----------------
    Every adaptive composition of ``k`` ``(epsilon, delta)``-DP releases is
    ``(total_epsilon, upper)``-DP, under the same relation, and one of them is not for any number
    below ``lower``.

    Raises
    ------
    ValueError
        If a number is out of range, or ``k`` not an integer in ``[0, 2^40]``.
    """
    epsilon, delta, k = check_epsilon(epsilon), check_delta(delta), _check_count(k)
    rest = _hockey_stick(epsilon, k, check_epsilon(total_epsilon))
    gone = -math.expm1(k * math.log1p(-delta))
    lower = gone * (1.0 - _ROUNDING) + (1.0 - gone) * rest.lower * (1.0 - _ROUNDING)
    upper = gone * (1.0 + _ROUNDING) + (1.0 - gone) * rest.upper * (1.0 + _ROUNDING)
    return Interval(lower * (1.0 - _ROUNDING), min(1.0, upper * (1.0 + _ROUNDING)))


def optimal_epsilon(epsilon: float, delta: float, k: int, total_delta: float) -> Interval:
    """The smallest ``epsilon_k`` at which ``k`` releases are ``(epsilon_k, total_delta)``-DP.

    The inverse of ``optimal_delta``, and with its guarantee; infinite if ``total_delta`` does
    not even cover ``1 - (1 - delta)^k``.

    Raises
    ------
    ValueError
        If a number is out of range, or ``k`` not an integer in ``[0, 2^40]``.
    """
    epsilon, delta, k = check_epsilon(epsilon), check_delta(delta), _check_count(k)
    total_delta = check_delta(total_delta)
    if delta == 0.0:
        return _epsilon(epsilon, k, Interval(total_delta, total_delta))
    gone, total = k * math.log1p(-delta), math.log1p(-total_delta)
    error = _ROUNDING * (abs(gone) + abs(total))
    left = [-math.expm1(total - gone + side * error) for side in (1.0, -1.0)]
    if left[1] < 0.0:
        return Interval(math.inf, math.inf)
    slack = Interval(max(0.0, left[0] * (1.0 - _ROUNDING)), left[1] * (1.0 + _ROUNDING))
    found = _epsilon(epsilon, k, slack)
    return found if left[0] >= 0.0 else Interval(found.lower, math.inf)


def _hockey_stick(epsilon: float, k: int, total: float) -> Interval:
    """``H(total)``: a sum of the positive ``P_l (1 - e^(total - (k - 2l) epsilon))``."""
    if k == 0 or total >= k * epsilon * (1.0 + _ROUNDING):
        return Interval(0.0, 0.0)
    if epsilon > _MAX_LOSS:
        return Interval(0.0, 1.0)
    mean = k / (1.0 + math.exp(epsilon)) if epsilon < 700.0 else 0.0
    # The last l that counts, its error added; beyond `high` there is less than e^-50 in all.
    last = min(k, math.floor(0.5 * (k - total / epsilon) + 1.0 + 4 * _U * k))
    high = min(last, math.ceil(mean + _TAIL / 3 + math.sqrt(_TAIL**2 / 9 + 2 * mean * _TAIL)) + 1)
    start = min(high, math.floor(mean))
    low = max(0, start - math.ceil(math.sqrt(2 * mean * _TAIL) + _TAIL) - 1)
    lies = np.arange(low, high + 1, dtype=np.float64)
    log_p, error = _log_pmf(lies, epsilon, k)
    loss = (k - 2.0 * lies) * epsilon
    blur = _ROUNDING * (abs(loss) + total)
    top = float(log_p.max())
    with np.errstate(under="ignore", over="ignore"):
        weight = np.exp(log_p - top)
        gain = [
            np.maximum(-np.expm1(np.minimum(total - loss - s * blur, 1.0)), 0.0) for s in (-1, 1)
        ]
        sums = [float(weight @ each) for each in gain]
    slack = math.expm1(min(error + _U * (lies.size + abs(top) + 16.0), 700.0))
    lower, upper = sums[0] * (1.0 - slack), sums[1] * (1.0 + slack)
    if low > 0:
        upper += _geometric(low, k, epsilon) * float(weight[0]) * (1.0 + slack)
    scale = math.exp(top)
    beyond = math.exp(-_TAIL) * float(gain[1][-1]) if high < last else 0.0
    return Interval(
        max(0.0, lower * scale * (1.0 - _ROUNDING)),
        min(1.0, math.nextafter(upper * scale, 2.0) * (1.0 + _ROUNDING) + beyond),
    )


def _epsilon(epsilon: float, k: int, slack: Interval) -> Interval:
    """The smallest ``x >= 0`` with ``H(x) <= slack``."""
    whole = k * epsilon
    if whole == 0.0 or slack.lower >= 1.0:
        return Interval(0.0, 0.0)
    if slack.upper == 0.0:
        return Interval(whole * (1.0 - _ROUNDING), whole * (1.0 + _ROUNDING))
    if epsilon > _MAX_LOSS:
        return Interval(0.0, whole * (1.0 + _ROUNDING))
    if slack.lower == 0.0:
        return Interval(
            _epsilon(epsilon, k, Interval(slack.upper, slack.upper)).lower,
            whole * (1.0 + _ROUNDING),
        )
    log_slack = math.log(slack.lower)
    mean = k / (1.0 + math.exp(epsilon)) if epsilon < 700.0 else 0.0
    tail = _TAIL - log_slack
    low = max(0, math.floor(mean - math.sqrt(2 * mean * tail)) - 1)  # Chernoff, as is `high`
    high = math.ceil(mean + _TAIL / 3 + math.sqrt(_TAIL**2 / 9 + 2 * mean * _TAIL)) + 1
    high = min(high, max(k // 2, low))
    lies = np.arange(low, high + 1, dtype=np.float64)
    log_p, error = _log_pmf(lies, epsilon, k)
    with np.errstate(under="ignore"):
        log_f = np.logaddexp.accumulate(log_p)
        log_g = np.logaddexp.accumulate(log_p - 2.0 * (high - lies) * epsilon)
    log_g -= (k - 2.0 * high) * epsilon
    size = float(abs(log_p).max()) + 2.0 * (high - low) * epsilon
    error += 4 * _U * ((lies.size + 4.0) * (1.0 + size) + whole)
    # What lies below `low` is less than e^-50 of the slack; what lies above `high`, e^-50.
    more = np.logaddexp(log_f + error, log_slack - _TAIL if low > 0 else -math.inf)
    ends = np.append(more, np.logaddexp(more[-1], -_TAIL) if high < k // 2 else more[-1])
    upper = _largest(ends, np.append(log_g, log_g[-1]) - error, math.log(slack.lower))
    beneath = _geometric(low, k, epsilon) if low > 0 else 0.0
    with np.errstate(under="ignore"):
        most = np.logaddexp(log_g, log_g[0] + math.log(beneath) if beneath else -math.inf)
    lower = _largest(log_f - error, most + error, math.log(slack.upper))
    upper = min(max(upper, 0.0) * (1.0 + _ROUNDING), whole * (1.0 + _ROUNDING))
    return Interval(min(max(lower * (1.0 - _ROUNDING), 0.0), upper), upper)


def _largest(log_f: Array, log_g: Array, log_t: float) -> float:
    """``max ln [(F - t) / G]``."""
    some = log_f > log_t
    if not some.any():
        return -math.inf
    log_f, log_g = log_f[some], log_g[some]
    return float(np.max(log_f + np.log(-np.expm1(log_t - log_f)) - log_g))


def _log_pmf(lies: Array, epsilon: float, k: int) -> tuple[Array, float]:
    """``ln P_l``, and a bound of its error."""
    factorial = float(gammaln(k + 1.0))
    bits = math.log1p(math.exp(-epsilon))
    choose = factorial - gammaln(lies + 1.0) - gammaln(k - lies + 1.0)
    error = 16 * _U * (3.0 * factorial + k * bits + float(lies[-1]) * epsilon + 4.0)
    return choose - lies * epsilon - k * bits, error


def _geometric(low: int, k: int, epsilon: float) -> float:
    """A bound of ``sum_(l < low) P_l / P_low``, below the mode, by a geometric series."""
    ratio = low / (k - low + 1.0) * math.exp(min(epsilon, 700.0))
    return ratio / (1.0 - ratio) * (1.0 + 1e-9) if ratio < 1.0 else math.inf


def _check_count(k: object) -> int:
    if isinstance(k, bool) or not isinstance(k, Integral) or not 0 <= int(k) <= _MAX_COUNT:
        raise ValueError(f"k must be an integer in [0, 2^40], got {k!r}")
    return int(k)

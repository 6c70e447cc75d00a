"""From one pair of neighbours to groups of records, rounded up.

Sources: Dwork and Roth, "The algorithmic foundations of differential privacy", 2014, Theorem 2.2;
Vadhan, "The complexity of differential privacy", 2017, Lemma 2.2.
"""

from __future__ import annotations

import math

from privopt.privacy.numbers import (
    check_count,
    check_delta,
    check_epsilon,
    check_mu,
    next_up,
    times,
)

_ROUNDING = 2.0**-50  # relative; eight units of 2^-53, more than any formula below takes


def group(epsilon: float, delta: float, k: int) -> tuple[float, float]:
    """``(k epsilon, delta (e^{k epsilon} - 1) / (e^epsilon - 1))``: data sets ``k`` steps apart.

    Formal guarantee
    ----------------
    If a release is ``(epsilon, delta)``-DP under a relation, outputs on data sets that ``k``
    steps of it connect are this close.
    """
    epsilon, delta, k = check_epsilon(epsilon), check_delta(delta), check_count("k", k)
    if k <= 1:
        return (epsilon, delta) if k else (0.0, 0.0)
    log_sum = math.log(k)  # of the sum of e^{i epsilon}, i < k
    if epsilon > 0.0:
        log_sum = times(k - 1, epsilon)
        log_sum += math.log(math.expm1(-times(k, epsilon)) / math.expm1(-epsilon))
    loss = times(k, epsilon)
    if delta == 0.0:
        return next_up(loss), 0.0
    exponent = math.log(delta) + log_sum
    exponent += _ROUNDING * (abs(math.log(delta)) + loss + abs(log_sum) + 1.0)
    return next_up(loss), min(1.0, next_up(math.exp(min(exponent, 1.0))))


def group_gaussian(mu: float, k: int) -> float:
    """``k mu``: a ``mu``-GDP release on data sets ``k`` steps apart, exactly.

    Source: Dong, Roth and Su, "Gaussian differential privacy", JRSS-B 2022 (arXiv:1905.02383).
    """
    mu, k = check_mu(mu), check_count("k", k)
    return mu if k == 1 else next_up(times(k, mu) * (1.0 + 2.0**-51))

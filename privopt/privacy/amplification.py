"""``(epsilon, delta)`` after sampling and for groups of records, rounded up.

For compositions of many releases, dominating pairs give smaller bounds than these pairs.

Sources: Balle, Barthe and Gaboardi 2018 (arXiv:1807.01647); for groups, Dwork and Roth, "The
algorithmic foundations of differential privacy", 2014, Theorem 2.2, and Vadhan, "The complexity of
differential privacy", 2017, Lemma 2.2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from privopt.arguments import Names, checked, shown
from privopt.privacy.numbers import check_count, check_delta, check_epsilon, next_up, real
from privopt.spec import Relation

_ROUNDING = 2.0**-50  # relative; eight units of 2^-53, more than any formula below needs


class Sampler(Names):
    """The sampling of one batch.

    ``poisson``
        Each record is included independently with probability ``rate``.
    ``without_replacement``
        A uniform subset of ``m`` of the ``n`` records, ``rate = m / n``.
    ``shuffled``
        An epoch over a public number of disjoint batches of a uniform permutation. Every
        record is in one batch.
    """

    POISSON = "poisson"
    WITHOUT_REPLACEMENT = "without_replacement"
    SHUFFLED = "shuffled"


@dataclass(frozen=True)
class Subsampled:
    """A guarantee after sampling.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee of the sampled release.
    amplified : bool
        True if a theorem lowered ``epsilon`` because of the sampling.
    reason : str
        The argument, in words.
    """

    epsilon: float
    delta: float
    amplified: bool
    reason: str


@checked
def subsample(
    epsilon: float, delta: float, rate: float, *, sampler: Sampler | str, relation: Relation | str
) -> Subsampled:
    """Return the guarantee of an ``(epsilon, delta)``-DP release on a random sample.

    If a theorem covers the sampler under the relation, it is ``ln(1 + rate (e^epsilon - 1))`` and
    ``rate delta``. This applies to Poisson sampling under ``add_or_remove_one`` and ``zero_out``,
    and to a fixed size without replacement under ``replace_one``. Otherwise sampling does not lower
    ``epsilon``, and ``reason`` gives the argument. The result can be *larger* than
    ``(epsilon, delta)``, because adding a record may also move another record into or out of a
    batch. If it moves none, ``delta`` still becomes ``rate delta``.

    Parameters
    ----------
    epsilon, delta : float
        Guarantee of the release on a given batch, under the same relation. Under ``zero_out``
        with Poisson sampling, a null record must be equivalent to an absent one, as in a sum.
    rate : float
        Probability in ``[0, 1]`` that a record is in the batch; for the larger data set, if its
        size is not fixed. Ignored for shuffled batches.
    sampler : Sampler or str
        The sampling scheme. Shuffled batches mean one whole epoch with all its releases.
    relation : Relation or str
        The neighbouring relation of the guarantee, before and after.

    Formal guarantee
    ----------------
    The sampled release (shuffled: the epoch) is ``(result.epsilon, result.delta)``-DP under
    ``relation``.

    Examples
    --------
    >>> part = subsample(1.0, 1e-6, 0.01, sampler="poisson", relation="add_or_remove_one")
    >>> round(part.epsilon, 4), part.amplified
    (0.017, True)
    """
    epsilon, delta = check_epsilon(epsilon), check_delta(delta)
    rate = real("rate", rate)
    if not 0.0 <= rate <= 1.0:
        raise ValueError(f"rate must lie in [0, 1], got {shown(rate)}")
    sampler = Sampler.named("sampler", sampler)
    relation = Relation.named("relation", relation)
    if sampler is Sampler.SHUFFLED:
        return _shuffled(epsilon, delta, relation)
    if rate == 0.0:
        return Subsampled(0.0, 0.0, True, "no record is ever sampled")
    if sampler is Sampler.POISSON and relation is not Relation.REPLACE_ONE:
        reason = "the record is absent with probability 1 - rate"
    elif sampler is Sampler.WITHOUT_REPLACEMENT and relation is Relation.REPLACE_ONE:
        reason = "the record is in the subset with probability rate, and otherwise another one is"
    elif sampler is Sampler.WITHOUT_REPLACEMENT and relation is Relation.ADD_OR_REMOVE_ONE:
        doubled = group_privacy(epsilon, delta, 2)
        return Subsampled(
            *doubled, False, "a record added to the subset removes another one: two steps"
        )
    else:
        # Given the other records of the batch, A is the output without the record, B, B' with it:
        # P - e^epsilon Q = (1 - rate)(1 - e^epsilon) A + rate (B - e^epsilon B') <= rate delta.
        reason = f"no theorem amplifies {sampler.value} sampling under {relation.value}"
        if delta > 0.0:
            reason += "; delta is multiplied by the probability that the record is drawn"
        return Subsampled(epsilon, min(delta, next_up(rate * delta)), False, reason)
    return Subsampled(_diluted(epsilon, rate), next_up(rate * delta), True, reason)


@checked
def group_privacy(epsilon: float, delta: float, k: int) -> tuple[float, float]:
    """Return ``(k epsilon, delta (e^{k epsilon} - 1) / (e^epsilon - 1))``, for groups of ``k``.

    Formal guarantee
    ----------------
    If a release is ``(epsilon, delta)``-DP under a relation, it has this guarantee for data sets
    that are ``k`` steps of the relation apart.
    """
    epsilon, delta, k = check_epsilon(epsilon), check_delta(delta), check_count("k", k)
    if k <= 1:
        return (epsilon, delta) if k else (0.0, 0.0)
    log_sum = math.log(k)  # logarithm of the sum of e^{i epsilon}, i < k
    if epsilon > 0.0:
        log_sum = (k - 1) * epsilon
        log_sum += math.log(math.expm1(-k * epsilon) / math.expm1(-epsilon))
    loss = k * epsilon
    if delta == 0.0:
        return next_up(loss), 0.0
    exponent = math.log(delta) + log_sum
    exponent += _ROUNDING * (abs(math.log(delta)) + loss + abs(log_sum) + 1.0)
    return next_up(loss), min(1.0, next_up(math.exp(min(exponent, 1.0))))


def _shuffled(epsilon: float, delta: float, relation: Relation) -> Subsampled:
    if relation is not Relation.ADD_OR_REMOVE_ONE:
        return Subsampled(
            epsilon,
            delta,
            False,
            "no theorem amplifies shuffled batches; the record is in one of them",
        )
    # Exchange the new record with one of the last batch: the batch of the new record changes by a
    # replacement (two steps), the last batch by a removal.
    two = group_privacy(epsilon, delta, 2)
    return Subsampled(
        next_up(two[0] + epsilon),
        min(1.0, next_up(two[1] + delta)),
        False,
        "no theorem amplifies shuffled batches; an added record moves one of the last batch: "
        "two steps in one batch and one in another",
    )


def _diluted(epsilon: float, rate: float) -> float:
    """Return ``ln(1 + rate (e^epsilon - 1))``, rounded up and not above ``epsilon``."""
    if epsilon <= 700.0:
        value = math.log1p(rate * math.expm1(epsilon))
    else:
        shift = epsilon + math.log(rate)
        value = max(shift, 0.0) + math.log1p(math.exp(-abs(shift)))
        value += _ROUNDING * (epsilon - math.log(rate))
    return min(epsilon, next_up(value * (1.0 + _ROUNDING)))

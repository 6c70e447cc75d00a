"""From an event to the profile of that one release, or none where no theorem says so."""

from __future__ import annotations

import math
from collections.abc import Sequence

import dp_accounting as dp
from dp_accounting import dp_event

from privopt.privacy.events import ObjectivePerturbationDpEvent
from privopt.privacy.interval import Interval
from privopt.privacy.leaves import leaves
from privopt.privacy.parameters import is_batch, is_count, is_noise, is_rate, tree_nodes
from privopt.privacy.profiles.objective import Objective
from privopt.privacy.profiles.plain import (
    Gaussian,
    Laplace,
    LatticeLaplace,
    RandomisedResponse,
    Revealed,
)
from privopt.privacy.profiles.profile import Profile
from privopt.privacy.profiles.sampled import ReplacedGaussian, Sampled
from privopt.privacy.sums import SMALLEST, root
from privopt.spec import Relation

__all__ = ["profile"]

_ROUNDING = 2.0**-50  # relative; eight units of 2^-53
_LARGEST = math.nextafter(math.inf, 0.0)
_NOTHING = Revealed(Interval(0.0, 0.0))
_EVERYTHING = Revealed(Interval(1.0, 1.0))


def profile(release: dp.DpEvent, relation: Relation) -> Profile | None:
    """``delta(epsilon)`` of one release under ``relation``; None where it has no closed form.

    ============================  =========================================================
    event                         supported
    ============================  =========================================================
    Gaussian                      every relation; compositions count as one release
    tree aggregation, one epoch   ``replace_one`` and ``zero_out``: ``mu = m sqrt(k) / z`` with
                                  ``k = floor(log2 T) + 1`` nodes of the largest tree. Without
                                  a public ``n`` a record moves all later ones.
    Laplace, discrete Laplace     every relation; a scalar query
    randomised response           every relation; the event names the pair of distributions
    ``ZCDpEvent(0, epsilon)``     every relation; any ``epsilon``-DP release
    Poisson sampling              of Gaussian releases under every relation; of Laplace noise
                                  and randomised response (sampled before or not) under
                                  ``add_or_remove_one`` and ``zero_out``, a null record being
                                  as good as none
    sampling without replacement  ``replace_one``, of what is not sampled itself
    objective perturbation        every relation; generalised linear losses
    non-private, no-op            every relation; samples too
    ============================  =========================================================

    Noise multipliers are over the bound of one record's contribution, and the relation's
    ``multiple`` applies: a replaced record counts twice.

    Parameters
    ----------
    release : dp_accounting.DpEvent
        One release. Several are a release only if all are Gaussian.
    relation : Relation
        The neighbouring relation.

    Formal guarantee
    ----------------
    That of ``Profile``.
    """
    parts = list(leaves(release))
    if any(isinstance(leaf, dp.NonPrivateDpEvent) for leaf, _ in parts):
        return _EVERYTHING
    distance = _gaussian_distance(parts, relation.multiple)
    if distance is not None:
        return _gaussian(distance)
    if len(parts) != 1 or parts[0][1] != 1:
        return None
    match parts[0][0]:
        case dp.PoissonSampledDpEvent(sampling_probability=rate, event=event):
            return _poisson(rate, event, relation)
        case dp.SampledWithoutReplacementDpEvent() as leaf:
            return _without_replacement(leaf, relation)
        case leaf:
            return _plain(leaf, relation)


def _plain(leaf: dp.DpEvent, relation: Relation) -> Profile | None:
    multiple = relation.multiple
    match leaf:
        case dp.SingleEpochTreeAggregationDpEvent(noise_multiplier=z, step_counts=steps):
            nodes = tree_nodes(steps)
            if nodes is None or not is_noise(z) or relation is Relation.ADD_OR_REMOVE_ONE:
                return None
            return _gaussian(_quotient(multiple * math.sqrt(nodes), z)) if nodes else _NOTHING
        case dp.LaplaceDpEvent(noise_multiplier=b) if is_noise(b):
            loss = _quotient(multiple, b)
            return Laplace(loss) if 0.0 < loss.lower < math.inf else _extreme(loss)
        case ObjectivePerturbationDpEvent(noise_multiplier=z, jacobian=c):
            if not (is_noise(z) and is_noise(c)):
                return None
            spread = _quotient(multiple, z)
            told = spread.lower == math.inf or c == math.inf
            return _EVERYTHING if told else Objective(spread, float(c))
        case dp_event.DiscreteLaplaceDpEvent(noise_parameter=a, sensitivity=s):
            if not (is_noise(a) and a > 0.0 and is_count(s) and s < 2**48):
                return None
            a, shift = float(a), multiple * int(s)
            if shift == 0 or math.isinf(a):
                return _EVERYTHING if shift else _NOTHING
            return LatticeLaplace(a, shift) if SMALLEST <= a * shift <= 1e300 else None
        case dp.RandomizedResponseDpEvent(noise_parameter=p, num_buckets=k):
            if not (is_rate(p) and is_count(k) and 2 <= k < 2**48):
                return None
            return _randomised_response(float(p), int(k))
        case dp.ZCDpEvent(rho=rho, xi=loss) if is_noise(rho) and is_noise(loss) and rho == 0.0:
            return _pure(float(loss))
    return None


def _pure(loss: float) -> Profile:
    if loss == 0.0 or math.isinf(loss):
        return _EVERYTHING if loss else _NOTHING
    truth = _around(1.0 / (1.0 + math.exp(-loss)))
    return RandomisedResponse(_exactly(loss), truth, binary=True)


def _randomised_response(p: float, k: int) -> Profile:
    if p == 0.0 or p == 1.0:
        return _EVERYTHING if p == 0.0 else _NOTHING
    odds = (1.0 - p) * (k / p)
    loss = math.log1p(odds) if odds < 1e300 else math.log((1.0 - p) * k) - math.log(p)
    return RandomisedResponse(_around(loss), _around((1.0 - p) + p / k), binary=k == 2)


def _poisson(rate: object, event: dp.DpEvent, relation: Relation) -> Profile | None:
    whole = profile(event, relation)
    if whole is None or not is_rate(rate) or _has_tree(event):
        return None
    if (q := float(rate)) in (0.0, 1.0):
        return _NOTHING if q == 0.0 else whole
    if isinstance(whole, Revealed):
        return _diluted(whole, _exactly(q))
    if relation is not Relation.REPLACE_ONE:
        return Sampled(whole, _exactly(q))
    single = _gaussian_distance(list(leaves(event)), 1)
    return None if single is None else ReplacedGaussian(q, single)


def _without_replacement(
    leaf: dp.SampledWithoutReplacementDpEvent, relation: Relation
) -> Profile | None:
    n, m = leaf.source_dataset_size, leaf.sample_size
    whole = profile(leaf.event, relation)
    if relation is not Relation.REPLACE_ONE or not is_batch(n, m):
        return None
    if whole is None or isinstance(whole, Sampled | ReplacedGaussian) or _has_tree(leaf.event):
        return None
    if m in (0, n):
        return _NOTHING if m == 0 else whole
    share = int(m) / int(n)
    rate = Interval(share * (1.0 - _ROUNDING), min(1.0, share * (1.0 + _ROUNDING)))
    return _diluted(whole, rate) if isinstance(whole, Revealed) else Sampled(whole, rate)


def _diluted(whole: Revealed, rate: Interval) -> Revealed:
    lower, upper = whole.probability
    if lower == upper and upper in (0.0, 1.0):
        return Revealed(rate) if upper == 1.0 else _NOTHING
    return Revealed(
        Interval(
            math.nextafter(lower * rate.lower, 0.0),
            min(1.0, math.nextafter(upper * rate.upper, 2.0)),
        )
    )


def _gaussian_distance(parts: Sequence[tuple[dp.DpEvent, int]], multiple: int) -> Interval | None:
    """``sqrt(sum_t (multiple / z_t)^2)`` if every release is Gaussian."""
    if not all(
        isinstance(leaf, dp.GaussianDpEvent) and is_noise(leaf.noise_multiplier)
        for leaf, _ in parts
    ):
        return None
    noises = [(float(leaf.noise_multiplier), count) for leaf, count in parts]
    if any(z == 0.0 for z, _ in noises):
        return _exactly(math.inf)
    return _around(math.hypot(*(multiple / z * root(count) for z, count in noises)))


def _gaussian(mu: Interval) -> Profile:
    return Gaussian(mu) if 0.0 < mu.lower < math.inf else _extreme(mu)


def _extreme(distance: Interval) -> Profile:
    return _NOTHING if distance.upper == 0.0 else _EVERYTHING


def _quotient(distance: float, noise: float) -> Interval:
    """``distance / noise``; infinite ends only without noise."""
    if noise == 0.0:
        return _exactly(math.inf)
    return _around(distance / float(noise))


def _around(x: float) -> Interval:
    if x == 0.0:
        return _exactly(0.0)
    return Interval(
        math.nextafter(min(x * (1.0 - _ROUNDING), _LARGEST), 0.0),
        math.nextafter(x * (1.0 + _ROUNDING), math.inf),
    )


def _exactly(x: float) -> Interval:
    return Interval(x, x)


def _has_tree(event: dp.DpEvent) -> bool:
    """A sampled record has no public place in a tree."""
    return any(isinstance(leaf, dp.SingleEpochTreeAggregationDpEvent) for leaf, _ in leaves(event))

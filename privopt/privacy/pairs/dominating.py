"""From an event to the pairs that dominate it, or none where no theorem says so."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import dp_accounting as dp

from privopt.privacy.events import BoundedRangeDpEvent, ObjectivePerturbationDpEvent
from privopt.privacy.leaves import leaves
from privopt.privacy.pairs.bounded_range import BoundedRangePair
from privopt.privacy.pairs.discrete import DiscretePair, randomised_response
from privopt.privacy.pairs.discrete_laplace import DiscreteLaplacePair
from privopt.privacy.pairs.gaussian import GaussianPair
from privopt.privacy.pairs.laplace import LaplacePair
from privopt.privacy.pairs.mixture import MixturePair, norms
from privopt.privacy.pairs.objective import ObjectivePair
from privopt.privacy.pairs.pair import Pair
from privopt.privacy.pairs.pure import PurePair
from privopt.privacy.pairs.replaced import ReplacedGaussian
from privopt.privacy.pairs.reversed import Reversed
from privopt.privacy.pairs.sampled import Sampled
from privopt.privacy.pairs.truncated import Truncated, chance_of_overflow
from privopt.privacy.pairs.without_replacement import SampledWithoutReplacement
from privopt.privacy.parameters import is_batch, is_count, is_noise, is_rate, tree_nodes
from privopt.privacy.renyi.pure import response_loss
from privopt.privacy.sums import root
from privopt.spec import Relation

__all__ = ["EVERYTHING", "NOTHING", "dominating_pairs"]

NOTHING: Pair = DiscretePair((1.0,), (1.0,))
EVERYTHING = DiscretePair((0.0, 1.0), (1.0, 0.0))

_ADDITIVE = (dp.GaussianDpEvent, dp.LaplaceDpEvent, dp.dp_event.DiscreteLaplaceDpEvent)

# Above this distance in standard deviations, or loss, everything is taken to be seen.
_LARGEST = 1e4
_LEAST = 1e-100  # of the same; squares of less vanish


def dominating_pairs(leaf: dp.DpEvent, relation: Relation) -> tuple[Pair, Pair] | None:
    """The pairs that dominate one release: a record removed, and added.

    Where the two orders look alike, as always under ``replace_one``, they are the same pair.
    ``None`` for an event, or a sampler under a relation, that no theorem covers.

    Formal guarantee
    ----------------
    Each pair dominates the release in its own order of neighbours under ``relation``, in the
    sense of ``Pair``. A composition stays in one order throughout.
    """
    match leaf:
        case dp.PoissonSampledDpEvent(sampling_probability=rate, event=event):
            return _poisson(rate, event, relation)
        case dp.TruncatedSubsampledGaussianDpEvent():
            return _truncated(leaf, relation)
        case dp.dp_event.MixtureOfGaussiansDpEvent():
            return _mixture(leaf, relation)
        case dp.SampledWithoutReplacementDpEvent():
            pair = _without_replacement(leaf, relation)
        case _:
            pair = _plain(leaf, relation)
    return None if pair is None else (pair, pair)


def _poisson(rate: float, event: dp.DpEvent, relation: Relation) -> tuple[Pair, Pair] | None:
    if not is_rate(rate):
        return None
    rate = float(rate)
    inner = _one_release(event)
    if isinstance(inner, dp.PoissonSampledDpEvent) and is_rate(inner.sampling_probability):
        both = rate * float(inner.sampling_probability)
        least = math.ulp(0.0) if rate > 0.0 < inner.sampling_probability else 0.0
        return _poisson(max(both, least), inner.event, relation)
    if isinstance(inner, dp.SingleEpochTreeAggregationDpEvent):
        return None  # a sampled record has no public place in a tree
    whole = None if inner is None else dominating_pairs(inner, relation)
    if inner is None or whole is None or rate == 1.0 or whole[0] is NOTHING:
        return whole
    if rate == 0.0:
        return NOTHING, NOTHING
    if relation is Relation.REPLACE_ONE:
        if not isinstance(inner, dp.GaussianDpEvent):
            return None
        replaced = _replaced(rate, float(inner.noise_multiplier))
        return replaced, replaced
    removed, added = whole
    if isinstance(added, Reversed):  # a mixture, sampled before
        return Sampled.of(removed, rate), Reversed(Sampled.of(added.pair, rate))
    if isinstance(added, ObjectivePair):  # not its own reverse: it dominates in either order
        return Sampled.of(removed, rate), Reversed(Sampled.of(Reversed(added), rate))
    return Sampled.of(removed, rate), Reversed(Sampled.of(removed, rate))


def _truncated(
    leaf: dp.TruncatedSubsampledGaussianDpEvent, relation: Relation
) -> tuple[Pair, Pair] | None:
    size, rate, capacity = leaf.dataset_size, leaf.sampling_probability, leaf.truncated_batch_size
    if not (is_count(size) and is_count(capacity) and capacity >= 1 and is_rate(rate)):
        return None
    gaussian = dp.GaussianDpEvent(leaf.noise_multiplier)
    pairs = _poisson(rate, gaussian, relation)
    lost = chance_of_overflow(int(size) - 1, float(rate), int(capacity))
    if pairs is None or lost == 0.0:
        return pairs
    # A subset that keeps a record with probability 1 - lost is at least what truncation leaves.
    least = _poisson(float(rate) * (1.0 - lost), gaussian, relation)
    ends = (None, None) if least is None else (least[0].attained, least[1].attained)
    removed, added = (Truncated(pair, lost, end) for pair, end in zip(pairs, ends, strict=True))
    return removed, added


def _mixture(
    leaf: dp.dp_event.MixtureOfGaussiansDpEvent, relation: Relation
) -> tuple[Pair, Pair] | None:
    noise, law = leaf.standard_deviation, norms(leaf.sensitivities, leaf.sampling_probs)
    if law is None or not is_noise(noise) or relation is Relation.REPLACE_ONE:
        return None
    told = [(norm, weight) for norm, weight in law.weights.items() if norm > 0.0 and weight > 0.0]
    if not told or math.isinf(noise):
        return NOTHING, NOTHING
    noise, largest = float(noise), max(norm for norm, _ in told)
    if noise * _LARGEST < largest:
        share = min(1.0, math.fsum(weight for _, weight in told))
        seen = Sampled.of(replace(EVERYTHING, exact=law.exact and noise == 0.0), share)
        return seen, Reversed(seen)
    if largest / noise < _LEAST:
        return None
    shifts, weights = zip(*((norm / noise, weight) for norm, weight in told), strict=True)
    pair = MixturePair.of(shifts, weights, law.weights.get(0.0, 0.0), law.exact)
    return pair, Reversed(pair)


def _replaced(rate: float, noise: float) -> Pair:
    if noise * _LARGEST >= 1.0:
        return ReplacedGaussian(rate, noise)
    return DiscretePair((0.0, 1.0 - rate, rate), (rate, 1.0 - rate, 0.0), exact=noise == 0.0)


def _without_replacement(
    leaf: dp.SampledWithoutReplacementDpEvent, relation: Relation
) -> Pair | None:
    size, batch, inner = leaf.source_dataset_size, leaf.sample_size, _one_release(leaf.event)
    if relation is not Relation.REPLACE_ONE or not isinstance(inner, _ADDITIVE):
        return None
    if not is_batch(size, batch):
        return None
    size, batch = int(size), int(batch)
    whole = _plain(inner, relation)
    if whole is None or whole is NOTHING or batch == size:
        return whole
    return SampledWithoutReplacement(Sampled.of(whole, batch / size)) if batch else NOTHING


def _one_release(event: dp.DpEvent) -> dp.DpEvent | None:
    """A composition as one event: a single leaf, or Gaussian releases taken together.

    Gaussian releases of distances ``mu_t`` show together what one of ``sqrt(sum mu_t^2)`` shows.
    """
    parts = list(leaves(event))
    if len(parts) == 1 and parts[0][1] == 1:
        return parts[0][0]
    if not all(
        isinstance(leaf, dp.GaussianDpEvent) and is_noise(leaf.noise_multiplier)
        for leaf, _ in parts
    ):
        return None
    noises = [(float(leaf.noise_multiplier), count) for leaf, count in parts]
    if any(z == 0.0 for z, _ in noises):
        return dp.GaussianDpEvent(0.0)
    distance = math.hypot(*(root(count) / z for z, count in noises))
    least = math.ulp(0.0)  # a distance beyond float64 is not yet no noise
    return dp.GaussianDpEvent(max(1.0 / distance, least) if distance > 0.0 else math.inf)


def _plain(leaf: dp.DpEvent, relation: Relation) -> Pair | None:
    """The pair of a release that sees every record; the same in both orders."""
    multiple = relation.multiple
    match leaf:
        case dp.NoOpDpEvent():
            return NOTHING
        case dp.NonPrivateDpEvent():
            return EVERYTHING
        case dp.GaussianDpEvent(noise_multiplier=z) if is_noise(z):
            return _unless_extreme(GaussianPair, multiple, z)
        case dp.SingleEpochTreeAggregationDpEvent(noise_multiplier=z, step_counts=steps) if (
            is_noise(z) and relation is not Relation.ADD_OR_REMOVE_ONE  # others would move
        ):
            if (nodes := tree_nodes(steps)) is None:
                return None
            return _unless_extreme(GaussianPair, multiple * math.sqrt(nodes), z)
        case dp.LaplaceDpEvent(noise_multiplier=b) if is_noise(b):
            return _unless_extreme(LaplacePair, multiple, b)
        case ObjectivePerturbationDpEvent(noise_multiplier=z, jacobian=c):
            if not (is_noise(z) and is_noise(c)):
                return None
            return _objective(multiple, float(z), float(c))
        case dp.dp_event.DiscreteLaplaceDpEvent(noise_parameter=a, sensitivity=s):
            if not (is_noise(a) and a > 1e-6 and is_count(s) and multiple * s * a <= 700.0):
                return None
            return DiscreteLaplacePair(float(a), multiple * int(s)) if s else NOTHING
        case dp.ZCDpEvent(rho=rho, xi=loss) if is_noise(rho) and is_noise(loss) and rho == 0.0:
            return _pure(float(loss))
        case BoundedRangeDpEvent(epsilon=span) if is_noise(span):
            if span > _LARGEST:
                return replace(EVERYTHING, exact=math.isinf(span))
            return BoundedRangePair.of(float(span)) if span > 0.0 else NOTHING
        case dp.RandomizedResponseDpEvent(noise_parameter=p, num_buckets=k):
            if not (is_noise(p) and p <= 1.0 and is_count(k) and k >= 2):
                return None
            if int(k) == 2 and _LEAST < p < 1.0:
                return _pure(response_loss(float(p), 2))
            return randomised_response(float(p), int(k))
    return None


def _pure(loss: float) -> Pair:
    if loss > _LARGEST:
        return replace(EVERYTHING, exact=math.isinf(loss))
    return PurePair.of(loss) if loss > 0.0 else NOTHING


def _objective(moved: float, noise: float, jacobian: float) -> Pair | None:
    if noise * _LARGEST < moved or jacobian > _LARGEST:
        return replace(EVERYTHING, exact=noise == 0.0)
    if math.isinf(noise):
        rest = math.exp(-jacobian)
        return DiscretePair((0.0, 1.0), (1.0 - rest, rest), exact=False) if jacobian else NOTHING
    return ObjectivePair(moved / noise, jacobian) if moved / noise >= _LEAST else None


def _unless_extreme(pair: Callable[[float], Pair], moved: float, noise: float) -> Pair | None:
    mu = moved / float(noise) if noise > 0.0 else math.inf
    if math.isinf(noise):
        return NOTHING
    if mu < _LEAST:
        return None
    if mu <= _LARGEST:
        return pair(mu)
    return replace(EVERYTHING, exact=noise == 0.0)

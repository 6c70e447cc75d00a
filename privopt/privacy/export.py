"""An event in words that no other accountant reads more kindly than we do.

dp-accounting's accountants agree with us on what an event is, and not always on what it costs:

- under ``REPLACE_ONE`` its Rényi accountant charges additive noise for *one* record's
  contribution, where a replaced record moves a sum by two;
- under ``REPLACE_SPECIAL`` a randomised response is charged for a null record that answers
  uniformly.

So noise is halved before it leaves ``replace_one``, and stands under ``REPLACE_SPECIAL``, where
everybody counts one contribution. A randomised response leaves as the pure release that it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import attr
import dp_accounting as dp

from privopt.privacy.events import BoundedRangeDpEvent, ObjectivePerturbationDpEvent, pure_event
from privopt.privacy.parameters import is_count, is_noise, is_rate
from privopt.privacy.renyi.pure import response_loss
from privopt.spec import Relation

__all__ = ["exported"]

_NAMES = {
    Relation.REPLACE_ONE: dp.NeighboringRelation.REPLACE_ONE,
    Relation.ADD_OR_REMOVE_ONE: dp.NeighboringRelation.ADD_OR_REMOVE_ONE,
    Relation.ZERO_OUT: dp.NeighboringRelation.REPLACE_SPECIAL,
}
_POISSON = (dp.PoissonSampledDpEvent, dp.TruncatedSubsampledGaussianDpEvent)
_AROUND = (  # one event
    dp.SelfComposedDpEvent,
    dp.PoissonSampledDpEvent,
    dp.SampledWithoutReplacementDpEvent,
    dp.dp_event.RepeatAndSelectDpEvent,
)
_NOISY = (
    dp.GaussianDpEvent,
    dp.LaplaceDpEvent,
    dp.SingleEpochTreeAggregationDpEvent,
    ObjectivePerturbationDpEvent,
)
_RELATIVE = (  # to the record's contribution, in a way of their own
    dp.dp_event.DiscreteLaplaceDpEvent,
    dp.dp_event.MixtureOfGaussiansDpEvent,
    dp.TruncatedSubsampledGaussianDpEvent,
)
_ABSOLUTE = (dp.NoOpDpEvent, dp.NonPrivateDpEvent, dp.ZCDpEvent, BoundedRangeDpEvent)
_UP = 1.0 + 2.0**-48  # of a loss that is known to a relative 2^-50


def exported(event: dp.DpEvent, relation: Relation) -> tuple[dp.DpEvent, dp.NeighboringRelation]:
    """The event to ask dp-accounting's accountants about, and the relation to ask under.

    Halving noise cannot say what a Poisson sample is under ``replace_one``. There the event stays
    as it is: the loss distributions of dp-accounting know it, its Rényi accountant refuses it.

    Raises
    ------
    ValueError
        For a part that is not known here, or has no equal under another relation; it is named.
    """
    if relation is not Relation.REPLACE_ONE:
        return _changed(event, _told), _NAMES[relation]
    parts = list(_parts(event))
    if any(isinstance(part, _POISSON) for part in parts):
        return _changed(event, lambda leaf: leaf), _NAMES[relation]
    fixed = any(isinstance(part, dp.SampledWithoutReplacementDpEvent) for part in parts)
    return _changed(event, _halved), _NAMES[relation if fixed else Relation.ZERO_OUT]


def _parts(event: dp.DpEvent) -> Iterator[dp.DpEvent]:
    yield event
    if isinstance(event, dp.ComposedDpEvent):
        for part in event.events:
            yield from _parts(part)
    elif isinstance(event, _AROUND):
        yield from _parts(event.event)


def _changed(event: dp.DpEvent, change: Callable[[dp.DpEvent], dp.DpEvent]) -> dp.DpEvent:
    """The same tree with other leaves."""
    if isinstance(event, dp.ComposedDpEvent):
        return dp.ComposedDpEvent([_changed(part, change) for part in event.events])
    if isinstance(event, _AROUND):
        return attr.evolve(event, event=_changed(event.event, change))
    if isinstance(event, (*_NOISY, *_RELATIVE, *_ABSOLUTE, dp.RandomizedResponseDpEvent)):
        return change(event)
    raise _refusal(event)


def _told(leaf: dp.DpEvent) -> dp.DpEvent:
    """A randomised response as the pure release that it is."""
    match leaf:
        case dp.RandomizedResponseDpEvent(noise_parameter=p, num_buckets=k):
            if not (is_rate(p) and is_count(k) and k >= 2):
                raise _refusal(leaf)
            loss = response_loss(float(p), int(k))
            return pure_event(loss * _UP) if loss < math.inf else dp.NonPrivateDpEvent()
    return leaf


def _halved(leaf: dp.DpEvent) -> dp.DpEvent:
    """The release at which zeroing a record costs what replacing one does at ``leaf``."""
    if isinstance(leaf, _NOISY) and is_noise(leaf.noise_multiplier):
        return attr.evolve(leaf, noise_multiplier=0.5 * float(leaf.noise_multiplier))
    match leaf:
        case dp.dp_event.DiscreteLaplaceDpEvent(sensitivity=bound) if is_count(bound):
            return attr.evolve(leaf, sensitivity=2 * int(bound))
    if isinstance(leaf, (*_NOISY, *_RELATIVE)):
        raise _refusal(leaf)
    return _told(leaf)


def _refusal(event: dp.DpEvent) -> ValueError:
    return ValueError(f"event must be of a kind that others read as we do, got {event!r}")

"""An event in words that no other accountant reads more kindly than we do.

dp-accounting's accountants agree with us on what an event is, and not always on what it costs:

- under ``REPLACE_ONE`` its Rényi accountant charges additive noise for *one* record's
  contribution, where a replaced record moves a sum by two;
- under ``REPLACE_SPECIAL`` a randomised response is charged for a null record that answers
  uniformly.

So noise is halved before it leaves ``replace_one``, and stands under ``REPLACE_SPECIAL``, where
everybody counts one contribution. A randomised response leaves as the pure release that it is. A
public mixture leaves as one, its sides changed: dp-accounting has no word for it and refuses it.
"""

from __future__ import annotations

from collections.abc import Iterator

import attr
import dp_accounting as dp

from privopt.privacy.events import PublicMixtureDpEvent
from privopt.privacy.releases import release_of
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


def exported(event: dp.DpEvent, relation: Relation) -> tuple[dp.DpEvent, dp.NeighboringRelation]:
    """The event to ask dp-accounting's accountants about, and the relation to ask under.

    Halving noise cannot say what a Poisson sample is under ``replace_one``. There the event stays
    as it is: the loss distributions of dp-accounting know it, its Rényi accountant refuses it.

    Raises
    ------
    ValueError
        For a part that is not known here, or has no equal under another relation; it is named.
    """
    parts = list(_parts(event))
    if relation is Relation.REPLACE_ONE and any(isinstance(part, _POISSON) for part in parts):
        _changed(event, Relation.ZERO_OUT)  # which refuses what is unknown
        return event, _NAMES[relation]
    fixed = any(isinstance(part, dp.SampledWithoutReplacementDpEvent) for part in parts)
    halved = relation is Relation.REPLACE_ONE and not fixed
    return _changed(event, relation), _NAMES[Relation.ZERO_OUT if halved else relation]


def _parts(event: dp.DpEvent) -> Iterator[dp.DpEvent]:
    yield event
    if isinstance(event, dp.ComposedDpEvent | PublicMixtureDpEvent):
        for part in event.events:
            yield from _parts(part)
    elif isinstance(event, _AROUND):
        yield from _parts(event.event)


def _changed(event: dp.DpEvent, relation: Relation) -> dp.DpEvent:
    """The same tree with every release as it says itself (``Release.exported``)."""
    if isinstance(event, dp.ComposedDpEvent):
        return dp.ComposedDpEvent([_changed(part, relation) for part in event.events])
    if isinstance(event, PublicMixtureDpEvent) and release_of(event) is not None:
        return attr.evolve(event, events=tuple(_changed(part, relation) for part in event.events))
    if isinstance(event, _AROUND):
        return attr.evolve(event, event=_changed(event.event, relation))
    release = release_of(event)
    told = None if release is None else release.exported(relation)
    if told is None:
        raise ValueError(f"event must be of a kind that others read as we do, got {event!r}")
    return told

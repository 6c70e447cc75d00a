"""A composition seen as a bag: which releases were made, and how often each."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import reduce
from operator import and_
from typing import TypeAlias

import dp_accounting as dp

from privopt.privacy.events import PublicMixtureDpEvent
from privopt.privacy.parameters import coin, is_multiplicity

_COMPOSITIONS = (
    dp.NoOpDpEvent,
    dp.ComposedDpEvent,
    dp.SelfComposedDpEvent,
    PublicMixtureDpEvent,
)

_Parts: TypeAlias = tuple[Sequence[dp.DpEvent], int]


def leaves(event: dp.DpEvent) -> Iterator[tuple[dp.DpEvent, int]]:
    """The events left when composition is taken apart, each with its multiplicity.

    Adaptive composition depends on nothing else. No-ops and zero-fold compositions vanish; an
    event that is not understood, such as a composition with a malformed count, is itself a leaf,
    so that no accountant will claim to support it. An object that stands at several places is
    looked at once: thirty doublings are thirty steps.

    What all sides of a public coin release is taken out of the mixture: hockey-stick divergences
    of ``sum_k p_k (P_k x P)`` are those of ``(sum_k p_k P_k) x P``.
    """
    order = list(_parts_first(event))
    multiplicity: dict[int, int] = defaultdict(int, {id(event): 1})
    for whole, apart in reversed(order):
        if apart is None:
            continue
        parts, times = apart
        times *= multiplicity[id(whole)]
        for part in parts:
            multiplicity[id(part)] += times
    for each, apart in order:
        count = multiplicity[id(each)]
        if count and apart is None:
            yield each, count


def first_unsupported(event: dp.DpEvent, supports: Callable[[dp.DpEvent], bool]) -> dp.DpEvent:
    """The first leaf that is not supported; the event itself if its leaves are, one by one."""
    return next((leaf for leaf, _ in leaves(event) if not supports(leaf)), event)


def _parts_first(event: dp.DpEvent) -> Iterator[tuple[dp.DpEvent, _Parts | None]]:
    """Every object in the tree once, with its parts, before the whole, from left to right."""
    seen: set[int] = set()
    stack: list[tuple[dp.DpEvent, bool, _Parts | None]] = [(event, False, None)]
    while stack:
        each, finished, apart = stack.pop()
        if finished:
            yield each, apart
        elif id(each) not in seen:
            seen.add(id(each))
            apart = _taken_apart(each) if isinstance(each, _COMPOSITIONS) else None
            if apart is None:
                yield each, None
                continue
            stack.append((each, True, apart))
            stack.extend([(part, False, None) for part in reversed(apart[0])])


def _taken_apart(event: dp.DpEvent) -> _Parts | None:
    """The parts of a composition and how often they are repeated; None if it is none."""
    match event:
        case dp.NoOpDpEvent():
            return (), 0
        case dp.ComposedDpEvent(events=list() | tuple() as events):
            return events, 1
        case dp.SelfComposedDpEvent(event=part, count=count) if is_multiplicity(count):
            return (part,), int(count)
        case PublicMixtureDpEvent(events=list() | tuple() as events, probabilities=law):
            return _shared(events, law)
    return None


def _shared(events: Sequence[dp.DpEvent], law: Sequence[float]) -> _Parts | None:
    """What every side of a coin releases, and a mixture of the rest; None if they share nothing."""
    found = coin(law)
    if found is None or len(law) != len(events):
        return None
    known: dict[Hashable, dp.DpEvent] = {}

    def bag(event: dp.DpEvent) -> Counter[Hashable]:
        counts: Counter[Hashable] = Counter()
        for leaf, count in leaves(event):
            counts[key := _key(leaf)] += count
            known[key] = leaf
        return counts

    def composed(counts: Counter[Hashable]) -> dp.DpEvent:
        parts = [repeated(known[key], count) for key, count in counts.items()]
        return parts[0] if len(parts) == 1 else dp.ComposedDpEvent(parts)

    sides = [(bag(each), share) for each, share in zip(events, law, strict=True) if share > 0.0]
    bags, shares = zip(*sides, strict=True)
    common = reduce(and_, bags)
    if not common:
        return None
    rest = [each - common for each in bags]
    if not any(rest) and found[1] == 0.0:
        return (composed(common),), 1
    return (composed(common), PublicMixtureDpEvent(tuple(map(composed, rest)), shares)), 1


def _key(leaf: dp.DpEvent) -> Hashable:
    """Equal for equal leaves; of what holds lists or arrays, for one object alone."""
    try:
        hash(leaf)
    except TypeError:
        return id(leaf)
    return leaf


def repeated(event: dp.DpEvent, count: int) -> dp.DpEvent:
    """The event so many times; once is itself."""
    return event if count == 1 else dp.SelfComposedDpEvent(event, count)

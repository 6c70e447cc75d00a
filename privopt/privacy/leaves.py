"""A composition seen as a bag: which releases were made, and how often each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

import dp_accounting as dp

from privopt.privacy.parameters import is_multiplicity

__all__ = ["first_unsupported", "leaves"]

_COMPOSITIONS = (dp.NoOpDpEvent, dp.ComposedDpEvent, dp.SelfComposedDpEvent)


def leaves(event: dp.DpEvent) -> Iterator[tuple[dp.DpEvent, int]]:
    """The events left when composition is taken apart, each with its multiplicity.

    Adaptive composition depends on nothing else. No-ops and zero-fold compositions vanish; an
    event that is not understood, such as a composition with a malformed count, is itself a leaf,
    so that no accountant will claim to support it. An object that stands at several places is
    looked at once: thirty doublings are thirty steps.
    """
    order = list(_parts_first(event))
    multiplicity: dict[int, int] = defaultdict(int, {id(event): 1})
    for whole in reversed(order):
        if not isinstance(whole, _COMPOSITIONS):
            continue
        parts, times = _taken_apart(whole) or ((), 0)
        times *= multiplicity[id(whole)]
        for part in parts:
            multiplicity[id(part)] += times
    for each in order:
        count = multiplicity[id(each)]
        if count and not (isinstance(each, _COMPOSITIONS) and _taken_apart(each) is not None):
            yield each, count


def first_unsupported(event: dp.DpEvent, supports: Callable[[dp.DpEvent], bool]) -> dp.DpEvent:
    """The first leaf that is not supported; the event itself if its leaves are, one by one."""
    return next((leaf for leaf, _ in leaves(event) if not supports(leaf)), event)


def _parts_first(event: dp.DpEvent) -> Iterator[dp.DpEvent]:
    """Every object in the tree once, parts before the whole, from left to right."""
    seen: set[int] = set()
    stack = [(event, False)]
    while stack:
        each, finished = stack.pop()
        if finished:
            yield each
        elif id(each) not in seen:
            seen.add(id(each))
            if not isinstance(each, _COMPOSITIONS):
                yield each
                continue
            stack.append((each, True))
            parts, _ = _taken_apart(each) or ((), 0)
            stack.extend([(part, False) for part in reversed(parts)])


def _taken_apart(event: dp.DpEvent) -> tuple[Sequence[dp.DpEvent], int] | None:
    """The parts of a composition and how often they are repeated; None if it is none."""
    match event:
        case dp.NoOpDpEvent():
            return (), 0
        case dp.ComposedDpEvent(events=list() | tuple() as events):
            return events, 1
        case dp.SelfComposedDpEvent(event=part, count=count) if is_multiplicity(count):
            return (part,), int(count)
    return None

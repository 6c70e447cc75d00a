"""A composition seen as a bag: which releases were made, and how often each."""

from __future__ import annotations

from collections.abc import Iterator

import dp_accounting as dp

from privopt.privacy.parameters import is_count

__all__ = ["leaves"]


def leaves(event: dp.DpEvent) -> Iterator[tuple[dp.DpEvent, int]]:
    """The events left when composition is taken apart, each with its multiplicity.

    Adaptive composition depends on nothing else. No-ops and zero-fold compositions vanish; an
    event that is not understood, such as a composition with a malformed count, is itself a leaf,
    so that no accountant will claim to support it.
    """
    stack = [(event, 1)]
    while stack:
        event, multiplicity = stack.pop()
        match event:
            case dp.NoOpDpEvent():
                pass
            case dp.ComposedDpEvent(events=list() | tuple() as events):
                stack.extend((part, multiplicity) for part in reversed(events))
            case dp.SelfComposedDpEvent(event=part, count=count) if is_count(count):
                if count > 0:
                    stack.append((part, multiplicity * int(count)))
            case _:
                yield event, multiplicity

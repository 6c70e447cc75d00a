"""An event that nobody can change any more."""

from __future__ import annotations

from collections.abc import Iterator

import attr
import dp_accounting as dp
import numpy as np

__all__ = ["frozen"]


def frozen(event: dp.DpEvent) -> dp.DpEvent:
    """The event with tuples for its lists and copies for its arrays, all the way down.

    What holds none is kept as it is. Each object is looked at once, however often it stands in
    the tree, and however deep.
    """
    made: dict[int, dp.DpEvent] = {}
    begun: set[int] = set()
    stack = [event]
    while stack:
        each = stack[-1]
        parts = [] if id(each) in begun else [p for p in _parts(each) if id(p) not in made]
        begun.add(id(each))
        if parts:
            stack.extend(parts)
            continue
        stack.pop()
        if id(each) not in made:
            changed = {name: _fixed(value, made) for name, value in _fields(each)}
            changed = {k: new for k, new in changed.items() if new is not getattr(each, k)}
            made[id(each)] = attr.evolve(each, **changed) if changed else each
    return made[id(event)]


def _fields(event: dp.DpEvent) -> Iterator[tuple[str, object]]:
    """Fields that may hold something changeable."""
    if attr.has(type(event)):
        for field in attr.fields(type(event)):
            value = getattr(event, field.name)
            if isinstance(value, dp.DpEvent | list | tuple | np.ndarray):
                yield field.name, value


def _parts(event: dp.DpEvent) -> Iterator[dp.DpEvent]:
    for _, value in _fields(event):
        for each in value if isinstance(value, list | tuple) else (value,):
            if isinstance(each, dp.DpEvent):
                yield each


def _fixed(value: object, made: dict[int, dp.DpEvent]) -> object:
    if isinstance(value, dp.DpEvent):
        return made.get(id(value), value)
    if isinstance(value, list | tuple):
        fixed = tuple(_fixed(each, made) for each in value)
        same = isinstance(value, tuple) and all(a is b for a, b in zip(fixed, value, strict=True))
        return value if same else fixed
    if isinstance(value, np.ndarray):
        copy = value.copy()
        copy.flags.writeable = False
        return copy
    return value

"""Changes of the fields of nested records, as in code of a user."""

import dataclasses
import math

import numpy as np

from privopt import mechanisms
from privopt.convex import L2Ball


def parts(node):
    """Return the names of the fields of a record."""
    if dataclasses.is_dataclass(node):
        return [field.name for field in dataclasses.fields(node)]
    return list(node) if isinstance(node, dict) else getattr(node, "_fields", ())


def held(node, name):
    return node[name] if isinstance(node, dict) else getattr(node, name)


def numbers(node, path=()):
    """Yield the path of every number."""
    if isinstance(node, int | float | np.ndarray) and not isinstance(node, bool):
        yield path, node
    for name in parts(node):
        yield from numbers(held(node, name), (*path, name))


def fields_of(node, path=()):
    """Yield the path and the value of every field that is not a number."""
    if path and not (isinstance(node, int | float | np.ndarray) and not isinstance(node, bool)):
        yield path, node
    for name in parts(node):
        yield from fields_of(held(node, name), (*path, name))


def other_kinds(value):
    """Yield values of other kinds, other members of an enumeration, and other records."""
    yield from (0, 1, -1.0, 1e-9, math.nan, None, True, "", "l2", (), object(), object, dict)
    if isinstance(value, bool):
        yield not value
    yield from getattr(type(value), "__members__", {}).values()
    yield from (mechanisms.AllRecords(), mechanisms.ClippedGradient(1.0, 60.0, 3), L2Ball(1.0))


def changed(node, path, value):
    """Return a copy with one number changed, made by constructors."""
    if not path:
        return value
    name, *rest = path
    part = changed(held(node, name), rest, value)
    if isinstance(node, dict):
        return {**node, name: part}
    return (
        node._replace(**{name: part})
        if isinstance(node, tuple)
        else dataclasses.replace(node, **{name: part})
    )


def others(number):
    scaled = [factor * number for factor in (0, -1, 0.5, 2, 1000)]
    if isinstance(number, np.ndarray):
        return [*scaled, number * math.nan, None]
    if isinstance(number, int):
        return [number + 1, number - 1, 0, -number, number // 2, 2 * number, 1000 * number,
                0.5 * number, None, math.nan, math.inf]  # fmt: skip
    return [*scaled, math.nextafter(number, 0.0), math.nan, math.inf, None]

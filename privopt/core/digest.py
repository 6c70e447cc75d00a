"""Digest of a plan: ties a saved state to the plan and the stream of its run."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from types import FunctionType
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from privopt.core.plan import Plan

_WORDS = 8  # of 32 bits: SHA-256


def plan_digest(plan: Plan, stream: int) -> NDArray[np.uint32]:
    """Return 8 words that differ if a number of the plan, its algorithm or the stream differs.

    They are the same in every process. A function counts by its module, its name and what it closes
    over, so that an optimiser that is made anew has the digest of the old one.
    """
    content = (
        plan.algorithm.name,
        plan.problem_class,
        plan.budget,
        plan.static,
        plan.params,
        plan.noise_factor,
        stream,
    )
    code = hashlib.sha256()
    for part in _parts(content, ()):
        code.update(len(part).to_bytes(8, "big") + part)
    return np.frombuffer(code.digest(), np.uint32, _WORDS)


def _parts(value: Any, parents: tuple[int, ...]) -> Iterator[bytes]:
    """Yield the content of ``value`` in bytes; ``parents`` end the recursion in cycles."""
    if id(value) in parents:
        return
    parents = (*parents, id(value))
    kind = value if isinstance(value, type) else type(value)
    yield f"{kind.__module__}.{kind.__qualname__}".encode()
    if value is None or isinstance(value, type):
        return
    if isinstance(value, bool | int | float | complex | str | bytes | np.generic):
        yield repr(value).encode()
    elif isinstance(value, np.ndarray | jax.Array):
        array = np.asarray(value)
        yield f"{array.dtype.str}{array.shape}".encode()
        yield array.tobytes()
    elif isinstance(value, FunctionType):
        yield f"{value.__module__}.{value.__qualname__}".encode()
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
        yield from _all((value.__defaults__, value.__kwdefaults__, cells), parents)
    elif isinstance(value, partial):
        yield from _all((value.func, value.args, value.keywords), parents)
    elif isinstance(value, Mapping):
        yield from _all(sorted(value.items(), key=lambda item: str(item[0])), parents)
    elif isinstance(value, set | frozenset):
        yield from _all(sorted(value, key=str), parents)
    elif isinstance(value, tuple | list):
        yield from _all(value, parents)
    elif is_dataclass(value):
        yield from _all([getattr(value, each.name) for each in fields(value)], parents)
    elif hasattr(value, "__dict__"):
        yield from _all(vars(value), parents)


def _all(values: Any, parents: tuple[int, ...]) -> Iterator[bytes]:
    given = sorted(values.items()) if isinstance(values, dict) else values
    yield str(len(given)).encode()
    for each in given:
        yield from _parts(each, parents)

"""Parameters of a plan: validation, comparison, digest, and conversion to device arrays."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import partial
from types import FunctionType
from typing import Any, Protocol, TypeVar

import jax
import numpy as np
from dp_accounting import DpEvent
from jax.typing import ArrayLike, DTypeLike
from numpy.typing import NDArray

from privopt.arguments import check_fields, described, real, shown
from privopt.privacy import round_up
from privopt.spec import Relation

_INT32 = np.iinfo(np.int32)
_WORDS = 8  # of 32 bits: SHA-256

Tree = TypeVar("Tree")


class Mechanism(Protocol):
    """Mechanism of a plan, which contains all numbers that its privacy event depends on.

    If the guarantee needs assumptions on the losses or the number of records, the mechanism also
    has ``assumptions(relation) -> Assumptions``. Fields that scale noise have names that end in
    ``scale``; a Gibbs law has ``temperature``.
    """

    def event(self, relation: Relation) -> DpEvent:
        """Return the privacy event of a whole run."""


class Parameters(Protocol):
    """Type of ``Plan.params``: a NamedTuple of numbers, one field of which is the mechanism."""

    @property
    def mechanism(self) -> Mechanism:
        """Mechanism that determines the guarantee of the plan."""


def frozen(params: Tree) -> Tree:
    """Return ``params`` with read-only arrays; an array is copied unless it is already read-only.

    Raise ``ValueError`` with the path of a leaf that is not a number or a finite array, or of a
    field that does not have its declared type. A float may be infinite.
    """
    result = jax.tree_util.tree_map_with_path(_frozen, params)
    check_fields("params", result)
    return result


def _frozen(path: tuple[object, ...], leaf: ArrayLike) -> ArrayLike:
    name = f"params{jax.tree_util.keystr(path)}"
    if isinstance(leaf, np.ndarray):
        if leaf.dtype.kind not in "fiu" or not np.isfinite(leaf).all():
            raise ValueError(f"{name} must be an array of finite numbers, got {shown(leaf)}")
        if leaf.dtype.kind != "f":
            _check_integers(name, leaf)
        if leaf.flags.writeable or leaf.base is not None:
            leaf = leaf.copy()
            leaf.flags.writeable = False
        return leaf
    if not isinstance(leaf, int | float) or math.isnan(leaf):
        raise ValueError(f"{name} must be a number or a NumPy array, got {shown(leaf)}")
    if isinstance(leaf, int):
        _check_integers(name, np.asarray(leaf, object))
    return leaf


def scaled(mechanism: Tree, factor: float) -> Tree:
    """Return a mechanism with all noise scales multiplied by ``factor``, in float32."""
    if not 0.0 <= real("factor", factor) < math.inf:
        raise ValueError(f"factor must be at least 0 and finite, got {shown(factor)}")
    noises = []

    def times(path: tuple[object, ...], leaf: Any) -> float:
        name = jax.tree_util.keystr(path[-1:], simple=True)
        if not name.endswith(("scale", "temperature")):
            return leaf
        if name == "temperature" and factor == 0.0:
            raise ValueError(
                "factor must be positive for the exponential mechanism, which is its noise, "
                f"got {shown(factor)}"
            )
        noises.append(name)
        return round_up(factor * float(leaf))

    result = jax.tree_util.tree_map_with_path(times, mechanism)
    if not noises:
        raise ValueError(f"mechanism must hold a scale for a control, got {described(mechanism)}")
    return result


def _check_integers(name: str, values: np.ndarray) -> None:
    if values.size and not (_INT32.min <= values.min() and values.max() <= _INT32.max):
        raise ValueError(f"{name} must fit into 32 bits, got {shown(values)}")


def content(params: object) -> Hashable:
    """Return a hashable key of the structure, numbers and bytes of ``params``."""
    numbers, structure = jax.tree.flatten(params)
    return structure, tuple(
        (leaf.dtype.str, leaf.shape, leaf.tobytes()) if isinstance(leaf, np.ndarray) else leaf
        for leaf in numbers
    )


def padded_alike(params: Sequence[Tree]) -> list[Tree]:
    """Return the parameters of several plans with batches padded to one number of places.

    Nodes with the members ``places`` and ``padded(places)`` are padded to the largest number of
    places among the plans. Padding changes the shape of a program; it changes a result only if a
    Poisson batch overflows its own capacity, and then keeps records that would be left out.
    """
    flat = [jax.tree.flatten(each, is_leaf=_can_be_padded) for each in params]
    if len({structure for _, structure in flat}) > 1:
        return list(params)

    def alike(*nodes: Any) -> tuple[Any, ...]:
        if not all(map(_can_be_padded, nodes)):
            return nodes
        places = max(node.places for node in nodes)
        return tuple(node.padded(places) for node in nodes)

    columns = [alike(*nodes) for nodes in zip(*(nodes for nodes, _ in flat), strict=True)]
    return [
        jax.tree.unflatten(structure, [column[i] for column in columns])
        for i, (_, structure) in enumerate(flat)
    ]


def _can_be_padded(node: Any) -> bool:
    return not isinstance(node, type) and callable(getattr(node, "padded", None))


def device_numbers(params: Tree, dtype: DTypeLike) -> Tree:
    """Convert all numbers to arrays, so that they are traced arguments and not constants.

    Floats have the given ``dtype``, integers int32. The mechanism has already rounded up numbers
    that must not be rounded down.
    """

    def number(leaf: ArrayLike) -> np.ndarray:
        whole = isinstance(leaf, int) or getattr(leaf, "dtype", np.dtype(float)).kind in "iu"
        return np.asarray(leaf, np.int32 if whole else dtype)

    return jax.tree.map(number, params)


def plan_digest(plan: Any, stream: int) -> NDArray[np.uint32]:
    """Return 8 words that depend on all numbers of the plan, its algorithm and the stream.

    The digest is the same in every process. A function contributes its module, its name and its
    closure, so an optimiser that is constructed again has the same digest.
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
    """Yield the content of ``value`` in bytes; ``parents`` ends the recursion in cycles."""
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
        yield from _items((value.__defaults__, value.__kwdefaults__, cells), parents)
    elif isinstance(value, partial):
        yield from _items((value.func, value.args, value.keywords), parents)
    elif isinstance(value, Mapping):
        yield from _items(sorted(value.items(), key=lambda item: str(item[0])), parents)
    elif isinstance(value, set | frozenset):
        yield from _items(sorted(value, key=str), parents)
    elif isinstance(value, tuple | list):
        yield from _items(value, parents)
    elif is_dataclass(value):
        yield from _items([getattr(value, each.name) for each in fields(value)], parents)
    elif hasattr(value, "__dict__"):
        yield from _items(vars(value), parents)


def _items(values: Any, parents: tuple[int, ...]) -> Iterator[bytes]:
    items = sorted(values.items()) if isinstance(values, dict) else values
    yield str(len(items)).encode()
    for item in items:
        yield from _parts(item, parents)

"""The numbers of a plan: checked, frozen, compared by content, and sent to the device."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any, Protocol, TypeVar

import jax
import numpy as np
from dp_accounting import DpEvent
from jax.typing import ArrayLike, DTypeLike

from privopt.arguments import check_fields, described, real, shown
from privopt.privacy import round_up
from privopt.spec import Relation

_INT32 = np.iinfo(np.int32)

Tree = TypeVar("Tree")


class Mechanism(Protocol):
    """What makes a run private; it holds all numbers on which the event depends.

    A mechanism whose guarantee rests on facts about the losses or the number of records also has
    ``premises(relation) -> Premises``. Names of fields that scale noise end in ``scale``, or are
    ``temperature`` for a Gibbs law.
    """

    def event(self, relation: Relation) -> DpEvent:
        """What a whole run does to privacy, as an event of dp-accounting."""


class Parameters(Protocol):
    """The ``params`` of a plan: a NamedTuple of numbers, one field of which is the mechanism."""

    @property
    def mechanism(self) -> Mechanism:
        """From which the guarantee of the plan follows."""


def frozen(params: Tree) -> Tree:
    """The same tree, its arrays read-only; an array is copied unless it already owns such memory.

    ValueError names the path of a leaf that is no number (a float may be infinite) or finite array,
    or of a field that is not of its declared type.
    """
    found = jax.tree_util.tree_map_with_path(_frozen, params)
    check_fields("params", found)
    return found


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
    """A mechanism with all its noise times ``factor``, in float32, for a control."""
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

    found = jax.tree_util.tree_map_with_path(times, mechanism)
    if not noises:
        raise ValueError(f"mechanism must hold a scale for a control, got {described(mechanism)}")
    return found


def _check_integers(name: str, values: np.ndarray) -> None:
    if values.size and not (_INT32.min <= values.min() and values.max() <= _INT32.max):
        raise ValueError(f"{name} must fit into 32 bits, got {shown(values)}")


def content(params: object) -> Hashable:
    """A key that is equal for equal parameters only: structure, numbers, bytes."""
    leaves, structure = jax.tree.flatten(params)
    return structure, tuple(
        (leaf.dtype.str, leaf.shape, leaf.tobytes()) if isinstance(leaf, np.ndarray) else leaf
        for leaf in leaves
    )


def padded_alike(params: Sequence[Tree]) -> list[Tree]:
    """Return the parameters of several plans with batches padded to one number of places.

    Nodes with the members ``places`` and ``padded(places)`` are padded to the largest number of
    places among the plans. Padding changes the shape of a program and no result.
    """
    flat = [jax.tree.flatten(each, is_leaf=_can_be_padded) for each in params]
    if len({structure for _, structure in flat}) > 1:
        return list(params)

    def alike(*nodes: Any) -> tuple[Any, ...]:
        if not all(map(_can_be_padded, nodes)):
            return nodes
        places = max(node.places for node in nodes)
        return tuple(node.padded(places) for node in nodes)

    columns = [alike(*nodes) for nodes in zip(*(leaves for leaves, _ in flat), strict=True)]
    return [
        jax.tree.unflatten(structure, [column[i] for column in columns])
        for i, (_, structure) in enumerate(flat)
    ]


def _can_be_padded(node: Any) -> bool:
    return not isinstance(node, type) and callable(getattr(node, "padded", None))


def device_numbers(params: Tree, dtype: DTypeLike) -> Tree:
    """The same tree as arrays, which no program contains: floats of ``dtype``, integers int32.

    Numbers that must not be rounded down are rounded up by their mechanism before.
    """

    def number(leaf: ArrayLike) -> np.ndarray:
        whole = isinstance(leaf, int) or getattr(leaf, "dtype", np.dtype(float)).kind in "iu"
        return np.asarray(leaf, np.int32 if whole else dtype)

    return jax.tree.map(number, params)

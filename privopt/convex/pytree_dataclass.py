"""Frozen dataclasses as pytrees that know their own class.

``jax.tree_util.register_dataclass`` makes nodes whose structures compare equal across classes (seen
in JAX 0.10: ``L1Ball(1.0)`` and ``Simplex(1.0)``). Structures are keys of the compilation cache,
where a chance agreement of hashes then runs one class's program on another's numbers. Nodes made
here compare by class.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import fields
from typing import TypeVar

import jax

from privopt.arguments import checked
from privopt.release import Pytree

_T = TypeVar("_T")


@checked
def pytree_dataclass(cls: type[_T]) -> type[_T]:
    """Register a frozen dataclass whose fields are the children; ``static`` ones are not.

    A field with ``metadata={"static": True}`` is hashable structure. Unflattening sets the fields
    and calls no constructor: JAX puts anything in the place of numbers, which are checked where a
    node is made.

    Examples
    --------
    >>> from dataclasses import dataclass, field
    >>> @pytree_dataclass
    ... @dataclass(frozen=True)
    ... class Power:
    ...     base: float
    ...     exponent: int = field(metadata={"static": True})
    >>> jax.tree.map(lambda leaf: 2.0 * leaf, Power(1.5, 3)).base, jax.tree.leaves(Power(1.5, 3))
    (3.0, [1.5])
    """
    dynamic = [f.name for f in fields(cls) if not f.metadata.get("static")]  # type: ignore[arg-type]
    static = [f.name for f in fields(cls) if f.metadata.get("static")]  # type: ignore[arg-type]

    def flatten_with_keys(node: _T) -> tuple[list[tuple[object, Pytree]], tuple[Hashable, ...]]:
        children = [(jax.tree_util.GetAttrKey(name), getattr(node, name)) for name in dynamic]
        return children, tuple(getattr(node, name) for name in static)

    def unflatten(structure: tuple[Hashable, ...], children: Iterable[Pytree]) -> _T:
        node = object.__new__(cls)
        for names, values in ((dynamic, children), (static, structure)):
            for name, value in zip(names, values, strict=True):
                object.__setattr__(node, name, value)
        return node

    jax.tree_util.register_pytree_with_keys(cls, flatten_with_keys, unflatten)
    return cls


def node_classes(tree: Pytree) -> tuple[object, ...]:
    """The classes of a pytree's nodes, nested as they are: for telling other people's apart.

    Examples
    --------
    >>> node_classes((1.0, [2.0]))
    (<class 'tuple'>, (None,), (<class 'list'>, (None,)))
    """

    def classes(structure: jax.tree_util.PyTreeDef) -> tuple[object, ...]:
        node = structure.node_data()
        return (node and node[0], *map(classes, structure.children()))

    return classes(jax.tree.structure(tree))

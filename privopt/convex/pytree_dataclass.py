"""Frozen dataclasses as pytrees; distinct classes have distinct structures.

Structures registered by ``jax.tree_util.register_dataclass`` compare equal across classes (JAX
0.10: ``L1Ball(1.0)`` and ``L2Ball(1.0)``). Structures are keys of the compilation cache. If their
hashes coincide, the program of one class runs on the numbers of another. The nodes of this module
compare by class.
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
    """Register a frozen dataclass as a pytree; its fields are the children unless ``static``.

    A field with ``metadata={"static": True}`` is hashable structure. Unflattening sets the fields
    without a call of the constructor, because JAX replaces numbers by arbitrary objects and the
    constructor checks numbers.

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
    """Return the nested classes of the nodes of a pytree, which distinguish user-defined classes.

    Examples
    --------
    >>> node_classes((1.0, [2.0]))
    (<class 'tuple'>, (None,), (<class 'list'>, (None,)))
    """

    def classes(structure: jax.tree_util.PyTreeDef) -> tuple[object, ...]:
        node = structure.node_data()
        return (node and node[0], *map(classes, structure.children()))

    return classes(jax.tree.structure(tree))

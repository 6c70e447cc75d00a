"""A fingerprint of code that is not privopt's: what a user's algorithms and problems do.

Followed from the objects themselves, so it does not matter whether they stand in a file, in a
notebook or in a module that a file imports. Code that is installed counts by name and version.
"""

from __future__ import annotations

import hashlib
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache, cached_property, partial
from pathlib import Path
from types import (
    CellType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MappingProxyType,
    MethodType,
    ModuleType,
)
from typing import NamedTuple

import jax
import numpy as np

_PLAIN = (type(None), bool, int, float, complex, str, bytes, range, type(...), slice, np.generic)
_UNNUMBERED = (CodeType, tuple, frozenset)  # whether equal constants are one object is arbitrary
_PLACES = ("__file__", "__name__", "__package__", "__path__", "__spec__")  # of a module
_PRIVOPT = Path(__file__).parents[2]
_WRAPPERS = (property, cached_property, classmethod, staticmethod)
_WRAPPED = ("fget", "fset", "fdel", "func", "__func__")


class Reached(NamedTuple):
    """What is reached from some objects."""

    code: str  # digest of all that is the user's
    modules: frozenset[str]  # privopt's that something comes from


def reached(*objects: object) -> Reached:
    """The digest of the user's code that is reached from ``objects``, and privopt's modules.

    Of a function: its instructions, constants, defaults, closure, and the globals that it names,
    in their turn. Of a class: its bases and members. Of a module: its file and the modules that
    it imports. Of a value: the value. Comments and layout do not count.
    """
    walk = _Walk()
    for each in objects:
        walk.see(each)
    return Reached(walk.digest.hexdigest(), frozenset(walk.modules))


class _Walk:
    """Depth first, in the order of the code; what was seen before is told by its number."""

    def __init__(self) -> None:
        self.digest = hashlib.sha256()
        self.modules: set[str] = set()
        # The object is held, lest its id be used again.
        self._seen: dict[int, tuple[int, object]] = {}

    def see(self, item: object) -> None:
        if isinstance(item, _PLAIN):
            return self._say(type(item).__name__, repr(item))
        if id(item) in self._seen:
            return self._say("again", self._seen[id(item)][0])
        if not isinstance(item, _UNNUMBERED):
            self._seen[id(item)] = len(self._seen), item
        kind = item if isinstance(item, type | FunctionType | ModuleType) else type(item)
        module = kind.__name__ if isinstance(kind, ModuleType) else kind.__module__
        if module.split(".")[0] == "privopt":
            self.modules.add(module)
        installed = "" if _of_the_user(module) else f"{module} {_version(module)}"
        self._say(type(item).__name__, installed, getattr(kind, "__qualname__", module))
        for part in _parts(item):
            self.see(part)
        return self._say("end")

    def _say(self, *words: object) -> None:
        self.digest.update("\0".join(map(str, words)).encode() + b"\n")


def _parts(item: object) -> Iterator[object]:
    """What an object is made of, as far as it may lead to code of the user."""
    match item:
        case CodeType():
            yield from (item.co_code, item.co_exceptiontable, item.co_names, item.co_consts)
        case FunctionType():
            yield from _function(item)
        case MethodType():
            yield from (item.__func__, item.__self__)
        case partial():
            yield from (item.func, item.args, item.keywords)
        case ModuleType():
            yield from _module(item)
        case type():
            yield from _class(item)
        case Enum():
            yield from (type(item), item.name, item.value)
        case np.ndarray() | jax.Array():
            yield from _array(item)
        case dict() | MappingProxyType():
            yield from (part for pair in item.items() for part in pair)
        case set() | frozenset():
            yield from sorted(reached(each).code for each in item)
        case list() | tuple():
            yield from (type(item), *item)
        case _ if isinstance(item, _WRAPPERS):
            yield from (getattr(item, name, None) for name in _WRAPPED)
        case _:
            yield from _instance(item)


def _function(function: FunctionType) -> Iterator[object]:
    yield from (function.__defaults__, function.__kwdefaults__)
    yield from (_content(cell) for cell in function.__closure__ or ())
    yield getattr(function, "__wrapped__", None)
    if _is_users(function):
        yield function.__code__
        names = dict.fromkeys(_names(function.__code__))
        yield from (function.__globals__.get(name) for name in names if name not in _PLACES)


def _names(code: CodeType) -> Iterator[str]:
    """Every name that the code looks up, that of functions within it included."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _content(cell: CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # not bound yet
        return None


def _module(module: ModuleType) -> Iterator[object]:
    if not _of_the_user(module.__name__):
        return
    file = Path(getattr(module, "__file__", None) or "")
    if file.is_file():
        yield file.read_bytes()
    for value in list(vars(module).values()):
        if isinstance(value, ModuleType) or (
            isinstance(value, type | FunctionType) and value.__module__ != module.__name__
        ):
            yield value


def _class(kind: type) -> Iterator[object]:
    if not _of_the_user(kind.__module__):
        return
    yield kind.__bases__
    for name, value in vars(kind).items():
        special = name.startswith("__") and not isinstance(value, (FunctionType, *_WRAPPERS))
        if not special and not isinstance(value, GetSetDescriptorType):
            yield from (name, value)


def _array(array: np.ndarray | jax.Array) -> Iterator[object]:
    if isinstance(array, jax.core.Tracer):
        return
    if jax.numpy.issubdtype(array.dtype, jax.dtypes.prng_key):
        array = jax.random.key_data(array)
    array = np.asarray(array)
    yield from (str(array.dtype), array.shape)
    if array.dtype == object:
        yield array.tolist()
    else:
        yield array.tobytes()


def _instance(item: object) -> Iterator[object]:
    """Its class and fields; of an installed class without fields only what can be called."""
    kind = type(item)
    yield kind
    if is_dataclass(item):
        yield from (getattr(item, field.name, None) for field in fields(item))
    elif hasattr(kind, "__attrs_attrs__"):
        yield from (getattr(item, field.name, None) for field in kind.__attrs_attrs__)
    elif _of_the_user(kind.__module__) or callable(item):
        yield getattr(item, "__wrapped__", None)
        ours = _of_the_user(kind.__module__)  # what is private elsewhere may tell of lines
        for name, value in list(getattr(item, "__dict__", {}).items()):
            is_cache = isinstance(getattr(kind, name, None), cached_property)
            if not is_cache and (ours or not name.startswith("_")):
                yield from (name, value)
        yield from _slots(item)


def _slots(item: object) -> Iterator[object]:
    for kind in type(item).__mro__:
        names: str | Iterable[str] = kind.__dict__.get("__slots__", ())
        for name in (names,) if isinstance(names, str) else names:
            if not name.startswith("__"):
                yield from (name, getattr(item, name, None))


def _is_users(function: FunctionType) -> bool:
    """By its file: the module of a file that was run, or of a notebook's cell, is not imported."""
    file = function.__code__.co_filename
    return not _installed(file) if Path(file).is_file() else _of_the_user(function.__module__)


@cache
def _of_the_user(module: str | None) -> bool:
    """Whether a module is neither privopt's, nor Python's, nor in a folder of packages."""
    top = (module or "").split(".")[0]
    if top == "__main__":  # also where what runs it, as in a notebook, is installed
        return True
    if top in sys.stdlib_module_names:
        return False
    file = getattr(sys.modules.get(module or ""), "__file__", None)
    if file is None:
        file = getattr(sys.modules.get(top), "__file__", None)
    return file is None or not _installed(file)


@cache
def _installed(file: str) -> bool:
    path = Path(file).resolve()
    if {"site-packages", "dist-packages"} & set(path.parts) or path.is_relative_to(_PRIVOPT):
        return True
    roots = (sysconfig.get_path(name) for name in ("stdlib", "platstdlib"))
    return any(path.is_relative_to(Path(root).resolve()) for root in roots if root)


def _version(module: str) -> str:
    return getattr(sys.modules.get(module.split(".")[0]), "__version__", "")

"""Cache keys of cells: numbers, data, versions, and the source of user code."""

from __future__ import annotations

import ast
import hashlib
import json
import linecache
import marshal
import platform
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import cache, cached_property
from importlib.metadata import version
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import jax
import numpy as np

ROOT = Path(__file__).parents[2]
"""Folder of the source of privopt."""

_PACKAGES = "jax", "jaxlib", "numpy", "scipy", "dp-accounting", "optax", "scikit-learn"  # of [lab]
_PLAIN = (type(None), bool, int, float, complex, str, bytes, range, type(...), slice, np.generic)
_METHOD = ("__func__", "__self__", "__wrapped__", "fget", "fset", "fdel")
_PARTIAL = ("func", "args", "keywords")


def cell_key(**determining: object) -> str:
    """Return the SHA-256 of JAX's version and the JSON values that determine a cell."""
    contents = {"jax": jax.__version__, **determining}
    return _sha256(json.dumps(contents, sort_keys=True).encode())


def environment() -> dict[str, str]:
    """Return the versions, system and device that can change the rounding of a result."""
    return {
        "python": platform.python_version(),
        **{package: version(package) for package in _PACKAGES},
        "system": platform.system(),
        "machine": platform.machine(),
        "device": jax.devices()[0].device_kind,
        "dtype": "float64",
    }


def identity(experiments: Iterable[Path]) -> dict[str, str]:
    """Return the properties that machines must share to fill one folder.

    These are the environment and a digest of the source of privopt and of the experiment files.
    """
    texts = {path.name: path.read_bytes() for path in experiments}
    texts |= {str(path.relative_to(ROOT)): path.read_bytes() for path in ROOT.rglob("*.py")}
    digest = hashlib.sha256()
    for name, text in sorted(texts.items()):
        digest.update(f"{name} {len(text)} ".encode() + text)
    return {**environment(), "source": digest.hexdigest()[:12], "privopt": version("privopt")}


# --- user code ------------------------------------------------------------------------------------


def user_code(*objects: object) -> str:
    """Return a digest of the user code that ``objects`` reach.

    A function or class counts by the source of its file or notebook cell, and by the values and
    functions that it references elsewhere. Comments and docstrings do not count. Installed code
    counts by name and version. Code of privopt does not count: algorithms have a version.
    """
    entries: list[str] = []
    visited: dict[int, object] = {}  # holds the objects, so that no id is used twice

    def visit(item: object) -> None:
        if isinstance(item, _PLAIN):
            entries.append(f"{type(item).__name__} {item!r}")
        elif id(item) not in visited:
            visited[id(item)] = item
            entries.append(_name(item))
            for part in _parts(item):
                visit(part)

    visit(objects)
    return _sha256("\n".join(entries).encode())


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _name(item: object) -> str:
    """Return the name of a class or function, with its version if it is installed.

    The module of a name of privopt does not count, so that moved code has the same digest.
    """
    kind = item if isinstance(item, type | FunctionType | ModuleType) else type(item)
    module = (kind.__name__ if isinstance(kind, ModuleType) else kind.__module__) or ""
    name = getattr(kind, "__qualname__", module)
    if module.split(".")[0] == "privopt":
        return f"privopt {name}"
    if _is_user_module(module):
        return name
    return f"{module} {name} {getattr(sys.modules.get(module.split('.')[0]), '__version__', '')}"


def _parts(item: Any) -> Iterator[object]:
    """Yield the parts of an object that may lead to user code."""
    match item:
        case FunctionType():
            yield from _function(item)
        case ModuleType():
            if _is_user_module(item.__name__):
                members = list(vars(item).values())
                yield _source(getattr(item, "__file__", None) or "")
                yield from (x for x in members if isinstance(x, ModuleType | type | FunctionType))
        case type():
            if _is_user_module(item.__module__):
                file = getattr(sys.modules.get(item.__module__), "__file__", None)
                yield from (_source(file or ""), item.__bases__)
                for name, value in vars(item).items():
                    if not name.startswith("__") or isinstance(value, FunctionType):
                        yield from (name, value)
        case np.ndarray() | jax.Array():
            if not isinstance(item, jax.core.Tracer):
                is_key = jax.numpy.issubdtype(item.dtype, jax.dtypes.prng_key)
                array = np.asarray(jax.random.key_data(item) if is_key else item)
                yield from (str(array.dtype), array.shape)
                yield array.tolist() if array.dtype == object else _sha256(array.tobytes())
        case Mapping():
            yield from (part for pair in item.items() for part in pair)
        case set() | frozenset():
            yield from sorted(user_code(member) for member in item)
        case list() | tuple():
            yield from (type(item), *item)
        case _:
            yield type(item)
            yield from (getattr(item, name, None) for name in (*_METHOD, *_PARTIAL))
            yield from _attributes(item)


def _function(function: FunctionType) -> Iterator[object]:
    """Yield defaults, closure and, for user code, source and referenced globals."""
    yield from (function.__defaults__, function.__kwdefaults__)
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # not bound yet
            yield cell.cell_contents
    yield getattr(function, "__wrapped__", None)
    file = function.__code__.co_filename
    if not _is_installed(file) if Path(file).is_file() else _is_user_module(function.__module__):
        # Code without source is identified by its bytecode.
        yield _source(file) or marshal.dumps(function.__code__)
        names = dict.fromkeys(_global_names(function.__code__))
        values = function.__globals__
        yield from (values[x] for x in names if x in values and not x.startswith("__"))


def _global_names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _global_names(constant)


def _attributes(item: Any) -> Iterator[object]:
    """Yield fields, attributes and slots; of installed classes only public ones."""
    kind = type(item)
    slots = [base.__dict__.get("__slots__", ()) for base in kind.__mro__]
    names = [name for each in slots for name in ((each,) if isinstance(each, str) else each)]
    is_user = _is_user_module(kind.__module__)
    if is_dataclass(item):
        names = [field.name for field in fields(item)]
    else:
        names += list(getattr(item, "__dict__", {}))
    for name in names:
        is_cached = isinstance(getattr(kind, name, None), cached_property)
        if not is_cached and not name.startswith("__" if is_user else "_"):
            yield from (name, getattr(item, name, None))


def _source(file: str) -> str:
    """Return a digest of the source of a file or notebook cell, without comments and docstrings.

    An empty string if the source is not known.
    """
    linecache.checkcache(file)
    text = "".join(linecache.getlines(file))
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return _sha256(text.encode())
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [statement for statement in node.body if not _is_text(statement)]
    return _sha256(ast.dump(tree).encode()) if text else ""


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


@cache
def _is_user_module(module: str | None) -> bool:
    top = (module or "").split(".")[0]
    if top == "__main__":  # even if its launcher, such as a notebook server, is installed
        return True
    if top in sys.stdlib_module_names:
        return False
    loaded = (sys.modules.get(name) for name in (module or "", top))
    file = next(filter(None, (getattr(each, "__file__", None) for each in loaded)), None)
    return file is None or not _is_installed(file)


@cache
def _is_installed(file: str) -> bool:
    path = Path(file).resolve()
    if {"site-packages", "dist-packages"} & set(path.parts) or path.is_relative_to(ROOT):
        return True
    roots = (sysconfig.get_path(name) for name in ("stdlib", "platstdlib"))
    return any(path.is_relative_to(Path(root).resolve()) for root in roots if root)

"""What determines the numbers of a cell beside its own description: code, packages, machine."""

from __future__ import annotations

import ast
import hashlib
import platform
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import version
from pathlib import Path

import jax

from privopt.lab.make.user_code import reached

ROOT = Path(__file__).parents[2]
"""The folder of privopt's source."""

HOST = ("arguments", "spec", "privacy", "theory", "accounting", "factorisations")
"""Rooms that act on a run only through the numbers of its plan."""

_FRONT = ("privopt.lab", "privopt.cli")  # what declares, keeps and shows results; never followed
_PACKAGES = "jax", "jaxlib", "numpy", "scipy", "dp-accounting", "optax", "scikit-learn"  # of [lab]


def environment() -> dict[str, str]:
    """Everything beside code, data and seed that may move the last bit of a result.

    But for the number of devices: machines of unlike size can share a folder.
    """
    return {
        "python": platform.python_version(),
        **{package: version(package) for package in _PACKAGES},
        "system": platform.system(),
        "machine": platform.machine(),
        "device": jax.devices()[0].device_kind,
        "dtype": "float64",
    }


def identity(experiments: Iterable[Path]) -> dict[str, str]:
    """What machines must agree on to fill one folder: the environment, and the source as it stands.

    That is privopt's own and of the files with experiments; comments count.
    """
    texts = {path.name: path.read_bytes() for path in experiments}
    texts |= {str(path.relative_to(ROOT)): path.read_bytes() for path in ROOT.rglob("*.py")}
    found = hashlib.sha256()
    for name, text in sorted(texts.items()):
        found.update(f"{name} {len(text)} ".encode() + text)
    return {**environment(), "source": found.hexdigest()[:12], "privopt": version("privopt")}


def fingerprint(*objects: object, besides: Iterable[str] = (), without: Iterable[str] = ()) -> str:
    """SHA-256 of the code that is reached from objects: the user's, and the modules of privopt.

    Of the user's code, what is reached (:func:`privopt.lab.make.user_code.reached`). Of privopt,
    the import closure of the modules that the objects come from and of those ``besides``,
    ``without`` some rooms. Comments, layout and docstrings do not count.
    """
    code, modules = reached(*objects)
    found = closure(frozenset((*modules, *besides)), frozenset(without), ROOT)
    return hashlib.sha256(f"{code} {found}".encode()).hexdigest()


@cache
def closure(
    modules: frozenset[str], without: frozenset[str] = frozenset(), root: Path = ROOT
) -> str:
    """SHA-256 of the code of these modules and of all that they import from privopt.

    A name that a package hands on leads to the module that defines it, not to the whole package.
    """
    todo, seen = sorted(modules), set()
    while todo:
        module = todo.pop()
        if module in seen or _is_in(module, without):
            continue
        seen.add(module)
        if module == "privopt":  # loads its rooms by name: which ones, only a run can tell
            todo += _everything(root)
        todo += [each for each in _read(module, root)[1] if not each.startswith(_FRONT)]
    text = " ".join(f"{module} {_read(module, root)[0]}" for module in sorted(seen))
    return hashlib.sha256(text.encode()).hexdigest()


def _is_in(module: str, rooms: frozenset[str]) -> bool:
    return (*module.split("."), "")[1] in rooms


def _everything(root: Path) -> list[str]:
    paths = (path.relative_to(root.parent).with_suffix("") for path in root.rglob("*.py"))
    names = (".".join(path.parts).removesuffix(".__init__") for path in paths)
    return [name for name in names if not name.startswith(_FRONT)]


@cache
def _read(module: str, root: Path) -> tuple[str, tuple[str, ...]]:
    """The digest of a module's code, and the modules of privopt that it imports."""
    tree = ast.parse(_path(module, root).read_text(encoding="utf-8"))
    found = tuple(dict.fromkeys(_imports(tree, root)))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [line for line in node.body if not _is_text(line)]
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest(), found


def _is_text(node: ast.stmt) -> bool:
    """Whether a statement is a text alone, such as a docstring."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _imports(tree: ast.AST, root: Path) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names if a.name.split(".")[0] == "privopt")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "privopt":
            yield from (_definer(node.module or "", alias.name, root) for alias in node.names)


@cache
def _definer(module: str, name: str, root: Path) -> str:
    """The module that ``from module import name`` leads to."""
    if _path(f"{module}.{name}", root).exists():
        return f"{module}.{name}"
    path = _path(module, root)
    if path.name == "__init__.py":
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("privopt"):
                for alias in node.names:
                    if (alias.asname or alias.name) == name:
                        return _definer(node.module or "", alias.name, root)
    return module


def _path(module: str, root: Path) -> Path:
    """The file of a module, there or not."""
    stem = root.parent.joinpath(*module.split("."))
    return stem / "__init__.py" if stem.is_dir() else stem.with_suffix(".py")

"""API pages: one per package, with the docstring of every public name."""

from __future__ import annotations

import ast
import inspect
import sys
from functools import cache
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.ext.napoleon import Config, NumpyDocstring
from sphinx.util.nodes import make_refnode

from _ext.files import write_files

PRIVOPT = import_module("privopt")
FOLDER = Path(str(PRIVOPT.__file__)).parent
PACKAGES = [name for name in PRIVOPT.__all__ if isinstance(getattr(PRIVOPT, name), ModuleType)]
ROOT_ONLY = ("keep_programs", "run_stream", "tuned")  # public in `privopt` only
STYLE = Config(
    napoleon_use_param=False,
    napoleon_use_rtype=False,
    napoleon_custom_sections=["Formal guarantee"],
)


def package(name: str) -> ModuleType:
    """Return the module of a package."""
    return import_module(f"privopt.{name}")


def public(here: str) -> list[str]:
    """Return the public names of a package, without modules."""
    module = package(here)
    return [name for name in module.__all__ if not inspect.ismodule(getattr(module, name))]


@cache
def homes() -> dict[str, str]:
    """Return for each public name the package that defines it, where it is documented."""
    result = {}
    for here in PACKAGES:
        for name in public(here):
            module = getattr(getattr(package(here), name), "__module__", "")
            there = [*str(module).split("."), "", ""][1]
            if there not in PACKAGES or name not in public(there):
                there = here
            result[f"privopt.{here}.{name}"] = f"privopt.{there}.{name}"
    return result


@cache
def by_identity() -> dict[int, str]:
    """Return the documented name of each object, by its identity."""
    result = {id(getattr(PRIVOPT, name)): f"privopt.{name}" for name in ROOT_ONLY}
    for full, home in homes().items():
        _, here, name = full.split(".")
        result.setdefault(id(getattr(package(here), name)), home)
    return result


@cache
def constants(here: str) -> dict[str, str]:
    """Return the docstrings below the constants of a package."""
    folder, result = FOLDER / here, {}
    for file in folder.rglob("*.py") if folder.is_dir() else [FOLDER / f"{here}.py"]:
        for item, text in pairwise(ast.parse(file.read_text(encoding="utf-8")).body):
            if not (isinstance(item, ast.Assign | ast.AnnAssign) and isinstance(text, ast.Expr)):
                continue
            target = item.targets[0] if isinstance(item, ast.Assign) else item.target
            if isinstance(text.value, ast.Constant) and isinstance(text.value.value, str):
                result[ast.unparse(target)] = inspect.cleandoc(text.value.value)
    return result


def entry(full: str) -> str:
    """Return the directive that documents one public name."""
    _, here, name = full.split(".")
    value = getattr(package(here), name)
    if inspect.isclass(value):
        return f".. autoclass:: {full}\n   :members:\n"
    if inspect.isfunction(value):
        return f".. autofunction:: {full}\n"
    description = constants(here).get(name, "").replace("\n", "\n   ")
    text = repr(value)
    option = f"   :value: {text}\n" if len(text) < 60 and "<" not in text else ""
    return f".. py:data:: {full}\n{option}\n   {description}\n"


def table(rows: dict[str, str]) -> str:
    """Return a table of references with one line each."""
    lines = [f"   * - {name}\n     - {description}" for name, description in rows.items()]
    return "\n".join([".. list-table::", "   :widths: 34 66", "", *lines, ""])


def mark_formulas(lines: list[str]) -> list[str]:
    """Return the text with each indented paragraph as a literal block, because it is a formula."""
    result: list[str] = []
    previous, inside = "", ""  # last line that is not empty; indent of the current formula
    for line in lines:
        depth = len(line) - len(line.lstrip())
        margin = len(previous) - len(previous.lstrip())
        if inside and line.strip() and depth < len(inside):
            inside = ""
        starts = line.strip() and result and not result[-1].strip() and not inside
        if starts and previous and depth >= margin + 4 and not previous.endswith("::"):
            result += [" " * margin + "::", ""]
            inside = " " * depth
        result.append(line)
        previous = line if line.strip() else previous
    return result


def first_line(value: object) -> str:
    """Return the first line of the docstring of a package, class or function."""
    text = inspect.getdoc(value) if callable(value) or inspect.ismodule(value) else ""
    return (text or "").split("\n")[0]


def page(here: str) -> str:
    """Return the page of a package, in reStructuredText like its docstrings."""
    title = f"privopt.{here}"
    own, others = [], []
    for name in public(here):
        home = homes()[f"{title}.{name}"]
        (own if home == f"{title}.{name}" else others).append(home)
    also = "Also available here: " + ", ".join(f":py:obj:`{each}`" for each in others) + ".\n"
    parts = [title, "=" * len(title), "", f".. py:module:: {title}", ""]
    parts += [*mark_formulas(inspect.cleandoc(package(here).__doc__ or "").splitlines()), ""]
    parts += [also] if others else []
    return "\n".join([*parts, *map(entry, own)])


def index() -> str:
    """Return the index of the API: the names of ``privopt`` and its packages."""
    names = {}
    for name in sorted(set(PRIVOPT.__all__) - {*PACKAGES, "__version__"}, key=str.lower):
        value = getattr(PRIVOPT, name)
        home = by_identity().get(id(value), f"privopt.algorithms.{name}")
        line = first_line(value) or constants("algorithms").get(name, "")
        names[f":py:obj:`privopt.{name} <{home}>`"] = line
    packages = {f":py:mod:`privopt.{name}`": first_line(package(name)) for name in PACKAGES}
    return "\n".join(
        [
            *("API", "===", "", ".. py:module:: privopt", ""),
            "Every public name, by package. The most common names are available in ``privopt``.",
            *("", "Names in privopt", "----------------", "", table(names)),
            *("Packages", "--------", "", table(packages)),
            *(".. toctree::", "   :hidden:", ""),
            *(f"   {name}" for name in ("root", *PACKAGES)),
            "",
        ]
    )


def root() -> str:
    """Return the page of the functions that no package defines."""
    functions = (f".. autofunction:: privopt.{name}\n" for name in ROOT_ONLY)
    text = "Functions that are available in ``privopt`` only."
    return "\n".join(["privopt", "=======", "", text, "", *functions])


def write(app: Sphinx) -> None:
    """Write the pages before Sphinx searches for source files."""
    pages = {"index": index(), "root": root(), **{name: page(name) for name in PACKAGES}}
    write_files(Path(app.srcdir) / "api", {f"{name}.rst": text for name, text in pages.items()})


class Docstring(NumpyDocstring):
    """Docstrings with the sections of NumPy. Attributes are listed like parameters.

    Sphinx reads ``:ivar lower, upper:`` as an attribute ``upper`` of type ``lower,`` and searches
    for that type.
    """

    def _parse_attributes_section(self, section: str) -> list[str]:
        return self._format_fields("Attributes", self._consume_fields())


def read_sections(
    app: Sphinx, what: str, name: str, value: object, options: object, lines: list[str]
) -> None:
    """Convert the sections of NumPy to reStructuredText."""
    # napoleon reads the first line of an attribute up to a colon as its type
    kind = what if what in ("class", "function", "method", "module") else "method"
    lines[:] = Docstring(mark_formulas(lines), STYLE, app, kind, name, value, options).lines()


def is_generated(
    app: Sphinx, what: str, name: str, value: object, skip: bool, options: object
) -> bool | None:
    """Return True to omit a docstring that a library generates.

    These are "Alias for field number 0" and ``set_fit_request`` of scikit-learn, which refers to
    pages that are not in this book.
    """
    field = type(value).__name__ == "_tuplegetter"
    return True if field or (name.startswith("set_") and name.endswith("_request")) else None


def resolve(target: str, module: str, owner: str) -> Any:
    """Return the object that a docstring of ``module`` or ``owner`` names, or None."""
    files = sorted(file for file in sys.modules if file.startswith("privopt."))
    files.sort(key=lambda file: not file.startswith(f"{module}."))  # same package first
    for start in (f"{module}.{owner}", module, "privopt", "builtins", "", *files):
        parts = ".".join(filter(None, (start, target))).split(".")
        for cut in range(len(parts), 0, -1):
            try:
                value: Any = import_module(".".join(parts[:cut]))
                for name in parts[cut:]:
                    value = getattr(value, name)
            except (ImportError, AttributeError):
                continue
            return value
    return None


def refer(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, content: nodes.TextElement
) -> nodes.Node | None:
    """Resolve a reference to the place where the object is documented.

    A reference to a private object becomes text without a link.
    """
    if node.get("refdomain") != "py":
        return None
    target, objects = node["reftarget"], env.domains.python_domain.objects
    module, owner = node.get("py:module") or "privopt", node.get("py:class") or ""
    value = resolve(target, module, owner)
    head, _, last = target.rpartition(".")
    parent = resolve(head or owner, module, owner) if head or owner else None
    upper = by_identity().get(id(parent))
    for home in (by_identity().get(id(value)), upper and f"{upper}.{last}", upper):
        if value is not None and home in objects:
            place = objects[home]
            here = node["refdoc"]
            return make_refnode(app.builder, here, place.docname, place.node_id, content, home)
    outside = node["reftype"] in ("class", "obj") and not target.startswith("privopt")
    return content if value is not None or outside else None


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("builder-inited", write)
    app.connect("autodoc-process-docstring", read_sections)
    app.connect("autodoc-skip-member", is_generated)
    app.connect("missing-reference", refer)
    return {"parallel_read_safe": True}

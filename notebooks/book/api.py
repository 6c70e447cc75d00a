"""One page a room: every public name of privopt with its docstring."""

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

PRIVOPT = import_module("privopt")
PACKAGE = Path(str(PRIVOPT.__file__)).parent
ROOMS = [name for name in PRIVOPT.__all__ if isinstance(getattr(PRIVOPT, name), ModuleType)]
HOMELESS = ("run_stream", "tuned")  # at the root, and in no room
STYLE = Config(
    napoleon_use_param=False,
    napoleon_use_rtype=False,
    napoleon_custom_sections=["Formal guarantee"],
)


def room(name: str) -> ModuleType:
    """The module of a room."""
    return import_module(f"privopt.{name}")


def public(here: str) -> list[str]:
    """What a room hands out, without the files of the room that bear a public name."""
    return [name for name in room(here).__all__ if not inspect.ismodule(getattr(room(here), name))]


@cache
def homes() -> dict[str, str]:
    """Public name with its room -> where it is documented: the room in whose folder it stands."""
    found = {}
    for here in ROOMS:
        for name in public(here):
            module = getattr(getattr(room(here), name), "__module__", "")
            there = [*str(module).split("."), "", ""][1]
            if there not in ROOMS or name not in public(there):
                there = here
            found[f"privopt.{here}.{name}"] = f"privopt.{there}.{name}"
    return found


@cache
def by_identity() -> dict[int, str]:
    """Where an object is documented."""
    found = {id(getattr(PRIVOPT, name)): f"privopt.{name}" for name in HOMELESS}
    for full, home in homes().items():
        _, here, name = full.split(".")
        found.setdefault(id(getattr(room(here), name)), home)
    return found


@cache
def constants(here: str) -> dict[str, str]:
    """The docstrings below constants of a room."""
    folder, found = PACKAGE / here, {}
    for file in folder.rglob("*.py") if folder.is_dir() else [PACKAGE / f"{here}.py"]:
        for item, text in pairwise(ast.parse(file.read_text(encoding="utf-8")).body):
            if not (isinstance(item, ast.Assign | ast.AnnAssign) and isinstance(text, ast.Expr)):
                continue
            target = item.targets[0] if isinstance(item, ast.Assign) else item.target
            if isinstance(text.value, ast.Constant) and isinstance(text.value.value, str):
                found[ast.unparse(target)] = inspect.cleandoc(text.value.value)
    return found


def entry(full: str) -> str:
    """The directive that documents one public name."""
    _, here, name = full.split(".")
    value = getattr(room(here), name)
    if inspect.isclass(value):
        return f".. autoclass:: {full}\n   :members:\n"
    if inspect.isfunction(value):
        return f".. autofunction:: {full}\n"
    told = constants(here).get(name, "").replace("\n", "\n   ")
    shown = repr(value)
    plain = len(shown) < 60 and "<" not in shown
    option = f"   :value: {shown}\n" if plain else ""
    return f".. py:data:: {full}\n{option}\n   {told}\n"


def table(rows: dict[str, str]) -> str:
    """Names as references, each with its first line."""
    lines = [f"   * - {name}\n     - {told}" for name, told in rows.items()]
    return "\n".join([".. list-table::", "   :widths: 34 66", "", *lines, ""])


def formulas_kept(lines: list[str]) -> list[str]:
    """The same text, in which a paragraph that is indented deeper is a formula, kept as it is."""
    kept: list[str] = []
    above, inside = "", ""  # the last line that is not empty; of a formula, its indent
    for line in lines:
        depth = len(line) - len(line.lstrip())
        margin = len(above) - len(above.lstrip())
        if inside and line.strip() and depth < len(inside):
            inside = ""
        starts = line.strip() and kept and not kept[-1].strip() and not inside
        if starts and above and depth >= margin + 4 and not above.endswith("::"):
            kept += [" " * margin + "::", ""]
            inside = " " * depth
        kept.append(line)
        above = line if line.strip() else above
    return kept


def first_line(value: object) -> str:
    """What a room, a class or a function is, in a line."""
    told = inspect.getdoc(value) if callable(value) or inspect.ismodule(value) else ""
    return (told or "").split("\n")[0]


def page(here: str) -> str:
    """The page of a room, in reStructuredText, which is what its docstrings are written in."""
    title = f"privopt.{here}"
    own, borrowed = [], []
    for name in public(here):
        home = homes()[f"{title}.{name}"]
        (own if home == f"{title}.{name}" else borrowed).append(home)
    also = "Also here: " + ", ".join(f":py:obj:`{each}`" for each in borrowed) + ".\n"
    parts = [title, "=" * len(title), "", f".. py:module:: {title}", ""]
    parts += [*formulas_kept(inspect.cleandoc(room(here).__doc__ or "").splitlines()), ""]
    parts += [also] if borrowed else []
    return "\n".join([*parts, *map(entry, own)])


def index() -> str:
    """The page above the rooms: what stands at the root, and the rooms."""
    at_root = {}
    for name in sorted(set(PRIVOPT.__all__) - {*ROOMS, "__version__"}, key=str.lower):
        value = getattr(PRIVOPT, name)
        home = by_identity().get(id(value), f"privopt.algorithms.{name}")
        told = first_line(value) or constants("algorithms").get(name, "")
        at_root[f":py:obj:`privopt.{name} <{home}>`"] = told
    rooms = {f":py:mod:`privopt.{name}`": first_line(room(name)) for name in ROOMS}
    return "\n".join(
        [
            *("API", "===", "", ".. py:module:: privopt", ""),
            "Every public name, by room; the names that are used most stand at the root too.",
            *("", "At the root", "-----------", "", table(at_root)),
            *("Rooms", "-----", "", table(rooms)),
            *(".. toctree::", "   :hidden:", ""),
            *(f"   {name}" for name in ("root", *ROOMS)),
            "",
        ]
    )


def root() -> str:
    """The page of the functions that stand in no room."""
    functions = (f".. autofunction:: privopt.{name}\n" for name in HOMELESS)
    return "\n".join(["privopt", "=======", "", "What stands in no room.", "", *functions])


def write(app: Sphinx) -> None:
    """Write the pages before Sphinx looks for them; one that is as it was is left alone."""
    folder = Path(app.srcdir) / "api"
    folder.mkdir(exist_ok=True)
    pages = {"index": index(), "root": root(), **{name: page(name) for name in ROOMS}}
    for name, text in pages.items():
        file = folder / f"{name}.rst"
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")


class Docstring(NumpyDocstring):
    """NumPy's sections, with attributes listed like parameters.

    Sphinx reads ``:ivar lower, upper:`` as an attribute ``upper`` of the type ``lower,``, and looks
    for that type in every class.
    """

    def _parse_attributes_section(self, section: str) -> list[str]:
        return self._format_fields("Attributes", self._consume_fields())


def read_sections(
    app: Sphinx, what: str, name: str, value: object, options: object, lines: list[str]
) -> None:
    """NumPy's sections as reStructuredText; a first line with a colon is prose, and no type."""
    kind = what if what in ("class", "function", "method", "module") else "method"
    lines[:] = Docstring(formulas_kept(lines), STYLE, app, kind, name, value, options).lines()


def is_not_ours(
    app: Sphinx, what: str, name: str, value: object, skip: bool, options: object
) -> bool | None:
    """Leave out what a library writes: "Alias for field number 0", scikit-learn's set_fit_request.

    The latter's text refers to pages of scikit-learn, which are not in this book.
    """
    field = type(value).__name__ == "_tuplegetter"
    return True if field or (name.startswith("set_") and name.endswith("_request")) else None


def meant(target: str, module: str, owner: str) -> Any:
    """The object that a docstring means by ``target``, seen from where it stands; None if none."""
    files = sorted(file for file in sys.modules if file.startswith("privopt."))
    files.sort(key=lambda file: not file.startswith(f"{module}."))  # its own room's first
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
    """Lead a reference to the place where the object is documented; of a private one, the name."""
    if node.get("refdomain") != "py":
        return None
    target, known = node["reftarget"], env.domains.python_domain.objects
    module, owner = node.get("py:module") or "privopt", node.get("py:class") or ""
    value = meant(target, module, owner)
    head, _, last = target.rpartition(".")
    above = meant(head or owner, module, owner) if head or owner else None
    upper = by_identity().get(id(above))
    for home in (by_identity().get(id(value)), upper and f"{upper}.{last}", upper):
        if value is not None and home in known:
            place = known[home]
            here = node["refdoc"]
            return make_refnode(app.builder, here, place.docname, place.node_id, content, home)
    outside = node["reftype"] in ("class", "obj") and not target.startswith("privopt")
    return content if value is not None or outside else None


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("builder-inited", write)
    app.connect("autodoc-process-docstring", read_sections)
    app.connect("autodoc-skip-member", is_not_ours)
    app.connect("missing-reference", refer)
    return {"parallel_read_safe": True}

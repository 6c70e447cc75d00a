"""Layers of privopt: allowed imports of each package. Imports go to lower layers and have no cycle.

All imports count: in functions, behind ``TYPE_CHECKING``, relative or absolute. A package that does
not exist yet is empty.
"""

import ast
import importlib
import json
import sys
from collections.abc import Iterable, Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]


class Room(NamedTuple):
    """Layer, packages of privopt below that may be imported, and allowed external packages."""

    floor: int
    rooms: str
    packages: str


HOST = "attr dp_accounting numpy scipy"  # attr: what events are made of
DEVICE = "jax jaxtyping numpy optax scipy"
SHELL = "rich typer"
ENGINES = "dask distributed submitit"
ROOTS = "arguments random release"
CLI = f"{HOST} jax pandas"
PLOTS = "jax matplotlib numpy pandas"
GROUND = f"{ROOTS} spec convex records"
HOST_SIDE = "arguments spec privacy accounting"
NUMBERS = f"{GROUND} privacy theory factorisations"
UPPER = "audit comparison estimators tuning lab/report"
LAB = "lab/plotting lab/evaluation lab/runner"
MIDDLE = f"{NUMBERS} accounting mechanisms core"
LIBRARY = f"{MIDDLE} problems algorithms statistics"

# fmt: off
ROOMS = {
    "privopt":    Room(13, f"{LIBRARY} discrete programs reading {UPPER}", ""),  # the root
    "cli":        Room(
        12, f"{HOST_SIDE} {UPPER} problems programs shipped", f"{SHELL} {ENGINES} {CLI}"
    ),
    "comparison": Room(11, f"{LIBRARY} tuning shipped lab/report {LAB}", f"{PLOTS} pyarrow scipy"),
    "audit":      Room(10, f"{LIBRARY} lab/plotting", "jax matplotlib numpy scipy"),
    "testing":    Room(11, f"{LIBRARY} audit", "jax numpy"),
    "lab/report": Room(10, LAB, "jinja2 markupsafe pandas rich"),
    "lab/plotting": Room(9, "arguments lab/evaluation lab/runner", "PIL matplotlib numpy pandas"),
    "estimators": Room(8, LIBRARY, "jax jaxtyping numpy scipy sklearn"),
    "lab/evaluation": Room(8, "lab/runner", "numpy pandas scipy"),
    "lab/runner":   Room(7, f"{LIBRARY} shipped", f"{DEVICE} filelock matplotlib pandas pyarrow"),
    "algorithms": Room(6, f"{NUMBERS} mechanisms core", f"{DEVICE} {HOST}"),
    "statistics": Room(6, f"{ROOTS} spec records privacy mechanisms", f"{DEVICE} {HOST}"),
    "problems":   Room(6, GROUND, f"{DEVICE} sklearn"),
    "discrete":    Room(6, "arguments spec privacy mechanisms", "dp_accounting numpy opendp"),
    "reading":    Room(7, LIBRARY, DEVICE),
    "tuning":     Room(7, LIBRARY, f"{DEVICE} {HOST}"),
    "accounting": Room(5, "arguments spec privacy", HOST),   # never JAX
    "core":       Room(5, f"{GROUND} bibliography privacy theory", f"{DEVICE} {HOST}"),
    "mechanisms": Room(5, f"{GROUND} privacy factorisations", f"{DEVICE} {HOST}"),
    "theory":     Room(4, "arguments spec", "numpy scipy"),  # never JAX
    "privacy":    Room(4, "arguments spec", HOST),           # never JAX
    "factorisations": Room(4, "arguments", "numpy scipy"),   # never JAX
    "records":    Room(4, "arguments convex", "jax numpy"),
    "convex":     Room(3, f"{ROOTS} programs", DEVICE),
    "spec":       Room(3, "arguments", ""),
    "bibliography": Room(3, "arguments", ""),
    "release":    Room(1, "arguments", "jax numpy"),
    "shipped":    Room(0, "", ""),
    "programs":   Room(1, "arguments", "jax"),
    "random":     Room(1, "arguments", "jax numpy"),
    "arguments":  Room(0, "", ""),                 # the standard library alone
}
# fmt: on


class Import(NamedTuple):
    """One imported name; ``name`` is None for ``import module``."""

    module: str
    name: str | None

    def __str__(self) -> str:
        return self.module if self.name is None else f"{self.module}.{self.name}"


def imports(source: str, module: str = "script", package: bool = False) -> Iterator[Import]:
    """Yield all imports in ``source``; relative ones are resolved against ``module``."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (Import(alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = module.split(".")
                parents = parts[: len(parts) - node.level + package]
                base = ".".join([*parents, base] if base else parents)
            yield from (Import(base, alias.name) for alias in node.names)


def room_of(module: str) -> str:
    """Return the package of a module: ``privopt.privacy.numbers`` is in ``privacy``.

    ``lab`` has four packages; its ``__init__`` is in the uppermost one.
    """
    room, *rest = (*module.split(".")[1:], "privopt")
    if room == "lab":
        return f"lab/{rest[0]}" if f"lab/{rest[0]}" in ROOMS else "lab/report"
    return room


def violations(module: str, source: str, package: bool = False) -> list[str]:
    """Return the imports of ``module`` that its package does not allow."""
    here = room_of(module)
    if here not in ROOMS:
        return [f"{module}: room {here!r} is not in the table"]
    room, found = ROOMS[here], []
    for item in imports(source, module, package):
        top = item.module.split(".")[0]
        if item.name == "*":
            found.append(f"{module}: star import from {item.module}")
        elif top == "privopt":
            there = room_of(str(item) if item.module == "privopt" else item.module)
            if there == here:
                continue
            if there not in ROOMS or there == "privopt":
                found.append(f"{module}: imports {item}, which no room holds")
            elif there not in room.rooms.split():
                found.append(f"{module}: {here} may not import {there} ({item})")
        elif top not in sys.stdlib_module_names and top not in room.packages.split():
            found.append(f"{module}: {here} may not import the package {top}")
    return found


def edges(module: str, source: str, known: Iterable[str], package: bool = False) -> set[str]:
    """Return the modules of ``known`` that ``module`` imports; a name may be a submodule."""
    items = imports(source, module, package)
    return {str(item) if str(item) in known else item.module for item in items} & set(known)


def cycle(graph: dict[str, set[str]]) -> list[str]:
    """Return one cycle of imports, or an empty list."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def exported(source: str) -> list[str] | None:
    """Return the literal ``__all__`` of a module, or None."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    return None


def private_uses(source: str, public: dict[str, list[str]]) -> list[str]:
    """Return the imports of a script that are not in ``public``, a dict module -> ``__all__``."""
    found, bound = [], {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "privopt":
                    bound[alias.asname or "privopt"] = alias.name if alias.asname else "privopt"
                    if alias.name not in public:
                        found.append(f"imports {alias.name}, which is no room")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "privopt":
            for alias in node.names:
                bound[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                if alias.name not in public.get(node.module, ()):
                    found.append(f"imports {alias.name} from {node.module}, which is not public")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute):
            module, _, rest = ast.unparse(node.value).partition(".")
            owner = ".".join(filter(None, (bound.get(module), rest)))
            if module in bound and owner in public and node.attr not in public[owner]:
                found.append(f"uses {owner}.{node.attr}, which is not public")
    return found


# --- the project as it stands ---------------------------------------------------------------------


def read_modules() -> dict[str, tuple[str, bool]]:
    """Return name -> (source, True for a package) of every module of privopt."""
    modules = {}
    for path in sorted((ROOT / "privopt").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if package else parts)
        modules[name] = (path.read_text(encoding="utf-8"), package)
    return modules


def read_script(path: Path) -> str:
    """Return the Python of a script, or of the code cells of a notebook without magics."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return text
    cells = [cell["source"] for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
    lines = "\n".join("".join(cell) for cell in cells).splitlines()
    return "\n".join(line for line in lines if not line.lstrip().startswith(("%", "!")))


MODULES = read_modules()
SCRIPTS = sorted(
    path
    for folder in ("benchmarks", "examples", "experiments", "notebooks")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in (".py", ".ipynb")
)


def test_the_table_runs_downwards():
    for name, room in ROOMS.items():
        for below in room.rooms.split():
            assert ROOMS[below].floor < room.floor, f"{name} -> {below}"
    assert not any(
        {"jax", "optax"} & set(ROOMS[n].packages.split())
        for n in ("privacy", "theory", "accounting")
    )


def test_imports_stay_within_the_table():
    found = [v for name, module in MODULES.items() for v in violations(name, *module)]
    assert found == []


def test_no_import_runs_in_a_circle():
    inner = {name: value for name, value in MODULES.items() if name != "privopt"}
    graph = {name: edges(name, src, inner, package) for name, (src, package) in inner.items()}
    assert not cycle(graph)


def test_public_names_of_rooms_are_listed_and_exist():
    """Check ``__all__`` of packages; private names of a module have an underscore."""
    found = {}
    for module, (source, package) in MODULES.items():
        names, loaded = exported(source), importlib.import_module(module)
        if not package and module.count(".") > 1:
            if names is not None:
                found[module] = "a list of its own beside the room's"
        elif names is None or len(names) > len(set(names)):
            found[module] = "no literal __all__ of distinct names"
        elif missing := [name for name in names if not hasattr(loaded, name)]:
            found[module] = missing
    assert found == {}


def test_scripts_use_public_names_only():
    public = {
        name: exported(source) or [] for name, (source, _) in MODULES.items() if name.count(".") < 2
    }
    assert len(SCRIPTS) > 60
    found = {path.name: private_uses(read_script(path), public) for path in SCRIPTS}
    assert {name: uses for name, uses in found.items() if uses} == {}


# --- the checker itself ---------------------------------------------------------------------------

FORBIDDEN = [
    ("privopt.spec", "import numpy"),
    ("privopt.privacy.gaussian", "def f():\n    from jax import random"),
    ("privopt.privacy.guarantee", "from privopt.accounting import CLT"),
    ("privopt.theory.rates", "if TYPE_CHECKING:\n    import jax"),
    ("privopt.theory.rates", "from ..privacy import Guarantee"),
    ("privopt.convex.ball", "from privopt import Budget"),
    ("privopt.problems.models", "from privopt.algorithms import ALGORITHMS"),
    ("privopt.lab.report", "from privopt.cli import main"),
    ("privopt.lab.report", "from privopt.cellar import wine"),
    ("privopt.lab.runner.run", "from privopt.lab import verdicts"),
    ("privopt.cellar.wine", "import math"),
    ("privopt.mechanisms.noise", "from privopt.privacy import *"),
]

ALLOWED = [
    ("privopt.spec", "from __future__ import annotations\nimport math"),
    ("privopt.privacy.accountants.pure", "from ..interval import Interval\nimport dp_accounting"),
    ("privopt.problems.models", "from privopt.spec import Budget\nfrom privopt import convex"),
    ("privopt.algorithms.dp_gd", "from privopt.core import Plan\nimport optax"),
    ("privopt.cli", "from privopt import lab, privacy\nimport typer"),
]


def test_checker_finds_planted_violations_and_accepts_what_the_table_allows():
    counts = [(each, len(violations(*each))) for each in (*FORBIDDEN, *ALLOWED)]
    assert counts == [(each, 1) for each in FORBIDDEN] + [(each, 0) for each in ALLOWED]


def test_checker_finds_a_circle():
    sources = {
        "privopt.convex": ("from privopt.convex.ball import Ball", True),
        "privopt.convex.ball": ("def f():\n    from privopt.convex.solve import g", False),
        "privopt.convex.solve": ("from . import ball", False),
    }
    graph = {name: edges(name, src, sources, package) for name, (src, package) in sources.items()}
    assert set(cycle(graph)) == {"privopt.convex.ball", "privopt.convex.solve"}
    graph["privopt.convex.solve"] = set()
    assert not cycle(graph)


@pytest.mark.parametrize(
    "source",
    [
        "from privopt import hidden",
        "from privopt.lab import _sweep",
        "from privopt.lab.figures import draw",
        "def f():\n    from privopt.lab import *",
        "import privopt\nprivopt.hidden()",
        "import privopt\nprivopt.lab.figures.draw()",
        "import privopt.lab as room\nroom._sweep",
        "from privopt import lab as room\nroom.figures.draw()",
    ],
)
def test_checker_finds_private_names_in_a_script(source):
    public = {"privopt": ["run", "lab"], "privopt.lab": ["sweep"]}
    good = "import privopt\nfrom privopt.lab import sweep\nprivopt.run().hidden\nprivopt.lab.sweep"
    assert not private_uses(good, public)
    assert len(private_uses(source, public)) == 1

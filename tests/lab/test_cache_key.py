"""The key of a cell changes with its numbers, data, versions and user code, and with no text."""

import ast
import importlib
import linecache
import os
import runpy
import shutil
import subprocess
import sys
from dataclasses import replace

import jax
import pytest

from privopt import problems
from privopt.algorithms import ALGORITHMS
from privopt.lab import Axis, Method, Setting, load, read, run
from privopt.lab.runner import cache_key
from privopt.lab.runner.cache_key import user_code
from privopt.lab.runner.run import _cell_tasks, _part_tasks
from privopt.privacy import calibration


def keys(experiment, seed=0):
    """Return the keys of the measured cells of the first size, by strength."""
    tasks = _cell_tasks(experiment, "quick", seed, lambda event: None)
    return {
        task.facts["strength"]: task.key
        for task in tasks
        if task.facts["n"] == 500 and task.facts["trial"] == "measured"
    }


@pytest.fixture
def demo(demonstration):
    return demonstration.experiment


def test_inputs_of_a_cell_change_its_key(demo):
    changes = (
        {"name": "other"},
        {"algorithms": {"other": ("dp_gd", {"steps": 5})}},
        {"algorithms": {"dp_gd": {"steps": 6}}},
        {"families": ("distance",)},
        {"base": Setting(n=1000, dim=5, epsilon=1.0)},
        {"base": Setting(n=1000, dim=4, epsilon=1.5)},
        {"epsilon_over_mu": 4.0},
        {"relation": "zero_out"},
        {"replicates": {"quick": 4, "full": 5}},
    )
    results = [keys(demo), keys(demo, seed=1), *(keys(replace(demo, **each)) for each in changes)]
    every = [key for result in results for key in result.values()]
    assert len(set(every)) == len(every) >= 5 * 10


def test_titles_checks_axes_and_labels_do_not_change_a_key(demo):
    renamed = replace(demo, title="Another", description="Another.", checks=("bound",))
    wider = replace(renamed, axes=(Axis("n", (250, 500)), Axis("steps", (7,))))
    labelled = replace(wider, algorithms=(Method("dp_gd", "dp_gd", {"steps": 5}),))
    assert keys(labelled) == keys(demo)


def test_a_version_of_the_algorithm_or_of_jax_changes_the_key(demo, registry, monkeypatch):
    before = keys(demo)
    registry["dp_sgd"] = replace(ALGORITHMS["dp_sgd"], version=2)
    registry["dp_gd"] = replace(ALGORITHMS["dp_gd"], cites=(), summary="Another summary.")
    assert keys(demo) == before
    registry["dp_gd"] = replace(ALGORITHMS["dp_gd"], version=2)
    assert not set(keys(demo).values()) & set(before.values())
    registry["dp_gd"] = replace(ALGORITHMS["dp_gd"], version=1)
    assert keys(demo) == before
    monkeypatch.setattr(jax, "__version__", "another")
    assert not set(keys(demo).values()) & set(before.values())


def test_a_version_of_an_algorithm_changes_the_key_of_a_study(registry):
    (analysis,) = load(os.path.join(ROOT, "experiments", "one_shot", "kink.py"))
    before = [task.key for task in _part_tasks(analysis, "quick")]
    registry["dp_gd"] = replace(ALGORITHMS["dp_gd"], version=2)
    assert not {task.key for task in _part_tasks(analysis, "quick")} & set(before)


def test_other_calibrated_noise_changes_the_key(demo, monkeypatch):
    before = keys(demo)
    real = calibration.gaussian_mu
    monkeypatch.setattr(calibration, "gaussian_mu", lambda *given: 0.99 * real(*given))
    cached = calibration.gaussian_noise_multiplier.__wrapped__
    cached.cache_clear()
    try:
        assert not set(keys(demo).values()) & set(before.values())
    finally:
        cached.cache_clear()


ROOT = str(cache_key.ROOT.parent)
KEYS = """
import sys
from privopt.lab import load
from privopt.lab.runner.run import _cell_tasks
(experiment,) = load(sys.argv[1])
print([task.key for task in _cell_tasks(experiment, "quick", 0, lambda event: None)])
"""


def with_other_docstrings(source):
    """Return the same code with another text in each docstring, and with a comment."""
    lines = source.splitlines(keepends=True)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            text = node.body[0]
            if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
                lines[text.lineno - 1] = lines[text.lineno - 1].replace('"""', '"""Again. ', 1)
    comment = "# A remark.\n" if lines and not source.startswith("from __future__") else ""
    return comment + "".join(lines)


@pytest.mark.thorough  # copies the package; remarks of an experiment are tested below
def test_other_docstrings_in_privopt_and_in_the_experiment_change_no_key(tmp_path):
    """Compare with a copy of the package in which all docstrings and comments differ."""
    (tmp_path / "mine.py").write_text(EXPERIMENT)
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "mine.py").write_text(with_other_docstrings(EXPERIMENT))
    package = tmp_path / "privopt"
    ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
    shutil.copytree(cache_key.ROOT, package, ignore=ignored)
    for name in ("algorithms", "core", "mechanisms", "convex", "problems", "privacy", "lab"):
        for path in (package / name).rglob("*.py"):
            path.write_text(with_other_docstrings(path.read_text("utf-8")), "utf-8")
    printed = [
        subprocess.run(
            [sys.executable, "-c", KEYS, str(experiment)],
            env={**os.environ, "PYTHONPATH": root},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for root, experiment in (
            (ROOT, tmp_path / "mine.py"),
            (str(tmp_path), tmp_path / "texts" / "mine.py"),
        )
    ]
    assert printed[0] == printed[1]
    assert len(ast.literal_eval(printed[0])) == 2


# --- user code ------------------------------------------------------------------------------------

EXPERIMENT = '''
"""An experiment."""
from dataclasses import replace
from privopt.algorithms import ALGORITHMS, register
from privopt.lab import Axis, Experiment, Setting

SHRINK = 1.0

def run(static, params, objective, key, execution):
    """Shrink the release."""
    found = ALGORITHMS["dp_gd"].run(static, params, objective, key, execution)
    return found._replace(released=SHRINK * found.released)

def plan(problem_class, budget, *, steps):
    found = ALGORITHMS["dp_gd"].plan(problem_class, budget, steps=steps)
    return replace(found, algorithm=SHRUNK)

SHRUNK = register(replace(ALGORITHMS["dp_gd"], name="shrunk", plan=plan, run=run))
experiment = Experiment(
    name="mine",
    title="An algorithm of one's own",
    description="",
    algorithms={"shrunk": {"steps": 3}, "dp_gd": {"steps": 3}},
    families=("squared_distance",),
    base=Setting(n=1000, dim=4, epsilon=1.0),
    replicates={"quick": 2, "full": 2},
    relation="replace_one",
    delta=1e-6,
)
'''


def test_an_edited_algorithm_is_run_again_and_no_other(tmp_path, registry):
    path = tmp_path / "mine.py"

    def risks(source):
        path.write_text(source)
        result = run(*load(path), profile="quick", seed=0, results=tmp_path / "results")
        rows = read(result.folder).table().to_pylist()
        return result.reused, [r["value"] for r in rows if r["algorithm"] == "shrunk"]

    first = risks(EXPERIMENT)
    again = risks(EXPERIMENT.replace("SHRINK = 1.0", "SHRINK = 1.0  #"))
    assert (first[0], again[0]) == (0, 2)
    assert again[1] == first[1]
    edited = risks(EXPERIMENT.replace("SHRINK = 1.0", "SHRINK = 0.5"))
    assert edited[0] == 1
    assert edited[1] != first[1]


# A cell of a notebook that uses a value, a class and functions of an earlier cell.
EARLIER = """
from dataclasses import dataclass
import numpy as np

SHRINK, ARRAY = 0.875, np.arange(4) + 77

class Base:
    slope = "base"

class Loss(Base):
    __slots__ = ("slot",)
    def __init__(self):
        self.slot = "slot"
    @property
    def value(self):
        return "property"

@dataclass(frozen=True)
class Public:
    number: float = float("1.25")

def helper(x):
    return x + 31

def outer(c):
    def inner(x, *, d="default"):
        return x + c if x else d
    return inner

LOSS, PUBLIC, closure = Loss(), Public(), outer("closure")
"""
LATER = """
import functools
import jax

partial = functools.partial(helper, "partial")

@jax.custom_vjp
def rule(x):
    return x

rule.defvjp(lambda x: (x, None), lambda residual, g: (g * 1234,))

@functools.cache
@jax.jit
def f(x):
    g = lambda y: y + 4096
    return g(x), helper(x), closure(x), partial, rule, LOSS, PUBLIC, ARRAY, SHRINK
"""
EDITS = [
    ("0.875", "0.25"),
    ("+ 77", "+ 78"),
    ('"base"', '"basis"'),
    ('"slot"\n', '"slit"\n'),
    ('"property"', '"quality"'),
    ('"1.25"', '"1.5"'),
    ("x + 31", "x - 31"),
    ('"closure"', '"opening"'),
    ('"default"', '"fault"'),
    ('"partial"', '"whole"'),
    ("1234", "1235"),
    ("4096", "4097"),
]


def of_notebook(*cells):
    """Return the digest of ``f`` after running cells as a notebook does."""
    namespace = {"__name__": "__main__"}
    for number, source in enumerate(cells):
        name = f"<ipython-input-{number}-{abs(hash(source))}>"
        # IPython registers the source of its cells in the same way.
        linecache.cache[name] = len(source), None, source.splitlines(keepends=True), name
        exec(compile(source, name, "exec"), namespace)
    return user_code(namespace["f"])


@pytest.fixture(scope="module")
def whole():
    return of_notebook(EARLIER, LATER)


@pytest.mark.parametrize(("old", "new"), EDITS, ids=[old.strip() for old, _ in EDITS])
def test_edits_of_a_notebook_are_seen(whole, old, new):
    assert (EARLIER + LATER).count(old) == 1
    assert of_notebook(EARLIER.replace(old, new), LATER.replace(old, new)) != whole


def test_comments_layout_and_unused_cells_do_not_count(whole):
    spread = LATER.replace("\n@jax", "\n\n# A remark.\n@jax")
    assert of_notebook(EARLIER, "UNUSED = 1\n", spread) == whole


def test_another_function_of_privopt_changes_the_digest():
    """An analysis may hold a function in a variable that is defined elsewhere."""
    assert user_code(problems.logistic) == user_code(problems.logistic)
    assert user_code(problems.logistic) != user_code(problems.hinge)


def test_code_without_source_counts_by_its_bytecode():
    def function(source):
        namespace = {"__name__": "__main__"}
        exec(source, namespace)
        return namespace["f"]

    source = "f = lambda x: x + 1"
    assert user_code(function(source)) == user_code(function(source))
    assert user_code(function(source)) != user_code(function(source.replace("1", "2")))


def test_modules_of_the_user_are_followed(tmp_path, monkeypatch):
    (tmp_path / "outer_module.py").write_text("import inner_module\nstep = inner_module.step\n")
    inner = "def step(x):\n    return x + 1 if x in {'a', 'b', 'c'} else 0\n"
    (tmp_path / "inner_module.py").write_text(inner)
    monkeypatch.syspath_prepend(tmp_path)

    def digest():
        for name in ("outer_module", "inner_module"):
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        return user_code(importlib.import_module("outer_module").step)

    first = digest()
    assert digest() == first
    (tmp_path / "inner_module.py").write_text(inner.replace("x + 1", "x + 2222"))
    assert digest() != first


@pytest.mark.thorough  # as two processes in test_sharing.py
def test_another_process_has_the_same_digest(tmp_path):
    """The digest does not depend on the order of sets or on addresses, so that work is resumed."""
    path = tmp_path / "mine.py"
    path.write_text(EARLIER + "NAMES = {'a', 'b', 'c'}\n" + LATER + "    NAMES\n")
    code = f"""
import runpy
from privopt.lab.runner.cache_key import user_code
print(user_code(runpy.run_path({str(path)!r})["f"]))
"""
    other = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True
    )
    assert other.stdout == f"{user_code(runpy.run_path(str(path))['f'])}\n"


def test_a_function_without_a_module_has_a_digest():
    namespace = {"__name__": None}
    exec("def part(profile):\n    return 1", namespace)
    one = user_code(namespace["part"])
    exec("def part(profile):\n    return 2", namespace)
    assert user_code(namespace["part"]) != one

"""The code of users is part of what determines a cell; wherever it stands, an edit is noticed."""

import importlib
import subprocess
import sys

import pytest

from privopt import algorithms
from privopt.algorithms import ALGORITHMS
from privopt.lab import load, read, run
from privopt.lab.make.cache_key import reached
from privopt.problems import FAMILIES

EXPERIMENT = """
from dataclasses import replace
from privopt.algorithms import ALGORITHMS, register
from privopt.lab import Axis, Experiment, Setting

SHRINK = 1.0

def run(static, params, objective, key, execution):
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
"""


@pytest.fixture
def registry():
    """Algorithms registered here are gone afterwards."""
    before = dict(algorithms._REGISTERED)
    yield
    algorithms._REGISTERED.clear()
    algorithms._REGISTERED.update(before)


def test_an_edited_algorithm_is_run_again_and_no_other(tmp_path, registry):
    path = tmp_path / "mine.py"

    def risks(source):
        path.write_text(source)
        result = run(*load(path), profile="quick", seed=0, results=tmp_path / "results")
        rows = read(result.folder).table().to_pylist()
        return result.reused, [r["value"] for r in rows if r["algorithm"] == "shrunk"]

    first, again = risks(EXPERIMENT), risks(EXPERIMENT.replace("SHRINK = 1.0", "SHRINK = 1.0  #"))
    assert (first[0], again[0]) == (0, 2)
    assert again[1] == first[1]
    edited = risks(EXPERIMENT.replace("SHRINK = 1.0", "SHRINK = 0.5"))
    assert edited[0] == 1
    assert edited[1] != first[1]


SOURCE = """
import enum, functools, typing
import jax, jax.numpy as jnp, numpy as np, optax
from dataclasses import dataclass
from privopt.convex import Update

class Kind(enum.Enum):
    A = "kind"

class Base:
    slope = "base"

class Loss(Base):
    __slots__ = ("slot",)
    def __init__(self):
        self.slot = "slot"
    @property
    def value(self):
        return "property"
    @classmethod
    def made(cls):
        return "classmethod"

@dataclass(frozen=True)
class Public:
    number: float = float("1.25")

class Pair(typing.NamedTuple):
    left: str = "named tuple"

@jax.custom_vjp
def rule(x):
    return x

def backward(residual, g):
    return (g * 1234,)

rule.defvjp(lambda x: (x, None), backward)

LOSS, PUBLIC, PAIR, KIND = Loss(), Public(), Pair(), Kind.A
ARRAY, TABLE, KEY = np.arange(4) + 77, {"step": [0.875]}, jax.random.key(99)
UPDATE = Update.of(optax.sgd, momentum=0.625)

def helper(x):
    return x + 31

def outer(c):
    def inner(x, *, d="default"):
        return x + c if x in {"set", "b"} else d
    return inner

closure = outer("closure")
twice = functools.partial(helper, "partial")

@functools.cache
@jax.jit
def f(x):
    g = lambda y: y + 4096
    return (g(x), helper(x), closure(x), twice, rule, LOSS, PUBLIC, PAIR, KIND, ARRAY, TABLE,
            KEY, UPDATE)
"""

EDITS = [
    ('"kind"', '"sort"'),
    ('"base"', '"basis"'),
    ('"slot"\n', '"slit"\n'),
    ('"property"', '"quality"'),
    ('"classmethod"', '"method"'),
    ('"1.25"', '"1.5"'),
    ('"named tuple"', '"tuple"'),
    ("1234", "1235"),
    ("+ 77", "+ 78"),
    ("0.875", "0.25"),
    ("99", "98"),
    ("0.625", "0.5"),
    ("x + 31", "x - 31"),
    ('"closure"', '"opening"'),
    ('"default"', '"fault"'),
    ('"set"', '"sets"'),
    ('"partial"', '"whole"'),
    ("4096", "4097"),
]


def of(source, **others):
    namespace = {"__name__": "__main__", **others}  # as a cell of a notebook
    exec(compile(source, "<cell>", "exec"), namespace)
    return reached(namespace["f"]).code


@pytest.fixture(scope="module")
def whole():
    return of(SOURCE)


@pytest.mark.parametrize(("old", "new"), EDITS, ids=[old.strip() for old, _ in EDITS])
def test_every_edit_is_noticed(whole, old, new):
    assert SOURCE.count(old) == 1
    assert of(SOURCE.replace(old, new)) != whole


def test_layout_comments_and_what_is_not_reached_do_not_count(whole):
    assert of(SOURCE) == whole
    spread = SOURCE.replace("\ndef ", "\n\n# A remark.\ndef ") + "\nUNUSED = 1\n"
    assert of(spread) == whole
    elsewhere = SOURCE.replace(
        "g = lambda y: y + 4096", "g = lambda y: y + 4096 if __file__ else 0"
    )
    assert of(elsewhere, __file__="here") == of(elsewhere, __file__="there") != whole


def test_modules_of_the_user_are_followed(tmp_path, monkeypatch):
    (tmp_path / "outer_module.py").write_text("import inner_module\nstep = inner_module.step\n")
    inner = "def step(x):\n    return x + 1 if x in {'a', 'b', 'c'} else 0\n"
    (tmp_path / "inner_module.py").write_text(inner)
    monkeypatch.syspath_prepend(tmp_path)

    def found():
        for name in ("outer_module", "inner_module"):
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        return reached(importlib.import_module("outer_module").step).code

    first = found()
    assert found() == first
    (tmp_path / "inner_module.py").write_text(inner.replace("x + 1", "x + 2222"))
    assert found() != first


def test_another_process_tells_the_same(whole):
    """Whatever the order of sets and the addresses of objects: else nothing would be resumed."""
    code = f"""
import sys
from privopt.lab.make.cache_key import reached
namespace = {{"__name__": "__main__"}}
exec(compile({SOURCE!r}, "<cell>", "exec"), namespace)
print(reached(namespace["f"]).code)
"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.strip() == whole


def test_privopts_own_is_told_by_name():
    everything = reached(*ALGORITHMS.values(), *FAMILIES.values()).code
    assert everything == reached(*ALGORITHMS.values(), *FAMILIES.values()).code
    assert reached(ALGORITHMS["dp_gd"]).code != reached(ALGORITHMS["dp_sgd"]).code

"""A cell's key: all that determines its numbers, and nothing else."""

import ast
import functools
import shutil
from dataclasses import replace

import pytest

from privopt.lab import Axis, Method, Setting
from privopt.lab.make import fingerprint
from privopt.lab.make.fingerprint import HOST, closure
from privopt.lab.make.run import _cells
from privopt.privacy import calibration

PRIVOPT = fingerprint.ROOT
DP_GD = frozenset({"privopt.algorithms.dp_gd"})


def keys(experiment, seed=0):
    """Of the cells at the first size."""
    pieces = _cells(experiment, "quick", seed, lambda event: None)
    facts = [(piece.facts, piece.key) for piece in pieces]
    return {
        told["strength"]: key
        for told, key in facts
        if told["n"] == 500 and told["trial"] == "measured"
    }


@pytest.fixture
def demo(demonstration):
    return demonstration.experiment


def test_everything_that_changes_a_cell_changes_its_key(demo):
    changed = (
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
    found = [keys(demo), keys(demo, seed=1), *(keys(replace(demo, **each)) for each in changed)]
    every = [key for each in found for key in each.values()]
    assert len(set(every)) == len(every) >= 5 * 10


def test_what_changes_no_number_changes_no_key(demo):
    told = replace(demo, title="Another", description="Another.", checks=("bound",))
    wider = replace(told, axes=(Axis("n", (250, 500)), Axis("steps", (7,))))
    labelled = replace(wider, algorithms=(Method("dp_gd", "dp_gd", {"steps": 5}),))
    assert keys(labelled) == keys(demo)


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """A copy of privopt's source to be edited."""
    root = tmp_path_factory.mktemp("copy") / "privopt"
    shutil.copytree(PRIVOPT, root, ignore=shutil.ignore_patterns("__pycache__"))
    return root


@functools.cache
def untouched(root, modules, without):
    return closure(modules, without, root)


def after(root, edited, edit, modules=DP_GD, without=frozenset(HOST)):
    """Whether the closure changes when files are edited."""
    paths = [root.joinpath(*each.split(".")).with_suffix(".py") for each in edited.split()]
    whole = {path: path.read_text(encoding="utf-8") for path in paths}
    before = untouched(root, modules, without)
    caches = closure, fingerprint._read, fingerprint._definer
    try:
        for path, text in whole.items():
            path.write_text(edit(text), encoding="utf-8")
        for cached in caches:
            cached.cache_clear()
        return closure(modules, without, root) != before
    finally:
        for path, text in whole.items():
            path.write_text(text, encoding="utf-8")
        for cached in caches:
            cached.cache_clear()


def retold(source):
    """Other docstrings and comments, the same code."""
    tree = ast.parse(source)
    lines = source.splitlines(keepends=True)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            text = node.body[0]
            if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
                lines[text.lineno - 1] = lines[text.lineno - 1].replace('"""', '"""Again. ', 1)
    return "# A remark.\n" + "".join(lines)


def with_code(source):
    return source + "\nANOTHER = 1\n"


def test_docstrings_and_comments_do_not_count(copy):
    source = (copy / "algorithms" / "dp_gd.py").read_text(encoding="utf-8")
    assert ast.dump(ast.parse(retold(source))) != ast.dump(ast.parse(source))
    assert not after(copy, "algorithms.dp_gd", retold)
    assert after(copy, "algorithms.dp_gd", with_code)


def test_code_that_an_algorithm_reaches_counts_and_no_other(copy):
    assert after(copy, "core.running", with_code, frozenset({"privopt.lab.make.bench"}))
    others = "algorithms.output_perturbation lab.plotting.plots cli.console"
    assert not after(copy, others, with_code)


def test_host_rooms_count_where_no_plan_stands_between(copy):
    """A study may compute anything: of its part, the accountants are code like any other."""
    part = frozenset({"privopt.privacy.gaussian"})
    assert not after(copy, "privacy.gaussian", with_code)
    assert after(copy, "privacy.gaussian", with_code, part, frozenset())
    assert not after(copy, "privacy.gaussian", retold, part, frozenset())
    assert after(copy, "privacy.gaussian", with_code, frozenset({"privopt"}), frozenset())


def test_a_docstring_in_an_accountant_changes_no_key_and_a_number_changes_all(
    demo, copy, monkeypatch
):
    """The accountant calibrates the noise, whose scale is a number of the plan."""
    before, path = keys(demo), copy / "privacy" / "calibration.py"
    path.write_text(retold(path.read_text(encoding="utf-8")), encoding="utf-8")
    monkeypatch.setattr(fingerprint, "ROOT", copy)
    assert keys(demo) == before
    real = calibration.gaussian_mu
    monkeypatch.setattr(calibration, "gaussian_mu", lambda *given: 0.99 * real(*given))
    assert not set(keys(demo).values()) & set(before.values())

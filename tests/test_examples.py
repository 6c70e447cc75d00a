"""Examples in docstrings: doctest executes those of every module."""

import doctest
import importlib
import re
import types
from pathlib import Path

import pytest
from selection import few

ROOT = Path(__file__).parents[1]
EXAMPLE = re.compile(r"^ *>>> ", re.MULTILINE)
EXAMPLES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): count
    for path in sorted((ROOT / "privopt").rglob("*.py"))
    if (count := len(EXAMPLE.findall(path.read_text(encoding="utf-8"))))
}


# These run plans of all algorithms, or an optimisation, for seconds each.
COSTLY = {
    f"privopt.{name}"
    for name in (
        *("testing", "comparison.result", "comparison.experiment", "factorisations.buffers"),
        *("reading", "audit.distinguishing", "core.running", "statistics.certified_prediction"),
        *("statistics.queries", "statistics.local_sensitivity", "convex.basis_pursuit"),
        *("estimators.classifiers", "estimators.regressors", "audit.replay", "convex.log_concave"),
        *("comparison.ranking", "convex.solver", "core.stepping", "mechanisms.batches.poisson"),
    )
}


def executed(module):
    """Return the number of examples that doctest runs, and its output for failures."""
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    tests = doctest.DocTestFinder(exclude_empty=True).find(module)
    printed: list[str] = []
    for test in tests:
        runner.run(test, out=printed.append)
    return sum(len(test.examples) for test in tests), "".join(printed)


@pytest.mark.parametrize("name", few(EXAMPLES, EXAMPLES.keys() - COSTLY))
def test_examples_are_true(name):
    """Check that doctest runs all examples of the file, which may not follow a constant."""
    count, printed = executed(importlib.import_module(name))
    assert not printed, printed
    assert count == EXAMPLES[name]


def test_a_false_example_is_found():
    count, printed = executed(types.ModuleType("false", ">>> 1 + 1\n3\n"))
    assert count == 1
    assert "Expected:\n    3\nGot:\n    2" in printed

"""Validity of the table of mutants: each applies once, and its test exists."""

import importlib.util
from pathlib import Path

TESTS = Path(__file__).parent


def test_every_mutant_applies_and_has_its_test():
    spec = importlib.util.spec_from_file_location("mutants", TESTS / "mutants" / "run.py")
    run = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(run)
    mutants = [run.Mutant.of(line) for line in run.lines()]
    assert len(mutants) > 100
    assert len(set(mutants)) == len(mutants)

    def stray(mutant):
        file, _, name = mutant.test.partition("::")
        source = (run.ROOT / "privopt" / mutant.file).read_text(encoding="utf-8")
        tests = (TESTS / file).read_text(encoding="utf-8") if (TESTS / file).exists() else ""
        there = f"def {name}(" in tests if name else tests
        return not there or mutant.planted(source) in (None, source)

    assert list(filter(stray, mutants)) == []

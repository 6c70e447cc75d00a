"""The table of planted lies stands: each applies once, and names a test that is there."""

import importlib.util
from pathlib import Path

TESTS = Path(__file__).parent


def test_every_mutant_applies_and_has_its_test():
    spec = importlib.util.spec_from_file_location("mutants", TESTS / "mutants" / "run.py")
    run = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(run)
    mutants = [run.Mutant.of(line) for line in run.lines()]
    assert len(mutants) > 35
    strays = [
        each
        for each in mutants
        if not (TESTS / each.test.partition("::")[0]).exists()
        or each.planted((run.ROOT / "privopt" / each.file).read_text(encoding="utf-8")) is None
    ]
    assert strays == []

"""List of skipped tests at the end of a run."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from skips import summary

TESTS = Path(__file__).parent


def report(name, reason):
    return SimpleNamespace(nodeid=name, longrepr=("path", 1, f"Skipped: {reason}"))


def test_every_group_is_named_with_its_reason_and_number():
    assert summary([]) == ""
    reports = [report(f"tests/lab/test_browser.py::test_{k}[a::b]", "no Chromium") for k in "abc"]
    reports += [report("tests/test_wheel.py", "no hatchling"), report("tests/test_wheel.py", "x")]
    assert summary(reports) == (
        "Skipped: browser (no Chromium) 3; wheel (no hatchling) 1; wheel (x) 1"
    )


@pytest.mark.thorough  # starts workers; its text is tested above
def test_a_run_of_several_workers_ends_with_that_line():
    """Run this file, which has a skipped test."""
    without = {**os.environ, "PRIVOPT_BROWSER": "", "PATH": ""}
    tests = f"{TESTS / 'lab' / 'test_browser.py'}::test_a_column_sorts_by_its_numbers"
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-n", "1", tests]
    done = subprocess.run(command, env=without, capture_output=True, text=True, cwd=TESTS.parent)
    line = "Skipped: browser (no Chromium on PATH or PRIVOPT_BROWSER) 1"
    assert line in done.stdout.splitlines(), done.stdout + done.stderr

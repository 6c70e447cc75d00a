"""Shapes of public arrays hold in the programs of all algorithms."""

import re
import subprocess
import sys
from pathlib import Path

import pytest


def python(*arguments):
    """Return the output of a new interpreter."""
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.thorough  # of annotations, in a process with beartype
def test_declared_shapes_hold():
    """See ``shapes.py``, which also plants a wrong shape."""
    output = python(Path(__file__).with_name("shapes.py"))
    assert int(re.fullmatch(r"(\d+) functions with checked shapes\n", output)[1]) > 200

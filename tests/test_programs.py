"""Persistent cache of compiled programs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from privopt.programs import programs_folder

RUN = """
import sys
import jax
import numpy as np
import privopt

hits = []
jax.monitoring.register_event_listener(lambda name, **_: hits.append(name))
folder = privopt.keep_programs(sys.argv[1] or None)
facts = privopt.ProblemClass(n=20, dim=2, lipschitz=1.0, radius=1.0, smoothness=0.25)
problem = privopt.problems.logistic(np.eye(20, 2) * 0.9, np.ones(20), problem_class=facts)
budget = privopt.Budget(epsilon=1.0, delta=1e-6, relation="replace_one")
privopt.run(privopt.dp_gd(facts, budget, steps=3), problem, jax.random.key(0))
print(folder, hits.count("/jax/compilation_cache/cache_hits"))
"""


def run(argument, **environment):
    result = subprocess.run(
        [sys.executable, "-c", RUN, argument],
        capture_output=True, text=True, check=True, env={**os.environ, **environment},
    )  # fmt: skip
    path, hits = result.stdout.split()
    return Path(path), int(hits)


@pytest.mark.thorough  # as the command, in test_cli.py
def test_a_second_process_reads_the_programs_of_the_first(tmp_path):
    """Name the folder by an argument in the first, and by the environment in the second."""
    programs = tmp_path / "programs"
    assert run(str(programs))[0] == programs
    assert any(programs.iterdir())
    folder, hits = run("", JAX_COMPILATION_CACHE_DIR=str(programs))
    assert folder == programs
    assert hits > 0


def test_the_default_folder_is_in_the_cache_of_the_user(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert programs_folder().parent == tmp_path / "privopt"

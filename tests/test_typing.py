"""User code passes ``mypy --strict``: the blocks of README and guide, and a long example."""

import re
import subprocess
import sys

import pytest
from pages import ROOT, blocks

pytestmark = pytest.mark.thorough  # mypy takes long; the code of the pages runs in test_pages.py

PAGES = (
    "README.md",
    "docs/guide/first_run.md",
    "docs/guide/own_data.md",
    "docs/guide/accounting.md",
)

USER = """
import jax
import numpy as np
import privopt
from privopt import lab, privacy

budgets = [
    privopt.Budget(epsilon=1.0, delta=0.0, relation="replace_one"),
    privopt.Budget(epsilon=1.0, delta=1e-6, relation="add_or_remove_one"),
    privopt.Budget(epsilon=1.0, delta=1e-6, relation=privopt.Relation.ZERO_OUT),
]
relation: privopt.Relation = budgets[0].relation
facts = privopt.ProblemClass(n=100, dim=2, lipschitz=1.0, radius=2.0, smoothness=0.25)
plan: privopt.Plan = privopt.dp_gd(facts, budgets[1], steps=10)
spent: privopt.Interval = plan.guarantee.epsilon(1e-6)
lower, upper = spent
problem = privopt.problems.logistic(np.zeros((100, 2)), np.ones(100), problem_class=facts)
one: privopt.Run = privopt.run(plan, problem, jax.random.key(0))
many = privopt.run_many([plan], problem, jax.random.split(jax.random.key(0), 3))
noise: float = privacy.gaussian_noise_multiplier(budgets[1])
experiment = lab.Experiment(
    name="mine",
    title="Mine",
    description="My own.",
    algorithms={"dp_gd": {"steps": 5}},
    families=("linear",),
    base=lab.Setting(n=100, dim=2, epsilon=1.0),
    axes=(lab.Axis("n", (100, 200)),),
    relation="replace_one",
    delta=1e-6,
    replicates={"quick": 3, "full": 3},
)
"""
MISTAKES = {
    'privopt.Budget(epsilon=1.0, delta=0.0, relation="replace")': "arg-type",
    "privopt.Budget(epsilon=1.0, delta=0.0)": "call-arg",
    'privopt.ProblemClass(n=100, dim=2, lipschitz="1", radius=2.0)': "arg-type",
    "privopt.run(plan, problem)": "call-arg",
    "privopt.run_many(plan, problem, jax.random.key(0))": "arg-type",
}


@pytest.fixture(scope="module")
def complaints(tmp_path_factory):
    """Return line and kind of each complaint by file, from one call of mypy."""
    folder = tmp_path_factory.mktemp("user")
    texts = ("".join(block.code for block in blocks(page)) for page in PAGES)
    files = {f"page_{i}.py": text for i, text in enumerate(texts)}
    files["user.py"] = USER
    files["mistakes.py"] = USER + "\n".join(MISTAKES)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--show-error-codes", *(folder / name for name in files)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    errors = re.findall(r"(\w+\.py):(\d+): error: (.*?)\s*\[([a-z-]+)\]", done.stdout)
    assert done.returncode == bool(errors), done.stdout + done.stderr
    return {name: [rest for file, *rest in errors if file == name] for name in files}


def test_the_pages(complaints):
    assert {page: complaints[f"page_{i}.py"] for i, page in enumerate(PAGES)} == {
        page: [] for page in PAGES
    }


def test_a_users_file(complaints):
    assert complaints["user.py"] == []


def test_mistakes_are_found(complaints):
    first = USER.count("\n") + 1
    kinds = {int(line): kind for line, _, kind in complaints["mistakes.py"]}
    assert kinds == dict(enumerate(MISTAKES.values(), start=first))

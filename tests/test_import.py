"""Package root: loads on first use, lists its names, and works without JAX."""

import re
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

import privopt

ROOT = Path(__file__).parents[1]
WITHOUT = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {packages}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
"""
WITHOUT_JAX = WITHOUT.format(packages=("jax", "jaxlib", "optax", "flax"))
EXTRAS = ("flax", "matplotlib", "pyarrow", "rich", "sklearn", "typer")
WITHOUT_EXTRAS = WITHOUT.format(packages=(*EXTRAS, "beartype"))


def python(code: str) -> str:
    """Return the output of ``code`` in a new interpreter with warnings as errors."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_host_side_needs_no_jax():
    printed = python(
        WITHOUT_JAX
        + """
import privopt, privopt.spec, privopt.privacy, privopt.accounting, privopt.theory
budget = privopt.Budget(epsilon=1.0, delta=1e-6, relation="replace_one")
print(budget.relation, privopt.Interval(0.0, 1.0).contains(0.5))
try:
    privopt.run
except ModuleNotFoundError as error:
    print(error.name)
"""
    )
    assert printed == "replace_one True\njax"


def test_a_private_run_needs_no_extra_and_the_lab_names_its_own():
    printed = python(
        WITHOUT_EXTRAS
        + """
import jax, privopt
facts = privopt.ProblemClass(n=10, dim=2, lipschitz=1.0, radius=2.0, smoothness=0.25)
budget = privopt.Budget(epsilon=1.0, delta=1e-6, relation="replace_one")
plan = privopt.dp_gd(facts, budget, steps=2)
features = jax.numpy.ones((10, 2)) / 2
problem = privopt.problems.logistic(features, jax.numpy.ones(10), problem_class=facts)
print(privopt.run(plan, problem, jax.random.key(0)).released.shape)
try:
    privopt.lab
except ModuleNotFoundError as error:
    print(error)
"""
    )
    assert printed.startswith("(2,)\n")
    assert printed.endswith("it comes with the extra lab: pip install 'privopt[lab]'")


def test_the_command_names_its_extra():
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_EXTRAS + "from privopt.cli import main\nmain()"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.endswith("the command comes with the extra lab: 'privopt[lab]'\n")


def test_what_an_installation_brings_by_itself():
    """Check the extras; flax has 66 MB that no module of the package uses."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = {re.split(r"[^\w-]", each)[0] for each in project["dependencies"]}
    assert needed == {
        *("attrs", "dp-accounting", "jax", "jaxlib", "jaxtyping", "numpy", "optax", "scipy")
    }


def test_root_loads_nothing_heavy():
    heavy = "{'jax', 'numpy', 'scipy', 'matplotlib', 'dp_accounting', 'sklearn'}"
    assert python(f"import sys, privopt; print({heavy} & set(sys.modules))") == "set()"


def test_every_public_name_resolves():
    for name in privopt.__all__:
        assert getattr(privopt, name) is getattr(privopt, name)
    assert set(privopt.__all__) <= set(dir(privopt))
    folder = Path(privopt.__file__).parent
    rooms = {path.parent.name for path in folder.glob("*/__init__.py")} - {"cli"}
    assert rooms <= set(privopt.__all__)


def test_a_name_is_the_rooms_own():
    assert privopt.Budget is privopt.spec.Budget
    assert privopt.run is privopt.core.run
    assert privopt.ALGORITHMS is privopt.algorithms.ALGORITHMS


def test_unknown_attribute_is_refused():
    with pytest.raises(AttributeError, match="module 'privopt' has no attribute 'dp_gdd'"):
        _ = privopt.dp_gdd


def test_version_has_a_single_source():
    assert privopt.__version__ == version("privopt")

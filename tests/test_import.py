"""The package root: lazy, honest about its names, and usable where JAX is not installed."""

import subprocess
import sys
from importlib.metadata import version

import pytest

import privopt

WITHOUT_JAX = """
import sys

class NoJax:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("jax", "jaxlib", "optax", "flax"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, NoJax())
"""


def python(code: str) -> str:
    """What ``code`` prints in a fresh interpreter whose warnings are errors."""
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
import privopt, privopt.spec, privopt.privacy, privopt.theory
budget = privopt.Budget(epsilon=1.0, delta=1e-6, relation="replace_one")
print(budget.relation, privopt.Interval(0.0, 1.0).contains(0.5))
"""
    )
    assert printed == "replace_one True"


def test_the_block_on_jax_blocks():
    printed = python(
        WITHOUT_JAX
        + """
import privopt
try:
    privopt.run
except ModuleNotFoundError as error:
    print(error.name)
"""
    )
    assert printed == "jax"


def test_root_loads_nothing_heavy():
    heavy = "{'jax', 'numpy', 'scipy', 'matplotlib', 'dp_accounting', 'sklearn'}"
    assert python(f"import sys, privopt; print({heavy} & set(sys.modules))") == "set()"


def test_every_public_name_resolves():
    for name in privopt.__all__:
        assert getattr(privopt, name) is getattr(privopt, name)
    assert set(privopt.__all__) <= set(dir(privopt))


def test_a_name_is_the_rooms_own():
    assert privopt.Budget is privopt.spec.Budget
    assert privopt.run is privopt.core.run
    assert privopt.ALGORITHMS is privopt.algorithms.ALGORITHMS


def test_unknown_attribute_is_refused():
    with pytest.raises(AttributeError, match="module 'privopt' has no attribute 'dp_gdd'"):
        _ = privopt.dp_gdd


def test_version_has_a_single_source():
    assert privopt.__version__ == version("privopt")

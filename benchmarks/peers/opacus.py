"""The PRV accountant that opacus ships, at its default errors.

It is NumPy alone, but the package around it imports PyTorch, and its base class an optimiser for
a type: both are left out here, and its own files run unchanged.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from types import ModuleType

EPSILON_ERROR = 0.01  # absolute, on either side; its default


def _accountant() -> type:
    package = ModuleType("opacus")
    package.__path__ = list(find_spec("opacus").submodule_search_locations)
    optimizers = ModuleType("opacus.optimizers")
    optimizers.DPOptimizer = object
    sys.modules |= {"opacus": package, "opacus.optimizers": optimizers}
    from opacus.accountants.prv import PRVAccountant

    return PRVAccountant


PRVAccountant = _accountant()


def epsilon(noise: float, rate: float, steps: int, delta: float) -> float:
    """An upper bound, ``EPSILON_ERROR`` above its estimate."""
    accountant = PRVAccountant()
    accountant.history = [(noise, rate, steps)]  # what `step`, called that often, leaves
    return float(accountant.get_epsilon(delta))

"""PRV accountant of opacus with its default errors.

The accountant uses NumPy only, but the package imports PyTorch, and the base class imports an
optimiser as a type. Both imports are replaced here; the files of the accountant are unchanged.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from types import ModuleType

EPSILON_ERROR = 0.01  # absolute error on each side; the default


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
    """Return an upper bound, ``EPSILON_ERROR`` above the estimate."""
    accountant = PRVAccountant()
    accountant.history = [(noise, rate, steps)]  # state after as many calls of `step`
    return float(accountant.get_epsilon(delta))

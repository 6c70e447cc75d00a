"""The L-BFGS of jaxopt at its defaults, but for the tolerance."""

from __future__ import annotations

from collections.abc import Callable

import jaxopt
from jax import Array


def minimise(value: Callable[[Array], Array], start: Array, tolerance: float, steps: int) -> Array:
    """Until the gradient's norm is ``tolerance``."""
    return jaxopt.LBFGS(value, tol=tolerance, maxiter=steps).run(start).params

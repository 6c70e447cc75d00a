"""L-BFGS of jaxopt with default settings except for the tolerance."""

from __future__ import annotations

from collections.abc import Callable

import jaxopt
from jax import Array


def minimise(value: Callable[[Array], Array], start: Array, tolerance: float, steps: int) -> Array:
    """Minimise until the norm of the gradient is ``tolerance``."""
    return jaxopt.LBFGS(value, tol=tolerance, maxiter=steps).run(start).params

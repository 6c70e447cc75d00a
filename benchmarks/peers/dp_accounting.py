"""Privacy-loss distributions of dp-accounting, with its default mesh 1e-4 and its search."""

from __future__ import annotations

import dp_accounting as dp
from dp_accounting.pld import PLDAccountant

MESH = 1e-4  # value_discretization_interval, its default


def event(noise: float, rate: float, steps: int) -> dp.DpEvent:
    """Return a new object for every call, so that no cached value is used."""
    return dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(noise)), steps)


def epsilon(noise: float, rate: float, steps: int, delta: float) -> float:
    """Return an upper bound, up to float64 rounding."""
    return PLDAccountant().compose(event(noise, rate, steps)).get_epsilon(delta)


def noise(epsilon: float, rate: float, steps: int, delta: float, tolerance: float) -> float:
    """Return the smallest sufficient noise to an absolute ``tolerance``.

    The search starts from the default interval ``[0, 1]``, which it widens. The default tolerance
    would be 1e-6.
    """
    return dp.calibrate_dp_mechanism(
        PLDAccountant, lambda noise: event(noise, rate, steps), epsilon, delta, tol=tolerance
    )

"""dp-accounting's privacy-loss distributions, at its own mesh of 1e-4 and with its own search."""

from __future__ import annotations

import dp_accounting as dp
from dp_accounting.pld import PLDAccountant

MESH = 1e-4  # value_discretization_interval, its default


def event(noise: float, rate: float, steps: int) -> dp.DpEvent:
    """A new object every time, so that nothing about it is remembered."""
    return dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(noise)), steps)


def epsilon(noise: float, rate: float, steps: int, delta: float) -> float:
    """An upper bound, up to float64 rounding."""
    return PLDAccountant().compose(event(noise, rate, steps)).get_epsilon(delta)


def noise(epsilon: float, rate: float, steps: int, delta: float, tolerance: float) -> float:
    """The smallest noise that it finds enough, to an absolute ``tolerance``.

    From its default bracket, ``[0, 1]``, which it widens; its default tolerance would be 1e-6.
    """
    return dp.calibrate_dp_mechanism(
        PLDAccountant, lambda noise: event(noise, rate, steps), epsilon, delta, tol=tolerance
    )

"""PRV accountant of its authors, with the errors of opacus."""

from __future__ import annotations

from prv_accountant import PoissonSubsampledGaussianMechanism, PRVAccountant

EPSILON_ERROR = 0.01


def epsilon(noise: float, rate: float, steps: int, delta: float) -> float:
    """Return an upper bound, ``EPSILON_ERROR`` above the estimate."""
    prv = PoissonSubsampledGaussianMechanism(noise_multiplier=noise, sampling_probability=rate)
    accountant = PRVAccountant(
        prvs=[prv],
        max_self_compositions=[steps],
        eps_error=EPSILON_ERROR,
        delta_error=delta / 1000,
    )
    return float(accountant.compute_epsilon(delta, [steps])[2])

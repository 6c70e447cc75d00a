"""Privacy on the host: guarantees, accountants and calibration in float64, never JAX."""

from __future__ import annotations

from privopt.privacy.accountants import ACCOUNTANTS, Accountant
from privopt.privacy.calibration import (
    gaussian_noise_multiplier,
    pure_event,
    pure_noise_multiplier,
)
from privopt.privacy.gaussian import (
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    gaussian_trade_off,
)
from privopt.privacy.guarantee import Guarantee
from privopt.privacy.interval import Interval
from privopt.privacy.rounding import round_down, round_up

__all__ = [
    "ACCOUNTANTS",
    "Accountant",
    "Guarantee",
    "Interval",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_mu",
    "gaussian_noise_multiplier",
    "gaussian_trade_off",
    "pure_event",
    "pure_noise_multiplier",
    "round_down",
    "round_up",
]

"""Adaptive composition: filters that keep a budget whatever is chosen, odometers that run along."""

from __future__ import annotations

from privopt.privacy.adaptive.costs import renyi_cost
from privopt.privacy.adaptive.filters import (
    approximate_filter,
    best_order,
    gaussian_filter,
    noise_that_fits,
    pure_filter,
    renyi_filter,
    zcdp_filter,
)
from privopt.privacy.adaptive.odometers import RenyiOdometer, ZCDPOdometer
from privopt.privacy.adaptive.privacy_filter import PrivacyFilter

__all__ = [
    "PrivacyFilter",
    "RenyiOdometer",
    "ZCDPOdometer",
    "approximate_filter",
    "best_order",
    "gaussian_filter",
    "noise_that_fits",
    "pure_filter",
    "renyi_cost",
    "renyi_filter",
    "zcdp_filter",
]

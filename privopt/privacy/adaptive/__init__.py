"""Adaptive composition: filters that keep a budget whatever is chosen."""

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
from privopt.privacy.adaptive.privacy_filter import PrivacyFilter

__all__ = [
    "PrivacyFilter",
    "approximate_filter",
    "best_order",
    "gaussian_filter",
    "noise_that_fits",
    "pure_filter",
    "renyi_cost",
    "renyi_filter",
    "zcdp_filter",
]

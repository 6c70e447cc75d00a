"""Adaptive composition: filters that keep a budget whatever is chosen."""

from __future__ import annotations

from privopt.privacy.adaptive.costs import renyi_cost
from privopt.privacy.adaptive.filters import (
    gaussian_filter,
    pure_filter,
    renyi_filter,
)
from privopt.privacy.adaptive.privacy_filter import PrivacyFilter

__all__ = [
    "PrivacyFilter",
    "gaussian_filter",
    "pure_filter",
    "renyi_cost",
    "renyi_filter",
]

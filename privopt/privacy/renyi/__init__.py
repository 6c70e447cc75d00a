"""Rényi differential privacy: divergences of releases, and what they prove."""

from __future__ import annotations

from privopt.privacy.renyi.conversion import renyi_delta, renyi_epsilon, zcdp_delta, zcdp_epsilon
from privopt.privacy.renyi.curves import renyi_curve, renyi_divergence
from privopt.privacy.renyi.orders import ORDERS

__all__ = [
    "ORDERS",
    "renyi_curve",
    "renyi_delta",
    "renyi_divergence",
    "renyi_epsilon",
    "zcdp_delta",
    "zcdp_epsilon",
]

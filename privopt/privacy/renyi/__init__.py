"""Rényi differential privacy: the numerics of divergences, and what they prove."""

from __future__ import annotations

from privopt.privacy.renyi.conversion import renyi_delta, renyi_epsilon, zcdp_delta, zcdp_epsilon
from privopt.privacy.renyi.orders import ORDERS

__all__ = [
    "ORDERS",
    "renyi_delta",
    "renyi_epsilon",
    "zcdp_delta",
    "zcdp_epsilon",
]

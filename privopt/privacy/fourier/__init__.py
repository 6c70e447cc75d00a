"""Composition of privacy-loss distributions by the Fourier transform, with certified bounds."""

from __future__ import annotations

from privopt.privacy.fourier.query import AtDelta, AtEpsilon
from privopt.privacy.fourier.search import (
    Order,
    Parts,
    bounds,
    estimate,
    infinite_mass,
    upper_curve,
)

__all__ = [
    "AtDelta",
    "AtEpsilon",
    "Order",
    "Parts",
    "bounds",
    "estimate",
    "infinite_mass",
    "upper_curve",
]

"""Compositions by the Fourier transform, with certified bounds on both sides."""

from __future__ import annotations

from privopt.privacy.fourier.query import AtDelta, AtEpsilon
from privopt.privacy.fourier.search import Order, Parts, bounds, curve, estimate, infinite_mass

__all__ = ["AtDelta", "AtEpsilon", "Order", "Parts", "bounds", "curve", "estimate", "infinite_mass"]

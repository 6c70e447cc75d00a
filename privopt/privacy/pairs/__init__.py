"""Dominating pairs that several mechanisms share. The others are next to their mechanism."""

from __future__ import annotations

from privopt.privacy.pairs.gaussian import GaussianPair, ReplacedGaussian
from privopt.privacy.pairs.pair import (
    EVERYTHING,
    NOTHING,
    Bins,
    DiscretePair,
    Pair,
    PurePair,
    Reversed,
)

__all__ = [
    "EVERYTHING",
    "NOTHING",
    "Bins",
    "DiscretePair",
    "GaussianPair",
    "Pair",
    "PurePair",
    "ReplacedGaussian",
    "Reversed",
]

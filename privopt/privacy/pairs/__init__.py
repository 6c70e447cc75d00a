"""Dominating pairs: what one release can show at worst, one file a kind."""

from __future__ import annotations

from privopt.privacy.pairs.dominating import EVERYTHING, NOTHING, dominating_pairs
from privopt.privacy.pairs.pair import Bins, Pair

__all__ = ["EVERYTHING", "NOTHING", "Bins", "Pair", "dominating_pairs"]

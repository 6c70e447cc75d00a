"""The numbers inside events, and whether they make sense."""

from __future__ import annotations

from numbers import Integral, Real
from typing import TypeGuard

__all__ = ["is_count", "is_noise", "tree_nodes"]


def is_noise(value: object) -> TypeGuard[float]:
    """Whether ``value`` can be a noise multiplier: a real number, not negative, not NaN."""
    return isinstance(value, Real) and not isinstance(value, bool) and float(value) >= 0.0


def is_count(value: object) -> TypeGuard[int]:
    """Whether ``value`` is an integer that counts something."""
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 0


def tree_nodes(step_counts: object) -> int | None:
    """Nodes of a binary tree above one leaf, ``floor(log2 T) + 1``; the most, of several trees.

    A record takes part in one step of one tree. ``None`` if ``step_counts`` is no number of
    steps, nor a list of such.
    """
    trees = step_counts if isinstance(step_counts, list | tuple) else [step_counts]
    counts = [int(steps) for steps in trees if is_count(steps)]
    if len(counts) < len(trees):
        return None
    return max((steps.bit_length() for steps in counts), default=0)

"""What the algorithms share that ask once."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["Params", "Static"]


class Params(NamedTuple):
    """Numbers of a run: those of its mechanism."""

    mechanism: Any


class Static(NamedTuple):
    """Shape of a run."""

    dim: int

"""What the algorithms share that ask once."""

from __future__ import annotations

from typing import Any, NamedTuple

from jax import Array


class Params(NamedTuple):
    """Numbers of a run: those of its mechanism."""

    mechanism: Any


class Secret(NamedTuple):
    """The minimiser before noise."""

    minimiser: Array


class Static(NamedTuple):
    """Shape of a run."""

    dim: int

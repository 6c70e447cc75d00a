"""One measured quantity and its target."""

from __future__ import annotations

from typing import NamedTuple


class Line(NamedTuple):
    """Line of the table of results."""

    question: str
    detail: str
    measured: str
    target: str
    met: bool

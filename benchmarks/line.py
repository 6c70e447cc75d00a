"""What was measured against what was wanted."""

from __future__ import annotations

from typing import NamedTuple


class Line(NamedTuple):
    """One line of the table."""

    question: str
    detail: str
    measured: str
    target: str
    met: bool

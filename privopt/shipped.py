"""Files of the package: experiments and recorded results."""

from __future__ import annotations

from pathlib import Path

__all__ = ["shipped"]

_PACKAGE = Path(__file__).parent


def shipped(name: str) -> Path:
    """Return the folder ``experiments`` or ``results`` of the package.

    A wheel contains it inside of the package, an editable installation in its checkout.
    """
    inside = _PACKAGE / name
    return inside if inside.is_dir() else _PACKAGE.parent / name

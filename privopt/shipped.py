"""Files that come with the package: the experiments, and what was recorded of them."""

from __future__ import annotations

from pathlib import Path

__all__ = ["shipped"]

_PACKAGE = Path(__file__).parent


def shipped(name: str) -> Path:
    """Return the folder ``experiments`` or ``results`` that comes with the package.

    A wheel has it inside of the package, and an editable installation in its checkout.
    """
    inside = _PACKAGE / name
    return inside if inside.is_dir() else _PACKAGE.parent / name

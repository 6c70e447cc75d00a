"""Laws: the exact expected value of a plan on a family, where it is closed at finite size."""

from __future__ import annotations

from privopt.core import Plan

__all__ = ["law_of"]


def law_of(plan: Plan, family_name: str, strength: float) -> float | None:
    """The exact expected value of what a plan is measured by; ``None`` where no law is known."""
    del plan, family_name, strength
    return None

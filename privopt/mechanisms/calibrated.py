"""What every calibration is given, checked before it is used."""

from __future__ import annotations

from privopt.arguments import described, instance
from privopt.spec import Budget

__all__ = ["check_calibration"]


def check_calibration(query: object, budget: object, *answers: str) -> None:
    """ValueError unless ``query`` can be asked for all ``answers`` and ``budget`` is one."""
    for answer in answers:
        if isinstance(query, type) or not hasattr(query, answer):
            raise ValueError(f"query must have a {answer}, got {described(query)}")
    instance("budget", budget, Budget)

"""How symbols, numbers and estimates read in figures and report."""

from __future__ import annotations

import math

from privopt.lab.verdict_outcome import Verdict

__all__ = ["SYMBOLS", "estimate", "number", "power", "signed"]

SYMBOLS = {"n": "n", "dim": "d", "epsilon": "ε"}

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def number(value: float) -> str:
    """Without powers of ten: ``16,384``, ``0.25``, ``0.00001``, ``∞``."""
    if math.isinf(value):
        return "∞" if value > 0.0 else "−∞"
    if value >= 1000 and value == round(value):
        return f"{value:,.0f}"
    return f"{value:.10f}".rstrip("0").rstrip(".") if abs(value) < 1e-3 else f"{value:g}"


def signed(value: float, digits: int | None = None) -> str:
    """With a true minus: ``−0.98`` for two digits after the point, ``−0.5`` for none given."""
    text = f"{value:g}" if digits is None else f"{value:.{digits}f}"
    return text.replace("-", "−") if float(text) != 0.0 else text.lstrip("-")


def estimate(verdict: Verdict, digits: int | None = None) -> tuple[str, str]:
    """The estimate and its interval, ``("−0.98", "[−1.02, −0.95]")``; a dash where unknown.

    A slope has as many digits as its interval deserves, unless told how many.
    """
    if not math.isfinite(verdict.estimate):
        return "–", ""
    if verdict.axis is None:
        return f"{verdict.estimate:.2g}", f"[{verdict.lower:.2g}, {verdict.upper:.2g}]"
    digits = digits or (2 if verdict.upper - verdict.lower > 0.05 else 3)
    value, lower, upper = (
        signed(each, digits) for each in (verdict.estimate, verdict.lower, verdict.upper)
    )
    return value, f"[{lower}, {upper}]"


def power(value: float) -> str:
    """A power of ten as one: ``10⁻⁵``."""
    return "10" + str(round(math.log10(value))).translate(_RAISED)

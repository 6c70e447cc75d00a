"""How figures and tables write axes, numbers and estimates."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from privopt.lab.judge.verdict import Verdict
from privopt.lab.make.axes import AXES, axis_kind

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def symbol(axis: str) -> str:
    """Of an axis, as figures and tables write it."""
    return axis_kind(axis).symbol


_WORDS = {"n": "records", "dim": "dimension", "sparsity": "nonzeros", "epsilon": "privacy"}
_WORDS |= {"steps": "steps"}


def axis_words(axis: str) -> str:
    """An axis in words, with its symbol: ``records n``, ``privacy ε``."""
    return (
        f"{_WORDS[axis]}\N{NO-BREAK SPACE}{symbol(axis)}"
        if axis in _WORDS
        else symbol(axis).replace("_", " ")
    )


def axis_label(axis: str, setting: Mapping[str, float]) -> str:
    """An axis, with the sizes and the epsilon that the others stay at: ``n   (d = 80, ε = 2)``."""
    others = (
        f"{symbol(name)} = {number(setting[name])}"
        for name, kind in AXES.items()
        if name != axis and name in setting and kind.taken_by != "plan"
    )
    return f"{symbol(axis)}   ({', '.join(others)})"


def number(value: float) -> str:
    """Without powers of ten: ``16,384``, ``0.25``, ``0.00001``, ``∞``."""
    if math.isinf(value):
        return "∞" if value > 0.0 else "−∞"
    if value >= 1000 and value == round(value):
        return f"{value:,.0f}"
    return f"{value:.10f}".rstrip("0").rstrip(".") if abs(value) < 1e-3 else f"{value:g}"


def brief(value: float) -> str:
    """Two digits without powers of ten, where it is not tiny; a dash where there is none.

    Examples
    --------
    >>> brief(0.06249), brief(2e-7), brief(math.inf)
    ('0.062', '2e-07', '-')
    """
    if not math.isfinite(value):
        return "-"
    return number(float(f"{value:.2g}")) if abs(value) >= 1e-5 else f"{value:.2g}"


_MINUS = re.compile(r"(?<![\w.])-(?=[\d.])")


def with_minus(text: str) -> str:
    """A text whose negative numbers have a true minus.

    Examples
    --------
    >>> with_minus("within -1 ± 0.05, 1e-06")
    'within −1 ± 0.05, 1e-06'
    """
    return _MINUS.sub("−", text)


def signed(value: float, digits: int | None = None) -> str:
    """With a true minus: ``−0.98`` for two digits after the point, ``−0.5`` for none given."""
    text = f"{value:g}" if digits is None else f"{value:.{digits}f}"
    return text.replace("-", "−") if float(text) != 0.0 else text.lstrip("-")


def share(chance: float) -> str:
    """A chance in percent, never rounded to a certainty that it is not.

    Examples
    --------
    >>> share(0.031), share(0.9999), share(1e-5), share(0.0)
    ('3 %', '> 99 %', '< 1 %', '0 %')
    """
    if 0.0 < chance < 0.005:
        return "< 1 %"
    return "> 99 %" if 0.995 <= chance < 1.0 else f"{100.0 * chance:.0f} %"


def estimate(verdict: Verdict) -> tuple[str, str]:
    """The estimate and its interval, ``("−0.98", "[−1.02, −0.95]")``; a dash where unknown.

    A slope has as many digits as its interval deserves.
    """
    if not math.isfinite(verdict.estimate):
        return "–", ""
    if verdict.axis is None:
        form = ".3f" if verdict.check == "law" else ".2g"
        value, *ends = (
            f"{each:{form}}" for each in (verdict.estimate, verdict.lower, verdict.upper)
        )
        return value, f"[{', '.join(ends)}]"
    digits = 2 if verdict.upper - verdict.lower > 0.05 else 3
    return signed(verdict.estimate, digits), interval(verdict.lower, verdict.upper, digits)


def interval(lower: float, upper: float, digits: int) -> str:
    """``[−1.02, −0.95]`` for two digits; nothing where an end is not known."""
    if math.isnan(lower) or math.isnan(upper):
        return ""
    return f"[{signed(lower, digits)},\N{NO-BREAK SPACE}{signed(upper, digits)}]"


def power(value: float) -> str:
    """A power of ten as one: ``10⁻⁵``."""
    return "10" + str(round(math.log10(value))).translate(_RAISED)

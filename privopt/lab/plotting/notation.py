"""Notation of figures and tables: names of methods and axes, numbers and estimates."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from privopt.lab.evaluation.verdict import ORACLE_TUNED, Verdict, twin_name
from privopt.lab.runner.experiment import AXES, axis_kind

_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_MINUS = re.compile(r"(?<![\w.])-(?=[\d.])")
_ACRONYM = re.compile(r"\b(s?gd|svrg|ftrl|dp)\b")
_PAPER_NAMES = {
    "noisy_adam": "NoisyAdam",
    "linf": "ℓ∞ output perturbation",
    "linf_output_perturbation": "ℓ∞ output perturbation",
    "l1_recovery": "ℓ1 recovery",
    "bias_reduced_sgd": "bias-reduced SGD",
}
_AXIS_WORDS = {
    "n": "records", "dim": "dimension", "sparsity": "nonzeros", "epsilon": "privacy",
    "steps": "steps",
}  # fmt: skip


def paper_name(method: str) -> str:
    """Return the name of a method as it is used in papers.

    Examples
    --------
    >>> [paper_name(name) for name in ("dp_sgd", "objective_perturbation", "noisy_adam")]
    ['DP-SGD', 'objective perturbation', 'NoisyAdam']
    """
    return _PAPER_NAMES.get(method) or _with_acronyms(method)


def method_label(method: str, tuned: bool) -> str:
    """Return the paper name of a method, labelled if it is oracle-tuned."""
    name = paper_name(twin_name(method) if tuned else method)
    return f"{name} ({ORACLE_TUNED})" if tuned else name


def in_words(name: str) -> str:
    """Return the name of an experiment as words: ``Strongly convex DP-GD``."""
    words = _with_acronyms(name)
    return words[:1].upper() + words[1:]


def _with_acronyms(name: str) -> str:
    words = _ACRONYM.sub(lambda match: match[0].upper(), name.replace("_", " "))
    return re.sub(r"\bDP (?=[A-Z])", "DP-", words)


def symbol(axis: str) -> str:
    """Return the symbol of an axis."""
    return axis_kind(axis).symbol


def axis_words(axis: str) -> str:
    """Return an axis as a word and a symbol: ``records n``, ``privacy ε``."""
    if axis not in _AXIS_WORDS:
        return symbol(axis).replace("_", " ")
    return f"{_AXIS_WORDS[axis]}\N{NO-BREAK SPACE}{symbol(axis)}"


def axis_label(axis: str, setting: Mapping[str, float]) -> str:
    """Return an axis label with the fixed sizes and epsilon: ``n   (d = 80, ε = 2)``."""
    others = (
        f"{symbol(name)} = {number(setting[name])}"
        for name, kind in AXES.items()
        if name != axis and name in setting and kind.taken_by != "plan"
    )
    return f"{symbol(axis)}   ({', '.join(others)})"


def number(value: float) -> str:
    """Format a number without powers of ten: ``16,384``, ``0.25``, ``0.00001``, ``∞``."""
    if math.isinf(value):
        return "∞" if value > 0.0 else "−∞"
    if value >= 1000 and value == round(value):
        return f"{value:,.0f}"
    return f"{value:.10f}".rstrip("0").rstrip(".") if abs(value) < 1e-3 else f"{value:g}"


def brief(value: float) -> str:
    """Format a number with two digits, and without powers of ten unless it is tiny.

    Examples
    --------
    >>> brief(0.06249), brief(2e-7), brief(math.inf)
    ('0.062', '2e-07', '-')
    """
    if not math.isfinite(value):
        return "-"
    return number(float(f"{value:.2g}")) if abs(value) >= 1e-5 else f"{value:.2g}"


def small(value: float) -> str:
    """Format a small number with a power of ten.

    Examples
    --------
    >>> small(1e-6), small(2.36e-9), small(0.0)
    ('10⁻⁶', '2.36×10⁻⁹', '0')
    """
    if value == 0.0 or value >= 1e-3:
        return number(value)
    digits, _, exponent = f"{value:.2e}".partition("e")
    unit = power(float(f"1e{exponent}"))
    return unit if float(digits) == 1.0 else f"{float(digits):g}×{unit}"


def with_minus(text: str) -> str:
    """Replace the hyphens of negative numbers by minus signs.

    Examples
    --------
    >>> with_minus("within -1 ± 0.05, 1e-06")
    'within −1 ± 0.05, 1e-06'
    """
    return _MINUS.sub("−", text)


def signed(value: float, digits: int | None = None) -> str:
    """Format with a minus sign: ``−0.98`` with two digits, ``−0.5`` without ``digits``."""
    text = f"{value:g}" if digits is None else f"{value:.{digits}f}"
    return text.replace("-", "−") if float(text) != 0.0 else text.lstrip("-")


def percentage(probability: float) -> str:
    """Format a probability, without rounding to 0 or 1.

    Examples
    --------
    >>> percentage(0.031), percentage(0.9999), percentage(1e-5), percentage(0.0)
    ('3 %', '> 99 %', '< 1 %', '0 %')
    """
    if 0.0 < probability < 0.005:
        return "< 1 %"
    return "> 99 %" if 0.995 <= probability < 1.0 else f"{100.0 * probability:.0f} %"


def estimate(verdict: Verdict) -> tuple[str, str]:
    """Format an estimate and its interval: ``("−0.98", "[−1.02, −0.95]")``; a dash if unknown.

    Slopes have two digits, or three if the interval is short.
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
    interval = ""
    if not (math.isnan(verdict.lower) or math.isnan(verdict.upper)):
        low, high = (signed(end, digits) for end in (verdict.lower, verdict.upper))
        interval = f"[{low},\N{NO-BREAK SPACE}{high}]"
    return signed(verdict.estimate, digits), interval


def power(value: float) -> str:
    """Format a power of ten: ``10⁻⁵``."""
    return "10" + str(round(math.log10(value))).translate(_SUPERSCRIPT)

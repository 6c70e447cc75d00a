"""Accountant of basic composition: what the releases spend is added up.

Source: Dwork and Roth, "The algorithmic foundations of differential privacy", 2014, Theorem 3.16
(independent choices) and Theorem B.1 (adaptive ones).
"""

from __future__ import annotations

from dataclasses import dataclass

from privopt.privacy.accountants.profiled import Parts, Profiled, is_pure
from privopt.privacy.sums import times, total

__all__ = ["Basic"]

_ROUNDING = 2.0**-50  # relative; products, one exact sum, one rounding


@dataclass(frozen=True)
class Basic(Profiled):
    """``(sum epsilon_t, sum delta_t)``, with ``delta`` in equal shares.

    Two splits are tried: all releases share, or only those that are not pure; the others then
    have the exact ``epsilon`` of ``delta_t = 0``.

    Formal guarantee
    ----------------
    That of ``Profiled``, under every relation that the profiles know.

    Examples
    --------
    >>> import dp_accounting as dp
    >>> from privopt.spec import Relation
    >>> releases = dp.SelfComposedDpEvent(dp.LaplaceDpEvent(4.0), 3)
    >>> round(Basic().epsilon(releases, Relation.ZERO_OUT, 0.0).upper, 6)
    0.75
    """

    name = "basic composition"

    def bound(self, parts: Parts, delta: float) -> float:
        """``sum epsilon_t(delta / k)`` over the ``k`` releases that share, the smaller of two."""
        pure = [is_pure(part) for part, _ in parts]
        return min(_sum(parts, [False] * len(parts), delta), _sum(parts, pure, delta))

    def bound_delta(self, parts: Parts, epsilon: float) -> float:
        """``k delta_1(epsilon / k)`` for one kind of release, else by bisection."""
        if len(parts) > 1:
            return super().bound_delta(parts, epsilon)
        part, count = parts[0]
        single = part.delta(epsilon / times(count, 1.0) * (1.0 - _ROUNDING)).upper
        return min(1.0, times(count, single) * (1.0 + _ROUNDING))


def _sum(parts: Parts, exempt: list[bool], delta: float) -> float:
    sharing = sum(count for (_, count), free in zip(parts, exempt, strict=True) if not free)
    share = delta if sharing <= 1 else delta / times(sharing, 1.0) * (1.0 - _ROUNDING)
    spent = total(
        (part.epsilon(0.0 if free else share).upper, count)
        for (part, count), free in zip(parts, exempt, strict=True)
    )
    return spent * (1.0 + _ROUNDING)

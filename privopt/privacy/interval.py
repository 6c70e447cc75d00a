"""A number known up to certified bounds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from privopt.privacy.arguments import real

__all__ = ["Interval"]


@dataclass(frozen=True, repr=False)
class Interval:
    """All that is proved of a non-negative number: ``lower <= truth <= upper``.

    It unpacks: ``lower, upper = guarantee.epsilon(1e-6)``. The *upper* end is the guarantee; the
    lower end says how much of it could be slack.

    Parameters
    ----------
    lower, upper : float
        ``0 <= lower <= upper <= inf``.
    reason : str
        Why the ends are farther apart than the accuracy asked for; empty where that was
        reached. No part of comparisons.

    Raises
    ------
    ValueError
        For NaN, a negative lower end, or ends in the wrong order.

    Examples
    --------
    >>> lower, upper = Interval(0.5, 0.75)
    >>> upper
    0.75
    >>> Interval(0.5, 0.75).width
    0.25
    """

    lower: float
    upper: float
    reason: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        lower, upper = real("lower", self.lower), real("upper", self.upper)
        if not 0.0 <= lower <= upper:
            raise ValueError(f"lower must lie in [0, upper], got [{lower!r}, {upper!r}]")
        object.__setattr__(self, "lower", lower)
        object.__setattr__(self, "upper", upper)

    def __iter__(self) -> Iterator[float]:
        yield self.lower
        yield self.upper

    def __repr__(self) -> str:
        reason = f", reason={self.reason!r}" if self.reason else ""
        return f"Interval(lower={self.lower!r}, upper={self.upper!r}{reason})"

    @property
    def width(self) -> float:
        """``upper - lower``; zero when both ends are infinite."""
        return 0.0 if self.lower == self.upper else self.upper - self.lower

    def contains(self, x: float) -> bool:
        """Whether ``x`` lies between the ends, ends included."""
        return self.lower <= x <= self.upper

"""A number known up to certified bounds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from privopt.privacy.arguments import real

__all__ = ["Interval"]


@dataclass(frozen=True)
class Interval:
    """All that is proved of a non-negative number: ``lower <= truth <= upper``.

    It unpacks: ``lower, upper = guarantee.epsilon(1e-6)``. The *upper* end is the guarantee; the
    lower end says how much of it could be slack.

    Parameters
    ----------
    lower, upper : float
        ``0 <= lower <= upper <= inf``.

    Raises
    ------
    ValueError
        For NaN, a negative lower end, or ends in the wrong order.
    """

    lower: float
    upper: float

    def __post_init__(self) -> None:
        lower, upper = real("lower", self.lower), real("upper", self.upper)
        if not 0.0 <= lower <= upper:
            raise ValueError(f"lower must lie in [0, upper], got [{lower!r}, {upper!r}]")
        object.__setattr__(self, "lower", lower)
        object.__setattr__(self, "upper", upper)

    def __iter__(self) -> Iterator[float]:
        yield self.lower
        yield self.upper

    @property
    def width(self) -> float:
        """``upper - lower``; zero when both ends are infinite."""
        return 0.0 if self.lower == self.upper else self.upper - self.lower

    def contains(self, x: float) -> bool:
        """Whether ``x`` lies between the ends, ends included."""
        return self.lower <= x <= self.upper

"""The other order of a pair: what adding a record shows, where the pair shows its removal."""

from __future__ import annotations

from dataclasses import dataclass

from privopt.privacy.pairs.pair import Array, Bins, Pair

__all__ = ["Reversed"]


@dataclass(frozen=True)
class Reversed:
    """``(Q, P)`` for the pair ``(P, Q)``: losses change sign."""

    pair: Pair

    @property
    def attained(self) -> Pair | None:
        """What the pair attains, reversed."""
        attained = self.pair.attained
        return None if attained is None else Reversed(attained)

    def infinite(self) -> tuple[float, float]:
        """The other way round."""
        p, q = self.pair.infinite()
        return q, p

    def range(self) -> tuple[float, float]:
        """The range of the pair, mirrored."""
        smallest, largest = self.pair.range()
        return -largest, -smallest

    def losses(self, tail: float, count: int) -> Array:
        """The losses of the pair, negated."""
        return -self.pair.losses(tail, count)[::-1]

    def bins(self, edges: Array) -> Bins:
        """The bins of the pair at ``-edges``, ``P`` and ``Q`` changing places."""
        other = self.pair.bins(-edges[::-1])
        return Bins(
            p=other.q[::-1],
            q=other.p[::-1],
            p_error=other.q_error[::-1],
            q_error=other.p_error[::-1],
            blur=other.blur,
        )

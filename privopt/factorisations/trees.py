"""The binary tree: ``C`` sums the gradients of every complete dyadic block."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from privopt.arguments import checked, flag
from privopt.factorisations.factorisation import Factorisation, Patterns

MAX_COUNTED = 2**26  # participations in all even patterns up to which they are counted
_AT_ONCE = 2**20

_Floats = NDArray[np.float64]


@checked
def tree_height(steps: int) -> int:
    """Return ``floor(log2 T) + 1``, the largest number of complete blocks that contain a step."""
    return steps.bit_length()


class TreeFactorisation(Factorisation):
    """Binary tree: one row of ``C`` per used block ``[(m-1) 2^j + 1, m 2^j]`` within the stream.

    A prefix is the sum of the blocks of the binary digits of ``t``. These are *left* blocks (``m``
    odd), and one of them ends in every step. In this order ``C`` is square and lower triangular.

    *Refined* (Honaker): a block of height ``j`` is estimated by its own noisy sum with weight
    ``1/a_j``, ``a_j = 2 - 2^-j``, and the estimates of its halves. ``C`` has all blocks. The
    sensitivity is that of all noisy sums, as in the literature. Releasing prefixes only would have
    a slightly smaller one (7 % at ``T = 1024``, one participation).

    *Sensitivity* (:ref:`Mechanisms, Theorem 3 <theory-mechanisms-3>`). One participation:
    ``sqrt(floor(log2 T) + 1)``, exact. More: a bound per height, and up to ``MAX_DENSE`` steps the
    Gram matrix, exact if there are few patterns. Even patterns: exact by counting.

    Source: Dwork, Naor, Pitassi and Rothblum 2010; Chan, Shi and Song 2011; Honaker 2015. A common
    ``ceil(log2 T) + 1`` for the height is one too many unless ``T`` is a power of two.

    Examples
    --------
    >>> tree = TreeFactorisation(100)
    >>> tree.sensitivity() ** 2, round(tree.rmse(), 5)
    (7.000000000000001, 4.72546)
    """

    def __init__(self, steps: int, *, refined: bool = False) -> None:
        self.refined = flag("refined", refined)
        super().__init__("honaker" if refined else "tree", steps)

    def encoder(self) -> _Floats:
        step = np.arange(self.steps)
        return np.array([step >> j == m for j, m in self._ordered()], dtype=np.float64)

    def decoder(self) -> _Floats:
        place = {block: i for i, block in enumerate(self._ordered())}
        decoder = np.zeros((self.steps, len(place)))
        for t in range(1, self.steps + 1):
            for j in range(tree_height(self.steps)):
                if t >> j & 1:
                    self._add(decoder[t - 1], place, (j, (t >> j) - 1), 1.0)
        return decoder

    def variances(self) -> _Floats:
        # Number of binary digits of t; a digit of height j counts 1/a_j if refined.
        t = np.arange(1, self.steps + 1)
        total = np.zeros(self.steps)
        for j in range(tree_height(self.steps)):
            total += (t >> j & 1) / (2.0 - 2.0**-j if self.refined else 1.0)
        return total

    def _blocks(self, height: int) -> range:
        """Return ``m - 1`` for the blocks of this height."""
        return range(0, self.steps >> height, 1 if self.refined else 2)

    def _ordered(self) -> list[tuple[int, int]]:
        blocks = [(j, m) for j in range(tree_height(self.steps)) for m in self._blocks(j)]
        return sorted(blocks, key=lambda block: (block[1] + 1) << block[0])

    def _add(
        self, row: _Floats, place: dict[tuple[int, int], int], block: tuple[int, int], weight: float
    ) -> None:
        """Add ``weight`` times the estimate of a block to a row over the noisy sums."""
        j, m = block
        own = 1.0 / (2.0 - 2.0**-j) if self.refined else 1.0
        row[place[block]] += weight * own
        if self.refined and j:
            for half in (2 * m, 2 * m + 1):
                self._add(row, place, (j - 1, half), weight * (1.0 - own))

    def _sensitivity(self, allowed: Patterns) -> float:
        starts = allowed.starts(self.steps)
        if allowed.even and len(starts) * allowed.times <= MAX_COUNTED:
            rows = max(1, _AT_ONCE // allowed.times)
            parts = (np.array(starts[i : i + rows]) for i in range(0, len(starts), rows))
            return math.sqrt(max(self._counted(part, allowed) for part in parts))
        heights = range(tree_height(self.steps))
        square = sum(_largest_count(allowed, j, len(self._blocks(j))) for j in heights)
        return self._with_gram(square, allowed)

    def _counted(self, starts: NDArray[np.int64], allowed: Patterns) -> int:
        """Return the largest sum of squared counts over all blocks, for even patterns.

        The ``r``-th participation in a block adds ``2 r - 1`` to the squared count.
        """
        place = np.arange(allowed.times)
        participations = starts[:, None] + allowed.gap * place
        total = np.zeros(len(starts), dtype=np.int64)
        for j in range(tree_height(self.steps)):
            block, blocks = participations >> j, self._blocks(j)
            new = np.diff(block, axis=1, prepend=-1) > 0
            before = place - np.maximum.accumulate(np.where(new, place, 0), axis=1)
            used = (block < blocks.stop) & (block % blocks.step == 0)
            total += np.sum((2 * before + 1) * used, axis=1)
        return int(total.max())


def _largest_count(allowed: Patterns, height: int, blocks: int) -> int:
    """Return the largest sum of squared counts of the participations over blocks of a height."""
    inside = min(allowed.times, -(-(2**height) // allowed.gap))
    full, rest = divmod(min(allowed.times, blocks * inside), inside)
    return full * inside**2 + rest**2

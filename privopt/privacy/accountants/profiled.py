"""What accountants share that know a composition by the profiles of its releases."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import dp_accounting as dp
import numpy as np
import numpy.typing as npt

from privopt.privacy.bracketing import false_position
from privopt.privacy.interval import Interval
from privopt.privacy.leaves import leaves
from privopt.privacy.profiles import Profile
from privopt.privacy.releases import profile
from privopt.privacy.renyi.conversion import envelope
from privopt.privacy.sums import times
from privopt.spec import Relation

__all__ = ["Parts", "Profiled", "is_pure", "splits"]

Parts: TypeAlias = Sequence[tuple[Profile, int]]

_ALMOST_ONE = math.nextafter(1.0, 0.0)
_DELTAS = np.unique(np.concatenate([np.geomspace(1e-12, 1e-2, 21), np.linspace(0.02, 0.98, 25)]))
# Of delta, what the releases may spend themselves; the rest is the slack of their composition.
_FRACTIONS = (1e-3, 1e-2, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99)


class Profiled(ABC):
    """Composes ``(epsilon_t, delta_t)`` read off the profile of each release.

    Formal guarantee
    ----------------
    The upper ends hold for every adaptive composition of the releases, by the theorem that
    ``bound`` applies. The lower ends are those of the single release that tells most: the others
    may tell nothing. One release alone is answered by its profile.
    """

    name: str

    def supports(self, event: dp.DpEvent, relation: Relation) -> bool:
        """Whether every leaf has a profile in closed form."""
        return all(profile(leaf, relation) is not None for leaf, _ in leaves(event))

    def epsilon(self, event: dp.DpEvent, relation: Relation, delta: float) -> Interval:
        """Between the most telling release and the composition theorem."""
        return self._epsilon(_parts(event, relation), delta)

    def delta(self, event: dp.DpEvent, relation: Relation, epsilon: float) -> Interval:
        """Between the most telling release and the inverse of the composition theorem."""
        parts = _parts(event, relation)
        if _one(parts):
            return parts[0][0].delta(epsilon) if parts else Interval(0.0, 0.0)
        upper = self.bound_delta(parts, epsilon)
        return Interval(min(self.least_delta(parts, epsilon), upper), upper)

    def trade_off(
        self, event: dp.DpEvent, relation: Relation, alphas: npt.NDArray[np.float64]
    ) -> npt.NDArray[np.float64]:
        """The envelope of what ``epsilon`` proves at zero and some fifty other ``delta``."""
        parts, deltas = _parts(event, relation), np.append(0.0, _DELTAS)
        losses = [self._epsilon(parts, float(delta)).upper for delta in deltas]
        return envelope(np.array(losses), deltas, alphas)

    @abstractmethod
    def bound(self, parts: Parts, delta: float) -> float:
        """``epsilon`` of the composition, rounded up; it must not increase with ``delta``."""

    def bound_delta(self, parts: Parts, epsilon: float) -> float:
        """The smallest ``delta`` found with ``bound(parts, delta) <= epsilon``."""
        return _smallest(lambda delta: self.bound(parts, delta), epsilon)

    def least(self, parts: Parts, delta: float) -> float:
        """A lower bound of ``epsilon`` that some mechanism attains."""
        return max(part.epsilon(delta).lower for part, _ in parts)

    def least_delta(self, parts: Parts, epsilon: float) -> float:
        """A lower bound of ``delta`` that some mechanism attains."""
        return max(part.delta(epsilon).lower for part, _ in parts)

    def _epsilon(self, parts: Parts, delta: float) -> Interval:
        if _one(parts):
            return parts[0][0].epsilon(delta) if parts else Interval(0.0, 0.0)
        upper = self.bound(parts, delta)
        return Interval(min(self.least(parts, delta), upper), upper)


def is_pure(part: Profile) -> bool:
    """Whether a release has a finite ``epsilon`` at ``delta = 0``."""
    return part.epsilon(0.0).upper < math.inf


def splits(parts: Parts, delta: float) -> Iterator[tuple[list[tuple[float, int]], float]]:
    """Ways to spend ``delta``: ``epsilon_t`` of the releases with their counts, and the slack.

    Pure releases need no ``delta``; the others share equally a fixed fraction of it. What all
    releases and the slack spend adds up to no more than ``delta``.
    """
    if delta == 0.0:
        return
    free = [is_pure(part) for part, _ in parts]
    takers = sum(count for (_, count), pure in zip(parts, free, strict=True) if not pure)
    for fraction in _FRACTIONS if takers else (0.0,):
        share = fraction * delta / times(max(takers, 1), 1.0) * (1.0 - 2.0**-50)
        slack = (1.0 - fraction) * delta * (1.0 - 2.0**-50) if takers else delta
        losses = [
            (part.epsilon(0.0 if pure else share).upper, count)
            for (part, count), pure in zip(parts, free, strict=True)
        ]
        if slack > 0.0 and all(epsilon < math.inf for epsilon, _ in losses):
            yield losses, slack


def _parts(event: dp.DpEvent, relation: Relation) -> list[tuple[Profile, int]]:
    """The profiles of all releases that tell anything, each with its multiplicity."""
    counts: Counter[Profile] = Counter()
    for leaf, count in leaves(event):
        part = profile(leaf, relation)
        if part is not None and part.delta(0.0).upper > 0.0:
            counts[part] += count
    return list(counts.items())


def _one(parts: Parts) -> bool:
    return sum(count for _, count in parts) <= 1


def _smallest(bound: Callable[[float], float], epsilon: float) -> float:
    """A ``delta`` with ``bound(delta) <= epsilon``, to a relative 1e-10; 0 and 1 come first."""
    if bound(0.0) <= epsilon:
        return 0.0
    if not bound(_ALMOST_ONE) <= epsilon:
        return 1.0

    def gap(log_delta: float) -> float:
        return bound(min(math.exp(log_delta), _ALMOST_ONE)) - epsilon

    inside, _ = false_position(gap, 0.0, -745.0, absolute=1e-10)
    return min(math.exp(inside), _ALMOST_ONE)

"""Trials: cells that a slope is fitted to are run again, in ways that tell what the slope shows.

With numbers set by theory an exponent can be inherited from the plan, whatever the noise. So the
same runs are repeated with the noise switched off, and with noise that depends a little otherwise
on the axis: a slope that the noise has made must then be gone. A second root key tells whether it
was chance.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

from privopt.arguments import Names
from privopt.theory import Exponents

BEND = 0.1
"""The exponent by which a risk is bent along an axis."""

SLOPED = tuple(field.name for field in fields(Exponents))
"""The axes along which a rate can have an exponent."""

_SHARE = 4
_LEAST = 10
_LEAST_GROUPS = 16


class Trial(Names):
    """Which of the runs of a cell.

    ``measured``
        Those that results are read from.
    ``second key``
        The same, fewer, from the root seed plus one.
    ``noise off``
        The same, fewer, with the noise of the mechanism times 0.
    ``noise bent``
        The same, fewer, with noise that bends the risk by ``(value / base value)^BEND`` along one
        axis (:func:`bent`).

    The last two are controls. They keep the keys of the measured runs, change nothing but the
    noise of the mechanism, and guarantee no privacy.

    Examples
    --------
    >>> [trial.is_control for trial in Trial]
    [False, False, True, True]
    """

    MEASURED = "measured"
    SECOND_KEY = "second key"
    NOISE_OFF = "noise off"
    NOISE_BENT = "noise bent"

    @property
    def is_control(self) -> bool:
        """Whether the noise is another one than the plan's."""
        return self in (Trial.NOISE_OFF, Trial.NOISE_BENT)

    def noise_factor(self, bend: float, exponents: Mapping[str, float]) -> float:
        """By which the noise of the mechanism is multiplied, at ``bend`` times the base value."""
        if self is Trial.NOISE_BENT:
            return bent(bend, exponents)
        return float(self is not Trial.NOISE_OFF)

    def root(self, seed: int) -> int:
        """The root of its randomness, where that of the experiment is ``seed``."""
        return seed + (self is Trial.SECOND_KEY)


def block_of(replicates: int) -> int:
    """Replicates of every other trial: a quarter, at least ten where there are as many.

    The measured replicates run in blocks of that number, so that one program serves all trials.
    """
    return min(replicates, max(_LEAST, replicates // _SHARE))


def group_of(replicates: int, block: int) -> int:
    """So many replicates share public randomness of an algorithm that has any.

    As many as leave 16 whole groups in a block, which are what intervals resample.
    """
    sizes = range(1, block // _LEAST_GROUPS + 1)
    return max((size for size in sizes if block % size == replicates % size == 0), default=1)


def bent(ratio: float, exponents: Mapping[str, float]) -> float:
    """The factor of the noise at ``ratio`` times the value where nothing is changed.

    A risk that moves as the noise to the ``p`` is bent by ``ratio^BEND``, whatever ``p``: at a
    fixed ratio of epsilon to mu the noise moves as the inverse of epsilon, so ``-p`` is the rate's
    exponent of epsilon. Where it has none, ``p`` is 1.
    """
    power = -exponents.get("epsilon", 0.0)
    return float(ratio ** (BEND / power if power > 0.0 else BEND))

"""The event of all noise with memory."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field
from functools import lru_cache

import jax
import numpy as np
from dp_accounting import DpEvent, GaussianDpEvent, SelfComposedDpEvent

from privopt.mechanisms.batches import Batches, CyclicPoissonBatches, Participation
from privopt.mechanisms.noise.noise import Noise
from privopt.spec import Relation

__all__ = ["GaussianMemory", "participation_event"]

_ROUND_OFF = 1e-9  # of a sensitivity computed in float64, relative


def participation_event(
    noise: Noise, batches: Batches, multiplier: float, steps: int, relation: Relation
) -> DpEvent:
    """``steps`` answers with correlated noise: one Gaussian mechanism, or sampled ones.

    Parameters
    ----------
    noise : Noise
        Its ``factorisation(steps)`` answers how far one record moves ``C g``.
    batches : Batches
        Their ``participation`` answers in which steps a record may take part.
    multiplier : float
        ``sigma`` over the largest share of one record in an answer.
    steps : int
    relation : Relation

    Returns
    -------
    DpEvent
        ``GaussianDpEvent(multiplier/sensitivity)``, rounded down; of no steps, none of them. On
        cyclic Poisson batches their event for banded noise.

    Raises
    ------
    ValueError
        Where no theorem covers the batches, or the noise on them, or the noise is shorter than
        ``steps``.

    Formal guarantee
    ----------------
    ``sensitivity/multiplier``-Gaussian DP under ``zero_out``, twice that under ``replace_one``
    (what a Gaussian event means there), for every data set and every adaptive choice of the points.

    Examples
    --------
    >>> from privopt.mechanisms import OrderedBatches, TreeNoise
    >>> batches = OrderedBatches.of(1, 100)
    >>> event = participation_event(TreeNoise(), batches, 1.0, 100, Relation.ZERO_OUT)
    >>> round(event.noise_multiplier**-2, 6)  # a step lies in so many blocks
    7.0
    """
    if isinstance(batches, CyclicPoissonBatches):
        return _banded_event(noise, batches, multiplier, steps, relation)
    participation = batches.participation(steps, relation)
    if participation.times == 0:
        return SelfComposedDpEvent(GaussianDpEvent(multiplier), 0)
    sensitivity = _sensitivity(_Question(noise, _content(noise), steps, participation))
    return GaussianDpEvent(math.nextafter(multiplier / sensitivity, 0.0))


class GaussianMemory:
    """Noise of normal draws that are remembered: ``z = C^-1 xi``."""

    variance = 1.0

    def event(
        self: Noise, batches: Batches, multiplier: float, steps: int, relation: Relation
    ) -> DpEvent:
        """One Gaussian mechanism, or sampled ones."""
        return participation_event(self, batches, multiplier, steps, relation)


def _banded_event(
    noise: Noise,
    batches: CyclicPoissonBatches,
    multiplier: float,
    steps: int,
    relation: Relation,
) -> DpEvent:
    """Of noise whose band ends before a record can take part again."""
    if steps == 0:
        return batches.banded(multiplier, 1, steps, relation)
    once = _Question(noise, _content(noise), steps, Participation(1, 1, even=True))
    band = _band(once)
    if band > batches.cycle:
        raise ValueError(
            f"noise must be banded by at most cycle = {batches.cycle} on cyclic Poisson batches, "
            f"since no theorem covers participations whose noise overlaps; got "
            f"{type(noise).__name__}, which spreads a step over {band}"
        )
    column = math.nextafter(multiplier / _sensitivity(once), 0.0)
    return batches.banded(column, band, steps, relation)


@dataclass(frozen=True)
class _Question:
    """Of a noise, compared by what the noise holds."""

    noise: Noise = field(compare=False)
    content: object
    steps: int
    participation: Participation


@lru_cache(maxsize=128)
def _sensitivity(asked: _Question) -> float:
    """How far one record of unit norm moves ``C g``, rounded up; plans ask again and again."""
    times, gap, even = asked.participation
    factorisation = asked.noise.factorisation(asked.steps)
    return factorisation.sensitivity(times, gap, even=even) * (1.0 + _ROUND_OFF)


@lru_cache(maxsize=128)
def _band(asked: _Question) -> int:
    """Over how many rows of ``C`` a step is spread."""
    return asked.noise.factorisation(asked.steps).band


def _content(noise: Noise) -> object:
    """Structure and numbers, arrays by their digests."""
    leaves, structure = jax.tree.flatten(noise)
    arrays = [np.asarray(leaf) for leaf in leaves]
    return structure, tuple(
        (array.dtype.str, array.shape, hashlib.sha256(array.tobytes()).digest()) for array in arrays
    )

"""The event of all noise with memory."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field
from functools import lru_cache

import jax
import numpy as np
from dp_accounting import DpEvent, GaussianDpEvent, SelfComposedDpEvent

from privopt.mechanisms.batches import Batches, Participation
from privopt.mechanisms.noise.noise import Noise
from privopt.spec import Relation

__all__ = ["participation_event"]

_ROUND_OFF = 1e-9  # of a sensitivity computed in float64, relative


def participation_event(
    noise: Noise, batches: Batches, multiplier: float, steps: int, relation: Relation
) -> DpEvent:
    """``steps`` answers with correlated noise: one Gaussian mechanism.

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
        ``GaussianDpEvent(multiplier/sensitivity)``, rounded down; of no steps, none of them.

    Raises
    ------
    ValueError
        Where no theorem covers the batches, or the noise is shorter than ``steps``.

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
    participation = batches.participation(steps, relation)
    if participation.times == 0:
        return SelfComposedDpEvent(GaussianDpEvent(multiplier), 0)
    sensitivity = _sensitivity(_Question(noise, _content(noise), steps, participation))
    return GaussianDpEvent(math.nextafter(multiplier / sensitivity, 0.0))


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


def _content(noise: Noise) -> object:
    """Structure and numbers, arrays by their digests."""
    leaves, structure = jax.tree.flatten(noise)
    arrays = [np.asarray(leaf) for leaf in leaves]
    return structure, tuple(
        (array.dtype.str, array.shape, hashlib.sha256(array.tobytes()).digest()) for array in arrays
    )

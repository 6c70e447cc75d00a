"""What a kind of noise has to answer."""

from __future__ import annotations

from typing import Protocol

from dp_accounting import DpEvent
from jax import Array

from privopt.mechanisms.batches import Batches
from privopt.release import Pytree
from privopt.spec import Relation

__all__ = ["Noise"]


class Noise(Protocol):
    r"""What is added: ``z_t = \sum_{s <= t} C_{ts} xi_s`` with independent ``xi_s ~ N(0, I)``.

    Step ``t`` answers ``g_t + sigma z_t``. For independent noise ``C`` is the identity. Other
    lower-triangular ``C`` remember: the answers are then a post-processing of ``C^{-1} g + sigma
    xi``, and privacy is that of one Gaussian mechanism whose sensitivity is that of ``C^{-1}``
    under the participation of a record.

    An implementation is a frozen dataclass registered as a pytree
    (:func:`privopt.convex.pytree_dataclass`),
    in a file of its own; its arrays enter by argument.
    """

    def begin(self, point: Pytree) -> Pytree:
        """Memory before the first step, of the shape of ``point``, the parameter; a pytree."""

    def next(self, memory: Pytree, t: Array, key: Array, like: Pytree) -> tuple[Pytree, Pytree]:
        """``(z_t, memory)``, ``z_t`` a pytree like ``like``, the gradient.

        ``key`` is that of the run: the noise of step ``t`` comes from ``fold_in(key, t)``.
        """

    def event(self, batches: Batches, multiplier: float, steps: int, relation: Relation) -> DpEvent:
        """What ``steps`` answers on these batches do to privacy.

        ``multiplier`` is ``sigma`` over the largest share of one record in an answer. Independent
        noise asks ``batches.composed``, noise with memory ``batches.participation``.

        Raises
        ------
        ValueError
            Where no theorem covers this noise on these batches, with the reason.
        """

"""Fresh Gaussian noise in every step."""

from __future__ import annotations

from dataclasses import dataclass

from dp_accounting import DpEvent
from jax import Array

from privopt.convex import pytree_dataclass
from privopt.factorisations import Factorisation, factorise
from privopt.mechanisms.batches import Batches
from privopt.mechanisms.noise.vectors import drawn, restored
from privopt.release import Pytree
from privopt.spec import Relation


@pytree_dataclass
@dataclass(frozen=True)
class IndependentNoise:
    """``z_t ~ N(0, I)``, independent of all others.

    The draws end at ``draws.NORMAL_REACH`` standard deviations, which the calibration charges to
    ``delta``.
    """

    variance = 1.0

    def begin(self, point: Pytree) -> tuple[()]:
        """Nothing is remembered."""
        del point
        return ()

    def next(
        self, memory: tuple[()], t: Array, key: Array, like: Pytree
    ) -> tuple[Pytree, tuple[()]]:
        """From ``fold_in(key, t)``."""
        return restored(drawn(key, t, like), like), memory

    def factorisation(self, steps: int) -> Factorisation:
        """``C = I``."""
        return factorise("independent", steps)

    def event(self, batches: Batches, multiplier: float, steps: int, relation: Relation) -> DpEvent:
        """What the batches say."""
        return batches.composed(multiplier, steps, relation)

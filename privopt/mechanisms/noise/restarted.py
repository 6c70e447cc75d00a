"""Noise that begins anew after every epoch."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import Array

from privopt.arguments import answering, count
from privopt.convex import pytree_dataclass
from privopt.factorisations import Factorisation, RestartedFactorisation
from privopt.mechanisms.noise.noise import QUESTIONS, CorrelatedNoise, Noise
from privopt.release import Pytree


@pytree_dataclass
@dataclass(frozen=True, eq=False)
class RestartedNoise(CorrelatedNoise):
    """``noise`` from its first step again, with fresh draws, after every ``period`` steps.

    Formal guarantee
    ----------------
    ``C`` is block diagonal: epochs have independent noise, and a record that takes part in several
    of them moves each.

    Examples
    --------
    >>> from privopt.mechanisms import TreeNoise
    >>> noise = RestartedNoise(TreeNoise(), 4)
    >>> noise.factorisation(8).variances()
    array([1., 1., 2., 1., 2., 2., 3., 2.])
    """

    noise: Noise
    period: int

    def __post_init__(self) -> None:
        answering("noise", self.noise, QUESTIONS)
        count("period", self.period)

    @property
    def variance(self) -> float | None:  # type: ignore[override]
        """Of the noise of an epoch, where it is said."""
        return getattr(self.noise, "variance", None)

    def begin(self, point: Pytree) -> Pytree:
        """The memory of the first epoch."""
        return self.noise.begin(point)

    def next(self, memory: Pytree, t: Array, key: Array, like: Pytree) -> tuple[Pytree, Pytree]:
        """Epoch ``e`` draws from ``fold_in(key, e)``."""
        t = jnp.asarray(t)
        epoch, place = jnp.divmod(t, jnp.asarray(self.period).astype(t.dtype))
        # A loop of one turn or none: a choice between two memories would copy them in every step.
        begun = (place == 0).astype(t.dtype)
        memory = jax.lax.fori_loop(0, begun, lambda _, old: self.noise.begin(like), memory)
        return self.noise.next(memory, place, jax.random.fold_in(key, epoch), like)

    def factorisation(self, steps: int) -> Factorisation:
        """One block for each epoch, the last one perhaps cut short."""
        return RestartedFactorisation(self.noise.factorisation(int(self.period)), steps)

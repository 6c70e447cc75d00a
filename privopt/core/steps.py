"""A run as its steps, from which whole runs and steppers are made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from privopt.convex.vectors import Number
from privopt.core.outcome import Run
from privopt.release import Pytree


class Steps(NamedTuple):
    """One run on the device, as steps between which one may stop.

    Attributes
    ----------
    planned : int or Array
        ``T``, or the most steps there may be.
    init : callable
        ``() -> state``, a pytree with a field ``t``, the steps taken.
    until : callable
        ``(state, last) -> state`` after step ``last``: a loop, so that one step and all of them are
        the same program with the same bits.
    ends : callable
        ``state -> Run``: what a run that ends here releases.
    """

    planned: Number | int
    init: Callable[[], Pytree]
    until: Callable[[Pytree, Array], Pytree]
    ends: Callable[[Pytree], Run]


def whole(steps: Callable[..., Steps]) -> Callable[..., Run]:
    """``Algorithm.run`` of an algorithm that gives its steps: all of them."""
    return _Whole(steps)


@dataclass(frozen=True)
class _Whole:
    """A class, so that plans that hold it can be pickled and compared."""

    steps: Callable[..., Steps]

    def __call__(self, *arguments: Pytree) -> Run:
        found = self.steps(*arguments)
        return found.ends(found.until(found.init(), jnp.asarray(found.planned)))

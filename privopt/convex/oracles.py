"""What a first-order run asks, once a step, and who may look on."""

from __future__ import annotations

from typing import Protocol

import jax
from jax import Array

from privopt.convex.vectors import Number
from privopt.release import Pytree


class Oracle:
    """Answers one question a step, ``t = 0 .. T - 1``, and may remember.

    An answer is a pytree that the update of the run understands: a gradient for an optax update,
    or whatever else the two agree on. Subclasses say ``ask`` and what they need of the rest.

    ``steps`` is ``T``, or the most there may be where the oracle ``stops``: a new number does not
    recompile. ``block`` and ``stops`` are static: the batches of ``block`` steps are drawn at
    once, which costs less and changes no bit, 0 where none is drawn; ``stops`` says whether
    ``is_over`` may end the run before ``T``.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> class Slope(Oracle):
    ...     steps = 10
    ...     def ask(self, memory, t, point, batch):
    ...         return 2.0 * point, memory
    >>> gradient, memory = Slope().ask((), 0, jnp.ones(2), None)
    >>> gradient.tolist()
    [2.0, 2.0]
    """

    steps: Number | int
    block: int = 0
    stops: bool = False

    def begin(self, point: Pytree) -> Pytree:
        """The memory before the first question, a pytree, for a parameter like ``point``."""
        del point
        return ()

    def draw(self, k: Array) -> Pytree:
        """The batches of steps ``k block .. (k + 1) block - 1``, along a leading axis."""
        raise NotImplementedError

    def batch(self, t: Array) -> Pytree:
        """The batch of step ``t``; None where none is drawn."""
        if self.block == 0:
            return None
        return jax.tree.map(lambda leaf: leaf[t % self.block], self.draw(t // self.block))

    def ask(
        self, memory: Pytree, t: Array, point: Pytree, batch: Pytree = None
    ) -> tuple[Pytree, Pytree]:
        """``(answer, memory)`` of step ``t`` at ``point``, on its batch if that is at hand."""
        raise NotImplementedError

    def is_over(self, memory: Pytree) -> Array:
        """Whether no further question is answered; asked where ``stops``.

        The number of steps is seen, so what is remembered must then be public: coins, or what has
        been released.
        """
        raise NotImplementedError

    def secret(self, memory: Pytree, t: Array, point: Pytree, batch: Pytree = None) -> Pytree:
        """What the answer is made from, before noise; for observers."""
        del memory, t, point, batch


class Observer(Protocol):
    """Folds what happens at every step of an iterative run; hashable.

    Regret, norms of gradients, sizes of batches. What comes of it is ``Run.secret.observed``: it
    reads the data without noise, for experiments, is never to be published, and enters no release.
    """

    def begin(self, point: Pytree, secret: Pytree) -> Pytree:
        """The memory before the first step, a pytree of arrays.

        The run starts from ``point``; ``secret`` is the :class:`EmpiricalRisk` of the records.
        """

    def observe(self, memory: Pytree, t: Array, point: Pytree, secret: Pytree) -> Pytree:
        """The memory after step ``t = 0, 1, ...``, which was asked about at ``point``.

        ``secret`` is what the oracle saw before its noise, such as ``mechanisms.BatchMean``.
        """

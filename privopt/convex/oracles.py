"""What a first-order method asks, and who may look on."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from jax import Array

from privopt.convex.pytree_dataclass import Pytree
from privopt.convex.vectors import Number

__all__ = ["GradientOracle", "Observer"]


class GradientOracle(NamedTuple):
    """Answers ``steps`` questions for a gradient, ``t = 0 .. T - 1``, and may remember.

    Attributes
    ----------
    steps : int
        ``T``; where ``stop`` is given, the most there may be. A number: a new one does not
        recompile.
    begin : callable
        ``point -> memory`` before the first question, a pytree; sees the shape of the parameter.
    ask : callable
        ``(memory, t, point) -> (gradient, memory)``, and ``(memory, t, point, drawn)`` where
        ``draw`` is given.
    draw : callable, optional
        ``k -> drawn``: randomness of the questions ``k block .. (k + 1) block - 1``, which costs
        less for many at once. ``ask`` without it draws the same.
    block : int
        Static.
    renew : callable, optional
        Answers in place of ``ask`` at ``t = 0, period, 2 period, ...``. These questions are a loop
        of their own: as a branch inside one loop, what they cost would be spent at every step
        wherever runs are mapped. Not beside ``draw``.
    period : int, optional
        A number.
    stop : callable, optional
        ``memory -> bool``: no further question once it is true. What is remembered must then be
        public, since the number of steps is seen: coins, or what has been released.
    secret : callable, optional
        ``(memory, t, point) -> secret`` (and ``drawn``, as for ``ask``): what the answer is made
        from, before noise; for observers.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> def ask(memory, t, point):
    ...     return 2.0 * point, memory
    >>> oracle = GradientOracle(steps=10, begin=lambda point: (), ask=ask)
    >>> gradient, memory = oracle.ask(oracle.begin(jnp.ones(2)), jnp.asarray(0), jnp.ones(2))
    >>> gradient.tolist()
    [2.0, 2.0]
    """

    steps: Number | int
    begin: Callable[[Pytree], Pytree]
    ask: Callable[..., tuple[Pytree, Pytree]]
    draw: Callable[[Array], Pytree] | None = None
    block: int = 1
    renew: Callable[[Pytree, Array, Pytree], tuple[Pytree, Pytree]] | None = None
    period: Number | int | None = None
    stop: Callable[[Pytree], Array] | None = None
    secret: Callable[..., Pytree] | None = None


class Observer(Protocol):
    """Folds what happens at every step of an iterative run; hashable.

    Regret, norms of gradients, sizes of batches. What comes of it is ``Run.secret.observed``: it
    reads the data without noise, for experiments, is never to be published, and enters no release.
    """

    def begin(self, point: Pytree, secret: Pytree) -> Pytree:
        """The memory before the first step, a pytree of arrays.

        Parameters
        ----------
        point : pytree of Array
            Where the run starts.
        secret : EmpiricalRisk
            The losses of the records themselves.
        """

    def observe(self, memory: Pytree, t: Array, point: Pytree, secret: Pytree) -> Pytree:
        """The memory after step ``t = 0, 1, ...``, which was asked about at ``point``.

        ``secret`` is what the oracle saw before its noise, such as ``mechanisms.BatchMean``.
        """

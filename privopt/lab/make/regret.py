"""The losses that a run meets on its way: an observer, and what becomes a regret."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from privopt.convex import EmpiricalRisk
from privopt.convex.vectors import two_sum
from privopt.mechanisms import BatchMean
from privopt.release import Pytree


class Played(NamedTuple):
    """``sum_t f_t(w_t)``, as a sum and what rounding has taken from it.

    Attributes
    ----------
    total, missing : Array
        Their sum is the sum of the losses.
    taken, places : Array
        Numbers of records: in all batches together, and that a batch has places for. Where all
        records take part these are the number of steps, and 1.
    """

    total: Array
    missing: Array
    taken: Array
    places: Array


class StreamLosses(NamedTuple):
    """An observer of ``sum_t f_t(w_t)``, ``f_t(w) = (1/b) sum_{i in B_t} loss(w; x_i)``.

    ``w_t`` is the point before step ``t``, and ``b`` how many places a batch has: the mean loss of
    a batch that is full. The sum is compensated, so that a million steps of float32 lose nothing
    but one rounding. It reads the data without noise and is never to be published.

    What comes of it is ``Run.secret.observed``, a :class:`Played`.

    Examples
    --------
    >>> import jax
    >>> import numpy as np
    >>> import privopt
    >>> facts = privopt.ProblemClass(n=50, dim=2, lipschitz=1.0, radius=1.0)
    >>> budget = privopt.Budget(epsilon=1.0, delta=1e-5, relation="replace_one")
    >>> plan = privopt.ALGORITHMS["dp_gd"].plan(facts, budget, steps=3)
    >>> where = privopt.problems.distance(np.ones((50, 2)) / 2, problem_class=facts)
    >>> execution = privopt.core.Execution(observer=StreamLosses())
    >>> found = privopt.core.run(plan, where, jax.random.key(0), execution=execution)
    >>> played = found.secret.observed
    >>> bool(played.total > 0.0), played.taken.item(), played.places.item()
    (True, 3, 1)
    """

    def begin(self, point: Pytree, secret: EmpiricalRisk) -> Played:
        """Nothing played yet."""
        del point
        none, count = jnp.zeros((), secret.dtype), jnp.zeros((), jnp.int32)
        return Played(none, none, count, count)

    def observe(self, memory: Played, t: Array, point: Pytree, secret: BatchMean) -> Played:
        """The loss of batch ``t`` added."""
        del t
        loss, taken, places = _batch_loss(secret, point)
        total, lost = two_sum(memory.total, loss)
        return Played(total, memory.missing + lost, memory.taken + taken, jnp.int32(places))


def _batch_loss(seen: BatchMean, point: Pytree) -> tuple[Array, Array | int, int]:
    """``f_t``, how many records are in the batch, and for how many it has places."""
    risk = seen.losses
    if seen.batch is None:
        return risk.value(point), 1, 1
    numbers, taken = seen.batch
    rows, there = risk.rows_by_number()(numbers)
    taken = taken & there
    losses, places = risk.losses(point, rows), rows.shape[0]
    return jnp.where(taken, losses, 0.0).sum() / places, taken.sum(dtype=jnp.int32), places

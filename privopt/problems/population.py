"""A population: the distribution that records are drawn from, on finitely many of them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import DTypeLike

from privopt.convex import EmpiricalRisk, pytree_dataclass


@pytree_dataclass
@dataclass(frozen=True)
class Population:
    """``F_P(w) = sum_j p_j loss(w; x_j)``, and ``n`` independent draws from ``p`` for every run.

    On finitely many records the risk is a finite sum and its minimiser can be certified. ``risk``
    is ``F_P``, with the expected multiplicities ``n p_j``.

    Examples
    --------
    >>> import numpy as np
    >>> from privopt.problems import linear
    >>> from privopt.spec import ProblemClass
    >>> facts = ProblemClass(n=10, dim=1, lipschitz=1.0, radius=1.0)
    >>> problem = linear([[1.0], [-1.0]], probabilities=[0.75, 0.25], problem_class=facts)
    >>> drawn = problem.source.sample(jax.random.key(0))
    >>> drawn.counts.sum().item(), problem.risk(np.ones(1))
    (10.0, -0.5)
    """

    risk: EmpiricalRisk
    n: int = field(metadata={"static": True})

    @property
    def dtype(self) -> jnp.dtype:
        """Of the floating data."""
        return self.risk.dtype

    def astype(self, dtype: DTypeLike) -> Population:
        """Every floating array cast."""
        return Population(self.risk.astype(dtype), self.n)

    def keys(self, key: Array) -> tuple[Array, Array]:
        """Return the key of the records and the key of the noise."""
        records, noise = jax.random.split(key)
        return records, noise

    def sample(self, key: Array | None) -> EmpiricalRisk:
        """Return the empirical risk of ``n`` draws.

        It holds how often each record was drawn. Only in a random order are these independent
        draws.
        """
        assert key is not None
        assert self.risk.counts is not None
        below = jnp.cumsum(self.risk.counts)
        uniform = jax.random.uniform(key, (self.n,), below.dtype)
        drawn = jnp.searchsorted(below, uniform * below[-1], side="right")
        counts = jnp.zeros_like(below).at[drawn].add(1.0, mode="drop")
        return replace(self.risk, counts=counts)

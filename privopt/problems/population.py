"""Populations: probability distributions on finitely many records."""

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
    """Population risk ``F_P(w) = sum_j p_j loss(w; x_j)``, with ``n`` independent samples per run.

    The risk is a finite sum, so its minimiser can be certified. ``risk`` is ``F_P`` with the
    expected multiplicities ``n p_j``.

    Examples
    --------
    >>> import numpy as np
    >>> from privopt.problems import linear
    >>> from privopt.spec import ProblemClass
    >>> facts = ProblemClass(n=10, dim=1, lipschitz=1.0, radius=1.0)
    >>> problem = linear([[1.0], [-1.0]], probabilities=[0.75, 0.25], problem_class=facts)
    >>> sample = problem.source.sample(jax.random.key(0))
    >>> sample.counts.sum().item(), problem.risk(np.ones(1))
    (10.0, -0.5)
    """

    risk: EmpiricalRisk
    n: int = field(metadata={"static": True})

    @property
    def dtype(self) -> jnp.dtype:
        """Data type of the floating-point data."""
        return self.risk.dtype

    def astype(self, dtype: DTypeLike) -> Population:
        """Cast every floating-point array to ``dtype``."""
        return Population(self.risk.astype(dtype), self.n)

    def keys(self, key: Array) -> tuple[Array, Array]:
        """Return the key of the records and the key of the noise."""
        records, noise = jax.random.split(key)
        return records, noise

    def sample(self, key: Array | None) -> EmpiricalRisk:
        """Return the empirical risk of ``n`` sampled records, with their multiplicities.

        The records are independent samples only if they are processed in random order.
        """
        assert key is not None
        assert self.risk.counts is not None
        cumulative = jnp.cumsum(self.risk.counts)
        uniform = jax.random.uniform(key, (self.n,), cumulative.dtype)
        indices = jnp.searchsorted(cumulative, uniform * cumulative[-1], side="right")
        counts = jnp.zeros_like(cumulative).at[indices].add(1.0, mode="drop")
        return replace(self.risk, counts=counts)

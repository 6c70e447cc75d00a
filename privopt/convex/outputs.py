"""Output rules of first-order methods: means of the iterates ``w_1, ..., w_{T+1}``.

A rule is the last iterate, or a running mean ``v <- v + a_t (w_t - v)`` over ``t = 2..T+1`` from
``v = w_1``, defined by its weights ``a_t``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import jax
import jax.numpy as jnp
from jax import Array

from privopt.arguments import checked, real, shown
from privopt.convex.pytree_dataclass import pytree_dataclass
from privopt.convex.vectors import Number, require_positive

Weights = Callable[[Array], Array]


class Output(Protocol):
    """Rule that selects a mean of the iterates."""

    def weights(self, key: Array, steps: Array | None, dtype: jnp.dtype) -> Weights | None:
        """Return the function ``t -> a_t`` for ``t = 2..T+1``; ``None`` for the last iterate.

        ``steps`` is ``T``, or None if the run stops at a step that is not known in advance.
        """


@checked
def checked_output(output: object) -> Output:
    """Check that ``output`` is an output rule and return it."""
    if isinstance(output, type) or not callable(getattr(output, "weights", None)):
        raise ValueError(
            f"output must be an output rule, such as convex.Average(), got {shown(output)}"
        )
    return output  # type: ignore[return-value]


@pytree_dataclass
@dataclass(frozen=True)
class Average:
    """Running mean with ``a_t = 1/(1 + growth (t - 1 - skip))``.

    ``growth = 1`` weights all iterates equally, smaller values prefer later iterates, and 0 keeps
    the last iterate alone. The first ``skip`` iterates have no weight. Both are arguments of the
    compiled program, so that all these rules share it. By default the mean of all iterates,
    ``(w_1 + .. + w_{T+1})/(T + 1)``.

    Examples
    --------
    >>> weights = Average().weights(jax.random.key(0), None, jnp.dtype(float))
    >>> weights(jnp.arange(2, 6)).round(2).tolist()
    [0.5, 0.33, 0.25, 0.2]
    """

    growth: Number = 1.0
    skip: int = 0

    def __post_init__(self) -> None:
        if not 0.0 <= real("growth", self.growth) <= 1.0:
            raise ValueError(f"growth must lie in [0, 1], got {shown(self.growth)}")
        if self.skip not in (0, 1):
            raise ValueError(f"skip must be 0 or 1, got {shown(self.skip)}")

    def weights(self, key: Array, steps: Array | None, dtype: jnp.dtype) -> Weights:
        del key, steps

        def weight(t: Array) -> Array:
            growth = jnp.asarray(self.growth, dtype)
            return 1.0 / (1.0 + growth * (t - 1 - jnp.asarray(self.skip, t.dtype)).astype(dtype))

        return weight


def last_iterate() -> Average:
    """Return the rule of the last iterate ``w_{T+1}``."""
    return Average(growth=0.0)


def average_after_step() -> Average:
    """Return the mean without the start, ``(w_2 + .. + w_{T+1})/T``, of smooth losses."""
    return Average(skip=1)


@checked
def polynomial_average(power: float = 1.0) -> Average:
    """Return the mean with weights ``t (t + 1) ... (t + p - 1)``, ``p = power``.

    ``a_t = (p + 1)/(t + p)``. The weights are proportional to ``t`` for power 1.

    Source: Shamir and Zhang 2013, "Stochastic gradient descent for non-smooth optimization",
    section 4 (polynomial-decay averaging).

    Examples
    --------
    >>> weights = polynomial_average(1.0).weights(jax.random.key(0), None, jnp.dtype(float))
    >>> weights(jnp.arange(2, 6)).round(2).tolist()
    [0.67, 0.5, 0.4, 0.33]
    """
    require_positive("power", power)
    return Average(growth=1.0 / (power + 1.0))


@pytree_dataclass
@dataclass(frozen=True)
class RandomIterate:
    """Iterate ``w_t`` at a uniformly random ``t`` in ``1..T+1``, sampled with the key of the run.

    If ``T`` is not known in advance, by reservoir sampling: ``w_t`` replaces the current iterate
    with probability ``1/t``.
    """

    def weights(self, key: Array, steps: Array | None, dtype: jnp.dtype) -> Weights:
        if steps is None:

            def replaces(t: Array) -> Array:
                uniform = jax.random.uniform(jax.random.fold_in(key, t), (), jnp.float32)
                return (uniform * t.astype(uniform.dtype) < 1.0).astype(dtype)

            return replaces
        selected = jax.random.randint(key, (), 1, steps + 2, steps.dtype)
        return lambda t: (t == selected).astype(dtype)

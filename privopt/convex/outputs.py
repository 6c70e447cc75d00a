"""Output rules: what a first-order method returns of its iterates ``w_1, ..., w_{T+1}``.

Each is a running mean from ``v = w_1``, ``v <- v + a_t (w_t - v)`` over ``t = 2..T+1``, known by
its weights ``a_t``; or the last of all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from privopt.arguments import checked, shown
from privopt.convex.pytree_dataclass import pytree_dataclass
from privopt.convex.vectors import Number, on_host, require_positive

Weights = Callable[[Array], Array]


class Output(Protocol):
    """Which mean of the iterates is returned."""

    def weights(self, key: Array, steps: Array | None, dtype: jnp.dtype) -> Weights | None:
        """``t -> a_t`` for ``t = 2..T+1``; ``None`` for the last iterate.

        ``steps`` is ``T``, or None where the run stops at a step that is not known before; then a
        ValueError, if the rule has to know it.
        """


@checked
def checked_output(output: object) -> Output:
    """``output``, if it is a rule."""
    if isinstance(output, type) or not callable(getattr(output, "weights", None)):
        raise ValueError(
            f"output must be an output rule, such as convex.Average(), got {shown(output)}"
        )
    return output  # type: ignore[return-value]


@pytree_dataclass
@dataclass(frozen=True)
class Last:
    """``w_{T+1}``, after the last step."""

    def weights(self, key: Array, steps: Array | None, dtype: jnp.dtype) -> None:
        del key, steps, dtype


@pytree_dataclass
@dataclass(frozen=True)
class Average:
    """``(w_1 + .. + w_{T+1})/(T + 1)``.

    Examples
    --------
    >>> weights = Average().weights(jax.random.key(0), None, jnp.dtype(float))
    >>> weights(jnp.arange(2, 6)).round(2).tolist()
    [0.5, 0.33, 0.25, 0.2]
    """

    def weights(self, key: Array, steps: Array | None, dtype: jnp.dtype) -> Weights:
        del key, steps
        return lambda t: 1.0 / t.astype(dtype)


@pytree_dataclass
@dataclass(frozen=True)
class AverageAfterStep:
    """``(w_2 + .. + w_{T+1})/T``: the mean of the points that the steps lead to.

    What the theorem of smooth losses bounds.
    """

    def weights(self, key: Array, steps: Array | None, dtype: jnp.dtype) -> Weights:
        del key, steps
        return lambda t: 1.0 / (t - 1).astype(dtype)


@pytree_dataclass
@dataclass(frozen=True)
class PolynomialAverage:
    """Weights in proportion to ``t (t + 1) ... (t + p - 1)``, for ``power`` 1 to ``t``.

    Source: Shamir and Zhang 2013, "Stochastic gradient descent for non-smooth optimization",
    section 4 (polynomial-decay averaging).

    Examples
    --------
    >>> weights = PolynomialAverage(1.0).weights(jax.random.key(0), None, jnp.dtype(float))
    >>> weights(jnp.arange(2, 6)).round(2).tolist()
    [0.67, 0.5, 0.4, 0.33]
    """

    power: Number = 1.0

    def __post_init__(self) -> None:
        require_positive("power", self.power)

    def weights(self, key: Array, steps: Array | None, dtype: jnp.dtype) -> Weights:
        del key, steps
        return lambda t: jnp.asarray((self.power + 1.0) / (t.astype(dtype) + self.power))


@pytree_dataclass
@dataclass(frozen=True)
class Suffix:
    """The average of the last ``ceil(fraction (T + 1))`` of all; ``0 < fraction <= 1``.

    Examples
    --------
    >>> weights = Suffix(0.5).weights(jax.random.key(0), jnp.asarray(3), jnp.dtype(float))
    >>> weights(jnp.arange(2, 5)).tolist()
    [0.0, 1.0, 0.5]
    """

    fraction: Number

    def __post_init__(self) -> None:
        require_positive("fraction", self.fraction)
        if on_host(self.fraction) and np.any(np.asarray(self.fraction) > 1.0):
            raise ValueError(f"fraction must be at most 1, got {shown(self.fraction)}")

    def weights(self, key: Array, steps: Array | None, dtype: jnp.dtype) -> Weights:
        del key
        if steps is None:
            raise ValueError(
                "output must not need the number of steps where the run may stop before, got "
                f"{type(self).__name__}"
            )
        points = jnp.asarray(steps).astype(dtype) + 1.0
        left_out = points - jnp.clip(jnp.ceil(self.fraction * points), 1.0, points)

        def weight(t: Array) -> Array:
            rank = t.astype(dtype) - left_out
            return jnp.where(rank > 0.0, 1.0 / jnp.maximum(rank, 1.0), 0.0)

        return weight


@pytree_dataclass
@dataclass(frozen=True)
class RandomIterate:
    """``w_t`` at a uniformly random ``t`` of ``1..T+1``, drawn from the run's key.

    Where ``T`` is not known before, by a reservoir: ``w_t`` takes the place of the one that is held
    with probability ``1/t``.
    """

    def weights(self, key: Array, steps: Array | None, dtype: jnp.dtype) -> Weights:
        if steps is None:

            def changes(t: Array) -> Array:
                share = jax.random.uniform(jax.random.fold_in(key, t), (), jnp.float32)
                return (share * t.astype(share.dtype) < 1.0).astype(dtype)

            return changes
        drawn = jax.random.randint(key, (), 1, steps + 2, steps.dtype)
        return lambda t: (t == drawn).astype(dtype)

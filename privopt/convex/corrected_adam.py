"""Adam for gradients with noise of a known variance."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

from privopt.release import Pytree


class Moments(NamedTuple):
    """Exponential means of the gradients and of their squares, and of how many."""

    steps: Array
    first: Pytree
    second: Pytree


def corrected_adam(
    learning_rate: optax.ScalarOrSchedule,
    noise_variance: float,
    b1: float = 0.9,
    b2: float = 0.999,
    floor: float = 0.1,
    eps: float = 1e-8,
) -> optax.GradientTransformation:
    """Adam whose second moment leaves out the noise: ``m / (sqrt(max(u - v, floor v)) + eps)``.

    ``E u = E g^2 + v`` for gradients ``g`` with noise of variance ``v`` a coordinate. Where noise
    leads, Adam's denominator is that of the noise and the method is descent with another step
    size; without ``v`` it is Adam's again.

    Parameters
    ----------
    learning_rate : float or schedule
    noise_variance : float
        ``v >= 0``, public.
    b1, b2 : float
        Decay of the two means.
    floor : float
        The least denominator, as a share of ``v``: about three standard deviations of ``u`` at
        the default ``b2``.
    eps : float
        Added to the root.

    Source: Tang, Shpilevskiy and Lecuyer 2024, "DP-AdamBC" (the correction); the floor is ours.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> adam = corrected_adam(0.1, noise_variance=3.0)
    >>> updates, _ = adam.update(jnp.array([2.0]), adam.init(jnp.zeros(1)))
    >>> updates.round(4).tolist()
    [-0.2]
    """

    def init(params: Pytree) -> Moments:
        zeros = jax.tree.map(jnp.zeros_like, params)
        return Moments(jnp.zeros((), jnp.int32), zeros, zeros)

    def update(gradients: Pytree, state: Moments, params: Pytree = None) -> tuple[Pytree, Moments]:
        del params
        steps = state.steps + 1

        def moved(mean: Array, new: Array, decay: float) -> Array:
            return decay * mean + (1.0 - decay) * new

        first = jax.tree.map(lambda m, g: moved(m, g, b1), state.first, gradients)
        second = jax.tree.map(lambda u, g: moved(u, jnp.square(g), b2), state.second, gradients)

        def direction(m: Array, u: Array) -> Array:
            t = steps.astype(m.dtype)
            unbiased = u / (1.0 - jnp.asarray(b2, m.dtype) ** t)
            signal = jnp.maximum(unbiased - noise_variance, floor * noise_variance)
            return m / (1.0 - jnp.asarray(b1, m.dtype) ** t) / (jnp.sqrt(signal) + eps)

        return jax.tree.map(direction, first, second), Moments(steps, first, second)

    return optax.chain(
        optax.GradientTransformation(init, update), optax.scale_by_learning_rate(learning_rate)
    )

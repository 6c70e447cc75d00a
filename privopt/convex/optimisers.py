"""Optax optimisers: Adam with noise correction, and follow-the-regularised-leader."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array
from jaxtyping import Int

from privopt.arguments import checked
from privopt.convex.arrays import Number, cast, two_sum
from privopt.release import Pytree


class AdamMoments(NamedTuple):
    """Number of steps and exponential means of the gradients and of their squares."""

    steps: Int[Array, ""]
    first: Pytree
    second: Pytree


@checked
def corrected_adam(
    learning_rate: optax.ScalarOrSchedule,
    noise_variance: float | Array,
    b1: float | Array = 0.9,
    b2: float | Array = 0.999,
    floor: float | Array = 0.1,
    eps: float | Array = 1e-8,
) -> optax.GradientTransformation:
    """Return Adam with a bias-corrected second moment: ``m / (sqrt(max(u - v, floor v)) + eps)``.

    ``E u = E g^2 + v`` for gradients ``g`` with noise of variance ``v`` per coordinate. If the
    noise dominates, the denominator of Adam depends on the noise only, and Adam is gradient descent
    with another step size. For ``v = 0`` the result is Adam.

    ``noise_variance`` is ``v >= 0``, public. ``b1`` and ``b2`` are the decay rates of the two
    means. ``floor`` bounds the squared denominator from below, as a fraction of ``v``; the default
    is about three standard deviations of ``u`` at the default ``b2``. ``eps`` is added to the root.

    Source: Tang, Shpilevskiy and Lecuyer 2024, "DP-AdamBC" (the correction). The floor is not in
    the paper.

    Examples
    --------
    >>> adam = corrected_adam(0.1, noise_variance=3.0)
    >>> updates, _ = adam.update(jnp.array([2.0]), adam.init(jnp.zeros(1)))
    >>> updates.round(4).tolist()
    [-0.2]
    """

    def init(params: Pytree) -> AdamMoments:
        zeros = jax.tree.map(jnp.zeros_like, params)
        return AdamMoments(jnp.zeros((), jnp.int32), zeros, zeros)

    def update(
        gradients: Pytree, state: AdamMoments, params: Pytree = None
    ) -> tuple[Pytree, AdamMoments]:
        del params
        steps = state.steps + 1

        def average(mean: Array, new: Array, decay: float | Array) -> Array:
            return decay * mean + (1.0 - decay) * new

        first = jax.tree.map(lambda m, g: average(m, g, b1), state.first, gradients)
        second = jax.tree.map(lambda u, g: average(u, jnp.square(g), b2), state.second, gradients)

        def direction(m: Array, u: Array) -> Array:
            t = steps.astype(m.dtype)
            unbiased = u / (1.0 - jnp.asarray(b2, m.dtype) ** t)
            signal = jnp.maximum(unbiased - noise_variance, floor * noise_variance)
            return m / (1.0 - jnp.asarray(b1, m.dtype) ** t) / (jnp.sqrt(signal) + eps)

        return jax.tree.map(direction, first, second), AdamMoments(steps, first, second)

    return optax.chain(
        optax.GradientTransformation(init, update), optax.scale_by_learning_rate(learning_rate)
    )


class LeaderState(NamedTuple):
    """State of :func:`projected_leader`: ``V_t = total + remainder``, from ``start``."""

    steps: Int[Array, ""]
    start: Pytree
    velocity: Pytree
    total: Pytree
    remainder: Pytree


@checked
def projected_leader(
    learning_rate: optax.ScalarOrSchedule, momentum: Number = 0.0, period: int | None = None
) -> optax.GradientTransformation:
    r"""Return the leader ``w_{t+1} = Proj(w_1 - eta_t V_t)`` with ``V_t = \sum_{s <= t} m_s``.

    ``m_t = gamma m_{t-1} + g_t``, hence ``V_t = gamma V_{t-1} + g_1 + .. + g_t``. The update of
    ``w_t`` is ``w_1 - eta_t V_t - w_t``; the caller projects. For Euclidean projections, ``gamma =
    0`` and ``eta = 1/Lambda`` this is dual averaging, ``w_{t+1} = argmin_{w in W} <V_t, w> +
    (Lambda/2) |w - w_1|^2``, which keeps gradient components removed by projections. Without a
    constraint it is descent with heavy-ball momentum.

    The sum is compensated: its error does not grow with the number of steps.

    ``learning_rate`` is ``eta_t = 1/Lambda``, ``momentum`` is ``gamma`` in ``[0, 1)``. After every
    ``period`` steps the sum is reset and the current point is the new start; default: no restart.
    ``update`` needs the parameters.

    Source: Kairouz, McMahan, Song, Thakkar, Thakurta and Xu 2021 (arXiv:2103.00039), Algorithm 1
    and section 4 (momentum, restarts); Xiao 2010, "Dual averaging methods for regularized
    stochastic learning and online optimization"; Kahan 1965 (the sum).

    Examples
    --------
    >>> leader = projected_leader(0.1)
    >>> point = start = jnp.zeros(1)
    >>> state = leader.init(start)
    >>> for gradient in (10.0, 10.0, -5.0):
    ...     update, state = leader.update(jnp.full(1, gradient), state, point)
    ...     point = jnp.clip(point + update, -1.0, 1.0)
    >>> point.tolist()
    [-1.0]
    """

    def init(params: Pytree) -> LeaderState:
        zeros = jax.tree.map(jnp.zeros_like, params)
        return LeaderState(jnp.zeros((), jnp.int32), params, zeros, zeros, zeros)

    def update(gradients: Pytree, state: LeaderState, params: Pytree) -> tuple[Pytree, LeaderState]:
        count = state.steps
        if period is not None:
            fresh = init(params)._replace(steps=count)
            new = count % period == 0
            state = jax.tree.map(lambda a, b: jnp.where(new, a, b), fresh, state)
        eta = learning_rate(count) if callable(learning_rate) else learning_rate
        velocity = jax.tree.map(lambda m, g: cast(momentum, m) * m + g, state.velocity, gradients)
        terms = jax.tree.map(jnp.add, velocity, state.remainder)
        sums = jax.tree.map(two_sum, state.total, terms)
        total, remainder = jax.tree.transpose(jax.tree.structure(velocity), None, sums)
        move = jax.tree.map(lambda a, v, w: a - cast(eta, v) * v - w, state.start, total, params)
        return move, LeaderState(count + 1, state.start, velocity, total, remainder)

    return optax.GradientTransformation(init, update)

"""The leader: the sum of all gradients is followed, and projected as late as can be."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

from privopt.convex.vectors import Number, cast, two_sum
from privopt.release import Pytree


class Leader(NamedTuple):
    """What is followed: ``V_t = total + lost``, from ``start``."""

    steps: Array
    start: Pytree
    velocity: Pytree
    total: Pytree
    lost: Pytree


def projected_leader(
    learning_rate: optax.ScalarOrSchedule, momentum: Number = 0.0, period: int | None = None
) -> optax.GradientTransformation:
    r"""``w_{t+1} = Proj(w_1 - eta_t V_t)`` with ``V_t = \sum_{s <= t} m_s``.

    ``m_t = gamma m_{t-1} + g_t``, so that ``V_t = gamma V_{t-1} + g_1 + .. + g_t``. The update of
    ``w_t`` is ``w_1 - eta_t V_t - w_t``, and whoever applies it projects. For Euclidean
    projections at ``gamma = 0`` and ``eta = 1/Lambda`` that is dual averaging, ``w_{t+1} =
    argmin_{w in W} <V_t, w> + (Lambda/2) |w - w_1|^2``: the gradients that a projection cut off
    are not forgotten. Without a constraint it is descent with heavy-ball momentum.

    The sum is compensated: its error does not grow with the number of steps.

    Parameters
    ----------
    learning_rate : float or schedule
        ``eta_t = 1/Lambda``.
    momentum : float
        ``gamma`` in ``[0, 1)``.
    period : int, optional
        Every so many steps a new leader starts from where the last one stands, with nothing in its
        sum. By default there is one leader.

    Returns
    -------
    optax.GradientTransformation
        Whose ``update`` needs the parameters.

    Source: Kairouz, McMahan, Song, Thakkar, Thakurta and Xu 2021 (arXiv:2103.00039), Algorithm 1
    and section 4 (momentum, restarts); Xiao 2010, "Dual averaging methods for regularized
    stochastic learning and online optimization"; Kahan 1965 (the sum).

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> leader = projected_leader(0.1)
    >>> point = start = jnp.zeros(1)
    >>> memory = leader.init(start)
    >>> for gradient in (10.0, 10.0, -5.0):
    ...     update, memory = leader.update(jnp.full(1, gradient), memory, point)
    ...     point = jnp.clip(point + update, -1.0, 1.0)
    >>> point.tolist()
    [-1.0]
    """

    def init(params: Pytree) -> Leader:
        zeros = jax.tree.map(jnp.zeros_like, params)
        return Leader(jnp.zeros((), jnp.int32), params, zeros, zeros, zeros)

    def update(gradients: Pytree, state: Leader, params: Pytree) -> tuple[Pytree, Leader]:
        taken = state.steps
        if period is not None:
            fresh = init(params)._replace(steps=taken)
            new = taken % period == 0
            state = jax.tree.map(lambda a, b: jnp.where(new, a, b), fresh, state)
        eta = learning_rate(taken) if callable(learning_rate) else learning_rate
        velocity = jax.tree.map(lambda m, g: cast(momentum, m) * m + g, state.velocity, gradients)
        added = jax.tree.map(jnp.add, velocity, state.lost)
        sums = jax.tree.map(two_sum, state.total, added)
        total, lost = jax.tree.transpose(jax.tree.structure(velocity), None, sums)
        moved = jax.tree.map(lambda a, v, w: a - cast(eta, v) * v - w, state.start, total, params)
        return moved, Leader(taken + 1, state.start, velocity, total, lost)

    return optax.GradientTransformation(init, update)

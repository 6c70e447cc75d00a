"""DP-GD with jax-privacy 2.0: ``clipped_grad``, ``gaussian_privatizer`` and a jitted update step.

Its examples define the loss of a batch, clip each record by ``vmap`` over batches of one, and call
the jitted step from a Python loop. Forms that may be faster are measured as well: the loss of a
single record, the loop inside ``jit``, and the data as constants of the program.

The projection and the average of the problem are implemented with optax and one line of code;
otherwise a step is the documented one. Microbatches, which reduce its memory, were slower and are
not used.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array
from jax_privacy import clipped_grad
from jax_privacy.noise_addition import gaussian_privatizer


class Setting(NamedTuple):
    """Parameters that both libraries use."""

    features: Array
    labels: Array
    steps: int
    step_size: float
    clip_norm: float
    noise_scale: float
    radius: float


class State(NamedTuple):
    """Iterate, mean of the iterates, number of steps, and state of the privatizer."""

    point: Array
    mean: Array
    step: Array
    noise: Any


def loss(point: Array, features: Array, labels: Array) -> Array:
    """Return the loss of one record or of a batch."""
    return jnp.mean(jax.nn.softplus(-labels * (features @ point)))


def start(setting: Setting, key: Array) -> State:
    origin = jnp.zeros(setting.features.shape[1], setting.features.dtype)
    privatizer = gaussian_privatizer(stddev=setting.noise_scale, prng_key=key)
    return State(origin, origin, jnp.zeros_like(origin, shape=()), privatizer.init(origin))


def update(setting: Setting, *, batched_loss: bool) -> Callable[[State, Array, Array], State]:
    """Return one step of projected, averaged DP-GD."""
    gradient = clipped_grad(
        loss,
        l2_clip_norm=setting.clip_norm,
        batch_argnums=(1, 2),
        keep_batch_dim=batched_loss,
        normalize_by=setting.features.shape[0],
    )
    # Only `update` is used; the state contains the key.
    privatizer = gaussian_privatizer(stddev=setting.noise_scale, prng_key=jax.random.key(0))

    def step(state: State, features: Array, labels: Array) -> State:
        noisy, noise = privatizer.update(gradient(state.point, features, labels), state.noise)
        point = state.point - setting.step_size * noisy
        point = optax.projections.projection_l2_ball(point, setting.radius)
        mean = state.mean + (point - state.mean) / (state.step + 2)  # of all iterates
        return State(point, mean, state.step + 1, noise)

    return step


def descents(setting: Setting) -> dict[str, Callable[[Array], State]]:
    """Return ``key -> final state`` in every documented form."""
    data = setting.features, setting.labels

    def descent(batched_loss: bool, compiled_loop: bool, constants: bool):
        step = update(setting, batched_loss=batched_loss)

        def loop(state: State, *data: Array) -> State:
            return jax.lax.fori_loop(0, setting.steps, lambda _, s: step(s, *data), state)

        body = loop if compiled_loop else step
        if constants:
            once = jax.jit(lambda state: body(state, *data))
        else:
            compiled = jax.jit(body)
            once = lambda state: compiled(state, *data)  # noqa: E731

        def run(key: Array) -> State:
            state = start(setting, key)
            for _ in range(1 if compiled_loop else setting.steps):
                state = once(state)
            return state

        return run

    def name(batched_loss: bool, compiled_loop: bool, constants: bool) -> str:
        return ", ".join(
            (
                "loss of a batch" if batched_loss else "loss of a record",
                "loop in jit" if compiled_loop else "Python loop",
                "data as constants" if constants else "data as arguments",
            )
        )

    return {name(*form): descent(*form) for form in product((True, False), repeat=3)}

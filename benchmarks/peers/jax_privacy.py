"""DP-GD with jax-privacy 2.0: ``clipped_grad``, ``gaussian_privatizer``, a jitted update step.

Its examples give the loss of a batch, clip each record by ``vmap`` over batches of one, and call
the jitted step from a Python loop. Beside that stand the forms that may be faster: the loss of a
single record, the loop inside ``jit``, and the data as constants of the program.

Projection and average, which the problem asks for, are optax and one line; a step is otherwise
the documented one. Microbatches, which save its memory, made it slower and are left out.
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
    """The same numbers for both sides."""

    features: Array
    labels: Array
    steps: int
    step_size: float
    clip_norm: float
    noise_scale: float
    radius: float


class State(NamedTuple):
    """Iterate, mean of the iterates so far, how many, and the privatizer's state."""

    point: Array
    mean: Array
    step: Array
    noise: Any


def loss(point: Array, features: Array, labels: Array) -> Array:
    """Of one record or of a batch."""
    return jnp.mean(jax.nn.softplus(-labels * (features @ point)))


def start(setting: Setting, key: Array) -> State:
    origin = jnp.zeros(setting.features.shape[1], setting.features.dtype)
    privatizer = gaussian_privatizer(stddev=setting.noise_scale, prng_key=key)
    return State(origin, origin, jnp.zeros_like(origin, shape=()), privatizer.init(origin))


def update(setting: Setting, *, batched_loss: bool) -> Callable[[State, Array, Array], State]:
    """One step of projected, averaged DP-GD."""
    gradient = clipped_grad(
        loss,
        l2_clip_norm=setting.clip_norm,
        batch_argnums=(1, 2),
        keep_batch_dim=batched_loss,
        normalize_by=setting.features.shape[0],
    )
    # Only `update` is taken from here; the key comes with the state.
    privatizer = gaussian_privatizer(stddev=setting.noise_scale, prng_key=jax.random.key(0))

    def step(state: State, features: Array, labels: Array) -> State:
        mean = state.mean + (state.point - state.mean) / (state.step + 1)
        noisy, noise = privatizer.update(gradient(state.point, features, labels), state.noise)
        moved = state.point - setting.step_size * noisy
        point = optax.projections.projection_l2_ball(moved, setting.radius)
        return State(point, mean, state.step + 1, noise)

    return step


def descents(setting: Setting) -> dict[str, Callable[[Array], State]]:
    """``key -> final state``, in every documented form."""
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

"""DP-SGD with jax-privacy 2.0 on Poisson batches that its sampler draws on the host.

Batches are padded to one size, as documented, so that all steps use one program. Its examples call
the jitted step from a Python loop. A form that may be faster is measured as well: all batches are
drawn first, and the loop is inside ``jit``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from jax_privacy import clipped_grad
from jax_privacy.batch_selection import CyclicPoissonSampling, pad_to_multiple_of
from jax_privacy.noise_addition import gaussian_privatizer


class Setting(NamedTuple):
    """Parameters that both libraries use."""

    data: tuple[Array, ...]
    start: Any
    loss: Callable[..., Array]
    steps: int
    batch_size: int
    capacity: int
    step_size: float
    clip_norm: float
    noise_scale: float
    project: Callable[[Any], Any]
    batched_loss: bool
    multiple: int | None = (
        None  # padded sizes are multiples of it; by default one size, the capacity
    )


def batches(setting: Setting, seed: int) -> list[np.ndarray]:
    """Return the indices of every step, padded with -1."""
    size = setting.data[0].shape[0]
    sampler = CyclicPoissonSampling(
        sampling_prob=setting.batch_size / size, iterations=setting.steps
    )
    iterator = sampler.batch_iterator(size, rng=np.random.default_rng(seed))
    if setting.multiple is not None:
        return [pad_to_multiple_of(each, setting.multiple) for each in iterator]
    return [
        np.pad(each[: setting.capacity], (0, max(0, setting.capacity - len(each))),
               constant_values=-1)
        for each in iterator
    ]  # fmt: skip


def update(setting: Setting) -> Callable[..., tuple[Any, Any, Any]]:
    """Return one step of projected, averaged DP-SGD."""
    gradient = clipped_grad(
        setting.loss,
        l2_clip_norm=setting.clip_norm,
        batch_argnums=tuple(range(1, 1 + len(setting.data))),
        keep_batch_dim=setting.batched_loss,
        normalize_by=setting.batch_size,
    )
    privatizer = gaussian_privatizer(stddev=setting.noise_scale, prng_key=jax.random.key(0))

    def step(point: Any, mean: Any, noise: Any, t: Array, rows: Array, data: Any):
        mean = jax.tree.map(lambda m, w: m + (w - m) / (t + 1), mean, point)
        batch = [leaf[rows] for leaf in data]
        clipped = gradient(point, *batch, is_padding_example=rows < 0)
        noisy, noise = privatizer.update(clipped, noise)
        following = optax.tree.add_scale(point, -setting.step_size, noisy)
        return setting.project(following), mean, noise

    return step


def prepared(setting: Setting, calls: int, runs: int) -> Callable[[int], Any]:
    """Return ``index -> means of the iterates`` of ``runs`` runs; all batches are drawn here."""
    step = update(setting)
    rows = [
        jnp.asarray(np.stack([batches(setting, seed * calls + i) for seed in range(runs)]))
        for i in range(calls)
    ]

    def one(key: Array, rows: Array) -> Any:
        privatizer = gaussian_privatizer(stddev=setting.noise_scale, prng_key=key)
        zeros = jax.tree.map(jnp.zeros_like, setting.start)

        def body(t: Array, state: Any) -> Any:
            return step(*state, t.astype(jnp.float32), rows[t], setting.data)

        state = setting.start, zeros, privatizer.init(setting.start)
        return jax.lax.fori_loop(0, setting.steps, body, state)[1]

    whole = jax.jit(jax.vmap(one) if runs > 1 else one)

    def call(i: int) -> Any:
        keys = jax.random.split(jax.random.key(i), runs)
        return whole(keys, rows[i]) if runs > 1 else whole(keys[0], rows[i][0])

    return call


def descents(setting: Setting) -> dict[str, Callable[[int], Any]]:
    """Return ``seed -> mean of the iterates`` in both forms. Sampling is part of the run."""
    step = update(setting)
    compiled_step = jax.jit(step)

    def start(seed: int):
        privatizer = gaussian_privatizer(stddev=setting.noise_scale, prng_key=jax.random.key(seed))
        zeros = jax.tree.map(jnp.zeros_like, setting.start)
        return setting.start, zeros, privatizer.init(setting.start)

    def python_loop(seed: int) -> Any:
        state = start(seed)
        for t, rows in enumerate(batches(setting, seed)):
            state = compiled_step(*state, jnp.float32(t), rows, setting.data)
        return state[1]

    @jax.jit
    def whole(state: Any, rows: Array, data: Any) -> Any:
        def body(t: Array, state: Any) -> Any:
            return step(*state, t.astype(jnp.float32), rows[t], data)

        return jax.lax.fori_loop(0, setting.steps, body, state)

    def compiled_loop(seed: int) -> Any:
        return whole(start(seed), np.stack(batches(setting, seed)), setting.data)[1]

    return {"Python loop": python_loop, "loop in jit": compiled_loop}

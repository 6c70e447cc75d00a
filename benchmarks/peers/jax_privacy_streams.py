"""Correlated noise with jax-privacy 2.0: ``matrix_factorization_privatizer`` in a loop."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax_privacy.matrix_factorization import toeplitz
from jax_privacy.noise_addition import matrix_factorization_privatizer


def looped(
    coefficients: np.ndarray, dim: int, steps: int, *, kept: bool = False
) -> Callable[[Array], Array]:
    """Return ``key -> sum of the noisy gradients``, for gradients of zeros."""
    inverse = toeplitz.inverse_as_streaming_matrix(jnp.asarray(coefficients, jnp.float32))
    # Only `init` and `update` are used; the state contains the key.
    privatizer = matrix_factorization_privatizer(inverse, stddev=1.0, prng_key=jax.random.key(0))

    @jax.jit
    def run(key: Array, gradient: Array) -> Array:
        state = key, privatizer.init(gradient)[1]

        def step(carried, _):
            total, state = carried
            noisy, state = privatizer.update(gradient, state)
            return (total + noisy, state), noisy if kept else None

        (total, _), noise = jax.lax.scan(step, (gradient, state), length=steps)
        return noise if kept else total

    zeros = jnp.zeros(dim)
    return lambda key: run(key, zeros)

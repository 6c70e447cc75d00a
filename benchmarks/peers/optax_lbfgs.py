"""L-BFGS of optax with its line search, in the documented loop."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import optax
from jax import Array


def minimise(value: Callable[[Array], Array], start: Array, tolerance: float, steps: int) -> Array:
    """Minimise until the norm of the gradient is ``tolerance``."""
    optimiser = optax.lbfgs()
    value_and_gradient = optax.value_and_grad_from_state(value)

    def step(carry):
        point, state = carry
        here, gradient = value_and_gradient(point, state=state)
        updates, state = optimiser.update(
            gradient, state, point, value=here, grad=gradient, value_fn=value
        )
        return optax.apply_updates(point, updates), state

    def unfinished(carry):
        count = optax.tree.get(carry[1], "count")
        norm = optax.tree.norm(optax.tree.get(carry[1], "grad"))
        return (count == 0) | ((count < steps) & (norm > tolerance))

    return jax.lax.while_loop(unfinished, step, (start, optimiser.init(jnp.asarray(start))))[0]

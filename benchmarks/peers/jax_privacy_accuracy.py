"""DP-SGD of jax-privacy on real records, for logistic or softmax regression, as documented."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from peers.accuracy import answer
from peers.jax_privacy_sgd import Setting, descents


def loss(weights: Array, features: Array, labels: Array) -> Array:
    """Return the loss of a batch."""
    scores = features @ weights.T
    if len(weights) == 1:
        return jnp.mean(jax.nn.softplus(-labels * scores[:, 0]))
    return jnp.mean(
        optax.softmax_cross_entropy_with_integer_labels(scores, labels.astype(jnp.int32))
    )


def fits(data: dict, request: dict) -> Iterator[np.ndarray]:
    """Yield the weights of every seed: the mean of the iterates of projected DP-SGD."""
    features, labels = (jnp.asarray(data[name], jnp.float32) for name in ("features", "labels"))
    rows = 1 if data["labels"].min() < 0.0 else int(data["labels"].max()) + 1
    setting = Setting(
        data=(features, labels),
        start=jnp.zeros((rows, features.shape[1])),
        loss=loss,
        project=lambda weights: optax.projections.projection_l2_ball(weights, request["radius"]),
        batched_loss=True,
        **request["numbers"],
    )
    run = descents(setting)["Python loop"]
    for seed in request["seeds"]:
        yield np.asarray(run(seed), np.float64)


if __name__ == "__main__":
    answer(fits, ("jax-privacy", "jax", "jaxlib", "optax", "numpy"), softmax=True)

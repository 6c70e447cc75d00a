"""Synthetic problems drawn from a key."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from privopt.arguments import checked, shown
from privopt.problems.models import absolute, linear, logistic
from privopt.problems.problem import Problem
from privopt.spec import ProblemClass
from privopt.streams import as_key


@checked
def sphere_classification(
    key: Array, *, n: int, dim: int, radius: float = 10.0, sharpness: float = 5.0
) -> Problem:
    """Logistic regression with features uniform on the unit sphere.

    ``P(y = 1 | x) = sigmoid(sharpness sqrt(dim) <x, u>)`` for a planted uniform direction ``u``;
    the constraint set is the ball of ``radius``. ``L = 1``, ``H = 1/4``.
    """
    problem_class = ProblemClass(
        n=n, dim=dim, lipschitz=_unit(dim), radius=radius, smoothness=0.25 * _unit(dim) ** 2
    )
    feature_key, direction_key, label_key = jax.random.split(as_key(key), 3)
    features = _sphere(feature_key, (n, dim))
    scores = sharpness * dim**0.5 * (features @ _sphere(direction_key, (dim,)))
    labels = jnp.where(jax.random.uniform(label_key, (n,)) < jax.nn.sigmoid(scores), 1.0, -1.0)
    return logistic(
        features,
        labels.astype(features.dtype),
        problem_class=problem_class,
        name="sphere_classification",
    )


@checked
def sphere_regression(
    key: Array, *, n: int, dim: int, radius: float = 1.0, noise: float = 0.1
) -> Problem:
    """Median regression on the unit sphere: ``y = <x, u> + noise * Laplace``, ``|u| = radius``."""
    problem_class = ProblemClass(n=n, dim=dim, lipschitz=_unit(dim), radius=radius)
    feature_key, direction_key, noise_key = jax.random.split(as_key(key), 3)
    features = _sphere(feature_key, (n, dim))
    signal = radius * (features @ _sphere(direction_key, (dim,)))
    labels = signal + noise * jax.random.laplace(noise_key, (n,), features.dtype)
    return absolute(
        features,
        labels,
        problem_class=problem_class,
        name="sphere_regression",
    )


@checked
def one_way_marginals(key: Array, *, n: int, dim: int, informative: int) -> Problem:
    """A prior behind the lower bound: linear losses on sign vectors of unknown means.

    ``informative`` records have independent coordinates ``+-1/sqrt(dim)`` of mean ``p_j /
    sqrt(dim)``, ``p_j ~ U[-1, 1]``; the others are null. Averaged over the key, every private
    algorithm's excess risk is at least that of :mod:`privopt.theory.hard_data`, with one group and
    ``a = 0``. ``L = R = 1``.

    Source: Bun, Ullman and Vadhan 2014; Bassily, Smith and Thakurta 2014, section 5.
    """
    problem_class = ProblemClass(n=n, dim=dim, lipschitz=_unit(dim), radius=1.0, smoothness=0.0)
    if not 1 <= informative <= n:
        raise ValueError(f"informative must lie in [1, n = {n}], got {shown(informative)}")
    mean_key, sign_key = jax.random.split(as_key(key))
    means = jax.random.uniform(mean_key, (dim,), minval=-1.0, maxval=1.0)
    uniform = jax.random.uniform(sign_key, (informative, dim), minval=-1.0, maxval=1.0)
    signs = jnp.where(uniform < means[None], 1.0, -1.0).astype(means.dtype)
    features = jnp.concatenate([signs / dim**0.5, jnp.zeros((1, dim), means.dtype)])
    counts = np.append(np.ones(informative, np.int64), n - informative)
    return linear(
        features,
        problem_class=problem_class,
        counts=counts,
        name="one_way_marginals",
    )


def _sphere(key: Array, shape: tuple[int, ...]) -> Array:
    normal = jax.random.normal(key, shape)
    return normal / jnp.linalg.norm(normal, axis=-1, keepdims=True)


def _unit(dim: int) -> float:
    """The bound 1 on a norm, with room for float32 round-off in computing it."""
    return 1.0 + dim * 2.0**-23

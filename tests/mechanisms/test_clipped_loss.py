"""Sums of losses whose gradients are clipped: convex, Lipschitz, with gradients of their own."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from privopt.mechanisms import (
    clipped_linear_gradient_sum,
    clipped_linear_loss_sum,
    clipped_loss_sum,
)
from privopt.problems.losses import Distance, Hinge, Huber, Linear, Logistic, Squared

LOSSES = [Linear(), Logistic(), Squared(), Huber(0.0), Huber(0.3), Hinge(0.0), Hinge(0.2)]
names = pytest.mark.parametrize("loss", LOSSES, ids=repr)


def data(scale=1.0):
    rng = np.random.default_rng(0)
    features = scale * rng.normal(size=(20, 2))
    return jnp.asarray(features), jnp.asarray(rng.choice([-1.0, 1.0], 20))


@names
def test_equals_the_plain_sum_where_nothing_is_clipped(loss):
    features, labels = data()
    total = clipped_linear_loss_sum(loss, features, labels, None, jnp.array(1e3), jnp.array(2.0))
    for point in np.random.default_rng(1).uniform(-1, 1, size=(5, 2)):
        plain = loss.value(features @ point, labels) - loss.value(jnp.zeros(20), labels)
        assert float(total(jnp.asarray(point))) == pytest.approx(float(plain.sum()), rel=1e-12)


@names
@pytest.mark.parametrize("clip", [0.05, 0.7])
def test_is_the_integral_of_the_clipped_gradient_and_convex(loss, clip):
    """Along random chords, against a sum of gradients over fine steps; and above its tangents."""
    features, labels = data(2.0)
    counts = jnp.asarray(np.arange(20.0) % 3)
    bound, reach = jnp.array(clip), jnp.array(2.0)
    total = jax.jit(clipped_linear_loss_sum(loss, features, labels, counts, bound, reach))
    gradient_sum = clipped_linear_gradient_sum(loss, features, labels, bound)
    gradient = jax.jit(jax.vmap(lambda point: gradient_sum(point, counts)))
    rng = np.random.default_rng(2)
    share = (np.arange(20_000) + 0.5) / 20_000
    for _ in range(4):
        start, end = jnp.asarray(rng.uniform(-1.4, 1.4, size=(2, 2)))
        chord = start[None] + share[:, None] * (end - start)[None]
        slopes = np.asarray(gradient(chord)) @ np.asarray(end - start)
        rise = float(total(end) - total(start))
        assert rise == pytest.approx(slopes.mean(), abs=2e-3 * float(counts.sum()) * clip)
        first = float(gradient(start[None])[0] @ (end - start))
        assert rise >= first - 1e-9
        limit = clip * float(counts.sum()) * float(jnp.linalg.norm(end - start))
        assert abs(rise) <= limit * (1.0 + 1e-12)


@names
@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e200])
def test_no_record_moves_it_by_more_than_the_clip(loss, bad):
    features, labels = data()
    point, other = jnp.array([0.3, -0.9]), jnp.array([-0.5, 0.1])
    numbers = jnp.array(0.7), jnp.array(2.0)
    for where in ("features", "labels"):
        x, y = np.array(features), np.array(labels)
        (x if where == "features" else y)[3] = bad
        whole = clipped_linear_loss_sum(loss, jnp.asarray(x), jnp.asarray(y), None, *numbers)
        x, y = np.delete(x, 3, axis=0), np.delete(y, 3)
        rest = clipped_linear_loss_sum(loss, jnp.asarray(x), jnp.asarray(y), None, *numbers)
        moved = (whole(point) - whole(other)) - (rest(point) - rest(other))
        assert np.isfinite(moved)
        assert abs(float(moved)) <= 0.7 * float(jnp.linalg.norm(point - other)) * (1 + 1e-9)
        if not np.isfinite(bad):
            assert abs(float(moved)) <= 1e-12


def test_any_loss_counts_from_the_centre_and_without_records_that_are_not_finite():
    points = np.random.default_rng(0).normal(size=(6, 2))
    centre, point = jnp.array([0.1, 0.2]), jnp.array([-0.4, 0.9])
    points[2] = np.nan
    points[4] = 1e200
    total = clipped_loss_sum(Distance(), jnp.asarray(points), None, jnp.array(1.0), centre)
    value, gradient = total(point)
    used = np.delete(points, [2, 4], axis=0)
    point, centre = np.asarray(point), np.asarray(centre)
    far = np.linalg.norm(point - used, axis=1)
    expected = (far - np.linalg.norm(centre - used, axis=1)).sum()
    assert float(value) == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(gradient, ((point - used) / far[:, None]).sum(axis=0), rtol=1e-12)

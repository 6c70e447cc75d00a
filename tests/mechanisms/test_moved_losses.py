"""Sums of losses moved from a centre: convex, Lipschitz, with gradients of their own."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from privopt.convex import (
    Distance,
    EmpiricalRisk,
    GeneralisedLinear,
    Hinge,
    Huber,
    Linear,
    Logistic,
    Squared,
    WholeSpace,
)
from privopt.mechanisms import clipped_gradient_sum
from privopt.mechanisms.clipped_risk import moved_loss_sum

LOSSES = [Linear(), Logistic(), Squared(), Huber(0.0), Huber(0.3), Hinge(0.0), Hinge(0.2)]
CENTRE, RADIUS = jnp.array([0.1, -0.2]), jnp.array(2.0)
FINE = jnp.array(1e-9)
names = pytest.mark.parametrize("loss", LOSSES, ids=repr)


def data(scale=1.0):
    rng = np.random.default_rng(0)
    features = scale * rng.normal(size=(20, 2))
    return jnp.asarray(features), jnp.asarray(rng.choice([-1.0, 1.0], 20))


def total_of(loss, features, labels, clip, counts=None):
    return moved_loss_sum(risk(loss, features, labels, counts), clip, CENTRE, RADIUS, FINE)


def risk(loss, features, labels, counts):
    data = jnp.asarray(features), jnp.asarray(labels)
    return EmpiricalRisk(GeneralisedLinear(loss), data, counts, WholeSpace())


@names
def test_equals_the_plain_sum_where_nothing_is_clipped(loss):
    features, labels = data()
    total = jax.jit(total_of(loss, features, labels, 1e3))
    for point in np.random.default_rng(1).uniform(-1, 1, size=(5, 2)):
        plain = loss.value(features @ point, labels) - loss.value(features @ CENTRE, labels)
        assert float(total(jnp.asarray(point))[0]) == pytest.approx(float(plain.sum()), rel=1e-12)


@names
def test_is_the_integral_of_the_clipped_gradient_and_convex(loss):
    """Along random chords, against a sum of gradients over fine steps; and above its tangents."""
    features, labels = data(2.0)
    counts = jnp.asarray(np.arange(20.0) % 3)
    rng, steps = np.random.default_rng(2), 5_000
    share = (np.arange(-1, steps + 1) + 0.5) / steps
    share[0], share[-1] = 0.0, 1.0

    @jax.jit
    def along(chord, clip):
        return jax.vmap(total_of(loss, features, labels, clip, counts))(chord)

    for clip in (0.05, 0.7, 0.7):
        start, end = rng.uniform(-1.4, 1.4, size=(2, 2))
        way = end - start
        values, gradients = map(np.asarray, along(start + share[:, None] * way, clip))
        whole = clip * float(counts.sum())
        rise, slopes = values[-1] - values[0], gradients @ way
        assert rise == pytest.approx(slopes[1:-1].mean(), abs=4e-3 * whole)
        assert rise >= slopes[0] - 1e-9
        assert abs(rise) <= whole * np.linalg.norm(way) * (1.0 + 1e-12)
        gradient_sum = clipped_gradient_sum(risk(loss, features, labels, counts), clip)
        np.testing.assert_allclose(gradients[0], gradient_sum(start), atol=1e-12)


def test_any_loss_counts_from_the_centre_and_without_records_that_are_not_finite():
    """A record so large that its distance cannot be told apart counts with its slope."""
    points = np.random.default_rng(0).normal(size=(6, 2))
    point = jnp.array([-0.4, 0.9])
    points[2] = np.nan
    points[4] = 1e100
    risk = EmpiricalRisk(Distance(), jnp.asarray(points), None, WholeSpace())
    total = moved_loss_sum(risk, 1.0, CENTRE, RADIUS, FINE)
    value, gradient = total(point)
    used = np.delete(points, [2, 4], axis=0)
    point, centre, diagonal = np.asarray(point), np.asarray(CENTRE), -np.full(2, 0.5**0.5)
    far = np.linalg.norm(point - used, axis=1)
    expected = (far - np.linalg.norm(centre - used, axis=1)).sum() + diagonal @ (point - centre)
    assert float(value) == pytest.approx(expected, rel=1e-12)
    expected = ((point - used) / far[:, None]).sum(axis=0) + diagonal
    np.testing.assert_allclose(gradient, expected, rtol=1e-12)

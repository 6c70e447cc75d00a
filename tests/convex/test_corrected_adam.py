"""Adam without the noise's variance: against a loop, and unbiased where Adam is not.

Statistical tests use fixed keys; their false-alarm probabilities are those for random ones.
"""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from privopt.convex import corrected_adam

COORDINATES = 20_000
LIMIT = 6.0  # standard errors: a false alarm has probability 2e-9


def gradients(steps, dim, signal=0.0, noise=1.0, seed=0):
    keys = jax.random.split(jax.random.key(seed), steps)
    return [signal + noise * jax.random.normal(key, (dim,)) for key in keys]


def directions(transformation, seen):
    state, found = transformation.init(seen[0]), []
    for gradient in seen:
        with jax.numpy_dtype_promotion("standard"):
            moved, state = transformation.update(gradient, state)
        found.append(np.asarray(moved))
    return found, state


def textbook(seen, *, eta, variance, b1, b2, floor, eps):
    m = u = 0.0
    for t, gradient in enumerate(seen, 1):
        g = np.asarray(gradient)
        m, u = b1 * m + (1 - b1) * g, b2 * u + (1 - b2) * g**2
        signal = np.maximum(u / (1 - b2**t) - variance, floor * variance)
        yield -eta * (m / (1 - b1**t)) / (np.sqrt(signal) + eps)


@pytest.mark.parametrize("variance", [0.0, 0.3, 5.0])
def test_equals_the_textbook_loop(variance):
    seen = gradients(7, 11, signal=0.5)
    numbers = {"b1": 0.8, "b2": 0.95, "floor": 0.2, "eps": 1e-6}
    found, _ = directions(corrected_adam(0.1, variance, **numbers), seen)
    expected = list(textbook(seen, eta=0.1, variance=variance, **numbers))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_without_noise_it_is_adam():
    seen = gradients(7, 11, signal=0.5)
    found, _ = directions(corrected_adam(0.1, 0.0), seen)
    expected, _ = directions(optax.adam(0.1), seen)
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def signals(transformation, seen):
    """The squared denominators: ``(m/direction)^2``, ``m`` the last gradient at ``b1 = 0``."""
    found, _ = directions(transformation, seen)
    return (np.asarray(seen[-1]) / found[-1]) ** 2


@pytest.mark.parametrize(("variance", "accepted"), [(1.0, True), (0.9, False), (0.0, False)])
def test_the_denominator_is_the_gradients_own(variance, accepted):
    """Gradient 3 in noise of variance 1: ``u`` has mean 10 and the signal 9, where no floor acts.

    A mean over 20,000 coordinates, within six of its standard errors. Adam's own, whose variance
    to take out is 0, is told apart, and so is one that takes out nine tenths.
    """
    seen = gradients(50, COORDINATES, signal=3.0)
    numbers = {"b1": 0.0, "b2": 0.99, "floor": 0.0, "eps": 0.0}
    found = signals(corrected_adam(-1.0, variance, **numbers), seen)
    error = found.std() / np.sqrt(COORDINATES)
    assert bool(abs(found.mean() - 9.0) <= LIMIT * error) is accepted


def test_the_floor_bounds_the_denominator():
    """Noise alone, where the difference is negative half of the time."""
    seen = gradients(30, COORDINATES)
    found = signals(corrected_adam(-1.0, 1.0, b1=0.0, b2=0.99, floor=0.1, eps=0.0), seen)
    assert np.isclose(found.min(), 0.1, rtol=1e-9)
    assert 0.1 < np.mean(np.isclose(found, 0.1)) < 0.9


def test_pytrees_of_any_dtype_keep_it():
    seen = {"a": jnp.ones((2, 3), jnp.float32), "b": jnp.ones((), jnp.float32)}
    transformation = corrected_adam(0.1, 0.5)
    moved, state = transformation.update(seen, transformation.init(seen))
    assert {leaf.dtype for leaf in jax.tree.leaves(moved)} == {jnp.dtype(jnp.float32)}
    assert state[0].second["a"].shape == (2, 3)

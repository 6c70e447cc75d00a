"""The bound of noisy descent: its optimum, its scales, its noise, and that it is true."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from privopt.spec import ProblemClass
from privopt.theory import noise_limited_steps, noisy_descent, noisy_descent_step_size

positive = st.floats(1e-3, 1e3)


def cls(dim=7, lipschitz=1.0, radius=1.0):
    return ProblemClass(n=10, dim=dim, lipschitz=lipschitz, radius=radius)


@given(positive, positive, positive, st.integers(1, 10**6), st.integers(1, 10**4))
def test_optimal_step_size_gives_the_closed_form(lipschitz, radius, sigma, steps, dim):
    c = cls(dim, lipschitz, radius)
    best = noisy_descent_step_size(c, steps=steps, noise_std=sigma)
    value = noisy_descent(c, steps=steps, step_size=best, noise_std=sigma)
    expected = radius * math.sqrt((lipschitz**2 + dim * sigma**2) / steps)
    assert value == pytest.approx(expected, rel=1e-12)
    for factor in (0.5, 0.99, 1.01, 2.0):
        other = noisy_descent(c, steps=steps, step_size=factor * best, noise_std=sigma)
        assert other == pytest.approx(0.5 * (factor + 1.0 / factor) * expected, rel=1e-12)


def test_step_size_is_the_numerical_minimiser():
    c = cls(dim=3, lipschitz=2.0, radius=0.7)
    found = minimize_scalar(
        lambda log: noisy_descent(c, steps=40, step_size=math.exp(log), noise_std=0.3),
        bounds=(-12, 4),
        method="bounded",
        options={"xatol": 1e-9},
    )
    step_size = noisy_descent_step_size(c, steps=40, noise_std=0.3)
    assert math.exp(found.x) == pytest.approx(step_size, rel=1e-5)


@given(positive, positive)
def test_units(loss_unit, length_unit):
    """Risk scales with the unit of the loss, and a change of the unit of length changes nothing.

    With losses times ``a`` and lengths times ``b``: L, sigma times a/b, eta times b^2/a.
    """
    c = cls()
    there = dataclasses.replace(c, lipschitz=loss_unit / length_unit, radius=length_unit)
    one = noisy_descent(c, steps=9, step_size=0.2, noise_std=0.4)
    scaled = noisy_descent(
        there,
        steps=9,
        step_size=0.2 * length_unit**2 / loss_unit,
        noise_std=0.4 * loss_unit / length_unit,
    )
    assert scaled == pytest.approx(loss_unit * one, rel=1e-12)


def test_without_a_set_there_is_no_bound():
    assert noisy_descent(cls(radius=math.inf), steps=9, step_size=0.2, noise_std=1.0) == math.inf


def test_without_noise_the_bound_is_nearly_attained():
    """``|w|`` on the line from ``w_1 = R``, step ``R/(L sqrt T)``: the mean is ``R/2 sqrt T``.

    A start at distance R, as the bound allows; half of it is lost at these steps.
    """
    steps = 400
    c = cls(dim=1)
    step_size = noisy_descent_step_size(c, steps=steps, noise_std=0.0)
    bound = noisy_descent(c, steps=steps, step_size=step_size, noise_std=0.0)
    point, points = 1.0, []
    for _ in range(steps):
        points.append(point)
        point = np.clip(point - step_size * np.sign(point), -1.0, 1.0)
    assert 0.5 * bound <= abs(np.mean(points)) <= bound


@pytest.mark.parametrize("strength", [0.5, 1.0, 2.0, 4.0, math.inf])
@pytest.mark.parametrize("step_factor", [0.3, 1.0, 3.0])
def test_noisy_descent_obeys_the_bound(strength, step_factor):
    """A NumPy twin on ``-v <w, e_1>``, 200 runs; the bound is at least ten standard errors off."""
    rng = np.random.default_rng(0)
    steps, dim, sigma, runs = 60, 20, 0.5, 200
    pull = min(1.0, strength * math.sqrt(dim) * sigma / math.sqrt(steps))
    c = cls(dim=dim)
    step_size = step_factor * noisy_descent_step_size(c, steps=steps, noise_std=sigma)
    bound = noisy_descent(c, steps=steps, step_size=step_size, noise_std=sigma)
    point, mean = np.zeros((runs, dim)), np.zeros((runs, dim))
    for _ in range(steps):
        mean += point / steps
        noisy = sigma * rng.normal(size=(runs, dim))
        noisy[:, 0] -= pull
        point = point - step_size * noisy
        point /= np.maximum(1.0, np.linalg.norm(point, axis=1, keepdims=True))
    excess = pull * (1.0 - mean[:, 0])
    error = excess.std() / math.sqrt(runs)
    assert excess.mean() + 10.0 * error < bound
    if strength >= 4.0 and step_factor == 1.0:
        assert excess.mean() > 0.35 * bound


@pytest.mark.parametrize(
    ("ratio", "steps"),
    [(0.5, 4), (0.3, 12), (1.0, 1), (7.0, 1), (math.inf, 1), (2.0**-9, 2**18), (1e-9, 10**6)],
)
def test_noise_limited_steps(ratio, steps):
    assert noise_limited_steps(ratio) == steps


@given(st.floats(1e-3, 10.0))
def test_noise_limited_steps_are_within_a_root_of_two_of_any_number(ratio):
    """``sqrt(1/T + r^2)`` at the chosen T against its infimum ``r``."""
    steps = noise_limited_steps(ratio)
    assert steps >= 1.0 / ratio**2 * (1 - 1e-12) > steps - 1.0 - 1e-6
    assert math.sqrt(1.0 / steps + ratio**2) <= math.sqrt(2.0) * ratio * (1 + 1e-12)

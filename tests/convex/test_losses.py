"""Scalar losses and distances against closed forms, their declared constants, and brute force."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize, minimize_scalar

from privopt.convex import (
    Distance,
    GeneralisedLinear,
    Hinge,
    Huber,
    Linear,
    Logistic,
    Quantile,
    Squared,
)


def rounded(size, width):
    """Huber's function of a size, written without arrays."""
    return size - width / 2.0 if size > width else size**2 / (2.0 * width)


CLOSED_FORMS = {
    "linear": (Linear(), lambda z, y: -y * z),
    "logistic": (Logistic(), lambda z, y: math.log(1.0 + math.exp(-y * z))),
    "squared": (Squared(), lambda z, y: (z - y) ** 2 / 2.0),
    "squared 0.7": (Squared(0.7), lambda z, y: (z - y) ** 2 / 3.4),
    "absolute": (Huber(), lambda z, y: abs(z - y)),
    "huber 0.3": (Huber(0.3), lambda z, y: rounded(abs(z - y), 0.3)),
    "quantile 0.25": (Quantile(0.25), lambda z, y: max(0.25 * (y - z), 0.75 * (z - y))),
    "hinge": (Hinge(), lambda z, y: max(0.0, 1.0 - y * z)),
    "hinge 0.4": (Hinge(0.4), lambda z, y: rounded(max(0.0, 1.0 - y * z), 0.4)),
}
every = pytest.mark.parametrize("name", CLOSED_FORMS)
signs = pytest.mark.parametrize("label", [-1.0, 1.0])
GRID = np.linspace(-4.0, 4.0, 401)  # holds the kinks -1 and 1
ENVELOPED = [name for name in CLOSED_FORMS if name not in ("linear", "logistic")]


value, slope = (  # one program each for losses of one kind
    jax.jit(lambda loss, *given, method=method: getattr(loss, method)(*given))
    for method in ("value", "slope")
)


def values(loss, points, label):
    return np.asarray(value(loss, points, np.full(np.shape(points), label)))


def slopes(loss, points, label):
    return np.asarray(slope(loss, points, np.full(np.shape(points), label)))


def envelope(function, point, width):
    """``min_v function(v) + (v - point)^2 / (2 width)``, searched for."""

    def regularised(v):
        return function(v) + (v - point) ** 2 / (2.0 * width)

    found = minimize_scalar(regularised, bounds=(-12.0, 12.0), options={"xatol": 1e-12})
    return found.fun


@pytest.mark.cases(5)
@every
@signs
def test_values_are_the_closed_form(name, label):
    loss, closed_form = CLOSED_FORMS[name]
    expected = [closed_form(z, label) for z in GRID]
    np.testing.assert_allclose(values(loss, GRID, label), expected, rtol=1e-13, atol=1e-15)


@every
@signs
def test_slopes_are_subgradients_everywhere_kinks_included(name, label):
    """``phi(v) >= phi(z) + slope(z) (v - z)`` for all pairs, which also says ``phi`` is convex."""
    loss, closed_form = CLOSED_FORMS[name]
    phi = np.array([closed_form(z, label) for z in GRID])
    tangents = phi[:, None] + slopes(loss, GRID, label)[:, None] * (GRID - GRID[:, None])
    assert np.all(tangents <= phi + 1e-13)


@every
@signs
def test_slope_bound_is_true_and_attained(name, label):
    loss, _ = CLOSED_FORMS[name]
    found = np.abs(slopes(loss, np.linspace(-1e3, 1e3, 20_001), label)).max()
    assert found <= loss.slope_bound
    if math.isfinite(loss.slope_bound):
        assert found >= loss.slope_bound * (1.0 - 1e-6)


@every
@signs
def test_curvature_is_true_and_attained(name, label):
    loss, _ = CLOSED_FORMS[name]
    step = 1e-3
    points = np.arange(-3.0, 3.0, step)
    steepest = np.max(np.diff(slopes(loss, points, label))) / step
    assert steepest <= loss.curvature * (1.0 + 1e-9)
    if math.isfinite(loss.curvature):
        assert steepest >= loss.curvature * 0.999
    else:
        assert steepest >= 0.999 / step


def test_curvature_of_widths_by_record_is_the_largest():
    assert Huber(np.array([0.5, 0.25])).curvature == 4.0
    assert Hinge(np.array([0.5, 0.0])).curvature == math.inf
    assert Squared(np.array([3.0, 1.0])).curvature == 0.5


@pytest.mark.cases(8)
@pytest.mark.parametrize("name", ENVELOPED)
@pytest.mark.parametrize("width", [0.05, 0.6, 2.0])
@signs
def test_smoothed_is_the_moreau_envelope_by_brute_force(name, width, label):
    loss, closed_form = CLOSED_FORMS[name]
    points = np.linspace(-3.0, 3.0, 25) + 0.01
    expected = [envelope(lambda v: closed_form(v, label), z, width) for z in points]
    found = values(loss.smoothed(width), points, label)
    np.testing.assert_allclose(found, expected, atol=2e-7)


@every
@signs
@pytest.mark.parametrize("width", [0.05, 0.6, 4.0])
def test_smoothed_is_smooth_below_and_close(name, width, label):
    loss, _ = CLOSED_FORMS[name]
    smooth = loss.smoothed(width)
    original, below = values(loss, GRID, label), values(smooth, GRID, label)
    assert np.all(below <= original + 1e-15)
    assert np.all(below >= original - slopes(loss, GRID, label) ** 2 * width / 2.0 - 1e-13)
    assert smooth.curvature <= 1.0 / width * (1.0 + 1e-12)
    assert smooth.slope_bound == loss.slope_bound


@pytest.mark.parametrize("name", ENVELOPED)
def test_smoothing_twice_adds_the_widths(name):
    loss, _ = CLOSED_FORMS[name]
    twice, once = loss.smoothed(0.2).smoothed(0.5), loss.smoothed(0.7)
    for label in (-1.0, 1.0):
        np.testing.assert_allclose(
            values(twice, GRID, label), values(once, GRID, label), rtol=1e-14, atol=1e-15
        )
        np.testing.assert_allclose(slopes(twice, GRID, label), slopes(once, GRID, label), 1e-13)


@pytest.mark.parametrize("loss", [Squared(0.3), Huber(0.3), Hinge(0.3), Distance(0.3)])
def test_widths_are_leaves_so_a_new_width_is_no_new_program(loss):
    assert jax.tree.leaves(loss) == [0.3]


@pytest.mark.cases(6)
@every
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dtype_is_followed_and_extremes_stay_finite(name, dtype):
    loss, _ = CLOSED_FORMS[name]
    points = np.array([-1e6, -1e-30, 0.0, 1e-30, 1.0, 1e6], dtype)
    both = jax.jit(lambda points, labels: (loss.value(points, labels), loss.slope(points, labels)))
    for label in (-1.0, 1.0):
        for found in both(points, np.full(points.shape, label, dtype)):
            assert found.dtype == dtype
            assert np.all(np.isfinite(found))


@pytest.mark.optimised
def test_logistic_keeps_its_digits_far_out():
    points = np.array([-800.0, 800.0])
    np.testing.assert_array_equal(values(Logistic(), points, 1.0), [800.0, math.exp(-800.0)])
    assert slopes(Logistic(), np.array([40.0]), 1.0)[0] == pytest.approx(-math.exp(-40.0), 1e-12)


@pytest.mark.parametrize("own", [0.0, 0.4])
@pytest.mark.parametrize("width", [0.1, 1.5])
def test_smoothed_distance_is_the_envelope_by_brute_force(own, width):
    record = np.array([0.3, -0.2])

    def plain(v):
        size = np.linalg.norm(v - record)
        return rounded(size, own) if own else size

    rng = np.random.default_rng(0)
    for point in record + rng.normal(size=(6, 2)) * np.array([[0.03], [0.1], [0.3], [1], [2], [3]]):
        found = minimize(
            lambda v, w: plain(v) + np.sum((v - w) ** 2) / (2.0 * width),
            point,
            args=(point,),
            method="Nelder-Mead",
            options={"xatol": 1e-10, "fatol": 1e-13, "maxfev": 4000},
        ).fun
        value = Distance(own).smoothed(width)(jnp.asarray(point), jnp.asarray(record))
        assert float(value) == pytest.approx(found, abs=1e-7)
        assert plain(point) - width / 2.0 - 1e-12 <= float(value) <= plain(point) + 1e-12


@pytest.mark.parametrize("width", [0.0, 0.5])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_distance_has_a_finite_gradient_at_the_kink_and_far_away(width, dtype):
    record = jnp.asarray([0.25, -1.0, 3.0], dtype)
    gradient = jax.jit(jax.grad(Distance(width)))
    at_kink = gradient(record, record)
    assert at_kink.dtype == dtype
    np.testing.assert_array_equal(at_kink, np.zeros(3))
    for size in (1e-30, 1e-12, 1e-3, 0.4, 1.0, 1e10, 1e30):
        found = np.asarray(gradient(record + jnp.asarray([size, 0.0, 0.0], dtype), record))
        assert np.all(np.isfinite(found)), size
        assert np.linalg.norm(found) <= 1.0 + 1e-6


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_integer_features_take_the_type_of_the_labels(dtype):
    """Norms of integers overflow: the absolute value of the smallest one is negative."""
    given = jnp.array([[-128, 2], [0, 3]], jnp.int8), jnp.array([1.0, -1.0], dtype)
    features, labels = GeneralisedLinear(Squared()).prepare(given, dim=2, smoothness=None)
    assert features.dtype == labels.dtype == dtype
    np.testing.assert_array_equal(features, given[0])

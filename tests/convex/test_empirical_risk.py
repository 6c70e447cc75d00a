"""The empirical risk on the device against plain loops, and its smoothing against brute force."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

from privopt.convex import (
    DenseFeatures,
    Distance,
    EmpiricalRisk,
    GeneralisedLinear,
    Hinge,
    Huber,
    L2Ball,
    Linear,
    Logistic,
    Squared,
    SquaredDistance,
    WholeSpace,
)

SCALARS = [Linear(), Logistic(), Squared(), Huber(), Huber(0.3), Hinge(), Hinge(0.4)]
RNG = np.random.default_rng(0)
FEATURES = RNG.normal(size=(7, 3))
LABELS = np.where(RNG.random(7) < 0.5, -1.0, 1.0)
COUNTS = np.array([2, 0, 1, 5, 1, 3, 1])
POINT = np.array([0.3, -0.7, 0.2])


def linear_risk(scalar, counts=None):
    data = jnp.asarray(FEATURES), jnp.asarray(LABELS)
    counts = None if counts is None else jnp.asarray(counts, float)
    return EmpiricalRisk(GeneralisedLinear(scalar), data, counts, WholeSpace())


@pytest.mark.parametrize("counts", [None, COUNTS])
@pytest.mark.parametrize("scalar", SCALARS, ids=repr)
def test_value_is_the_mean_over_records(scalar, counts):
    risk = linear_risk(scalar, counts)
    weights = np.ones(7) if counts is None else counts
    single = jax.jit(scalar.value)
    each = [float(single(x @ POINT, y)) for x, y in zip(FEATURES, LABELS, strict=True)]
    value = jax.jit(EmpiricalRisk.value)(risk, POINT)
    assert float(value) == pytest.approx(np.average(each, weights=weights), rel=1e-13)


@pytest.mark.cases(5)
@pytest.mark.parametrize("counts", [None, COUNTS])
@pytest.mark.parametrize("scalar", SCALARS, ids=repr)
def test_gradient_is_the_derivative_of_the_value(scalar, counts):
    risk = linear_risk(scalar, counts)
    value, gradient = jax.jit(EmpiricalRisk.value_and_gradient)(risk, POINT)
    expected, slope = jax.jit(lambda risk, point: jax.value_and_grad(risk.value)(point))(
        risk, POINT
    )
    assert float(value) == pytest.approx(float(expected), rel=1e-14)
    np.testing.assert_allclose(gradient, slope, rtol=1e-12, atol=1e-15)


def test_counts_are_repeated_records_for_any_loss():
    points = jnp.asarray(FEATURES)
    counted = EmpiricalRisk(Distance(0.1), points, jnp.asarray(COUNTS, float), WholeSpace())
    repeated = jnp.asarray(FEATURES.repeat(COUNTS, axis=0))
    repeated = EmpiricalRisk(Distance(0.1), repeated, None, WholeSpace())
    derivatives = jax.jit(EmpiricalRisk.value_and_gradient)
    for a, b in zip(derivatives(counted, POINT), derivatives(repeated, POINT), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13)


@pytest.mark.parametrize("scalar", [Huber(), Huber(0.3), Hinge(), Squared()], ids=repr)
@pytest.mark.parametrize("width", [0.1, 1.0])
def test_smoothing_is_the_envelope_in_the_parameter(scalar, width):
    """Two dimensions, rows of different norms: the width in the prediction is ``h |x|^2``."""
    features = np.array([[0.5, -0.2], [1.5, 1.0], [0.0, 0.05]])
    labels = np.array([1.0, -1.0, 1.0])
    points = np.array([[0.4, 0.9], [-0.6, 0.4], [1.0, -1.1]])
    values = jax.jit(lambda risk, w: risk.smoothed(width).value(w))

    def phi(z, y):
        if isinstance(scalar, Squared):
            return (z - y) ** 2 / 2.0
        size = max(0.0, 1.0 - y * z) if isinstance(scalar, Hinge) else abs(z - y)
        h = scalar.width
        return size - h / 2.0 if size >= h else size**2 / (2.0 * h)

    for x, y in zip(features, labels, strict=True):
        data = jnp.asarray(x[None]), jnp.asarray([y])
        risk = EmpiricalRisk(GeneralisedLinear(scalar), data, None, WholeSpace())
        for w in points:
            found = minimize(
                lambda v, x, y, w: phi(x @ v, y) + np.sum((v - w) ** 2) / (2.0 * width),
                w,
                args=(x, y, w),
                method="Nelder-Mead",
                options={"xatol": 1e-10, "fatol": 1e-14, "maxfev": 4000},
            ).fun
            assert float(values(risk, jnp.asarray(w))) == pytest.approx(found, abs=1e-7)


def test_smoothing_twice_adds_the_widths_row_by_row():

    @jax.jit
    def values(risk):
        twice, once = risk.smoothed(0.2).smoothed(0.5), risk.smoothed(0.7)
        return twice.value(POINT), once.value(POINT), once.loss.scalar.width

    twice, once, width = values(linear_risk(Huber()))
    assert float(twice) == pytest.approx(float(once), rel=1e-14)
    np.testing.assert_allclose(width, 0.7 * np.sum(FEATURES**2, axis=1), 1e-14)


def test_astype_casts_arrays_and_keeps_numbers_and_integers():
    data = {"x": jnp.asarray(FEATURES), "k": jnp.arange(7)}
    risk = EmpiricalRisk(Huber(0.3), data, jnp.asarray(COUNTS, float), L2Ball(2.0))
    cast = risk.astype(jnp.float32)
    assert (risk.dtype, cast.dtype) == (jnp.float64, jnp.float32)
    assert cast.counts.dtype == jnp.float32
    assert cast.data["k"].dtype == risk.data["k"].dtype
    assert cast.loss.width == 0.3
    assert cast.constraint.radius == 2.0


@pytest.mark.parametrize(
    ("loss", "part", "value"),
    [
        (GeneralisedLinear(Logistic()), 0, math.nan),
        (GeneralisedLinear(Logistic()), 1, math.inf),
        (SquaredDistance(1.0), None, 1e200),  # whose square is infinite
    ],
)
def test_a_record_that_is_not_finite_has_no_norm_and_is_stored_as_zeros(loss, part, value):
    parts = [np.array([[3.0, 4.0], [1.0, 0.0]]), np.array([1.0, -1.0])]
    parts[part or 0][1] = value
    data = DenseFeatures(parts[0]) if part is None else tuple(map(jnp.asarray, parts))
    stored = EmpiricalRisk(loss, data, None, WholeSpace()).with_norms()
    np.testing.assert_array_equal(stored.norms, [5.0, np.nan])
    features, *labels = jax.tree.leaves(stored.data)
    np.testing.assert_array_equal(features, [[3.0, 4.0], [0.0, 0.0]])
    for each in labels:
        np.testing.assert_array_equal(each, [1.0, 0.0])

"""Clipped gradient sums against a naive loop, against each other, and against hostile records."""

from __future__ import annotations

from functools import partial
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from privopt.convex import (
    EmpiricalRisk,
    GeneralisedLinear,
    Hinge,
    Huber,
    Linear,
    Logistic,
    SparseFeatures,
    Squared,
    WholeSpace,
)
from privopt.mechanisms import clipped_batch_sum, clipped_gradient_sum

SLOPES = {
    "linear": (Linear(), lambda z, y: -y),
    "logistic": (Logistic(), lambda z, y: -y / (1.0 + np.exp(y * z))),
    "squared": (Squared(), lambda z, y: z - y),
    "absolute": (Huber(), lambda z, y: np.sign(z - y)),
    "huber": (Huber(0.3), lambda z, y: np.clip((z - y) / 0.3, -1.0, 1.0)),
    "hinge": (Hinge(), lambda z, y: -y if y * z < 1.0 else 0.0),
}
SOME = ["logistic", "squared", "absolute"]
some = pytest.mark.parametrize("name", SOME)
dtypes = pytest.mark.parametrize("dtype", [np.float32, np.float64])
paths = pytest.mark.parametrize("path", ["linear", "sparse", "general"])
POINT = np.array([0.4, -1.1, 0.2, 0.7])


def records(n=23, dim=4, seed=0):
    """Rows of norms from 0.01 to 100, so that some gradients are clipped and some are not."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n, dim)) * 10.0 ** rng.uniform(-2, 2, size=(n, 1))
    return features, np.where(rng.random(n) < 0.5, -1.0, 1.0)


@partial(jax.jit, static_argnames="path")
def gradient_sum(path, loss, features, labels, counts, clip_norm, point):
    known = GeneralisedLinear(loss)
    if path == "sparse":
        features = scattered(features)
    unknown = path == "general"
    given = partial(lambda loss, w, record: loss(w, record), known) if unknown else known
    risk = EmpiricalRisk(given, (features, labels), counts, WholeSpace())
    return clipped_gradient_sum(risk, clip_norm)(point)


def scattered(features):
    """Return the same rows in reverse order of indices, with zeros and with invalid indices."""
    n, dim = features.shape
    places = np.r_[0, np.arange(dim)[::-1], 0, -1, dim]
    none, strange = np.zeros((n, 1), features.dtype), np.full((n, 2), np.nan, features.dtype)
    values = jnp.concatenate([none, features[:, ::-1], none, strange], axis=1)
    return SparseFeatures(jnp.broadcast_to(places, values.shape), values, dim)


def total(path, loss, features, labels, counts, clip_norm, point):
    counts = None if counts is None else np.asarray(counts, features.dtype)
    return np.asarray(gradient_sum(path, loss, features, labels, counts, clip_norm, point))


def naive(slope, features, labels, counts, clip_norm, point):
    """One record after the other, in NumPy."""
    result = np.zeros(features.shape[1])
    counts = np.ones(len(labels)) if counts is None else counts
    for x, y, m in zip(features, labels, counts, strict=True):
        gradient = slope(x @ point, y) * x
        norm = np.linalg.norm(gradient)
        result += m * (gradient if norm <= clip_norm else gradient * (clip_norm / norm))
    return result


@pytest.mark.cases(4)
@pytest.mark.parametrize(
    ("path", "name"),
    [("linear", name) for name in SLOPES] + list(product(["sparse", "general"], SOME)),
)
@pytest.mark.parametrize("counted", [False, True])
def test_sums_equal_the_naive_loop(path, name, counted):
    """A loss enters the three paths by its slope alone."""
    loss, slope = SLOPES[name]
    features, labels = records()
    counts = np.random.default_rng(1).integers(0, 6, len(labels)) if counted else None
    for clip_norm in (0.3, 5.0, np.inf):
        expected = naive(slope, features, labels, counts, clip_norm, POINT)
        found = total(path, loss, features, labels, counts, clip_norm, POINT)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12 * np.abs(expected).max())


@pytest.mark.cases(4)
@pytest.mark.parametrize("rows", [1, 511, 512, 513, 1024, 1025])
@pytest.mark.parametrize("counted", [False, True])
def test_no_record_is_lost_where_chunks_meet(rows, counted):
    features, labels = records(rows)
    counts = np.arange(rows) % 4 if counted else None
    expected = naive(SLOPES["logistic"][1], features, labels, counts, 0.5, POINT)
    found = total("general", Logistic(), features, labels, counts, 0.5, POINT)
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12)


@pytest.mark.optimised
@paths
@dtypes
def test_a_gradient_below_the_clip_keeps_its_bits(path, dtype):
    features, labels = (a.astype(dtype) for a in records())
    for row in range(len(labels)):
        one = features[row : row + 1], labels[row : row + 1], None
        free = total(path, Huber(0.3), *one, np.inf, POINT.astype(dtype))
        clip_norm = max(1e-3, 1.001 * float(np.linalg.norm(free)))
        found = total(path, Huber(0.3), *one, clip_norm, POINT.astype(dtype))
        np.testing.assert_array_equal(found, free)


@pytest.mark.cases(9)
@pytest.mark.optimised
@some
@paths
@dtypes
def test_no_record_exceeds_the_clip(name, path, dtype):
    features, labels = (a.astype(dtype) for a in records(60))
    unit, point = np.finfo(dtype).eps, POINT.astype(dtype)
    for clip_norm in (0.01, 0.5, 3.0):
        rows = [(features[i : i + 1], labels[i : i + 1]) for i in range(60)]
        sums = [total(path, SLOPES[name][0], *row, None, clip_norm, point) for row in rows]
        norms = np.linalg.norm(np.asarray(sums, np.float64), axis=1)
        assert clip_norm * (1.0 - 12.0 * unit) <= norms.max() <= clip_norm * (1.0 + 12.0 * unit)


BAD = [np.nan, np.inf, -np.inf, 1e30, -1e30, 0.0, 1e-30, 1e38]


@pytest.mark.cases(8)
@some
@paths
@dtypes
@pytest.mark.parametrize("place", ["feature", "row", "label"])
def test_no_record_poisons_the_sum(name, path, dtype, place):
    features, labels = (a.astype(dtype) for a in records())
    clip_norm = 0.5
    point = POINT.astype(dtype)
    absent = np.r_[np.zeros((1, 4), dtype), features[1:]]
    without = total(path, SLOPES[name][0], absent, labels, None, clip_norm, point)
    for bad in BAD:
        hostile, tags = features.copy(), labels.copy()
        if place == "label":
            tags[0] = bad
        else:
            hostile[0, 2 if place == "feature" else slice(None)] = bad
        found = total(path, SLOPES[name][0], hostile, tags, None, clip_norm, point)
        moved = np.linalg.norm((found - without).astype(np.float64))
        assert np.all(np.isfinite(found)), bad
        assert moved <= clip_norm * (1.0 + 1e-5), bad
        if not np.isfinite(bad) and (place != "label" or path != "general"):
            np.testing.assert_allclose(found, without, rtol=1e-5 if dtype == np.float32 else 1e-12)


@some
@paths
@dtypes
def test_a_prediction_that_is_not_a_number_does_not_poison_the_sum(name, path, dtype):
    """Products of finite features with the point overflow in both directions."""
    features, labels = (a.astype(dtype) for a in records())
    point = np.full(4, 100.0, dtype)
    features[0] = 0.0
    without = total(path, SLOPES[name][0], features, labels, None, 0.5, point)
    features[0] = 0.25 * np.finfo(dtype).max * np.array([1.0, -1.0, 1.0, -1.0])
    found = total(path, SLOPES[name][0], features, labels, None, 0.5, point)
    assert np.linalg.norm((found - without).astype(np.float64)) <= 0.5 * (1.0 + 1e-5)


@pytest.mark.optimised
@paths
@dtypes
def test_norms_that_underflow_or_overflow_are_clipped_too(path, dtype):
    """A tiny row with a huge slope: its square vanishes, its gradient does not."""
    top = int(np.log10(np.finfo(dtype).max))
    clip_norm = 0.5
    point = np.zeros(4, dtype)
    powers = [p for p in range(-top, top + 1) if p % (top // 19) == 0]
    shape = np.array([1.0, 0.98, 0.98, 0.98])  # norms just above and below the threshold
    for small in powers:
        for large in powers:
            for nudge in (1.0, 1.09):
                x = (shape * nudge * dtype(10.0) ** dtype(small)).astype(dtype)
                y = np.full(1, dtype(10.0) ** dtype(large), dtype)
                norm = np.linalg.norm(total(path, Squared(), x[None], y, None, clip_norm, point))
                assert norm <= clip_norm * (1.0 + 1e-5), (small, large)


@paths
def test_new_numbers_are_no_new_program(path):
    features, labels = records(3)
    sums, programs = [], set()
    for loss, clip_norm in ((Huber(0.5), 0.5), (Huber(0.5), 0.25), (Huber(20.0), 0.25)):
        sums.append(tuple(total(path, loss, features, labels, None, clip_norm, POINT)))
        programs.add(gradient_sum._cache_size())
    assert len(programs) == 1
    assert len(set(sums)) == 3


@paths
def test_products_that_bound_a_record_are_not_taken_in_reduced_precision(path):
    """Accelerators may round the factors of a float32 product to 10 bits by default."""
    features, labels = (a.astype(np.float32) for a in records())
    counts, point = np.ones(23, np.float32), POINT.astype(np.float32)
    given = Logistic(), features, labels, counts, 0.5, point
    program = jax.make_jaxpr(partial(gradient_sum, path))(*given)
    (called,) = program.jaxpr.eqns
    products = [e for e in called.params["jaxpr"].eqns if e.primitive.name == "dot_general"]
    if path == "sparse":  # elementwise products are never rounded
        return
    highest = jax.lax.Precision.HIGHEST
    assert products[-1].params["precision"] in (highest, (highest, highest))


@pytest.mark.parametrize("counts", [None, (1, 1, 1)], ids=["rows", "counts"])
def test_a_number_beyond_all_records_is_ignored(counts):
    """Batches of a mechanism for more records hold none of the last one in their place."""
    records = jnp.eye(3)
    counts = None if counts is None else jnp.asarray(counts, records.dtype)
    risk = EmpiricalRisk(lambda w, x: w @ x, records, counts, WholeSpace())
    numbers = np.array([2, 3, 7])
    found = jax.jit(clipped_batch_sum(risk, 1.0))(np.zeros(3), numbers, np.ones(3))
    np.testing.assert_array_equal(found, [0.0, 0.0, 1.0])

"""Squared distances to sparse points: naive NumPy twins of risk, optimum, excess and gradients."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse

from privopt.convex import EmpiricalRisk, L1Ball, SparseFeatures, SquaredDistance, WholeSpace
from privopt.lab.runner.measure import digest
from privopt.mechanisms import clipped_batch_sum, clipped_gradient_sum
from privopt.problems import squared_distance
from privopt.spec import ProblemClass

N, DIM, SPARSITY = 40, 13, 3
RNG = np.random.default_rng(7)
DENSE = np.zeros((N, DIM))
for row in DENSE:
    row[RNG.choice(DIM, SPARSITY, replace=False)] = RNG.normal(size=SPARSITY) / 3.0
DENSE /= np.maximum(1.0, np.linalg.norm(DENSE, axis=1, keepdims=True))
SPARSE = scipy.sparse.csr_array(DENSE)
COUNTS = RNG.integers(0, 4, N)
POINTS = RNG.normal(size=(2, 3, DIM)) / 4.0
FACTS = {"lipschitz": 2.0, "radius": 1.0, "smoothness": 1.0, "strong_convexity": 1.0}


def facts(n=N, dim=DIM, **changes):
    return ProblemClass(**{"n": n, "dim": dim, **FACTS, **changes})


def risk_of(points, weights, modulus=1.0):
    """``w -> F(w)``, every difference formed."""
    shares = weights / weights.sum()

    def risk(point):
        return 0.5 * modulus * shares @ np.sum((point - points) ** 2, axis=1)

    return np.vectorize(risk, signature="(d)->()")


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    ("form", "counts"),
    [(SPARSE, None), (SparseFeatures.of(SPARSE), COUNTS), (DENSE, COUNTS)],
    ids=["sparse", "sparse and counted", "dense and counted"],
)
def test_risk_and_optimum_are_those_of_the_dense_twin(form, counts):
    weights = np.ones(N) if counts is None else counts.astype(float)
    problem = squared_distance(form, problem_class=facts(int(weights.sum())), counts=counts)
    problem.check()
    twin, mean = risk_of(DENSE, weights), weights @ DENSE / weights.sum()
    np.testing.assert_allclose(problem.risk(POINTS), twin(POINTS), rtol=1e-14)
    np.testing.assert_allclose(problem.reference.minimiser, mean, rtol=0.0, atol=1e-16)
    assert problem.reference.value == pytest.approx(twin(mean), rel=1e-14)
    assert problem.reference.gap < 1e-14
    excess = 0.5 * np.sum((POINTS - mean) ** 2, axis=-1)
    np.testing.assert_allclose(problem.excess_risk(POINTS), excess, rtol=1e-13)
    derivatives = jax.jit(EmpiricalRisk.value_and_gradient)
    value, gradient = derivatives(problem.objective, POINTS[0, 0])
    np.testing.assert_allclose(gradient, POINTS[0, 0] - mean, atol=1e-15)
    assert float(value) == pytest.approx(twin(POINTS[0, 0]), rel=1e-14)
    assert "mean" in problem.provides


def test_an_excess_far_below_the_value_is_seen():
    """A difference of two sums cannot resolve an excess below ``1e-17`` at ``F* = .4``."""
    problem = squared_distance(SPARSE, problem_class=facts(), modulus=1.0)
    mean = DENSE.mean(axis=0)
    for size in (1e-5, 1e-8, 1e-9):
        step = size * np.ones(DIM)
        expected = 0.5 * DIM * size**2
        assert problem.excess_risk(mean + step) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("constraint", [L1Ball(0.05), WholeSpace()], ids=["l1", "whole"])
def test_a_constraint_moves_the_optimum_to_the_projection(constraint):
    """Far from all members, and certified: no drawn member is better."""
    offset = DENSE + 0.3 * np.eye(DIM)[0]
    whole = isinstance(constraint, WholeSpace)
    known = facts(radius=np.inf if whole else 1.0, lipschitz=np.inf if whole else 3.0)
    problem = squared_distance(
        scipy.sparse.csr_array(offset), problem_class=known, constraint=constraint
    )
    twin, best = risk_of(offset, np.ones(N)), problem.reference
    members = np.asarray(jax.jit(constraint.project)(RNG.normal(size=(200, DIM)) / 10.0))
    np.testing.assert_allclose(
        problem.excess_risk(members), twin(members) - twin(best.minimiser), rtol=1e-9, atol=1e-14
    )
    assert problem.excess_risk(members).min() >= -best.gap
    assert best.gap < 1e-13


def test_the_first_records_and_a_population():
    whole = squared_distance(SPARSE, problem_class=facts())
    half = whole.first(N // 2)
    twin = risk_of(DENSE[: N // 2], np.ones(N // 2))
    np.testing.assert_allclose(half.risk(POINTS), twin(POINTS), rtol=1e-13)
    assert jax.tree.map(np.shape, half.objective.data) == jax.tree.map(
        np.shape, whole.objective.data
    )
    shares = COUNTS / COUNTS.sum()
    drawn = squared_distance(SPARSE, problem_class=facts(100), probabilities=shares)
    np.testing.assert_allclose(drawn.reference.minimiser, shares @ DENSE, atol=1e-15)
    sample = drawn.source.sample(jax.random.key(0))
    assert float(sample.counts.sum()) == 100.0


def test_the_digest_tells_records_and_places_apart():
    moved = SPARSE.copy()
    moved.indices = (moved.indices + 1) % DIM
    moved.sort_indices()
    told = {
        digest(squared_distance(x, problem_class=facts())) for x in (SPARSE, moved, 0.5 * SPARSE)
    }
    assert len(told) == 3


def test_check_tells_of_records_that_are_too_long_and_of_curvature():
    with pytest.raises(ValueError, match=r"lipschitz 1.5 must bound every record"):
        squared_distance(SPARSE, problem_class=facts(lipschitz=1.5)).check()
    known = facts(lipschitz=4.0, smoothness=1.5, strong_convexity=0.5)
    squared_distance(SPARSE, problem_class=known).check()
    with pytest.raises(ValueError, match=r"smoothness 1.5 must bound every record.*curvature 2"):
        squared_distance(SPARSE, problem_class=known, modulus=2.0).check()
    with pytest.raises(ValueError, match=r"strong_convexity 0.5 .* all have curvature 0.25"):
        squared_distance(SPARSE, problem_class=known, modulus=0.25).check()
    broken = SPARSE.copy()
    broken.data[5] = np.nan
    with pytest.raises(ValueError, match="data must be finite"):
        squared_distance(broken, problem_class=known).check()


def clipped(points, weights, point, clip_norm, gamma=None, modulus=2.0):
    """The sum of clipped gradients, one record after another."""
    total = np.zeros(DIM)
    for record, weight in zip(points, weights, strict=True):
        gradient = modulus * (point - record)
        size = np.linalg.norm(gradient)
        if np.isfinite(size) and size > 0.0:
            factor = min(1.0, clip_norm / size) if gamma is None else clip_norm / (size + gamma)
            total += weight * factor * gradient
    return total


@pytest.mark.cases(2)
@pytest.mark.parametrize(("clip_norm", "gamma"), [(0.3, None), (1.2, 0.1), (np.inf, None)], ids=str)
def test_clipped_sums_are_those_of_the_naive_twin(clip_norm, gamma):
    """Whole and batch, with a record that is not finite and one that the point meets."""
    table = DENSE.copy()
    table[3, np.flatnonzero(table[3])[0]] = np.nan
    table[4, np.flatnonzero(table[4])[0]] = np.inf
    problem = squared_distance(
        scipy.sparse.csr_array(table), problem_class=facts(), modulus=2.0, counts=COUNTS
    )
    whole, batch = (
        jax.jit(of(problem.objective, clip_norm, gamma))
        for of in (clipped_gradient_sum, clipped_batch_sum)
    )
    for point in (POINTS[0, 0], DENSE[0]):
        expected = clipped(table, COUNTS, point, clip_norm, gamma)
        found = whole(point)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-7)
        rows = np.array([0, 5, 17, 30])  # numbers of records, each as often as it is counted
        owners = np.repeat(np.arange(N), COUNTS)[rows]
        weights = np.array([1.0, 0.0, 1.0, 1.0])
        found = batch(point, rows, weights)
        expected = clipped(table[owners], weights, point, clip_norm, gamma)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-7)


@jax.jit
def sums(risk, points, clips):
    return jax.vmap(lambda w, clip_norm: clipped_gradient_sum(risk, clip_norm)(w))(points, clips)


def test_no_record_is_clipped_to_more_than_the_clip_in_float32():
    """If ``|w - x|`` is far below ``|w|`` its square is mostly round-off. Each size has 100 points.

    Such gradients are assumed to be as long as ``|w|/8``, and are clipped to less.
    """
    rng, dim, worst = np.random.default_rng(3), 64, 0.0
    record = rng.normal(size=dim).astype(np.float32)
    problem = squared_distance(
        scipy.sparse.csr_array(record[None]),
        problem_class=facts(1, dim, lipschitz=100.0, radius=10.0),
    )
    for size in (4.0, 1e-1, 1e-2, 4e-3, 2e-3, 1e-3):
        away = rng.normal(size=(100, dim)) / np.sqrt(dim)
        points = (record + size * away).astype(np.float32)
        clip_norm = 0.5 * size
        found = sums(problem.objective, points, np.full(100, clip_norm, np.float32))
        worst = max(worst, np.linalg.norm(np.asarray(found, np.float64), axis=1).max() / clip_norm)
    assert 0.9 < worst <= 1.0 + 1e-3


@pytest.mark.parametrize("dim", [3, 1000])
def test_no_record_is_clipped_to_more_than_the_clip_where_squares_vanish(dim):
    """Below ``1e-19`` squares in float32 are zeros, and so are products that should cancel."""

    factors, shares = (each.ravel() for each in np.meshgrid([0.0, 0.25, 1, 2.5], [0.3, 1, 3]))
    for size in 10.0 ** np.arange(-21.0, -15.5, 0.25):
        record = np.zeros((1, dim), np.float32)
        record[0, :2] = 3.0 * size, 1.5 * size
        rows = SparseFeatures.of(scipy.sparse.csr_array(record))
        risk = EmpiricalRisk(SquaredDistance(jnp.float32(1.0)), rows, None, WholeSpace())
        points = (factors[:, None] * np.full(dim, size)).astype(np.float32)
        clips = (shares * size).astype(np.float32)
        found = np.asarray(sums(risk, points, clips), np.float64)
        assert (np.linalg.norm(found, axis=1) <= clips * (1.0 + 1e-4)).all()

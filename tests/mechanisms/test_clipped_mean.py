"""The mean of records clipped in two norms: total, and never moved further than it says."""

from __future__ import annotations

import math
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse

from privopt import problems
from privopt.mechanisms import ClippedMean
from privopt.mechanisms.means import largest_record
from privopt.spec import ProblemClass, Relation

CLASS = ProblemClass(
    n=6, dim=5, lipschitz=2.0, radius=1.0, smoothness=1.0, strong_convexity=1.0, sparsity=2
)
QUERY = ClippedMean.of(CLASS)
REPLACE, ZERO, REMOVE = Relation.REPLACE_ONE, Relation.ZERO_OUT, Relation.ADD_OR_REMOVE_ONE


def objective(points, counts=None, problem_class=CLASS):
    n = points.shape[0] if counts is None else int(np.sum(counts))
    facts = replace(problem_class, n=n, dim=points.shape[1])
    where = problems.squared_distance(points, problem_class=facts, counts=counts)
    return where.objective.astype(np.float64)


@jax.jit
def answers(risk):
    return QUERY.mean_of(risk), QUERY.clipped(risk)


def mean(points, counts=None):
    return np.asarray(answers(objective(points, counts))[0])


def naive(points, query=QUERY):
    total = np.zeros(points.shape[1])
    for record in points.astype(np.float64):
        if not np.isfinite(record).all():
            continue
        factor, l2, l1 = 1.0, np.linalg.norm(record), np.abs(record).sum()
        if l2 > query.l2_clip:
            factor = query.l2_clip / l2
        if l1 > query.l1_clip:
            factor = min(factor, query.l1_clip / l1)
        total += factor * record
    return total / query.size


def ordinary(rng, n=6, dim=5):
    return rng.normal(size=(n, dim)) * 10.0 ** rng.uniform(-3, 3, size=(n, 1))


def test_the_mean_is_the_textbooks():
    rng = np.random.default_rng(0)
    for _ in range(5):
        points = ordinary(rng)
        points[0], points[1, 2] = 0.0, np.nan
        points[2, 3] = np.inf
        np.testing.assert_allclose(mean(points), naive(points), rtol=1e-13, atol=1e-16)


def test_neither_storage_nor_multiplicities_matter():
    rng = np.random.default_rng(1)
    points = ordinary(rng) * (rng.random((6, 5)) < 0.5)
    points[3, 1] = np.nan
    sparse = mean(scipy.sparse.csr_array(points))
    np.testing.assert_allclose(sparse, naive(points), rtol=1e-13, atol=1e-16)
    counts = np.array([2, 0, 1, 3])
    np.testing.assert_allclose(
        mean(points[:4], counts), naive(np.repeat(points[:4], counts, axis=0)), rtol=1e-13
    )


def test_flat_opposites_attain_both_sensitivities():
    flat = np.zeros((6, 5))
    flat[0, :2] = 1.0 / math.sqrt(2.0), -1.0 / math.sqrt(2.0)
    for relation, other in ((REPLACE, -flat), (ZERO, 0.0 * flat)):
        moved = mean(flat) - mean(other)
        assert np.linalg.norm(moved) == pytest.approx(QUERY.sensitivity(relation), rel=1e-7)
        assert np.abs(moved).sum() == pytest.approx(QUERY.l1_sensitivity(relation), rel=1e-7)


def test_records_that_are_changed_are_counted():
    points = np.array([[0.7, 0.7, 0, 0, 0], [0.5, 0.5, 0.5, 0.5, 0], [0, 3.0, 0, 0, 0], [0] * 5])
    points = np.concatenate([points, [[np.nan] * 5]])
    assert float(answers(objective(points))[1]) == 3.0
    assert float(answers(objective(points, np.array([5, 2, 1, 1, 0])))[1]) == 3.0
    whole = np.random.default_rng(3).normal(size=(50, 2)).astype(np.float32)
    whole /= np.linalg.norm(whole, axis=1, keepdims=True)
    padded = np.concatenate([whole, np.zeros((50, 3), np.float32)], axis=1)
    assert float(answers(objective(padded))[1]) == 0.0


def test_the_largest_record_follows_from_the_facts():
    def allowed(**facts):
        return largest_record(ProblemClass(n=2, dim=2, **facts))

    assert allowed(lipschitz=3.0, radius=1.0) == 3.0
    assert allowed(lipschitz=3.0, radius=1.0, smoothness=0.5, strong_convexity=0.5) == 5.0
    assert allowed(lipschitz=3.0, radius=3.0, smoothness=1.0, strong_convexity=1.0) == 3.0


def test_bad_input_is_refused_by_name():
    unknown = ProblemClass(n=2, dim=2, lipschitz=math.inf, radius=1.0)
    with pytest.raises(ValueError, match="clip_norm must be given where lipschitz is not declared"):
        ClippedMean.of(unknown)
    for bad in (0.0, -1.0, math.inf, math.nan, True, "1"):
        with pytest.raises(ValueError, match="clip_norm must be"):
            ClippedMean.of(CLASS, bad)
    single = replace(objective(np.zeros((6, 5))), data=jnp.zeros((6, 5), jnp.float32))
    with pytest.raises(ValueError, match="must be float64 for a private mean, got float32"):
        QUERY.mean_of(single)
    elsewhere = problems.linear(
        np.zeros((6, 5)), problem_class=replace(CLASS, strong_convexity=0.0)
    )
    with pytest.raises(ValueError, match="objective must have points"):
        QUERY.mean_of(elsewhere.objective)

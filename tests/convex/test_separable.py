"""Losses of single coordinates: dense twins, clipped sums one record at a time, memory."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse

from privopt.convex import EmpiricalRisk, Separable, Sine, SparseFeatures, WholeSpace
from privopt.mechanisms import clipped_batch_sum, clipped_gradient_sum

N, DIM, SPARSITY = 30, 11, 3
RNG = np.random.default_rng(5)
DENSE = np.zeros((N, DIM))
for row in DENSE:
    row[RNG.choice(DIM, SPARSITY, replace=False)] = RNG.normal(size=SPARSITY)
DENSE[2] = 0.0
SPARSE = SparseFeatures.of(scipy.sparse.csr_array(DENSE))
POINT, OTHER = RNG.normal(size=(2, DIM))
COUNTS = jnp.asarray(RNG.integers(0, 3, N), float)


def risk_of(data, counts=None):
    return EmpiricalRisk(Separable(Sine()), data, counts, WholeSpace())


@pytest.mark.cases(2)
@pytest.mark.parametrize("data", [SPARSE, jnp.asarray(DENSE)], ids=["sparse", "dense"])
@pytest.mark.parametrize("counts", [None, COUNTS], ids=["each once", "counted"])
def test_value_and_gradient_are_those_of_the_formula(data, counts):
    weights = np.ones(N) if counts is None else np.asarray(counts)
    mean = weights @ DENSE / weights.sum()
    risk = risk_of(data, counts)
    value, gradient = jax.jit(EmpiricalRisk.value_and_gradient)(risk, POINT)
    assert float(value) == pytest.approx(-mean @ np.sin(POINT), rel=1e-13)
    np.testing.assert_allclose(gradient, -mean * np.cos(POINT), atol=1e-15)
    one = jax.tree.map(lambda leaf: leaf[4], data)
    assert float(jax.jit(risk.loss)(POINT, one)) == pytest.approx(-DENSE[4] @ np.sin(POINT))


def clipped(table, weights, clip_norm, gamma, anchor):
    """The naive sum: every gradient whole."""
    total = np.zeros(DIM)
    for record, weight in zip(table, weights, strict=True):
        if not np.isfinite(record).all():
            continue
        slopes = np.cos(POINT) if anchor is None else np.cos(POINT) - np.cos(anchor)
        gradient = -record * slopes
        size = np.linalg.norm(gradient)
        if size > 0.0:
            factor = min(1.0, clip_norm / size) if gamma is None else clip_norm / (size + gamma)
            total += weight * factor * gradient
    return total


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    ("clip_norm", "gamma"), [(0.4, None), (1.5, None), (np.inf, None), (0.4, 0.1)], ids=str
)
def test_clipped_sums_are_those_of_the_naive_twin(clip_norm, gamma):
    table = DENSE.copy()
    table[3, np.flatnonzero(table[3])] = np.nan
    table[4, np.flatnonzero(table[4])[0]] = np.inf
    data = SparseFeatures.of(scipy.sparse.csr_array(table))
    whole = jax.jit(clipped_gradient_sum(risk_of(data, COUNTS), clip_norm, gamma))(POINT)
    np.testing.assert_allclose(whole, clipped(table, COUNTS, clip_norm, gamma, None), atol=1e-14)
    rows, weights = np.array([0, 3, 4, 9, 9]), np.array([1.0, 1.0, 1.0, 0.0, 1.0])
    batch_sum = jax.jit(clipped_batch_sum(risk_of(data), clip_norm, gamma))
    for anchor in (None, OTHER):
        found = batch_sum(POINT, rows, weights, anchor)
        expected = clipped(table[rows], weights, clip_norm, gamma, anchor)
        np.testing.assert_allclose(found, expected, atol=1e-14)


class Tilted(Sine):
    """Breaks the rule that ``phi(w, 0) = 0``."""

    def slope(self, coordinate, number):
        return jnp.cos(coordinate) + number


def test_a_loss_that_breaks_the_rule_moves_no_sum_beyond_the_clip():
    """Short rows end in zeros at one place: their slopes there must not add up."""
    rows = SparseFeatures(np.zeros((1, 9), int), 0.5 * np.eye(1, 9), 9)
    risk = EmpiricalRisk(Separable(Tilted()), rows, None, WholeSpace())
    total = jax.jit(clipped_gradient_sum(risk, 0.1))(np.zeros(9))
    np.testing.assert_allclose(total, 0.1 * np.eye(9)[0], atol=1e-12)


def test_memory_is_that_of_a_batch_of_entries_and_of_one_gradient():
    """``O(batch s + d)``: of 256 records of 4 entries in 2^16 dimensions, and not 2^24 numbers."""
    dim, batch, records = 2**16, 256, 4096
    rows = jnp.arange(4 * records).reshape(records, 4) % dim
    data = SparseFeatures(rows, jnp.full((records, 4), 0.5), dim)
    risk, point = risk_of(data), jnp.zeros(dim)

    @jax.jit
    def batch_sum(risk, point, chosen, weights):
        return clipped_batch_sum(risk, 1.0)(point, chosen, weights)

    chosen, weights = jnp.arange(batch), jnp.ones(batch)
    compiled = batch_sum.lower(risk, point, chosen, weights).compile()
    entries = compiled.memory_analysis().temp_size_in_bytes / point.dtype.itemsize
    assert entries <= 4 * (batch * 4 + dim)
    whole = jax.jit(lambda risk, point: clipped_gradient_sum(risk, 1.0)(point))
    compiled = whole.lower(risk, point).compile()
    entries = compiled.memory_analysis().temp_size_in_bytes / point.dtype.itemsize
    assert entries <= 6 * (records * 4 + dim)

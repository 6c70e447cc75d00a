"""Tests of sparse features: all functions of dense ones accept them, with equal results."""

from __future__ import annotations

import dataclasses
import math
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from builders import ALIKE, CHOICES, DIM, N, largest
from selection import few

import privopt
from privopt import problems
from privopt.convex import EmpiricalRisk, L1Ball, SparseFeatures, WholeSpace
from privopt.lab.runner.cache_key import user_code
from privopt.mechanisms import clipped_batch_sum, clipped_gradient_sum
from privopt.problems import Family, Problem

BUDGET = privopt.Budget(epsilon=1.0, delta=1e-5, relation="replace_one")
RNG = np.random.default_rng(0)
CLASS = privopt.ProblemClass(n=N, dim=DIM, lipschitz=1.0, radius=2.0, smoothness=0.25, sparsity=DIM)
KEY = jax.random.key(0)


def rows(n=N, dim=DIM, density=0.6):
    features = RNG.normal(size=(n, dim)) * (RNG.random((n, dim)) < density)
    norms = np.linalg.norm(features, axis=1, keepdims=True)
    return features / np.maximum(1.001 * norms, 1.0), np.where(RNG.random(n) < 0.5, -1.0, 1.0)


FEATURES, LABELS = rows()
CSR = scipy.sparse.csr_array(FEATURES)


def logistic(features, labels=LABELS, problem_class=CLASS, **options):
    return problems.logistic(features, labels, problem_class=problem_class, **options)


SPARSE, DENSE = logistic(CSR), logistic(FEATURES)
DP_GD = privopt.dp_gd(CLASS, BUDGET, **CHOICES["dp_gd"])
POINT = np.array([0.3, -0.2, 0.1])


# Algorithms that read the records in different ways: batches, all in order, a solver, a mean.
KINDS = ("dp_sgd", "dp_ftrl", "objective_perturbation", "projection_mechanism")


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    "name", few([name for name in privopt.ALGORITHMS if name not in ALIKE], KINDS)
)
def test_every_algorithm_releases_what_its_dense_twin_does(name):
    plan = privopt.ALGORITHMS[name].plan(CLASS, BUDGET, **CHOICES[name])
    twins = SPARSE, DENSE
    if "mean" in plan.requires:
        twins = (problems.squared_distance(x, problem_class=CLASS) for x in (CSR, FEATURES))
    if "squares" in plan.requires:
        twins = (problems.squared(x, LABELS, problem_class=CLASS) for x in (CSR, FEATURES))
    sparse, dense = (privopt.run(plan, problem, KEY) for problem in twins)
    np.testing.assert_allclose(sparse.released, dense.released, rtol=1e-10, atol=1e-10)
    assert float(jnp.max(jnp.abs(dense.released))) > 1e-3


@pytest.mark.parametrize("constraint", few([None, L1Ball(1.5)], [L1Ball(1.5)]))
def test_the_certified_optimum_and_risks(constraint):
    sparse, dense = (logistic(x, constraint=constraint) for x in (CSR, FEATURES))
    assert sparse.risk(POINT) == pytest.approx(dense.risk(POINT), rel=1e-13)
    assert sparse.excess_risk(POINT) == pytest.approx(dense.excess_risk(POINT), rel=1e-9)
    assert sparse.reference.gap <= 2e-9
    np.testing.assert_allclose(sparse.reference.value, dense.reference.value, rtol=1e-12)


@pytest.mark.thorough  # by the solver that dense ones have
def test_the_solver_of_large_models_takes_sparse_ones():
    """Test 2^18 numbers and more, zeros included. Hessians are computed from few rows at a time."""
    n, dim = 4400, 60
    features, labels = rows(n, dim, density=0.1)
    facts = privopt.ProblemClass(n=n, dim=dim, lipschitz=1.0, radius=2.0, smoothness=0.25)
    plan = privopt.objective_perturbation(facts, BUDGET)
    sparse, dense = (
        privopt.run(plan, logistic(x, labels, facts), KEY).released
        for x in (scipy.sparse.csr_array(features), features)
    )
    np.testing.assert_allclose(sparse, dense, rtol=0, atol=1e-10)


def test_check_finds_the_same_culprits():
    SPARSE.check()
    longer, broken = FEATURES.copy(), FEATURES.copy()
    longer[7] *= 3.0 / np.linalg.norm(longer[7])
    broken[5, 1] = np.nan
    for features, culprit in (
        (longer, "lipschitz 1.0 must bound every record, but record 7 has a gradient of norm"),
        (broken, r"data must be finite, got .* in record 5, leaf \[0\]"),
    ):
        for matrix in (features, scipy.sparse.csr_array(features)):
            with pytest.raises(ValueError, match=culprit):
                logistic(matrix).check()


def test_a_record_that_is_not_finite_is_a_null_record():
    broken, null = FEATURES.copy(), FEATURES.copy()
    broken[5, 1], null[5] = np.nan, 0.0
    twins = (logistic(scipy.sparse.csr_array(x)) for x in (broken, null))
    result, expected = (privopt.run(DP_GD, each, KEY).released for each in twins)
    np.testing.assert_array_equal(result, expected)


@pytest.mark.thorough  # each is tested with dense features
def test_counts_populations_first_records_and_families():
    counts = np.arange(N) % 3
    facts = dataclasses.replace(CLASS, n=int(counts.sum()))
    shares = counts / counts.sum()
    family = Family.of(SPARSE).build
    pairs = [
        [logistic(x, problem_class=facts, counts=counts) for x in (CSR, FEATURES)],
        [logistic(x, problem_class=facts, probabilities=shares) for x in (CSR, FEATURES)],
    ]
    sample = family(n=20, dim=DIM, noise_ratio=0.1, strength=1.0)
    assert sample.risk(POINT) == pytest.approx(DENSE.first(20).risk(POINT), rel=1e-13)
    for sparse, dense in pairs:
        plan = privopt.dp_sgd(sparse.problem_class, BUDGET, **CHOICES["dp_sgd"])
        assert sparse.risk(POINT) == pytest.approx(dense.risk(POINT), rel=1e-13)
        released = [privopt.run(plan, problem, KEY).released for problem in (sparse, dense)]
        np.testing.assert_allclose(*released, rtol=1e-10, atol=1e-10)


@pytest.mark.thorough  # linear losses are tested above
def test_a_general_loss_sees_one_sparse_row_at_a_time():
    """Test softmax regression and a user loss: per-example gradients and microbatches."""
    shape, point = (2, DIM), np.array([[0.3, -0.2, 0.1], [0.0, 0.4, -0.3]])
    facts = dataclasses.replace(
        CLASS, dim=2 * DIM, sparsity=2 * DIM, lipschitz=math.sqrt(2.0), smoothness=0.5
    )
    labels = (LABELS > 0.0).astype(int)
    result = [
        problems.multinomial(x, labels, classes=range(2), problem_class=facts)
        for x in (CSR, FEATURES)
    ]
    assert result[0].shape == shape
    assert result[0].risk(point) == pytest.approx(result[1].risk(point), rel=1e-13)
    result[0].check()

    def own(w, record):
        return jnp.sqrt(1.0 + jnp.square(record[0].matvec(w) - record[1]))

    def same(w, record):
        return jnp.sqrt(1.0 + jnp.square(record[0] @ w - record[1]))

    execution = privopt.Execution(microbatch=7)
    twins = (
        Problem(loss=loss, data=(x, LABELS), problem_class=CLASS)
        for loss, x in ((own, CSR), (same, FEATURES))
    )
    released = [privopt.run(DP_GD, each, KEY, execution=execution).released for each in twins]
    np.testing.assert_allclose(*released, rtol=1e-10, atol=1e-10)


def test_a_problem_is_pickled_and_told_apart():
    again = pickle.loads(pickle.dumps(SPARSE))
    assert again.risk(POINT) == SPARSE.risk(POINT)
    other = CSR.copy()
    other.data[0] += 0.1
    assert user_code(SPARSE) == user_code(logistic(CSR.copy()))
    assert user_code(SPARSE) != user_code(logistic(other))


def test_ready_made_features_and_float32():
    features = SparseFeatures.of(CSR.astype(np.float32), width=DIM)
    problem = logistic(features, LABELS.astype(np.float32))
    assert problem.objective.dtype == jnp.float32
    twins = problem, logistic(FEATURES.astype(np.float32), LABELS.astype(np.float32))
    released = [privopt.run(DP_GD, each, KEY).released for each in twins]
    np.testing.assert_allclose(*released, rtol=1e-4, atol=1e-5)


# --- memory ---------------------------------------------------------------------------------------


def test_no_program_makes_an_array_of_rows_times_dimensions():
    """Trace a million coordinates and 10^4 records of 100 numbers; no value is computed."""
    n, width, dim = 10_000, 100, 10**6
    placed = jax.ShapeDtypeStruct((n, width), jnp.int32), jax.ShapeDtypeStruct((n, width), float)
    features = jax.tree.unflatten(jax.tree.structure(SparseFeatures.of(
        scipy.sparse.csr_array((1, dim)))), placed)  # fmt: skip
    data = features, jax.ShapeDtypeStruct((n,), float)
    loss = SPARSE.objective.loss
    point = jax.ShapeDtypeStruct((dim,), float)
    batch = jax.ShapeDtypeStruct((256,), int), jax.ShapeDtypeStruct((256,), float)

    def risk_of(data):
        return EmpiricalRisk(loss, data, None, WholeSpace())

    programs = {
        "value and gradient": lambda data, w: risk_of(data).value_and_gradient(w),
        "smoothed": lambda data, w: risk_of(data).smoothed(0.1).value(w),
        "all records": lambda data, w: clipped_gradient_sum(risk_of(data), 1.0)(w),
        "a batch": lambda data, w, *batch: clipped_batch_sum(risk_of(data), 1.0)(w, *batch),
    }
    for name, program in programs.items():
        arguments = (data, point, *batch) if name == "a batch" else (data, point)
        assert largest(jax.make_jaxpr(program)(*arguments).jaxpr) <= n * width + dim, name

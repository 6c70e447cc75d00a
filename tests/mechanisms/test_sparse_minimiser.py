"""Tests of the l1 sensitivity of sparse minimisers: it is never exceeded, and attained.

All losses are quadratics along one row, ``phi(<a, x>)`` of curvature ``h``, so that minimisers are
solutions of linear systems. The theorem requires a Lipschitz constant at the minimiser only. The
tests use the larger gradient norm of the two losses there, the least valid constant.
"""

from __future__ import annotations

import dataclasses
import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from builders import sparse_rows

import privopt
from privopt import problems
from privopt.convex import SparseFeatures
from privopt.mechanisms import LaplaceMechanism, SparseMinimiser, published_laplace_scale
from privopt.mechanisms.sparse_minimiser import truncated_records
from privopt.spec import Relation

FACTS = privopt.ProblemClass(
    n=1000, dim=400, lipschitz=2.0, radius=math.inf, smoothness=3.0, sparsity=4
)
PURE = privopt.Budget(epsilon=1.0, delta=0.0, relation="replace_one")


def query(relation="replace_one", facts=FACTS, regularisation=0.1, **choices):
    return SparseMinimiser.of(facts, Relation(relation), regularisation=regularisation, **choices)


@pytest.mark.parametrize(("relation", "moved"), [("replace_one", 2.0), ("zero_out", 1.0)])
@pytest.mark.parametrize(("glm", "width"), [(True, 4.0), (False, 8.0)])
def test_sensitivities_are_those_of_the_theorem(relation, moved, glm, width):
    asked = query(relation, glm=glm)
    apart = moved * 2.0 / (0.1 * 1000)
    spread = 2.0 + 0.5 * math.sqrt(width * 3.0 / 0.1)
    euclidean, l1 = (f(Relation(relation)) for f in (asked.sensitivity, asked.l1_sensitivity))
    assert apart < euclidean <= 1.005 * apart
    assert apart * spread < l1 <= 1.0012 * apart * spread
    gradient, error = asked.minimiser.gradient, 3.0 / 0.1 * asked.minimiser.error
    exact = moved * gradient.record_sensitivity / gradient.size / 0.1
    assert error > 1e-4 * exact  # of the solver: charged to both neighbours, in both norms
    assert euclidean == pytest.approx(exact + 2.0 * error, rel=1e-12)
    assert l1 == pytest.approx(spread * exact + 2.0 * math.sqrt(width) * error, rel=1e-12)
    assert not asked.dense


def test_few_dimensions_spread_less():
    facts = dataclasses.replace(FACTS, dim=9)
    asked = query(facts=facts)
    assert asked.dense
    assert asked.l1_sensitivity(Relation.REPLACE_ONE) == pytest.approx(3 * 0.04, rel=2e-3)


def moved(rows, curvatures, slopes, changed, regularisation, n):
    """Return ``w - w'``, the norms of the change over the bound, and ``H``; record 0 is changed."""

    def minimiser(rows, curvatures, slopes):
        hessian = (curvatures[:, None] * rows).T @ rows / n
        system = hessian + regularisation * np.eye(rows.shape[1])
        return -np.linalg.solve(system, slopes @ rows / n)

    left = minimiser(rows, curvatures, slopes)
    others = (np.concatenate([np.asarray(new)[None], old[1:]]) for new, old in
              zip(changed, (rows, curvatures, slopes), strict=True))  # fmt: skip
    after = minimiser(*others)
    gradients = [
        abs(curvature * (row @ after) + slope) * np.linalg.norm(row)
        for row, curvature, slope in ((rows[0], curvatures[0], slopes[0]), changed)
    ]
    apart = 2.0 * max(gradients) / (regularisation * n)
    smoothness = max(
        np.max(curvatures * np.sum(rows**2, axis=1)), changed[1] * np.sum(changed[0] ** 2)
    )
    difference = left - after
    return np.linalg.norm(difference) / apart, np.abs(difference).sum() / apart, smoothness


def drawn(rng, n, dim, sparsity, stiffness):
    rows = sparse_rows(rng, n + 1, dim, sparsity)
    return rows, stiffness * rng.uniform(size=n + 1), rng.normal(size=n + 1)


def ratios(records, sparsity, n):
    rows, curvatures, slopes = (each[:-1] for each in records)
    changed = tuple(each[-1] for each in records)
    euclidean, l1, smoothness = moved(rows, curvatures, slopes, changed, 1.0, n)
    return euclidean, l1 / (math.sqrt(sparsity) * (1.0 + 0.5 * math.sqrt(smoothness)))


@pytest.mark.cases(2)
@pytest.mark.parametrize("sparsity", [1, 2, 4])
@pytest.mark.parametrize("stiffness", [1.0, 100.0])
def test_no_hill_that_is_climbed_is_higher(sparsity, stiffness):
    """Each of the two ratios is climbed for 300 steps, from three starts; 1 is never passed."""
    rng = np.random.default_rng(sparsity)
    n, dim = 8, 12
    best = [0.0, 0.0]
    for start in range(6):
        which = start % 2
        records = drawn(rng, n, dim, sparsity, stiffness)
        height = ratios(records, sparsity, n)[which]
        for _ in range(300):
            rows, curvatures, slopes = (each.copy() for each in records)
            i, other = rng.integers(n + 1, size=2)
            if rng.random() < 0.3:
                rows[i] = rows[other]
            rows[i] *= 1.0 + 0.3 * rng.normal(size=dim)
            rows[i] /= np.linalg.norm(rows[i])
            curvatures[i] = np.clip(curvatures[i] * np.exp(2.0 * rng.normal()), 0.0, stiffness)
            slopes[i] *= 1.0 + 0.5 * rng.normal()
            found = ratios((rows, curvatures, slopes), sparsity, n)
            assert max(found) <= 1.0 + 1e-9
            if found[which] > height:
                records, height = (rows, curvatures, slopes), found[which]
        best[which] = max(best[which], height)
    assert best[0] > 0.75


def test_linear_losses_attain_both():
    row = np.r_[np.full(4, 0.5), np.zeros(6)]
    rows, none = np.tile(row, (5, 1)), np.zeros(5)
    euclidean, l1, _ = moved(rows, none, np.ones(5), (row, 0.0, -1.0), 0.3, 5)
    assert euclidean == pytest.approx(1.0, rel=1e-12)
    assert l1 == pytest.approx(2.0, rel=1e-12)


def test_the_answer_is_as_near_as_is_charged():
    """Rounded medians of few coordinates, against a Newton method on the host, and its own step."""
    rng = np.random.default_rng(1)
    n, dim = 60, 20
    matrix = scipy.sparse.random_array((n, dim), density=0.15, rng=rng, format="csr")
    matrix = scipy.sparse.csr_array(matrix.toarray() / 3.0)
    labels = rng.normal(size=n)
    facts = privopt.ProblemClass(
        n=n, dim=dim, lipschitz=1.0, radius=math.inf, smoothness=2.0, sparsity=8
    )
    where = problems.huber(matrix, labels, width=0.5, problem_class=facts)
    asked = query(facts=facts, glm=True)
    with jax.enable_x64(True):
        objective = where.objective.astype(jnp.float64)
        found = np.asarray(jax.jit(lambda w: asked.minimiser_of(objective)(w))(np.zeros(dim)))
    rows, point = matrix.toarray(), np.zeros(dim)
    for _ in range(50):
        residual = rows @ point - labels
        gradient = np.clip(residual / 0.5, -1, 1) @ rows / n + 0.1 * point
        curved = (np.abs(residual) < 0.5) / 0.5
        hessian = (curved[:, None] * rows).T @ rows / n + 0.1 * np.eye(dim)
        point = point - np.linalg.solve(hessian, gradient)
    assert np.linalg.norm(gradient) < 1e-13
    assert np.abs(found - point).sum() <= math.sqrt(asked.width) * asked.error
    assert 2 * math.sqrt(asked.width) * asked.error <= 1.01e-3 * asked.l1_sensitivity(
        Relation.ZERO_OUT
    )


def test_records_are_made_as_declared():
    rows = np.array([[0.1, -3.0, 4.0, 0.2], [0.0, 0.5, 0.0, 0.1], [np.nan, 1.0, 2.0, 3.0]])
    facts = privopt.ProblemClass(n=3, dim=4, lipschitz=1.0, radius=math.inf, smoothness=0.0)
    expected = np.array([[0.0, -0.6, 0.8, 0.0], [0.0, 0.5, 0.0, 0.1]])

    @partial(jax.jit, static_argnums=(1, 2))
    def made(objective, width, most):
        kept = truncated_records(objective, width, most).linear.features
        return kept, kept.block(0, 2), kept.norms()

    with jax.enable_x64(True):
        for given in (rows, scipy.sparse.csr_array(rows)):
            objective = problems.linear(given, problem_class=facts).objective
            kept, block, norms = made(objective, 2, 1.0)
            assert isinstance(kept, SparseFeatures)
            assert kept.values.shape == (3, 2)
            np.testing.assert_allclose(block, expected, rtol=1e-12)
            assert np.isnan(norms[2])  # a null record to every sum
            np.testing.assert_array_equal(made(objective, 4, 10.0)[1], rows[:2])


def test_norms_before_truncation_are_dropped():
    """A record that is shortened is not clipped again by its former norm."""
    facts = privopt.ProblemClass(n=2, dim=3, lipschitz=1.0, radius=math.inf, smoothness=0.0)
    rows = np.array([[3.0, 1.0, 4.0], [0.0, 0.5, 0.0]])
    stored = problems.linear(rows, problem_class=facts).source
    assert stored.norms is not None
    assert jax.eval_shape(lambda risk: truncated_records(risk, 2, 1.0), stored).norms is None


def test_the_published_scale():
    asked = query()
    scale = published_laplace_scale(asked, PURE)
    assert scale == pytest.approx(2 * math.sqrt(8) * 2.0 / (0.1 * 1000) * (2 * 3.0 / 0.1 + 1))
    assert scale > 7.0 * LaplaceMechanism.calibrated(asked, PURE).scale


def test_refuses():
    with pytest.raises(ValueError, match="sparsity must be declared for a sparse minimiser"):
        query(facts=dataclasses.replace(FACTS, sparsity=None))
    with pytest.raises(ValueError, match=r"radius must be inf for a sparse minimiser, got 1\.0"):
        query(facts=dataclasses.replace(FACTS, radius=1.0))
    other = problems.distance(np.zeros((3, 2)), problem_class=dataclasses.replace(
        FACTS, n=3, dim=2, sparsity=None))  # fmt: skip
    with pytest.raises(ValueError, match="loss must be a function of a linear prediction"):
        truncated_records(other.objective, 2, 1.0)

"""Tests of sufficient statistics: naive implementation, identities and all kinds of sets."""

from __future__ import annotations

import dataclasses
import math

import jax
import numpy as np
import pytest
import scipy.sparse
from boxes import Box, Simplex
from scipy import optimize
from selection import few

import privopt
from privopt import convex, problems, random
from privopt.random import stream

BUDGET = privopt.Budget(epsilon=1.0, delta=1e-6, relation="replace_one")
PURE = privopt.Budget(epsilon=1.0, delta=0.0, relation="replace_one")
FACTS = privopt.ProblemClass(n=300, dim=4, lipschitz=3.0, radius=2.0, smoothness=1.0)
TINY = privopt.Budget(epsilon=0.02, delta=1e-6, relation="replace_one")
SURE = privopt.Budget(epsilon=1e6, delta=1e-6, relation="replace_one")


def plan_of(problem_class, budget, **choices):
    """Return the plan with Gaussian noise, or the pure one if ``delta`` is 0."""
    choices = {"noise": "gaussian" if budget.delta else None, **choices}
    return privopt.sufficient_statistics(problem_class, budget, **choices)


def data(n=300, dim=4, seed=0):
    """Return records; some features and labels exceed their clipping norms."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n, dim)) * 0.6
    return features, features @ rng.normal(size=dim) + 0.3 * rng.normal(size=n)


def where(features, labels, facts=FACTS, **options):
    return problems.squared(features, labels, problem_class=facts, **options)


def quadratic_over_ball(matrix, linear, radius):
    """Return the minimiser over a ball, by a root of the norm (textbook trust region)."""
    eigenvalues, vectors = np.linalg.eigh(matrix)
    turned = vectors.T @ linear

    def point(shift):
        return turned / (eigenvalues + shift)

    least = max(0.0, -eigenvalues[0])
    if eigenvalues[0] > 0.0 and np.linalg.norm(point(0.0)) <= radius:
        return vectors @ point(0.0)
    high = least + np.linalg.norm(linear) / radius
    found = optimize.brentq(
        lambda shift: np.linalg.norm(point(shift)) - radius, least + 1e-13, high, xtol=1e-15
    )
    return vectors @ point(found)


@pytest.mark.cases(6)
@pytest.mark.parametrize("budget", [BUDGET, PURE, TINY], ids=["gaussian", "pure", "tiny"])
@pytest.mark.parametrize("choices", [{}, {"floor": 0.0}, {"floor": -math.inf}, {"weight": 0.3}])
@pytest.mark.parametrize("centre", [0.0, 0.25])
def test_the_naive_twin_agrees(budget, choices, centre):
    """Compare record by record and entry by entry, with the same draws."""
    features, labels = data()
    planned = plan_of(FACTS, budget, **choices)
    problem = where(features, labels, constraint=convex.L2Ball(2.0, centre))
    scale, weight = planned.params.mechanism.scale, planned.params.mechanism.query.weight
    matrix, linear, clipped = np.zeros((4, 4)), np.zeros(4), 0
    for row, label in zip(np.asarray(problem.objective.data[0]), labels, strict=True):
        residual = label - row.sum() * centre
        clipped += abs(residual) > 1.0
        matrix += np.outer(row, row) / 300
        linear += row * max(-1.0, min(1.0, residual)) / 300
    law = (
        random.normal
        if budget.delta
        else lambda key, shape, kind: random.norm_laplace(key, shape[0], kind)
    )
    for seed in range(2):
        key = jax.random.key(seed)
        noise = iter(scale * np.asarray(law(stream(key, "noise"), (14,), np.float64)))
        noisy = matrix.copy()
        for i in range(4):
            for j in range(i, 4):
                moved = next(noise) / (1.0 if i == j else math.sqrt(2.0))
                noisy[i, j] = noisy[j, i] = matrix[i, j] + moved
        answer = linear + np.array(list(noise)) / weight
        floor = planned.params.floor
        ridge = max(0.0, floor - np.linalg.eigvalsh(noisy)[0])
        expected = centre + quadratic_over_ball(noisy + ridge * np.eye(4), answer, 2.0)
        found = privopt.run(planned, problem, key)
        np.testing.assert_allclose(found.released, expected, atol=1e-9)
        assert float(found.secret.clipped) == clipped > 0


def test_features_longer_than_declared_are_shortened_and_counted():
    """The query shortens long features if no problem has done so."""
    features, labels = data()
    query = plan_of(FACTS, BUDGET).params.mechanism.query
    objective = dataclasses.replace(
        where(features, labels).objective, data=(3.0 * features, labels)
    )
    found, clipped = jax.jit(query.answer)(objective, np.zeros(4))
    rows = 3.0 * features
    rows /= np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True))
    matrix, linear = jax.jit(query.parts, static_argnums=1)(found, 4)
    np.testing.assert_allclose(matrix, rows.T @ rows / 300, atol=1e-14)
    np.testing.assert_allclose(linear, np.clip(labels, -1, 1) @ rows / 300, atol=1e-14)
    lengths = np.linalg.norm(3.0 * features, axis=1)
    assert float(clipped) == np.sum((lengths > 1.0) | (np.abs(labels) > 1.0))


def test_nothing_but_the_norm_of_the_vector_is_spent_on_its_order():
    """The vector is an isometry of the symmetric matrix: norms and products agree."""
    query = plan_of(FACTS, BUDGET).params.mechanism.query
    one, two = np.random.default_rng(0).normal(size=(2, 14))
    parts = jax.jit(query.parts, static_argnums=1)
    (matrix, linear), (other, vector) = (map(np.asarray, parts(each, 4)) for each in (one, two))
    product = np.sum(matrix * other) + query.weight**2 * (linear @ vector)
    assert float(product) == pytest.approx(one @ two)


@pytest.mark.parametrize("n", few([1, 1024, 2500], [2500]))
def test_sparse_features_and_counts_give_what_dense_rows_give(n):
    """Test blocks with an overlapping last one; a row counted twice is two rows."""
    rng = np.random.default_rng(n)
    features, labels = data(n)
    features *= rng.random(features.shape) < 0.5
    facts, key = dataclasses.replace(FACTS, n=n), jax.random.key(0)
    planned = plan_of(facts, BUDGET)
    dense = privopt.run(planned, where(features, labels, facts), key)
    stored = where(scipy.sparse.csr_array(features), labels, facts)
    np.testing.assert_allclose(
        privopt.run(planned, stored, key).released, dense.released, rtol=1e-9
    )
    twice = dataclasses.replace(FACTS, n=2 * n)
    planned = plan_of(twice, BUDGET)
    repeated = where(np.repeat(features, 2, axis=0), np.repeat(labels, 2), twice)
    counted = where(features, labels, twice, counts=np.full(n, 2))
    found = [privopt.run(planned, each, key) for each in (repeated, counted)]
    np.testing.assert_allclose(found[0].secret.moments, found[1].secret.moments, atol=1e-14)
    assert found[0].secret.clipped == found[1].secret.clipped


CONSTRAINTS = {
    "a ball": convex.L2Ball(2.0),
    "a small ball": convex.L2Ball(0.2, 0.1),
    "a box": Box(-0.3, 0.4),
    "l1": convex.L1Ball(0.5),
    "a simplex": Simplex(),
    "none": convex.WholeSpace(),
}


@pytest.mark.parametrize("constraint", few(CONSTRAINTS, ["a small ball", "l1"]))
def test_without_noise_it_is_the_minimiser_over_any_set(constraint):
    constraint, (features, labels) = CONSTRAINTS[constraint], data()
    facts = FACTS
    if isinstance(constraint, convex.WholeSpace):
        facts = dataclasses.replace(FACTS, radius=math.inf)
    planned = plan_of(facts, SURE, floor=0.0, label_clip=50.0).with_noise(0.0)
    problem = where(features, labels, facts, constraint=constraint)
    found = privopt.run(planned, problem, jax.random.key(0)).released
    assert constraint.contains(found, 1e-12)
    assert abs(problem.excess_risk(found)) <= 1e-9 + problem.reference.gap


def test_any_set_but_a_ball_needs_a_convex_quadratic():
    problem = where(*data(), constraint=Box(-1.0, 1.0))
    with pytest.raises(ValueError, match=r"must provide ball .*floor=0\.0"):
        privopt.run(plan_of(FACTS, BUDGET, floor=-math.inf), problem, jax.random.key(0))
    found = privopt.run(plan_of(FACTS, BUDGET), problem, jax.random.key(0)).released
    assert np.all(np.abs(found) <= 1.0)


@pytest.mark.cases(2)
@pytest.mark.parametrize("choices", [{}, {"floor": -math.inf}])
@pytest.mark.parametrize("strength", [0.5, 2.0, 8.0])
def test_the_bound_is_of_the_size_of_its_hard_family(choices, strength):
    """The mean excess risk of 60 runs is from a twentieth of the bound to the bound."""
    facts = privopt.ProblemClass(n=20_000, dim=16, lipschitz=2.0, radius=1.0, smoothness=1.0)
    planned = plan_of(facts, BUDGET, **choices)
    mu = privopt.privacy.gaussian_mu(BUDGET.epsilon, BUDGET.delta)
    problem = problems.FAMILIES["isotropic_squares"].build(
        n=20_000, dim=16, noise_ratio=4.0 / (20_000 * mu), strength=strength
    )
    problem.check()
    found = privopt.run_many([planned], problem, jax.random.split(jax.random.key(0), 60)).released
    assert 0.04 <= problem.excess_risk(found).mean() / planned.rate.upper <= 1.0


def test_a_clip_below_what_is_declared_costs_the_rate_and_no_privacy():
    shorter = plan_of(FACTS, BUDGET, label_clip=0.5)
    assert shorter.guarantee.meets(BUDGET)
    assert shorter.rate.upper == math.inf
    assert plan_of(FACTS, BUDGET, label_clip=1.0).rate.upper == plan_of(FACTS, BUDGET).rate.upper

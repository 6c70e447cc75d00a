"""Tests of l1 recovery: comparison with a linear program, and branches."""

from __future__ import annotations

import dataclasses
import math

import jax
import numpy as np
import pytest
from builders import onto_both_balls
from scipy.optimize import linprog
from selection import few

import privopt
from privopt import problems, random
from privopt.mechanisms import CompressedMean, ProjectedMean
from privopt.mechanisms.means import largest_gain
from privopt.privacy import gaussian_mu
from privopt.random import stream

BUDGET = privopt.Budget(epsilon=1.0, delta=1e-6, relation="replace_one")
CLASS = privopt.ProblemClass(
    n=400, dim=20, lipschitz=2.0, radius=1.0, smoothness=1.0, strong_convexity=1.0, sparsity=2
)
plan_of = privopt.ALGORITHMS["l1_recovery"].plan


def problem(seed=0):
    rng = np.random.default_rng(seed)
    points = np.zeros((400, 20))
    points[:, 3], points[:, 7] = 0.6, rng.normal(size=400)
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    return problems.squared_distance(points, problem_class=CLASS)


def least_l1(matrix, right):
    """Return a vertex of the linear program, refined on its support."""
    both = np.concatenate([matrix, -matrix], axis=1)
    found = linprog(np.ones(both.shape[1]), A_eq=both, b_eq=right, method="highs").x
    signed = found[: matrix.shape[1]] - found[matrix.shape[1] :]
    support = np.argsort(-np.abs(signed))[: matrix.shape[0]]
    point = np.zeros(matrix.shape[1])
    point[support] = np.linalg.solve(matrix[:, support], right)
    return point


@pytest.mark.parametrize("given", few([False, True], [False]))
def test_the_naive_twin_agrees(given):
    """Compare with a naive implementation with the same public randomness and noise.

    The public matrix is used if it is given.
    """
    matrix = np.random.default_rng(1).normal(size=(12, 20)) / math.sqrt(12.0) if given else None
    choices = {"matrix": matrix} if given else {"measurements": 12}
    planned, where = plan_of(CLASS, BUDGET, **choices), problem()
    scale, mean = planned.params.mechanism.scale, np.asarray(where.data).mean(axis=0)
    for seed in range(3):
        key = jax.random.key(seed)
        drawn = np.asarray(random.normal(stream(key, "public"), (12, 20), np.float64))
        public = matrix if given else drawn / math.sqrt(12.0)
        noise = scale * np.asarray(random.normal(stream(key, "noise"), (12,), np.float64))
        found = least_l1(public, public @ mean + noise)
        expected = onto_both_balls(found, math.sqrt(2.0), 1.0)
        found = privopt.run(planned, where, key)
        np.testing.assert_allclose(found.released, expected, atol=1e-8)
        np.testing.assert_allclose(found.secret.mean, mean, atol=1e-14)
        assert found.secret.clipped == 0.0


def test_without_noise_a_sparse_mean_is_recovered():
    planned, where = plan_of(CLASS, BUDGET, measurements=12).with_noise(0.0), problem()
    found = privopt.run(planned, where, jax.random.key(5)).released
    np.testing.assert_allclose(found, where.reference.minimiser, atol=1e-9)


def test_a_group_shares_one_matrix():
    planned, where = plan_of(CLASS, BUDGET, measurements=3), problem()
    keys = jax.random.split(jax.random.key(2), 4)
    found = privopt.run_many([planned.with_noise(0.0)], where, keys, group=2).released[0]
    assert len(np.unique(np.asarray(found), axis=0)) == 2
    np.testing.assert_array_equal(found[::2], found[1::2])


@pytest.mark.parametrize(
    ("n", "dim", "sparsity", "measurements"),
    [
        (64, 4096, 4, 90),
        (128, 4096, 4, None),  # m ln^2 m = 4898
        (128, 8192, 4, 190),
        (5, 4096, 4, None),  # 7
        (6, 4096, 4, 8),
        (400, 20, 20, None),  # s = d
        (400, 400, 4, None),  # m > d
        (400, 1, 1, None),
    ],
)
def test_public_numbers_decide_the_branch(n, dim, sparsity, measurements):
    facts = dataclasses.replace(CLASS, n=n, dim=dim, sparsity=sparsity)
    mechanism = plan_of(facts, BUDGET).params.mechanism
    if measurements is None:
        assert isinstance(mechanism, ProjectedMean)
        assert type(mechanism.body).__name__ == "L1L2Ball"
    else:
        exact = n * math.sqrt(sparsity * math.log(dim / sparsity) / math.log(1e6))
        assert isinstance(mechanism, CompressedMean)
        assert mechanism.measurements == measurements == math.floor(exact)


def test_the_branch_runs_the_projection_mechanism():
    """The release equals that of the projection mechanism bit by bit; so does the rate."""
    planned, where, key = plan_of(CLASS, BUDGET), problem(), jax.random.key(3)
    other = privopt.projection_mechanism(CLASS, BUDGET, noise="gaussian")
    assert planned.rate == other.rate
    np.testing.assert_array_equal(
        privopt.run(planned, where, key).released, privopt.run(other, where, key).released
    )


def test_a_given_matrix_costs_its_largest_gain():
    matrix = np.random.default_rng(4).normal(size=(5, 20))
    planned = plan_of(CLASS, BUDGET, matrix=matrix)
    exact = largest_gain(matrix, 2.0) * 2.0 / 400 / gaussian_mu(1.0, 1e-6)
    assert planned.params.mechanism.scale == pytest.approx(exact, rel=1e-6)
    assert planned.guarantee.meets(BUDGET)
    assert not planned.params.mechanism.matrix.flags.writeable


def test_published_noise_is_private_for_many_measurements_and_refused_for_few():
    """Five measurements exceed the budget at delta = 1e-10 and six do not; at 1e-6 one does."""
    strict = dataclasses.replace(BUDGET, delta=1e-10)
    for budget, refused, enough in ((strict, 5, 6), (BUDGET, 1, 2)):
        with pytest.raises(
            ValueError, match=rf"measurements must be more for the published .* got {refused}$"
        ):
            plan_of(CLASS, budget, mode="paper", measurements=refused)
        planned = plan_of(CLASS, budget, mode="paper", measurements=enough)
        exact = math.sqrt(18.0 * math.log(2.5 / budget.delta)) / 400
        assert planned.params.mechanism.scale == pytest.approx(exact, rel=1e-6)
        assert planned.guarantee.meets(budget)

"""Input that is none: a host error with name, value and rule, or the exact degenerate answer."""

from __future__ import annotations

import dataclasses
import math

import jax
import numpy as np
import pytest
from builders import ALIKE, CHOICES, DIM, N

import privopt
from privopt import problems

FACTS = privopt.ProblemClass(n=N, dim=DIM, lipschitz=1.0, radius=2.0, smoothness=0.25, sparsity=DIM)
ROUGH = dataclasses.replace(FACTS, smoothness=None)
BUDGET = privopt.Budget(epsilon=1.0, delta=1e-5, relation="replace_one")
RECORD = np.array([0.6, 0.64, 0.48])
every = pytest.mark.parametrize("name", sorted(privopt.ALGORITHMS))


def plan(name, facts=FACTS, budget=BUDGET, **choices):
    return privopt.ALGORITHMS[name].plan(facts, budget, **{**CHOICES[name], **choices})


def logistic(features, labels=None, facts=FACTS):
    labels = np.ones(len(features)) if labels is None else labels
    return problems.logistic(features, labels, problem_class=facts)


def problem(planned, features):
    """Logistic regression; the mean, or least squares, for what asks for them."""
    if "mean" in planned.requires:
        return problems.squared_distance(features, problem_class=planned.problem_class)
    if "squares" in planned.requires:
        labels = np.ones(len(features))
        return problems.squared(features, labels, problem_class=planned.problem_class)
    return logistic(features, facts=planned.problem_class)


@pytest.mark.parametrize("name", sorted(set(privopt.ALGORITHMS) - {"bias_reduced_sgd"}))
def test_one_record_is_a_data_set(name):
    """Noise enough for it; every number of the plan is finite, and so is the release.

    Run are those that see the data as no other does.
    """
    one = dataclasses.replace(FACTS, n=1)
    budget = dataclasses.replace(BUDGET, epsilon=0.5)
    choices = {"steps": 20} if name in ("dp_gd", "gradient_descent") else {}
    planned = privopt.ALGORITHMS[name].plan(one, budget, **choices)
    leaves = np.array([float(leaf) for leaf in jax.tree.leaves(planned.params)])
    if planned.algorithm.private:  # the other has an infinite clip
        assert np.all(np.isfinite(leaves))
        assert planned.guarantee.epsilon(1e-5).upper <= 0.5
    if name in ALIKE:
        return
    run = privopt.run(planned, problem(planned, np.ones((1, DIM)) / 2), jax.random.key(0))
    assert np.linalg.norm(run.released) <= 2.0 + 1e-12


def test_one_strongly_convex_record_needs_no_regulariser():
    """Where it is null, the curvature is that of the centre's own loss."""
    one = dataclasses.replace(FACTS, n=1, lipschitz=2.0, smoothness=1.0, strong_convexity=1.0)
    assert math.isfinite(plan("output_perturbation", one).rate.upper)


def test_constant_data_have_the_minimiser_of_one_record():
    """Sixty times the same record, without noise on an answer, is that record."""
    same = np.tile([RECORD], (N, 1))
    where = logistic(same)
    assert where.risk(np.zeros(DIM)) == pytest.approx(math.log(2.0), rel=1e-12)
    assert where.risk(2.0 * RECORD) == pytest.approx(math.log1p(math.exp(-2.0)), rel=1e-12)
    run = privopt.run(plan("output_perturbation"), where, jax.random.key(1))
    direction = run.secret.minimiser / np.linalg.norm(run.secret.minimiser)
    np.testing.assert_allclose(direction, RECORD, rtol=1e-9)


@every
def test_a_record_beyond_the_declared_bound_moves_no_further_than_a_member(name):
    """Clipped, or null if not finite: the release stays in the set and the guarantee as it was.

    Of a private method the noise of one key is the same, so the two releases differ by what the
    record did.
    """
    planned = plan(name)
    features = np.tile([RECORD, [-0.8, 0.48, 0.36]], (N // 2, 1))
    expected = privopt.run(planned, problem(planned, features), jax.random.key(2))
    for size in (1e3, 1e12, 1e150, math.inf, math.nan):
        wild = features.copy()
        wild[0] *= size
        run = privopt.run(planned, problem(planned, wild), jax.random.key(2))
        assert np.all(np.isfinite(run.released)), size
        assert np.linalg.norm(run.released) <= 2.0 + 1e-12, size
        if name == "output_perturbation":
            moved = np.linalg.norm(run.secret.minimiser - expected.secret.minimiser)
            assert moved <= planned.params.mechanism.query.sensitivity(BUDGET.relation), size

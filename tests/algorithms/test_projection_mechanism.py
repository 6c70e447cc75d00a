"""Tests of the projection mechanism: naive implementation and bounds."""

from __future__ import annotations

import dataclasses
import math

import jax
import numpy as np
import pytest
import scipy.sparse
from builders import onto_both_balls, sparse_rows

import privopt
from privopt import problems, random, theory
from privopt.random import stream

BUDGET = privopt.Budget(epsilon=1.0, delta=1e-6, relation="replace_one")
PURE = privopt.Budget(epsilon=1.0, delta=0.0, relation="replace_one")
CLASS = privopt.ProblemClass(
    n=40, dim=12, lipschitz=2.0, radius=1.0, smoothness=1.0, strong_convexity=1.0, sparsity=3
)
plan_of = privopt.ALGORITHMS["projection_mechanism"].plan


def where(points, facts=CLASS):
    return problems.squared_distance(points, problem_class=facts)


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    ("noise", "body"),
    [("gaussian", "l1_l2"), ("gaussian", "l1"), ("gaussian", "none"), ("laplace", "l1_l2")],
)
def test_the_naive_twin_agrees(noise, body):
    """Test clipped points, with the same draws."""
    points = 1.5 * sparse_rows(np.random.default_rng(0), 40, 12, 6)
    planned = plan_of(CLASS, BUDGET, noise=noise, body=body)
    l2, l1 = 1.0, math.sqrt(3.0)
    sizes = np.linalg.norm(points, axis=1), np.abs(points).sum(axis=1)
    factors = np.minimum(1.0, np.minimum(l2 / sizes[0], l1 / sizes[1]))
    mean = (factors[:, None] * points).sum(axis=0) / 40
    project = {
        "l1_l2": lambda y: onto_both_balls(y, l1, l2),
        "l1": lambda y: onto_both_balls(  # and then the problem's ball
            onto_both_balls(y, l1, math.inf), math.inf, 1.0
        ),
        "none": lambda y: y,
    }[body]
    law = random.normal if noise == "gaussian" else random.laplace
    for seed in range(6):
        key = jax.random.key(seed)
        found = privopt.run(planned, where(points), key)
        noise_of = planned.params.mechanism.scale * law(stream(key, "noise"), (12,), np.float64)
        expected = project(mean + np.asarray(noise_of))
        np.testing.assert_allclose(found.released, expected, atol=1e-10)
        np.testing.assert_allclose(found.secret.mean, mean, atol=1e-13)
        assert found.secret.clipped == 40.0


def test_sparse_records_are_not_changed_and_give_what_dense_ones_give():
    points, key = sparse_rows(np.random.default_rng(1), 40, 12, 3), jax.random.key(0)
    planned = plan_of(CLASS, BUDGET)
    dense = privopt.run(planned, where(points), key)
    stored = privopt.run(planned, where(scipy.sparse.csr_array(points)), key)
    np.testing.assert_allclose(dense.released, stored.released, atol=1e-14)
    assert dense.secret.clipped == stored.secret.clipped == 0.0
    np.testing.assert_allclose(dense.secret.mean, points.mean(axis=0), atol=1e-15)


def test_noise_and_means_are_float64_where_the_data_are_not():
    """The release of float32 data is that of their float64 copies, cast."""
    points, key = (
        sparse_rows(np.random.default_rng(2), 40, 12, 3).astype(np.float32),
        jax.random.key(1),
    )
    for budget in (BUDGET, PURE):
        planned = plan_of(CLASS, budget)
        single = privopt.run(planned, where(points), key).released
        double = privopt.run(planned, where(points.astype(np.float64)), key).released
        assert single.dtype == np.float32
        np.testing.assert_array_equal(single, np.asarray(double).astype(np.float32))


def copies(facts, strength, epsilon=1.0, delta=1e-6):
    """Return blocks of identical flat records: the hard instance."""
    n, s = facts.n, facts.sparsity
    size = math.ceil(strength * math.sqrt(s * math.log(1 / delta)) / epsilon)
    blocks = min(n // size, facts.dim // s)
    rng = np.random.default_rng(3)
    points = np.zeros((blocks + 1, facts.dim))
    for k in range(blocks):
        points[k, k * s : (k + 1) * s] = rng.choice([-1.0, 1.0], s) / math.sqrt(s)
    counts = np.full(blocks + 1, size)
    counts[-1] = n - blocks * size
    stored = scipy.sparse.csr_array(points)
    return problems.squared_distance(stored, problem_class=facts, counts=counts)


def mean_risk(facts, problem, budget=BUDGET, **choices):
    planned = plan_of(facts, budget, **choices)
    keys = jax.random.split(jax.random.key(4), 24)
    found = privopt.run_many([planned], problem, keys).released
    return float(problem.excess_risk(found).mean()), planned.rate.upper


@pytest.mark.thorough  # runs of a bound; its law is exact
def test_the_sparse_bound_holds_on_its_hard_instance_and_is_of_the_right_size():
    """The error, a root of the risk, is between a third of its bound and its bound."""
    facts = dataclasses.replace(CLASS, n=512, dim=2048, sparsity=4)
    risk, bound = mean_risk(facts, copies(facts, strength=4.0))
    assert 0.3 <= math.sqrt(risk / bound) <= 1.0


def test_the_paper_mode_is_the_papers():
    planned = plan_of(CLASS, BUDGET, mode="paper")
    exact = math.sqrt(8.0 * math.log(1.25e6)) / 40
    assert planned.params.mechanism.scale == pytest.approx(exact, rel=1e-6)
    assert type(planned.params.mechanism.body).__name__ == "L1Ball"
    assert planned.params.mechanism.scale > 1.25 * plan_of(CLASS, BUDGET).params.mechanism.scale
    laplace = plan_of(CLASS, dataclasses.replace(PURE, epsilon=4.0), mode="paper")
    assert laplace.params.mechanism.scale == pytest.approx(2 * math.sqrt(3) / 160, rel=1e-6)


@pytest.mark.parametrize("strong_convexity", [1.0, 0.5, 0.0])
@pytest.mark.parametrize("budget", [BUDGET, PURE])
def test_the_law_is_the_rate_of_the_default_plan(budget, strong_convexity):
    facts = dataclasses.replace(CLASS, n=1000, dim=50, strong_convexity=strong_convexity)
    mu = privopt.privacy.gaussian_mu(BUDGET.epsilon, BUDGET.delta)
    name = "projection_mechanism" if budget is BUDGET else "pure_projection_mechanism"
    law = theory.SPARSE_LAWS[name](theory.LawSetting(problem_class=facts, budget=budget, mu=mu))
    noise = "gaussian" if budget is BUDGET else "laplace"
    rate = plan_of(facts, budget, noise=noise).rate
    assert law.upper == pytest.approx(rate.upper, rel=1e-6)


@pytest.mark.parametrize("body", ["l1_l2", "l1", "l2", "none"])
@pytest.mark.parametrize("n", [100, 3000, 100_000])
def test_the_default_noise_is_that_of_the_smaller_bound(body, n):
    """The default is Gaussian for few records: its largest coordinate is smaller.

    For many records the scale of the noise decides.
    """
    facts = dataclasses.replace(CLASS, n=n, dim=64)
    rates = {
        noise: plan_of(facts, BUDGET, noise=noise, body=body).rate.upper
        for noise in ("gaussian", "laplace")
    }
    chosen = plan_of(facts, BUDGET, body=body)
    assert chosen.rate.upper == min(rates.values())
    if chosen.rate.upper == rates["laplace"] < rates["gaussian"]:
        assert chosen.guarantee.epsilon(0.0).upper <= BUDGET.epsilon
    paper = plan_of(facts, dataclasses.replace(BUDGET, epsilon=1.0), mode="paper")
    assert paper.guarantee.epsilon(0.0).upper == math.inf


def test_a_clip_below_the_records_costs_the_rate_and_no_privacy():
    shorter = plan_of(CLASS, BUDGET, clip_norm=0.5)
    assert shorter.guarantee.meets(BUDGET)
    assert shorter.rate.upper == math.inf
    assert "clipped below" in shorter.rate.theorem
    assert plan_of(CLASS, BUDGET, clip_norm=1.0).rate.upper == plan_of(CLASS, BUDGET).rate.upper


def test_without_a_declared_sparsity_the_body_is_that_of_any_record():
    unknown = dataclasses.replace(CLASS, sparsity=None)
    assert plan_of(unknown, BUDGET, body="l2").params.mechanism.query.l1_clip >= math.sqrt(12)

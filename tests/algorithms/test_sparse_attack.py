"""Tests of algorithms for sparse records: hostile data, programs and unusual classes."""

from __future__ import annotations

import dataclasses
import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import privopt
from privopt import problems
from privopt.spec import Relation

REPLACE = Relation.REPLACE_ONE
PURE = privopt.Budget(epsilon=1.0, delta=0.0, relation="replace_one")
APPROXIMATE = privopt.Budget(epsilon=2.0, delta=0.01, relation="replace_one")
PLANS = {name: algorithm.plan for name, algorithm in privopt.ALGORITHMS.items()}


def squares(**facts):
    return privopt.ProblemClass(
        lipschitz=2.0, radius=1.0, smoothness=1.0, strong_convexity=1.0, **facts
    )


# --- minimisers -----------------------------------------------------------------------------------


ROWS, DIM, SPARSITY = 10, 7, 2
LABELS = [1.0, -1.0, 0.0, 1e30, -1e308, 1e-320, np.inf, np.nan]


def hostile_rows():
    rng = np.random.default_rng(0)
    axes = [np.eye(DIM)[0], -np.eye(DIM)[0], np.r_[1.0, 1.0, np.zeros(5)] / math.sqrt(2.0)]
    flat = [np.full(DIM, size) for size in (0.0, 1.0, 1e38, 1e-45, 1e308, np.nan)]
    mixed = [np.r_[1e308, 1e308, 1.0, np.zeros(4)], np.r_[np.inf, 1.0, 1.0, np.zeros(4)]]
    wild = rng.normal(size=(3, DIM)) * 10.0 ** rng.uniform(-300, 300, size=(3, DIM))
    return np.stack([*axes, *flat, *mixed, *wild])


def data_sets(rng):
    """Yield star-shaped data, then rows of any length; the first record is any hostile one."""
    hub = np.zeros((ROWS, DIM))
    hub[:, 0], hub[np.arange(ROWS), 1 + np.arange(ROWS) % (DIM - 1)] = 0.3, math.sqrt(0.91)
    wild = hub * 10.0 ** rng.uniform(-300, 300, size=(ROWS, 1))
    hostile = hostile_rows()
    for rows in (hub, wild):
        signs = np.where(rng.random(ROWS) < 0.5, -1.0, 1.0)
        features = np.repeat(rows[None], len(hostile) * len(LABELS), axis=0)
        labels = np.repeat(signs[None], len(features), axis=0)
        features[:, 0] = np.repeat(hostile, len(LABELS), axis=0)
        labels[:, 0] = np.tile(LABELS, len(hostile))
        yield features, labels


def minimisers(planned, objective, features, labels):
    """Return the minimisers of a run before noise, for all data sets."""
    query = planned.params.mechanism.query

    @jax.jit
    def all_of(data):
        def one(data):
            risk = dataclasses.replace(objective, data=data)
            centre = risk.start(DIM)
            found = query.minimiser_of(risk)(centre)
            return jnp.where(jnp.isfinite(found).all(), found, centre)

        return jax.lax.map(one, data)

    return np.asarray(all_of((jnp.asarray(features), jnp.asarray(labels))))


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    ("problem", "smoothness", "choices", "least"),
    [
        (problems.logistic, 0.25, {}, 0.3),
        (partial(problems.huber, width=0.05), 20.0, {"regularisation": 0.5}, 0.9),
        (problems.hinge, None, {}, 0.9),
        (problems.linear, 0.0, {}, 0.99),
    ],
    ids=["logistic", "huber", "hinge", "linear"],
)
def test_no_hostile_record_moves_a_minimiser_further_than_is_charged(
    problem, smoothness, choices, least
):
    """Test all pairs of 112 records, including labels and rows outside the domain of the loss."""
    facts = privopt.ProblemClass(
        n=ROWS, dim=DIM, lipschitz=1.0, radius=math.inf, smoothness=smoothness, sparsity=SPARSITY
    )
    planned = PLANS["linf_output_perturbation"](facts, PURE, distance=1.0, glm=True, **choices)
    query, reached = planned.params.mechanism.query, 0.0
    for features, labels in data_sets(np.random.default_rng(1)):
        plain = np.zeros((ROWS, DIM)), np.ones(ROWS)
        objective = problem(*plain, problem_class=facts).objective.astype(jnp.float64)
        found = minimisers(planned, objective, features, labels)
        apart = found[:, None] - found[None]
        assert np.abs(apart).sum(axis=-1).max() <= query.l1_sensitivity(REPLACE)
        reached = max(reached, np.linalg.norm(apart, axis=-1).max() / query.sensitivity(REPLACE))
    assert least < reached <= 1.0


def test_a_problem_that_is_denser_than_planned_is_refused():
    """Pure privacy of losses without linear predictions assumes the sparsity."""
    facts = privopt.ProblemClass(
        n=4, dim=6, lipschitz=1.0, radius=math.inf, smoothness=0.25, sparsity=2
    )
    planned = PLANS["linf_output_perturbation"](facts, PURE, distance=1.0)
    for sparsity in (3, None):
        denser = dataclasses.replace(facts, sparsity=sparsity)
        where = problems.logistic(np.ones((4, 6)) / 3.0, np.ones(4), problem_class=denser)
        with pytest.raises(
            ValueError, match=r"problem\.sparsity must be at most 2, an assumption of the plan, got"
        ):
            privopt.run(planned, where, jax.random.key(0))


# --- whole programs -------------------------------------------------------------------------------


@pytest.mark.thorough  # as levels and noise, in mechanisms
def test_the_number_of_steps_and_the_path_do_not_see_what_the_data_are():
    """Records of NaN count as zero records: every point of the path is equal."""
    facts = privopt.ProblemClass(n=32, dim=3, lipschitz=1.0, radius=1.0, sparsity=1)
    budget = privopt.Budget(epsilon=1.0, delta=0.1, relation="replace_one")
    planned = PLANS["bias_reduced_sgd"](facts, budget, step_size=0.01, record="all", mode="paper")
    paths = []
    for value in (0.0, np.nan, np.inf):
        records = np.full((32, 3), value)
        where = problems.linear(records, problem_class=facts)
        paths.append(privopt.run(planned, where, jax.random.key(3)).path.points)
    assert np.isfinite(paths[0]).all()
    assert len(np.unique(paths[0], axis=0)) > 1
    np.testing.assert_array_equal(paths[0], paths[1])
    np.testing.assert_array_equal(paths[0], paths[2])


# --- theory on odd classes ------------------------------------------------------------------------


GRID = [
    (n, dim, sparsity, epsilon, delta)
    for n in (1, 10**4, 10**9)
    for dim, sparsity in ((1, 1), (50, 1), (50, 49), (10**6, 4))
    for epsilon, delta in ((1e-3, 1e-12), (1.0, 1e-6), (10.0, 0.1), (1.0, 0.0))
]


@pytest.mark.cases(2)
@pytest.mark.parametrize("name", ["projection_mechanism", "linf_output_perturbation", "dp_gd"])
def test_plans_of_odd_classes_have_bounds_in_order_and_can_be_read(name):
    for n, dim, sparsity, epsilon, delta in GRID:
        budget = privopt.Budget(epsilon=epsilon, delta=delta, relation="replace_one")
        numbers = {"n": n, "dim": dim, "sparsity": sparsity}
        if name == "projection_mechanism":
            planned = PLANS[name](squares(**numbers), budget)
        elif name == "dp_gd":
            facts = privopt.ProblemClass(lipschitz=1.0, radius=1.0, smoothness=1.0, **numbers)
            if delta == 0.0:
                continue
            planned = PLANS[name](facts, budget, steps=3, post="sparse")
        else:
            radius = 1.0 if delta else math.inf
            facts = privopt.ProblemClass(lipschitz=1.0, radius=radius, smoothness=1.0, **numbers)
            planned = PLANS[name](facts, budget, distance=1.0)
        rate = planned.rate
        assert rate.upper < math.inf
        assert all(0.0 <= value <= rate.upper for value, _ in rate.lower)
        assert planned.guarantee.meets(budget)
        assert "nan" not in str(planned)


@pytest.mark.parametrize("name", ["projection_mechanism", "l1_recovery"])
def test_a_class_without_curvature_has_no_lower_bound_of_linear_losses(name):
    """The lower bound would exceed the risk of the mechanism over a large ball."""
    facts = privopt.ProblemClass(n=10, dim=100, lipschitz=2.0, radius=50.0, sparsity=4)
    rate = PLANS[name](facts, APPROXIMATE).rate
    assert rate.lower == ()
    assert rate.upper > 0.0

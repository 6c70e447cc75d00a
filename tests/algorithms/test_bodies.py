"""Tests of gradients projected onto a convex set: the same noise, other steps and another rate."""

from __future__ import annotations

import dataclasses
import math

import jax
import numpy as np
import pytest
from builders import sparse_rows

import privopt
from privopt import problems, random
from privopt.convex import Average, L1L2Ball, L2Ball, average_after_step
from privopt.random import stream
from privopt.theory.sparse_means import NoiseVector, projected_error

BUDGET = privopt.Budget(epsilon=1.0, delta=1e-6, relation="replace_one")
CLASS = privopt.ProblemClass(n=200, dim=8, lipschitz=1.0, radius=1.0, smoothness=0.25, sparsity=2)
ROUGH = dataclasses.replace(CLASS, smoothness=None)
dp_gd, dp_sgd = (privopt.ALGORITHMS[name].plan for name in ("dp_gd", "dp_sgd"))


def problem(facts=CLASS):
    features = sparse_rows(np.random.default_rng(0), facts.n, facts.dim, 2) / 1.001
    return problems.logistic(features, np.sign(features.sum(axis=1)), problem_class=facts)


def test_descent_along_projected_gradients_is_the_textbooks():
    planned, where = dp_gd(CLASS, BUDGET, steps=2, post="sparse", step_size=0.5), problem()
    key, mechanism = jax.random.key(0), planned.params.mechanism
    found = privopt.run(planned, where, key)
    features, labels = where.data
    project, point, total = jax.jit(L1L2Ball(math.sqrt(2.0), 1.0).project), np.zeros(8), np.zeros(8)
    for t in range(2):
        noise = random.normal(jax.random.fold_in(stream(key, "noise"), t), (8,), np.float64)
        slopes = -labels / (1.0 + np.exp(labels * (features @ point)))
        noisy = slopes @ features / 200 + mechanism.scale * np.asarray(noise)
        point = point - 0.5 * np.asarray(project(noisy))
        point /= max(1.0, np.linalg.norm(point))
        total += point
    np.testing.assert_allclose(found.secret.last, point, atol=1e-10)
    np.testing.assert_allclose(found.released, total / 2, atol=1e-10)
    free = dp_gd(CLASS, BUDGET, steps=2)
    assert planned.guarantee.event == free.guarantee.event


@pytest.mark.parametrize(("facts", "output"), [(CLASS, average_after_step()), (ROUGH, Average())])
def test_the_rate_is_that_of_biased_gradients(facts, output):
    """``R^2/(2 eta T) + eta e^2/(2 (1 - eta H)) + 2 R e``, or ``R L/sqrt(T + 1) + 2 R e``."""
    planned = dp_gd(facts, BUDGET, steps=9, post="sparse")
    mechanism, method = planned.params
    noise = NoiseVector("gaussian", mechanism.scale, 8)
    terms = projected_error(noise, body="l1_l2", clip_norm=1.0, sparsity=2)
    square = min(term.value for term in terms)
    error, eta = math.sqrt(square), float(method.step_sizes.scale)
    assert method.output == output
    if facts is CLASS:
        assert eta == pytest.approx(1.0 / (0.25 + 3.0 * error))
        expected = 1.0 / (18.0 * eta) + eta * square / (2.0 * (1.0 - 0.25 * eta)) + 2.0 * error
    else:
        assert eta == pytest.approx(1.0 / math.sqrt(10.0))
        expected = 1.0 / math.sqrt(10.0) + 2.0 * error
    assert planned.rate.upper == pytest.approx(min(expected, planned.rate.cap), rel=1e-6)
    assert sum(term.value for term in planned.rate.terms) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("smoothness", [0.25, None])
def test_the_default_number_of_steps_has_the_least_bound(smoothness):
    """The bound is at most that of 30 other numbers of steps.

    The dense theory would take a thousand steps or more.
    """
    facts = dataclasses.replace(CLASS, n=10**5, dim=2**10, smoothness=smoothness)
    default = dp_gd(facts, BUDGET, post="sparse")
    others = {round(x) for x in np.geomspace(1, 2000, 30)}
    bounds = [dp_gd(facts, BUDGET, steps=steps, post="sparse").rate.upper for steps in others]
    assert default.rate.upper <= min(bounds) * (1.0 + 1e-6)
    assert min(others) < int(default.params.mechanism.steps) < max(others)
    dense = dp_gd(facts, BUDGET, post="sparse", noise="tree")
    assert dense.params.mechanism.steps == dp_gd(facts, BUDGET).params.mechanism.steps


def test_where_no_theorem_covers_it_the_reason_is_told():
    for plan, choices, reason in (
        (dp_gd, {"post": L2Ball(1.0)}, "may not hold their mean"),
        (dp_gd, {"post": "sparse", "clip_norm": 0.5}, "clipped below"),
        (dp_gd, {"post": "sparse", "output": "last"}, "no theorem for these step sizes"),
        (dp_gd, {"post": "sparse", "noise": "tree"}, "not independent"),
        (dp_sgd, {"post": "sparse"}, "not of a fixed size"),
    ):
        planned = plan(CLASS, BUDGET, steps=4, **choices)
        assert planned.guarantee.meets(BUDGET)
        assert planned.rate.upper == math.inf
        assert reason in planned.rate.theorem
    sampled = {"steps": 4, "post": "sparse", "sampler": "without_replacement"}
    assert dp_sgd(CLASS, BUDGET, **sampled).rate.upper < math.inf

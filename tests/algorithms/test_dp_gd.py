"""Tests of DP-GD: textbook loop and closed forms."""

import dataclasses
import math

import jax
import numpy as np
import pytest
from builders import classification, logistic_slope, onto_ball

import privopt
from privopt import problems, random
from privopt.privacy import gaussian_mu
from privopt.random import stream

BUDGET = privopt.Budget(epsilon=1.0, delta=1e-5, relation="replace_one")


def textbook(features, labels, noise, *, steps, step_size, radius, clip_norm):
    """Bassily, Smith and Thakurta 2014, Algorithm 1 with full batches, one record at a time."""
    n, dim = features.shape
    point, total = np.zeros(dim), np.zeros(dim)
    for t in range(steps):
        total += point
        records = zip(features, labels, strict=True)
        gradient = sum(logistic_slope(x, y, point, clip_norm) for x, y in records)
        point = onto_ball(point - step_size * (gradient / n + noise[t]), radius)
    return (total + point) / (steps + 1)


@pytest.mark.parametrize("clip_norm", [0.2, 1.0])
def test_equals_the_textbook_loop(clip_norm):
    features, labels = classification(40, 6)
    facts = privopt.ProblemClass(n=40, dim=6, lipschitz=1.0, radius=0.7)
    planned = privopt.dp_gd(facts, BUDGET, steps=25, clip_norm=clip_norm, step_size=0.5)
    key = jax.random.key(3)
    scale = planned.params.mechanism.scale
    noise_key = stream(key, "noise")
    noise = [
        scale * np.asarray(random.normal(jax.random.fold_in(noise_key, t), (6,), np.float64))
        for t in range(25)
    ]
    expected = textbook(
        features, labels, noise, steps=25, step_size=0.5, radius=0.7,
        clip_norm=planned.params.mechanism.query.clip_norm,
    )  # fmt: skip
    released = privopt.run(planned, problems.logistic(features, labels, problem_class=facts), key)
    np.testing.assert_allclose(released.released, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("relation", "moved"), [("replace_one", 2), ("zero_out", 1)])
def test_noise_is_sensitivity_times_root_steps_over_mu(relation, moved):
    facts = privopt.ProblemClass(n=1000, dim=20, lipschitz=3.0, radius=1.0)
    budget = privopt.Budget(epsilon=1.0, delta=1e-5, relation=relation)
    planned = privopt.dp_gd(facts, budget, steps=100)
    exact = moved * 3.0 / 1000 * math.sqrt(100) / gaussian_mu(1.0, 1e-5)
    assert exact <= planned.params.mechanism.scale <= exact * (1 + 1e-5)


def test_default_steps_come_within_a_tenth_of_the_limit():
    """``1/T = 0.21 (2 sqrt(d)/(n mu))^2`` makes the bound 1.1 times its limit ``2 sqrt(d)/(n mu)``.

    With more records ``T`` is ten thousand, and ``1/T`` all that is above the limit.
    """
    facts = privopt.ProblemClass(n=2000, dim=50, lipschitz=1.0, radius=1.0)
    make, mu = privopt.ALGORITHMS["dp_gd"].plan, gaussian_mu(1.0, 1e-5)
    planned, limit = make(facts, BUDGET), 2 * math.sqrt(50) / (2000 * mu)
    assert planned.params.mechanism.steps == pytest.approx(1 / (0.21 * limit**2), abs=1.0, rel=1e-4)
    assert planned.rate.upper == pytest.approx(1.1 * limit, rel=1e-3)
    most = make(dataclasses.replace(facts, n=16_000), BUDGET)
    assert most.params.mechanism.steps == 10_000
    assert most.rate.upper == pytest.approx(math.hypot(0.01, limit / 8), rel=1e-3)


def test_smooth_losses_need_the_root_of_the_steps_and_have_a_bound_half_above_the_limit():
    """``T = H R n mu/(2 L sqrt d)``, where ``H R^2/(2 T)`` is half of the noise's part."""
    rough = privopt.ProblemClass(n=4000, dim=50, lipschitz=1.0, radius=1.0)
    smooth = dataclasses.replace(rough, smoothness=0.25)
    make, mu = privopt.ALGORITHMS["dp_gd"].plan, gaussian_mu(1.0, 1e-5)
    planned, limit = make(smooth, BUDGET), 2 * math.sqrt(50) / (4000 * mu)
    steps = planned.params.mechanism.steps
    assert steps == math.ceil(0.25 / limit) < 20
    assert planned.rate.upper == pytest.approx(0.25 / (2 * steps) + limit, rel=1e-4)
    assert 1.45 * limit < planned.rate.upper < 1.5 * limit
    linear = make(dataclasses.replace(rough, smoothness=0.0), BUDGET)
    assert linear.params.mechanism.steps == 1
    assert linear.rate.upper == pytest.approx(limit, rel=1e-4)


def test_the_whole_path():
    facts = privopt.ProblemClass(n=40, dim=3, lipschitz=1.0, radius=1.0)
    features = np.eye(3)[np.arange(40) % 3]
    where = problems.linear(features, problem_class=facts)
    planned = privopt.dp_gd(facts, BUDGET, steps=9, record="all")
    found = privopt.run(planned, where, jax.random.key(0))
    np.testing.assert_array_equal(found.path.steps, np.arange(1, 10))
    np.testing.assert_array_equal(found.path.points[-1], found.released)

"""Bias-reduced SGD: a naive twin of a whole run, its accounting, its rate, what it refuses."""

import dataclasses
import math

import jax
import numpy as np
import pytest

import privopt
from privopt import Execution, problems
from privopt.convex import RandomIterate
from privopt.release import Tape

N, DIM = 40, 6
FACTS = privopt.ProblemClass(n=N, dim=DIM, lipschitz=1.0, radius=1.0, smoothness=0.25, sparsity=2)
BUDGET = privopt.Budget(epsilon=1.0, delta=1e-5, relation="replace_one")


def plan(problem_class=FACTS, budget=BUDGET, **choices):
    return privopt.ALGORITHMS["bias_reduced_sgd"].plan(problem_class, budget, **choices)


@pytest.fixture(scope="module")
def records():
    rng, rows = np.random.default_rng(0), np.zeros((N, DIM))
    for row in rows:
        row[rng.choice(DIM, 2, replace=False)] = rng.normal(size=2)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True), rng.choice([-1.0, 1.0], N)


@pytest.fixture(scope="module")
def problem(records):
    return problems.logistic(*records, problem_class=FACTS)


def projected(y, l1, l2):
    """By bisection over the threshold, onto both balls at once."""

    def at(t):
        cut = np.sign(y) * np.maximum(np.abs(y) - t, 0.0)
        return cut * min(1.0, l2 / max(np.linalg.norm(cut), 1e-300))

    low, high = 0.0, np.abs(y).max()
    if np.abs(at(0.0)).sum() <= l1:
        return at(0.0)
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if np.abs(at(middle)).sum() > l1 else (low, middle)
    return at(high)


def test_a_naive_twin_of_a_whole_run(problem, records):
    """From the sets and noises on the tape; no set meets itself, no noise comes twice."""
    features, labels = records
    planned = plan(steps=5, base=2, step_size=0.7)
    mechanism = planned.params.mechanism
    with Tape() as tape:
        released = privopt.run(planned, problem, jax.random.key(3)).released
    w, iterates = np.zeros(DIM), [np.zeros(DIM)]
    weights, noises = {1: 15 / 8, 2: 15 / 4, 4: 15 / 2, 8: 15}, []
    for both, single, noise in zip(
        tape["batch"][::2], tape["batch"][1::2], tape["noise"], strict=True
    ):
        half, noises = both.size // 2, [*noises, *noise.ravel()]
        assert len(set(both.tolist())) == 2 * half
        sets = both, both[:half], both[half:], single

        def mean(rows, z, w=w):
            slopes = -labels[rows] / (1.0 + np.exp(labels[rows] * (features[rows] @ w)))
            noisy = (slopes @ features[rows] + z) / len(rows)
            return projected(noisy, math.sqrt(2.0), 1.0)

        whole, odd, even, alone = (mean(rows, z) for rows, z in zip(sets, noise, strict=True))
        w = w - 0.7 * (weights[half // 2] * (whole - 0.5 * (odd + even)) + alone)
        w = w / max(1.0, np.linalg.norm(w))
        iterates.append(w)
    drawn = list(zip(tape["batch"][::2], tape["batch"][1::2], strict=True))
    assert any(np.any(np.diff(both) < 0) for both, _ in drawn)  # not sorted: halves are random
    assert not all(set(single) <= set(both) for both, single in drawn)  # drawn by itself
    assert len(set(noises)) == len(noises) == 5 * 4 * DIM
    assert mechanism.law.probabilities == (8 / 15, 4 / 15, 2 / 15, 1 / 15)
    np.testing.assert_allclose(released, np.mean(iterates, axis=0), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("replicates", ["together", "in_turn"])
def test_groups_share_levels_and_equal_single_runs(problem, replicates):
    """The leader of a group is the run of its own key; the others see its levels."""
    planned = plan(steps=12, base=10)
    keys = jax.random.split(jax.random.key(2), 4)
    execution = Execution(replicates=replicates)
    many = privopt.run_many([planned], problem, keys, group=2, execution=execution).released[0]
    for leader in (0, 2):
        one = privopt.run(planned, problem, keys[leader]).released
        np.testing.assert_allclose(many[leader], one, rtol=1e-9, atol=1e-12)
    other = privopt.run(planned, problem, keys[1]).released
    assert not np.allclose(many[1], other)


def test_noise_grows_with_steps_and_falls_with_epsilon():
    def noise(budget=BUDGET, **choices):
        return plan(budget=budget, **choices).params.mechanism.scale

    few, many = noise(steps=5), noise(steps=50)
    assert noise(dataclasses.replace(BUDGET, epsilon=2.0), steps=5) < few < many


def test_equal_steps_times_base_need_equal_noise():
    facts = dataclasses.replace(FACTS, n=4096)
    found = [
        plan(facts, base=base, steps=1024 // base).params.mechanism.scale for base in (8, 32, 128)
    ]
    assert max(found) <= 1.05 * min(found)


def test_noise_is_far_below_that_of_the_published_constants():
    """``z = 32 sqrt(2 ln(20/delta))/epsilon`` for a step of three calls."""
    facts = dataclasses.replace(FACTS, n=4096)
    z = plan(facts, dataclasses.replace(BUDGET, delta=1e-6)).params.mechanism.multiplier / 2.0
    assert 15.0 * z < 32.0 * math.sqrt(2.0 * math.log(20.0 / 1e-6)) < 40.0 * z


def test_the_default_number_of_steps_and_its_rate():
    planned = plan(dataclasses.replace(FACTS, n=4096), base=4)
    assert planned.params.mechanism.steps == math.ceil(2 * 4096 / (4 * math.log(4e5)))
    assert planned.rate.quantity == "empirical risk"
    assert planned.rate.exponents["sparsity"] > 0.0
    assert plan(clip=0.5).rate.upper == math.inf
    assert plan(output="last").rate.upper == math.inf


def test_losses_that_are_not_convex():
    facts = dataclasses.replace(FACTS, convex=False, radius=math.inf)
    planned = plan(facts, gap=0.5)
    assert planned.rate.quantity == "gradient norm"
    assert math.isfinite(planned.rate.upper)
    assert planned.params.descent.output == RandomIterate()
    mechanism, eta = planned.params.mechanism, float(planned.params.descent.step_sizes.scale)
    second = (0.5 / (mechanism.steps + 1)) / (0.125 * eta**2)
    assert planned.rate.upper**2 == pytest.approx(
        0.25 * eta * second + sum(t.value**2 for t in planned.rate.terms if t.name == "bias"),
        rel=1e-9,
    )


def test_a_class_that_is_not_sparse_has_a_body_and_a_lower_bound():
    dense = dataclasses.replace(FACTS, sparsity=None)
    assert plan(dense, body="l2").rate.lower[0].value > 0.0


def test_a_delta_that_pays_for_a_sample_leaves_next_to_no_noise():
    facts = privopt.ProblemClass(n=10_000, dim=50, lipschitz=1.0, radius=1.0, sparsity=4)
    planned = plan(facts, dataclasses.replace(BUDGET, delta=0.01), steps=1)
    assert 0.0 < planned.params.mechanism.scale < 1e-5
    assert planned.guarantee.epsilon(0.01).upper <= BUDGET.epsilon

"""Tests of bias-reduced SGD: naive implementation, accounting, rate and refused arguments."""

import dataclasses
import math

import jax
import numpy as np
import pytest
from builders import onto_both_balls, sparse_rows
from selection import few

import privopt
from privopt import Execution, problems
from privopt.convex import RandomIterate
from privopt.release import Tape

N, DIM = 40, 6
FACTS = privopt.ProblemClass(n=N, dim=DIM, lipschitz=1.0, radius=1.0, smoothness=0.25, sparsity=2)
BUDGET = privopt.Budget(epsilon=1.0, delta=1e-5, relation="replace_one")


def plan(problem_class=FACTS, budget=BUDGET, **choices):
    return privopt.bias_reduced_sgd(problem_class, budget, **choices)


@pytest.fixture(scope="module")
def records():
    rng = np.random.default_rng(0)
    return sparse_rows(rng, N, DIM, 2), rng.choice([-1.0, 1.0], N)


@pytest.fixture(scope="module")
def problem(records):
    return problems.logistic(*records, problem_class=FACTS)


def test_a_naive_twin_of_a_whole_run(problem, records):
    """Compare a run with a naive implementation on the recorded batches and noise.

    Every batch has distinct records. No batch and no noise value occurs twice.
    """
    features, labels = records
    planned = plan(steps=5, base=4, step_size=0.7)
    mechanism = planned.params.mechanism
    with Tape() as tape:
        released = privopt.run(planned, problem, jax.random.key(3)).released
    w, iterates = np.zeros(DIM), [np.zeros(DIM)]
    weights, noises = {4: 7 / 4, 8: 7 / 2, 16: 7}, []
    for both, single, noise in zip(
        tape["batch"][::2], tape["batch"][1::2], tape["noise"], strict=True
    ):
        half, noises = both.size // 2, [*noises, *noise.ravel()]
        assert len(set(both.tolist())) == 2 * half
        sets = both, both[:half], both[half:], single

        def mean(rows, z, w=w):
            slopes = -labels[rows] / (1.0 + np.exp(labels[rows] * (features[rows] @ w)))
            noisy = (slopes @ features[rows] + z) / len(rows)
            return onto_both_balls(noisy, math.sqrt(2.0), 1.0)

        whole, odd, even, alone = (mean(rows, z) for rows, z in zip(sets, noise, strict=True))
        w = w - 0.7 * (weights[half] * (whole - 0.5 * (odd + even)) + alone)
        w = w / max(1.0, np.linalg.norm(w))
        iterates.append(w)
    drawn = list(zip(tape["batch"][::2], tape["batch"][1::2], strict=True))
    assert any(np.any(np.diff(both) < 0) for both, _ in drawn)  # not sorted: halves are random
    assert not all(set(single) <= set(both) for both, single in drawn)  # drawn by itself
    assert all(len(set(map(tuple, sets))) == 5 for sets in zip(*drawn, strict=True))
    assert len(set(noises)) == len(noises) == 5 * 4 * DIM
    assert mechanism.law.probabilities == (4 / 7, 2 / 7, 1 / 7)
    np.testing.assert_allclose(released, np.mean(iterates, axis=0), rtol=1e-10, atol=1e-12)


@pytest.mark.thorough  # as matrices, in test_l1_recovery.py
@pytest.mark.parametrize("replicates", few(["together", "in_turn"], ["in_turn"]))
def test_groups_share_levels_and_equal_single_runs(problem, replicates):
    """The first run of a group equals the single run of its key. The others share its levels."""
    planned = plan(steps=12, base=10)
    keys = jax.random.split(jax.random.key(2), 4)
    execution = Execution(replicates=replicates)
    many = privopt.run_many([planned], problem, keys, group=2, execution=execution).released[0]
    for leader in (0, 2):
        one = privopt.run(planned, problem, keys[leader]).released
        np.testing.assert_allclose(many[leader], one, rtol=1e-9, atol=1e-12)
    other = privopt.run(planned, problem, keys[1]).released
    assert not np.allclose(many[1], other)


def test_the_default_number_of_steps_and_its_rate():
    planned = plan(dataclasses.replace(FACTS, n=512), base=4)
    assert planned.params.mechanism.steps == math.ceil(2 * 512 / (4 * math.log(4e5)))
    assert planned.rate.quantity == "empirical risk"
    assert planned.rate.exponents["sparsity"] > 0.0
    assert plan(clip_norm=0.5).rate.upper == math.inf
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


def test_a_delta_that_pays_for_a_sample_leaves_next_to_no_noise():
    facts = privopt.ProblemClass(n=10_000, dim=50, lipschitz=1.0, radius=1.0, sparsity=4)
    planned = plan(facts, dataclasses.replace(BUDGET, delta=0.01), steps=1)
    assert 0.0 < planned.params.mechanism.scale < 1e-5
    assert planned.guarantee.epsilon(0.01).upper <= BUDGET.epsilon

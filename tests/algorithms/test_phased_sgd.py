"""Tests of phased SGD: textbook loop, sensitivity of its passes, and bound."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from builders import classification, descend, logistic_slope, onto_ball

import privopt
from privopt import problems, random
from privopt.convex import Average, FirstOrder, StepSizes, Update
from privopt.mechanisms import OnePass
from privopt.privacy import gaussian_mu
from privopt.random import stream
from privopt.theory import phase_sizes

BUDGET = privopt.Budget(epsilon=1.0, delta=1e-5, relation="replace_one")
MU = gaussian_mu(1.0, 1e-5)
MAKE = privopt.ALGORITHMS["phased_sgd"].plan
N, DIM = 37, 4
FACTS = privopt.ProblemClass(n=N, dim=DIM, lipschitz=1.0, radius=0.6, smoothness=0.25)


def textbook_pass(features, labels, point, step_size, radius):
    """Return the average of all iterates of projected SGD with the start, one record at a time."""
    total = np.zeros_like(point)
    for x, y in zip(features, labels, strict=True):
        total += point
        point = onto_ball(point - step_size * logistic_slope(x, y, point), radius)
    return (total + point) / (len(labels) + 1)


def textbook(features, labels, noise, *, step_size, scale, radius):
    """Return phased SGD of Feldman, Koren and Talwar 2020, on records in stored order."""
    point, used = np.zeros(features.shape[1]), 0
    for i in range(1, int(math.log2(len(labels))) + 1):
        size = len(labels) // 2**i
        some = slice(used, used + size)
        used += size
        shrink = 4.0 ** (1 - i)
        average = textbook_pass(features[some], labels[some], point, step_size * shrink, radius)
        point = onto_ball(average + scale * shrink * noise[i - 1], radius)
    assert used <= len(labels)
    return point, average


def pass_of(query, objective, order):
    """Return the function ``(start, first, steps) -> average`` of one pass."""
    method = FirstOrder(StepSizes(query.step_size), Update.of(optax.sgd), Average())
    answers = query.oracle(objective, order)

    def average(start, first, steps):
        oracle = dataclasses.replace(answers, first=first, steps=steps)
        return descend(method, oracle, objective.constraint, start, jax.random.key(0)).output

    return average


def drawn(key, n, dim):
    """Return the order and the unit noise that a run draws from its key."""
    order = np.asarray(random.order(stream(key, "batches"), n))
    keys = [jax.random.fold_in(stream(key, "noise"), i) for i in range(len(phase_sizes(n)))]
    return order, [np.asarray(random.normal(k, (dim,), np.float64)) for k in keys]


def test_places_that_no_record_has_move_nothing():
    """A pass planned for more records than are there would step on the last one again and again."""
    features, labels = classification(N, DIM)
    objective = problems.logistic(features, labels, problem_class=FACTS).objective
    one_pass = pass_of(OnePass.of(FACTS, 0.5), objective, jnp.array([3, N, N + 5, -1]))
    start, one_pass = np.full(DIM, 0.1), jax.jit(one_pass)
    two, four = (one_pass(start, 0, steps) for steps in (2, 4))  # averages, the last point included
    assert not np.array_equal(two, start)
    np.testing.assert_allclose(5.0 * four, 2.0 * (3.0 * two - start) + start, rtol=1e-12)


@pytest.mark.parametrize("step_size", [0.5, 8.0])
def test_equals_the_textbook_loop(step_size):
    features, labels = classification(N, DIM)
    planned = MAKE(FACTS, BUDGET, step_size=step_size)
    key = jax.random.key(3)
    order, noise = drawn(key, N, DIM)
    expected, average = textbook(
        features[order], labels[order], noise,
        step_size=step_size, scale=planned.params.mechanism.scale, radius=0.6,
    )  # fmt: skip
    found = privopt.run(planned, problems.logistic(features, labels, problem_class=FACTS), key)
    np.testing.assert_allclose(found.released, expected, rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(found.secret.average, average, rtol=1e-10, atol=1e-13)


def test_multiplicities_stand_for_records():
    """Records with multiplicities and repeated records give the same run."""
    features, labels = classification(5, DIM)
    counts = np.array([10, 0, 20, 3, 4])
    planned, key = MAKE(FACTS, BUDGET), jax.random.key(4)
    short = problems.logistic(features, labels, problem_class=FACTS, counts=counts)
    rows = np.repeat(np.arange(5), counts)
    long = problems.logistic(features[rows], labels[rows], problem_class=FACTS)
    np.testing.assert_allclose(
        privopt.run(planned, short, key).released,
        privopt.run(planned, long, key).released,
        rtol=1e-12,
    )


def passes(facts, step_size):
    """Return ``(problem, start) -> average`` over all records in order, and the query.

    The step size may have any value.
    """
    smooth = dataclasses.replace(facts, smoothness=0.0)  # for steps that would be refused
    query = OnePass.of(smooth, step_size)

    @jax.jit
    def average(objective, start):
        return pass_of(query, objective, jnp.arange(facts.n))(start, 0, facts.n)

    return query, lambda where, start: np.asarray(average(where.objective, jnp.asarray(start)))


@pytest.mark.parametrize("longest", [1.0, 3.0])
def test_an_average_moves_by_its_sensitivity_at_most(longest):
    """Each record replaced by others, at the largest step; gradients beyond ``L`` are clipped."""
    rng = np.random.default_rng(5)
    n = 24
    facts = dataclasses.replace(FACTS, n=n, radius=2.0, smoothness=longest**2 / 4.0)
    step_size = 2.0 / facts.smoothness
    query, average = passes(facts, step_size)
    limit = query.sensitivity(privopt.Relation.REPLACE_ONE)
    assert limit == pytest.approx(2.0 * step_size, rel=1e-4)
    features, labels = classification(n, DIM, 2)
    features *= longest * rng.random((n, 1))
    start, largest = np.full(DIM, 0.3), 0.0
    base = average(problems.logistic(features, labels, problem_class=facts), start)
    for place in range(n):
        for _ in range(4):
            other, label = features.copy(), labels.copy()
            direction = rng.normal(size=DIM)
            other[place] = longest * direction / np.linalg.norm(direction)
            label[place] = rng.choice([-1.0, 1.0])
            there = average(problems.logistic(other, label, problem_class=facts), start)
            largest = max(largest, float(np.linalg.norm(there - base)))
    assert 0.02 * limit < largest <= limit


@pytest.mark.cases(2)
@pytest.mark.parametrize("length", [1.0, 5.0])
@pytest.mark.parametrize(("relation", "other"), [("replace_one", -1.0), ("zero_out", 0.0)])
def test_the_sensitivity_is_attained_but_for_the_first_iterate(relation, other, length):
    """A linear loss, the first record turned about: all iterates but the start move in full.

    A record longer than declared is clipped and moves them no further.
    """
    n = 20
    facts = privopt.ProblemClass(n=n, dim=2, lipschitz=1.0, radius=50.0, smoothness=0.0)
    query, average = passes(facts, 0.25)
    features = np.zeros((2, n, 2))
    features[:, 0, 0] = length, other * length
    ends = [average(problems.linear(x, problem_class=facts), np.zeros(2)) for x in features]
    moved = np.linalg.norm(ends[1] - ends[0])
    assert moved == pytest.approx(n / (n + 1) * (1.0 - other) * 0.25, rel=1e-12)
    assert moved <= query.sensitivity(privopt.Relation(relation)) <= moved * (1.0 + 2.0 / n)


def test_the_parameter_may_be_a_tree():
    """Weights and intercept in one pass, as with a feature that is always one."""
    features, labels = classification(12, DIM)
    facts = privopt.ProblemClass(n=12, dim=DIM + 1, lipschitz=2.0, radius=math.inf, smoothness=0.5)

    def loss(parameter, example):
        x, y = example
        return jax.nn.softplus(-y * (x @ parameter["weights"] + parameter["intercept"]))

    start = {"weights": jnp.zeros(DIM), "intercept": jnp.zeros(())}
    tree = problems.Problem(loss=loss, data=(features, labels), problem_class=facts, start=start)
    flat = problems.logistic(np.c_[features, np.ones(12)], labels, problem_class=facts)
    _, average = passes(facts, 2.0)
    query = OnePass.of(facts, 2.0)
    one_pass = pass_of(query, tree.objective, jnp.arange(12))
    found = one_pass(start, 0, 12)
    expected = average(flat, np.zeros(DIM + 1))
    np.testing.assert_allclose(found["weights"], expected[:-1], rtol=1e-9)
    np.testing.assert_allclose(found["intercept"], expected[-1], rtol=1e-9)


@pytest.mark.parametrize(("relation", "moved"), [("replace_one", 2), ("zero_out", 1)])
def test_noise_is_sensitivity_over_mu(relation, moved):
    """The phases are one Gaussian release, exactly within the budget."""
    budget = dataclasses.replace(BUDGET, relation=privopt.Relation(relation))
    for step_size in (0.01, 1.0):
        planned = MAKE(FACTS, budget, step_size=step_size)
        exact = moved * step_size / MU
        assert exact * (1 - 1e-6) <= planned.params.mechanism.scale <= exact * (1 + 1e-5)
        spent = planned.guarantee.epsilon(budget.delta)
        assert 0.999 <= spent.lower <= spent.upper <= 1.0


@pytest.mark.parametrize("smoothness", [0.0, 0.25, 30.0, 1e4])
def test_step_size_is_the_best_that_smoothness_allows(smoothness):
    facts = privopt.ProblemClass(n=4000, dim=10, lipschitz=2.0, radius=3.0, smoothness=smoothness)
    planned = MAKE(facts, BUDGET)
    step_size = planned.params.mechanism.query.step_size
    best = 3.0 / (2.0 * 2.0 * math.sqrt(4000)) / math.sqrt(1 / 6 + 16 * 10 / (4000 * MU**2))
    assert step_size * smoothness <= 2.0
    assert step_size == pytest.approx(min(best, 2.0 / max(smoothness, 1e-9)), rel=5e-3)
    others = [MAKE(facts, BUDGET, step_size=step_size * f).rate.upper for f in (0.5, 0.9)]
    assert planned.rate.upper < min(others)


def at(mu, relation="replace_one"):
    """Return a budget of the given Gaussian parameter."""
    epsilon = 5.0 * mu
    delta = privopt.privacy.gaussian_delta(epsilon, mu=mu).upper
    return privopt.Budget(epsilon=epsilon, delta=delta, relation=relation)


@pytest.mark.thorough  # as in experiments
def test_excess_population_risk_is_within_the_bound():
    """Test n = 4000, d = 10, mu = 1; five standard errors of the mean of 60 runs are allowed."""
    n, dim = 4000, 10
    where = problems.family("linear_population").build(
        n=n, dim=dim, noise_ratio=math.sqrt(dim) / n, strength=8.0
    )
    planned = MAKE(where.problem_class, at(1.0))
    # 0.0575 with the diameter in the place of the radius
    assert planned.rate.upper == pytest.approx(0.0575 / 2.0, rel=1e-2)
    assert planned.rate.quantity == "population risk"
    assert where.measures == "population"
    keys = jax.random.split(jax.random.key(8), 60)
    risks = where.excess_risk(privopt.run_many([planned], where, keys).released[0])
    slack = 5.0 * risks.std() / math.sqrt(60)
    assert 0.0 < risks.mean() + slack < planned.rate.upper
    assert risks.mean() > 0.01 * planned.rate.upper


def test_what_is_assumed_is_said():
    assert MAKE(FACTS, BUDGET).guarantee.assumptions == (
        "every loss is convex, 1-Lipschitz and 0.25-smooth",
    )


def test_the_order_is_a_random_permutation_of_the_key_alone():
    """Chi-square of the 24 orders of 4 places at level 1e-6."""
    keys = jax.random.split(jax.random.key(2), 24_000)
    orders = np.asarray(jax.vmap(lambda key: random.order(key, 4))(keys))
    assert np.array_equal(np.sort(orders, axis=1), np.broadcast_to(np.arange(4), orders.shape))
    _, counts = np.unique(orders, axis=0, return_counts=True)
    assert len(counts) == 24
    assert np.sum((counts - 1000.0) ** 2 / 1000.0) < 73.7  # chi-square with 23 degrees of freedom
    long = np.asarray(random.order(keys[0], 65_537))
    assert np.array_equal(np.sort(long), np.arange(65_537))

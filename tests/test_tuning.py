"""Private selection of hyperparameters: privacy cost, law of the selection, and runs."""

import dataclasses
import math
import pickle

import jax
import numpy as np
import pytest
from scipy import special, stats

import privopt
from privopt.core.parameters import scaled
from privopt.random import stream
from privopt.tuning import candidates_of, tuned

N, DIM = 60, 3
FACTS = privopt.ProblemClass(n=N, dim=DIM, lipschitz=1.0, radius=2.0, smoothness=0.25)
BUDGET = privopt.Budget(epsilon=2.0, delta=1e-5, relation="replace_one")
SIZES = (0.05, 0.5, 5.0)
GRIDS = {
    "dp_gd": {"step_size": SIZES},
    "dp_sgd": {"step_size": SIZES},
    "dp_ftrl": {"regularisation": SIZES},
    "output_perturbation": {"regularisation": SIZES},
    "objective_perturbation": {"regularisation": SIZES},
}


def plan(name="dp_gd", budget=BUDGET):
    """Return gradient descent in five steps; all tests share its shape and program."""
    choices = {"steps": 5} if name == "dp_gd" else {}
    return tuned(name, **GRIDS[name]).plan(FACTS, budget, **choices)


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(N, DIM))
    rows /= 1.001 * np.linalg.norm(rows, axis=1, keepdims=True)
    return privopt.problems.logistic(rows, np.sign(rows[:, 0]), problem_class=FACTS)


@pytest.mark.cases(3)
@pytest.mark.parametrize(
    ("name", "relation"), [*((name, "replace_one") for name in GRIDS), ("dp_gd", "zero_out")]
)
def test_all_candidates_and_the_choice_are_paid_for_and_no_more(name, relation):
    planned = plan(name, dataclasses.replace(BUDGET, relation=relation))
    mechanism = planned.params.mechanism
    *runs, choice = planned.guarantee.event.events
    assert runs == [each.event(relation) for each in mechanism.candidates]
    assert len(runs) == len(SIZES)
    moved = 2.0 * FACTS.lipschitz * FACTS.radius / N / (1.0 if relation == "replace_one" else 2.0)
    exact = 2.0 * moved / mechanism.selection.scale
    assert exact <= choice.epsilon <= 1.0001 * exact  # rounding is charged
    assert 0.99 * BUDGET.epsilon < planned.guarantee.epsilon(BUDGET.delta).upper <= BUDGET.epsilon
    first, *others = mechanism.candidates
    wider = mechanism.score._replace(radius=2.0 * FACTS.radius)  # scored so, and charged so
    for quieter in (
        mechanism._replace(candidates=(scaled(first, 0.8), *others)),
        mechanism._replace(selection=scaled(mechanism.selection, 0.8)),
        mechanism._replace(selection=mechanism.selection._replace(query=wider)),
    ):
        with pytest.raises(ValueError, match="within the budget"):
            dataclasses.replace(planned, params=planned.params._replace(mechanism=quieter))


@pytest.mark.cases(1)  # candidates are run alike
@pytest.mark.parametrize("name", ["dp_gd", "objective_perturbation"])
def test_a_run_is_its_candidates_by_hand_and_one_of_them(name, problem):
    """Compare with runs of the algorithms under child keys, and with risks clipped by NumPy.

    One iterative method and one with a solver represent the others.
    """
    planned, key = plan(name), jax.random.key(5)
    found = privopt.run(planned, problem, key)
    keys = jax.random.split(stream(key, "selection"), len(SIZES) + 1)
    features, labels = map(np.asarray, problem.data)
    points = []
    for number, params in enumerate(candidates_of(planned.static, planned.params)):
        one = privopt.Plan(
            privopt.ALGORITHMS[name], FACTS, BUDGET, params, planned.static.candidates[number],
            planned.declared.candidates[number],
        )  # fmt: skip
        points.append(np.asarray(privopt.run(one, problem, keys[number]).released))
    losses = np.logaddexp(0.0, -labels[:, None] * (features @ np.transpose(points)))
    risks = np.clip(losses - math.log(2.0), -2.0, 2.0).mean(axis=0)
    np.testing.assert_allclose(found.secret.risks, risks, rtol=1e-4, atol=1e-6)
    chosen = points[int(found.secret.selected)]
    np.testing.assert_allclose(found.released, chosen, rtol=1e-4, atol=1e-6)


@pytest.fixture(scope="module")
def many(problem):
    """Return plans with the budget, ten times the budget and no noise, and their runs."""
    plans = [plan(), plan(budget=dataclasses.replace(BUDGET, epsilon=20.0)), plan().with_noise(0.0)]
    return plans, privopt.run_many(plans, problem, jax.random.split(jax.random.key(1), 4000))


def test_candidates_are_chosen_by_the_exponential_law(many):
    """Compare counts with the law at level 1e-6; a wrong parameter is rejected."""
    (_, planned, _), runs = many
    risks, selected = (np.asarray(each[1], float) for each in runs.secret)
    selected = selected.astype(int)

    def score(scale):
        law = special.softmax(-risks / scale, axis=1)
        gained = (law * -risks).sum(axis=1)  # the mean of the chosen score
        spread = (law * risks**2).sum(axis=1) - gained**2
        chosen = -risks[np.arange(len(risks)), selected]
        return (chosen - gained).sum() / math.sqrt(spread.sum())

    scale = planned.params.mechanism.selection.scale
    assert abs(score(scale)) < stats.norm.isf(5e-7)
    assert min(abs(score(0.7 * scale)), abs(score(1.4 * scale))) > stats.norm.isf(5e-7)


def test_the_bound_is_the_best_candidates_and_the_choice(problem, many):
    (planned, _, control), runs = many
    mechanism = planned.params.mechanism
    one = privopt.dp_gd(FACTS, BUDGET, steps=5)
    exact = [
        dataclasses.replace(one, params=params).rate.upper
        for params in candidates_of(planned.static, planned.params)
    ]
    lost = mechanism.selection.scale * math.log(len(SIZES))
    assert planned.rate.upper == pytest.approx(min(min(exact) + lost, planned.rate.cap))
    assert control.rate.upper < planned.rate.upper
    risks = problem.excess_risk(runs.released[0])
    assert planned.rate.lower[0].value <= np.mean(risks) < planned.rate.upper
    assert math.isinf(plan("dp_ftrl").rate.upper)  # its theorem is not of the empirical risk


def test_without_noise_the_least_risk_is_released(many):
    risks, selected = (np.asarray(each[2]) for each in many[1].secret)
    assert set(selected) == set(np.argmin(risks, axis=1)) == {np.argmin(risks[0])}


def test_what_cannot_be_planned_is_left_out():
    found = tuned("phased_sgd", step_size=(0.5, 1.0, 1000.0)).plan(FACTS, BUDGET)
    assert len(found.params.mechanism.candidates) == 2


def test_plans_are_values():
    planned = plan()
    assert pickle.loads(pickle.dumps(planned)) == planned == plan()
    assert tuned("dp_gd", step_size=[0.1, 1.0]) == tuned("dp_gd", step_size=(0.1, 1.0))


@pytest.mark.parametrize(
    ("algorithm", "search", "words"),
    [
        ("dp_dg", {"steps": (1, 2)}, "algorithm must be one of .*got 'dp_dg'"),
        ("dp_gd", {}, "search must name a choice of the plan"),
        ("dp_gd", {"step": (1, 2)}, "choice must be one of .*step_size.*got 'step'"),
        ("dp_gd", {"steps": 5}, "steps must be two or more distinct values, got 5"),
        ("dp_gd", {"steps": (5, 5)}, "steps must be two or more distinct values"),
        ("gradient_descent", {"steps": (5, 6)}, "algorithm must be private.*got gradient_descent"),
        ("bias_reduced_sgd", {"base": (1, 2)}, "without public randomness"),
        ("exponential_mechanism", {"regularisation": (0.1, 1.0)}, "and add noise"),
    ],
)
def test_bad_input_is_named(algorithm, search, words):
    with pytest.raises(ValueError, match=words):
        tuned(algorithm, **search)


@pytest.mark.parametrize(
    ("facts", "choices", "words"),
    [
        ({}, {"step_size": 1.0}, "choice must be one of .*got 'step_size'"),
        ({"radius": math.inf}, {}, "radius and lipschitz must be declared"),
        ({}, {"steps": -1}, "step_size must leave two candidates.*got 0: steps must be"),
    ],
)
def test_bad_plans_are_named(facts, choices, words):
    with pytest.raises(ValueError, match=words):
        tuned("dp_gd", step_size=SIZES).plan(dataclasses.replace(FACTS, **facts), BUDGET, **choices)

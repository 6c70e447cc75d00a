"""Methods whose guarantee rests on convexity refuse problems without it; the others do not."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import privopt
from privopt import convex, problems

BUDGET = privopt.Budget(epsilon=1.0, delta=1e-5, relation="replace_one")
FACTS = privopt.ProblemClass(n=20, dim=2, lipschitz=1.0, radius=2.0, smoothness=0.25)
RESTING_ON_CONVEXITY = [
    "output_perturbation",
    "objective_perturbation",
    "approximate_minima_perturbation",
    "exponential_mechanism",
]
BY_GRADIENTS = {
    "dp_gd": {"clip": 1.0, "steps": 3},
    "dp_sgd": {"clip": 1.0, "batch_size": 5, "steps": 3},
    "noisy_adam": {"clip": 1.0, "batch_size": 5, "steps": 3},
    "dp_svrg": {"clip": 1.0, "difference_clip": 0.5, "batch_size": 5, "steps": 3},
    "dp_ftrl": {"clip": 1.0, "batch_size": 5},
}
resting = pytest.mark.parametrize("name", RESTING_ON_CONVEXITY)
by_gradients = pytest.mark.parametrize("name", BY_GRADIENTS)


@resting
@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_refuses_losses_that_are_not_convex(name, delta):
    facts = dataclasses.replace(FACTS, convex=False)
    budget = dataclasses.replace(BUDGET, delta=delta)
    with pytest.raises(ValueError, match=f"convex must be True for {name}, got False: its guar"):
        privopt.ALGORITHMS[name].plan(facts, budget)


@resting
def test_refuses_an_undeclared_lipschitz_constant(name):
    facts = dataclasses.replace(FACTS, lipschitz=math.inf)
    with pytest.raises(ValueError, match=f"lipschitz must be declared for {name}, got inf: its"):
        privopt.ALGORITHMS[name].plan(facts, BUDGET)
    with pytest.raises(ValueError, match="lipschitz must be declared"):
        privopt.ALGORITHMS[name].plan(facts, BUDGET, regularisation=0.5)


@resting
def test_accepts_what_is_convex_and_lipschitz(name):
    assert privopt.ALGORITHMS[name].plan(FACTS, BUDGET).guarantee.meets(BUDGET)


@by_gradients
def test_gradient_methods_guarantee_any_loss_and_claim_no_rate(name):
    facts = dataclasses.replace(FACTS, lipschitz=math.inf, convex=False, smoothness=None)
    planned = privopt.ALGORITHMS[name].plan(facts, BUDGET, **BY_GRADIENTS[name])
    assert planned.guarantee.meets(BUDGET)
    assert planned.rate.upper == math.inf
    assert planned.rate.theorem == "none: the losses are not convex"


def problem(convex):
    rng = np.random.default_rng(0)
    features, labels = rng.normal(size=(20, 2)), np.where(rng.random(20) < 0.5, -1.0, 1.0)
    facts = dataclasses.replace(FACTS, convex=convex)
    return problems.logistic(features, labels, problem_class=facts)


@by_gradients
def test_a_plan_for_convex_problems_refuses_others(name):
    """Its rate would be claimed of a problem that it does not hold for."""
    planned = privopt.ALGORITHMS[name].plan(FACTS, BUDGET, **BY_GRADIENTS[name])
    with pytest.raises(ValueError, match=r"problem\.convex must be True, .* plan rests, got False"):
        privopt.run(planned, problem(convex=False), jax.random.key(0))
    with pytest.raises(ValueError, match=r"problem\.convex must be True, .* plan rests, got False"):
        privopt.run_many([planned], problem(convex=False), jax.random.split(jax.random.key(0)))


def test_a_plan_for_any_problem_takes_convex_ones():
    facts = dataclasses.replace(FACTS, convex=False)
    planned = privopt.ALGORITHMS["dp_gd"].plan(facts, BUDGET, steps=3)
    assert np.all(np.isfinite(privopt.run(planned, problem(True), jax.random.key(0)).released))


def sizes(point, record):
    return jnp.sum(point["weights"] * record)


@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.int32])
def test_parameters_must_be_of_the_datas_floating_type(dtype):
    facts = dataclasses.replace(FACTS, convex=False, radius=math.inf)
    start, data = {"weights": np.zeros(2, dtype)}, np.zeros((20, 2), np.float32)
    name = np.dtype(dtype).name
    with pytest.raises(
        ValueError, match=f"start must be of the data's dtype float32, got .*{name}"
    ):
        problems.Problem(loss=sizes, data=data, problem_class=facts, start=start)


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16])
def test_data_must_be_of_a_type_whose_round_off_is_accounted(dtype):
    facts = dataclasses.replace(FACTS, convex=False, radius=math.inf)
    start, data = {"weights": jnp.zeros(2, dtype)}, jnp.zeros((20, 2), dtype)
    name = np.dtype(dtype).name
    with pytest.raises(ValueError, match=f"data must be float32 or float64, got {name}"):
        problems.Problem(loss=sizes, data=data, problem_class=facts, start=start)


@pytest.mark.parametrize("name", sorted(privopt.ALGORITHMS))
def test_arguments_of_a_plan_that_are_none(name):
    plan = privopt.ALGORITHMS[name].plan
    facts, budget = FACTS, BUDGET
    with pytest.raises(ValueError, match="problem_class must be a ProblemClass, got an object of"):
        plan(budget, facts)
    with pytest.raises(ValueError, match="problem_class must be a ProblemClass, got the class"):
        plan(privopt.ProblemClass, budget)
    with pytest.raises(ValueError, match="budget must be a Budget, got an object of type dict"):
        plan(facts, {"epsilon": 1.0})
    with pytest.raises(ValueError, match=r"choice must be one of .*, got 'nonsense'"):
        plan(facts, budget, nonsense=1)


def test_names_that_are_nearly_right():
    with pytest.raises(KeyError, match=r"got 'dpgd'; did you mean dp_gd\?"):
        privopt.ALGORITHMS["dpgd"]
    assert "dpgd" not in privopt.ALGORITHMS
    with pytest.raises(ValueError, match=r"choice .*, got 'step'; did you mean steps\?"):
        privopt.ALGORITHMS["dp_gd"].plan(FACTS, BUDGET, step=5)


@pytest.mark.parametrize("sampler", ["without_replacement", "shuffled"])
def test_batches_of_fixed_size_are_whole(sampler):
    with pytest.raises(ValueError, match=f"batch_size must be whole for {sampler}"):
        privopt.ALGORITHMS["dp_sgd"].plan(FACTS, BUDGET, batch_size=2.5, steps=3, sampler=sampler)


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        (
            {"output": "latest"},
            "output must be one of average, .*, got 'latest'",
        ),
        ({"output": convex.Last}, "output must be an output rule.* got the class Last itself"),
        ({"update": "adam"}, "update must be an optax optimiser or Update, got 'adam'"),
        ({"update": convex.Update}, "update must be .* got the class Update itself"),
        ({"step_size": "0.1"}, "step_size must be positive and finite, got '0.1'"),
    ],
)
def test_rules_and_optimisers_that_are_none(choices, message):
    with pytest.raises(ValueError, match=message):
        privopt.ALGORITHMS["dp_gd"].plan(FACTS, BUDGET, steps=3, **choices)


@pytest.mark.parametrize(("radius", "regularisation"), [(2.0, 1e-300), (math.inf, 1e-18)])
def test_a_regulariser_that_no_solver_could_use_is_refused_by_name(radius, regularisation):
    facts = dataclasses.replace(FACTS, radius=radius)
    with pytest.raises(ValueError, match="regularisation must be larger, got 1e-"):
        privopt.ALGORITHMS["output_perturbation"].plan(facts, BUDGET, regularisation=regularisation)

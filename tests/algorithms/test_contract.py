"""What every algorithm promises, checked for each by its being listed in ALGORITHMS.

A new algorithm passes by one entry in ``CHOICES``. Statistical tests use a fixed key and state
the probability with which a correct implementation would have failed for a random one.
"""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import privopt
from privopt import problems

N, DIM = 60, 3  # the most in which every algorithm runs
CHOICES = {
    "gradient_descent": {"steps": 30},
    "dp_gd": {"steps": 30},
    "dp_sgd": {"steps": 30, "batch_size": 12},
    "dp_svrg": {"steps": 30, "batch_size": 12},
    "noisy_adam": {"steps": 30, "batch_size": 12},
    "phased_sgd": {},
    "output_perturbation": {},
    "objective_perturbation": {},
    "approximate_minima_perturbation": {},
    "exponential_mechanism": {},
}
NUMBERS = {
    "gradient_descent": [{"steps": 7, "step_size": 0.3}, {"steps": 11, "step_size": 0.1}],
    "dp_gd": [{"steps": 7}, {"steps": 19, "step_size": 0.1}],
    "dp_sgd": [{"steps": 7, "capacity": 40}, {"steps": 19, "step_size": 0.1, "capacity": 40}],
    "dp_svrg": [
        {"steps": 7, "capacity": 40},
        {"steps": 19, "step_size": 0.1, "anchor_every": 3, "capacity": 40},
    ],
    "noisy_adam": [
        {"steps": 7, "capacity": 40},
        {"steps": 19, "step_size": 0.1, "b1": 0.8, "capacity": 40},
    ],
    "phased_sgd": [{}, {"step_size": 0.7}],
    "output_perturbation": [{}, {"regularisation": 0.7}],
    "objective_perturbation": [{}, {"regularisation": 0.7}],
    "approximate_minima_perturbation": [{}, {"regularisation": 0.9}],
    "exponential_mechanism": [{}, {"regularisation": 0.7}],
}
BUDGETS = [
    privopt.Budget(epsilon=1.0, delta=1e-5, relation="replace_one"),
    privopt.Budget(epsilon=3.0, delta=1e-7, relation="replace_one"),
]
PROBLEM_CLASS = privopt.ProblemClass(n=N, dim=DIM, lipschitz=1.0, radius=2.0, smoothness=0.25)
# Noise goes in before the minimisation, and the analysis is not attained.
TILTED = {"objective_perturbation", "approximate_minima_perturbation"}
PRIVATE = [name for name, a in privopt.ALGORITHMS.items() if a.private]
ITERATIVE = [name for name in CHOICES if "steps" in CHOICES[name]]
SAMPLED = [name for name in CHOICES if "batch_size" in CHOICES[name]]
# Noise on an answer; phased_sgd's goes into many, and its own tests look at it.
ADDITIVE = [name for name in PRIVATE if name not in ("exponential_mechanism", "phased_sgd")]
FIXED_PLACES = {"phased_sgd"}  # refuse add_or_remove_one


@pytest.fixture(params=sorted(privopt.ALGORITHMS))
def name(request):
    return request.param


def plan(name, budget=BUDGETS[0], problem_class=PROBLEM_CLASS, **choices):
    return privopt.ALGORITHMS[name].plan(problem_class, budget, **{**CHOICES[name], **choices})


def problem(seed=0, dtype=np.float64, n=N):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n, DIM))
    features /= 1.001 * np.linalg.norm(features, axis=1, keepdims=True)
    labels = np.where(rng.random(n) < 0.5, -1.0, 1.0)
    return problems.logistic(
        features.astype(dtype),
        labels.astype(dtype),
        problem_class=dataclasses.replace(PROBLEM_CLASS, n=n),
    )


def rescaled(mechanism, factor):
    """The mechanism, a NamedTuple or a record, with its noise multiplied."""
    scale = factor * mechanism.scale
    if dataclasses.is_dataclass(mechanism):
        return dataclasses.replace(mechanism, scale=scale)
    return mechanism._replace(scale=scale)


def noiseless(planned):
    """The plan with its noise taken out, and so with no guarantee."""
    if not planned.algorithm.private:
        return planned
    mechanism = rescaled(planned.params.mechanism, 0.0)
    algorithm = dataclasses.replace(planned.algorithm, private=False)
    params = planned.params._replace(mechanism=mechanism)
    if planned.algorithm.name in TILTED:
        params = params._replace(finish=params.finish._replace(scale=0.0))
    return dataclasses.replace(planned, algorithm=algorithm, params=params)


def with_noise(planned, factor):
    params = planned.params._replace(mechanism=rescaled(planned.params.mechanism, factor))
    algorithm = dataclasses.replace(planned.algorithm, private=False)
    return dataclasses.replace(planned, algorithm=algorithm, params=params)


def leaves_equal(left, right, **tolerance):
    for a, b in zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), **tolerance)


def test_every_algorithm_is_here():
    assert set(CHOICES) == set(NUMBERS) == set(privopt.ALGORITHMS)
    assert all(key == a.name for key, a in privopt.ALGORITHMS.items())


def test_jit_equals_eager(name):
    planned, where = plan(name), problem()
    compiled = privopt.run(planned, where, jax.random.key(1))
    with jax.disable_jit():
        eager = privopt.run(planned, where, jax.random.key(1))
    leaves_equal(compiled, eager, rtol=1e-9, atol=1e-12)


def test_many_equals_loop_over_seeds_and_numbers(name):
    plans = [plan(name, b, **c) for b, c in zip(BUDGETS, NUMBERS[name], strict=True)]
    where, keys = problem(), jax.random.split(jax.random.key(2), 3)
    many = privopt.run_many(plans, where, keys)
    assert many.released.shape == (2, 3, DIM)
    for i, planned in enumerate(plans):
        for j in range(3):
            one = privopt.run(planned, where, keys[j], stream=i)
            entry = jax.tree.map(lambda leaf, i=i, j=j: leaf[i, j], many)
            leaves_equal(entry, one, rtol=1e-9, atol=1e-12)


def test_one_trace_for_all_numbers(name, monkeypatch):
    traces = []
    original = privopt.ALGORITHMS[name]

    def counted(*arguments):
        traces.append(1)
        return original.run(*arguments)

    algorithm = dataclasses.replace(original, run=counted)
    for budget, choices in zip(BUDGETS, NUMBERS[name], strict=True):
        planned = dataclasses.replace(plan(name, budget, **choices), algorithm=algorithm)
        for seed in (0, 1):
            privopt.run(planned, problem(seed), jax.random.key(seed))
    assert len(traces) == 1


def test_pure_same_key_same_bits(name):
    planned, where = plan(name), problem()
    first = privopt.run(planned, where, jax.random.key(3))
    again = privopt.run(planned, where, jax.random.key(3))
    leaves_equal(first, again, rtol=0, atol=0)


def test_noise_depends_on_the_key(name):
    planned, where = plan(name), problem()
    first = privopt.run(planned, where, jax.random.key(3)).released
    other = privopt.run(planned, where, jax.random.key(4)).released
    assert np.array_equal(first, other) != planned.algorithm.private


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dtype_and_shape_follow_the_data(name, dtype):
    released = privopt.run(plan(name), problem(dtype=dtype), jax.random.key(0)).released
    assert released.dtype == dtype
    assert released.shape == (DIM,)


def test_release_is_a_member(name):
    """At a budget so small that the noise alone leaves the set."""
    tiny = privopt.Budget(epsilon=1e-3, delta=1e-5, relation="replace_one")
    many = privopt.run_many([plan(name, tiny)], problem(), jax.random.split(jax.random.key(5), 20))
    assert np.all(np.linalg.norm(many.released, axis=-1) <= PROBLEM_CLASS.radius * (1 + 1e-12))


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e200])
def test_total_on_any_data(name, bad):
    """A record that is not finite gives a finite release, never an exception."""
    features, labels = (np.asarray(leaf).copy() for leaf in problem().data)
    features[3, 2] = bad
    where = problems.logistic(features, labels, problem_class=PROBLEM_CLASS)
    assert np.all(np.isfinite(privopt.run(plan(name), where, jax.random.key(0)).released))


def test_within_budget_and_close_to_it(name):
    for relation in privopt.Relation:
        if name in FIXED_PLACES and relation is privopt.Relation.ADD_OR_REMOVE_ONE:
            continue
        budget = privopt.Budget(epsilon=1.0, delta=1e-5, relation=relation)
        spent = plan(name, budget).guarantee.epsilon(budget.delta)
        if name in TILTED:
            older = name == "approximate_minima_perturbation"
            assert (0.2 if older else 0.999) <= spent.upper <= 1.0
            assert spent.lower >= 0.85 * spent.upper
        elif name in SAMPLED:  # calibrated to 1e-4, and read to 1e-3
            assert plan(name, budget).guarantee.meets(budget)
            assert 0.998 <= spent.lower <= spent.upper <= 1.0005
        elif privopt.ALGORITHMS[name].private:
            assert 0.999 <= spent.lower <= spent.upper <= 1.0
        else:
            assert spent.lower == math.inf


@pytest.mark.optimised
@pytest.mark.parametrize("name", [name for name in ADDITIVE if name not in SAMPLED])
def test_zero_noise_equals_the_twin(name):
    """Without noise a method is its non-private twin: descent, or the exact minimiser."""
    planned = noiseless(plan(name))
    released = privopt.run(planned, problem(), jax.random.key(0)).released
    if name in TILTED:
        assert_is_the_minimiser(released, planned)
        return
    if name == "output_perturbation":
        minimiser = privopt.run(plan(name), problem(), jax.random.key(0)).secret.minimiser
        np.testing.assert_array_equal(released, minimiser)
        return
    method = planned.params.descent
    choices = {"steps": method.steps, "step_size": method.step_sizes}
    twin = plan("gradient_descent", **choices)
    expected = privopt.run(twin, problem(), jax.random.key(9)).released
    np.testing.assert_array_equal(released, expected)


def assert_is_the_minimiser(point, planned):
    """Of the problem with its regulariser, inside the ball: the gradient vanishes."""
    regularisation, features, labels = (
        planned.params.mechanism.query.regularisation,
        *problem().data,
    )
    slopes = -labels / (1.0 + np.exp(labels * (features @ point)))
    gradient = slopes @ features / N + regularisation * point
    assert np.linalg.norm(gradient) <= 1e-2 / N


@pytest.mark.parametrize(
    "name", [name for name in ADDITIVE if name not in TILTED and name != "noisy_adam"]
)
@pytest.mark.parametrize(("factor", "accepted"), [(1.0, True), (0.8, False), (1.25, False)])
def test_noise_has_the_planned_scale(name, factor, accepted):
    """Kolmogorov-Smirnov at level 1e-6 on 12,000 normals; 0.8 and 1.25 are rejected surely."""
    iterative = name in ITERATIVE
    choices = {"steps": 1, "step_size": 1.0} if iterative else {"regularisation": 0.5}
    if name in SAMPLED:
        choices["batch_size"] = N  # all of them: what moves is the noise alone
    wide = dataclasses.replace(PROBLEM_CLASS, radius=1e6)
    planned = plan(name, problem_class=wide, **choices)
    where = problems.logistic(*problem().data, problem_class=wide)
    keys = jax.random.split(jax.random.key(6), 4000)
    noisy = privopt.run_many([with_noise(planned, factor)], where, keys)
    still = privopt.run(noiseless(planned), where, keys[0])
    if iterative:
        moved = noisy.secret.last[0] - still.secret.last[None]
    else:
        moved = noisy.released[0] - still.released[None]
    sample = np.asarray(moved).ravel() / planned.params.mechanism.scale
    assert bool(stats.kstest(sample, "norm").pvalue > 1e-6) is accepted


@pytest.mark.parametrize("name", PRIVATE)
def test_less_noise_breaks_the_budget(name):
    planned = plan(name)
    weaker = rescaled(
        planned.params.mechanism, 0.2 if name == "approximate_minima_perturbation" else 0.9
    )
    relation = planned.budget.relation
    if name in ITERATIVE:
        event = weaker.event(relation, planned.params.descent.steps)
    else:
        event = weaker.event(relation)
    guarantee = privopt.Guarantee(event, relation)
    with pytest.raises(ValueError, match="within the budget"):
        dataclasses.replace(planned, guarantee=guarantee)


def test_key_is_required(name):
    with pytest.raises(TypeError, match="key"):
        privopt.run(plan(name), problem())
    for key in (None, 0, jnp.zeros(2, jnp.uint32), jax.random.split(jax.random.key(0))):
        with pytest.raises(ValueError, match="key must be a single typed key"):
            privopt.run(plan(name), problem(), key)


def test_bad_arguments_are_refused(name):
    for choice, bad in {
        "steps": (0, -1, 2.5, True, 2**31),
        "step_size": (0.0, -1.0, math.inf),
    }.items():
        if choice not in NUMBERS[name][1] and choice not in CHOICES[name]:
            continue
        for value in bad:
            with pytest.raises(ValueError, match=choice):
                plan(name, **{choice: value})
    with pytest.raises(ValueError, match="choice must be one of"):
        plan(name, no_such_choice=1)
    with pytest.raises(ValueError, match=r"problem\.n must be the plan's 60, got 61"):
        privopt.run(plan(name), problem(n=N + 1), jax.random.key(0))


def test_the_data_are_not_in_scope_of_the_plan(name):
    """Plans are equal whatever the data; they are made before any exist."""
    first, second = plan(name), plan(name)
    assert first.params == second.params
    assert first.static == second.static
    assert not jax.tree_util.all_leaves([first]) or jax.tree.leaves(first) == [first]


@pytest.mark.parametrize("name", PRIVATE)
def test_upper_bound_holds_on_a_benign_problem(name):
    where = problem()
    planned = plan(name)
    released = privopt.run_many([planned], where, jax.random.split(jax.random.key(7), 200)).released
    risk = where.excess_risk(released)
    assert risk.mean() + where.reference.gap <= planned.rate.upper
    assert name in SAMPLED or planned.rate.lower > 0.0
    assert planned.rate.lower < planned.rate.upper

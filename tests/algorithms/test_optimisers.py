"""Tests of all Optax optimisers with a learning rate, as factories and as objects."""

import functools
import inspect
import math
from dataclasses import replace

import jax
import numpy as np
import optax
import optax.contrib
import pytest
from builders import classification
from selection import few

import privopt
from privopt import problems
from privopt.convex import Update, projected_leader

STEPS, STEP_SIZE = 40, 0.1
EXCLUDED = {
    "dpsgd": "reads gradients of single records",
    "lbfgs": "needs the loss for its line search",
    "momo": "needs the value of the loss",
    "momo_adam": "needs the value of the loss",
    "noisy_sgd": "needs a key of its own",
    "optimistic_adam": "is deprecated: optimistic_adam_v2",
    "schedule_free": "needs another optimiser",
    "sophia": "needs the loss for its Hessian",
}
# An update of each kind: the gradient, its moments, their sign, a trust ratio, a running maximum,
# an orthogonal matrix, a learned size, a size per coordinate, and iterates that are averages.
KINDS = (
    *("sgd", "adam", "muon", "dadapt_adamw", "rprop"),
    "schedule_free_sgd",
)
UNSIGNED = {"scale_by_rprop"}  # factories that leave the minus sign to others
FACTORIES = {
    name: factory
    for module in (optax, optax.contrib)
    for name, factory in inspect.getmembers(module, inspect.isfunction)
    if "learning_rate" in inspect.signature(factory).parameters and not name.startswith("_")
}
FACTS = privopt.ProblemClass(n=30, dim=3, lipschitz=1.0, radius=3.0, smoothness=0.25)
BUDGET = privopt.Budget(epsilon=1.0, delta=1e-6, relation="replace_one")
X = classification(30, 3)[0]
PROBLEM = problems.logistic(X, np.sign(X @ np.array([1.0, -2.0, 0.5])), problem_class=FACTS)


def excess(**choices):
    """Return the excess risk of DP-GD without noise."""
    plan = privopt.dp_gd(FACTS, BUDGET, steps=STEPS, **choices)
    result = privopt.run(plan.with_noise(0.0), PROBLEM, jax.random.key(0))
    return float(np.squeeze(PROBLEM.excess_risk(result.released)))


START = float(np.squeeze(PROBLEM.excess_risk(np.zeros(3))))


def test_what_is_excluded_exists():
    assert EXCLUDED.keys() | UNSIGNED <= FACTORIES.keys()
    assert len(FACTORIES) > 40


@pytest.mark.cases(2)
@pytest.mark.parametrize("name", few(sorted(FACTORIES.keys() - EXCLUDED.keys() - UNSIGNED), KINDS))
def test_a_factory_descends(name):
    assert excess(update=FACTORIES[name], step_size=STEP_SIZE) < START


@pytest.mark.cases(2)
@pytest.mark.parametrize("name", few(sorted(FACTORIES.keys() - EXCLUDED.keys()), KINDS))
def test_a_made_optimiser_descends(name):
    assert excess(update=FACTORIES[name](learning_rate=STEP_SIZE)) < START


SIGNED = [
    optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(0.1)),
    optax.chain(optax.scale_by_adam(), optax.scale(-0.1)),
    optax.chain(optax.sgd(0.5), optax.keep_params_nonnegative()),
    optax.inject_hyperparams(optax.adam)(learning_rate=0.1),
    optax.adam(optax.warmup_cosine_decay_schedule(0.0, 0.2, 20, 40)),
    optax.MultiSteps(optax.sgd(2.0), 16).gradient_transformation(),
]


@pytest.mark.parametrize("made", few(SIGNED, SIGNED[::3]))
def test_compositions_that_contain_the_sign_are_used_as_they_are(made):
    plan = privopt.dp_gd(FACTS, BUDGET, steps=STEPS, update=made)
    assert plan.params.descent.step_sizes is None
    assert excess(update=made) < START


@pytest.mark.cases(2)
@pytest.mark.parametrize("made", [optax.trace(0.9), optax.scale_by_adam(), optax.identity()])
def test_transformations_without_the_sign_take_the_step_sizes_of_the_run(made):
    plain = excess(step_size=STEP_SIZE, output="last")
    risk_after = excess(update=made, step_size=STEP_SIZE)
    assert risk_after < START
    if made == optax.identity():
        assert risk_after == pytest.approx(plain, rel=1e-9)


ASCENDING = "update must move against the gradient, got .* contain the minus sign"


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        (
            {"update": optax.adam(0.1), "step_size": 0.1},
            "step_size must be left out with update, an optimiser with its own step sizes, got "
            r"0\.1: .* update=Update\.of\(optax\.adam\)",
        ),
        ({"update": optax.scale_by_rprop, "step_size": 0.1}, ASCENDING),
        (
            {
                "update": lambda learning_rate: optax.chain(
                    optax.adam(0.1), optax.sgd(learning_rate)
                )
            },
            ASCENDING,
        ),
        ({"update": optax.set_to_zero()}, "update must move within 1000 steps of constant"),
        (
            {"update": functools.partial(optax.adam, learning_rate=0.1)},
            "learning_rate must be left",
        ),
    ],
)
def test_what_would_not_descend_is_refused(choices, message):
    with pytest.raises(ValueError, match=message):
        excess(**choices)


def test_an_unbounded_set_needs_no_step_size_beside_a_made_optimiser():
    facts = privopt.ProblemClass(n=30, dim=3, lipschitz=1.0, radius=math.inf)
    plan = functools.partial(privopt.ALGORITHMS["dp_gd"].plan, facts, BUDGET, steps=STEPS)
    assert "not plain descent" in plan(update=optax.adam(0.1)).rate.theorem
    with pytest.raises(ValueError, match="step_size must be given where radius is infinite"):
        plan(update=optax.adam)


def test_updates_that_a_projection_would_lead_astray_receive_the_gradient_mapping():
    """Choose by the name: descent and the leader are exact on a set for all gradients."""
    plan = functools.partial(privopt.ALGORITHMS["dp_sgd"].plan, FACTS, BUDGET, steps=STEPS)
    mapped = {
        name: plan(update=update, step_size=STEP_SIZE).params.descent.gradient_mapping
        for name, update in (
            ("descent", None),
            ("plain", Update.of(optax.sgd)),
            ("leader", projected_leader),
            ("momentum", Update.of(optax.sgd, momentum=0.9)),
            ("adam", optax.adam),
        )
    }
    assert {name for name, uses_mapping in mapped.items() if uses_mapping} == {"momentum", "adam"}
    assert plan(update=optax.adagrad(0.1)).params.descent.gradient_mapping


UPDATES = [optax.adam(0.1), optax.adagrad(0.3), optax.rmsprop(0.02)]


@pytest.mark.parametrize("update", few(UPDATES, UPDATES[:1]))
def test_on_a_small_set_they_stop_at_its_minimiser(update):
    """Compare with projected steps, which have another fixed point."""
    facts = replace(FACTS, radius=0.5)
    where = problems.logistic(X, PROBLEM.data[1], problem_class=facts)
    plan = privopt.dp_gd(facts, BUDGET, steps=300, update=update)

    def risk(plan):
        released = privopt.run(plan.with_noise(0.0), where, jax.random.key(0)).released
        return float(np.squeeze(where.excess_risk(released)))

    descent = replace(plan.params.descent, gradient_mapping=False)
    astray = replace(plan, params=plan.params._replace(descent=descent))
    assert risk(plan) < 1e-3 * float(np.squeeze(where.excess_risk(np.zeros(3))))
    assert risk(plan) < 0.1 * risk(astray)

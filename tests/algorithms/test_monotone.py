"""No default plan gets worse with a larger budget or with more records (promise 5 of the design).

A plan for a smaller epsilon, or for fewer records, is one for a larger epsilon and for more: where
a default is a number of steps, a period or a batch, it must not give that away.
"""

import itertools
import math

import jax
import numpy as np
import pytest
from selection import choose, few

import privopt
from privopt import ALGORITHMS
from privopt.problems import synthetic

SMOOTH = {"dim": 20, "lipschitz": 1.0, "radius": 10.0, "smoothness": 0.25}
NEAR = {"dim": 20, "lipschitz": 1.0, "radius": 0.3, "smoothness": 0.25}  # 2 H R is far below L
KINKS = {"dim": 20, "lipschitz": 1.0, "radius": 1.0}
STRONG = {**KINKS, "lipschitz": 2.0, "smoothness": 1.0, "strong_convexity": 1.0}
STIFF = {**KINKS, "strong_convexity": 0.05}
SPARSE = {**KINKS, "smoothness": 0.5, "sparsity": 2}
CLASSES = {"smooth": SMOOTH, "near": NEAR, "kinks": KINKS, "strong": STRONG, "stiff": STIFF}
CURVED = {name: CLASSES[name] for name in ("smooth", "near", "strong")}
LOW = {name: {**facts, "dim": 2} for name, facts in CLASSES.items()}
# For every algorithm the classes in which it has a bound, and whether a plan takes milliseconds.
CASES = {
    "gradient_descent": (CLASSES, True),
    "dp_gd": (CLASSES, True),
    "accelerated_dp_gd": (CLASSES, True),
    "dp_sgd": ({"smooth": SMOOTH, "near": NEAR, "strong": STRONG}, False),
    "dp_svrg": ({"smooth": SMOOTH, "kinks": KINKS, "strong": STRONG}, True),
    "bias_reduced_sgd": ({"sparse": SPARSE}, False),
    "dp_ftrl": ({"smooth": SMOOTH, "kinks": KINKS}, True),
    "phased_sgd": (CURVED, True),
    "output_perturbation": (CLASSES, True),
    "linf_output_perturbation": ({"sparse": SPARSE}, True),
    "objective_perturbation": (CURVED, True),
    "approximate_minima_perturbation": (CURVED, True),
    "exponential_mechanism": (LOW, True),
    "projection_mechanism": ({"sparse": SPARSE}, True),
    "l1_recovery": ({"sparse": SPARSE}, True),
    "sufficient_statistics": ({"near": NEAR, "strong": STRONG}, True),
}
PAIRS = [(name, kind) for name, (classes, _) in CASES.items() for kind in classes]
# Of each algorithm the first class, which is smooth for most; without noise, plans take no time.
# Plans of bias_reduced_sgd take seconds, and a finished solution has the bound of the exact one.
COSTLY = {"bias_reduced_sgd", "approximate_minima_perturbation"}
FIRST = [
    (name, kind)
    for name, kind in PAIRS
    if name not in COSTLY and (name == "gradient_descent" or kind == next(iter(CASES[name][0])))
]
WITH_BOUND = {"dp_ftrl": {"quantity": "population risk"}}  # the default is for quadratic losses
UNBOUNDED = {"noisy_adam"}  # measured below
SLACK = 1e-9
PURE = [  # with plans for pure differential privacy
    ("output_perturbation", "kinks"),
    ("output_perturbation", "strong"),
    ("objective_perturbation", "near"),
    ("sufficient_statistics", "near"),
    ("exponential_mechanism", "kinks"),
]
DELTAS = 0.0, 1e-30, 1e-9, 1e-6, 1e-4


def geometric(low, high, factor):
    return [low * factor**k for k in range(math.ceil(math.log(high / low, factor)))]


def bounds(name, facts, axis, values, **choices):
    """Yield the bound of the plan at every value, with 2,000 records or epsilon 1."""
    for value in values:
        n, epsilon = (2000, value) if axis == "epsilon" else (value, 1.0)
        budget = privopt.Budget(epsilon=epsilon, delta=1e-6, relation="replace_one")
        problem_class = privopt.ProblemClass(n=n, **facts)
        yield ALGORITHMS[name].plan(problem_class, budget, **choices).rate.upper


def ladder(axis, fine):
    factor = choose(2.0**0.5, 3.0) if fine else choose(2.0, 4.0)
    if axis == "epsilon":
        return geometric(0.1, 20.0, factor)
    coarse = geometric(250, 30_000, factor)
    return sorted({*map(round, coarse), *(range(1000, 1016, 3) if fine else ())})


def assert_falls(uppers, values):
    assert all(map(math.isfinite, uppers))
    rises = [
        (low, high, after / before - 1.0)
        for (low, before), (high, after) in itertools.pairwise(zip(values, uppers, strict=True))
        if after > before * (1.0 + SLACK)
    ]
    assert rises == []


def test_every_algorithm_has_its_cases():
    assert CASES.keys() | UNBOUNDED == {name for name in ALGORITHMS if "tuned" not in name}


@pytest.mark.parametrize("axis", ["epsilon", "n"])
@pytest.mark.parametrize(("name", "kind"), few(PAIRS, FIRST))
def test_no_bound_of_a_default_plan_rises(name, kind, axis):
    classes, fine = CASES[name]
    values = ladder(axis, fine)
    uppers = list(bounds(name, classes[kind], axis, values, **WITH_BOUND.get(name, {})))
    assert_falls(uppers, values)
    assert uppers[-1] < uppers[0] or name == "gradient_descent"


@pytest.mark.cases(3)
@pytest.mark.parametrize("dim", [1, 3, 12, 40])
@pytest.mark.parametrize(("name", "kind"), PURE)
def test_no_bound_rises_with_delta(name, kind, dim):
    """Noise of pure privacy is less than Gaussian noise at the same epsilon in few dimensions."""
    facts = {**CASES[name][0][kind], "dim": min(dim, ALGORITHMS[name].largest_dim or dim)}
    problem_class = privopt.ProblemClass(n=5000, **facts)
    for epsilon in (0.1, 8.0):
        budgets = [
            privopt.Budget(epsilon=epsilon, delta=delta, relation="replace_one") for delta in DELTAS
        ]
        plans = [ALGORITHMS[name].plan(problem_class, budget) for budget in budgets]
        assert_falls([plan.rate.upper for plan in plans], DELTAS)
        spent = [plan.guarantee.epsilon(delta) for plan, delta in zip(plans, DELTAS, strict=True)]
        assert all(each.upper <= epsilon for each in spent)


@pytest.mark.cases(2)
@pytest.mark.parametrize("axis", ["epsilon", "n"])
@pytest.mark.parametrize(
    ("facts", "choices", "fine"),
    [
        (SMOOTH, {"steps": 1000}, True),
        (KINKS, {"steps": 1000}, True),
        pytest.param(NEAR, {}, False, marks=pytest.mark.thorough),
        (NEAR, {"steps": 1000}, False),
    ],
)
def test_no_period_of_dp_svrg_raises_its_bound(facts, choices, fine, axis):
    """Test given steps, and classes with batches between anchors."""
    values = ladder(axis, fine)[:: 1 if fine else choose(2, 1)]
    assert_falls(list(bounds("dp_svrg", facts, axis, values, **choices)), values)


# --- measured, where there is no bound ------------------------------------------------------------

RUNS = 240
EPSILONS = choose((0.5, 1.0, 2.0, 4.0, 8.0), (0.5, 2.0, 8.0))


# A default plan has several times as many steps.
@pytest.mark.thorough  # of one algorithm, whose plan has no bound
@pytest.mark.parametrize("choices", few([{}, {"steps": 100}], [{"steps": 100}]), ids=str)
@pytest.mark.parametrize("radius", few([1.0, 10.0], [1.0]))
def test_the_risk_of_noisy_adam_falls_with_epsilon(radius, choices):
    """Test a minimiser on the boundary, where projected steps of Adam stop elsewhere, and inside.

    Within 5 standard errors: a false alarm has a probability of 3e-7 in each comparison.
    """
    problem = synthetic("logistic", radius=radius).build(
        n=500, dim=5, noise_ratio=0.0, strength=0.0
    )
    keys = jax.random.split(jax.random.key(1), RUNS)
    means, errors = [], []
    for epsilon in EPSILONS:
        budget = privopt.Budget(epsilon=epsilon, delta=1e-6, relation="replace_one")
        plan = ALGORITHMS["noisy_adam"].plan(problem.problem_class, budget, **choices)
        risks = np.ravel(problem.excess_risk(privopt.run_many([plan], problem, keys).released))
        means.append(risks.mean())
        errors.append(risks.std(ddof=1) / math.sqrt(RUNS))
    for low, high in itertools.pairwise(range(len(EPSILONS))):
        assert means[high] < means[low] + 5.0 * math.hypot(errors[low], errors[high])
    assert means[-1] < 0.1 * means[0]

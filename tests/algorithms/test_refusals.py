"""Tests of refused arguments, by name and before compilation, and of unusual valid ones."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import privopt
from privopt import convex, problems
from privopt.mechanisms import TreeNoise

BUDGET = privopt.Budget(epsilon=1.0, delta=1e-5, relation="replace_one")
FACTS = privopt.ProblemClass(n=20, dim=2, lipschitz=1.0, radius=2.0, smoothness=0.25)
SPARSE = dataclasses.replace(FACTS, sparsity=2)
MEANS = privopt.ProblemClass(
    n=400, dim=20, lipschitz=2.0, radius=1.0, smoothness=1.0, strong_convexity=1.0, sparsity=2
)
INF, NAN = math.inf, math.nan
CLASSES = {
    "bias_reduced_sgd": SPARSE,
    "linf_output_perturbation": SPARSE,
    "projection_mechanism": MEANS,
    "l1_recovery": MEANS,
    "sufficient_statistics": dataclasses.replace(FACTS, lipschitz=3.0, smoothness=1.0),
}
USUAL = {
    "dp_gd": {"steps": 3},
    "dp_sgd": {"steps": 3, "batch_size": 5},
    "noisy_adam": {"steps": 3, "batch_size": 5},
    "dp_svrg": {"steps": 3, "batch_size": 5},
    "dp_ftrl": {"batch_size": 1},
    "bias_reduced_sgd": {"steps": 4},
}
CURVED = {"smoothness": 0.5, "strong_convexity": 0.5}
PURE = {"delta": 0.0, "radius": INF, "distance": 1.0}
# fmt: off
REFUSED = {
    "dp_gd": [
        ({"radius": INF}, "step_size must be given where radius is infinite"),
        ({"output": "latest"}, "output must be one of average, .*, got 'latest'"),
        ({"output": convex.Average}, "output must be an output rule.* got the class Average"),
        ({"update": "adam"}, "update must be an optax optimiser or Update, got 'adam'"),
        ({"update": convex.Update}, "update must be .* got the class Update itself"),
        ({"post": "sparse"}, "sparsity must be declared for post='sparse', got None"),
        ({"post": convex.L2Ball}, "post must be 'sparse', a constraint set or None"),
        ({"post": "dense"}, "post must be 'sparse', a constraint set or None, got 'dense'"),
        ({"steps": 10_001, "record": "all"}, "record must be a number for more than 10000 steps"),
        ({"record": "some"}, "record must be 'all' or an integer from 0 to 10000"),
    ],
    "dp_sgd": [
        ({"batch_size": None, "rate": 1.5}, r"rate must be at most 1, got 1\.5"),
        ({"rate": 0.5}, "rate must be left out with batch_size"),
        ({"sampler": "shuffled", "capacity": 20}, "capacity must be left out for shuffled"),
        ({"lipschitz": INF}, "clip_norm must be given where lipschitz is not declared"),
        ({"sampler": "shuffled", "batch_size": 2.5}, "batch_size must be whole for shuffled"),
        ({"sampler": "cyclic_poisson"}, "cycle must be given for cyclic_poisson batches"),
        ({"cycle": 5}, "cycle must be left out .* poisson batches, got 5"),
        ({"sampler": "cyclic"}, "sampler must be one of poisson, .*, cyclic_poisson, got 'cyclic'"),
    ],
    "noisy_adam": [
        ({"b1": 1.0}, "b1 must lie in"),
        ({"b2": -0.1}, "b2 must lie in"),
        ({"weight_decay": -1.0}, "weight_decay must be non-negative"),
        ({"noise_correction": True, "weight_decay": 0.1}, "weight_decay must be 0 with noise_corr"),
        ({"noise_correction": True, "sampler": "shuffled", "noise": "tree"},
         "noise must be independent with noise_correction"),
    ],
    "dp_svrg": [
        ({"anchor_every": 0}, "anchor_every must be an integer"),
        ({"difference_clip": -1.0}, "difference_clip must be positive and finite, got -1.0"),
        ({"batch_size": 21}, "batch_size must be positive and at most n = 20"),
        ({"lipschitz": INF, "smoothness": None, "clip_norm": 1.0}, "difference_clip must be give"),
    ],
    "dp_ftrl": [
        ({"relation": "add_or_remove_one"}, "relation must be replace_one or zero_out"),
        ({"radius": INF}, "regularisation must be given where radius is infinite"),
        ({"noise": "trees"}, r"must be one of .*, got 'trees'; did you mean tree\?"),
        ({"noise": TreeNoise}, "noise must be a Noise .* got the class TreeNoise itself"),
        ({"noise": TreeNoise(), "band": 3}, "band must be left out if noise is not a name, got 3"),
        ({"quantity": "empirical risk", "smoothness": None}, "smoothness must be declared"),
        ({"quantity": "empirical risk", "momentum": 0.5}, "momentum must be left out"),
        ({"quantity": "regret", "step_size": 0.5}, "step_size must be left out for the regret"),
        ({"quantity": "empirical risk", "epochs": 5000}, "step_size must be given for"),
        ({"noise": "tree", "band": 3}, "band must be left out for tree, got 3"),
    ],
    "phased_sgd": [
        ({"convex": False}, r"problem_class\.convex must be True, since one pass is private by"),
        ({"smoothness": None}, "smoothness must be declared, since one pass is private by it"),
        ({"n": 2**30}, "n must be at most 1040187392 for sampling by record number"),
        ({"lipschitz": INF, "step_size": 0.1}, "lipschitz must be declared for one pass to be pri"),
        ({"step_size": 8.01}, r"step_size must be at most 2/smoothness = 8\.0, got 8\.01"),
        ({"relation": "add_or_remove_one"}, "relation must be replace_one or zero_out for phased_"),
    ],
    "bias_reduced_sgd": [
        ({"base": 11}, "base must be at most n/2 = 10, got 11"),
        ({"n": 1, "sparsity": 2}, r"base must be at most n/2 = 0\.5, got 1"),
        ({"body": "l3"}, "body must be one of"),
        ({"gap": 1.0, "smoothness": 0.0}, "smoothness must be positive for this step size, got 0"),
        ({"convex": False, "radius": INF}, "step_size must be given, or gap"),
        ({"boost": 1.0}, "boost must be a chance of failure below 1"),
        ({"boost": 0.1, "mode": "paper", "steps": None}, "boost must be None but for fixed steps"),
        ({"boost": 0.1, "record": 5}, "boost must be None but for fixed steps"),
        ({"steps": None, "mode": "paper", "epsilon": 1.001}, r"epsilon must be at most 1 for"),
    ],
    "output_perturbation": [
        ({"radius": INF}, "regularisation must be given where radius is infinite"),
        ({"delta": 0.0, "noise": "gaussian"}, r"delta must be positive for noise='gaussian'"),
        ({"noise": "cauchy"}, "noise must be one of gaussian, norm_laplace, got 'cauchy'"),
        ({"stationary": True, "smoothness": None}, "smoothness must be declared where stationary"),
        ({"regularisation": 1e-300}, "regularisation must be larger, got 1e-300"),
    ],
    "sufficient_statistics": [
        ({"smoothness": None}, "smoothness must be positive for second moments"),
        ({"radius": INF, "floor": -INF, "label_clip": 1.0},
         "floor must be finite where radius is infinite, got -inf"),
        ({"floor": -1.0}, r"floor must be at least 0 and finite, or -inf for none, got -1\.0"),
        ({"lipschitz": INF}, "label_clip must be given where lipschitz is not declared"),
        ({"lipschitz": 2.0}, "label_clip must be given where lipschitz is at most radius"),
        ({"label_clip": 1e31}, r"label_clip must lie in \[1e-30, 1e30\], got 1e\+31"),
    ],
    "linf_output_perturbation": [
        ({"delta": 0.0}, r"radius must be inf for pure linf_output_perturbation, got 2\.0"),
        ({"radius": INF}, "distance must be given where radius is infinite, got None"),
        ({"mode": "loose"}, "mode must be one of tight, paper, got 'loose'"),
        ({"projection": "l1"}, "projection must be one of linf, ball, l2, none, got 'l1'"),
        ({"glm": 1}, "glm must be True or False, got 1"),
        ({"epsilon": 2.0, "mode": "paper"}, r"epsilon must not exceed 1 for the classic formula"),
        ({"sparsity": None}, "sparsity must be declared for linf_output_perturbation, got None"),
        (CURVED, r"strong_convexity must be 0 for linf_output_perturbation, got 0\.5"),
        (PURE | {"smoothness": None}, "smoothness must be declared for pure linf_output_perturbat"),
        (PURE | {"smoothness": None, "glm": True, "mode": "paper"}, "smoothness must be declared"),
    ],
    "objective_perturbation": [
        ({"smoothness": None}, "smoothness must be declared.* got None"),
        ({"radius": INF}, "regularisation must be given where radius is infinite"),
        ({"regularisation": 0.007}, r"regularisation must exceed 0\.00.*, got 0\.007"),
        ({"analysis": "kifer", "delta": 0.0}, "analysis must be one of tight, .* got 'kifer'"),
    ],
    "approximate_minima_perturbation": [
        ({"delta": 0.0}, "delta must be positive for approximate minima"),
    ],
    "exponential_mechanism": [
        ({"dim": 4}, "dim must be at most 3 for exponential_mechanism, got 4: no sampler"),
        ({"radius": INF}, "radius must be finite for exponential_mechanism"),
        ({"delta": 0.0, "regularisation": 0.1}, "regularisation must be None for pure"),
    ],
    "projection_mechanism": [
        ({"mode": "fast"}, "mode must be one of tight, paper, got 'fast'"),
        ({"noise": "cauchy"}, "noise must be one of gaussian, laplace, got 'cauchy'"),
        ({"body": "cube"}, "body must be one of l1_l2, l1, l2, none, got 'cube'"),
        ({"sparsity": None}, "sparsity must be declared for body='l1_l2', got None"),
        ({"delta": 0.0, "noise": "gaussian"}, "delta must be positive for noise='gaussian'"),
        ({"lipschitz": INF, "radius": INF, "strong_convexity": 0.0}, "clip_norm must be given"),
        ({"smoothness": 0.0, "strong_convexity": 0.0}, "smoothness must be positive or undeclar"),
        ({"epsilon": 1.01, "mode": "paper"}, "epsilon must not exceed 1 for mode='paper'"),
    ],
    "l1_recovery": [
        ({"measurements": 0}, "measurements must be"),
        ({"measurements": 20}, "measurements must be below dim = 20, got 20"),
        ({"calibration": "best"}, "calibration must be one of mixture, renyi, split, published"),
        ({"mode": "fast"}, "mode must be one of tight, paper, got 'fast'"),
        ({"sparsity": None}, "sparsity must be declared for l1_recovery, got None"),
        ({"matrix": np.eye(20)}, "measurements must be below dim = 20, got 20"),
        ({"matrix": np.ones((3, 4))}, r"matrix must have shape \(m, 20\), got \(3, 4\)"),
        ({"matrix": [[1.0, 2.0], [3.0]]}, "matrix must have shape .* got an object of type list"),
        ({"matrix": np.ones((3, 20)) * 1j}, "matrix must hold real numbers, got dtype complex128"),
        ({"matrix": np.full((3, 20), NAN)}, "matrix must be finite"),
        ({"matrix": np.zeros((3, 20))}, r"matrix must have its largest entry in .*, got 0\.0"),
        ({"matrix": np.full((3, 20), 1e200)}, "matrix must have its largest entry"),
        ({"matrix": np.ones((3, 20)), "measurements": 3}, "measurements must be left out with"),
        ({"matrix": np.ones((3, 20)), "mode": "paper"}, "matrix must be left out for mode='paper'"),
    ],
}
VALUES = {
    "dp_sgd": {
        "batch_size": [0.0, -3, 21, NAN],
        "clip_norm": [0.0, -1.0, INF],
        "clipping": ["none"],
        "sampler": ["uniform"],
        "capacity": [4, 0, 2.5],
        "record": [-1, 1.5, True],
        "output": ["mean"],
    },
    "dp_ftrl": {
        "epochs": [0, -1, 1.5, True],
        "momentum": [-0.1, 1.0, NAN, "0.5"],
        "batch_size": [0, -1, 2.5, 21, NAN],
        "regularisation": [0.0, -1.0, INF, NAN, True],
        "order": ["shuffled", None],
        "quantity": ["gradient norm", "risk", 1],
    },
    "output_perturbation": {"regularisation": [0.0, -1.0, -0.0, INF, NAN, True, "1"]},
    "sufficient_statistics": {
        "floor": [-1.0, INF, NAN, True, "1"],
        "label_clip": [0.0, -1.0, INF, NAN, True],
        "weight": [0.0, -1.0, INF, NAN, True],
    },
    "objective_perturbation": {"regularisation": [0.0, INF]},
    "approximate_minima_perturbation": {"relative_error": [0.0, -1.0, INF]},
    "exponential_mechanism": {"regularisation": [0.0, INF]},
}
NO_RATE = {
    "dp_sgd": [
        ({"update": optax.adagrad, "step_size": 0.1}, "the update is not plain descent"),
        ({"clip_norm": 0.5}, "clipped below the Lipschitz constant"),
        ({"clipping": "automatic"}, "clipped below the Lipschitz constant"),
        ({"output": "weighted_average", "step_size": 0.1},
         "no theorem for these step sizes with this output"),
    ],
    "dp_svrg": [
        ({"clip_norm": 0.5}, "clipped below"),
        ({"difference_clip": 0.1}, "differences of gradients are clipped"),
        ({"step_size": convex.StepSizes.inverse_root(0.1)}, "step sizes"),
        ({"step_size": 0.5, "output": convex.last_iterate()}, "step sizes with this output"),
        ({"step_size": 0.5, "radius": INF}, "not bounded"),
        ({"convex": False}, "not convex"),
    ],
}
LACKING = {  # of what a problem must provide
    "linf_output_perturbation": ({"glm": True}, "distance", "must provide linear_model for linf_o"),
    "objective_perturbation": ({}, "distance", "as GeneralisedLinear"),
    "sufficient_statistics": ({}, "logistic", r"must provide squares .*problems\.squared"),
    "projection_mechanism": ({}, "linear", "must provide mean for projection_mechanism"),
}
# fmt: on
GAUSSIAN = [*USUAL, "phased_sgd", "l1_recovery"]
RESTING_ON_CONVEXITY = [name for name in privopt.ALGORITHMS if name.endswith("perturbation")]
RESTING_ON_CONVEXITY.append("exponential_mechanism")
BY_GRADIENTS = {
    "dp_gd": {"clip_norm": 1.0, "steps": 3},
    "dp_sgd": {"clip_norm": 1.0, "batch_size": 5, "steps": 3},
    "noisy_adam": {"clip_norm": 1.0, "batch_size": 5, "steps": 3},
    "dp_svrg": {"clip_norm": 1.0, "difference_clip": 0.5, "batch_size": 5, "steps": 3},
    "dp_ftrl": {"clip_norm": 1.0, "batch_size": 5},
}
resting = pytest.mark.parametrize("name", RESTING_ON_CONVEXITY)
by_gradients = pytest.mark.parametrize("name", BY_GRADIENTS)


def plan(name, **changes):
    """Return a plan; ``changes`` are fields of the class or the budget, or choices, by name."""
    choices, told = dict(changes), []
    for whole in (CLASSES.get(name, FACTS), BUDGET):
        names = {field.name for field in dataclasses.fields(whole)} & changes.keys()
        told.append(dataclasses.replace(whole, **{each: choices.pop(each) for each in names}))
    return privopt.ALGORITHMS[name].plan(*told, **{**USUAL.get(name, {}), **choices})


@pytest.mark.parametrize(
    ("name", "changes", "message"), [(name, *row) for name, rows in REFUSED.items() for row in rows]
)
def test_refused_by_name(name, changes, message):
    with pytest.raises(ValueError, match=message):
        plan(name, **changes)


@pytest.mark.parametrize(
    ("name", "choice"), [(name, choice) for name, table in VALUES.items() for choice in table]
)
def test_values_are_refused_with_the_name_of_the_choice(name, choice):
    for value in VALUES[name][choice]:
        with pytest.raises(ValueError, match=choice):
            plan(name, **{choice: value})


@pytest.mark.parametrize(
    ("name", "changes", "reason"), [(name, *row) for name, rows in NO_RATE.items() for row in rows]
)
def test_no_rate_is_claimed_where_none_is_proved(name, changes, reason):
    rate = plan(name, **changes).rate
    assert rate.upper == INF
    assert reason in rate.theorem


@pytest.mark.parametrize("name", LACKING)
def test_a_problem_that_lacks_what_is_asked_of_it_is_refused_by_name(name):
    choices, kind, message = LACKING[name]
    planned, facts = plan(name, **choices), CLASSES.get(name, FACTS)
    rows, labels = np.eye(facts.n, facts.dim), np.ones(facts.n)
    given = (rows, labels) if kind == "logistic" else (rows,)
    where = getattr(problems, kind)(*given, problem_class=facts)
    with pytest.raises(ValueError, match=message):
        privopt.run(planned, where, jax.random.key(0))


@pytest.mark.parametrize("name", GAUSSIAN)
def test_gaussian_noise_needs_a_delta(name):
    with pytest.raises(ValueError, match=f"delta must be positive for .* noise of {name}"):
        plan(name, delta=0.0)


@resting
@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_refuses_losses_that_are_not_convex(name, delta):
    with pytest.raises(ValueError, match=f"convex must be True for {name}, got False: its guar"):
        plan(name, convex=False, delta=delta)


@resting
def test_refuses_an_undeclared_lipschitz_constant(name):
    for choices in ({}, {"regularisation": 0.5}):
        with pytest.raises(ValueError, match=f"lipschitz must be declared for {name}, got inf"):
            plan(name, lipschitz=INF, **choices)


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
    """The rate of the plan does not hold for a problem that is not convex."""
    planned, key = (
        privopt.ALGORITHMS[name].plan(FACTS, BUDGET, **BY_GRADIENTS[name]),
        jax.random.key(0),
    )
    told = r"problem\.convex must be True, an assumption of the plan, got False"
    with pytest.raises(ValueError, match=told):
        privopt.run(planned, problem(convex=False), key)
    with pytest.raises(ValueError, match=told):
        privopt.run_many([planned], problem(convex=False), jax.random.split(key))


def test_a_plan_for_any_problem_takes_convex_ones():
    facts = dataclasses.replace(FACTS, convex=False)
    planned = privopt.dp_gd(facts, BUDGET, steps=3)
    assert np.all(np.isfinite(privopt.run(planned, problem(True), jax.random.key(0)).released))


def sizes(point, record):
    return jnp.sum(point["weights"] * record)


@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.int32])
def test_parameters_must_be_of_the_datas_floating_type(dtype):
    facts = dataclasses.replace(FACTS, convex=False, radius=math.inf)
    start, data = {"weights": np.zeros(2, dtype)}, np.zeros((20, 2), np.float32)
    rule = "float32 or float64" if dtype is np.float16 else "of the data's dtype float32"
    with pytest.raises(ValueError, match=f"start must be {rule}, got .*{np.dtype(dtype).name}"):
        problems.Problem(loss=sizes, data=data, problem_class=facts, start=start)


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16])
def test_data_must_be_of_a_type_whose_round_off_is_accounted(dtype):
    facts = dataclasses.replace(FACTS, convex=False, radius=math.inf)
    start, data = {"weights": jnp.zeros(2, dtype)}, jnp.zeros((20, 2), dtype)
    name = np.dtype(dtype).name
    with pytest.raises(ValueError, match=f"data must be float32 or float64, got {name}"):
        problems.Problem(loss=sizes, data=data, problem_class=facts, start=start)


def test_arguments_of_a_plan_that_are_none():
    plan = privopt.ALGORITHMS["dp_gd"].plan
    with pytest.raises(ValueError, match="problem_class must be a ProblemClass, got an object of"):
        plan(BUDGET, FACTS)
    with pytest.raises(ValueError, match="problem_class must be a ProblemClass, got the class"):
        plan(privopt.ProblemClass, BUDGET)
    with pytest.raises(ValueError, match="budget must be a Budget, got an object of type dict"):
        plan(FACTS, {"epsilon": 1.0})


def test_names_that_are_nearly_right():
    with pytest.raises(KeyError, match=r"got 'dpgd'; did you mean dp_gd\?"):
        privopt.ALGORITHMS["dpgd"]
    assert "dpgd" not in privopt.ALGORITHMS
    with pytest.raises(ValueError, match=r"choice .*, got 'step'; did you mean steps\?"):
        privopt.dp_gd(FACTS, BUDGET, step=5)

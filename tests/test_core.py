"""Plans and problems: agreement of the two runners, compilations, and errors."""

import dataclasses
import itertools
import math
import pickle
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dp_accounting import NonPrivateDpEvent

import privopt
from privopt import core, problems, random
from privopt.convex import last_iterate
from privopt.core import Algorithm, Execution, Plan, Run, replicates
from privopt.core.parameters import device_numbers
from privopt.mechanisms import clipped_gradient_sum
from privopt.spec import Assumptions

N, DIM = 20, 3
CLASS = privopt.ProblemClass(n=N, dim=DIM, lipschitz=1.0, radius=2.0, smoothness=0.25, sparsity=DIM)
BUDGET = privopt.Budget(epsilon=1.0, delta=1e-5, relation="replace_one")
DP_GD = privopt.ALGORITHMS["dp_gd"]
OUTPUT = privopt.ALGORITHMS["output_perturbation"]


class NoPrivacy(NamedTuple):
    """Mechanism without privacy and with the parameters of the toy algorithm."""

    scale: float
    steps: int

    def event(self, relation):
        del relation
        return NonPrivateDpEvent()


class OfEnvelopes(NoPrivacy):
    """Algorithm for at most a given number of records and losses with a Moreau envelope."""

    def assumptions(self, relation):
        del relation
        return Assumptions(n=N, requires=frozenset({"smoothing"}))


class Params(NamedTuple):
    mechanism: NoPrivacy


class Static(NamedTuple):
    dim: int = DIM


class Secret(NamedTuple):
    norm: jax.Array
    steps: jax.Array


def toy_run(static, params, objective, key, execution):
    """Run ``steps`` noisy gradient steps with all arguments that core passes to an algorithm."""
    params = params.mechanism
    gradient_sum = clipped_gradient_sum(objective, 1.0, microbatch=execution.microbatch)
    pull = gradient_sum(jnp.zeros(static.dim, objective.dtype))
    noise = params.scale * jax.random.normal(key, (static.dim,), objective.dtype)
    released = jax.lax.fori_loop(0, params.steps, lambda _, w: w + pull + noise, 0.0 * pull)
    return Run(released, Secret(jnp.linalg.norm(released), params.steps))


TOY = Algorithm("toy", "gradient plus noise", plan=None, run=toy_run, private=False)


def toy(scale=1.0, steps=2, algorithm=TOY, budget=BUDGET, static=None, **more):
    fields = {
        "algorithm": algorithm,
        "problem_class": CLASS,
        "budget": budget,
        "params": Params(NoPrivacy(scale, steps)),
        "static": Static() if static is None else static,
    }
    return Plan(**{**fields, **more})


def counted(algorithm):
    """Return the algorithm, and a list with one entry per trace."""
    traces = []

    def run(*arguments):
        traces.append(1)
        return algorithm.run(*arguments)

    return dataclasses.replace(algorithm, run=run), traces


def problem(seed=0, dtype=np.float64, n=N, **changes):
    rng = np.random.default_rng(seed)
    dim = changes.get("dim", DIM)
    features = rng.normal(size=(n, dim))
    features /= 1.001 * np.linalg.norm(features, axis=1, keepdims=True)
    labels = np.where(rng.random(n) < 0.5, -1.0, 1.0)
    return problems.logistic(
        features.astype(dtype),
        labels.astype(dtype),
        problem_class=dataclasses.replace(CLASS, n=n, **changes),
    )


def keys(count, seed=0):
    return jax.random.split(jax.random.key(seed), count)


@contextmanager
def compilations():
    """Return the names of the programs that are compiled in the block."""
    names = []

    def hear(event, _, **details):
        if event == "/jax/core/compile/backend_compile_duration":
            names.append(details["fun_name"])

    jax.monitoring.register_event_duration_secs_listener(hear)
    try:
        yield names
    finally:
        jax.monitoring.unregister_event_duration_listener(hear)


def test_two_devices():
    """Check that the suite has two devices on a CPU; the tests below need them."""
    assert len(jax.devices("cpu")) == 2


def test_a_replicate_depends_on_its_own_key_alone():
    where, each = problem(), keys(6)
    many = core.run_many([toy()], where, each).released[0]
    for chosen in ([2], [1, 1, 4]):
        some = core.run_many([toy()], where, each[np.array(chosen)]).released[0]
        np.testing.assert_allclose(some, many[np.array(chosen)], rtol=1e-13)


def test_replicates_are_spread_over_the_devices():
    many = core.run_many([toy()], problem(), keys(8))
    assert many.released.sharding.device_set == set(jax.devices())


def gradient_from(releases, plans):
    """Return the gradient computed from two releases of one step with the same noise."""
    first, second = (plan.params.mechanism.scale for plan in plans)
    return (second * releases[0] - first * releases[1]) / (second - first)


def one_step_plans():
    """Return plans of one step ``-g - z`` from the centre, with different guarantees."""
    budgets = [dataclasses.replace(BUDGET, epsilon=epsilon) for epsilon in (1.0, 2.0)]
    return [
        DP_GD.plan(CLASS, each, steps=1, step_size=1.0, output=last_iterate()) for each in budgets
    ]


def test_the_noise_of_two_plans_does_not_cancel():
    """Check that noise differs, except for named streams, where the gradient is exact."""
    plans, where, each = one_step_plans(), problem(), keys(50)
    gradient = np.asarray(where.objective.value_and_gradient(jnp.zeros(DIM))[1])
    scale = plans[0].params.mechanism.scale
    miss = {}
    for common in (False, True):
        table = core.run_many(plans, where, each, common_random_numbers=common)
        found = gradient_from(np.asarray(table.released), plans)
        miss[common] = np.linalg.norm(found + gradient, axis=-1)
    assert miss[True].max() < 1e-12
    assert miss[False].min() > 0.01 * scale


def test_noise_of_plans_is_independent():
    """Test each coordinate of 4000 runs of five equal plans: correlations within five deviations.

    False alarm below 2e-5; with equal noise the correlation is 1.
    """
    table = core.run_many([toy(steps=1)] * 5, problem(), keys(4000)).released
    for a, b in itertools.combinations(np.asarray(table), 2):
        for column in range(DIM):
            assert abs(np.corrcoef(a[:, column], b[:, column])[0, 1]) < 5.0 / math.sqrt(4000)


def test_the_first_stream_is_the_key_itself():
    where, key = problem(), jax.random.key(9)
    first = core.run(toy(), where, key)
    np.testing.assert_array_equal(first.released, core.run(toy(), where, key, stream=0).released)
    assert replicates.key_of_stream(key, 0) == key
    other = core.run(toy(), where, key, stream=1).released
    assert not np.any(first.released == other)
    common = core.run_many([toy()] * 3, where, keys(2), common_random_numbers=True).released
    np.testing.assert_array_equal(common[0], common[1])
    np.testing.assert_array_equal(common[0], common[2])


DRAWS = [(random, name) for name in ("normal", "laplace", "exponential", "gumbel")]
DRAWS += [(jax.random, name) for name in ("bits", "uniform", "randint", "permutation")]
STOCHASTIC = [
    ("dp_sgd", "zero_out", {"steps": 4, "batch_size": 7, "sampler": "shuffled"}),
    ("dp_sgd", "replace_one", {"steps": 3, "batch_size": 7, "sampler": "without_replacement"}),
    ("dp_svrg", "replace_one", {"steps": 4, "batch_size": 7, "anchor_every": 2}),
    ("dp_ftrl", "replace_one", {"batch_size": 7, "epochs": 2, "restart": True}),
    ("phased_sgd", "replace_one", {}),
]


@pytest.mark.cases(2)
@pytest.mark.parametrize(("name", "relation", "choices"), STOCHASTIC)
def test_no_two_draws_have_one_key(name, relation, choices, monkeypatch):
    """Check all keys of a run and of two streams.

    ``split(key)[i]`` is ``fold_in(key, i)`` here, so keys of batches, orders, steps and streams
    could coincide. Several keys of each kind are drawn from.
    """
    drawn = []

    def heard(draw):
        def drawing(key, *arguments, **options):
            words = jax.random.key_data(key)
            jax.debug.callback(lambda found: drawn.append(tuple(found.tolist())), words)
            return draw(key, *arguments, **options)

        return drawing

    for room, draw in DRAWS:
        monkeypatch.setattr(room, draw, heard(getattr(room, draw)))
    budget = dataclasses.replace(BUDGET, relation=relation)
    plan = privopt.ALGORITHMS[name].plan(CLASS, budget, **choices)
    params = device_numbers(plan.params, np.float64)

    @jax.jit
    def release(key, stream):
        objective = problem().objective
        key = replicates.key_of_stream(key, stream)
        return plan.algorithm.run(plan.static, params, objective, key, Execution())

    runs = []
    for stream in (0, 1, 2, 2**31 - 1):
        release(jax.random.key(0), np.uint32(stream)).released.block_until_ready()
        jax.effects_barrier()
        runs.append(len(drawn))
    assert runs[0] >= 4
    assert runs == [runs[0] * i for i in (1, 2, 3, 4)]
    assert len(set(drawn)) == len(drawn)


@pytest.mark.parametrize("stream", [-1, 2**31, 0.0, True, None, "1"])
def test_a_stream_is_a_number(stream):
    with pytest.raises(ValueError, match="stream must be an integer from 0 to 2147483647, got"):
        core.run(toy(), problem(), jax.random.key(0), stream=stream)


def test_common_random_numbers_are_asked_for_by_name():
    with pytest.raises(TypeError, match="positional"):
        core.run_many([toy()], problem(), keys(2), True)
    with pytest.raises(ValueError, match="common_random_numbers must be True or False, got 1"):
        core.run_many([toy()], problem(), keys(2), common_random_numbers=1)


def test_three_plans_32_keys_two_data_sets_compile_once():
    algorithm, traces = counted(DP_GD)
    plans = [
        dataclasses.replace(
            DP_GD.plan(CLASS, dataclasses.replace(BUDGET, epsilon=e), steps=t, output="average"),
            algorithm=algorithm,
        )
        for e, t in [(0.5, 10), (1.0, 20), (2.0, 30)]
    ]
    data = [problem(seed) for seed in (0, 1)]
    each, others = keys(32), keys(32, seed=5)
    before = replicates.run_all._cache_size()
    with compilations() as programs:
        core.run_many(plans, data[0], each)
    assert [name for name in programs if "run_all" in name] == ["jit(run_all)"]
    with compilations() as programs:
        core.run_many(plans, data[1], others)
    assert programs == []
    assert replicates.run_all._cache_size() == before + 1
    assert len(traces) == 1


def test_new_shapes_or_types_do_trace_again():
    algorithm, traces = counted(TOY)
    core.run(toy(algorithm=algorithm), problem(), jax.random.key(0))
    core.run(toy(algorithm=algorithm), problem(dtype=np.float32), jax.random.key(0))
    assert len(traces) == 2


RAW = np.zeros(2, np.uint32)


@pytest.mark.parametrize("key", [None, 0, 1.5, RAW, jnp.asarray(RAW), "key", keys(1), keys(2)])
def test_run_wants_one_typed_key(key):
    with pytest.raises(
        ValueError, match=r"key must be a single typed key made by jax\.random\.key"
    ):
        core.run(toy(), problem(), key)


@pytest.mark.parametrize(
    "key", [None, 0, jnp.zeros((4, 2), jnp.uint32), jax.random.key(0), keys(4).reshape(2, 2)]
)
def test_run_many_wants_a_vector_of_typed_keys(key):
    with pytest.raises(ValueError, match="keys must be a vector of typed keys made by"):
        core.run_many([toy()], problem(), key)


def test_no_default_key():
    with pytest.raises(TypeError, match="key"):
        core.run(toy(), problem())
    with pytest.raises(TypeError, match="keys"):
        core.run_many([toy()], problem())


def test_plans_must_share_algorithm_and_static_part():
    other = dataclasses.replace(TOY, name="other")
    with pytest.raises(ValueError, match=r"plans must share algorithm, .*, got toy and other$"):
        core.run_many([toy(), toy(algorithm=other)], problem(), keys(2))
    namesake = dataclasses.replace(TOY, summary="another")
    with pytest.raises(ValueError, match=r"got two algorithms named toy$"):
        core.run_many([toy(), toy(algorithm=namesake)], problem(), keys(2))
    with pytest.raises(ValueError, match="plans must hold at least one plan, got none"):
        core.run_many([], problem(), keys(2))


def test_plans_of_different_noise_are_refused():
    mixed = [OUTPUT.plan(CLASS, BUDGET, noise=noise) for noise in ("gaussian", "norm_laplace")]
    with pytest.raises(ValueError, match=r"mechanism an .* GaussianMechanism and an .* NormLap"):
        core.run_many(mixed, problem(), keys(2))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dim": DIM + 1}, r"problem\.dim must be the plan's 3, got 4"),
        ({"n": N + 1}, r"problem\.n must be the plan's 20, got 21"),
        ({"n": N - 1}, r"problem\.n must be the plan's 20, got 19"),
        (
            {"radius": 2.5},
            r"problem\.radius must be at most 2, an assumption of the plan, got 2\.5",
        ),
        (
            {"radius": math.inf},
            r"problem\.radius must be at most 2, an assumption of the plan, got inf",
        ),
        (
            {"lipschitz": 1.5},
            r"problem\.lipschitz must be at most 1, an assumption of the plan, got 1\.5",
        ),
    ],
)
@pytest.mark.parametrize("relation", ["replace_one", "zero_out"])
def test_a_problem_outside_the_class_is_refused(changes, message, relation):
    plan = toy(budget=dataclasses.replace(BUDGET, relation=relation))
    with pytest.raises(ValueError, match=message):
        core.run(plan, problem(**changes), jax.random.key(0))
    with pytest.raises(ValueError, match=message):
        core.run_many([toy(), plan], problem(**changes), keys(2))


def test_smaller_constants_fit():
    core.run(toy(), problem(radius=0.5, lipschitz=0.5, smoothness=0.1), jax.random.key(0))


def test_what_an_algorithm_requires_must_be_provided():
    rough = dataclasses.replace(CLASS, smoothness=None)
    plan = toy(problem_class=rough, params=Params(OfEnvelopes(1.0, 2)))
    plain = problems.Problem(
        loss=lambda w, x: jnp.abs(w @ x), data=np.eye(N, DIM), problem_class=rough
    )
    with pytest.raises(ValueError, match="problem must provide smoothing for toy, got problem"):
        core.run(plan, plain, jax.random.key(0))
    core.run(plan, problem(), jax.random.key(0))


@pytest.mark.parametrize("n", [N - 1, N, N + 1])
def test_add_or_remove_normalises_by_the_design_size(n):
    """Test two steps on ``-<w, x>``: the mean of three points is ``eta sum(x) / 20``."""
    budget = dataclasses.replace(BUDGET, relation="add_or_remove_one")
    plan = privopt.gradient_descent(CLASS, budget, steps=2, step_size=0.1, output="average")
    features = np.full((n, DIM), 0.5)
    where = problems.linear(features, problem_class=dataclasses.replace(CLASS, n=n))
    released = core.run(plan, where, jax.random.key(0)).released
    np.testing.assert_allclose(released, 0.1 * features.sum(axis=0) / N, rtol=1e-6)


def test_a_plan_over_budget_is_refused():
    """Test noise that is smaller by one part in a million."""
    plan = DP_GD.plan(CLASS, BUDGET, steps=5)
    mechanism = plan.params.mechanism
    weaker = dataclasses.replace(mechanism, scale=mechanism.scale * (1.0 - 1e-6))
    with pytest.raises(ValueError, match=r"must lie within the budget: epsilon 1\.0000"):
        dataclasses.replace(plan, params=plan.params._replace(mechanism=weaker))
    for smaller in (
        dataclasses.replace(BUDGET, epsilon=0.999),
        dataclasses.replace(BUDGET, delta=9e-6),
    ):
        with pytest.raises(ValueError, match="within the budget"):
            dataclasses.replace(plan, budget=smaller)
    private = dataclasses.replace(TOY, private=True)
    with pytest.raises(ValueError, match="epsilon inf at delta"):
        toy(algorithm=private)
    dataclasses.replace(plan, budget=dataclasses.replace(BUDGET, epsilon=1.1))


def test_a_guarantee_cannot_be_passed():
    plan = DP_GD.plan(CLASS, BUDGET, steps=5)
    with pytest.raises(TypeError, match="guarantee"):
        dataclasses.replace(plan, guarantee=plan.guarantee)


@pytest.mark.parametrize("params", [(), Params(None), NoPrivacy(1.0, 1)])
def test_params_have_a_mechanism(params):
    with pytest.raises(ValueError, match="params must have a mechanism with an event, got an"):
        toy(params=params)


@pytest.mark.parametrize("bad", [math.nan, "1", np.float64, 1j, jnp.zeros(2)])
def test_params_are_numbers(bad):
    name = r"params\.mechanism\.scale"
    with pytest.raises(ValueError, match=name + " must be a number or a NumPy array, got"):
        toy(scale=bad)


def test_static_part_is_hashable():
    with pytest.raises(TypeError, match="unhashable"):
        toy(static=[DIM])


def test_a_plan_cannot_enter_a_compiled_run():
    plan = DP_GD.plan(CLASS, BUDGET, steps=5)
    assert jax.tree.leaves(plan) == [plan]
    with pytest.raises(TypeError, match="Plan"):
        jax.jit(lambda p: p)(plan)
    with pytest.raises(dataclasses.FrozenInstanceError):
        plan.params = None


def test_float64_algorithms_compute_in_float64_whatever_the_setting():
    """Test float32 data without x64: the result is the float64 result, cast to float32."""
    plan = OUTPUT.plan(CLASS, BUDGET)
    narrow = problem(dtype=np.float32)
    features, labels = (np.asarray(leaf, np.float64) for leaf in narrow.data)
    wide = problems.logistic(features, labels, problem_class=CLASS)
    expected = core.run(plan, wide, jax.random.key(3))
    table = core.run_many([plan], wide, keys(3))
    with jax.enable_x64(False):
        off = problems.logistic(
            features.astype(np.float32), labels.astype(np.float32), problem_class=CLASS
        )
        found = core.run(plan, off, jax.random.key(3))
        many = core.run_many([plan], off, keys(3))
        assert jnp.asarray(1.0).dtype == np.float32  # the setting outside is untouched
    for left, right in ((found, expected), (many, table)):
        assert left.released.dtype == np.float32
        np.testing.assert_array_equal(left.released, np.asarray(right.released, np.float32))


@pytest.mark.cases(3)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("part", ["features", "labels"])
def test_data_that_are_not_finite_count_as_null(bad, part):
    """Compare with null records: DP-GD agrees, and output perturbation starts from the centre."""
    features, labels = (np.array(leaf) for leaf in problem().data)
    (features if part == "features" else labels)[:] = bad
    # labels other than -1 and 1 are refused by ``logistic``: a linear loss takes any
    broken = problems.linear(features, labels, problem_class=CLASS)
    null = problems.linear(np.zeros((N, DIM)), problem_class=CLASS)
    plan, key = DP_GD.plan(CLASS, BUDGET, steps=6), jax.random.key(0)
    released = core.run(plan, broken, key).released
    np.testing.assert_array_equal(released, core.run(plan, null, key).released)
    solved = core.run(OUTPUT.plan(CLASS, BUDGET), broken, key)
    np.testing.assert_array_equal(solved.secret.minimiser, np.zeros(DIM))
    assert np.isfinite(solved.released).all()


@pytest.mark.cases(5)
@pytest.mark.parametrize("name", sorted(privopt.ALGORITHMS))
def test_a_plan_survives_the_trip_to_another_process(name):
    """Check that a copy is equal and works in one call with the original."""
    choices = {"steps": 5} if "steps" in privopt.ALGORITHMS[name].choices else {}
    facts = dataclasses.replace(CLASS, sparsity=2)
    plan = privopt.ALGORITHMS[name].plan(facts, BUDGET, **choices)
    sent = pickle.loads(pickle.dumps(plan))
    assert sent == plan
    assert sent.rate.exponents == plan.rate.exponents
    if name == "dp_gd":
        where = problem(sparsity=2)
        both = privopt.run_many([plan, sent], where, jax.random.split(jax.random.key(0), 2))
        assert both.released.shape == (2, 2, DIM)


def test_a_control_needs_noise_to_scale():
    """Check that all noise fields of the mechanism are scaled, and no other field."""
    assert toy(scale=0.5, steps=3).with_noise(2.0).params.mechanism == NoPrivacy(1.0, 3)

    class Bare(NamedTuple):
        steps: int
        event = NoPrivacy.event

    class Unscaled(NamedTuple):
        mechanism: Bare

    with pytest.raises(ValueError, match=r"mechanism must hold a scale for a control, .* Bare"):
        toy(params=Unscaled(Bare(2))).with_noise(2.0)


def test_a_plan_prints_one_screen():
    shown = str(DP_GD.plan(CLASS, BUDGET, steps=50))
    for fact in (
        "dp_gd: full-batch gradient descent",
        "n = 20, dim = 3, lipschitz = 1, radius = 2, smoothness = 0.25",
        "at delta 1e-05 under replace_one",
        "mechanism.scale = ",
        "clip_norm = 1, steps = 50, step_size = ",
        "E F(w) - F* <= ",
        "noise leading, sqrt(d T) sigma >= 25 H R, at fixed steps",
        "F(c) - F* <= L R = 2",
    ):
        assert fact in shown
    assert max(map(len, shown.splitlines())) < 200
    assert len(shown.splitlines()) <= 12
    with pytest.warns(UserWarning, match=r"delta is at least 1/n = 0.05, got 0.5"):
        large = DP_GD.plan(CLASS, dataclasses.replace(BUDGET, delta=0.5), steps=50)
    assert "delta is above 1/n = 0.05: to publish every record with probability" in str(large)
    assert "remark" not in shown
    assert "0x" not in repr(DP_GD.plan(CLASS, BUDGET, steps=50))


def test_a_plan_without_radius_names_no_trivial_bound():
    whole = dataclasses.replace(CLASS, radius=math.inf)
    shown = str(DP_GD.plan(whole, BUDGET, steps=50, step_size=0.1))
    assert "without data" not in shown
    assert "inf" not in shown.split("bound")[0]


SWAPPED = {
    "plan must be a Plan, got an object of type list": lambda p, w, k: privopt.run([p], w, k[0]),
    "plan must be a Plan, got an object of type Problem": lambda p, w, k: privopt.run(w, p, k[0]),
    "problem must be a .*Problem, got the class Problem": lambda p, w, k: privopt.run(
        p, problems.Problem, k[0]
    ),
    "problem must be a .*Problem, got an object of type tuple": lambda p, w, k: privopt.run(
        p, w.data, k[0]
    ),
    "plans must be a sequence of Plan, got a single plan": privopt.run_many,
    "plans must be a Plan, got an object of type NoneType": lambda p, w, k: privopt.run_many(
        [p, None], w, k
    ),
}


@pytest.mark.parametrize("message", SWAPPED)
def test_arguments_in_each_others_place(message):
    keys = jax.random.split(jax.random.key(0), 2)
    with pytest.raises(ValueError, match=message):
        SWAPPED[message](DP_GD.plan(CLASS, BUDGET, steps=5), problem(), keys)


@pytest.mark.parametrize(
    ("wrong", "bad"),
    [
        ({"clip_norm": "1"}, {"clip_norm": -1.0}),
        ({"steps": None, "noise": 3}, {"noise": "pink"}),
        ({"norm": 2}, {"norm": "l3"}),
    ],
)
def test_a_wrong_type_is_a_type_error_and_a_value_error(wrong, bad):
    plan = partial(privopt.dp_gd, CLASS, BUDGET)
    with pytest.raises(TypeError) as error:
        plan(**wrong)
    assert isinstance(error.value, ValueError)  # as in scikit-learn
    with pytest.raises(ValueError, match=f"{[*bad][-1]} must") as error:
        plan(**bad)
    assert not isinstance(error.value, TypeError)

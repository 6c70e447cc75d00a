"""Single steps of a run, and records that are read by batch, compared with ``run``."""

import copy
import dataclasses
import pickle
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from selection import few

import privopt
from privopt import problems
from privopt.core.parameters import plan_digest
from privopt.problems import GeneralisedLinear, Logistic

N, DIM = 60, 3
FACTS = privopt.ProblemClass(n=N, dim=DIM, lipschitz=1.0, radius=1.0, smoothness=0.25, sparsity=DIM)
RELATIONS = {"bias_reduced_sgd": "replace_one", "dp_gd": "add_or_remove_one"}
CHOICES = {
    "gradient_descent": {"steps": 6},
    "dp_gd": {"steps": 6, "record": "all"},
    "accelerated_dp_gd": {"steps": 6, "record": "all"},
    "dp_sgd": {"steps": 6, "batch_size": 12, "sampler": "shuffled", "noise": "tree"},
    "dp_svrg": {"steps": 11, "batch_size": 12, "anchor_every": 4},
    "bias_reduced_sgd": {"steps": 4, "base": 4, "body": "l2"},
    "dp_ftrl": {"batch_size": 12},
    "noisy_adam": {"steps": 6, "batch_size": 12, "output": "random_iterate"},
    "phased_sgd": {},
}
KINDS = ("dp_sgd", "dp_ftrl", "phased_sgd")  # the others take steps as these do
READING = sorted(name for name in CHOICES if privopt.ALGORITHMS[name].rows)
KEY = jax.random.key(3)
LOSS = GeneralisedLinear(Logistic())


def records():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(N, DIM))
    features /= 1.001 * np.linalg.norm(features, axis=1, keepdims=True)
    return features.astype(np.float32), np.sign(rng.normal(size=N)).astype(np.float32)


def plan(name, **choices):
    relation = RELATIONS.get(name, "zero_out")
    budget = privopt.Budget(epsilon=1.0, delta=1e-5, relation=relation)
    return privopt.ALGORITHMS[name].plan(FACTS, budget, **{**CHOICES[name], **choices})


def problem():
    return problems.logistic(*records(), problem_class=FACTS)


def same(left, right):
    jax.tree.map(np.testing.assert_array_equal, left, right)


def close(left, right):
    """Compare up to rounding; two programs of one run may sum in different orders."""
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-6), left, right)


def test_every_algorithm_in_steps_is_here():
    assert set(CHOICES) == {name for name, a in privopt.ALGORITHMS.items() if a.steps}
    assert set(CHOICES) - set(READING) == {"dp_svrg", "bias_reduced_sgd"}


@pytest.mark.parametrize("name", few(CHOICES, KINDS))
def test_steps_end_in_the_release_of_the_run(name):
    """Save a state as bytes and load it between two steps; the result has the same bits."""
    planned, where = plan(name), problem()
    s = privopt.stepper(planned, where)
    state = resumed = s.init(KEY)
    for t in range(s.steps):
        assert int(state.t) == t
        if t == s.steps // 2:
            leaves, structure = jax.tree.flatten(resumed)
            saved = pickle.loads(pickle.dumps([np.asarray(leaf) for leaf in leaves]))
            resumed = jax.tree.unflatten(structure, saved)
        state, resumed = s.step(state), s.step(resumed)
    same(s.released(resumed), s.released(state))
    whole = privopt.run(planned, where, KEY)
    close(s.released(state), whole.released)
    close(s.ends(state).path, whole.path)
    with pytest.raises(ValueError, match=f"state must be before the last of the {s.steps} planned"):
        s.step(state)


@pytest.mark.parametrize("name", few(CHOICES, ["dp_sgd"]))
def test_compiled_steps_agree_with_the_run(name):
    """Run steps in a loop of the caller, without float64."""
    planned, where = plan(name), problem()
    s = privopt.stepper(planned, where)

    @jax.jit
    def last(state):
        return jax.lax.fori_loop(0, s.steps, lambda _, state: s.step(state), state)

    with jax.enable_x64(False):
        close(s.released(last(s.init(KEY))), privopt.run(planned, where, KEY).released)
        if planned.algorithm.rows:
            rows = jax.jit(s.rows)(s.init(KEY))
            same(rows, s.rows(s.init(KEY)))


@pytest.mark.parametrize("name", few(["dp_sgd", "phased_sgd"], ["dp_sgd"]))
def test_a_state_belongs_to_its_plan_and_stream(name):
    """Check that a state of another budget is refused."""
    planned = plan(name)
    s, where = privopt.stepper(planned, problem()), problem()
    state = s.step(s.init(KEY))
    looser = privopt.Budget(epsilon=2.0, delta=1e-5, relation="zero_out")
    others = [
        privopt.stepper(privopt.ALGORITHMS[name].plan(FACTS, looser, **CHOICES[name]), where),
        privopt.stepper(dataclasses.replace(planned, budget=looser), where),
        privopt.stepper(planned.with_noise(0.5), where),
        privopt.stepper(planned.with_noise(1.0), where),
        privopt.stepper(planned, where, stream=1),
    ]
    if name == "dp_sgd":
        others.append(privopt.stepper(plan(name, steps=7), where))

    def read(rows):
        pytest.fail("records were read for a state of another plan")

    for other in others:
        for use in (other.step, other.released, other.ends, other.rows):
            with pytest.raises(ValueError, match="state must be of a run of this plan in this str"):
                use(state)
        with pytest.raises(ValueError, match="state must be of a run of this plan in this stream"):
            privopt.run_stream(
                other.plan if other.stream == 0 else plan(name, step_size=0.5),
                LOSS,
                read,
                KEY,
                state=state,
            )
    for other in others[::4]:  # a compiled step takes the digest of its plan as the others do
        compiled = jax.jit(other.step)(state)
        assert int(compiled.t) == 1
        same(compiled.inner, state.inner)
        assert np.isnan(jax.jit(other.released)(state)).all()
    again = privopt.stepper(plan(name), problem())  # an equal plan, made anew
    same(again.step(state), s.step(state))


def test_a_digest_counts_arrays_and_what_functions_close_over():
    planned = plan("dp_sgd")

    def digest(**changes):
        object.__setattr__(other := copy.copy(planned), "static", changes)
        return plan_digest(other, 0).tolist()

    def closed_over(number):
        return lambda w: number * w

    distinct = [
        digest(),
        digest(a=np.zeros(3)),
        digest(a=np.array([0.0, 0.0, 1e-300])),
        digest(a=np.zeros(3, np.float32)),
        digest(a=np.zeros((3, 1))),
        digest(b=np.zeros(3)),
        digest(a=closed_over(1.0)),
        digest(a=closed_over(2.0)),
        digest(a=partial(closed_over, 1.0)),
        digest(a=partial(closed_over, 2.0)),
        digest(a=(1, (2, 3))),
        digest(a=((1, 2), 3)),
        digest(a={"x": 1}),
        digest(a={"x": 2}),
    ]
    assert len(set(map(tuple, distinct))) == len(distinct)
    assert digest(a=closed_over(1.0)) == digest(a=closed_over(1.0))


@pytest.mark.parametrize("t", [-3, -1, 6, 7, 10**6])
def test_a_counter_beyond_the_plan_takes_no_step(t):
    s = privopt.stepper(plan("dp_gd"), problem())
    state = s.init(KEY)
    state = dataclasses.replace(state, inner=state.inner._replace(t=jnp.int32(t)))
    with pytest.raises(ValueError, match=r"state must be before the last of the 6 planned steps"):
        s.step(state)
    assert int(jax.jit(s.step)(state).t) == t
    if t != 6:
        with pytest.raises(ValueError, match=r"state must be after at most all of the 6 planned"):
            s.released(state)


def test_records_given_by_hand_enter_as_those_of_a_problem():
    """Check that records are scaled: long ones would exceed the charged sensitivity of phased_sgd.

    Integers are clipped like floats, also the smallest number of their type.
    """
    planned = plan("phased_sgd")
    features, labels = records()
    s = privopt.stepper(planned, problem())
    for table in (1000.0 * features, np.full((N, DIM), -(2**31), np.int32)):
        where = privopt.stepper(planned, problems.logistic(table, labels, problem_class=FACTS))
        state = s.init(KEY)
        rows = np.asarray(s.rows(state)[0])
        close(s.step(state, (table[rows], labels[rows])).inner, where.step(state).inner)
    for dtype in (np.float16, jnp.bfloat16):
        with pytest.raises(ValueError, match="batch must be float32 or float64, got "):
            s.step(state, (jnp.asarray(features[rows], dtype), labels[rows]))
    with jax.enable_x64(True), pytest.raises(ValueError, match="batch must be float32, got float6"):
        s.step(state, (features[rows].astype(np.float64), labels[rows].astype(np.float64)))


@pytest.mark.cases(2)
@pytest.mark.parametrize("name", few(READING, KINDS))
def test_records_from_outside_end_in_the_release_of_the_run(name):
    """Check that one batch is read at a time, and only records of the sample."""
    planned, data, asked = plan(name), records(), []

    def read(rows):
        asked.append(rows)
        return tuple(leaf[rows] for leaf in data)

    seen = []
    found = privopt.run_stream(planned, LOSS, read, KEY, after=lambda state: seen.append(state.t))
    whole = privopt.run(planned, problem(), KEY)
    close(found.released, whole.released)
    s = privopt.stepper(planned, problem())
    assert [int(t) for t in seen] == list(range(1, s.steps + 1))
    state = s.init(KEY)
    for rows in asked:
        planned_rows, taken = map(np.asarray, s.rows(state))
        np.testing.assert_array_equal(rows, planned_rows[taken])
        state = s.step(state, tuple(leaf[planned_rows] for leaf in data))
    close(s.released(state), whole.released)


def test_an_interrupted_stream_goes_on_where_it_was():
    planned, data = plan("dp_sgd"), records()

    def interrupt(state):
        if int(state.t) == 2:
            kept.append(state)
            raise KeyboardInterrupt

    kept, rest = [], []

    def read(rows):
        return tuple(leaf[rows] for leaf in data)

    with pytest.raises(KeyboardInterrupt):
        privopt.run_stream(planned, LOSS, read, KEY, after=interrupt)
    found = privopt.run_stream(
        planned, LOSS, read, KEY, state=kept[0], after=lambda state: rest.append(int(state.t))
    )
    assert rest == [3, 4, 5, 6]
    close(found.released, privopt.run(planned, problem(), KEY).released)
    with pytest.raises(ValueError, match="state must be of a run with this key"):
        privopt.run_stream(planned, LOSS, read, jax.random.key(4), state=kept[0])


@pytest.mark.parametrize("value", few([np.nan, np.inf, -1e38, 1e-45], [np.nan, -1e38, 1e-45]))
def test_hostile_records_are_what_they_are_to_a_run(value):
    """Test a tenth of hostile records, so that every batch contains some."""
    features, labels = records()
    features[::10] = value
    planned = plan("noisy_adam")
    where = problems.logistic(features, labels, problem_class=FACTS)
    found = privopt.run_stream(planned, LOSS, lambda rows: (features[rows], labels[rows]), KEY)
    close(found.released, privopt.run(planned, where, KEY).released)
    assert np.isfinite(found.released).all()


def test_steps_are_mapped_and_compiled():
    """A compiled step after the last one leaves the state unchanged, because it cannot raise."""
    s = privopt.stepper(plan("dp_gd"), problem())
    keys = jax.random.split(KEY, 3)
    states = jax.jit(jax.vmap(s.init))(keys)  # the first use of the stepper is in a program
    step = jax.jit(jax.vmap(s.step))
    for _ in range(s.steps + 2):
        states = step(states)
    assert np.asarray(states.t).tolist() == [s.steps] * 3
    each = [privopt.run(s.plan, problem(), key).released for key in keys]
    np.testing.assert_allclose(jax.jit(jax.vmap(s.released))(states), each, rtol=1e-5)


def test_new_numbers_are_no_new_program():
    """Check that a new budget and a new step compile no program."""
    traces, original = [], privopt.ALGORITHMS["dp_sgd"]

    def steps(*arguments):
        traces.append(1)
        return original.steps(*arguments)

    counted = dataclasses.replace(original, steps=steps)
    for size in (0.1, 0.2):
        planned = dataclasses.replace(
            plan("dp_sgd", step_size=size, output="last"), algorithm=counted
        )
        s = privopt.stepper(planned, problem())
        state = s.init(KEY)
        for _ in range(3):
            state = s.step(state)
    assert len(traces) == 2  # init and step


def test_refusals():
    planned, data = plan("dp_sgd"), records()
    s = privopt.stepper(planned, problem())
    places = s.rows(s.init(KEY))[0].shape[0]
    with pytest.raises(ValueError, match=f"batch must hold the {places} records .*, got 3"):
        s.step(s.init(KEY), tuple(leaf[:3] for leaf in data))
    with pytest.raises(
        ValueError, match="read must return one record for each row of its argument"
    ):
        privopt.run_stream(planned, LOSS, lambda rows: data, KEY)
    one_shot = privopt.output_perturbation(FACTS, planned.budget)
    with pytest.raises(
        ValueError, match="plan must be of a run in steps, got one of output_perturbation"
    ):
        privopt.stepper(one_shot, problem())
    with pytest.raises(ValueError, match=r"one batch of a fixed size in every step .*dp_svrg"):
        privopt.run_stream(plan("dp_svrg"), LOSS, lambda rows: data, KEY)
    with pytest.raises(ValueError, match=r"problem\.n must be the plan's 60, got 61"):
        privopt.run_stream(
            planned, LOSS, lambda rows: (data[0][rows % N], data[1][rows % N]), KEY, n=61
        )
    drawn = problems.logistic(
        *(leaf[:2] for leaf in data), problem_class=FACTS, probabilities=np.ones(2) / 2
    )
    t = privopt.stepper(planned, drawn)
    with pytest.raises(ValueError, match="batch must be None if records are drawn"):
        t.step(t.init(KEY), tuple(leaf[:places] for leaf in data))

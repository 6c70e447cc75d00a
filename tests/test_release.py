"""Release point: no effect in production, recording by a tape, and detection of leaks by replay."""

import dataclasses
import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from selection import few

import privopt
from privopt import algorithms, core, mechanisms, problems, random, statistics
from privopt.release import Released, Replay, Tape, release

N, DIM = 12, 3  # few records are few steps of what runs through them once
FACTS = privopt.ProblemClass(n=N, dim=DIM, lipschitz=1.0, radius=2.0, smoothness=0.25, sparsity=DIM)
BUDGET = privopt.Budget(epsilon=1.0, delta=1e-5, relation="replace_one")
KEY = jax.random.key(3)
KINDS = ("dp_sgd", "objective_perturbation")  # steps and a solver


def problem(seed=0):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(N, DIM))
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    return problems.logistic(features, np.sign(rng.normal(size=N)), problem_class=FACTS)


def plan(name):
    choices = {"steps": 3} if "steps" in privopt.ALGORITHMS[name].choices else {}
    return privopt.ALGORITHMS[name].plan(FACTS, BUDGET, **choices)


def taped(planned, where):
    with Tape() as tape:
        run = privopt.run(planned, where, KEY)
    return run, tape


# What an audit and a replay test look like


@pytest.mark.thorough  # a replay of each kind is in the contract or in audit/test_replay.py
@pytest.mark.parametrize("name", ["dp_gd", "output_perturbation", "objective_perturbation"])
def test_the_answers_decide_the_release(name):
    """Replay noisy answers on other data: the released point agrees in every bit."""
    planned = plan(name)
    run, tape = taped(planned, problem(0))
    other, _ = taped(planned, problem(1))
    with Replay(answer=tape["answer"]):
        replayed = privopt.run(planned, problem(1), KEY)
    assert not np.array_equal(other.released, run.released)
    np.testing.assert_array_equal(replayed.released, run.released)


def test_an_audit_of_the_steps_of_descent():
    """Compare recorded answers on neighbours: they differ by at most the sensitivity.

    The noise on the tape is that of the mechanism for the same key.
    """
    planned, mechanism = plan("dp_gd"), plan("dp_gd").params.mechanism
    features, labels = (np.array(leaf) for leaf in problem().data)
    labels[0] *= -1.0
    neighbour = problems.logistic(features, labels, problem_class=FACTS)
    tapes = [taped(planned, where)[1] for where in (problem(), neighbour)]
    np.testing.assert_array_equal(tapes[0]["noise"], tapes[1]["noise"])
    moved = np.linalg.norm(tapes[0]["answer"][0] - tapes[1]["answer"][0])
    assert 0.0 < moved <= mechanism.query.sensitivity(BUDGET.relation)
    assert len(tapes[0]["noise"]) == len(tapes[0]["answer"]) == 3


# What it costs


def test_in_production_no_operation_enters_the_program():
    def program(point):
        return release("answer", point + 1.0)

    assert str(jax.make_jaxpr(program)(0.0)) == str(jax.make_jaxpr(lambda x: x + 1.0)(0.0))


def test_the_tape_hears_the_numbers_of_the_compiled_run():
    planned = plan("dp_gd")
    compiled = privopt.run(planned, problem(), KEY)
    run, tape = taped(planned, problem())
    np.testing.assert_allclose(run.released, compiled.released, rtol=1e-12)
    again = privopt.run(planned, problem(), KEY)
    np.testing.assert_array_equal(again.released, compiled.released)
    assert len(tape.released) == 6  # nothing was added after the tape was closed


# The two contexts


def test_a_tape_holds_names_and_numpy_arrays_in_order():
    with Tape() as tape:
        release("noise", jnp.ones(2))
        release("answer", {"a": jnp.zeros(()), "b": jnp.int32(1)})
    assert [entry.name for entry in tape.released] == ["noise", "answer"]
    assert isinstance(tape.released[0], Released)
    assert isinstance(tape["answer"][0]["b"], np.ndarray)
    assert tape["selection"] == []


def test_loops_are_heard_step_by_step():
    with Tape() as tape:
        jax.lax.fori_loop(0, 4, lambda t, x: release("answer", x + t), jnp.int32(0))
    assert [int(x) for x in tape["answer"]] == [0, 1, 3, 6]


def test_a_replay_of_one_name_leaves_the_others():
    with Replay(noise=[np.float64(2.0)]), Tape() as tape:
        noisy = release("answer", 1.0 + release("noise", jnp.float64(0.5)))
    assert float(noisy) == 3.0
    assert [float(entry.value) for entry in tape.released] == [2.0, 3.0]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([], "answer must have a value for every release, got only 0"),
        ([np.zeros(3)], r"answer\[0\] must be float64\[2\] .* to be replayed, got float64\[3\]"),
        ([np.zeros(2, np.float32)], r"must be float64\[2\] .*, got float32\[2\]"),
        ([(np.zeros(2),)], r"answer\[0\] must be"),
        ([np.zeros(2)] * 2, "answer must be replayed to its end, got 1 releases for 2 values"),
    ],
)
def test_a_replay_that_does_not_fit_is_refused(values, message):
    with pytest.raises(ValueError, match=message), Replay(answer=values):
        release("answer", jnp.ones(2, jnp.float64))


def test_traced_values_are_refused():
    with pytest.raises(ValueError, match="a tape must record numbers, got traced values"), Tape():
        jax.vmap(partial(release, "answer"))(jnp.ones(2))


def test_an_error_within_goes_through_and_closes():
    tape = Tape()
    with pytest.raises(ZeroDivisionError), Replay(answer=[1.0]), tape:
        raise ZeroDivisionError
    assert release("answer", 1.0) == 1.0
    assert tape.released == []
    with tape, pytest.raises(ValueError, match="a Tape must be opened once"), tape:
        pass


# Who passes through it


def kinds(call):
    with Tape() as tape:
        call()
    return [entry.name for entry in tape.released]


def test_every_one_shot_mechanism_passes():
    vector = jnp.zeros(3)
    gradient = mechanisms.ClippedGradient.of(FACTS)
    additive = [
        mechanisms.GaussianMechanism(gradient, 1.0),
        mechanisms.LaplaceMechanism(gradient, 1.0),
        mechanisms.NormLaplaceMechanism(gradient, 1.0),
    ]
    for mechanism in additive:
        assert kinds(partial(mechanism.add_noise, KEY, vector)) == ["noise", "answer"]
    select = statistics.ExponentialMechanism(None, 1.0).select
    assert kinds(partial(select, KEY, vector)) == ["noise", "selection"]


def test_every_random_value_of_a_mechanism_is_recorded(monkeypatch):
    """Compare the number of recorded and of actual draws in every private algorithm with noise."""
    others = {"gradient_descent", "exponential_mechanism"}  # no noise, and a law
    noisy = sorted(algorithms.BUILT_IN - others)
    for name in few(noisy, KINDS):
        drawn = []

        def counted(key, shape, dtype, *, draw, drawn=drawn):
            drawn.append(shape)
            return draw(key, shape, dtype)

        with monkeypatch.context() as patched:
            for law in ("normal", "laplace"):
                patched.setattr(random, law, partial(counted, draw=getattr(random, law)))
            planned = plan(name)
            where = problem()
            if "mean" in planned.requires:
                where = problems.squared_distance(where.data[0], problem_class=FACTS)
            if "squares" in planned.requires:
                where = problems.squared(*where.data, problem_class=FACTS)
            _, tape = taped(planned, where)
        assert [np.size(noise) for noise in tape["noise"]] == list(map(math.prod, drawn))
        assert len(drawn) >= 1


def test_a_tape_cannot_record_run_many():
    def answering(static, params, objective, key, execution):
        return core.Run(release("answer", jax.random.normal(key, (DIM,))), ())

    planned = plan("dp_gd")
    algorithm = dataclasses.replace(planned.algorithm, run=answering)
    planned = dataclasses.replace(planned, algorithm=algorithm)
    with pytest.raises(ValueError, match="a tape must record numbers"), Tape():
        core.run_many([planned], problem(), jax.random.split(KEY, 2))

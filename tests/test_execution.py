"""Execution of runs: chunks, replicates in turn, groups with public keys, arrays in params."""

import copy
import dataclasses
import pickle
import resource
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dp_accounting import DpEvent, GaussianDpEvent, NonPrivateDpEvent, SelfComposedDpEvent
from refusals import refused

import privopt
from privopt import problems
from privopt.core import Algorithm, Execution, Plan, Run, replicates
from privopt.random import stream

N, DIM = 20, 3
CLASS = privopt.ProblemClass(n=N, dim=DIM, lipschitz=1.0, radius=2.0, smoothness=0.25)
BUDGET = privopt.Budget(epsilon=1.0, delta=1e-5, relation="replace_one")
WHERE = problems.linear(np.eye(DIM)[np.arange(N) % DIM], problem_class=CLASS)
DP_GD = privopt.ALGORITHMS["dp_gd"]


def keys(count, seed=0):
    return jax.random.split(jax.random.key(seed), count)


# An algorithm with coins: a number of levels is drawn, and each level does its own work


class Weighted(NamedTuple):
    """Mechanism with one noisy answer per weight; the event depends on an array of coefficients."""

    scale: float
    weights: np.ndarray

    def event(self, relation) -> DpEvent:
        del relation
        return SelfComposedDpEvent(GaussianDpEvent(self.scale / self.weights.max()), 3)


class Params(NamedTuple):
    mechanism: Any


class Static(NamedTuple):
    levels: int


def draw_levels(static, params, key):
    del params
    return jax.random.randint(key, (5,), 0, static.levels)


VISITED = []


def leveled(static, params, objective, key, execution, coins):
    """Run five questions, each at a level of public randomness; a branch reports its execution."""
    del execution

    def branch(level):
        def answer(w, noise):
            jax.debug.callback(lambda: VISITED.append(level))
            return w + (level + 1) * noise * params.mechanism.weights.sum()

        return answer

    branches = [branch(level) for level in range(static.levels)]

    def step(t, w):
        noise = jax.random.normal(jax.random.fold_in(key, t), (DIM,), objective.dtype)
        return jax.lax.switch(coins[t], branches, w, noise)

    last = jax.lax.fori_loop(0, 5, step, jnp.zeros(DIM, objective.dtype))
    return Run(last, coins)


LEVELED = Algorithm(
    "leveled", "", plan=None, run=leveled, public_randomness=draw_levels, private=False
)


def coined(levels=4, weights=(1.0, 0.5), scale=2.0, **more):
    fields = {
        "algorithm": LEVELED,
        "problem_class": CLASS,
        "budget": BUDGET,
        "params": Params(Weighted(scale, np.array(weights))),
        "static": Static(levels),
    }
    return Plan(**{**fields, **more})


def visited(call):
    VISITED.clear()
    jax.block_until_ready(call().released)
    jax.effects_barrier()
    return list(VISITED)


@pytest.mark.parametrize("group", [1, 4])
def test_members_of_a_group_share_coins_and_nothing_else(group):
    plans, each = [coined(), coined(scale=3.0)], keys(8)
    many = privopt.run_many(plans, WHERE, each, group=group)
    coins = np.asarray(many.secret)
    for i in range(2):
        for j in range(8):
            leader = replicates.key_of_stream(each[j - j % group], np.uint32(i))
            expected = draw_levels(Static(4), None, stream(leader, "public"))
            np.testing.assert_array_equal(coins[i, j], expected)
    assert len(np.unique(coins.reshape(16, -1), axis=0)) == 16 // group
    assert len(np.unique(np.round(many.released, 9).reshape(16, -1), axis=0)) == 16


def test_a_run_is_a_group_of_its_own():
    one = privopt.run(coined(), WHERE, keys(3)[1])
    many = privopt.run_many([coined()], WHERE, keys(3))
    np.testing.assert_allclose(many.released[0, 1], one.released, rtol=1e-12)
    np.testing.assert_array_equal(many.secret[0, 1], one.secret)


@pytest.mark.parametrize("mode", ["together", "in_turn"])
def test_a_group_runs_one_branch_at_every_step(mode):
    """Check the branches that run: the selected one, once per step and member, and no other.

    Public randomness per replicate, under ``vmap``, would run all branches: see the next test.
    """
    call = lambda: privopt.run_many(  # noqa: E731
        [coined()], WHERE, keys(8), group=4, execution=Execution(replicates=mode)
    )
    run = visited(call)
    coins = np.asarray(call().secret[0, ::4])
    per_step = len(run) / coins.size
    assert per_step in (1.0, 4.0)  # a batched branch may speak once, or for each of its members
    assert sorted(set(run)) == sorted(set(coins.ravel().tolist()))
    counts = np.bincount(run, minlength=4) / per_step
    np.testing.assert_array_equal(counts, np.bincount(coins.ravel(), minlength=4))


test_groups_and_chunks_divide = refused(
    ({"group": 3}, "keys must come in whole groups of 3, got 8 keys"),
    ({"group": 0}, "group must be an integer from 1"),
    ({"group": 2.0}, "group must be an integer from 1"),
    ({"group": 4, "execution": Execution(chunk=6)}, "chunk must be a multiple of group 4, got 6"),
    ({"execution": {"chunk": 2}}, "execution must be an Execution, got an object of type dict"),
    of=lambda **given: privopt.run_many([coined()], WHERE, keys(8), **given),
)


@pytest.mark.cases(2)
@pytest.mark.parametrize("chunk", [1, 7, 64])
@pytest.mark.parametrize(
    "make", [coined, lambda: DP_GD.plan(CLASS, BUDGET, steps=5, step_size=0.1)]
)
def test_chunks_change_no_bit(make, chunk):
    """Check that the results of the keys that fill the last chunk are dropped.

    Decreasing steps are excluded, because XLA rounds those of a single replicate differently.
    """
    plans, each = [make(), make()], keys(10)
    whole = privopt.run_many(plans, WHERE, each)
    parts = privopt.run_many(plans, WHERE, each, execution=Execution(chunk=chunk))
    for left, right in zip(jax.tree.leaves(whole), jax.tree.leaves(parts), strict=True):
        assert isinstance(right, np.ndarray)
        np.testing.assert_array_equal(left, right)


def test_chunks_of_groups():
    whole = privopt.run_many([coined()], WHERE, keys(8), group=4)
    parts = privopt.run_many([coined()], WHERE, keys(8), group=4, execution=Execution(chunk=4))
    np.testing.assert_array_equal(whole.released, parts.released)
    np.testing.assert_array_equal(whole.secret, parts.secret)


def test_all_chunks_run_one_program():
    before = replicates.run_all._cache_size()
    plan = DP_GD.plan(CLASS, BUDGET, steps=2)
    for count in (8, 11, 20):
        privopt.run_many([plan], WHERE, keys(count), execution=Execution(chunk=4))
    assert replicates.run_all._cache_size() == before + 1


def test_many_keys_in_bounded_memory():
    """Measure the peak memory of replicates of 16 kB, 480 MB in total.

    In chunks, the peak of this process increases by less than 200 MB.
    """

    def wide(static, params, objective, key, execution):
        del static, params, execution
        start = jnp.zeros(2000, objective.dtype).at[0].set(jax.random.normal(key, ()))
        last = jax.lax.fori_loop(0, 3, lambda t, state: jnp.roll(state, t) + 1.0, start)
        return Run(last[:DIM], last[-1])

    plan = coined(algorithm=dataclasses.replace(LEVELED, run=wide, public_randomness=None))
    chunked = Execution(chunk=1000)
    privopt.run_many([plan], WHERE, keys(1000), execution=chunked)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    privopt.run_many([plan], WHERE, keys(30_000), execution=chunked)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kB


def test_by_default_no_array_that_grows_with_the_keys_is_large(monkeypatch):
    """Test 8 kB per key, and an array of 800 kB that all keys share and that does not count."""

    def wide(static, params, objective, key, execution):
        del static, params, execution
        shared = jnp.outer(objective.data[0][:, 0].repeat(5), jnp.ones(1000))
        own = jnp.cumsum(jax.random.normal(key, (1000,), objective.dtype) * shared[0])
        return Run(own[-DIM:] + shared[1, 1], ())

    plan = coined(algorithm=dataclasses.replace(LEVELED, run=wide, public_randomness=None))
    released = lambda count: privopt.run_many([plan], WHERE, keys(count)).released  # noqa: E731
    whole, programs = released(30), replicates.run_all._cache_size()
    assert isinstance(whole, jax.Array)
    monkeypatch.setattr(replicates, "MOST_BYTES", 60_000)
    parts = released(30)
    assert isinstance(parts, np.ndarray)
    np.testing.assert_array_equal(parts, whole)
    assert replicates.run_all._cache_size() == programs + 1  # for all chunks
    assert isinstance(released(4), jax.Array)
    assert isinstance(jax.jit(lambda: released(30))(), jax.Array)


@pytest.mark.parametrize("name", ["dp_gd", "dp_sgd"])
def test_in_turn_and_together_are_the_same_runs(name):
    """Compare both orders of the loop over keys for every algorithm."""
    choices = {"batch_size": 5} if name == "dp_sgd" else {}
    plan = privopt.ALGORITHMS[name].plan(CLASS, BUDGET, steps=3, **choices)
    found = {
        mode: privopt.run_many([plan], WHERE, keys(4), execution=Execution(replicates=mode))
        for mode in ("together", "in_turn", None)
    }
    np.testing.assert_allclose(
        found["together"].released, found["in_turn"].released, rtol=1e-12, atol=1e-15
    )
    usual = "in_turn" if plan.algorithm.gathers else "together"
    np.testing.assert_array_equal(found[None].released, found[usual].released)


def test_the_execution_reaches_the_run_as_it_was_given():
    """Check that options for replicates only do not cause a new trace."""
    seen = []

    def run(static, params, objective, key, execution):
        seen.append(execution)
        return Run(jnp.zeros(DIM, objective.dtype), ())

    plan = coined(algorithm=dataclasses.replace(LEVELED, run=run, public_randomness=None))
    for mode in ("together", "in_turn"):
        given = Execution(microbatch=7, chunk=4, replicates=mode)
        privopt.run_many([plan], WHERE, keys(4), execution=given)
        privopt.run(plan, WHERE, keys(4)[0], execution=given)
    assert set(seen) == {Execution(microbatch=7)}


test_an_execution_is_checked = refused(
    ({"microbatch": 0}, "microbatch must be an integer from 1 to 2147483647, got 0"),
    ({"microbatch": 1.0}, "microbatch must be an integer"),
    ({"chunk": -1}, "chunk must be an integer from 1 to 2147483647, got -1"),
    ({"replicates": "apart"}, "replicates must be one of together, in_turn, got 'apa"),
    ({"observer": print}, "observer must have a method init, got"),
    of=Execution,
)


def test_an_observer_is_hashable():
    class Fold:
        __hash__ = None

        def init(self, point, secret):
            return point

        def update(self, state, t, point, secret):
            return state

    with pytest.raises(ValueError, match="observer must be hashable"):
        Execution(observer=Fold())
    Fold.__hash__ = object.__hash__
    hash(Execution(observer=Fold()))


def test_an_array_enters_by_argument():
    """Check that an array of the same shape compiles no program, and another shape is refused."""
    plans = [coined(weights=(1.0, 0.5)), coined(weights=(0.25, 0.5))]
    many = privopt.run_many(plans, WHERE, keys(2), common_random_numbers=True)
    np.testing.assert_allclose(many.released[0], 2.0 * many.released[1], rtol=1e-12)
    before = replicates.run_all._cache_size()
    privopt.run_many([coined(weights=(3.0, 0.5))] * 2, WHERE, keys(2))
    assert replicates.run_all._cache_size() == before
    with pytest.raises(ValueError, match="shapes of arrays"):
        privopt.run_many([coined(), coined(weights=(1.0,))], WHERE, keys(2))


def test_an_array_is_frozen_and_the_callers_is_not():
    mine = np.array([1.0, 0.5])
    plan = coined(params=Params(Weighted(2.0, mine)))
    mine[0] = 9.0
    held = plan.params.mechanism.weights
    np.testing.assert_array_equal(held, [1.0, 0.5])
    with pytest.raises(ValueError, match="read-only"):
        held[0] = 9.0
    view = held[:1]
    assert coined(params=Params(Weighted(2.0, view))).params.mechanism.weights.base is None
    assert coined(params=plan.params).params.mechanism.weights is held


@pytest.mark.parametrize("trip", [copy.deepcopy, lambda plan: pickle.loads(pickle.dumps(plan))])
def test_plans_with_arrays_compare_by_content(trip):
    """Pickle a plan; the toy algorithm has no local functions."""
    plan = DP_GD.plan(CLASS, BUDGET, steps=3)
    plan = dataclasses.replace(plan, algorithm=dataclasses.replace(DP_GD, mechanism=object))
    mechanism = Weighted(50.0, np.array([1.0, 0.5]))
    held = dataclasses.replace(plan, params=Params(mechanism))
    sent = trip(held)
    assert sent == held
    assert hash(sent) == hash(held)
    assert sent.guarantee == held.guarantee
    with pytest.raises(ValueError, match="read-only"):
        sent.params.mechanism.weights[0] = 9.0
    other = dataclasses.replace(
        plan, params=Params(mechanism._replace(weights=np.array([1.0, 0.25])))
    )
    assert other != held
    assert held != plan
    assert held != "plan"
    assert len({held, sent, other}) == 2
    assert "weights" not in repr(held)


@pytest.mark.parametrize(
    "bad",
    [
        np.array([1.0, np.nan]),
        np.array([1.0, np.inf]),
        np.array(["a"]),
        np.array([1.0 + 1j]),
        np.array([None]),
    ],
)
def test_an_array_holds_finite_numbers(bad):
    with pytest.raises(ValueError, match=r"params\.mechanism\.weights must be an array of finite"):
        coined(params=Params(Weighted(1.0, bad)))


@pytest.mark.parametrize("bad", [2**31, -(2**31) - 1, np.array([0, 2**31])])
def test_integers_have_32_bits(bad):
    with pytest.raises(ValueError, match=r"params\.mechanism\.scale must fit into 32 bits"):
        coined(params=Params(Weighted(bad, np.ones(2))))


def test_integers_and_floats_keep_their_kinds():
    class Typed(NamedTuple):
        counts: np.ndarray
        sizes: np.ndarray
        steps: int

        def event(self, relation):
            del relation
            return NonPrivateDpEvent()

    seen = []

    def run(static, params, objective, key, execution):
        seen.append(jax.tree.map(lambda leaf: leaf.dtype, params.mechanism))
        return Run(jnp.zeros(DIM, objective.dtype), ())

    typed = Typed(np.arange(3), np.ones(3), 2)
    plan = coined(
        params=Params(typed),
        algorithm=dataclasses.replace(LEVELED, run=run, public_randomness=None),
    )
    privopt.run(plan, WHERE, keys(1)[0])
    assert seen == [Typed(np.dtype("int32"), np.dtype("float64"), np.dtype("int32"))]


def test_an_array_is_told_by_its_ends():
    class Named(NamedTuple):
        scale: np.ndarray

        def event(self, relation):
            del relation
            return NonPrivateDpEvent()

    shown = str(coined(params=Params(Named(np.array([0.5, 2.0, 1.0])))))
    assert "mechanism.scale = 0.5 to 2 of shape (3,)" in shown


def test_what_devices_did_beyond_the_last_key_is_cut_without_a_collective():
    """Run two programs; two programs with collectives could wait for each other forever."""
    plan = DP_GD.plan(CLASS, BUDGET, steps=3)
    assert len(privopt.run_many([plan], WHERE, keys(4)).released.devices()) == len(jax.devices())
    assert len(privopt.run_many([plan], WHERE, keys(3)).released.devices()) == 1


def test_many_runs_inside_a_program_of_the_callers():
    plan = DP_GD.plan(CLASS, BUDGET, steps=3)

    def released(records):
        where = problems.linear(records, problem_class=CLASS)
        return privopt.run_many([plan], where, keys(4)).released

    records = WHERE.data[0]
    np.testing.assert_array_equal(jax.jit(released)(records), released(records))

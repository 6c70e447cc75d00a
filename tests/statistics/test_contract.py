"""Contract of every mechanism: pure in its key, one trace for new numbers, no second draw.

One line in ``MECHANISMS`` adds a mechanism to all tests of this file.
"""

from __future__ import annotations

import inspect
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from builders import draws, operations
from selection import few

from privopt import mechanisms, statistics
from privopt.mechanisms import GaussianMechanism, LaplaceMechanism
from privopt.spec import Budget
from privopt.statistics import (
    BoundedMean,
    BoundedScores,
    BoundedSum,
    BoundedVariance,
    Count,
    CountedMean,
    ExponentialMechanism,
    Histogram,
    Median,
    ProposeTestRelease,
    SmoothCauchyMechanism,
    SmoothLaplaceMechanism,
    SparseVector,
    Thresholdout,
)

KEY = jax.random.key(7)


def additive(mechanism, key, records):
    return mechanism.add_noise(key, mechanism.query.answer(records))


def release(mechanism, key, records):
    return mechanism.release(key, records)


def select(mechanism, key, records):
    return mechanism.select(key, records)


def ask(mechanism, key, records):
    inputs = (records.sum(), 1.0) if isinstance(mechanism, SparseVector) else (records, records[:4])
    return mechanism.update(mechanism.init(key), *inputs)[0]


# name -> (mechanism from a budget and an upper bound, released quantity)
MECHANISMS = {
    "laplace sum": (
        lambda budget, upper: LaplaceMechanism.calibrated(BoundedSum.of(-0.1, upper), budget),
        additive,
    ),
    "laplace count": (lambda budget, upper: LaplaceMechanism(Count(), upper), additive),
    "gaussian mean": (
        lambda budget, upper: GaussianMechanism.calibrated(BoundedMean.of(-0.1, upper, 8), budget),
        additive,
    ),
    "laplace variance": (
        lambda budget, upper: LaplaceMechanism.calibrated(
            BoundedVariance.of(-0.1, upper, 8), budget
        ),
        additive,
    ),
    "counted mean": (
        lambda budget, upper: LaplaceMechanism.calibrated(CountedMean.of(-0.1, upper), budget),
        additive,
    ),
    "histogram": (
        lambda budget, upper: LaplaceMechanism.calibrated(
            Histogram.logarithmic(upper, 2.0, 3, mirrored=True), budget
        ),
        additive,
    ),
    "smooth laplace": (
        lambda budget, upper: SmoothLaplaceMechanism.calibrated(Median.of(-0.1, upper), budget),
        release,
    ),
    "smooth cauchy": (
        lambda budget, upper: SmoothCauchyMechanism.calibrated(Median.of(-0.1, upper), budget),
        release,
    ),
    "propose test release": (
        lambda budget, upper: ProposeTestRelease.calibrated(Median.of(-0.1, upper), 0.3, budget),
        release,
    ),
    "exponential": (
        lambda budget, upper: ExponentialMechanism.calibrated(BoundedScores.of(upper), budget),
        select,
    ),
    "sparse vector": (
        lambda budget, upper: SparseVector.calibrated(
            BoundedSum.of(-0.1, upper), budget, answers=2
        ),
        lambda mechanism, key, records: ask(mechanism, key, mechanism.query.answer(records)[None]),
    ),
    "thresholdout": (
        lambda budget, upper: Thresholdout.calibrated(
            BoundedMean.of(-0.1, upper, 4), 0.1, budget, answers=2
        ),
        ask,
    ),
}
every = pytest.mark.parametrize("name", MECHANISMS)
# Mechanisms that differ in kind: one draw, a draw and a test, a choice, and a state.
KINDS = few(MECHANISMS, ["laplace sum", "propose test release", "exponential", "sparse vector"])
kinds = pytest.mark.parametrize("name", KINDS)


def made(name, epsilon=0.5, upper=0.8):
    budget = Budget(epsilon=epsilon, delta=1e-3, relation="replace_one")
    return MECHANISMS[name][0](budget, upper)


def records(dtype=np.float64, seed=0):
    return jnp.asarray(np.random.default_rng(seed).normal(0.3, 0.3, 8), dtype)


def same(one, two, rtol=0.0):
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=rtol)


@pytest.mark.parametrize(
    ("name", "dtype"),
    few(
        itertools.product(KINDS, (np.float32, np.float64)),
        [("laplace sum", np.float32), *((name, np.float64) for name in KINDS)],
    ),
)
def test_jit_equals_eager_and_vmap_the_loop_over_keys_and_numbers(name, dtype):
    """Eager in one type, since operations by themselves are programs too."""
    run, data = MECHANISMS[name][1], records(dtype)
    tolerance = 2e-5 if dtype == np.float32 else 1e-12
    keys = jax.random.split(KEY, 3)
    several = [made(name, 0.3, 0.5), made(name, 0.9, 0.7)]
    compiled = jax.jit(run)
    singles = [[compiled(mechanism, key, data) for key in keys] for mechanism in several]
    if dtype == np.float64:
        same(singles[0][0], run(several[0], keys[0], data), tolerance)
    stacked = jax.tree.map(lambda *leaves: jnp.asarray(leaves, dtype), *several)
    over_keys = jax.vmap(run, (None, 0, None))
    many = jax.jit(jax.vmap(over_keys, (0, None, None)))(stacked, keys, data)
    for i, row in enumerate(singles):
        for j, expected in enumerate(row):
            same(jax.tree.map(lambda leaf, i=i, j=j: leaf[i, j], many), expected, tolerance)
    floats = [x for x in jax.tree.leaves(singles) if jnp.issubdtype(x.dtype, jnp.floating)]
    assert all(leaf.dtype == dtype for leaf in floats)


@kinds
def test_new_numbers_keys_and_data_are_no_new_program(name):
    traces = []

    @jax.jit
    def run(mechanism, key, data):
        traces.append(None)
        return MECHANISMS[name][1](mechanism, key, data)

    for i, epsilon in enumerate((0.1, 0.5, 1.0)):
        run(made(name, epsilon, 0.4 + 0.1 * i), jax.random.key(i), records(seed=i))
    assert len(traces) == 1


DRAWS = {"propose test release": 2, "sparse vector": 2, "thresholdout": 3}


@every
def test_noise_is_drawn_a_fixed_number_of_times_and_nothing_branches_on_data(name):
    """Check that every draw is outside of all loops, and that there is no branch or open loop."""
    program = jax.make_jaxpr(MECHANISMS[name][1])(made(name), KEY, records())
    assert draws(program.jaxpr) == [()] * DRAWS.get(name, 1)
    primitives = {each.primitive.name for each, _ in operations(program.jaxpr)}
    # draws of shorter reach, branches
    assert not primitives & {"random_bits", "random_gamma", "cond", "while"}


@kinds
def test_the_same_key_gives_the_same_release_and_another_key_another(name):
    run, data, mechanism = jax.jit(MECHANISMS[name][1]), records(), made(name)
    same(run(mechanism, KEY, data), run(mechanism, KEY, data))
    keys = jax.random.split(KEY, 10_000)  # enough for an event of probability 1e-3
    many = jax.vmap(run, (None, 0, None))(mechanism, keys, data)
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(many)]
    assert any(len(np.unique(leaf[~np.isnan(leaf)])) > 1 for leaf in leaves)


@pytest.mark.parametrize("name", [name for name in MECHANISMS if MECHANISMS[name][1] is not select])
def test_no_record_makes_a_release_fail_or_undefined(name):
    """Check that strange records have an outcome that usual records have, too."""
    run, mechanism = jax.jit(MECHANISMS[name][1]), made(name)
    for strange in (np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324):
        outcome = run(mechanism, KEY, records().at[3].set(strange))
        if hasattr(outcome, "_fields"):
            decided, *values = outcome
            finite = np.isfinite(np.stack([np.asarray(x) for x in values]))
            assert np.all(finite == np.asarray(decided))
        else:
            assert np.isfinite(np.asarray(outcome)).all()


def test_no_key_and_no_relation_has_a_default():
    """Check every public function and method of both packages."""
    names, count = [(mechanisms, name) for name in mechanisms.__all__], 0
    for room, name in names + [(statistics, name) for name in statistics.__all__]:
        thing = getattr(room, name)
        members = [m for _, m in inspect.getmembers(thing, callable)] + [thing]
        for member in members:
            try:
                parameters = inspect.signature(member).parameters
            except (TypeError, ValueError):
                continue
            for parameter in ("key", "relation", "budget"):
                if parameter in parameters:
                    count += 1
                    assert parameters[parameter].default is inspect.Parameter.empty, (name, member)
    assert count > 150

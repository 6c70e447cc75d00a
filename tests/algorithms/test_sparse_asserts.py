"""What the theorems on sparse gradients need, item by item: each is refused, enforced, or checked.

The first half is what a plan refuses; the second what the device does, whatever it is given.
"""

from __future__ import annotations

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dp_accounting import GaussianDpEvent

import privopt
from privopt import problems
from privopt.mechanisms import (
    BiasReducedGradient,
    ClippedGradient,
    ClippedMean,
    CompressedMean,
    LevelLaw,
)
from privopt.privacy import CompressedGaussianDpEvent, renyi_divergence
from privopt.release import Tape
from privopt.spec import Budget, ProblemClass, Relation
from privopt.streams import STREAMS, stream

REPLACE = Relation.REPLACE_ONE
BUDGET = Budget(epsilon=1.0, delta=1e-6, relation="replace_one")
PURE = dataclasses.replace(BUDGET, delta=0.0)
PLANS = {name: algorithm.plan for name, algorithm in privopt.ALGORITHMS.items()}
SPARSE = ("projection_mechanism", "l1_recovery", "linf_output_perturbation", "bias_reduced_sgd")
MEANS = SPARSE[:2]


def facts(**other):
    numbers = {"n": 64, "dim": 20, "lipschitz": 1.0, "radius": 1.0, "smoothness": 1.0}
    return ProblemClass(**(numbers | {"sparsity": 4} | other))


def squares(**other):
    return facts(**({"lipschitz": 2.0, "strong_convexity": 1.0} | other))


def class_of(name):
    return squares() if name in MEANS else facts()


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.0, 1e-6), (-1.0, 1e-6), (math.nan, 1e-6), (1.0, 1.0), (1.0, -1e-9)]
)
def test_epsilon_is_positive_and_delta_below_one(epsilon, delta):
    with pytest.raises(ValueError, match=r"epsilon must|delta must"):
        Budget(epsilon=epsilon, delta=delta, relation="replace_one")


@pytest.mark.parametrize("name", SPARSE)
def test_gaussian_noise_has_a_delta(name):
    if name == "projection_mechanism":
        with pytest.raises(ValueError, match="delta must be positive for noise='gaussian'"):
            PLANS[name](squares(), PURE, noise="gaussian")
    elif name == "linf_output_perturbation":
        found = PLANS[name](facts(radius=math.inf), PURE, distance=1.0).params.mechanism
        assert type(found).__name__ == "LaplaceMechanism"
    else:
        with pytest.raises(ValueError, match="delta must be positive"):
            PLANS[name](class_of(name), PURE)


@pytest.mark.parametrize("name", SPARSE)
def test_published_gaussian_noise_ends_at_epsilon_one(name):
    with pytest.raises(ValueError, match=r"epsilon must (not exceed|be at most) 1 for"):
        PLANS[name](class_of(name), dataclasses.replace(BUDGET, epsilon=1.001), mode="paper")


@pytest.mark.parametrize(
    ("number", "values"),
    [
        ("lipschitz", (0.0, -1.0, math.nan)),
        ("radius", (0.0, -1.0, math.nan)),
        ("smoothness", (-1.0, math.nan, math.inf)),
        ("sparsity", (0, -1, 21, 1.5, True)),
    ],
)
def test_declared_constants_are_numbers_of_their_kind(number, values):
    for value in values:
        with pytest.raises(ValueError, match=f"{number} must"):
            facts(**{number: value})


@pytest.mark.parametrize("regularisation", [0.0, -1.0, math.nan, math.inf])
def test_the_regulariser_is_positive(regularisation):
    with pytest.raises(ValueError, match="regularisation must be positive and finite"):
        PLANS["linf_output_perturbation"](facts(), BUDGET, regularisation=regularisation)


@pytest.mark.parametrize("name", SPARSE)
def test_sparsity_is_declared(name):
    with pytest.raises(ValueError, match="sparsity must be declared"):
        PLANS[name](dataclasses.replace(class_of(name), sparsity=None), BUDGET)


def test_two_base_batches_fit_and_no_sample_is_larger_than_the_data():
    for n, base in ((1, 1), (7, 4), (64, 33)):
        with pytest.raises(ValueError, match="base must be at most n/2"):
            PLANS["bias_reduced_sgd"](facts(n=n), BUDGET, base=base)
    for n in range(2, 40):
        for base in range(1, n // 2 + 1):
            law = LevelLaw.of(n, base)
            assert n < 2 * (base << law.highest + 1) <= 2 * n


def test_pure_minimisers_live_on_the_whole_space_and_are_smooth():
    plan = PLANS["linf_output_perturbation"]
    with pytest.raises(ValueError, match="radius must be inf for pure"):
        plan(facts(), PURE)
    with pytest.raises(ValueError, match="smoothness must be declared for pure"):
        plan(facts(radius=math.inf, smoothness=None), PURE, distance=1.0)
    with pytest.raises(ValueError, match="convex"):
        plan(facts(radius=math.inf, convex=False), PURE, distance=1.0)
    assumed = plan(facts(radius=math.inf), PURE, distance=1.0).guarantee.assumptions
    assert all(word in " ".join(assumed) for word in ("convex", "1-smooth", "at most 4 numbers"))


def test_published_measurements_that_are_too_few_are_refused():
    """At one measurement, and (1, 1e-6), the published noise spends 7.2e-6."""
    with pytest.raises(ValueError, match=r"measurements must be more for .* 7\.2"):
        PLANS["l1_recovery"](squares(), BUDGET, mode="paper", measurements=1)


# --- what holds whatever is given -----------------------------------------------------------------


def test_renyi_divergences_end_in_infinity():
    """``a (a - 1) mu^2 < m``; from there on infinity, and neither NaN nor a small number."""
    mu, measurements = 0.5, 4
    end = 0.5 + math.sqrt(0.25 + measurements / mu**2)
    orders = np.array([1.5, 0.999 * end, 1.001 * end, 10.0 * end, 1e6])
    event = CompressedGaussianDpEvent(2.0 / mu, measurements)
    found = renyi_divergence(event, REPLACE, orders)
    assert np.isfinite(found[:2]).all()
    assert (found[2:] == math.inf).all()
    plain = renyi_divergence(GaussianDpEvent(2.0 / mu), REPLACE, orders)
    assert (found[:2] > plain[:2]).all()


@pytest.mark.parametrize("name", MEANS)
def test_means_and_noise_are_float64(name):
    """float32 records: what is released is a rounding of what float64 records release."""
    choices = {} if name == "projection_mechanism" else {"measurements": 8}
    planned = PLANS[name](squares(), BUDGET, **choices)
    assert planned.algorithm.float64
    assert PLANS["linf_output_perturbation"](facts(), BUDGET).algorithm.float64
    query = ClippedMean.of(squares())
    where = problems.squared_distance(np.ones((64, 20), np.float32), problem_class=squares())
    with pytest.raises(ValueError, match="must be float64 for a private mean, got float32"):
        query.mean_of(where.objective)


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e308, 0.0])
def test_clipping_is_total(value):
    records = np.zeros((64, 20))
    records[0] = value
    where = problems.squared_distance(records, problem_class=squares())
    mean = np.asarray(ClippedMean.of(squares()).mean_of(where.objective.astype(np.float64)))
    assert np.isfinite(mean).all()
    assert np.linalg.norm(mean) <= (1.0 + 1e-12) / 64
    assert np.abs(mean).sum() <= (2.0 + 1e-12) / 64


def test_streams_have_keys_of_their_own():
    """The matrix, both sets, every noise and the levels: no two of these keys are the same."""
    key = jax.random.key(0)
    steps = [jax.random.fold_in(stream(key, "batches"), t) for t in range(8)]
    sets = [jax.random.fold_in(step, which) for step in steps for which in (0, 1)]
    noises = [jax.random.fold_in(stream(key, "noise"), t) for t in range(8)]
    levels = [jax.random.fold_in(stream(key, "coins"), t) for t in range(8)]
    names = [stream(key, name) for name in STREAMS]
    whole = [key, *names, *steps, *sets, *noises, *levels]
    data = np.stack([jax.random.key_data(each) for each in whole])
    assert len(np.unique(data, axis=0)) == len(whole)


def test_records_are_clipped_averaged_noised_and_only_then_projected():
    """On a tape: sums get their noise before anything that is not linear happens to them."""
    rows = np.zeros((4, 2))
    rows[:, 0] = 100.0
    query = ClippedGradient.of(ProblemClass(n=4, dim=2, lipschitz=1.0, radius=1.0))
    objective = problems.linear(
        rows, problem_class=ProblemClass(n=4, dim=2, lipschitz=1.0, radius=1.0)
    ).objective
    mechanism = BiasReducedGradient(query=query, n=4, base=2, post=None, scale=0.5, steps=1)
    oracle = mechanism.oracle(objective, jax.random.key(0), jax.random.key(1))
    with Tape() as tape:
        oracle.ask((), jnp.int32(0), jnp.zeros(2))
    assert [entry.name for entry in tape.released] == ["batch", "batch", "noise", "answer"]
    sums = np.array([4.0, 2.0, 2.0, 2.0])  # of clipped records, before a mean
    (noise,), (answer,) = tape["noise"], tape["answer"]
    np.testing.assert_allclose(np.abs(answer * sums[:, None] - noise)[:, 0], sums, rtol=1e-5)
    assert noise.shape == (4, 2)


def test_a_matrix_is_drawn_without_the_data_and_scaled_by_the_root():
    """Variance ``1/m``, not deviation ``1/m``: within 5 standard errors of 20,000 squares."""
    mechanism = CompressedMean(query=ClippedMean.of(squares()), scale=1.0, measurements=100)
    drawn = np.asarray(mechanism.draw(jax.random.key(0), 200))
    assert drawn.shape == (100, 200)
    assert abs(drawn.var() * 100 - 1.0) < 5.0 * math.sqrt(2.0 / drawn.size)


def test_steps_levels_and_branches_come_from_public_numbers():
    """The plan never sees data; ``m < 8``, ``m >= d``, ``s >= d`` take the projection mechanism."""
    for other in ({"n": 2}, {"n": 10**6}, {"sparsity": 20}):
        found = PLANS["l1_recovery"](squares(**other), BUDGET).params.mechanism
        assert type(found).__name__ == "ProjectedMean"
    wide = squares(n=64, dim=4096)
    assert PLANS["l1_recovery"](wide, BUDGET).params.mechanism.measurements == 90
    numbers = PLANS["bias_reduced_sgd"](facts(), BUDGET).params.mechanism
    assert numbers.steps == math.ceil(2 * 64 / math.log(4e6))

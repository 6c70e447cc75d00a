"""Tests of mechanisms for sparse records under attack: hostile records and whole transcripts.

Changes are computed from the results of the device, independently of the code under test.
"""

from __future__ import annotations

import dataclasses
import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from privopt.convex import (
    EmpiricalRisk,
    GeneralisedLinear,
    Linear,
    Separable,
    Sine,
    SparseFeatures,
    SquaredDistance,
    WholeSpace,
    pytree_dataclass,
)
from privopt.mechanisms import BiasReducedGradient, ClippedGradient, ClippedMean
from privopt.mechanisms.clipping import clipped_gradient_sum
from privopt.privacy import Guarantee
from privopt.spec import Relation

REPLACE, ZERO = Relation.REPLACE_ONE, Relation.ZERO_OUT
RUNS = 100_000
N, DIM, WIDTH = 5, 4, 6  # rows store more entries than there are coordinates
SIZES = [1e-45, 1e-38, 1e-20, 1.0, 1.0 + 1e-7, 3e19, 3e38, 1e200, 1e308, np.inf, -np.inf, np.nan]


def hostile_rows():
    """One row each, dense: of every size alone, with an ordinary number, and all over the place."""
    rng = np.random.default_rng(0)
    shapes = [np.r_[1.0, 0, 0, 0], np.r_[1.0, -1.0, 0, 0], np.ones(4), np.r_[1.0, 1e-3, 0, 1e-30]]
    rows = [size * shape for size in SIZES for shape in shapes if np.isfinite(size)]
    rows += [np.r_[size, 0.5, -0.5, 0.0] for size in SIZES]
    rows += [np.zeros(4), np.r_[1e308, -1e308, 1e308, 1.0]]
    rows += list(rng.normal(size=(20, 4)) * 10.0 ** rng.uniform(-40, 40, size=(20, 4)))
    flat = np.array([[1.0, 0, 0, 0], [1.0, 1.0, 0, 0], [1.0, -1.0, 0, 0]])
    rows += [sign * row for row in flat for sign in (1.0, -1.0)]
    return np.stack(rows)


def hostile_entries():
    """Places and values of one row: repeated, out of range, cancelling, more than declared."""
    big = 3e38
    return [
        ([3] * 6, [0.7] * 6),
        ([3, 3, 2, 2, 1, 1], [big, big, 1.0, 1.0, 1.0, 1.0]),
        ([3, 3, 2, 2, 1, 1], [big, -big, 1.0, 1.0, 1.0, 1.0]),
        ([-1, -2, 4, 2**31 - 1, 1, 1], [np.nan, 9.0, np.inf, 9.0, 0.6, 0.6]),
        ([0, 1, 2, 3, 0, 1], [1.0] * 6),
        ([0, 1, 2, 3, 0, 1], [1e-45] * 6),
        ([2] * 6, [1e19, -1e19, 1.0, 1e19, -1e19, 1.0]),
        ([0] * 6, [0.0] * 6),
    ]


def furthest(answers):
    """The longest distance between two of them, l2 and l1, and between one and the first."""
    apart = np.asarray(answers, np.float64)
    assert np.isfinite(apart).all()
    apart = apart[:, None] - apart[None]
    l2, l1 = np.linalg.norm(apart, axis=-1), np.abs(apart).sum(axis=-1)
    return l2.max(), l1.max(), l2[0].max(), l1[0].max()


def stacked(records, first_rows, dtype):
    """Data sets that differ in their first record, which in the first of them is null."""
    with np.errstate(over="ignore"):
        rows = np.concatenate([np.full((1, records.shape[1]), np.nan), first_rows]).astype(dtype)
    stack = np.repeat(records[None].astype(dtype), len(rows), axis=0)
    stack[:, 0] = rows
    return stack


def squares(points):
    return EmpiricalRisk(SquaredDistance(jnp.ones((), points.dtype)), points, None, WholeSpace())


# --- the mean -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("clip_norm", [1.0, 1e-30, 1e30])
def test_no_hostile_record_moves_a_mean_further_than_is_charged(dtype, clip_norm):
    """Use all pairs of hostile records, next to ordinary ones of any size."""
    query = ClippedMean(clip_norm, clip_norm * math.sqrt(2.0), float(N), DIM)
    rng = np.random.default_rng(1)
    others = rng.normal(size=(N, DIM)) * 10.0 ** rng.uniform(-3, 3, size=(N, 1))
    given = hostile_rows()
    with np.errstate(over="ignore"):
        given = np.concatenate([given, clip_norm * given])
    stack = stacked(others, given, dtype).astype(np.float64)
    means = jax.jit(jax.vmap(lambda points: query.mean_of(squares(points))))(stack)
    l2, l1, null_l2, null_l1 = furthest(means)
    assert 0.99 < l2 / query.sensitivity(REPLACE) <= 1.0
    assert 0.99 < l1 / query.l1_sensitivity(REPLACE) <= 1.0
    assert 0.99 < null_l2 / query.sensitivity(ZERO) <= 1.0
    assert 0.99 < null_l1 / query.l1_sensitivity(ZERO) <= 1.0


def test_entries_that_repeat_or_lie_nowhere_move_a_mean_no_further():
    query = ClippedMean(1.0, math.sqrt(2.0), float(N), DIM)
    indices, values = np.zeros((9, N, WIDTH), np.int32), np.zeros((9, N, WIDTH))
    for k, (places, numbers) in enumerate(hostile_entries()):
        indices[k + 1, 0], values[k + 1, 0] = places, numbers

    @jax.jit
    @jax.vmap
    def mean(places, numbers):
        return query.mean_of(squares(SparseFeatures(places, numbers, DIM)))

    found = np.asarray(mean(indices, values))
    l2, l1, null_l2, null_l1 = furthest(found)
    assert l2 <= query.sensitivity(REPLACE)
    assert l1 <= query.l1_sensitivity(REPLACE)
    assert 0.99 < null_l2 / query.sensitivity(ZERO) <= 1.0
    assert 0.99 < null_l1 / query.l1_sensitivity(ZERO) <= 1.0
    np.testing.assert_allclose(found[4], np.r_[0, 1.0, 0, 0] / N, rtol=1e-12)  # 1.2 at one place


def test_a_sum_much_longer_than_its_records_is_charged_for():
    """The sensitivity includes the rounding of the sum: 100,000 records on one side."""
    n = 100_000
    query = ClippedMean(1.0, math.sqrt(2.0), float(n), 2)
    rows = np.abs(np.random.default_rng(2).normal(size=(n, 2)))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    angles = np.linspace(0.0, math.pi, 7)
    stack = stacked(rows, np.stack([np.cos(angles), np.sin(angles)], axis=1), np.float64)
    stack[:, 1:] *= 1.0 - 2.0**-53
    means = jax.jit(lambda s: jax.lax.map(lambda p: query.mean_of(squares(p)), s))(stack)
    l2, *_ = furthest(means)
    assert 1.0 - 1e-5 < l2 / query.sensitivity(REPLACE) <= 1.0


# --- sums of gradients that stay sparse -----------------------------------------------------------


LOSSES = {"separable": Separable(Sine()), "linear": GeneralisedLinear(Linear()), "distances": None}


@pytest.mark.cases(3)
@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_no_hostile_record_moves_a_sum_of_sparse_gradients_further(name, dtype):
    query = ClippedGradient(1.0, float(N), DIM)
    rng = np.random.default_rng(4)
    stack = stacked(rng.normal(size=(N, DIM)), hostile_rows(), dtype)
    places = jnp.broadcast_to(jnp.arange(DIM, dtype=jnp.int32), stack.shape)
    loss = LOSSES[name] or SquaredDistance(jnp.ones((), dtype))
    points = jnp.asarray([[0.0] * 4, [0.3, -0.4, 2.0, 0.0], [1e-30] * 4, [1e6, 0, 0, 1.0]], dtype)

    @jax.jit
    def sums(places, values):
        def one(places, values):
            features = SparseFeatures(places, values, DIM)
            data = (features, jnp.ones(N, dtype)) if name == "linear" else features
            risk = EmpiricalRisk(loss, data, None, WholeSpace())
            return jax.lax.map(clipped_gradient_sum(risk, jnp.ones((), dtype)), points)

        return jax.vmap(one)(places, values)

    found = np.asarray(sums(places, stack), np.float64)
    rounding = N * 8.0 * float(np.finfo(dtype).eps)
    for k in range(len(points)):
        l2, _, null_l2, _ = furthest(found[:, k])
        assert l2 <= 2.0 * query.record_sensitivity + rounding
        assert null_l2 <= query.record_sensitivity + rounding


@pytest.mark.cases(2)
@pytest.mark.parametrize("offset", [1.0, 1e2, 1e4, 1e6])
def test_distances_far_from_the_origin_do_not_lose_a_record_in_the_rounding(offset):
    """Sums of the point must not grow: float32, 100,000 records near the point."""
    n = 100_000
    near = offset + 0.3 * np.random.default_rng(0).normal(size=n)
    stack = np.repeat(near[None], 4, axis=0).astype(np.float32)
    stack[:, 0] = np.nan, near[0], offset + 5.0, offset - 5.0

    @jax.jit
    def total(values):
        points = SparseFeatures(jnp.zeros((n, 1), jnp.int32), values[:, None], 2)
        point = jnp.array([offset, 0.0], jnp.float32)
        return clipped_gradient_sum(squares(points), jnp.float32(1.0))(point)

    found = np.asarray(jax.lax.map(total, stack), np.float64)
    assert np.linalg.norm(found[1:] - found[0], axis=1).max() <= 1.1


@pytest.mark.optimised
def test_no_distance_is_rounded_down():
    """Use distances with the fewest digits, an eighth of the point's norm: 100,000 records."""
    rng = np.random.default_rng(0)
    turns = rng.uniform(0.0, 2.0 * np.pi, 100_000)
    away = rng.uniform(126.0, 140.0, (turns.size, 1)) * np.stack([np.cos(turns), np.sin(turns)], 1)
    point, places = jnp.array([600.0, -800.0], jnp.float32), jnp.arange(2)[None]

    @jax.jit
    @jax.vmap
    def alone(record):
        points = SparseFeatures(places, record[None], 2)
        return clipped_gradient_sum(squares(points), jnp.float32(1.0))(point)

    found = np.asarray(alone((np.asarray(point) + away).astype(np.float32)), np.float64)
    sizes = np.linalg.norm(found, axis=1)
    assert sizes.min() > 0.99
    assert sizes.max() <= ClippedGradient(1.0, 1.0, 2).record_sensitivity


# --- gradients of reduced bias --------------------------------------------------------------------


@pytree_dataclass
@dataclasses.dataclass(frozen=True)
class Apart:
    """Post-processing that maps the four means to separate coordinates."""

    def project(self, means):
        return means[:, :1] * jnp.eye(4, dtype=means.dtype)


def reduced(n, steps, noise):
    known = {"query": ClippedGradient(1.0, float(n), 4), "post": Apart(), "scale": 2.0 * noise}
    return BiasReducedGradient(n=n, base=1, steps=steps, **known)


@partial(jax.jit, static_argnames=("steps", "dtype"))
def transcripts(mechanism, records, keys, steps, dtype="float32"):
    """Levels and the four noisy sums of every step, shapes ``(runs, T)`` and ``(runs, T, 4)``."""
    risk = EmpiricalRisk(lambda w, x: w @ x, records.astype(dtype), None, WholeSpace())
    law, base = mechanism.law, mechanism.base

    def one(pair):
        key, coins = pair
        oracle = mechanism.oracle(risk, key, coins)

        def step(state, t):
            level = law.draw(jax.random.fold_in(coins, t))
            answer, state = oracle.update(state, t, jnp.zeros(4, dtype))
            weight, half = law.weight(level, answer.dtype), (base << level).astype(dtype)
            shares = jnp.stack([weight, -0.5 * weight, -0.5 * weight, jnp.ones_like(weight)])
            sizes = jnp.stack([2.0 * half, half, half, jnp.full_like(half, base)])
            return state, (level, answer / shares * sizes)

        return jax.lax.scan(step, (), jnp.arange(steps, dtype=jnp.int32))[1]

    return jax.lax.map(one, keys, batch_size=min(5000, len(keys[0])))


def line(n, first, others=-1.0):
    records = np.zeros((n, 4))
    records[:, 0] = np.r_[first, np.full(n - 1, others)]
    return jnp.asarray(records)


def log_ratio(mechanism, levels, sums):
    """Return the log-likelihood ratio of ``first = 1`` and ``first = -1``, all others -1.

    The likelihoods are summed over all possible sets.
    """
    levels, sums = np.asarray(levels, np.float64), np.asarray(sums, np.float64)
    n, base, variance = mechanism.n, mechanism.base, mechanism.scale**2
    half = base * 2.0**levels
    centres = -np.stack([2.0 * half, half, half, np.full_like(half, base)], axis=-1)
    both, odd, even, single = np.moveaxis((2.0 * (sums - centres) - 2.0) / variance, -1, 0)
    rate = 2.0 * half / n
    inside = np.log(0.5 * rate) + both + np.logaddexp(odd, even)
    with np.errstate(divide="ignore"):
        outside = np.log(1.0 - rate)
    once = np.logaddexp(math.log(1.0 - base / n), math.log(base / n) + single)
    return (np.logaddexp(outside, inside) + once).sum(axis=-1)


def keys_of(seed, runs=RUNS):
    """Include the runs and their public randomness."""
    return tuple(jax.random.split(key, runs) for key in jax.random.split(jax.random.key(seed), 2))


@pytest.mark.thorough  # sensitivities and noise are tested one by one
def test_an_attack_on_all_that_steps_release(epsilon_lower_bound):
    """The worst pair: all others opposite. Two steps, all four sums, and the level, are known."""
    mechanism = reduced(n=4, steps=2, noise=1.5)
    scores = [
        log_ratio(mechanism, *transcripts(mechanism, line(4, first), keys_of(seed), 2))
        for seed, first in enumerate((1.0, -1.0))
    ]
    epsilon = Guarantee(mechanism.event(REPLACE), REPLACE).epsilon(0.01).upper
    assert 0.6 * epsilon < epsilon_lower_bound(*scores, 0.01) <= epsilon


@pytest.mark.cases(1)
@pytest.mark.parametrize("value", [np.nan, np.inf, 3e38])
def test_levels_and_noise_do_not_see_the_data(value):
    """Same keys, other data: same levels, same noise."""
    mechanism, keys = reduced(n=6, steps=5, noise=1.0), keys_of(7, 20)
    levels, noise = transcripts(mechanism, line(6, 0.0, 0.0), keys, 5)
    others, moved = transcripts(mechanism, line(6, value, 0.0), keys, 5)
    np.testing.assert_array_equal(levels, others)
    apart = np.abs(np.asarray(moved - noise))
    assert np.isfinite(apart).all()
    assert apart.max() <= mechanism.query.record_sensitivity + 1e-5

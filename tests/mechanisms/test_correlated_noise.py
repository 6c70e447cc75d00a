"""Tests that correlated noise equals its factorisation: recomputed, restarted or resumed.

A step is linear in the draws. One run of more coordinates than steps gives the matrix from draws to
noise, without any statistics.
"""

import math
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from selection import few

from privopt import random
from privopt.factorisations import FACTORISATIONS, factorise
from privopt.mechanisms import IndependentNoise, TreeNoise, noise_of
from privopt.mechanisms.noise import (
    BufferedNoise,
    DenseNoise,
    HonakerNoise,
    RestartedNoise,
    SeriesNoise,
)
from privopt.mechanisms.noise.noise import weighted

STEPS = 23  # no power of two, and three epochs of 7 with two steps left
PERIOD = 7
DIM = 400
KEY = jax.random.key(3)
QUOTIENT = SeriesNoise(np.array([1.0, 0.5, 0.2]), np.array([1.0, -0.3, 0.1, 0.4]))
KINDS = {
    **{name: noise_of(name, STEPS) for name in FACTORISATIONS},
    "band of 4": noise_of("banded", STEPS, band=4),
    "inverse band of 4": noise_of("banded_inverse", STEPS, band=4, optimise=True),
    "quotient": QUOTIENT,
    "tree, redrawn": TreeNoise(remembered=0),
    "tree, partly redrawn": TreeNoise(remembered=2),
    "tree, remembered": TreeNoise(remembered=31),
}
RESTARTED = {
    f"restarted {name}": RestartedNoise(KINDS[name], PERIOD)
    for name in ("tree", "honaker", "toeplitz", "quotient", "buffered", "optimal")
}
NOISES = {**KINDS, **RESTARTED}
CLASSES = ("tree", "tree, redrawn", "honaker", "quotient", "buffered", "optimal")
CLASSES = (*CLASSES, "restarted tree", "restarted quotient")
named = pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
of_each_class = pytest.mark.parametrize("noise", [NOISES[name] for name in CLASSES], ids=CLASSES)


@partial(jax.jit, static_argnames="steps")
def answered(noise, state, first, steps, key, like):
    """Return ``z`` of ``steps`` steps from ``first`` on, and the state."""

    def step(state, t):
        z, state = noise.update(state, t, key, like)
        return state, z

    state, z = jax.lax.scan(step, state, first + jnp.arange(steps, dtype=jnp.int32))
    return z, state


def stream(noise, key=KEY, steps=STEPS, dtype=np.float64):
    """``z``, shape ``(steps, DIM)``."""
    like = jnp.zeros(DIM, dtype)
    return answered(noise, noise.init(like), np.int32(0), steps, key, like)[0]


@cache
def drawn(steps, period):
    """Return the draws of each step; every ``period`` steps have a separate key."""

    def one(t):
        own, place = KEY, t
        if period is not None:
            own, place = jax.random.fold_in(KEY, t // period), t % period
        return random.normal(jax.random.fold_in(own, place), (DIM,), np.float64)

    return np.asarray(jax.jit(partial(jax.lax.map, one))(jnp.arange(steps)))


def map_of(noise, steps=STEPS):
    """``M`` of ``z = M xi``, row by row, exact up to round-off."""
    xi = drawn(steps, noise.period if isinstance(noise, RestartedNoise) else None)
    z = np.asarray(stream(noise, steps=steps))
    found = np.linalg.lstsq(xi.T, z.T)[0].T
    np.testing.assert_allclose(found @ xi, z, atol=1e-11)
    return found


# --- what is added ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", few(NOISES, CLASSES))
def test_prefix_sums_have_the_covariance_of_the_decoder(name):
    """``B B^T``; Honaker's weights are rounded to float32 on the device alone."""
    noise = NOISES[name]
    found = map_of(noise)
    assert not np.triu(found, 1).round(12).any()
    decoder = np.cumsum(found, axis=0)
    expected = noise.factorisation(STEPS).covariance()
    tolerance = 1e-6 if "Honaker" in repr(noise) else 1e-11
    np.testing.assert_allclose(decoder @ decoder.T, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", few([each for each in NOISES if "honaker" not in each], CLASSES))
def test_the_map_is_the_inverse_of_the_encoder(name):
    noise = NOISES[name]
    expected = np.linalg.inv(noise.factorisation(STEPS).encoder())
    np.testing.assert_allclose(map_of(noise), expected, atol=1e-11)


@pytest.mark.parametrize("name", FACTORISATIONS)
def test_rounding_to_float32_changes_a_factorisation_by_no_more(name):
    kept, given = NOISES[name].factorisation(STEPS), factorise(name, STEPS)
    np.testing.assert_allclose(kept.variances(), given.variances(), rtol=1e-6)
    assert kept.sensitivity() == pytest.approx(given.sensitivity(), rel=1e-6)


# --- what is remembered -----------------------------------------------------------------------


@pytest.mark.optimised
def test_the_tree_has_the_same_bits_however_much_it_remembers():
    expected = stream(TreeNoise(0), steps=200, dtype=np.float32)
    for remembered in (2, 31):
        found = stream(TreeNoise(remembered), steps=200, dtype=np.float32)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.cases(3)
@of_each_class
def test_a_stream_that_is_killed_goes_on_as_if_nothing_had_happened(noise):
    """The state passes through NumPy in every step, and each step is a separate program."""
    like = jnp.zeros(DIM)
    state = noise.init(like)
    for t, expected in enumerate(stream(noise)):
        saved = jax.tree.map(np.array, state)
        found, state = answered(noise, saved, np.int32(t), 1, KEY, like)
        np.testing.assert_array_equal(found[0], expected)


@pytest.mark.cases(2)
@of_each_class
def test_many_keys_at_once_are_one_after_another(noise):
    keys = jax.random.split(KEY, 2)
    together = jax.vmap(lambda key: stream(noise, key))(keys)
    for key, found in zip(keys, together, strict=True):
        np.testing.assert_allclose(found, stream(noise, key), rtol=1e-11, atol=1e-12)


def test_rows_of_many_runs_are_weighted_as_those_of_one():
    """Whichever of the two there are many of, and of plans times keys."""
    rng = np.random.default_rng(0)
    weights, rows = rng.normal(size=(3, 5)), rng.normal(size=(3, 2, 5, 4))
    some, one = rows[:, 0], rows[0, 0]
    for axes, given, expected in (
        ((0, None), (weights, one), weights @ one),
        ((None, 0), (weights[0], some), weights[0] @ some),
        ((0, 0), (weights, some), np.einsum("pi,pid->pd", weights, some)),
    ):
        np.testing.assert_allclose(jax.vmap(weighted, axes)(*given), expected, rtol=1e-12)
    nested = jax.vmap(jax.vmap(weighted, (None, 0)))(weights, rows)
    np.testing.assert_allclose(nested, np.einsum("pi,pkid->pkd", weights, rows), rtol=1e-12)


@pytest.mark.parametrize("remembered", [0, 3])
def test_keys_do_not_decide_how_many_blocks_are_drawn_again(remembered):
    """A predicate mapped over keys would be reduced over them, and spend every draw on all."""
    noise, keys, like = TreeNoise(remembered), jax.random.split(KEY, 4), jnp.zeros(3)
    step = jax.vmap(lambda key: noise.update(noise.init(like), jnp.asarray(7), key, like)[0])
    program = jax.make_jaxpr(step)(keys)
    loops = [equation for equation in program.eqns if equation.primitive.name == "while"]
    assert len(loops) == 1 + (remembered > 0)
    for loop in loops:
        condition = loop.params["cond_jaxpr"].jaxpr
        assert "reduce_or" not in str(condition)


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    "noises",
    [
        [SeriesNoise(np.array([1.0, p]), np.array([1.0, 0.2, -p])) for p in (0.5, 0.25)],
        [BufferedNoise(np.array([p]), np.array([p])) for p in (0.5, 0.25)],
        [DenseNoise(np.eye(STEPS) + p * np.eye(STEPS, k=-2)) for p in (0.5, 0.25)],
        [RestartedNoise(TreeNoise(), period) for period in (3, 5)],
    ],
    ids=lambda noises: type(noises[0]).__name__,
)
def test_numbers_enter_by_argument(noises):
    """Plans of equal shapes are mapped together, and new coefficients cause no compilation."""
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *noises)
    together = jax.vmap(stream)(stacked)
    np.testing.assert_allclose(together[0], stream(noises[0]), rtol=1e-11, atol=1e-12)
    compiled = answered._cache_size()
    np.testing.assert_allclose(together[1], stream(noises[1]), rtol=1e-11, atol=1e-12)
    assert answered._cache_size() == compiled


@pytest.mark.parametrize(("name", "dtype"), [("tree", np.float64), ("quotient", np.float32)])
def test_networks_get_noise_of_their_own_shapes_and_types(name, dtype):
    """One vector in the order of the leaves; types in which noise is rounded are refused."""
    noise, key = NOISES[name], jax.random.key(1)
    like = {"a": jnp.zeros((2, 3), dtype), "b": [jnp.zeros(4, dtype)]}
    state = noise.init(like)
    vector, step = jnp.zeros(10, dtype), jax.jit(noise.update)
    flat, _ = answered(noise, noise.init(vector), np.int32(0), 3, key, vector)
    for t in range(3):
        z, state = step(state, t, key, like)
        assert jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), z) == jax.tree.map(
            lambda leaf: (leaf.shape, leaf.dtype), like
        )
        joined = np.concatenate([z["a"].ravel(), z["b"][0]]).astype(np.float64)
        np.testing.assert_allclose(joined, flat[t], rtol=4 * float(jnp.finfo(dtype).eps), atol=1e-6)
    assert {leaf.dtype for leaf in jax.tree.leaves(state)} == {np.dtype(dtype)}
    short = jnp.zeros(3, jnp.bfloat16)
    with pytest.raises(ValueError, match="dtype of noise must be float32 or float64, got bfloat16"):
        jax.eval_shape(lambda key: noise.update(noise.init(short), 0, key, short), key)


# --- restarts ---------------------------------------------------------------------------------


@pytest.mark.cases(3)
@pytest.mark.parametrize("name", RESTARTED)
def test_nothing_of_an_epoch_remains_in_the_next(name):
    """The map is block diagonal, each block that of one epoch, the last one cut in its midst.

    An epoch of 7 steps ends where no block of the tree is complete but the last leaf, and an epoch
    of 8 with the whole tree; neither leaves anything behind.
    """
    inner = RESTARTED[name].noise
    for period in (PERIOD, 8):
        found, one = map_of(RestartedNoise(inner, period)), map_of(inner)
        expected = np.zeros_like(found)
        for first in range(0, STEPS, period):
            rows = slice(first, min(first + period, STEPS))
            length = rows.stop - first
            expected[rows, rows] = one[:length, :length]
        np.testing.assert_allclose(found, expected, atol=1e-11)


@pytest.mark.cases(3)
@pytest.mark.parametrize("name", RESTARTED)
def test_a_new_epoch_does_not_read_the_state(name):
    noise, like = RESTARTED[name], jnp.zeros(DIM)
    expected = stream(noise)[PERIOD]
    spoilt = jax.tree.map(lambda leaf: jnp.full_like(leaf, jnp.nan), noise.init(like))
    found, _ = answered(noise, spoilt, np.int32(PERIOD), 1, KEY, like)
    np.testing.assert_array_equal(found[0], expected)


def test_epochs_have_other_draws():
    """Epochs of one step: no two of 50 are correlated beyond 6.5 standard deviations, 1e-7."""
    found = np.asarray(stream(RestartedNoise(TreeNoise(), 1), steps=50))
    correlation = np.triu(found @ found.T / DIM, 1)
    assert np.abs(correlation).max() < 6.5 / math.sqrt(DIM)


# --- long streams -----------------------------------------------------------------------------


@pytest.mark.optimised
def test_a_million_steps_are_one_program_that_remembers_next_to_nothing():
    """The sum is one block; at ``d = 100`` all buffers of the program are below 64 KB."""
    noise, steps = TreeNoise(), 2**20

    @partial(jax.jit, static_argnames="dim")
    def total(key, dim):
        def step(carry):
            t, state, total = carry
            z, state = noise.update(state, t, key, total)
            return t + 1, state, total + z

        start = jnp.zeros(dim)
        carry = jnp.zeros((), jnp.int32), noise.init(start), start
        return jax.lax.while_loop(lambda carry: carry[0] < steps, step, carry)[2]

    last = random.normal(jax.random.fold_in(KEY, steps - 1), (1,), np.float64)
    np.testing.assert_allclose(total(KEY, 1), last, atol=1e-9)
    memory = total.lower(KEY, 100).compile().memory_analysis()
    assert memory.temp_size_in_bytes + memory.output_size_in_bytes < 64 * 1024


# --- bad input --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: TreeNoise(-1), "remembered must be an integer from 0 to 31, got -1"),
        (lambda: HonakerNoise(0), "height must be an integer from 1"),
        (lambda: HonakerNoise(32), "height must be at most 31, got 32"),
        (lambda: SeriesNoise([], [1.0]), "numerator must be an array of real numbers"),
        (lambda: SeriesNoise([1.0], [[1.0]]), "denominator must be an array of real numbers"),
        (lambda: SeriesNoise([0.5], [1.0]), "numerator must begin with 1, got 0.5"),
        (lambda: SeriesNoise([1.0], [1.0, math.nan]), "denominator must be finite in float32"),
        (lambda: SeriesNoise([1.0, 1e39], [1.0]), "numerator must be finite in float32"),
        (lambda: BufferedNoise([0.1], [0.1, 0.2]), "omega must have one weight for each theta"),
        (lambda: BufferedNoise([-0.1], [0.1]), "omega must be finite and >= 0"),
        (lambda: BufferedNoise([0.1], [1.1]), r"theta must lie in \[0, 1\]"),
        (lambda: DenseNoise(np.ones((2, 2))), "inverse must be lower triangular"),
        (lambda: DenseNoise(np.diag([1.0, 1e-50])), "inverse must be invertible"),
        (lambda: DenseNoise([[1.0, 0.0], [5000.0, 1.0]]), "inverse must give C an inverse that"),
        (lambda: SeriesNoise([1.0, 2.0], [1.0]).factorisation(14), "numerator must give C an"),
        (lambda: SeriesNoise([1.0], [1.0, 1e5]).factorisation(2), "denominator must give C an inv"),
        (lambda: BufferedNoise([3.0], [1.0]).factorisation(2000), "omega must give C an inverse"),
        (lambda: RestartedNoise(TreeNoise(), 0), "period must be an integer from 1"),
        (lambda: RestartedNoise("tree", 4), "noise must answer init, update, factorisation, event"),
        (lambda: noise_of("ternary", 4), "noise must be one of independent, tree"),
        (lambda: noise_of("tree", 4, band=2), "band must be left out for tree, got 2"),
        (lambda: noise_of("banded", 4, band=5), "band must be at most steps=4, got 5"),
        (lambda: noise_of("tree", 4, optimise=True), "optimise must be False for tree"),
        (lambda: noise_of(TreeNoise(), 4, band=2), "band must be left out if noise is not a name"),
        (lambda: noise_of(None, 4, optimise=True), "optimise must be False if noise is not a name"),
        (
            lambda: noise_of("optimal", 1025),
            "noise must not be 'optimal' for more than 10",
        ),
        (lambda: noise_of(0.5, 4), "noise must be a Noise or a string or None, got 0.5"),
        (lambda: HonakerNoise(3).factorisation(8), "steps must be at most 7 for a tree of height"),
        (lambda: DenseNoise(np.eye(3)).factorisation(4), "steps must be at most 3 for this noise"),
    ],
)
def test_bad_input_is_refused_with_the_reason(make, reason):
    with pytest.raises(ValueError, match=reason):
        make()


def test_a_restarted_noise_lasts_for_ever_but_its_epochs_do_not():
    assert RestartedNoise(DenseNoise(np.eye(3)), 3).factorisation(100).steps == 100
    with pytest.raises(ValueError, match="steps must be at most 3 for this noise, got 4"):
        RestartedNoise(DenseNoise(np.eye(3)), 4).factorisation(100)


def test_a_noise_by_name_or_as_it_is():
    assert isinstance(noise_of(None, 9), IndependentNoise)
    assert isinstance(noise_of("independent", 9), IndependentNoise)
    assert noise_of(QUOTIENT, 9) is QUOTIENT
    assert noise_of("honaker", 9) == HonakerNoise(4)
    assert noise_of("banded", 100, band=3).numerator.shape == (3,)

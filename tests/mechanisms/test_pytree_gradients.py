"""Gradients that are pytrees: clipped as one vector, summed in parts, noise for every array."""

import itertools
import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from builders import largest
from selection import choose

from privopt import problems
from privopt.convex import EmpiricalRisk, WholeSpace
from privopt.mechanisms import (
    AllRecords,
    ClippedGradient,
    FixedSizeBatches,
    PoissonBatches,
    PrivateGradient,
    ShuffledBatches,
    VarianceReducedGradient,
    clipped_batch_sum,
    clipped_gradient_sum,
)
from privopt.spec import ProblemClass

SHAPES = {"scale": (), "bias": (3,), "dense": (3, 4), "kernel": (2, 2, 3, 2)}


def inner(w, record):
    """``<w, x>`` over all leaves: the gradient is the record itself."""
    pairs = zip(jax.tree.leaves(w), jax.tree.leaves(record), strict=True)
    return jnp.stack([jnp.sum(a * b) for a, b in pairs]).sum()


def network(w, record):
    """A convolution, a dense layer and a scalar, on pictures of 4 x 4 pixels with 3 channels."""
    picture, target = record
    seen = jax.lax.conv_general_dilated(
        picture[None], w["kernel"], (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    hidden = jnp.tanh(seen.mean(axis=(0, 1, 2)))
    out = jnp.tanh(w["bias"] + w["dense"] @ jnp.concatenate([hidden, hidden]))
    return jnp.square(w["scale"] * out.sum() - target)


def records(n=23, seed=0, dtype=np.float64):
    """Return records with joint norms from 0.01 to 100."""
    rng = np.random.default_rng(seed)
    size = 10.0 ** rng.uniform(-2, 2, size=n)
    return {
        name: (rng.normal(size=(n, *shape)) * size.reshape(n, *(1,) * len(shape))).astype(dtype)
        for name, shape in SHAPES.items()
    }


def zeros(dtype=np.float64):
    return {name: jnp.zeros(shape, dtype) for name, shape in SHAPES.items()}


@partial(jax.jit, static_argnames=("kind", "microbatch"))
def summed(kind, data, clip_norm, gamma=None, weights=None, microbatch=512):
    """Return the clipped gradient sum of all records, by either function."""
    if kind == "whole":
        risk = EmpiricalRisk(inner, data, weights, WholeSpace())
        return clipped_gradient_sum(risk, clip_norm, gamma, microbatch)(zeros())
    count = data["scale"].shape[0]
    weights = jnp.ones(count) if weights is None else weights
    risk = EmpiricalRisk(inner, data, None, WholeSpace())
    return clipped_batch_sum(risk, clip_norm, gamma, microbatch)(
        zeros(), jnp.arange(count), weights
    )


def joint_norm(tree):
    return math.sqrt(sum(float(np.sum(np.square(leaf, dtype=float))) for leaf in tree.values()))


def record_at(data, i):
    return {name: leaf[i] for name, leaf in data.items()}


def naive(gradients, clip_norm, gamma=None):
    """One record after the other; the norm is that of all leaves together."""
    total = {name: np.zeros(shape) for name, shape in SHAPES.items()}
    for gradient in gradients:
        size = joint_norm(gradient)
        factor = min(1.0, clip_norm / size) if gamma is None else clip_norm / (size + gamma)
        total = {name: total[name] + factor * gradient[name] for name in SHAPES}
    return total


def assert_trees_close(found, expected, **tolerance):
    for name in SHAPES:
        np.testing.assert_allclose(found[name], expected[name], err_msg=name, **tolerance)


# --- one norm for all leaves ----------------------------------------------------------------------


@pytest.mark.parametrize("gamma", [None, 0.02])
@pytest.mark.parametrize("clip_norm", [0.3, 5.0])
def test_the_norm_is_that_of_all_leaves_together(clip_norm, gamma):
    data = records()
    expected = naive([record_at(data, i) for i in range(23)], clip_norm, gamma)
    for kind in ("whole", "batch"):
        assert_trees_close(summed(kind, data, clip_norm, gamma), expected, rtol=1e-11)


@pytest.mark.parametrize("clip_norm", [0.05, 100.0])
def test_layers_of_every_shape_equal_one_gradient_at_a_time(clip_norm):
    rng = np.random.default_rng(1)
    point = {name: jnp.asarray(rng.normal(size=shape)) for name, shape in SHAPES.items()}
    pictures, targets = rng.normal(size=(9, 4, 4, 3)), 5.0 * rng.normal(size=9)
    gradient = jax.jit(jax.grad(network))
    each = [
        jax.tree.map(np.asarray, gradient(point, (x, y)))
        for x, y in zip(pictures, targets, strict=True)
    ]
    norms = [joint_norm(gradient) for gradient in each]
    assert min(norms) < 100.0
    assert max(norms) > 0.05
    risk = EmpiricalRisk(network, (pictures, targets), None, WholeSpace())
    total = clipped_gradient_sum(risk, clip_norm, microbatch=4)
    found = jax.jit(total)(point)
    assert_trees_close(found, naive(each, clip_norm), rtol=1e-10, atol=1e-13)


@pytest.mark.optimised
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("path", ["linear", "general", "linear batch", "general batch"])
def test_automatic_clipping_never_exceeds_the_clip(path, dtype):
    """Gradients of any length, however small ``gamma``."""
    unit = float(np.finfo(dtype).eps)
    rng = np.random.default_rng(2)
    loss = problems.GeneralisedLinear(problems.Logistic())
    if path.startswith("general"):
        loss = partial(lambda known, w, record: known(w, record), loss)
    make = clipped_batch_sum if "batch" in path else clipped_gradient_sum
    batch = (jnp.zeros(1, int), jnp.ones(1, dtype)) if "batch" in path else ()

    @jax.jit
    def total(record, gamma):
        risk = EmpiricalRisk(loss, record, None, WholeSpace())
        return make(risk, dtype(0.5), gamma)(jnp.zeros(4, dtype), *batch)

    for power in range(-30, 31, 4):
        x = (rng.normal(size=(1, 4)) * 10.0**power).astype(dtype)
        y = np.array([rng.choice([-1.0, 1.0])], dtype)
        for gamma in (1e-30, 1e-3):
            norm = np.linalg.norm(np.asarray(total((x, y), dtype(gamma)), np.float64))
            assert norm <= 0.5 * (1.0 + 12.0 * unit), (power, gamma)
            if 10.0**power > 1e3 * gamma and power < 30:
                assert norm >= 0.5 * 0.99, (power, gamma)


# --- records that are not finite ------------------------------------------------------------------


@pytest.mark.parametrize("leaf", SHAPES)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("gamma", [None, 0.02])
def test_a_record_bad_in_one_leaf_contributes_nothing_to_any(leaf, bad, gamma):
    data = records()
    data[leaf][5].reshape(-1)[..., -1:] = bad
    if leaf == "scale":
        data[leaf][5] = bad
    assert not np.all(np.isfinite(data[leaf][5]))
    expected = naive([record_at(data, i) for i in range(23) if i != 5], 0.5, gamma)
    for kind in ("whole", "batch"):
        assert_trees_close(summed(kind, data, 0.5, gamma), expected, rtol=1e-11)


# --- parts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["whole", "batch"])
def test_sums_do_not_depend_on_the_microbatch(kind):
    data = records(30)
    weights = jnp.asarray(np.random.default_rng(3).integers(0, 3, 30), float)
    sizes = choose((512, 7, 1), (512, 7))
    first, *others = (summed(kind, data, 0.5, None, weights, size) for size in sizes)
    for other in others:
        assert_trees_close(other, first, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("kind", ["whole", "batch"])
def test_memory_is_that_of_a_microbatch_of_gradients(kind):
    """2,000 records of one number each, 500 parameters: a million where all were there at once."""
    data = jnp.ones(2000)
    point = {"a": jnp.zeros((20, 20)), "b": jnp.zeros(100)}

    def loss(w, x):
        return jnp.tanh(x * w["a"]).sum() + jnp.tanh(x * w["b"]).sum()

    def made(microbatch):
        risk = EmpiricalRisk(loss, data, None, WholeSpace())
        if kind == "whole":
            total = clipped_gradient_sum(risk, 1.0, microbatch=microbatch)
        else:
            batch_sum = clipped_batch_sum(risk, 1.0, microbatch=microbatch)

            def total(w):
                return batch_sum(w, jnp.arange(2000), jnp.ones(2000))

        return largest(jax.make_jaxpr(total)(point).jaxpr)

    assert made(2000) >= 2000 * 400
    assert made(16) <= 16 * 500  # and the records, 2,000


# --- noise ----------------------------------------------------------------------------------------

QUERY = ClippedGradient(1.0, 8.0, 20_000)
POISSON = PoissonBatches(0.5, 4.0, capacity=8, most=8)
BATCHES = [AllRecords(), POISSON, FixedSizeBatches(4, 8), ShuffledBatches(2, 8)]
SIDE = 100
LIMIT = 6.0  # standard deviations: 2e-9 for each of at most a thousand comparisons


def still():
    """A problem without gradients, of two leaves of the same shape: answers are noise alone."""
    start = {"a": np.zeros((SIDE, SIDE)), "b": np.zeros((SIDE, SIDE))}
    facts = ProblemClass(n=8, dim=2 * SIDE**2, lipschitz=1.0, radius=math.inf, convex=False)

    def loss(w, x):
        return 0.0 * (w["a"].sum() + w["b"].sum() + x)

    data = np.zeros(8)
    return problems.Problem(loss=loss, data=data, problem_class=facts, start=start).objective


def flat(trees):
    return [np.asarray(leaf).ravel() for leaf in jax.tree.leaves(trees)]


def correlated(vectors):
    """Return True if some two vectors correlate by more than ``LIMIT`` standard deviations."""
    return any(
        abs(a @ b) / (np.linalg.norm(a) * np.linalg.norm(b)) > LIMIT / math.sqrt(a.size)
        for a, b in itertools.combinations(vectors, 2)
    )


@pytest.mark.cases(2)
@pytest.mark.parametrize("batches", BATCHES, ids=repr)
def test_noise_is_independent_across_leaves_steps_and_seeds(batches):
    """28 correlations of 10,000 normals: a false alarm has probability 6e-8."""
    mechanism = PrivateGradient(query=QUERY, batches=batches, scale=1.0, steps=4)
    objective = still()

    @jax.jit
    @partial(jax.vmap, in_axes=(0, None))
    @partial(jax.vmap, in_axes=(None, 0))
    def answer(seed, t):
        oracle = mechanism.oracle(objective, jax.random.key(seed))
        return oracle.update((), t, objective.start(0))[0]

    found = answer(jnp.arange(2), jnp.arange(2))
    vectors = [leaf[k, t].ravel() for leaf in found.values() for k in (0, 1) for t in (0, 1)]
    assert len(vectors) == 8
    assert not correlated(list(map(np.asarray, vectors)))


def test_noise_of_anchors_and_of_differences_is_independent():
    """Answers between anchors contain the anchor's noise and additional independent noise."""
    reduced = VarianceReducedGradient(QUERY, 1.0, QUERY, 1.0, POISSON, period=3, steps=9)
    objective = still()

    @jax.jit
    def answers(key):
        anchors, changes = reduced.oracles(objective, key)
        start = objective.start(0)
        first, state = anchors.update(anchors.init(start), jnp.asarray(0), start)
        later = [changes.update(state, jnp.asarray(t), start)[0] for t in (1, 2)]
        return first, later, anchors.update(anchors.init(start), jnp.asarray(3), start)[0]

    first, later, second = jax.tree.map(np.asarray, answers(jax.random.key(0)))
    own = [jax.tree.map(np.subtract, answer, first) for answer in later]
    noises = flat([first, second, own])
    assert len(noises) == 8
    assert not correlated(noises)
    assert correlated(flat([first, later]))

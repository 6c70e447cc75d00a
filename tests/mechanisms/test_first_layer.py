"""A linear layer below a model: its gradients are clipped by their norms, and never formed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse

import privopt
from privopt.convex import EmpiricalRisk, FirstLayer, SparseFeatures, WholeSpace
from privopt.mechanisms import clipped_batch_sum, clipped_gradient_sum
from privopt.problems import Problem

CLIP, DIM, WIDTH = 0.3, 30, 3


def head(rest, hidden, label):
    """A smooth model with parameters of two shapes."""
    return jnp.logaddexp(0.0, -label * (jnp.tanh(hidden) @ rest["a"] + rest["b"]))


def words(n=23, seed=0):
    """Texts of eight words each, some of them twice, as tokens and as shares."""
    rng = np.random.default_rng(seed)
    tokens = rng.integers(0, DIM, (n, 8))
    tokens[:, 1] = tokens[:, 0]
    counts = np.zeros((n, DIM))
    np.add.at(counts, (np.arange(n)[:, None], tokens), 1.0 / 8.0)
    return tokens, counts, rng.choice([-1.0, 1.0], n)


def point(seed=1):
    rng = np.random.default_rng(seed)
    rest = {"a": jnp.asarray(rng.normal(size=WIDTH)), "b": jnp.asarray(rng.normal())}
    return jnp.asarray(rng.normal(size=(DIM, WIDTH))), rest


def twin(w, tokens, labels, weights, gamma=None):
    """An embedding, a mean over places and the model, dense, a record at a time."""

    def loss(w, text, label):
        return head(w[1], w[0][text].mean(axis=0), label)

    total = jax.tree.map(lambda leaf: np.zeros(leaf.shape), w)
    for text, label, weight in zip(tokens, labels, weights, strict=True):
        gradient = jax.grad(loss)(w, text, label)
        size = np.sqrt(sum(np.sum(np.square(leaf)) for leaf in jax.tree.leaves(gradient)))
        factor = min(1.0, CLIP / size) if gamma is None else CLIP / (size + gamma)
        total = jax.tree.map(
            lambda sum_, g, f=weight * factor: sum_ + f * np.asarray(g), total, gradient
        )
    return total


def risk(features, labels, loss=None):
    data = features, jnp.asarray(labels)
    return EmpiricalRisk(loss or FirstLayer(head), data, None, WholeSpace())


def assert_close(found, expected):
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("gamma", [None, 0.1])
@pytest.mark.parametrize("sparse", [True, False])
def test_sums_are_those_of_clipped_embeddings(sparse, gamma):
    tokens, counts, labels = words()
    features = SparseFeatures.of(scipy.sparse.csr_array(counts)) if sparse else jnp.asarray(counts)
    given, w = risk(features, labels), point()
    whole = clipped_gradient_sum(given, CLIP, gamma, microbatch=5)(w)
    assert_close(whole, twin(w, tokens, labels, np.ones(len(labels)), gamma))
    rows, weights = jnp.array([3, 5, 7, 7, 1, 0, 0]), jnp.array([1.0, 1, 1, 1, 1, 0, 0])
    for microbatch in (2, 3, 512):
        found = clipped_batch_sum(given, CLIP, gamma, microbatch)(w, rows, weights)
        assert_close(found, twin(w, tokens[rows], labels[rows], weights, gamma))


def test_changes_since_an_anchor_are_those_of_the_dense_path():
    _, counts, labels = words()
    given, w, anchor = risk(jnp.asarray(counts), labels), point(), point(2)
    dense = risk(jnp.asarray(counts), labels, lambda w, record: FirstLayer(head)(w, record))
    rows, weights = jnp.arange(9), jnp.ones(9)
    found = clipped_batch_sum(given, CLIP)(w, rows, weights, anchor)
    assert_close(found, clipped_batch_sum(dense, CLIP)(w, rows, weights, anchor))


def test_no_record_moves_the_sum_by_more_than_the_clip_norm():
    """Repeated places, places beyond the table, records that are not finite or enormous."""
    values = jnp.array(
        [[1.0, 1.0, 1.0], [5.0, 5.0, 5.0], [np.nan, 1, 1], [1e200, 1e200, 0], [np.inf, 0, 0]]
    )
    places = jnp.array([[4, 4, 4], [-1, DIM - 1, DIM + 7], [0, 1, 2], [3, 3, 5], [9, 9, 9]])
    rows = SparseFeatures(places, values, DIM)
    given = risk(rows, np.ones(5))
    for i in range(5):
        found = clipped_batch_sum(given, CLIP)(point(), jnp.array([i]), jnp.ones(1))
        size = np.sqrt(sum(np.sum(np.square(leaf)) for leaf in jax.tree.leaves(found)))
        assert size <= CLIP * (1.0 + 1e-12)
        assert np.isfinite(size)


def test_parts_in_which_nobody_is_are_left_out():
    """Three places of eight are taken: of four parts, two are computed."""
    seen = []

    def loss(w, record):
        jax.debug.callback(lambda x: seen.append(float(x)), record)
        return w * record

    given = EmpiricalRisk(loss, jnp.arange(1.0, 9.0), None, WholeSpace())
    weights = jnp.array([1.0, 1, 1, 0, 0, 0, 0, 0])
    total = clipped_batch_sum(given, 100.0, microbatch=2)(jnp.array(1.0), jnp.arange(8), weights)
    jax.effects_barrier()
    assert total == 1.0 + 2.0 + 3.0
    assert max(seen) == 4.0


def test_a_private_run_is_that_of_the_dense_path():
    _, counts, labels = words()
    start = point()
    facts = privopt.ProblemClass(
        n=len(labels), dim=DIM * WIDTH + WIDTH + 1, lipschitz=np.inf, radius=np.inf, convex=False
    )
    budget = privopt.Budget(epsilon=2.0, delta=1e-5, relation="add_or_remove_one")
    plan = privopt.ALGORITHMS["noisy_adam"].plan(
        facts, budget, steps=5, batch_size=6, clip=CLIP, step_size=0.1
    )
    ghost = FirstLayer(head)
    found = [
        privopt.run(
            plan,
            Problem(loss=loss, data=(counts, labels), problem_class=facts, start=start),
            jax.random.key(0),
        ).released
        for loss in (ghost, lambda w, record: ghost(w, record))
    ]
    assert_close(*found)

"""A linear layer below a model: its gradients are clipped by their norms, and never formed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from selection import choose

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

    total, slope = jax.tree.map(lambda leaf: np.zeros(leaf.shape), w), jax.jit(jax.grad(loss))
    for text, label, weight in zip(tokens, labels, weights, strict=True):
        gradient = jax.tree.map(np.asarray, slope(w, text, label))
        size = norm(gradient)
        factor = min(1.0, CLIP / size) if gamma is None else CLIP / (size + gamma)
        total = jax.tree.map(lambda sum_, g, f=weight * factor: sum_ + f * g, total, gradient)
    return total


def norm(tree):
    return np.sqrt(sum(np.sum(np.square(leaf)) for leaf in map(np.asarray, jax.tree.leaves(tree))))


def risk(features, labels, loss=None):
    data = features, jnp.asarray(labels)
    return EmpiricalRisk(loss or FirstLayer(head), data, None, WholeSpace())


def assert_close(found, expected):
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


@pytest.mark.cases(2)
@pytest.mark.parametrize("gamma", [None, 0.1])
@pytest.mark.parametrize("sparse", [True, False])
def test_sums_are_those_of_clipped_embeddings(sparse, gamma):
    tokens, counts, labels = words()
    features = SparseFeatures.of(scipy.sparse.csr_array(counts)) if sparse else jnp.asarray(counts)
    given, w = risk(features, labels), point()
    whole = jax.jit(clipped_gradient_sum(given, CLIP, gamma, microbatch=5))(w)
    assert_close(whole, twin(w, tokens, labels, np.ones(len(labels)), gamma))
    rows, weights = np.array([3, 5, 7, 7, 1, 0, 0]), np.array([1.0, 1, 1, 1, 1, 0, 0])
    for microbatch in choose((2, 3, 512), (3,)):
        found = jax.jit(clipped_batch_sum(given, CLIP, gamma, microbatch))(w, rows, weights)
        assert_close(found, twin(w, tokens[rows], labels[rows], weights, gamma))


def rated(n=23, seed=0):
    """Return users, items, ratings and tables of factors with a level in their last column."""
    rng = np.random.default_rng(seed)
    who, what = rng.integers(0, 5, n), rng.integers(0, 7, n)
    tables = jnp.asarray(rng.normal(size=(5, WIDTH))), jnp.asarray(rng.normal(size=(7, WIDTH)))
    return who, what, rng.normal(size=n), tables


def rate(rest, both, rating):
    """Half the squared error of the product of factors and three levels."""
    (user, item), levels = both, sum(part[-1] for part in both)
    return 0.5 * (user[:-1] @ item[:-1] + levels + sum(jax.tree.leaves(rest)) - rating) ** 2


@pytest.mark.parametrize("rest", choose([(), jnp.array(0.5)], [jnp.array(0.5)]))
def test_two_layers_are_clipped_together(rest):
    who, what, ratings, tables = rated()

    def loss(w, who, what, rating):
        return rate(w[1], (w[0][0][who], w[0][1][what]), rating)

    one_hot = [
        SparseFeatures.of(scipy.sparse.eye_array(len(table), format="csr")[chosen])
        for table, chosen in zip(tables, (who, what), strict=True)
    ]
    data = (one_hot[0], jnp.eye(7)[what]), jnp.asarray(ratings)
    given = EmpiricalRisk(FirstLayer(rate), data, None, WholeSpace())
    w, expected = (tables, rest), jax.tree.map(np.zeros_like, (tables, rest))
    clipped, slope = 0, jax.jit(jax.grad(loss))
    for record in zip(who, what, ratings, strict=True):
        gradient = jax.tree.map(np.asarray, slope(w, *record))
        size = norm(gradient)
        clipped += size > CLIP
        factor = min(1.0, CLIP / size)
        expected = jax.tree.map(lambda e, g, f=factor: e + f * g, expected, gradient)
    assert clipped > len(ratings) / 2
    assert_close(jax.jit(clipped_gradient_sum(given, CLIP, microbatch=5))(w), expected)


@pytest.mark.cases(2)
@pytest.mark.parametrize("strange", [np.nan, np.inf, 1e200, 1e-320])
@pytest.mark.parametrize("layer", [0, 1])
def test_one_strange_layer_of_two_is_bounded(layer, strange):
    """The bound also holds if the prediction does not depend on the layer."""
    tables = rated()[3]
    rows = [np.ones((1, len(table))) for table in tables]
    rows[layer][0, 1] = strange
    for head in (rate, lambda rest, both, rating: rate(rest, (both[1 - layer],) * 2, rating)):
        data = tuple(map(jnp.asarray, rows)), jnp.ones(1)
        given = EmpiricalRisk(FirstLayer(head), data, None, WholeSpace())
        found = jax.jit(clipped_gradient_sum(given, CLIP))((tables, np.array(0.5)))
        size = norm(found)
        assert size <= CLIP * (1.0 + 1e-12)


@pytest.mark.parametrize("shape", [(5, WIDTH), (DIM,)])
def test_a_layer_of_another_number_of_features_is_refused(shape):
    _, counts, labels = words()
    rule = rf"a layer on 30 features must have shape \(30, k\), got \({shape[0]},"
    with pytest.raises(ValueError, match=rule):
        clipped_gradient_sum(risk(jnp.asarray(counts), labels), CLIP)((jnp.ones(shape), point()[1]))


@pytest.mark.thorough  # sums are tested above
def test_changes_since_an_anchor_are_those_of_the_dense_path():
    _, counts, labels = words()
    given, w, anchor = risk(jnp.asarray(counts), labels), point(), point(2)
    dense = risk(jnp.asarray(counts), labels, lambda w, record: FirstLayer(head)(w, record))
    rows, weights = jnp.arange(9), jnp.ones(9)
    found = clipped_batch_sum(given, CLIP)(w, rows, weights, anchor)
    assert_close(found, clipped_batch_sum(dense, CLIP)(w, rows, weights, anchor))


def test_no_record_moves_the_sum_by_more_than_the_clip_norm():
    """Repeated places, places beyond the table, records that are not finite or enormous."""
    values = np.array(
        [[1.0, 1.0, 1.0], [5.0, 5.0, 5.0], [np.nan, 1, 1], [1e200, 1e200, 0], [np.inf, 0, 0]]
    )
    places = np.array([[4, 4, 4], [-1, DIM - 1, DIM + 7], [0, 1, 2], [3, 3, 5], [9, 9, 9]])
    rows = SparseFeatures(places, values, DIM)
    total = jax.jit(clipped_batch_sum(risk(rows, np.ones(5)), CLIP))
    for i in range(5):
        found = total(point(), np.array([i]), np.ones(1))
        size = norm(found)
        assert size <= CLIP * (1.0 + 1e-12)
        assert np.isfinite(size)


def test_parts_in_which_nobody_is_are_left_out():
    """Three places of eight are taken: of four parts, two are computed."""
    seen = []

    def loss(w, record):
        jax.debug.callback(lambda x: seen.append(float(x)), record)
        return w * record

    given = EmpiricalRisk(loss, jnp.arange(1.0, 9.0), None, WholeSpace())
    weights = np.array([1.0, 1, 1, 0, 0, 0, 0, 0])
    total = jax.jit(clipped_batch_sum(given, 100.0, microbatch=2))(1.0, np.arange(8), weights)
    jax.effects_barrier()
    assert total == 1.0 + 2.0 + 3.0
    assert max(seen) == 4.0


@pytest.mark.thorough  # sums are tested above
def test_a_private_run_is_that_of_the_dense_path():
    _, counts, labels = words()
    start = point()
    facts = privopt.ProblemClass(
        n=len(labels), dim=DIM * WIDTH + WIDTH + 1, lipschitz=np.inf, radius=np.inf, convex=False
    )
    budget = privopt.Budget(epsilon=2.0, delta=1e-5, relation="add_or_remove_one")
    plan = privopt.noisy_adam(facts, budget, steps=5, batch_size=6, clip_norm=CLIP, step_size=0.1)
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

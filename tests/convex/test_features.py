"""Tests of sparse features against the dense array, and of invalid rows."""

from __future__ import annotations

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from selection import few

from privopt.convex import (
    DenseFeatures,
    GeneralisedLinear,
    Logistic,
    SparseFeatures,
    as_features,
    shortened,
)
from privopt.convex.glm_newton import explicit_hessian, gram

RNG = np.random.default_rng(0)
N, DIM = 12, 30
MATRIX = scipy.sparse.random_array((N, DIM), density=0.2, rng=RNG, format="csr")
ARRAY = MATRIX.toarray()
SPARSE, DENSE = as_features(MATRIX), as_features(ARRAY)
POINTS, SHARES = RNG.normal(size=(3, DIM)), RNG.normal(size=(3, N))
both = pytest.mark.parametrize("features", [SPARSE, DENSE], ids=["sparse", "dense"])
TOLERANCE = {"rtol": 1e-13, "atol": 1e-14}


@jax.jit
def array_of(features):
    return features.block(0, features.shape[0])


@jax.jit
def norms_of(features):
    return features.norms()


@both
def test_products_norms_rows_and_blocks_are_those_of_the_array(features):
    assert features.shape == (N, DIM)
    assert features.dtype == ARRAY.dtype
    rows = np.array([5, 0, 5])

    @jax.jit
    def products(features, points, shares):
        matvec, rmatvec = features.products()
        several = [points[:k] for k in (1, 3)]
        at_points = [features.matvec(points[0]), matvec(points[0])]
        at_points += map(features.matvec, several)
        at_points += map(jax.vmap(matvec), several)
        at_shares = [features.rmatvec(shares[0]), rmatvec(shares[0])]
        at_shares += [features.rmatvec(shares[:k]) for k in (1, 3)]
        some, spaced = features.take(rows), features.take(slice(None, None, 5))
        return at_points, at_shares, [features.block(3, 4), some.block(0, 3), spaced.block(0, 3)]

    at_points, at_shares, blocks = products(features, POINTS, SHARES)
    for found, count in zip(at_points, (0, 0, 1, 3, 1, 3), strict=True):
        points = POINTS[:count] if count else POINTS[0]
        np.testing.assert_allclose(found, points @ ARRAY.T, **TOLERANCE)
    for found, count in zip(at_shares, (0, 0, 1, 3), strict=True):
        shares = SHARES[:count] if count else SHARES[0]
        np.testing.assert_allclose(found, shares @ ARRAY, **TOLERANCE)
    np.testing.assert_allclose(norms_of(features), np.linalg.norm(ARRAY, axis=1), **TOLERANCE)
    for found, expected in zip(blocks, (ARRAY[3:7], ARRAY[rows], ARRAY[::5]), strict=True):
        np.testing.assert_array_equal(found, expected)


@both
def test_factor_zero_erases_a_row_and_factor_one_keeps_its_bits(features):
    leaves = [np.array(leaf) for leaf in jax.tree.leaves(features)]
    leaves[-1][1], leaves[-1][2:] = np.nan, 1e-310 * leaves[-1][2:]
    tiny = jax.tree.unflatten(jax.tree.structure(features), leaves)
    factors = np.where(np.arange(N) == 1, 0.0, np.where(np.arange(N) == 2, 2.0, 1.0))
    found = jax.jit(lambda f, x: x.scaled(f))(factors, tiny)
    before, after = np.asarray(array_of(tiny)), np.asarray(array_of(found))
    np.testing.assert_array_equal(after[1], np.zeros(DIM))
    np.testing.assert_array_equal(after[3:], before[3:])


@both
def test_hessians_and_gram_matrices(features):
    curvatures = RNG.uniform(size=N)
    whole = ARRAY.T @ (curvatures[:, None] * ARRAY)
    np.testing.assert_allclose(explicit_hessian(features, curvatures), whole, **TOLERANCE)
    root = np.sqrt(curvatures)[:, None] * ARRAY
    np.testing.assert_allclose(gram(features, curvatures), root @ root.T, **TOLERANCE)
    some = as_features(ARRAY[:, :5]) if features is DENSE else as_features(MATRIX[:, :5])
    np.testing.assert_allclose(gram(some, curvatures), whole[:5, :5], **TOLERANCE)


def test_values_of_one_place_are_added_once_for_norms_and_products_alike():
    """Norms of the stored values would be 5, 1e30 and so on; norms of the rows are 7, 1 and 0."""
    indices = jnp.array([[4, 4, 0], [2, 2, 2], [9, -1, 3], [1, 3, 1]])
    values = jnp.array([[3.0, 4.0, 0.0], [1e30, -1e30, 1.0], [5.0, jnp.nan, 0.0], [2.0, 1.0, -2.0]])
    features = SparseFeatures(indices, values, 9)
    expected = np.zeros((4, 9))
    expected[0, 4], expected[3, 3] = 7.0, 1.0
    expected[1, 2] = array_of(features)[1, 2]  # of round-off: whatever it is, it is one number
    np.testing.assert_array_equal(array_of(features), expected)
    np.testing.assert_array_equal(norms_of(features), np.linalg.norm(expected, axis=1))
    products = jax.jit(lambda x: (x.matvec(jnp.ones(9)), x.rmatvec(jnp.ones(4))))(features)
    for found, axis in zip(products, (1, 0), strict=True):
        np.testing.assert_array_equal(found, expected.sum(axis=axis))


@pytest.mark.parametrize("wide", [True, False])
@pytest.mark.parametrize("kind", [list, np.int64, np.uint64, jnp.asarray])
def test_a_place_beyond_all_integers_is_no_place(wide, kind):
    """Regression: without x64, index 2^32 + 1 became index 1, and 2^70 raised an error."""
    places = [[2**32 + 1, 2], [2**33, 0]]
    if kind is list:
        places[1][0] = 2**70
    with jax.enable_x64(True):  # a wide array that JAX holds stays one
        places = kind(places)
    with jax.enable_x64(wide):
        features = SparseFeatures(places, jnp.asarray([[5.0, 1.0], [7.0, 2.0]], np.float32), 3)
        np.testing.assert_array_equal(array_of(features), [[0, 0, 1], [2, 0, 0]])


@pytest.mark.cases(3)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", few([1e-45, 1e-30, 1e-3, 1.0, 1e30, 1e38], [1e-45, 1.0, 1e38]))
def test_norms_of_extreme_rows_are_those_of_the_array(size, dtype):
    row = np.zeros((1, 7), dtype)
    row[0, [1, 4, 6]] = np.array([1.0, -1.0, 0.5]) * size
    sparse = SparseFeatures(np.array([[6, 1, 4, 0]]), row[:, [6, 1, 4, 0]], 7)
    norms = norms_of(sparse)
    np.testing.assert_array_equal(norms, norms_of(as_features(array_of(sparse))))
    if jax.default_backend() == "cpu" or size >= np.finfo(dtype).tiny:  # a GPU makes the others 0
        np.testing.assert_array_equal(norms, norms_of(as_features(row)))
    for bad in (np.nan, np.inf):
        row[0, 4] = bad
        assert not np.isfinite(norms_of(as_features(scipy.sparse.csr_array(row)))[0])


@pytest.mark.parametrize("format", ["csr", "csc", "coo", "lil"])
def test_any_format_of_scipy_is_taken(format):
    features = as_features(MATRIX.asformat(format))
    np.testing.assert_array_equal(array_of(features), ARRAY)
    assert features.values.shape[1] == np.diff(MATRIX.indptr).max()


def test_what_scipy_stores_twice_is_added_up_and_empty_rows_are_null():
    places = [0, 0, 2, 2], [1, 1, 3, 0]
    twice = scipy.sparse.coo_array((np.array([1.0, 2.0, 4.0, 0.0]), places), (4, 5))
    features = SparseFeatures.of(twice)
    np.testing.assert_array_equal(array_of(features), twice.toarray())
    assert norms_of(SparseFeatures.of(scipy.sparse.csr_array((3, 5)))).tolist() == [0.0] * 3


def test_a_public_width_keeps_the_first_entries_of_each_row_by_itself():
    wide, narrow = SparseFeatures.of(MATRIX, width=40), SparseFeatures.of(MATRIX, width=2)
    assert (wide.values.shape, narrow.values.shape) == ((N, 40), (N, 2))
    np.testing.assert_array_equal(array_of(wide), ARRAY)
    kept = np.asarray(array_of(narrow))
    for row, whole in zip(kept, ARRAY, strict=True):
        places = np.flatnonzero(whole)[:2]
        np.testing.assert_array_equal(np.flatnonzero(row), places)
        np.testing.assert_array_equal(row[places], whole[places])


def test_integers_become_floating_and_types_are_kept():
    whole = SparseFeatures.of(scipy.sparse.csr_array(np.eye(3, dtype=np.int64)))
    half = SparseFeatures.of(MATRIX.astype(np.float32))
    assert (whole.dtype, half.dtype, half.indices.dtype) == (jnp.float64, jnp.float32, jnp.int32)


def unsound():
    matrix = MATRIX.copy()
    matrix.indices[0] = DIM
    return matrix


REFUSED = [
    (lambda: SparseFeatures.of(ARRAY), "matrix must be one of scipy.sparse, got ndarray"),
    (lambda: SparseFeatures.of(unsound()), "matrix must be a valid sparse matrix, got"),
    (lambda: SparseFeatures.of(1j * MATRIX), "matrix must be numeric, .* of dtype complex128"),
    (lambda: SparseFeatures.of(MATRIX, width=0), "width must be a positive integer, got 0"),
    (lambda: SparseFeatures(jnp.zeros((2, 3), int), jnp.zeros((2, 2)), 4), "must share one shape"),
    (lambda: SparseFeatures(jnp.zeros((2, 0), int), jnp.zeros((2, 0)), 4), "with s positive"),
    (lambda: SparseFeatures(jnp.zeros((2, 3)), jnp.zeros((2, 3)), 4), "indices must be integers"),
    (lambda: SparseFeatures(jnp.zeros((2, 3), int), jnp.zeros((2, 3), int), 4), "values must be"),
    (lambda: SparseFeatures(jnp.zeros((2, 3), int), jnp.zeros((2, 3)), 0), "dim must be .*, got 0"),
]


@pytest.mark.parametrize(("make", "message"), REFUSED)
def test_what_is_no_sparse_matrix_is_refused_on_the_host(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_single_row_is_one_of_the_same_class():
    """A loss receives the row under vmap, with a vector and with a matrix of parameters."""
    for features in (SPARSE, DENSE):
        scores = jax.jit(jax.vmap(lambda row: row.matvec(jnp.asarray(POINTS))))(features)
        np.testing.assert_allclose(scores, ARRAY @ POINTS.T, **TOLERANCE)
        loss = GeneralisedLinear(Logistic())
        losses = jax.jit(jax.vmap(loss, (None, 0)))(POINTS[0], (features, np.ones(N)))
        np.testing.assert_allclose(losses, np.log1p(np.exp(-ARRAY @ POINTS[0])), **TOLERANCE)


def test_rows_are_shortened_alike():
    assert shortened(MATRIX, 0.25, None) is MATRIX
    short, dense = (shortened(x, 0.25, 0.02) for x in (SPARSE, ARRAY))
    assert isinstance(short, SparseFeatures)
    np.testing.assert_allclose(array_of(short), dense, rtol=1e-13)
    assert float(norms_of(short).max()) ** 2 * 0.25 <= 0.02
    assert float(norms_of(SPARSE).max()) ** 2 * 0.25 > 0.02


def test_pickles_and_compares_as_a_pytree():
    again = pickle.loads(pickle.dumps(SPARSE))
    assert jax.tree.structure(again) == jax.tree.structure(SPARSE)
    np.testing.assert_array_equal(array_of(again), ARRAY)
    other = SparseFeatures(SPARSE.indices, SPARSE.values, DIM + 1)
    assert jax.tree.structure(other) != jax.tree.structure(SPARSE)
    assert jax.tree.structure(DenseFeatures(DENSE.array)) != jax.tree.structure((DENSE.array,))


@pytest.mark.parametrize("blocks", [2, 3, 7])
def test_sums_over_blocks_of_rows_are_those_over_all_rows(blocks):
    """Accelerators sum by blocks; a last block may be shorter."""
    terms = SHARES[0][:, None] * SPARSE.values
    found = jax.jit(SPARSE._scattered_in_blocks, static_argnums=0)(blocks, terms)
    np.testing.assert_allclose(found, SHARES[0] @ ARRAY, **TOLERANCE)

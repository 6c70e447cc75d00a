"""Records that an adversary chooses: no exception, no warning, no other type, no longer row."""

import math
import pickle
import warnings

import jax
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import privopt
from privopt.estimators import (
    LinearRegression,
    LinearSVC,
    LogisticRegression,
    MultinomialRegression,
    QuantileRegression,
)
from privopt.estimators.unit_rows import UnitRows

pytestmark = pytest.mark.filterwarnings("ignore:the bound on the mean excess risk")

COMMON = {
    "budget": privopt.Budget(epsilon=2.0, delta=1e-6, relation="replace_one"),
    "data_norm": 2.0,
    "key": jax.random.key(3),
}
STEPS = {"options": {"steps": 5}}
BOUNDS = {"target_bounds": (-1.0, 3.0)}
MODELS = {
    "logistic": LogisticRegression(**COMMON, classes=(0, 1)),
    "svc": LinearSVC(**COMMON, classes=(0, 1)),
    "multinomial": MultinomialRegression(**COMMON, classes=(0, 1, 2), **STEPS),
    "linear": LinearRegression(**COMMON, **BOUNDS),
    "quantile": QuantileRegression(**COMMON, **BOUNDS, level=0.25),
}
X = np.random.default_rng(5).normal(size=(80, 3)) * 1.5
BINARY = np.arange(80) % 2
ANSWERS = {"logistic": BINARY, "svc": BINARY, "multinomial": np.arange(80) % 3}
SIZES = (1e-45, 1e-30, 1e30, 1e38, 5e-324, 1e308, -0.0, math.nan, math.inf, -math.inf)


def objects(*entries):
    """An array of just these; NumPy would look into tuples."""
    array = np.empty(len(entries), object)
    array[:] = entries
    return array


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", MODELS)
def test_two_records_change_neither_shape_nor_type_and_raises_nothing(name, dtype):
    """Whatever it holds; every warning is an error here."""
    y, forms = ANSWERS.get(name, X[:, 0]).astype(float), set()
    with np.errstate(over="ignore", under="ignore"):
        tables = [np.array(X, dtype) for _ in SIZES]
        for table, size in zip(tables, SIZES, strict=True):
            table[3] = size
    for table, size in zip(tables, SIZES, strict=True):
        found = clone(MODELS[name]).fit(table, np.r_[y[:5], size, y[6:]])
        forms.add((found.coef_.dtype, found.coef_.shape, np.shape(found.intercept_)))
        assert np.isfinite(found.coef_).all()
        assert np.isfinite(found.intercept_).all()
    assert len(forms) == 1


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("norm", [1e-30, 1e-3, 1.0, 7.0, 1e30])
def test_no_row_is_longer_than_one_but_for_a_rounding(norm, dtype, intercept):
    """8,000 rows of all sizes and about the norm, measured in long doubles.

    The problem shortens what the rounding leaves over, and every algorithm clips.
    """
    rng = np.random.default_rng(0)
    with np.errstate(over="ignore", under="ignore"):
        wild = rng.normal(size=(4000, 7)) * 10.0 ** rng.uniform(-300, 300, (4000, 1))
        given = np.vstack([wild, norm * rng.normal(size=(4000, 7)) / 2.0]).astype(dtype)
        rows = UnitRows(norm, intercept).of(given)
        stored = UnitRows(norm, intercept).of(scipy.sparse.csr_array(given)).toarray()
    assert rows.dtype == stored.dtype == dtype
    for found in (rows, stored):
        lengths = np.sqrt(np.sum(found.astype(np.longdouble) ** 2, axis=1))
        assert 1.0 - 1e-6 <= lengths.max() <= 1.0 + 2.0 * np.finfo(dtype).eps


def test_what_a_sparse_matrix_stores_twice_counts_as_its_sum():
    twice = (np.array([3.0, 3.0, np.inf, -np.inf]), np.array([0, 0, 1, 1]), np.array([0, 2, 4]))
    rows = UnitRows(1.0, intercept=False).of(scipy.sparse.csr_array(twice, (2, 2)))
    assert np.nan_to_num(rows.toarray()).tolist() == [[1.0, 0.0], [0.0, 0.0]]


@pytest.mark.parametrize("norm", [1e-31, 1e31, 1e-300])
def test_a_norm_whose_square_may_vanish_is_refused(norm):
    with pytest.raises(ValueError, match=r"data_norm must lie in \[1e-30, 1e30\], got"):
        clone(MODELS["logistic"]).set_params(data_norm=norm).fit(X, BINARY)


@pytest.mark.parametrize("bounds", [(-1.7e308, 1.7e308), (0.0, 1e31), (-math.inf, 0.0)])
@pytest.mark.parametrize("name", ["linear", "quantile"])
def test_bounds_whose_distance_overflows_are_refused(name, bounds):
    with pytest.raises(ValueError, match=r"target_bounds must be finite, .* within 1e30 of 0"):
        clone(MODELS[name]).set_params(target_bounds=bounds).fit(X, X[:, 0])


@pytest.mark.parametrize("strange", ["text", (1, [2]), b"1", {}, 7, None, 1 + 2j, pd.NA])
def test_one_strange_label_is_a_null_record(strange):
    """Whatever its type: hostile ones have no hash, or would choose between error and none."""
    null = X.copy()
    null[4] = np.nan
    expected = clone(MODELS["logistic"]).fit(null, BINARY)
    found = clone(MODELS["logistic"]).fit(X, objects(*BINARY[:4], strange, *BINARY[5:]))
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-9)


@pytest.mark.parametrize(
    ("classes", "y", "rule"),
    [
        (("no", "yes"), np.where(BINARY, b"yes", b"no"), "y must hold texts, .* got neither"),
        ((0.1, 0.2), np.where(BINARY, 0.2, 0.1).astype(np.float32), "y must be of a type that can"),
        (([1], [2]), BINARY, "classes must be texts alone, or numbers and booleans alone"),
        ((0, "one"), BINARY, "classes must be texts alone, or numbers and booleans alone"),
        ((math.nan, 1.0), BINARY, "classes must be texts alone, or numbers and booleans alone"),
        ((0, False), BINARY, "classes must be 2 or more distinct values"),
        ({0, 1}, BINARY, "classes must be a sequence, such as"),
    ],
)
def test_labels_that_would_all_be_null_are_refused(classes, y, rule):
    with pytest.raises(ValueError, match=rule):
        clone(MODELS["logistic"]).set_params(classes=classes).fit(X, y)


@pytest.mark.parametrize("name", MODELS)
def test_the_key_is_printed_nowhere(name):
    """Nor by the pipelines it stands in; it is what takes the noise off."""
    key = jax.random.key(271828182)
    model = clone(MODELS[name]).set_params(key=key)
    line = make_pipeline(FunctionTransformer(), model)
    for each in (model, line, clone(model)):
        for shown in (repr(each), str(each), each._repr_html_()):
            assert "271828182" not in shown
    assert "a secret key" in repr(model)
    again = type(model)(**model.get_params())
    y = ANSWERS.get(name, X[:, 0])
    fits = [each.fit(X, y).coef_ for each in (model, again, pickle.loads(pickle.dumps(again)))]
    np.testing.assert_array_equal(fits[0], fits[1])


def test_by_default_a_support_vector_machine_promises_more_than_a_constant():
    """On 20,000 records of five columns; noisy descent on the plain hinge never did."""
    model = LinearSVC(**COMMON | {"data_norm": 1.0}, classes=(0, 1))
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(20_000, 5))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = model.fit(rows, (rows[:, 0] > 0.0).astype(int))
    assert found.score(rows, rows[:, 0] > 0.0) > 0.9


@pytest.mark.parametrize("name", ["logistic", "linear"])
def test_a_record_more_than_the_public_number_is_refused(name):
    """Not told apart below it, and without a table to be told from."""
    budget = privopt.Budget(epsilon=1.0, delta=1e-6, relation="add_or_remove_one")
    y = ANSWERS.get(name, X[:, 0])
    for n in (80, 81):
        model = clone(MODELS[name]).set_params(budget=budget, n=n)
        assert np.isfinite(model.fit(X, y).coef_).all()
    with pytest.raises(ValueError, match="at most 79, on which the plan rests"):
        model.set_params(n=79).fit(X, y)
    with pytest.raises(ValueError, match="a row and a column at least"):
        model.fit(X[:0], y[:0])

"""Adversarial records: no exception, no warning, no change of types, and no row above the norm."""

import math
import warnings
from decimal import Decimal
from functools import partial

import jax
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse
from selection import few
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
BOUNDS = {"bounds_y": (-1.0, 3.0)}
MODELS = {
    "logistic": LogisticRegression(**COMMON, classes=(0, 1)),
    "svc": LinearSVC(**COMMON, classes=(0, 1)),
    "multinomial": MultinomialRegression(**COMMON, classes=(0, 1, 2), **STEPS),
    "linear": LinearRegression(**COMMON, **BOUNDS),
    "quantile": QuantileRegression(**COMMON, **BOUNDS, quantile=0.25),
}
X = np.random.default_rng(5).normal(size=(80, 3)) * 1.5
BINARY = np.arange(80) % 2
ANSWERS = {"logistic": BINARY, "svc": BINARY, "multinomial": np.arange(80) % 3}
SIZES = (1e-45, 1e-30, 1e30, 1e38, 5e-324, 1e308, -0.0, math.nan, math.inf, -math.inf)


def fresh(name, **parameters):
    """Return an unfitted model with the key of ``COMMON`` for its first fit."""
    return clone(MODELS[name]).set_params(**{"key": COMMON["key"]} | parameters)


def objects(*entries):
    """Return an array of these objects; NumPy would convert tuples to rows."""
    array = np.empty(len(entries), object)
    array[:] = entries
    return array


@pytest.mark.cases(2)
@pytest.mark.parametrize("dtype", few([np.float32, np.float64], [np.float32]))
@pytest.mark.parametrize("name", MODELS)
def test_two_records_change_neither_shape_nor_type_and_raises_nothing(name, dtype):
    """Fit extreme records; every warning is an error in this test."""
    y, forms = ANSWERS.get(name, X[:, 0]).astype(float), set()
    sizes = few(SIZES, (1e-45, 1e38, 1e308, math.nan, -math.inf))
    with np.errstate(over="ignore", under="ignore"):
        tables = [np.array(X, dtype) for _ in sizes]
        for table, size in zip(tables, sizes, strict=True):
            table[3] = size
    for table, size in zip(tables, sizes, strict=True):
        model = fresh(name).fit(table, np.r_[y[:5], size, y[6:]])
        forms.add((model.coef_.dtype, model.coef_.shape, np.shape(model.intercept_)))
        assert np.isfinite(model.coef_).all()
        assert np.isfinite(model.intercept_).all()
    assert len(forms) == 1


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("norm", [1e-30, 1e-3, 1.0, 7.0, 1e30])
def test_no_row_is_longer_than_one_but_for_a_rounding(norm, dtype, intercept):
    """Measure 8,000 rows of all sizes, many of them near the norm, in long doubles.

    The problem scales down rows that exceed the norm by rounding, and every algorithm clips.
    """
    rng = np.random.default_rng(0)
    with np.errstate(over="ignore", under="ignore"):
        wild = rng.normal(size=(4000, 7)) * 10.0 ** rng.uniform(-300, 300, (4000, 1))
        inputs = np.vstack([wild, norm * rng.normal(size=(4000, 7)) / 2.0]).astype(dtype)
        rows = UnitRows(norm, intercept).of(inputs)
        stored = UnitRows(norm, intercept).of(scipy.sparse.csr_array(inputs)).toarray()
    assert rows.dtype == stored.dtype == dtype
    for model in (rows, stored):
        lengths = np.sqrt(np.sum(model.astype(np.longdouble) ** 2, axis=1))
        assert 1.0 - 1e-6 <= lengths.max() <= 1.0 + 2.0 * np.finfo(dtype).eps


def test_what_a_sparse_matrix_stores_twice_counts_as_its_sum():
    twice = (np.array([3.0, 3.0, np.inf, -np.inf]), np.array([0, 0, 1, 1]), np.array([0, 2, 4]))
    rows = UnitRows(1.0, intercept=False).of(scipy.sparse.csr_array(twice, (2, 2)))
    assert np.nan_to_num(rows.toarray()).tolist() == [[1.0, 0.0], [0.0, 0.0]]


@pytest.mark.parametrize("norm", [1e-31, 1e31, 1e-300])
def test_a_norm_whose_square_may_vanish_is_refused(norm):
    with pytest.raises(ValueError, match=r"data_norm must be in \[1e-30, 1e30\], got"):
        fresh("logistic", data_norm=norm).fit(X, BINARY)


@pytest.mark.parametrize("bounds", [(-1.7e308, 1.7e308), (0.0, 1e31), (-math.inf, 0.0)])
@pytest.mark.parametrize("name", ["linear", "quantile"])
def test_bounds_whose_distance_overflows_are_refused(name, bounds):
    with pytest.raises(ValueError, match=r"bounds_y must be finite, .* at most 1e30 in size"):
        fresh(name, bounds_y=bounds).fit(X, X[:, 0])


def test_one_strange_label_is_a_null_record():
    """Test labels of all types, also without a hash."""
    null = X.copy()
    null[4] = np.nan
    expected = fresh("logistic").fit(null, BINARY)
    for strange in ("text", (1, [2]), b"1", {}, 7, None, 1 + 2j, pd.NA):
        model = fresh("logistic").fit(X, objects(*BINARY[:4], strange, *BINARY[5:]))
        np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-9)


@pytest.mark.parametrize(
    ("classes", "y", "rule"),
    [
        (("no", "yes"), np.where(BINARY, b"yes", b"no"), "y must hold texts, .* got bytes_"),
        (
            (0.1, 0.2),
            np.where(BINARY, 0.2, 0.1).astype(np.float32),
            "y must be of a type that can hold",
        ),
        (([1], [2]), BINARY, "classes must be texts alone, or numbers and booleans alone"),
        ((0, "one"), BINARY, "classes must be texts alone, or numbers and booleans alone"),
        ((math.nan, 1.0), BINARY, "classes must be texts alone, or numbers and booleans alone"),
        ((0, False), BINARY, "classes must be 2 or more distinct values"),
        ({0, 1}, BINARY, "classes must be a sequence such as"),
    ],
)
def test_labels_that_would_all_be_null_are_refused(classes, y, rule):
    with pytest.raises(ValueError, match=rule):
        fresh("logistic", classes=classes).fit(X, y)


@pytest.mark.parametrize("name", MODELS)
def test_the_key_is_printed_nowhere(name):
    """Print models and pipelines; the noise could be removed with the key."""
    key = jax.random.key(271828182)
    model = fresh(name, key=key)
    line = make_pipeline(FunctionTransformer(), model)
    for each in (model, line, clone(model)):
        for text in (repr(each), str(each), each._repr_html_()):
            assert "271828182" not in text
    assert "a secret key" in repr(model)


@pytest.mark.thorough  # one default
def test_by_default_a_support_vector_machine_promises_more_than_a_constant():
    """Test 20,000 records of five columns.

    Noisy descent on the hinge loss has no such bound at this size.
    """
    model = LinearSVC(**COMMON | {"data_norm": 1.0}, classes=(0, 1))
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(20_000, 5))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = model.fit(rows, (rows[:, 0] > 0.0).astype(int))
    assert model.score(rows, rows[:, 0] > 0.0) > 0.9


@pytest.mark.parametrize("name", ["logistic", "linear"])
def test_a_record_more_than_the_public_number_is_refused(name):
    """Test ``n`` equal to, above and below the number of rows, and a table without rows."""
    budget = privopt.Budget(epsilon=1.0, delta=1e-6, relation="add_or_remove_one")
    y = ANSWERS.get(name, X[:, 0])
    for n in (80, 81):
        model = fresh(name, budget=budget, n=n)
        assert np.isfinite(model.fit(X, y).coef_).all()
    with pytest.raises(ValueError, match="at most 79, an assumption of the plan"):
        model.set_params(n=79).fit(X, y)
    with pytest.raises(ValueError, match="at least one row and one column"):
        model.fit(X[:0], y[:0])


def outcome(call):
    """Return type and message of the exception, the messages of warnings, and dtype and shape."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model = call()
            result = model.coef_.dtype, model.coef_.shape, bool(np.isfinite(model.coef_).all())
        except Exception as raised:
            result = type(raised), str(raised)
    return result, [str(each.message) for each in caught]


def nested(table):
    return [list(row) for row in table.tolist()]


def frame_of(dtype):
    return lambda table: pd.DataFrame(
        {
            name: pd.Series(objects(*column), dtype=dtype)
            for name, column in zip("abc", table.T, strict=True)
        }
    )


def arrow_of(kind):
    return lambda table: pa.table(
        {
            name: pa.array([None if x is pd.NA else x for x in column], kind)
            for name, column in zip("abc", table.T, strict=True)
        }
    )


USABLE = [True, 1e308]
ENTRIES = [
    *USABLE, None, math.nan, math.inf, -math.inf, pd.NA, pd.NaT, np.ma.masked,
    np.datetime64("NaT"), "text", b"text", 10**400, Decimal("sNaN"), 1 + 2j, {}, [], (1, [2]),
    np.ones(2), object(),
]  # fmt: skip
UNTYPED = {
    "objects": np.array,
    "nested": nested,
    "tuples": lambda table: tuple(tuple(row) for row in table.tolist()),
    "rows": lambda table: [objects(*row) for row in table],
    "frame": frame_of(object),
    "masked": lambda table: np.ma.array(table, mask=np.zeros(table.shape, bool)),
}
NULLABLE = {
    "Float64": frame_of("Float64"),
    "Float32": frame_of("Float32"),
    "boolean": frame_of("boolean"),
    "Int8": frame_of("Int8"),
    "double[pyarrow]": frame_of("double[pyarrow]"),
    "arrow": arrow_of(pa.float64()),
    "arrow float32": arrow_of(pa.float32()),
    "arrow integers": arrow_of(pa.int64()),
}


@pytest.mark.cases(2)
@pytest.mark.parametrize("name", few(["logistic", "linear"], ["logistic"]))  # they read rows alike
@pytest.mark.parametrize("form", few(UNTYPED, ["objects", "nested", "frame"]))
def test_one_entry_of_untyped_rows_decides_nothing(form, name):
    """Compare with a row that is NaN: the record is null."""
    y = ANSWERS.get(name, X[:, 0])
    null = X.copy()
    null[4] = math.nan
    expected = fresh(name).fit(null, y)
    usual = outcome(lambda: fresh(name).fit(UNTYPED[form](X.astype(object)), y))
    for entry in ENTRIES:
        table = X.astype(object)
        table[4, 1] = entry
        model = fresh(name)
        call = partial(lambda model, table: model.fit(UNTYPED[form](table), y), model, table)
        assert outcome(call) == usual, entry
        if not any(entry is usable for usable in USABLE):
            np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-9)


@pytest.mark.parametrize("form", NULLABLE)
def test_one_missing_entry_of_typed_columns_decides_nothing(form):
    table = (
        (X > 0.0).astype(object)
        if form in ("boolean", "Int8", "arrow integers")
        else X.astype(object)
    )
    if form != "boolean":
        table = table * 1 if form in ("Int8", "arrow integers") else table
    full = outcome(lambda: fresh("logistic").fit(NULLABLE[form](table), BINARY))
    table = table.copy()
    table[4, 1] = pd.NA
    assert outcome(lambda: fresh("logistic").fit(NULLABLE[form](table), BINARY)) == full
    assert full[0][0] == (np.float32 if "32" in form else np.float64)


LABELS = {
    "boolean": (pd.Series(BINARY > 0, dtype="boolean"), pd.NA, None),
    "bool[pyarrow]": (pd.Series(BINARY > 0, dtype="bool[pyarrow]"), None, None),
    "Int8, classes beyond": (pd.Series(BINARY, dtype="Int8"), pd.NA, (0, 300)),
    "Int8": (pd.Series(BINARY, dtype="Int8"), pd.NA, (0, 1)),
    "uint8": (BINARY.astype(np.uint8), 7, (-1, 1)),
    "integers": (BINARY, -7, (0, 2**40)),
    "floats": (BINARY * 1.0, math.nan, (0, 1)),
    "texts": (pd.Series(np.where(BINARY, "yes", "no"), dtype="string"), pd.NA, ("no", "yes")),
    "category": (pd.Series(BINARY).astype("category"), None, (0, 1)),
}


@pytest.mark.parametrize("kind", LABELS)
def test_one_missing_label_decides_nothing(kind):
    full, missing, classes = LABELS[kind]
    changed = full.copy()
    changed[3] = missing
    results = [
        outcome(lambda y=y: fresh("logistic", classes=classes).fit(X, y)) for y in (full, changed)
    ]
    assert results[0] == results[1]
    assert results[0][0][0] == np.float64


def test_a_missing_value_that_turns_integers_into_floats_decides_nothing():
    """Test the types that pandas infers for a column of integers with a missing value."""
    floats = np.where(np.arange(80) == 3, math.nan, BINARY)
    for classes in ((0, 1), (-1, 1), (0, 300), (0.5, 1)):
        model = partial(fresh, "logistic", classes=classes)
        one, two = (
            outcome(lambda y=y, model=model: model().fit(X, y))
            for y in (BINARY.astype(np.uint8), floats)
        )
        assert one == two


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    "form", [list, tuple, lambda y: objects(*y), lambda y: pd.Series(y, dtype=object)]
)
@pytest.mark.parametrize("name", few(MODELS, ["logistic", "linear"]))  # classes and targets
def test_one_entry_of_untyped_answers_decides_nothing(form, name):
    """Test an unusable class or target: its record is null."""
    y = ANSWERS.get(name, X[:, 0]).tolist()
    usual = outcome(lambda: fresh(name).fit(X, form(y)))
    for entry in ENTRIES:
        changed = [*y[:3], entry, *y[4:]]
        assert outcome(lambda changed=changed: fresh(name).fit(X, form(changed))) == usual, entry


@pytest.mark.parametrize("y", [[True, False] * 40, objects(*[True, False] * 40)])
def test_booleans_without_a_type_need_classes(y):
    """Check that entries are not inspected: one missing entry would make a difference."""
    with pytest.raises(ValueError, match=r"classes must be given, .* boolean type only"):
        fresh("logistic", classes=None).fit(X, y)


PREDICTIONS = {
    "logistic": ("predict", "predict_proba", "predict_log_proba", "decision_function"),
    "svc": ("predict", "decision_function"),
    "multinomial": ("predict", "predict_proba", "decision_function"),
    "linear": ("predict",),
    "quantile": ("predict",),
}


@pytest.mark.cases(2)
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("entry", [math.nan, math.inf, -math.inf, None, "text"])
def test_a_prediction_of_a_row_that_is_not_finite_is_refused(name, entry):
    model = fresh(name).fit(X, ANSWERS.get(name, X[:, 0]))
    row = objects(1.0, entry, 0.0)[None]
    tables = [row, row.tolist(), pd.DataFrame(row, dtype=object)]
    if isinstance(entry, float):
        tables += [
            row.astype(float),
            scipy.sparse.csr_array(row.astype(float)),
            row.astype(np.float32),
        ]
    for table in tables:
        for method in PREDICTIONS[name]:
            with pytest.raises(
                ValueError, match="X must be finite in a prediction, got NaN or inf"
            ):
                getattr(model, method)(table)
    with pytest.raises(ValueError, match="X must be finite in a prediction"):
        model.score(np.full((1, 3), math.nan), ANSWERS.get(name, X[:, 0])[:1])


SENTINELS = [
    ["PERSON-A", "PERSON-B"],
    ("PERSON-A", "PERSON-B", "PERSON-C"),
    [31337.25, 31338.25, 31339.25],
    np.array(["PERSON-A", "PERSON-B"]),
    np.array(["PERSON-A", 31337], object),
    np.array([31337.25, 31338.25]),
    pd.Series(["PERSON-A", "PERSON-B"]),
    pd.Series([31337, pd.NA], dtype="Int64"),
    pd.Series(["PERSON-A", None], dtype="string"),
    pa.array(["PERSON-A", "PERSON-B"]),
    pa.table({"x": ["PERSON-A", "PERSON-B"]}),
]
COMMON_PARAMETERS = (
    "budget", "epsilon", "delta", "relation", "data_norm", "key", "n", "fit_intercept", "radius",
    "algorithm", "options",
)  # fmt: skip
PARAMETERS = {
    "logistic": (*COMMON_PARAMETERS, "classes"),
    "quantile": (*COMMON_PARAMETERS, "bounds_y", "quantile", "width"),
}


def refusal(name, inputs, **parameters):
    """Return the error of a fit, which must be a ``ValueError`` without a sentinel."""
    records = {"X": X, "y": ANSWERS.get(name, X[:, 0])} | inputs
    error, messages = outcome(lambda: fresh(name, **parameters).fit(**records))
    assert issubclass(error[0], ValueError), error
    assert not any(part in str((error, messages)) for part in ("PERSON", "31337", "31338"))
    return error[1]


@pytest.mark.cases(8)
@pytest.mark.parametrize("name", PARAMETERS)
@pytest.mark.parametrize("sentinel", SENTINELS, ids=lambda each: type(each).__name__)
def test_a_column_at_the_place_of_a_parameter_is_not_printed(name, sentinel):
    """Check that the error names the parameter. Distinct values are accepted as public classes."""
    distinct = isinstance(sentinel, list | tuple | np.ndarray)
    for parameter in PARAMETERS[name]:
        if not (parameter == "classes" and distinct):
            assert parameter in refusal(name, {}, **{parameter: sentinel})
    for records in ("X", "y"):
        refusal(name, {records: sentinel})


def test_a_column_at_the_place_of_classes_is_not_printed():
    column = ["PERSON-A", "PERSON-B"] * 40
    for classes in (
        column,
        np.array(column),
        tuple(column),
        [*column[:2], "PERSON-C"],
        ["PERSON-A", 31337],
    ):
        assert "classes" in refusal("logistic", {"y": column}, classes=classes)
